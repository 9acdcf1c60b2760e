"""Bind the script's device to the accelerator's.

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")    ->    device = accelerator.device
    device, ids = pick_gpus(n)    ->    device = accelerator.device    # when nothing reads the rest any more

Why: each process has a device of its own, and `"cuda:0"` is the first process's. The tensors that the script makes or
moves itself follow through the variable.
An option that other code goes on reading, `args.device`, is set where the accelerator is created.
Where the accelerator does not reach, `"cuda:0"` and `f"cuda:{gpu}"` become `"cuda"`: the process's own, too. Text that
is read as text, as in `if device == "cuda":` and `torch.autocast(device)`, becomes `accelerator.device.type`.
A comparison with the script's GPU, `device == torch.device("cuda")` or `str(device) == "cuda:0"`, becomes one with any:
`device.type == "cuda"`.
`torch.cuda.set_device(gpu)` goes, and `with torch.cuda.device(gpu):` from round its block.
Left alone: a variable that nothing reads any more, which goes; other devices where the accelerator does not reach; the
CPU, chosen beside the device that the script trains on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

import libcst as cst

from accelify.codemod.devices.comparisons import Comparison
from accelify.codemod.devices.destinations import gpu_texts, gpu_texts_at, makes_current
from accelify.codemod.devices.device_options import is_taken_apart, must_be_text
from accelify.codemod.devices.moves import Move, is_cpu, is_lookup
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import (
    Attempt,
    Change,
    Edit,
    Found,
    Insert,
    Remark,
    Remove,
    Replace,
    Unwrap,
    Variable,
    When,
)
from accelify.codemod.libraries import vocabulary
from accelify.codemod.libraries.row import Trait
from accelify.codemod.preparing.reach import constructor
from accelify.codemod.preparing.settings import imports_torch
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.reaching.branch_values import choice_of, either_way
from accelify.codemod.semantics.scopes import Assignment, assignment, names_read_in, returned
from accelify.codemod.semantics.values import Made

NAME = "devices"
_ONE_GPU = "this is one particular GPU: use `accelerator.device`, so that each process has its own"
_WAS_ON_CPU = (
    "the script trained on the CPU, and now on a GPU where there is one, whose last digits differ: to stay on the CPU, "
    "use `{} --cpu` or `Accelerator(cpu=True)`"
)

_WAS_FOR_MACS = (
    "where there is a CUDA GPU, the script trained on the CPU, and now on that GPU, whose last digits differ: to stay "
    "on the CPU, use `{} --cpu` or `Accelerator(cpu=True)`"
)


def find(script: Script) -> Iterator[Found]:
    """A change for each assignment of a device that is still read."""
    done: set[ast.AST] = set()
    for binding in script.devices.known.bindings:
        if binding.node in done or script.devices.is_for_the_cpu(binding):
            continue
        accelerator = script.accelerator(binding.node)
        if accelerator is None:
            yield from _unnumbered(script, binding)
            continue
        found = tuple(_bound_to(script, binding, accelerator, done))
        if binding.value in script.devices.fixed or not script.devices.lattice.devices.is_own_by_itself(binding.value):
            yield from found  # all other facts go by it
        elif found:
            yield Attempt(found)
    compared = {comparison.named for comparison in script.devices.comparisons}
    for place in script.devices.out_of_reach:
        if place in compared:
            continue
        texts = tuple(e for n in gpu_texts(script.program, place) for e in _with_own_gpu(script, n))
        yield Change(NAME, script.path(place), place.lineno, "each process has a GPU of its own", texts)
    yield from _without_bare_numbers(script)
    yield from _set_options(script)
    yield from _set_below(script)
    yield from _lost_choices(script)
    yield from _lost_literals(script)
    yield from _moved(script)
    yield from _chosen_by_number(script)
    yield from _current_in_blocks(script)
    numbered = set(script.devices.numbered)
    for statement, name in _among_others(script):
        accelerator = script.accelerator(statement)
        others = _read_besides(script, statement, name)
        if accelerator is not None and others:
            code = f"{name.id} = {accelerator}.device"
            reason = "each process has a device of its own; what else this line gave is no longer used"
            edits = (Remove(statement), Insert(statement, "after", code))
            change = Change(
                NAME, script.path(statement), statement.lineno, reason, edits, gives=_variable(script, name)
            )
            assert isinstance(statement.value, ast.Call)
            run = script.program.run_through([statement.value])
            own = {n for n in numbered if script.program.frame(n) in run}
            numbered -= own
            yield Attempt((change,), unread=others, otherwise=tuple(_without_numbers(script, own)))
    yield from _without_numbers(script, numbered)
    for comparison in script.devices.comparisons:
        yield _with_any_gpu(script, comparison) if comparison.is_any else _with_one_gpu(script, comparison)


def _with_any_gpu(script: Script, comparison: Comparison) -> Change:
    """The comparison of the kind of a device, which each process answers as the plain script does."""

    def kind(node: cst.CSTNode) -> cst.BaseExpression:
        inner = node.args[0].value if isinstance(node, cst.Call) and comparison.asked is not comparison.device else node
        if isinstance(comparison.asked, ast.Attribute) and comparison.asked is not comparison.device:
            inner = cst.ensure_type(node, cst.Attribute).value
        assert isinstance(inner, cst.BaseExpression)
        if comparison.may_be_text:
            return snippets.expression('str({device}).split(":")[0]', device=inner)
        return inner if comparison.is_text else cst.Attribute(inner, cst.Name("type"))

    edits = (
        Replace(comparison.asked, kind, keeps=(comparison.device,)),
        Replace(comparison.named, partial(_just, code='"cuda"')),
    )
    node, reason = comparison.node, "each process has a GPU of its own, so this asks for any"
    return Change(NAME, script.path(node), node.lineno, reason, edits)


def _with_one_gpu(script: Script, comparison: Comparison) -> Remark:
    node, device = comparison.node, ast.unparse(comparison.device)
    kind = f"`{device}`" if comparison.is_text else f"`{device}.type`"
    message = (
        f"this asks for one particular GPU, and each process has its own: to ask whether there is one, compare {kind} "
        'with `"cuda"`'
    )
    return Remark(NAME, script.path(node), node, message, Tier.REVIEW, When.KEPT)


def _without_numbers(script: Script, sources: Iterable[ast.expr]) -> Iterator[Change]:
    """The process's own GPU where a function that chooses one says its number."""
    for source in sorted(sources, key=script.program.position):
        edits = _with_own_gpu(script, source)
        yield Change(NAME, script.path(source), source.lineno, "each process has a GPU of its own", edits)


