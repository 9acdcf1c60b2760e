"""Drop the moves that the accelerator makes unnecessary, and point the others at its device.

    data = data.to(device)      ->    (nothing), for what a prepared loader yields
    model.to(device)            ->    (nothing), for a model that is prepared below
    weights = weights.cuda()    ->    weights = weights.to(accelerator.device)

Why: a prepared loader yields batches that are on the device already, and `prepare` moves the model.
A function that training runs is passed the accelerator for its `cuda()`, so that the script also trains on a CPU.
Left alone: `.to(dtype)`, moves of tensors that the script makes itself, moves where the accelerator does not reach, and
`cuda()` of objects of other libraries, whose classes may do more there than move, and of parameters of unknown classes
(`scaler.cuda()`), which may have no `to`: it goes to the process's own GPU.
A script that does anything else with a batch before it moves all of it (reads a part in the CPU's memory, gives it to
NumPy or to unknown code), or moves its model under a condition, keeps all of its moves: the accelerator is
`Accelerator(device_placement=False)`, with which `prepare` moves nothing, and every tensor is where it was.
A move that stays is on record with its reason: in JSON as a note of tier `info`, in the text with `-v`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import libcst as cst

from accelify.codemod.devices.destinations import gpu_texts_at, is_by_number, is_where_another_is
from accelify.codemod.devices.facts import cpu_instead
from accelify.codemod.devices.moves import Move
from accelify.codemod.devices.rebuilt import is_only_indexed, is_unpacked, rebuilt, without_idle
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Attempt, Change, Edit, Found, Obstacle, Remark, Remove, Replace, Unwrap, When
from accelify.codemod.libraries import methods
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.semantics.values import Constant
from accelify.codemod.training.randomness.workers import is_worker_code

NAME = "device_moves"


def find(script: Script) -> Iterator[Found]:
    """A change for each statement whose moves go, and for each move that gets another device."""
    dropped = {m.call: m for m in script.devices.moves if script.devices.is_needless(m)}
    by_statement: dict[ast.stmt, list[Move]] = {}
    for move in dropped.values():
        by_statement.setdefault(script.program.statement(move.call), []).append(move)
    for statement, kept in by_statement.items():
        otherwise = tuple(found for move in kept for found in _redirect(script, move))
        change = _drop(script, statement, kept, dropped)
        if not all(script.devices.may_stay(m) for m in kept):
            yield change
        else:
            yield Attempt((change,), otherwise=otherwise, is_optional=True)
    yield from _guards(script, dropped)
    for move in script.devices.moves:
        if move.call not in dropped:
            yield from _redirect(script, move)
    for call in script.devices.moved_early:
        message = (
            "this goes to a GPU before the line that creates the accelerator, and so to the first GPU in every "
            "process: move it below, into the function that trains"
        )
        yield Obstacle(NAME, script.path(call), call, message)
    for call in script.devices.stranded if script.devices.together.mixed is None else ():
        choice = next(script.program.branches_round(call))[0]
        message = (
            f"`{ast.unparse(choice.test)}` decides this move, and what is prepared goes to the accelerator's device "
            "without asking: move this to the device of a tensor at hand, `.to(x.device)`"
        )
        yield Obstacle(NAME, script.path(call), call, message)


def _guards(script: Script, dropped: dict[ast.Call, Move]) -> Iterator[Change]:
    """Conditions under which objects only go to the GPU: to the accelerator's device they go under any."""
    moves = {m.call: m for m in script.devices.moves if _goes_to_accelerator(script, m)}
    kept = [script.program.statement(call) for call in moves if call not in dropped]
    for guard in dict.fromkeys(script.program.parent(statement) for statement in kept):
        if not isinstance(guard, ast.If) or guard.orelse:
            continue
        inside = [m for call, m in moves.items() if script.program.inside(call, guard)]
        if not _is_idle_guard(script, guard, inside):
            continue
        if all(_is_nothing(script, statement, moves | dropped) for statement in guard.body):
            reason = "the accelerator's device is the CPU if there is no GPU"
            yield Change(NAME, script.path(guard), guard.lineno, reason, (Unwrap(guard, is_body=True),))


