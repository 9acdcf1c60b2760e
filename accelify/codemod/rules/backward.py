"""Send the backward pass through the accelerator.

    loss.backward()                         ->    accelerator.backward(loss)
    torch.autograd.backward(loss)           ->    accelerator.backward(loss)
    torch.autograd.backward([one, other])   ->    accelerator.backward(one + other)
    loss.backward()  # for `x.grad` alone   ->    loss.backward(inputs=[x])

Why: fp16 needs the loss scaled, gradient accumulation needs it divided, and when it returns the gradients of every
prepared model agree on all processes. An attack runs the model backwards for the gradient of a batch, and `zero_grad`
clears what the weights got before any step: each process does that for its own rows, as often as these need it.
Left alone: `backward` methods of the project's own; and a pass outside of all loops of which only the gradient of some
tensor is read, and no step takes any: `y.backward(); print(x.grad)`. `torch.autograd.backward` with a list whose losses
cannot be named one by one, or that start from gradients given, holds the file back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Obstacle, Replace
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.losses import AUTOGRAD_PARAMETERS, is_by_function, is_for_inputs, losses_of

NAME = "backward"
_POSITIONAL = ("gradient", "retain_graph", "create_graph")


def find(script: Script) -> Iterator[Change | Obstacle]:
    """A change for each backward pass."""
    for call in script.training.backwards:
        assert isinstance(call.func, ast.Attribute)
        if call in script.training.for_inputs or _is_shown(script, call):
            continue
        path = script.path(call)
        obstacle = _obstacle(script, call)
        if obstacle is not None:
            yield Obstacle(NAME, path, call, obstacle)
            continue
        accelerator = script.accelerator(call)
        if accelerator is None:
            yield Obstacle(NAME, path, call, "the accelerator cannot be passed to this backward pass")
            continue
        yield Change(
            rule=NAME,
            path=path,
            line=call.lineno,
            reason="the accelerator scales the loss, and averages the gradients across processes",
            edits=(
                Replace(
                    call,
                    partial(
                        added_up if is_by_function(script.program, call) else through_accelerator,
                        accelerator=accelerator,
                    ),
                    keeps=(*losses_of(script.program, call), *_kept(script, call)),
                    reads=(accelerator.split(".")[0],),
                ),
            ),
        )

    for call, tensors in script.training.for_inputs.items():
        if any(k.arg == "inputs" for k in call.keywords):
            continue
        named = [ast.unparse(tensor) for tensor in tensors]
        yield Change(
            rule=NAME,
            path=script.path(call),
            line=call.lineno,
            reason=f"only {_listed(named)} needs a gradient here, and that of each process's own rows",
            edits=(Replace(call, partial(for_inputs, named=named), keeps=(call.func, *_kept(script, call))),),
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _is_shown(script: Script, call: ast.Call) -> bool:
    """Whether a pass is for the gradients of tensors that the script makes itself, and of no model, to look at."""
    if script.training.loops.get(call) or not losses_of(script.program, call):
        return False
    reads = partial(is_for_inputs, script.program, call, script.training.steps)
    return reads(lambda owner: not _is_made(script, owner)) and not reads(partial(_is_made, script))


def _is_made(script: Script, owner: ast.expr) -> bool:
    """Whether an expression is a tensor that a call makes, and no part of a model."""
    made = script.program.values(owner)
    return "tensor" in script.program.once(Kinds).of(owner) and all(isinstance(v, Made) for v in made)


def _kept(script: Script, call: ast.Call) -> list[ast.expr]:
    """The arguments that are passed on beside the losses."""
    if not is_by_function(script.program, call):
        return [*call.args, *(k.value for k in call.keywords)]
    given = [*zip(AUTOGRAD_PARAMETERS, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    return [value for name, value in given if name != "tensors" and not _is_no_gradient(name, value)]


def _is_no_gradient(name: str | None, value: ast.expr) -> bool:
    return name == "grad_tensors" and isinstance(value, ast.Constant)


def _obstacle(script: Script, call: ast.Call) -> str | None:
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    if is_by_function(script.program, call):
        if losses_of(script.program, call):
            return None
        return "cannot tell the losses of `torch.autograd.backward` one by one: add them up, and call `.backward()`"
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


def for_inputs(call: cst.CSTNode, named: Sequence[str]) -> cst.BaseExpression:
    """`loss.backward(inputs=[x])`"""
    assert isinstance(call, cst.Call)
    given = cst.ensure_type(cst.parse_expression(f"f(inputs=[{', '.join(named)}])"), cst.Call)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    before = [*call.args[:-1], *(a.with_changes(comma=comma) for a in call.args[-1:])]
    return call.with_changes(args=[*before, *given.args])


def added_up(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`accelerator.backward(one + other, ...)` for `torch.autograd.backward([one, other], None, ...)`."""
    assert isinstance(call, cst.Call)
    given = {
        (a.keyword.value if a.keyword is not None else n): a
        for n, a in zip_longest(AUTOGRAD_PARAMETERS, call.args)
        if a is not None
    }
    listed = given.pop("tensors").value
    losses = [e.value for e in listed.elements] if isinstance(listed, (cst.List, cst.Tuple)) else [listed]
    loss = _summand(losses[0]) if len(losses) > 1 else snippets.bare(losses[0])
    for other in losses[1:]:
        loss = cst.BinaryOperation(loss, cst.Add(), _summand(other))
    start = given.pop("grad_tensors", None)
    rest = [a if a.keyword else _keyword(name, a) for name, a in given.items()]
    if start is not None and not (isinstance(start.value, cst.Name) and start.value.value == "None"):
        rest.insert(0, _keyword("gradient", start))
    arguments = [cst.Arg(loss), *(a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in rest)]
    return call.with_changes(func=cst.parse_expression(f"{accelerator}.backward"), args=arguments)


def _summand(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression as it can stand on either side of a plus."""
    is_product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.Divide))
    if node.lpar or is_product or isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _keyword(name: str, argument: cst.Arg) -> cst.Arg:
    bare = cst.SimpleWhitespace("")
    return argument.with_changes(keyword=cst.Name(name), equal=cst.AssignEqual(bare, bare))