def _without_bare_numbers(script: Script) -> Iterator[Change]:
    """The process's own GPU for `x.cuda(0)` and `x.to(gpu)`, where the accelerator is not passed to a file."""
    for place in script.devices.numbers:
        call = script.program.parent(place)
        is_method = isinstance(call, ast.Call) and call.args == [place] and ast.unparse(call.func).endswith(".cuda")
        code = '"cuda"'
        if script.devices.is_gone_without_a_gpu(place):
            if not imports_torch(script.program.frame(place).root):
                continue
            code = '"cuda" if torch.cuda.is_available() else "cpu"'
        edit = Replace(place, partial(_just, code=code))
        if isinstance(call, ast.Call) and is_method and not call.keywords:
            edit = Replace(call, _without_arguments, keeps=(call.func,))
        yield Change(NAME, script.path(place), place.lineno, "each process has a GPU of its own", (edit,))


def _without_arguments(node: cst.CSTNode) -> cst.BaseExpression:
    """`x.cuda()` for `x.cuda(0)`."""
    return cst.ensure_type(node, cst.Call).with_changes(args=[])


def _set_options(script: Script) -> Iterator[Change]:
    """`args.device = accelerator.device`, below the accelerator and all that sets the option before."""
    for option in script.devices.options:
        name = script.reach.name
        if option.home.kind == "class":
            init = constructor(script.program, option.home)
            name = f"{init.parameters[0].arg if init is not None else 'self'}.{name}"
        created = script.access.creation_edit(option.home, name)
        passed = {created.node} if created.where == "after" else set()
        below = [s for s in option.after if s not in passed and not script.program.before(s, created.node)]
        device = _device(script, name, option.target, is_text=option.is_text)
        code = f"{ast.unparse(option.target)} = {device}"
        edit = replace(created, code=code, order=created.order + 1, gap=0)
        if below:
            edit = Insert(script.program.last(below), "after", code)
        reason = f"code that reads `{ast.unparse(option.target)}` gets the accelerator's device"
        yield Change(NAME, option.home.module, edit.node.lineno, reason, (edit,))


