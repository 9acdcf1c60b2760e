"""Point out device moves and distributed calls that stay.

    def batchify(data): return data.cuda()    in a file where only `os.makedirs` changes
    def to_tensor(row): return torch.tensor(row).cuda()    in a function that is not passed the accelerator
    def noise(x): return torch.randn(x.shape, device="cuda")    the same
    def forward(self, x): return x + noise.cuda()    in a file that stays as it is, where the training runs it
    def init(rank): dist.init_process_group(...)    in a changed file, where the script never calls it

Why: a reader takes a changed file for a migrated one, so whatever it still moves, wraps or distributes is listed. And
what the training still moves to a GPU by itself, in whatever file, keeps it from running on the CPU.
Left alone: everything; each process has a GPU of its own as the current one. What is moved under `if x.is_cuda:` or
`if torch.cuda.is_available():` is not listed: `--cpu` hides the GPUs. What is moved to the device that the
changed files pass on is not listed: that is the process's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.devices.destinations import is_by_number, is_where_another_is
from accelify.codemod.devices.facts import only_keeps
from accelify.codemod.devices.moves import Move, Moves
from accelify.codemod.edits.values import Remark, When
from accelify.codemod.script import Script
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.randomness.workers import is_worker_code

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
    trained = script.program.run_from(script.run.leading)
    for move in Moves(script.program, script.roles, script.tracer, script.prepared, files).found:
        is_run = script.program.frame(move.call) in trained and not is_worker_code(script.program, move.call)
        if is_run and not script.is_by_hand and _names_the_gpu(script, move):
            yield from _moved_by_itself(script, move.call)
        elif move.device is None or not _is_right(script, move.device):
            yield Remark(NAME, script.path(move.call), move.call, message, when=When.CHANGED)
    for path in sorted(files):
        for call in script.program.flow.parsed_of[path].parents:
            if isinstance(call, ast.Call) and _last_name(call.func) in _BY_HAND and call not in script.wrappers:
                yield Remark(NAME, path, call, message, when=When.CHANGED)
    yield from _without_accelerator(script)
    for path in sorted(script.files):
        yield from _unreached(script, path)


def _is_right(script: Script, device: ast.expr) -> bool:
    """Whether a move is to the process's own device, which changed files pass on, or to where another tensor is."""
    is_own = device in script.devices.numbers or script.devices.is_of_process(device)
    return is_own or is_where_another_is(script.tracer.only_value(device) or device)


def _without_accelerator(script: Script) -> Iterator[Remark]:
    """The moves to a GPU that a function of a changed file names itself, and that is not passed the accelerator."""
    trained = script.program.run_from(script.run.leading)
    for move in script.devices.moves:
        frame = script.program.frame(move.call)
        is_literal = move.device is None or isinstance(move.device, ast.Constant)
        is_own = isinstance(move.device, ast.Name) and script.program.scope(move.device).owner(move.device.id) is frame
        if _is_reached(script, move.call) or script.devices.goes_to_cpu(move):
            continue
        if is_by_number(script.program, move.device):
            continue
        if frame not in trained and (is_literal or (is_own and not _is_parameter(frame, move.device))):
            message = "not changed, because the training does not run this function"
            yield Remark(NAME, script.path(move.call), move.call, message, when=When.KEPT)
        elif frame in trained and is_literal:
            yield from _moved_by_itself(script, move.call)
    for call in _made_on_the_gpu(script):
        if script.program.frame(call) in trained and not _is_reached(script, call):
            yield from _moved_by_itself(script, call)


def _is_reached(script: Script, node: ast.AST) -> bool:
    return script.accelerator(node) is not None and not is_worker_code(script.program, node)


def _made_on_the_gpu(script: Script) -> Iterator[ast.Call]:
    """What calls of libraries make on the GPU by its text: `torch.zeros(3, device="cuda")`."""
    for call in script.program.calls:
        if script.path(call) in script.files and not only_keeps(script.program, call):
            given = [k.value for k in call.keywords if k.arg == "device"]
            if any(isinstance(g, ast.Constant) and g.value == "cuda" for g in given):
                yield call


def _names_the_gpu(script: Script, move: Move) -> bool:
    """Whether a move says itself that it is to the GPU: `x.cuda()`, `x.to("cuda")`."""
    is_literal = move.device is None or isinstance(move.device, ast.Constant)
    is_named = is_literal and not is_by_number(script.program, move.device)
    return is_named and not script.devices.goes_to_cpu(move)


def _moved_by_itself(script: Script, call: ast.Call) -> Iterator[Remark]:
    """A note that something goes to a GPU even where the training is on the CPU, as there is none to be seen then."""
    if all(world.has_gpu for world in script.program.once(Conditions).worlds(call)):
        return
    message = (
        "not changed, because the accelerator is not passed to this function: this is the process's own GPU, "
        f"even with `{script.options.runtime.launch} --cpu`"
    )
    yield Remark(NAME, script.path(call), call, message, when=When.KEPT)


def _is_parameter(function: Scope, device: ast.expr | None) -> bool:
    return isinstance(device, ast.Name) and any(p.arg == device.id for p in function.parameters)


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
