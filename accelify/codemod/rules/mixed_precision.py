"""Let the accelerator do the mixed precision that the script does by hand.

    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)    ->    (nothing)
    with torch.autocast("cuda", enabled=args.amp):             ->    with accelerator.autocast():
    scaler.scale(loss).backward()                              ->    accelerator.backward(loss)
    scaler.unscale_(optimizer)                                 ->    (nothing)
    clip_grad_norm_(parameters, 1.0)                           ->    accelerator.clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)                                     ->    optimizer.step()
    scaler.update()                                            ->    (nothing)
    with amp.scale_loss(loss, optimizer) as scaled:  (apex)    ->    accelerator.backward(loss)
        scaled.backward()

The accelerator is created with `mixed_precision="fp16" if args.amp and torch.cuda.is_available() else "no"`: autocast
for CUDA does nothing on a CPU, and so does this. Branches that differ in the precision alone become one.
Why: one switch instead of five places that must agree; every process skips the same steps and keeps the same scale.
Left alone: all of it where a part is not understood (the scale is read or saved, losses are scaled for more than their
backward pass, settings of the scaler's own), and fp16 without a scaler whose gradients are clipped or read. It is right
as it stands, over many processes too.
Of apex, levels O1 and O2 are migrated, also as an option's default; with another, or more of apex, the script is
declined. An import that may leave `amp = None` goes, and so does a check that demands it (`if amp is None: raise ...`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.edits.values import Change, Edit, Insert, Obstacle, Remark, Remove, Replace, Unwrap
from accelify.codemod.precision.precision import Precision
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "mixed_precision"
_CLIP = "torch.nn.utils.clip_grad_norm_"


def find(script: Script) -> Iterator[Change | Remark | Obstacle]:
    """Changes for all of it, or none."""
    found = script.precision
    if found is None:
        return
    if found.stays is not None and found.library:
        node, reason = found.stays
        message = f"mixed precision by {found.library} is not migrated: {reason}; use torch.amp or `mixed_precision=`"
        yield Obstacle(NAME, script.path(node), node, message)
        return
    if found.stays is not None:
        return  # each process scales its losses in the same way: their gradients are averaged before a step
    yield from _of_apex(script, found)
    for place in found.autocasts:
        yield from _autocast(script, place)
    for call in found.uses:
        yield from _use(script, call)
    yield from _bindings(script, found)
    for choice, is_body in found.choices.items():
        reason = "both branches now do the same, in the accelerator's precision"
        yield Change(NAME, script.path(choice), choice.lineno, reason, (Unwrap(choice, is_body),))
    if not found.library:
        yield from _noted(script, found)
    else:
        yield from _level(script, found)


def _noted(script: Script, found: Precision) -> Iterator[Remark]:
    """Computations in another precision than before."""
    for call in found.beside:
        message = (
            f"`{ast.unparse(call.func)}` now computes in mixed precision here, too, where it was not under "
            "`autocast` before: a prepared model does so wherever it is called"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    first = found.autocasts[0]
    if "fp16" in found.code and not found.scalers:
        message = (
            "in fp16 the accelerator scales the loss so that small gradients do not underflow; the script did not "
            "scale it"
        )
        yield Remark(NAME, script.path(first), first, message, Tier.REVIEW)
    elif found.code.startswith('"bf16"') and found.scalers:
        message = "bf16 needs no scaler: a step whose gradients are not finite is no longer skipped"
        yield Remark(NAME, script.path(first), first, message, Tier.REVIEW)


def _level(script: Script, found: Precision) -> Iterator[Remark]:
    """Effects of apex's level that the accelerator does not have."""
    option, said = found.level_option, []
    if option is not None:
        said.append(
            f"`{ast.unparse(option)}` is no longer read: mixed precision in fp16 does what its default, "
            f"`{found.level}`, did"
        )
    if found.level == "O1":
        said.append(
            "torch's autocast chooses which operations are in fp16 by other lists than apex's `O1`: the numbers "
            "differ a little, in one process too"
        )
    if found.level == "O2":
        said.append(
            "`O2` kept the weights in fp16 and fp32: now they are in fp32 only, and each operation chooses its "
            "precision"
        )
    if said:
        at = found.bindings[0] if option is None else option
        yield Remark(NAME, script.path(at), at, "; ".join(said), Tier.REVIEW)


def _of_apex(script: Script, found: Precision) -> Iterator[Change | Obstacle]:
    """Scaled losses, the parameters that apex keeps, and its import."""
    inside = {n for c, is_body in found.choices.items() for part in Unwrap(c, is_body).gone for n in ast.walk(part)}
    for block, loss in found.scaled.items():
        accelerator = script.accelerator(block)
        if accelerator is None:
            yield Obstacle(NAME, script.path(block), block, "the accelerator cannot be passed to this backward pass")
        elif block not in inside:
            code = f"{accelerator}.backward({ast.unparse(loss)})"
            edits: tuple[Edit, ...] = (Remove(block), Insert(block, "after", code))
            yield Change(NAME, script.path(block), block.lineno, "`accelerator.backward` scales the loss", edits)
    for call, parameters in found.masters.items():
        if call not in inside:
            reason = "the model's own parameters are the only ones"
            of_model = Replace(call, partial(_code, code=parameters), reads=(parameters.split(".")[0],))
            yield Change(NAME, script.path(call), call.lineno, reason, (of_model,))
    for clip in found.clips:
        accelerator = script.accelerator(clip)
        if accelerator is None:
            yield Obstacle(
                NAME, script.path(clip), clip, "the accelerator cannot be passed to where gradients are clipped"
            )
        elif clip not in inside:
            yield _clip(script, clip, accelerator)
    for attempt in found.imports:
        outer = script.program.parent(attempt)
        target: ast.stmt = attempt
        if (
            isinstance(outer, ast.If)
            and outer.body == [attempt]
            and not outer.orelse
            and script.changes_nothing(outer.test)
        ):
            target = outer
        reason = "apex is no longer used"
        yield Change(NAME, script.path(attempt), attempt.lineno, reason, (Remove(target),))


