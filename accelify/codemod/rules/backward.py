"""Send the backward pass through the accelerator.

    loss.backward()    ->    accelerator.backward(loss)

Why: fp16 needs the loss scaled, gradient accumulation needs it divided, and when it returns the gradients of every
prepared model agree on all processes.
Left alone: `backward` methods of the project's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod import snippets
from accelify.codemod.edits import Change, Obstacle, Plan, Replace
from accelify.codemod.script import Script

NAME = "backward"
_POSITIONAL = ("gradient", "retain_graph", "create_graph")


def find(script: Script, plan: Plan) -> Iterator[Change | Obstacle]:
    """A change for each backward pass."""
    for call in script.training.backwards:
        assert isinstance(call.func, ast.Attribute)
        path = script.path(call)
        obstacle = _obstacle(script, call)
        if obstacle is not None:
            yield Obstacle(NAME, path, call, obstacle)
            continue
        accelerator = script.accelerator(call)
        if accelerator is None:
            yield Obstacle(NAME, path, call, "the accelerator cannot be handed to this backward pass")
            continue
        yield Change(
            rule=NAME,
            path=path,
            line=call.lineno,
            reason="the accelerator scales the loss, and brings the gradients of all processes together",
            edits=(
                Replace(
                    call,
                    partial(through_accelerator, accelerator=accelerator),
                    keeps=(call.func.value, *call.args, *call.keywords),
                    reads=(accelerator.split(".")[0],),
                ),
            ),
        )


def _obstacle(script: Script, call: ast.Call) -> str | None:
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    if any(name.startswith("torch.autograd") for name in script.program.externals(receiver)):
        return "`torch.autograd.backward` takes several losses: add them up and call `.backward()` on the sum"
    if any(script.roles.is_optimizer(v) for v in script.program.values(receiver)):
        return "the optimizer runs the backward pass itself (mixed precision of another library)"
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(_POSITIONAL):
        return "cannot tell which arguments `backward` gets"
    return None


def through_accelerator(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`loss.backward(...)` as `accelerator.backward(loss, ...)`; `call` already holds any edits made inside it."""
    assert isinstance(call, cst.Call)
    assert isinstance(call.func, cst.Attribute)
    loss = cst.Arg(snippets.bare(call.func.value))
    named = zip(_POSITIONAL, call.args, strict=False)
    rest = [a if a.keyword else _keyword(name, a) for name, a in named] + list(call.args[len(_POSITIONAL) :])
    arguments = (
        [loss.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))), *rest] if rest else [loss]
    )
    return call.with_changes(func=cst.parse_expression(f"{accelerator}.backward"), args=arguments)


def _keyword(name: str, argument: cst.Arg) -> cst.Arg:
    bare = cst.SimpleWhitespace("")
    return argument.with_changes(keyword=cst.Name(name), equal=cst.AssignEqual(bare, bare))