def _set_below(script: Script) -> Iterator[Attempt]:
    """`device = accelerator.device` below the accelerator, for a module's `device` above it, which is read there."""
    launch = script.options.runtime.launch
    for binding, home in script.devices.set_below:
        if any("--cpu" in message for message in script.devices.ignored_options(launch, [binding.value])):
            continue  # it may be the CPU, which the accelerator does not know
        created, name = script.access.creation_edit(home, script.reach.name), ast.unparse(binding.target)
        code = f"{name} = {_device_of(script, script.reach.name, binding)}"
        edit = replace(created, code=code, order=created.order + 1, gap=0)
        reason = "what reads it from here on gets the accelerator's device"
        yield Attempt((Change(NAME, home.module, edit.node.lineno, reason, (edit,)),))


def _bound_to(script: Script, binding: Assignment, accelerator: str, done: set[ast.AST]) -> Iterator[Change | Remark]:
    """The change of an assignment, or of the choice that it is part of; `done` gets what that covers."""
    node, target = binding.node, binding.target
    path, gives, reason = script.path(node), _variable(script, target), "each process has a device of its own"
    device = _device_of(script, accelerator, binding)
    code = f"{ast.unparse(target)} = {device}"
    choice = choice_of(script.effects, binding)
    if choice is not None:
        done.update(ast.walk(choice))
        edits: tuple[Edit, ...] = (Remove(choice), Insert(choice, "after", code))
        yield Change(NAME, path, node.lineno, reason, edits, gives=gives)
        return
    either = either_way(script.effects, binding)
    is_binding = script.devices.known.is_binding
    if either is not None and all(is_binding(a) and script.changes_nothing(a.value) for a in either[1]):
        statements = [script.program.statement(a.node) for a in either[1]]
        done.update(statements)
        edits = (Insert(either[0], "before", code), *map(Remove, statements))
        yield Change(NAME, path, either[0].lineno, reason, edits, gives=gives)
        return
    done.add(node)
    again = _said_before(script, binding)
    if again is not None:
        reason = "the accelerator has chosen the device"
        yield Change(NAME, path, again.lineno, reason, (Remove(again),), gives=gives)
        return
    statement = script.program.statement(node)
    if _is_said_again(script, binding):
        yield Change(NAME, path, node.lineno, reason, (Remove(statement),), gives=gives)
        return
    if script.changes_nothing(binding.value) or is_lookup(binding.value):
        edits = (Replace(binding.value, partial(_just, code=device), reads=(accelerator.split(".")[0],)),)
    elif hasattr(statement, "body"):
        yield Remark(NAME, path, node, _ONE_GPU, Tier.REVIEW)
        return
    elif _returns_accelerators(script, binding.value):
        yield from _still_said(script, binding)
        return
    else:
        yield from _still_said(script, binding)
        edits = (Insert(statement, "after", code),)
    yield Change(NAME, path, node.lineno, reason, edits, gives=gives)


def _still_said(script: Script, binding: Assignment) -> Iterator[Remark]:
    """Each option that a call is still given, or made by, which stays for what it does besides choosing a device."""
    nodes = [binding.value, *script.devices.chosen_by(binding)]
    for message in script.devices.ignored_options(script.options.runtime.launch, nodes):
        yield Remark(NAME, script.path(binding.node), binding.node, message, Tier.REVIEW, once=True)