def _autocast(script: Script, place: ast.expr) -> Iterator[Change]:
    accelerator = script.accelerator(place)
    if accelerator is None or script.path(place) not in script.files:
        return  # means the same as it stands
    edit = Replace(place, partial(_code, code=f"{accelerator}.autocast()"), reads=(accelerator.split(".")[0],))
    reason = "`accelerator.autocast` uses the precision that the run is started with"
    yield Change(NAME, script.path(place), place.lineno, reason, (edit,))


def _use(script: Script, call: ast.Call) -> Iterator[Change | Obstacle]:
    assert isinstance(call.func, ast.Attribute)
    path, statement, method = script.path(call), script.program.statement(call), call.func.attr
    if method == "scale":
        reason = "`accelerator.backward` scales the loss"
        yield Change(NAME, path, call.lineno, reason, (Replace(call, first_argument, keeps=(call.args[0],)),))
    elif method == "step":
        reason = "the accelerator skips steps whose gradients overflow"
        yield Change(NAME, path, call.lineno, reason, (Replace(call, its_step, keeps=(call.args[0],)),))
    elif method == "update":
        reason = "the accelerator manages the loss scale"
        yield Change(NAME, path, call.lineno, reason, (Remove(statement),))
    else:
        yield from _unscale(script, call, statement)


def _unscale(script: Script, call: ast.Call, statement: ast.stmt) -> Iterator[Change | Obstacle]:
    """Clipping by the accelerator unscales first; where nothing clips, unscaling stays."""
    path, accelerator = script.path(call), script.accelerator(call)
    if accelerator is None:
        yield Obstacle(NAME, path, call, "the accelerator cannot be passed to where gradients are unscaled")
        return
    reads = (accelerator.split(".")[0],)
    block = script.program.block(statement)
    clips = [c for s in block[block.index(statement) :] for c in ast.walk(s) if isinstance(c, ast.Call)]
    clips = [c for c in clips if _CLIP in script.program.called(c) and _is_simple(c)]
    for clip in clips:
        yield _clip(script, clip, accelerator)
    edits: tuple[Edit, ...] = (Remove(statement),)
    if not clips:
        make = partial(_called, function=f"{accelerator}.unscale_gradients")
        edits = (Replace(call, make, keeps=(*call.args,), reads=reads),)
    yield Change(NAME, path, call.lineno, "the accelerator manages the loss scale", edits)


def _clip(script: Script, clip: ast.Call, accelerator: str) -> Change:
    name = "clip_grad_value_" if any(n.endswith("value_") for n in script.program.called(clip)) else "clip_grad_norm_"
    keeps = (*clip.args, *(k.value for k in clip.keywords))
    edit = Replace(clip, partial(_called, function=f"{accelerator}.{name}"), keeps, (accelerator.split(".")[0],))
    return Change(
        NAME, script.path(clip), clip.lineno, "the accelerator unscales gradients before clipping them", (edit,)
    )


def _is_simple(clip: ast.Call) -> bool:
    return len(clip.args) <= 3 and {k.arg for k in clip.keywords} <= {"parameters", "max_norm", "norm_type"}


def _bindings(script: Script, found: Precision) -> Iterator[Change]:
    gone: set[ast.stmt] = {*found.bindings, *found.imports}
    reason = "the accelerator has a gradient scaler of its own"
    for statement in found.bindings:
        outermost: ast.stmt = statement
        parent = script.program.parent(statement)
        while isinstance(parent, ast.If) and script.changes_nothing(parent.test):
            if not all(s in gone or _imports(s, found.library) for s in [*parent.body, *parent.orelse]):
                break
            gone.add(parent)
            outermost, parent = parent, script.program.parent(parent)
        yield Change(NAME, script.path(statement), outermost.lineno, reason, (Remove(outermost),))


def _imports(statement: ast.stmt, library: str) -> bool:
    """Whether a statement imports the library whose work the accelerator does."""
    return bool(library) and isinstance(statement, (ast.Import, ast.ImportFrom)) and library in ast.unparse(statement)


def first_argument(call: cst.CSTNode) -> cst.BaseExpression:
    """`loss` for `scaler.scale(loss)`."""
    assert isinstance(call, cst.Call)
    value = call.args[0].value
    if isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or value.lpar:
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def its_step(call: cst.CSTNode) -> cst.BaseExpression:
    """`optimizer.step()` for `scaler.step(optimizer)`."""
    assert isinstance(call, cst.Call)
    return cst.Call(cst.Attribute(call.args[0].value, cst.Name("step")))


def _called(call: cst.CSTNode, function: str) -> cst.BaseExpression:
    assert isinstance(call, cst.Call)
    return call.with_changes(func=cst.parse_expression(function))


def _code(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)
