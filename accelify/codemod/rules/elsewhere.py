"""Point out device moves and distributed calls that stay.

    def batchify(data): return data.to(place)    in a file where only `os.makedirs` changes
    def init(rank): dist.init_process_group(...)    in a changed file, where the script never calls it

    def test(net, x, args): return net(x.cuda(args.gpu))    in any file, where the training calls it

Why: a reader takes a changed file for a migrated one, so what it still wraps, distributes or moves to a device that may
not be the process's is listed; so is what the training moves to one GPU in all processes.
Left alone: everything. `x.cuda()` and `device="cuda"` are not listed, nor what is moved to the device that the changed
files pass on: the GPU of a process is the current one in all of its code, also in threads. These are only on record, in
JSON as notes of tier `info`, in the text with `-v`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.devices.destinations import Where, is_by_number, is_where_another_is
from accelify.codemod.devices.moves import Moves, is_option
from accelify.codemod.edits.values import Remark, When
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "elsewhere"
_DISTRIBUTING = {"DistributedDataParallel", "DDP", "DistributedSampler", "init_process_group"}
_BY_HAND = _DISTRIBUTING | {"backward", "DataParallel", "GradScaler"}


def find(script: Script) -> Iterator[Remark]:
    """A note for each such call in a file that the plan changes and that no training code gets to."""
    files = {p.path for p in script.program.files} - script.files
    message = (
        "not changed, because the accelerator is not passed to this file: if the training runs this, use "
        f"`{script.options.runtime.module}.PartialState()` for the process's device and rank"
    )
    for move in Moves(script.program, script.roles, script.tracer, script.prepared, files).found:
        path = script.path(move.call)
        device = None if move.device is None or _is_right(script, move.device) else move.device
        if device is not None and _is_the_same_for_all(script, move.call, device):
            text = (
                f"the training runs this, and `{ast.unparse(device)}` is the same GPU in every process, while the "
                "model is on the process's own: move this to the device of a tensor at hand, `.to(x.device)`"
            )
            yield Remark(NAME, path, move.call, text)
        elif device is not None:
            yield Remark(NAME, path, move.call, message, when=When.CHANGED)
        else:
            reason = script.devices.reason_to_stay(move, script.run)
            yield Remark(NAME, path, move.call, reason, Tier.INFO, When.LEFT)
    for path in sorted(files):
        for call in script.program.flow.parsed_of[path].parents:
            if isinstance(call, ast.Call) and _last_name(call.func) in _BY_HAND and call not in script.wrappers:
                yield Remark(NAME, path, call, message, when=When.CHANGED)
    for path in sorted(script.files):
        yield from _unreached(script, path)


def _is_the_same_for_all(script: Script, call: ast.Call, device: ast.expr) -> bool:
    """Whether the training moves something to the GPU whose number is an option: `x.cuda(args.gpu)`."""
    is_numbered = Where.NUMBERED in script.devices.places(device) or ast.unparse(call.func).endswith(".cuda")
    return is_option(device) and is_numbered and script.run.may_train(script.program, call)


def _is_right(script: Script, device: ast.expr) -> bool:
    """Whether a move is to the process's own device, by its name or passed on, or to where another tensor is."""
    is_named = isinstance(device, ast.Constant) and not is_by_number(script.program, device)
    is_own = is_named or device in script.devices.numbers or script.devices.is_of_process(device)
    is_own = is_own or script.devices.places(device) == {Where.ACCELERATOR}
    return is_own or is_where_another_is(script.tracer.only_value(device) or device)


def _unreached(script: Script, path: str) -> Iterator[Remark]:
    """Code that spreads a script over processes in a function that is never called."""
    for call in script.program.flow.parsed_of[path].parents:
        if isinstance(call, ast.Call) and call not in script.program.flow.values:
            name = _last_name(call.func)
            if name in _DISTRIBUTING:
                message = f"`{name}` is not changed: nothing that the script runs reaches this"
                yield Remark(NAME, path, call, message, when=When.CHANGED)


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
