"""A member of the model that its wrapper does not have.

    model = DistributedDataParallel(model)       model = DistributedDataParallel(model)
    penalty = model.regularise()           ->    penalty = model.module.regularise()

Why: the wrapper is another object. It has the members of every module, and none of the model's own: to read one fails,
and what is assigned to one the model never sees. `accelerator.prepare` of Accelerate wraps, too, as soon as there are
several processes; there it is `accelerator.unwrap_model(model).regularise()`.
Left alone: members of every module; what stands under a condition about the wrapper or the number of processes;
accelify's own `prepare`, which gives the model back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.edits.values import Edit, Replace
from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Value

NAME = "hidden_attribute"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each member of the project's own model that is asked of, or assigned to, its wrapper."""
    trained = processes.once(Trained)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    nodes = (n for parsed in processes.program.files for n in parsed.nodes if isinstance(n, ast.Attribute))
    for node in sorted(nodes, key=processes.program.position):
        if _is_of_every_module(node.attr) or not trained.is_wrapped(node.value) or not processes.is_run(node):
            continue
        owners = trained.held(node.value)
        if any(_has(processes, v, node.attr) for v in owners) and not _may_be_asked_before(processes, node):
            yield Finding(NAME, node, _message(node), _fix(trained, node))


def _is_of_every_module(attribute: str) -> bool:
    known = table.member("module", attribute) or table.member("wrapper", attribute)
    return known is not None or vocabulary.is_answered_by_wrapper(attribute) or attribute.startswith("_")


def _may_be_asked_before(processes: Processes, node: ast.AST) -> bool:
    """Whether a condition, or a `try`, may see to it that there is no wrapper."""
    texts = [ast.unparse(test) for test in processes.tests_before(node)]
    is_tried = any(isinstance(a, ast.Try) for a in processes.program.ancestors(node))
    return is_tried or processes.may_be_guarded(node) or any(map(vocabulary.may_ask_for_wrapper, texts))


def _has(processes: Processes, value: Value, attribute: str) -> bool:
    """Whether an object is one of a class of the project's own that has a member."""
    if not isinstance(value, Instance):
        return False
    if processes.program.flow.method(value.cls, attribute) is not None:
        return True
    writes = processes.program.attribute_writes.get(attribute, ())
    return any(_class_round(processes, write) is value.cls and ast.unparse(write.value) == "self" for write in writes)


def _class_round(processes: Processes, node: ast.AST) -> Scope | None:
    return processes.program.frame(node).parent


def _message(node: ast.Attribute) -> str:
    owner = ast.unparse(node.value)
    if isinstance(node.ctx, ast.Load):
        return f"`{owner}` is a wrapper and has no `{node.attr}`: ask the model inside"
    return f"`{owner}` is a wrapper: the model inside never sees this `{node.attr}`"


def _fix(trained: Trained, node: ast.Attribute) -> tuple[Edit, ...]:
    """`model.module.x`, where the wrapper is there however many processes there are."""

    def inside(code: cst.CSTNode) -> cst.BaseExpression:
        assert isinstance(code, cst.BaseExpression)
        return cst.Attribute(code, cst.Name("module"))

    return (Replace(node.value, inside),) if trained.is_always_wrapped(node.value) else ()
