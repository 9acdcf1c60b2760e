"""Replace what a script does by hand to run on several processes.

    dist.init_process_group("nccl")                        ->    (nothing)
    torch.cuda.set_device(local_rank)                      ->    (nothing)
    local_rank = int(os.environ["LOCAL_RANK"])             ->    local_rank = accelerator.local_process_index
    torch.zeros(1, device=f"cuda:{local_rank}")            ->    torch.zeros(1, device=accelerator.device)
    sampler = DistributedSampler(train_set)                ->    (nothing)
    loader = DataLoader(train_set, sampler=sampler)        ->    loader = DataLoader(train_set, shuffle=True)
    sampler.set_epoch(epoch)                               ->    (nothing)
    if dist.get_rank() == 0:                               ->    if accelerator.is_main_process:
    dist.barrier()                                         ->    accelerator.wait_for_everyone()
    dist.all_reduce(total)                                 ->    total = accelerator.reduce(total)
    dist.all_gather(rows, x)                               ->    rows[:] = accelerator.gather(x.detach()[None])
    dist.broadcast(order, src=0)                           ->    if accelerator.num_processes > 1:
                                                                     dist.broadcast(order, src=0)
    with model.no_sync():                                  ->    with accelerator.no_sync(model):
    dist.destroy_process_group()                           ->    (nothing)

Why: the same script then runs on a CPU, one GPU or many: `accelify launch` starts the processes, `prepare` shards the
data and wraps nothing. Batch sizes stay those of one process. A loader that shuffles draws its order from torch's
random numbers now, no more from the sampler's own.
Left alone: everything, where a part is not understood (processes spawned by the script itself, a group of its own,
collectives of other kinds, distribution that is optional); the file is declined, with the list.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import partial
from typing import TypeGuard

import libcst as cst

from accelify.codemod.devices.destinations import gpu_texts_at, is_numbered_call
from accelify.codemod.devices.placed import named_by
from accelify.codemod.distributed.findings import Distribution, stays_for
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Edit, Insert, Obstacle, Remark, Remove, Replace, Wrap
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.values import Made

NAME = "distributed"


def find(script: Script) -> Iterator[Change | Remark | Obstacle]:
    """Changes for all of it."""
    found = script.distribution
    if found is None or not found.is_understood:
        return
    gone = set(found.removed)
    for statement in found.removed:
        yield from _remove(script, statement, gone)
    for sampler in found.returned:
        edits = (Replace(sampler, partial(_code, code="None")),)
        yield Change(NAME, script.path(sampler), sampler.lineno, "a prepared loader needs no sampler", edits)
    inside = {n for s in gone for n in ast.walk(s)}
    for rank, word in found.ranks.items():
        if rank not in inside and not any(rank in ast.walk(question) for question in found.firsts):
            yield from _ask(script, rank, word, "the accelerator knows the rank of the process")
    for device in _own_gpus(script, found):
        yield from _ask(script, device, "device", "each process has a device of its own")
    for question, word in found.firsts.items():
        if question not in inside:
            yield from _ask(script, question, word, "only the main process does this")
    for barrier in found.barriers:
        yield from _ask(script, barrier, "wait_for_everyone()", "all processes wait for each other")
    yield from _together(script, found)
    for call in found.synchronised:
        message = "not changed: batch norms are synchronised across processes; several processes need GPUs for this"
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    for call, readers in found.kept.items():
        yield Remark(NAME, script.path(call), call, stays_for("--local_rank", readers), Tier.REVIEW)
    for loader, shuffles in found.samplers.items():
        yield from _loader(script, loader, shuffles)


def _own_gpus(script: Script, found: Distribution) -> Iterator[ast.expr]:
    """What names the GPU of a process, where something is made or loaded, by the number of the process."""
    named = {call: named_by(script.program, call) for call in script.program.calls}
    places = frozenset(device for given in named.values() for device in given)
    for call in (c for c in named if script.path(c) in script.files and not script.program.flow.callees.get(c)):
        for place in named[call]:
            device = _said_at(script, place, places)
            text = device.args[0] if _is_device(device, script) and len(device.args) == 1 else device
            is_named = is_numbered_call(script.program, text) or (
                gpu_texts_at(text) and not isinstance(text, ast.Constant)
            )
            if (device in found.devices or is_named) and script.accelerator(device) is not None:
                yield device


def _said_at(script: Script, device: ast.expr, places: Collection[ast.expr]) -> ast.expr:
    """What a variable is given that is only read where devices are named: `f"cuda:{local_rank}"`."""
    value = script.tracer.value_at(device)
    owner = script.program.scope(device).owner(device.id) if isinstance(device, ast.Name) else None
    if value is None or owner is None or not isinstance(device, ast.Name):
        return device
    return value if all(read in places for read in script.program.reads_of(owner, device.id)) else device


def _is_device(node: ast.expr, script: Script) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and "torch.device" in script.program.called(node)


def _together(script: Script, found: Distribution) -> Iterator[Change | Obstacle]:
    """What all processes do at once."""
    for call, kind in found.reductions.items():
        yield from _reduce(script, call, kind)
    for call, (listed, code) in found.gathered.items():
        yield from _gather(script, call, ast.unparse(listed), code)
    for call in found.guarded:
        yield from _guard(script, call)
    for node in found.unsynchronised:
        yield from _hold_back(script, node)


def _remove(script: Script, statement: ast.stmt, gone: set[ast.stmt]) -> Iterator[Change]:
    reason = "the accelerator sets up the process group and shards the data"
    parent = script.program.parent(statement)
    while isinstance(parent, ast.If) and script.changes_nothing(parent.test) and {*parent.body, *parent.orelse} <= gone:
        gone.add(parent)
        statement, parent = parent, script.program.parent(parent)
    yield Change(NAME, script.path(statement), statement.lineno, reason, (Remove(statement),))


def _ask(script: Script, node: ast.expr, word: str, reason: str) -> Iterator[Change | Obstacle]:
    accelerator = script.accelerator(node)
    if accelerator is None:
        yield Obstacle(NAME, script.path(node), node, f"the accelerator cannot be asked here for `{word}`")
        return
    negation, _, name = word.rpartition(" ")
    code = f"{negation} {accelerator}.{name}".strip()
    edit = Replace(node, partial(_code, code=code), reads=(accelerator.split(".")[0],))
    yield Change(NAME, script.path(node), node.lineno, reason, (edit,))


def _hold_back(script: Script, node: ast.Attribute) -> Iterator[Change | Obstacle]:
    accelerator = script.accelerator(node)
    if accelerator is None:
        yield Obstacle(
            NAME, script.path(node), node, "the accelerator cannot be passed to where this waits with averages"
        )
        return
    parent = script.program.parent(node)
    whole = parent if isinstance(parent, ast.Call) and parent.func is node else node
    make = partial(snippets.without_sync, accelerator=accelerator)
    edit = Replace(whole, make, keeps=(node.value,), reads=(accelerator.split(".")[0],))
    reason = "the accelerator averages gradients, and waits with it inside"
    yield Change(NAME, script.path(node), node.lineno, reason, (edit,))


def _reduce(script: Script, call: ast.Call, kind: str) -> Iterator[Change | Obstacle]:
    accelerator = script.accelerator(call)
    path, statement = script.path(call), script.program.statement(call)
    if accelerator is None:
        yield Obstacle(NAME, path, call, "the accelerator cannot be passed to where values are reduced")
        return
    tensor = next((k.value for k in call.keywords if k.arg == "tensor"), None) or call.args[0]
    name = ast.unparse(tensor)
    how = "" if kind == "sum" else f', reduction="{kind}"'
    edits: tuple[Edit, ...] = (
        Remove(statement),
        Insert(statement, "after", f"{name} = {accelerator}.reduce({name}{how})"),
    )
    yield Change(
        NAME, path, call.lineno, "the accelerator reduces across processes, or does nothing if there is only one", edits
    )


def _gather(script: Script, call: ast.Call, listed: str, code: str) -> Iterator[Change | Obstacle]:
    accelerator = script.accelerator(call)
    path, statement = script.path(call), script.program.statement(call)
    if accelerator is None:
        yield Obstacle(NAME, path, call, "the accelerator cannot be passed to where values are gathered")
        return
    edits = (Remove(statement), Insert(statement, "after", f"{listed}[:] = {accelerator}.{code}"))
    yield Change(NAME, path, call.lineno, "the accelerator gathers from all processes, or from the only one", edits)


def _guard(script: Script, call: ast.Call) -> Iterator[Change | Obstacle]:
    accelerator = script.accelerator(call)
    path, statement = script.path(call), script.program.statement(call)
    if accelerator is None:
        yield Obstacle(NAME, path, call, "the accelerator cannot be passed to where processes exchange values")
        return
    edit = Wrap((statement,), f"if {accelerator}.num_processes > 1:")
    yield Change(NAME, path, call.lineno, "one process alone has nothing to exchange, and no process group", (edit,))


def _loader(script: Script, loader: ast.Call, shuffles: bool) -> Iterator[Change]:
    path = script.path(loader)
    keeps = (loader.func, *loader.args, *(k.value for k in loader.keywords if k.arg not in ("sampler", "shuffle")))
    edit = Replace(loader, partial(own_order, shuffles=shuffles), keeps=keeps)
    is_prepared = any(isinstance(v, Made) and v.node is loader for v in script.preparation.loaders)
    alone = "only the main process reads these data, so they are not sharded"
    order = ", shuffled with torch's random numbers" if shuffles else ""
    reason = f"a prepared loader gives each process its shard{order}" if is_prepared else alone
    yield Change(NAME, path, loader.lineno, reason, (edit,), Tier.REVIEW)


def own_order(call: cst.CSTNode, shuffles: bool) -> cst.BaseExpression:
    """`DataLoader(data, shuffle=True)` for `DataLoader(data, sampler=DistributedSampler(data))`."""
    assert isinstance(call, cst.Call)
    kept = []
    for argument in call.args:
        name = argument.keyword.value if argument.keyword is not None else ""
        match name:
            case "sampler" if shuffles:
                kept.append(argument.with_changes(keyword=cst.Name("shuffle"), value=cst.Name("True")))
            case "sampler" | "shuffle":
                continue
            case _:
                kept.append(argument)
    last = call.args[-1]
    if kept and kept[-1].comma is not last.comma:
        kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=kept)


def _code(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)