def _is_idle_guard(script: Script, guard: ast.If | ast.IfExp, moves: Iterable[Move]) -> bool:
    """Whether a condition only asks for a GPU, and what it guards could be moved without one, too."""
    parent = script.program.parent(guard)
    is_elif = isinstance(parent, ast.If) and isinstance(guard, ast.If) and parent.orelse == [guard]
    is_for_a_gpu = script.devices.is_for_a_gpu(guard.test) and script.changes_nothing(guard.test)
    return not is_elif and is_for_a_gpu and not any(map(script.devices.may_have_none, moves))


def _goes_to_accelerator(script: Script, move: Move) -> bool:
    """Whether a move goes to the accelerator's device in the end, if it stays."""
    if script.accelerator(move.call) is None or script.devices.goes_to_cpu(move):
        return False
    if script.devices.known.moves_itself(move):
        return False
    if move.device is None or is_where_another_is(move.device):
        return move.device is None
    return script.devices.is_of_process(move.device) or move.device in script.devices.named


def _drop(script: Script, statement: ast.stmt, moves: Sequence[Move], dropped: dict[ast.Call, Move]) -> Change:
    """A statement without its moves; `dropped` are those of all statements."""
    reason = "the prepared loader yields batches on the device"
    first = moves[0]
    if script.devices.known.moves_nothing(first):
        reason = "it has no tensors that could be moved"
    elif not script.devices.known.is_needless(first):
        reason = "its tensors are on the device already"
    elif not script.prepared.is_batch(first.receiver):
        reason = "`prepare` moves the model to the device"
    path, line = script.path(statement), first.call.lineno
    if _is_nothing(script, statement, dropped) or _is_needless_copy(script, statement, first.call):
        return Change(NAME, path, line, reason, (Remove(statement),))
    edits: list[Edit] = []
    for move in moves:
        call = move.call
        container = rebuilt(script.program, call) if not _casts(call) else None
        if container is not None and (container.kind or is_unpacked(script.program, container.node)):
            kind = None if is_unpacked(script.program, container.node) else container.kind
            edits.append(Replace(container.node, partial(its_items, kind=kind), keeps=(container.items,)))
            continue
        choice = script.program.parent(call)
        if isinstance(choice, ast.IfExp) and _same(_stripped(choice.body, dropped), choice.orelse):
            edits.append(Replace(choice, partial(snippets.chosen, is_body=False), keeps=(choice.orelse,)))
        else:
            kept = _casts(call)
            edits.append(Replace(call, partial(without_device, kept=len(kept)), keeps=(move.receiver, *kept)))
    rest = without_idle(statement, lambda target, value: _same(target, _stripped(value, dropped)))
    return Change(NAME, path, line, reason, (*edits, *([rest] if rest is not None else ())))


