"""Let go of the models of the round before, where each round of a loop trains new ones.

    for fold in range(5):                    for fold in range(5):
        model = Net()                ->          accelerator.free_memory()
        ...                                      model = Net()
                                                 model, ... = accelerator.prepare(model, ...)

Why: the accelerator keeps what it has prepared, with gradients and optimizer states, until it is asked to forget it.
Five folds, or fifty settings of a sweep, would fill the GPU's memory.
Left alone: loops round which a model or an optimizer lasts, and loops in which the accelerator itself is created.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Change, Insert
from accelify.codemod.preparing.placing import body_start
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import LOOPS
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops import Loops
from accelify.codemod.training.roles import stepped

NAME = "free_memory"
OPTIONAL = True


def find(script: Script) -> Iterator[Change]:
    """A line at the top of the loop in whose rounds all models are made, prepared and trained; loaders may last.

    Also at the top of a function that a library's sweep calls with one setting after another.
    """
    loops = Loops(script.program, script.roles, script.tracer)
    optimizers = [stepped(step) for step in script.training.steps]
    found = loops.anew.outer_round([*_trained_at(script), *script.training.backwards], optimizers)
    node = found.node if isinstance(found, Scope) else found
    if found in script.reach.homes or not isinstance(node, (*LOOPS, ast.FunctionDef)):
        return
    if (accelerator := script.accelerator(node.body[0])) is None:
        return
    edit = Insert(body_start(node.body), "before", f"{accelerator}.free_memory()")
    reason = "each round trains new models: those of the round before are forgotten"
    yield Change(NAME, script.path(node), node.lineno, reason, (edit,))


def _trained_at(script: Script) -> Iterator[ast.AST]:
    """The places where models and optimizers are prepared."""
    for group in script.preparation.groups:
        if any(item.kind != "loader" for item in group.items):
            yield group.anchor or body_start(group.frame.body)
    for item in script.preparation.bare_models:
        yield item.statement or body_start(item.frame.body)
    yield from (node for kind, node in script.preparation.wrapped if kind != "loader")
