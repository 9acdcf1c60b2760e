"""Take `nn.DataParallel` off.

    model = nn.DataParallel(model)    ->    (nothing)
    model.module.state_dict()         ->    model.state_dict()

Why: one process per device is faster, and a prepared model needs no wrapper: it keeps its class and its attributes.
Left alone: `.module` of anything that no wrapper was put round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.edits import Change, Plan, Remove, Replace
from accelify.codemod.script import Script

NAME = "parallel_wrappers"


def find(script: Script, plan: Plan) -> Iterator[Change]:
    """A change for each wrapper and for each `.module`."""
    for call in script.wrappers:
        yield _unwrap(script, call)
    if script.wrappers:
        yield from _members(script)


def _unwrap(script: Script, call: ast.Call) -> Change:
    statement = script.program.statement(call)
    reason = "one process per device needs no wrapper round the model"
    if (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and ast.unparse(statement.targets[0]) == ast.unparse(_inside(script, statement.value))
    ):
        return Change(NAME, script.path(call), call.lineno, reason, (Remove(statement),))
    return Change(NAME, script.path(call), call.lineno, reason, (Replace(call, first_argument, keeps=(call.args[0],)),))


def _inside(script: Script, node: ast.expr) -> ast.expr:
    """What is left of an expression without its wrappers and needless moves."""
    needless = {m.call: m.receiver for m in script.moves if script.is_needless(m)}
    while isinstance(node, ast.Call):
        if node in script.wrappers:
            node = node.args[0]
        elif node in needless:
            node = needless[node]
        else:
            break
    return node


def first_argument(call: cst.CSTNode) -> cst.BaseExpression:
    """`model` for `DataParallel(model, ...)`."""
    assert isinstance(call, cst.Call)
    return call.args[0].value


def _members(script: Script) -> Iterator[Change]:
    for node in list(script.program.flow.values):
        if not isinstance(node, ast.Attribute) or node.attr != "module" or not isinstance(node.ctx, ast.Load):
            continue
        if script.path(node) in script.files and any(
            script.roles.is_model(v) for v in script.program.values(node.value)
        ):
            yield Change(
                NAME,
                script.path(node),
                node.lineno,
                "a prepared model is the model itself",
                (Replace(node, inner, keeps=(node.value,)),),
            )


def inner(node: cst.CSTNode) -> cst.BaseExpression:
    """`model` for `model.module`."""
    assert isinstance(node, cst.Attribute)
    return node.value