def _is_needless_copy(script: Script, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a statement only put a batch into another container, `batch = tuple(t for t in batch)`, or `x, y`."""
    container = rebuilt(script.program, call) if not _casts(call) else None
    if container is None or not isinstance(statement, ast.Assign) or statement.value is not container.node:
        return False
    target = statement.targets[0]
    if isinstance(container.items, ast.Tuple) and isinstance(target, ast.Tuple):
        return len(statement.targets) == 1 and _same(target, container.items)
    return (
        container.kind is not None
        and len(statement.targets) == 1
        and isinstance(target, ast.Name)
        and _same(target, container.items)
        and is_only_indexed(script.program, target)
    )


def its_items(node: cst.CSTNode, kind: str | None) -> cst.BaseExpression:
    """`batch` or `tuple(batch)` for `tuple(t.to(device) for t in batch)`, `map(lambda t: t.to(device), batch)`, ..."""
    while isinstance(node, cst.Call):
        node = node.args[-1].value
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        node = node.for_in.iter
    assert isinstance(node, cst.BaseExpression)
    return node if kind is None else snippets.passed_to(node, kind)


def _casts(call: ast.Call) -> tuple[ast.expr, ...]:
    """The arguments of `x.to(device, dtype, ...)` that are about the type and not about the device."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr == "cuda":
        return ()
    second = [a for a in call.args[1:2] if not (isinstance(a, ast.Constant) and isinstance(a.value, bool))]
    return (*second, *(k.value for k in call.keywords if k.arg in ("dtype", "memory_format")))


def without_device(call: cst.CSTNode, kept: int) -> cst.BaseExpression:
    """`x` for `x.to(device)`; `x.to(dtype=t)` for `x.to(device, dtype=t)`."""
    assert isinstance(call, cst.Call)
    assert isinstance(call.func, cst.Attribute)
    if not kept:
        receiver = _moved(call.func)
        if isinstance(receiver, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
            return receiver.with_changes(lpar=(*call.lpar, *receiver.lpar), rpar=(*receiver.rpar, *call.rpar))
        return receiver
    arguments = [
        a
        for i, a in enumerate(call.args)
        if (i if a.keyword is None else a.keyword.value in ("dtype", "memory_format"))
    ]
    arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(func=call.func.with_changes(value=_moved(call.func)), args=arguments)


def _moved(function: cst.Attribute) -> cst.BaseExpression:
    """`x` of `x.pin_memory().to`."""
    moved = function.value
    while isinstance(moved, cst.Call) and isinstance(moved.func, cst.Attribute):
        if not methods.prepares_a_move(moved.func.attr.value):
            break
        moved = moved.func.value
    return moved


def _is_nothing(script: Script, statement: ast.stmt, dropped: dict[ast.Call, Move]) -> bool:
    """Whether a statement does nothing once its moves are gone."""
    if isinstance(statement, ast.Expr):
        call = statement.value
        if isinstance(call, ast.IfExp):
            branches = [_stripped(branch, dropped) for branch in (call.body, call.orelse)]
            is_named = all(isinstance(b, (ast.Name, ast.Attribute, ast.Constant)) for b in branches)
            return is_named and script.changes_nothing(call.test)
        if not isinstance(call, ast.Call) or call not in dropped or _casts(call):
            return False
        return isinstance(dropped[call].receiver, (ast.Name, ast.Attribute))
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _same(statement.targets[0], _stripped(statement.value, dropped))
    return False


def _stripped(node: ast.expr, dropped: dict[ast.Call, Move]) -> ast.expr:
    """An expression as it is once its moves are gone."""
    if isinstance(node, ast.Call):
        if node in dropped and not _casts(node):
            return _stripped(dropped[node].receiver, dropped)
        return node
    if isinstance(node, ast.IfExp):
        body, orelse = _stripped(node.body, dropped), _stripped(node.orelse, dropped)
        return body if _same(body, orelse) else node
    if isinstance(node, (ast.Tuple, ast.List)):
        return type(node)(elts=[_stripped(e, dropped) for e in node.elts], ctx=node.ctx)
    if isinstance(node, ast.DictComp) and len(node.generators) == 1:
        return _stripped_dict(node, dropped)
    if (
        isinstance(node, ast.ListComp)
        and len(node.generators) == 1
        and not node.generators[0].ifs
        and _same(_stripped(node.elt, dropped), node.generators[0].target)
    ):
        return node.generators[0].iter
    return node


def _stripped_dict(node: ast.DictComp, dropped: dict[ast.Call, Move]) -> ast.expr:
    """`batch` for `{k: v.to(device) for k, v in batch.items()}`."""
    generator = node.generators[0]
    pair = ast.Tuple(elts=[node.key, _stripped(node.value, dropped)], ctx=ast.Load())
    items = generator.iter
    is_items = method_of_call(items) == "items"
    if not generator.ifs and is_items and _same(generator.target, pair):
        assert isinstance(items, ast.Call)
        assert isinstance(items.func, ast.Attribute)
        return items.func.value
    return node


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one).strip("()") == ast.unparse(other).strip("()")


def _redirect(script: Script, move: Move) -> Iterator[Change | Remark]:
    """A move that stays gets the accelerator's device, unless its device variable gets it."""
    assert isinstance(move.call.func, ast.Attribute)
    path = script.path(move.call)
    accelerator = script.accelerator(move.call)
    literal = move.device is not None and any(isinstance(v, Constant) for v in script.program.values(move.device))
    inside_data = is_worker_code(script.program, move.call)
    is_number = _is_number(script, move)
    is_own = literal and isinstance(move.device, (ast.Constant, ast.JoinedStr, ast.IfExp))
    if script.devices.goes_to_cpu(move) or is_where_another_is(move.device) or script.devices.known.moves_itself(move):
        yield _kept(script, move)
        return
    follows = move.device is not None and script.devices.follows_tensors(move.device)
    if move.device is not None and not script.changes_nothing(move.device) and not follows:
        message = (
            f"not changed: `{ast.unparse(move.device)}` does more than name a device; evaluate it on a line of its "
            "own, and move to `accelerator.device`"
        )
        yield Remark(NAME, path, move.call, message, Tier.REVIEW)
        return
    if move.call.func.attr == "to" and not is_own and not is_number:
        assert move.device is not None
        if move.device in script.devices.set_elsewhere:
            yield _to_accelerator(script, move, "the variable is set in another file")
        elif accelerator is not None and not inside_data and _is_chosen_by_call(script, move.device):
            yield _to_accelerator(script, move, f"`{ast.unparse(move.device)}` chose the device of the models")
            if script.devices.cpu is None and script.devices.may_be_cpu(move.device):
                message = cpu_instead(ast.unparse(move.device), script.options.runtime.launch)
                yield Remark(NAME, path, move.call, message, Tier.REVIEW, once=True)
        elif not script.devices.is_of_process(move.device) and not follows and _may_be_run(script, move):
            message = (
                f"not changed: `{ast.unparse(move.device)}` is set elsewhere; make sure that it is `accelerator.device`"
            )
            of = move.device if move.device in script.devices.named else None
            yield Remark(NAME, path, move.call, message, Tier.ADVICE, When.KEPT, of)
        else:
            yield _kept(script, move)
        return
    if move.device in script.devices.named:
        return
    is_reached = accelerator is not None and not inside_data
    if not is_reached and move.device is not None and _is_trained(script, move) and not _is_own(script, move):
        yield _to_own_gpu(script, move)
        return
    if is_number and not is_reached:
        message = "this is one particular GPU, for every process: use the accelerator's device"
        yield Remark(NAME, path, move.call, message, Tier.REVIEW, When.KEPT)
        return
    if is_reached:
        yield _to_accelerator(script, move, "each process has a device of its own")
    else:
        yield _kept(script, move)


def _kept(script: Script, move: Move) -> Remark:
    """The record of a move that stays as it is, with the reason."""
    reason = script.devices.reason_to_stay(move, script.run)
    return Remark(NAME, script.path(move.call), move.call, reason, Tier.INFO, When.LEFT)


def _is_trained(script: Script, move: Move) -> bool:
    """Whether the training runs a move, so that the accelerator has chosen the process's GPU."""
    return script.program.frame(move.call) in script.run.trained


def _may_be_run(script: Script, move: Move) -> bool:
    """Whether the training runs a move, or unknown callers of a file that the user named; nothing else changes."""
    named = script.options.selection.named or {parsed.path for parsed in script.program.named}
    return (script.path(move.call) in named and move.call not in script.devices.beside) or _is_trained(script, move)


def _is_own(script: Script, move: Move) -> bool:
    """Whether a move names no GPU by its number: the process's own device, or `"cuda"`."""
    assert move.device is not None
    is_text = isinstance(move.device, ast.Constant) and isinstance(move.device.value, str)
    return is_text or gpu_texts_at(move.device) or script.devices.is_of_process(move.device)


def _to_own_gpu(script: Script, move: Move) -> Change:
    """`x.cuda()` for `x.cuda(gpu)`, `x.to("cuda")` for `x.to(0)`, where the accelerator cannot be asked."""
    assert isinstance(move.call.func, ast.Attribute)
    assert move.device is not None
    edit = Replace(move.device, lambda node: cst.SimpleString('"cuda"'))
    if move.call.func.attr == "cuda":
        kept = (move.receiver, *[k.value for k in move.call.keywords if k.arg != "device"], *move.call.args[1:])
        edit = Replace(move.call, without_number, keeps=kept)
    return Change(NAME, script.path(move.call), move.call.lineno, "each process has a GPU of its own", (edit,))


def without_number(node: cst.CSTNode) -> cst.BaseExpression:
    """`x.cuda(non_blocking=True)` for `x.cuda(gpu, non_blocking=True)`."""
    call = cst.ensure_type(node, cst.Call)
    return call.with_changes(args=_besides_device(call))


def _is_chosen_by_call(script: Script, device: ast.expr) -> bool:
    """Whether a function of the script's chooses a device, by which something goes that the accelerator moves now."""
    if not isinstance(device, ast.Call) or not script.program.flow.callees.get(device):
        return False
    text = ast.unparse(device)
    known = script.devices.known
    dropped = (m.device for m in known.found if m.device is not None and known.is_needless(m))
    return any(ast.unparse(d) == text for d in dropped)


def _to_accelerator(script: Script, move: Move, reason: str) -> Change:
    accelerator = script.accelerator(move.call)
    assert accelerator is not None
    kept = (move.receiver, *[k.value for k in move.call.keywords if k.arg != "device"], *move.call.args[1:])
    make = partial(to_accelerator, accelerator=accelerator)
    edits = (Replace(move.call, make, keeps=kept, reads=(accelerator.split(".")[0],)), *_choice(script, move))
    return Change(NAME, script.path(move.call), move.call.lineno, reason, edits)


def _choice(script: Script, move: Move) -> Iterator[Replace]:
    """`x.cuda() if torch.cuda.is_available() else x`"""
    choice = script.program.parent(move.call)
    if not isinstance(choice, ast.IfExp) or choice.body is not move.call or not _same(choice.orelse, move.receiver):
        return
    if _is_idle_guard(script, choice, [move]):
        yield Replace(choice, partial(snippets.chosen, is_body=True), keeps=(choice.body,))


def _is_number(script: Script, move: Move) -> bool:
    """Whether a move goes to one GPU by its number, or by that of the process."""
    is_own = script.distribution is not None and move.device in script.distribution.devices
    return is_own or is_by_number(script.program, move.device)


def to_accelerator(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`x.to(accelerator.device, ...)` for `x.cuda(...)` and `x.to("cuda", ...)`."""
    assert isinstance(call, cst.Call)
    assert isinstance(call.func, cst.Attribute)
    device = cst.Arg(cst.parse_expression(f"{accelerator}.device"))
    rest = _besides_device(call)
    if rest:
        device = device.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    function = call.func.with_changes(attr=cst.Name("to"))
    return call.with_changes(func=function, args=[device, *rest])


def _besides_device(call: cst.Call) -> list[cst.Arg]:
    """The arguments of a move but for its device."""
    return [
        a
        for i, a in enumerate(call.args)
        if (a.keyword is not None and a.keyword.value != "device") or (a.keyword is None and i)
    ]
