"""Reach what Accelerate's `prepare` wraps, where nothing is wrapped.

    model.module.config         ->    model.config
    optimizer.optimizer         ->    optimizer
    with model.no_sync():       ->    with accelerator.no_sync(model):

Why: accelify's `prepare` gives back the very same model, optimizer and schedule. What lies inside Accelerate's wrappers
lies on the object itself.
Left alone: `unwrap_model`, which gives the model here, too; and an attribute under a condition that asks whether it is
there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.accelerate.uses import AccelerateUses
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Replace

NAME = "accelerate_wrappers"
_REASON = "accelify wraps nothing"


def find(script: AccelerateUses) -> Iterator[Change]:
    """A change for each way into a wrapper."""
    for node in script.unwrapping:
        edit = Replace(node, itself, keeps=(node.value,))
        yield Change(NAME, script.program.path(node), node.lineno, _REASON, (edit,))
    for node, accelerator in script.unsynchronised:
        parent = script.program.parent(node)
        whole = parent if isinstance(parent, ast.Call) and parent.func is node else node
        make = partial(snippets.without_sync, accelerator=accelerator)
        edit = Replace(whole, make, keeps=(node.value,), reads=(accelerator.partition(".")[0],))
        yield Change(NAME, script.program.path(node), node.lineno, _REASON, (edit,))


def itself(node: cst.CSTNode) -> cst.BaseExpression:
    """`model` for `model.module`."""
    assert isinstance(node, cst.Attribute)
    return node.value