def _returns_accelerators(script: Script, value: ast.expr) -> bool:
    """Whether a call of the script's own functions returns a variable that is bound to the accelerator's device."""
    functions = script.program.flow.callees.get(value) if isinstance(value, ast.Call) else None
    bound = {b.target for b in script.devices.known.bindings if script.accelerator(b.node) is not None}
    given = [node for function in functions or () for node in returned([function])]
    return bool(given) and all(isinstance(n, ast.Name) and _is_written_by(script, n, bound) for n in given)


def _is_written_by(script: Script, read: ast.Name, targets: Collection[ast.AST]) -> bool:
    owner = script.program.scope(read).owner(read.id)
    writes = script.program.reaching(read, script.tracer.writes(owner, read.id)) if owner is not None else ()
    return bool(writes) and all(w in targets for w in writes)


def _variable(script: Script, target: ast.expr) -> Variable | None:
    """The variable that a target is; None for an attribute, which anything may read."""
    if not isinstance(target, ast.Name):
        return None
    scope = script.program.scope(target)
    return scope.owner(target.id) or scope, target.id


def _read_besides(script: Script, statement: ast.Assign, device: ast.Name) -> tuple[Variable, ...]:
    """The variables that an assignment binds beside a device, and something reads."""
    target = statement.targets[0]
    assert isinstance(target, ast.Tuple)
    scope = script.program.scope(statement)
    others = [part.id for part in target.elts if isinstance(part, ast.Name) and part is not device]
    variables = [(scope.owner(name) or scope, name) for name in others]
    return tuple(v for v in variables if script.program.reads_of(*v))


def _chosen_by_number(script: Script) -> Iterator[Attempt]:
    """`torch.cuda.set_device(3)` goes: it would give every process the same GPU."""
    changed = script.files.union(map(script.path, script.devices.out_of_reach))
    for call in script.program.calls:
        statement = script.program.statement(call)
        is_run = script.path(call) in changed or script.program.may_run(script.program.frame(call))
        is_alone = isinstance(statement, ast.Expr) and statement.value is call and is_run
        called = script.program.called(call)
        if not is_alone or script.is_by_hand or "torch.cuda.set_device" not in called:
            continue
        choice = script.program.parent(statement) if len(script.program.block(statement)) == 1 else None
        is_branch = isinstance(choice, ast.If) and bool(choice.orelse)
        if isinstance(choice, ast.If) and not is_branch:
            if not script.changes_nothing(choice.test):
                continue  # a note says what to do
            statement = choice
        if is_branch or len(script.program.block(statement)) > 1:
            reason = f"each process has a GPU of its own; choose them with `{script.options.runtime.launch} --gpu-ids`"
            change = Change(NAME, script.path(call), call.lineno, reason, (Remove(statement),), Tier.REVIEW)
            yield Attempt((change,), takes_parameters=True)


def _current_in_blocks(script: Script) -> Iterator[Attempt]:
    """`with torch.cuda.device(3):` goes from round its block, for the same reason."""
    reason = f"each process has a GPU of its own; choose them with `{script.options.runtime.launch} --gpu-ids`"
    for call in script.program.calls:
        block = script.program.statement(call)
        is_run = script.path(call) in script.files or script.program.may_run(script.program.frame(call))
        is_alone = isinstance(block, ast.With) and len(block.items) == 1 and block.items[0].optional_vars is None
        if not isinstance(block, ast.With) or not is_alone or not is_run or script.is_by_hand:
            continue
        if makes_current(script.program, call) and script.changes_nothing(call.args[0]):
            edit = Unwrap(block, is_body=True)
            change = Change(NAME, script.path(call), call.lineno, reason, (edit,), Tier.REVIEW)
            yield Attempt((change,), takes_parameters=True)


def _only_chooses(script: Script, node: ast.expr) -> bool:
    """Whether a value may go that chooses devices: perhaps with words about them on the screen."""
    summary = script.effects.of(node)
    return summary.only_reads or summary.shows_only


