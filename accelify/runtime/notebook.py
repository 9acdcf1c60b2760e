"""Start several processes from a notebook's cell, or any interactive session, and get the function's value back."""

from __future__ import annotations

import codecs
import contextlib
import os
import pickle
import selectors
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar  # functions of every kind, with arguments of every kind

import cloudpickle  # type: ignore[import-untyped]  # it has no type hints
import torch
from torch.distributed.elastic.multiprocessing import LogsDest, SignalException

from accelify.errors import AccelifyError
from accelify.runtime.agent import RankLogs, run_agent
from accelify.runtime.bootstrap import die_with, write_error
from accelify.runtime.config import Settings, resolve
from accelify.runtime.detection import detect
from accelify.runtime.failure import Failure
from accelify.runtime.launch import Launch, Program, plan_launch
from accelify.runtime.ranks import first_of, import_torch, log_folder, own_address, rendezvous_of, tell

if TYPE_CHECKING:
    from torch.distributed.elastic.agent.server.api import RunResult

T = TypeVar("T")
AGENT_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class RankFailed(AccelifyError):
    """A process ended badly; the message has its rank, its host and its own traceback."""


def notebook_launcher(
    function: Callable[..., T],
    args: Sequence[Any] = (),
    num_processes: int | None = None,
    mixed_precision: str | None = None,
    *,
    cpu: bool = False,
    max_restarts: int = 0,
    start_method: str | None = None,
    use_port: object = None,
) -> T:
    """Call the function in every one of several processes, and return what it returned in process 0.

    What process 0 prints appears as it is printed. One process is this one: the function is simply called. Without
    a number there is one process for each GPU. Several are forked while no CUDA context exists, else spawned with
    the function pickled by value, so that CUDA may have been used before; `start_method` decides otherwise. A forked
    process computes on one CPU thread: GNU OpenMP's threads do not survive a fork.
    `use_port` is accepted and not needed: every launch finds a free port.
    Raises: the exception of the process that failed first, caused by a RankFailed with that process's traceback.
    """
    flags = {"num_processes": num_processes, "mixed_precision": mixed_precision, "cpu": cpu or None}
    settings = detect(resolve({**flags, "max_restarts": max_restarts}, {}, []), os.environ)
    return _launch(function, tuple(args), settings, start_method)


def debug_launcher(function: Callable[..., T], args: Sequence[Any] = (), num_processes: int = 2) -> T:
    """Call the function in several processes on the CPU, whatever GPUs there are: for trying things out and for tests.

    Raises: as `notebook_launcher`.
    """
    return notebook_launcher(function, args, num_processes, cpu=True)


def _launch(function: Callable[..., T], args: tuple[Any, ...], settings: Settings, start_method: str | None) -> T:
    launch = plan_launch(settings, Program("program", "function"))
    method = start_method or choose_start_method()
    with _variables(dict(launch.variables)):
        if launch.is_single:
            return function(*args)
        payload = cloudpickle.dumps((function, args)) if method == "spawn" else _Kept((function, args))
        value: T = _run(launch, payload, method)
        return value


def choose_start_method() -> str:
    """fork while it is safe: a CUDA context does not survive it, and not every system has it."""
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch leaves it so
    return "spawn" if used or not hasattr(os, "fork") or sys.platform == "darwin" else "fork"


class _Kept:
    """Something that a forked process finds in its memory, so that it need not be picklable."""

    def __init__(self, value: object) -> None:
        self.value = value


