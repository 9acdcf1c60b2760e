"""Send the backward pass through the accelerator.

    loss.backward()                         ->    accelerator.backward(loss)
    torch.autograd.backward(loss)           ->    accelerator.backward(loss)
    torch.autograd.backward([one, other])   ->    accelerator.backward(one + other)
    torch.autograd.backward(losses)         ->    accelerator.backward(sum(losses))
    loss.backward()  # for `x.grad` alone   ->    loss.backward(inputs=[x])

Why: fp16 needs the loss scaled, gradient accumulation needs it divided, and when it returns the gradients of every
prepared model agree on all processes. An attack runs the model backwards for the gradient of a batch, and `zero_grad`
clears what the weights got before any step: each process does that for its own rows, as often as these need it.
Left alone: `backward` methods of the project's own; a pass whose gradients only hooks take, as those of Grad-CAM; and a
pass outside of all loops of which only the gradient of some tensor is read, and no step takes any: `y.backward();
print(x.grad)`. `torch.autograd.backward` of what may be a tensor or a list, or with other gradients to start from than
ones, holds the file back. A pass that stays is on record with its reason: in JSON as a note of tier `info`, in the text
with `-v`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Obstacle, Remark, Replace, When
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.training.losses import AUTOGRAD_PARAMETERS, is_by_function, losses_of

NAME = "backward"
_POSITIONAL = ("gradient", "retain_graph", "create_graph")


def find(script: Script) -> Iterator[Change | Obstacle | Remark]:
    """A change for each backward pass, and a record of each that stays."""
    yield from _kept_passes(script)
    for call in script.training.backwards:
        assert isinstance(call.func, ast.Attribute)
        if call in script.training.for_inputs:
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
                    partial(_edit(script, call), accelerator=accelerator),
                    keeps=(*_losses_written(script, call), *_kept(script, call)),
                    reads=(accelerator.split(".")[0],),
                ),
            ),
        )

    for call, tensors in script.training.for_inputs.items():
        if not tensors or any(k.arg == "inputs" for k in call.keywords):
            continue
        named = [ast.unparse(tensor) for tensor in tensors]
        yield Change(
            rule=NAME,
            path=script.path(call),
            line=call.lineno,
            reason=f"only {_listed(named)} needs a gradient here, and that of each process's own rows",
            edits=(Replace(call, partial(for_inputs, named=named), keeps=(call.func, *_kept(script, call))),),
        )


def _kept_passes(script: Script) -> Iterator[Remark]:
    """The passes that stay as they are, each with the reason."""
    training, alone = script.training, {n.backward for n in script.training.nested if n.is_within}
    for call in script.program.calls:
        is_named = method_of_call(call) == "backward"
        if not is_named or script.path(call) not in script.files:
            continue
        if call in training.for_inputs:
            reason = "no step of an optimizer takes the gradients of this pass"
        elif call in training.backwards:
            continue
        elif call in alone:
            reason = "this trains something for one batch alone"
        elif script.run.may_train(script.program, call):
            reason = "this is no tensor's `backward`"
        else:
            reason = "the training does not run this"
        yield Remark(NAME, script.path(call), call, f"stays: {reason}", Tier.INFO, When.LEFT)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _edit(script: Script, call: ast.Call) -> Callable[..., cst.BaseExpression]:
    if not is_by_function(script.program, call):
        return through_accelerator
    return added_up if _is_of_several(script, call) else of_one


def _is_of_several(script: Script, call: ast.Call) -> bool:
    """Whether `torch.autograd.backward` gets a list of losses, and not one alone."""
    return script.program.once(Kinds).of(_given(call)["tensors"]) != {"tensor"}


def _losses_written(script: Script, call: ast.Call) -> tuple[ast.expr, ...]:
    """The losses as they are named in the call itself: one by one, or by the list of them."""
    if not is_by_function(script.program, call):
        return losses_of(script.program, call)
    listed = _given(call)["tensors"]
    is_literal = isinstance(listed, (ast.List, ast.Tuple))
    return losses_of(script.program, call) if is_literal and _is_of_several(script, call) else (listed,)


def _given(call: ast.Call) -> dict[str | None, ast.expr]:
    """What `torch.autograd.backward` gets, by its parameters."""
    by_place = zip(AUTOGRAD_PARAMETERS, call.args, strict=False)
    return {**dict(by_place), **{k.arg: k.value for k in call.keywords}}


def _kept(script: Script, call: ast.Call) -> list[ast.expr]:
    """The arguments that are passed on beside the losses."""
    if not is_by_function(script.program, call):
        return [*call.args, *(k.value for k in call.keywords)]
    left_out = {"tensors", "grad_tensors"} if _is_of_several(script, call) else {"tensors"}
    passed_on = {name: value for name, value in _given(call).items() if name not in left_out}
    return [v for name, v in passed_on.items() if name != "grad_tensors" or not isinstance(v, ast.Constant)]


def _obstacle(script: Script, call: ast.Call) -> str | None:
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    if is_by_function(script.program, call):
        has_sum = script.program.scope(call).owner("sum") is None
        if losses_of(script.program, call) and (has_sum or len(_losses_written(script, call)) > 1):
            return None
        return "cannot tell the losses of `torch.autograd.backward`: add them up, and call `.backward()`"
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
    """`accelerator.backward(one + other, ...)` for `torch.autograd.backward([one, other], ...)`.

    `accelerator.backward(sum(losses), ...)` for a list that is not written out there.
    """
    given = _by_name(call)
    given.pop("grad_tensors", None)  # ones
    listed = given.pop("tensors").value
    elements = listed.elements if isinstance(listed, (cst.List, cst.Tuple)) else ()
    if not elements or any(isinstance(e, cst.StarredElement) for e in elements):
        return _through(accelerator, call, snippets.expression("sum({losses})", losses=listed), given)
    losses = [e.value for e in elements]
    loss = _summand(losses[0]) if len(losses) > 1 else snippets.bare(losses[0])
    for other in losses[1:]:
        loss = cst.BinaryOperation(loss, cst.Add(), _summand(other))
    return _through(accelerator, call, loss, given)


def of_one(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`accelerator.backward(loss, gradient=ones)` for `torch.autograd.backward(loss, ones)`."""
    given = _by_name(call)
    loss = snippets.bare(given.pop("tensors").value)
    start = given.pop("grad_tensors", None)
    if start is not None and not (isinstance(start.value, cst.Name) and start.value.value == "None"):
        given = {"gradient": start, **given}
    return _through(accelerator, call, loss, given)


def _by_name(call: cst.CSTNode) -> dict[str, cst.Arg]:
    """The arguments of `torch.autograd.backward`, by its parameters."""
    assert isinstance(call, cst.Call)
    named = zip_longest(AUTOGRAD_PARAMETERS, call.args)
    return {a.keyword.value if a.keyword is not None else str(n): a for n, a in named if a is not None}


def _through(
    accelerator: str, call: cst.CSTNode, loss: cst.BaseExpression, given: dict[str, cst.Arg]
) -> cst.BaseExpression:
    assert isinstance(call, cst.Call)
    rest = [_keyword(name, a) for name, a in given.items()]
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