def _among_others(script: Script) -> Iterator[tuple[ast.Assign, ast.Name]]:
    """The assignments that take a device, and something else, from a function: `device, ids = prepare_device(n)`."""
    for path in sorted(script.files):
        for node in script.program.flow.parsed_of[path].parents:
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            if isinstance(node, ast.Assign) and isinstance(target, ast.Tuple) and isinstance(node.value, ast.Call):
                parts = [part for part in target.elts if isinstance(part, ast.Name)]
                held = [part for part in parts if _holds_device(script, part, node.value)]
                if len(parts) == len(target.elts) and len(held) == 1 and _only_chooses(script, node.value):
                    yield node, held[0]


def _holds_device(script: Script, target: ast.Name, call: ast.Call) -> bool:
    """Whether a name holds the device that a call returns among other values."""
    values = {v for v in script.program.values(target) if getattr(getattr(v, "owner", None), "node", None) is not call}
    return bool(values) and all(script.roles.is_device(v) for v in values)


def _unnumbered(script: Script, binding: Assignment) -> Iterator[Change | Remark]:
    """`"cuda"`, the process's own GPU, for `"cuda:0"` where the accelerator does not reach."""
    if is_cpu(binding.value):
        if script.devices.cpu is not None or script.devices.is_without_a_gpu(binding):
            return  # what chooses it keeps the accelerator there, too
        if binding in (below for below, _ in script.devices.set_below):
            yield Remark(NAME, script.path(binding.node), binding.node, _not_on_cpu(script, binding), Tier.REVIEW)
            return
        if script.devices.keeps_moves:
            return  # the script moves the models and batches there itself
        message = (
            "this is the CPU, but prepared models and batches are on the process's own device: use `accelerator.device`"
        )
        yield Remark(NAME, script.path(binding.node), binding.node, message, Tier.REVIEW)
        return
    path = script.path(binding.node)
    numbered = list(gpu_texts(script.program, binding.value))
    if numbered and not is_taken_apart(script.program, binding.target):
        edits = tuple(e for n in numbered for e in _with_own_gpu(script, n))
        gives = _variable(script, binding.target)
        yield Change(NAME, path, binding.node.lineno, "each process has a GPU of its own", edits, gives=gives)
    elif any(isinstance(n, ast.Constant) and ":" in str(n.value) for n in ast.walk(binding.value)):
        yield Remark(NAME, path, binding.node, _ONE_GPU, Tier.REVIEW)


def _with_own_gpu(script: Script, numbered: ast.expr) -> tuple[Edit, ...]:
    """`"cuda"` for `"cuda:0"`, or the device itself where something asks for its number."""
    device = _read_for_its_number(script, numbered)
    if device is None:
        return (_without_number(numbered),)
    state = script.state(device)
    edit = Replace(device, partial(_just, code=f"{state}.device"), reads=(state.split(".")[0],))
    return (edit, *script.library_import(device, state))


def _read_for_its_number(script: Script, numbered: ast.expr) -> ast.Call | None:
    """The device made of a number that is asked for: `torch.cuda.set_per_process_memory_fraction(0.9, device)`."""
    kinds = script.effects.kinds
    calls = (c for c in script.program.calls if any(r.has(Trait.NEEDS_NUMBER) for r in kinds.called(c) or ()))
    given = (g for call in calls for g in (*call.args, *(k.value for k in call.keywords)))
    made = (v.node for g in given for v in script.program.values(g) if isinstance(v, Made) and v.name == "torch.device")
    return next((m for m in made if isinstance(m, ast.Call) and numbered in ast.walk(m)), None)


def _without_number(node: ast.expr) -> Replace:
    """`"cuda"` for `"cuda:0"`, for `f"cuda:{gpu}"` and for `"cuda:" + str(gpu)`; the same of `device("cuda", gpu)`."""
    if gpu_texts_at(node):
        return Replace(node, _just_cuda)
    assert isinstance(node, ast.Call)
    return Replace(node, _device_of_cuda, keeps=(node.func, *node.args[:-1]))


def _just_cuda(node: cst.CSTNode) -> cst.BaseExpression:
    quote = re.findall("['\"]", cst.Module([]).code_for_node(node))[0]
    return cst.SimpleString(f"{quote}cuda{quote}")