@contextlib.contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment with these variables, as it was again afterwards: a cell must not change the next one."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Put back the handlers that the agent replaces; the kernel needs its own for the next interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in AGENT_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class CellLogs(RankLogs):
    """Process 0 writes into two named pipes that the cell reads, every other one into its own file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pipes = {1: folder / "cell.out", 2: folder / "cell.err"}
        for pipe in self.pipes.values():
            os.mkfifo(pipe, 0o600)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        destination = super().reify(envs)
        for local_rank, variables in envs.items():
            shown = variables["ACCELIFY_SHOWN"] == "1"
            for descriptor in (1, 2):
                path = str(self.pipes[descriptor]) if shown else destination.stdouts[local_rank]
                variables[f"ACCELIFY_STREAM_{descriptor}"] = path
        nothing = dict.fromkeys(envs, "")  # `call` redirects by itself: the agent's way needs a file that can be sought
        destination.stdouts, destination.stderrs = nothing, dict(nothing)
        return destination


def _run(launch: Launch, payload: object, method: str) -> Any:
    import_torch(quiet=True)
    address = own_address(launch)
    logs = CellLogs(log_folder(launch))

    def on_restart(result: RunResult, count: int) -> None:
        first = first_of(result)
        tell(f"{_headline(first)}\nstarting all processes again, {count} of at most {launch.max_restarts} times")

    try:
        with _own_signals(), _shown(logs.pipes[1], sys.stdout), _shown(logs.pipes[2], sys.stderr):
            result = run_agent(
                call,
                (payload,),
                rendezvous_of(launch, address),
                logs,
                grace=launch.grace,
                on_restart=on_restart,
                start_method=method,
                local_world_size=launch.local_processes,
                max_restarts=launch.max_restarts,
                monitor_interval=launch.monitor_interval,
                local_addr=address,
            )
    except SignalException as stop:
        if stop.sigval == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise
    else:
        if result.is_failed():
            _raise(first_of(result), result)
        return pickle.loads(result.return_values[0])  # written a moment ago by our own process
    finally:
        shutil.rmtree(logs.folder, ignore_errors=True)


@contextlib.contextmanager
def _shown(pipe: Path, stream: IO[str]) -> Iterator[None]:
    """Write what comes out of the pipe to the stream as it comes, until the block ends and the pipe is empty."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    keep = os.open(pipe, os.O_WRONLY)  # so that there is no end of file between two attempts
    done, wake = os.pipe()
    reader = threading.Thread(target=_copy, args=(descriptor, done, stream), daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.write(wake, b"x")
        reader.join()
        for each in (descriptor, keep, done, wake):
            os.close(each)


def _copy(source: int, done: int, stream: IO[str]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        selector.register(done, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if source in ready:
                stream.write(decoder.decode(os.read(source, 65536)))
                stream.flush()
            elif done in ready:
                return


def call(payload: object) -> bytes:
    """In the started process: call the function as told, and return process 0's value in pickled form.

    What it raises is written down with its type, for the cell; the process then ends with status 1.
    """
    die_with(int(os.environ.pop("ACCELIFY_LAUNCHER", "0")))
    os.setsid()  # a group of its own, so that what the function starts can be ended with it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        _redirect(descriptor, name, os.environ.pop(f"ACCELIFY_STREAM_{descriptor}"))
    for name in ("ACCELIFY_SHOWN", "ACCELIFY_ONE_LOG"):
        os.environ.pop(name, None)
    if isinstance(payload, _Kept):
        torch.set_num_threads(1)
    try:
        function, args = payload.value if isinstance(payload, _Kept) else pickle.loads(payload)  # type: ignore[arg-type, misc]  # bytes otherwise
        value = function(*args)
        return _pickled(value) if os.environ["RANK"] == "0" else b""
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return _pickled(None)
        _write_down(error)
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _pickled(value: object) -> bytes:
    """The value in pickled form, its class by name where the cell has it under that name: it is the same class then.

    Raises: RankFailed when the value cannot be pickled at all.
    """
    with contextlib.suppress(Exception):  # whatever a class raises here, the other way may work
        return pickle.dumps(value)
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise RankFailed(f"the function's value, {type(value).__name__}, cannot be sent back: {error}") from error


def _redirect(descriptor: int, name: str, path: str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(target, descriptor)
    os.close(target)
    setattr(sys, name, open(descriptor, "w", encoding="utf-8", buffering=1, closefd=False))  # noqa: SIM115


def _write_down(error: BaseException) -> None:
    path = os.environ["TORCHELASTIC_ERROR_FILE"]
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__ and frames.tb_next is not None:
        frames = frames.tb_next
    error.__traceback__ = None  # a traceback cannot be pickled; its text goes beside it
    with contextlib.suppress(RankFailed):  # an exception that does not pickle still has its text
        Path(f"{path}.pickle").write_bytes(_pickled(error))
    write_error(path, error.with_traceback(frames), frames)


def _headline(first: Failure) -> str:
    return f"process {first.rank} on {first.host} failed first ({first.ending})"


def _raise(first: Failure, result: RunResult) -> None:
    """Raise the process's own exception where it can be had, with the text of its traceback as the cause."""
    text = f"{_headline(first)}\n\n{first.traceback}" if first.traceback else _headline(first)
    cause = RankFailed(text.rstrip())
    path = Path(f"{result.failures[first.rank].error_file}.pickle")
    error: object = None
    if path.exists():
        with contextlib.suppress(Exception):  # a class that does not unpickle here: its text says enough
            error = pickle.loads(path.read_bytes())
    if isinstance(error, BaseException) and not isinstance(error, SystemExit):
        raise error from cause
    raise cause