def _device_of_cuda(node: cst.CSTNode) -> cst.BaseExpression:
    """`device("cuda")` for `device("cuda", gpu)` and for `device(gpu)`."""
    call = cst.ensure_type(node, cst.Call)
    kind = call.args[0] if len(call.args) > 1 else cst.Arg(cst.SimpleString('"cuda"'))
    return call.with_changes(args=[kind.with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def _lost_choices(script: Script) -> Iterator[Remark]:
    """Each option of the script that chose a device, and chooses it no more."""
    launch = script.options.runtime.launch
    named = {parsed.path for parsed in script.program.named}
    reads = (r for option in script.devices.options for r in option.reads if script.path(r) in named)
    for read in sorted(reads, key=script.program.position):
        for message in script.devices.ignored_options(launch, [read]):
            yield Remark(NAME, script.path(read), read, message, Tier.REVIEW, once=True)
    for source in script.devices.numbered:
        if names_read_in(source) and not any(script.devices.ignored_options(launch, [source])):
            message = f"the number in `{ast.unparse(source)}` no longer selects the GPU: use `{launch} --gpu-ids`"
            yield Remark(NAME, script.path(source), source, message, Tier.REVIEW)
    spread = script.distribution
    ranks = set() if spread is None else {ast.unparse(r) for r in (*spread.ranks, *spread.devices)}
    for node, gone, asked, numbers in _choices(script):
        for message in script.devices.ignored_options(launch, asked, numbers, ranks):
            yield Remark(NAME, script.path(node), node, message, Tier.REVIEW, When.GONE, gone, once=True)


def _lost_literals(script: Script) -> Iterator[Remark]:
    """Each device that the script says without a choice, and that it trains on no more: the CPU, `"cuda:1"`."""
    launch = script.options.runtime.launch
    for binding in script.devices.known.bindings:
        value = binding.value
        numbers = [n for n in gpu_texts(script.program, value) if isinstance(n, ast.Constant) and n.value != "cuda:0"]
        for number in numbers:
            message = f"`{number.value!s}` no longer selects the GPU: use `{launch} --gpu-ids`"
            yield Remark(NAME, script.path(value), binding.node, message, Tier.REVIEW, When.GONE, number, once=True)
        if script.devices.cpu is None and script.devices.trains_on_cpu(binding):
            message = _not_on_cpu(script, binding)
            yield Remark(NAME, script.path(value), binding.node, message, Tier.REVIEW, When.GONE, value, once=True)
        elif script.devices.is_for_macs(binding):
            message = _WAS_FOR_MACS.format(launch)
            yield Remark(NAME, script.path(value), binding.node, message, Tier.REVIEW, When.GONE, value, once=True)


def _not_on_cpu(script: Script, binding: Assignment) -> str:
    return (
        f"`{ast.unparse(binding.value)}` no longer keeps the training on the CPU: use "
        f"`{script.options.runtime.launch} --cpu` or `Accelerator(cpu=True)` for that"
    )


def _moved(script: Script) -> Iterator[Remark]:
    """That the script computed on the CPU, if nothing else says it: with the batch size, or at `prepare`."""
    devices, groups = script.devices, [g for g in script.preparation.groups if g.anchor is not None]
    is_said = any(map(devices.trains_on_cpu, devices.known.bindings))
    if groups and devices.cpu is None and not script.is_by_hand and devices.lattice.is_plain_host and not is_said:
        place = min((g.anchor for g in groups if g.anchor is not None), key=script.program.position)
        message = _WAS_ON_CPU.format(script.options.runtime.launch)
        yield Remark(NAME, script.path(place), place, message, Tier.REVIEW, within=("batch_size", "data"))


def _choices(script: Script) -> Iterator[tuple[ast.AST, ast.expr, list[ast.expr], list[ast.expr]]]:
    """Where a device was chosen, what says so and may go, what the choice went by, and what of that numbers a GPU."""
    devices, program = script.devices, script.program
    for binding in devices.known.bindings:
        node = binding.node
        around = [a for a in program.ancestors(node) if isinstance(a, ast.If)]
        chosen = None if _is_bound_alike(script, binding) else program.parent(node)
        tests = [a.test for a in around if a is chosen or _is_about_devices(a.test)]
        yield node, binding.value, [binding.value, *tests], []
        yield from ((node, number, [number], []) for number in gpu_texts(script.program, binding.value))
    for move in devices.moves:
        for branching, is_body in program.branches_round(move.call):
            if not _moves_either_way(script, move, branching, is_body):
                yield branching, branching.test, [branching.test], []
    yield from ((source, source, [source], []) for source in devices.numbered)
    numbers = {m.device for m in devices.moves if ast.unparse(m.call.func).endswith(".cuda")}
    redirected = (m.device for m in devices.moves if m.device is not None and not devices.is_needless(m))
    needless = (m.device for m in devices.moves if m.device is not None and devices.is_needless(m))
    known, bindings = devices.known, devices.known.bindings
    for device in (*devices.named, *needless, *redirected):
        if any(known.is_from(device, binding.target) for binding in bindings):
            continue  # said where it is bound
        yield device, device, [device], [device] if device in numbers else []


def _is_bound_alike(script: Script, binding: Assignment) -> bool:
    """Whether a variable gets the same device wherever it gets one, and so under no condition another."""
    text, frame = ast.unparse(binding.target), script.program.frame(binding.node)
    alike = [b for b in script.devices.known.bindings if ast.unparse(b.target) == text]
    return len({ast.dump(b.value) for b in alike if script.program.frame(b.node) is frame}) == 1


def _moves_either_way(script: Script, move: Move, branching: ast.If | ast.IfExp, is_body: bool) -> bool:
    """Whether both branches of a choice make a move, which is then decided by something else."""
    other = branching.orelse if is_body else branching.body
    nodes = other if isinstance(other, list) else [other]
    same = (m.call for m in script.devices.moves if ast.unparse(m.call) == ast.unparse(move.call))
    return any(script.program.inside(call, node) for call in same for node in nodes)


def _is_about_devices(test: ast.expr) -> bool:
    return vocabulary.mentions_devices(ast.unparse(test))


def _just(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)


def _device_of(script: Script, accelerator: str, binding: Assignment) -> str:
    return _device(script, accelerator, binding.target, is_text=must_be_text(script.program, binding))


def _device(script: Script, accelerator: str, target: ast.expr, *, is_text: bool) -> str:
    """The accelerator's device; as text, with its number where the script reads that."""
    if not is_text:
        return f"{accelerator}.device"
    return f"str({accelerator}.device)" if is_taken_apart(script.program, target) else f"{accelerator}.device.type"


def _said_before(script: Script, binding: Assignment) -> ast.If | None:
    """The `if args.cpu:` that does nothing but give another value to what holds a device already."""
    choice = script.program.parent(binding.node)
    if (
        not isinstance(choice, ast.If)
        or choice.orelse
        or choice.body != [binding.node]
        or not script.changes_nothing(choice.test)
    ):
        return None
    block = script.program.block(choice)
    before = block[: block.index(choice)]
    above = (a for s in before if (a := assignment(s)) is not None and script.devices.known.is_binding(a))
    return choice if ast.unparse(binding.target) in map(ast.unparse, (a.target for a in above)) else None


def _is_said_again(script: Script, binding: Assignment) -> bool:
    """Whether a statement makes a device of the name of one, `device = torch.device(device)`, which it is by then."""
    target, statement = binding.target, binding.node
    if not isinstance(statement, ast.stmt) or not isinstance(target, ast.Name):
        return False
    block = script.program.block(statement)
    above = assignment(block[block.index(statement) - 1]) if block.index(statement) else None
    if above is None or not script.devices.known.is_binding(above) or not script.changes_nothing(binding.value):
        return False
    is_same = ast.unparse(above.target) == target.id
    return is_same and target.id in names_read_in(binding.value) and not must_be_text(script.program, above)
