"""Start several processes from a notebook's cell, or any interactive session, and get the function's value back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar  # functions of every kind, with arguments of every kind

import cloudpickle  # type: ignore[import-untyped]  # it has no type hints
import torch
from torch.distributed.elastic.multiprocessing import LogsDest, SignalException

from accelify.runtime.launch.agent import RankLogs, run_agent
from accelify.runtime.launch.bootstrap import die_with, show_stack_when_asked, warn_when_training_alone
from accelify.runtime.launch.cell import (
    forward_output,
    headline,
    pickled,
    raise_again,
    redirect,
    with_variables,
    write_exception,
)
from accelify.runtime.launch.config import Settings, resolve
from accelify.runtime.launch.detection import detect
from accelify.runtime.launch.plan import Launch, Program, plan_launch
from accelify.runtime.launch.ranks import first_of, import_torch, log_folder, own_address, print_line, rendezvous_of
from accelify.runtime.launch.stalls import Watch
from accelify.runtime.world.environment import PJRT

if TYPE_CHECKING:
    from torch.distributed.elastic.agent.server.api import RunResult

T = TypeVar("T")
TPU_FILES = ("accel[0-9]*", "vfio/[0-9]*")  # in /dev: v2 to v4, and later ones
_SUCCESS = 0  # CUDA_SUCCESS
AGENT_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def notebook_launcher(
    function: Callable[..., T],
    args: Sequence[Any] = (),
    num_processes: int | None = None,
    mixed_precision: str | None = None,
    *,
    cpu: bool = False,
    max_restarts: int = 0,
    stall_timeout: float | None = None,
    start_method: str | None = None,
    use_port: object = None,
) -> T:
    """Call the function in every one of several processes, and return what it returned in process 0.

    What process 0 prints appears as it is printed. One process is this one: the function is simply called. Without
    a number there is one process for each GPU. Several are forked while CUDA has not been started, else spawned with
    the function pickled by value, so that CUDA may have been used before; `start_method` decides otherwise. A forked
    process computes on one CPU thread: GNU OpenMP's threads do not survive a fork.
    On TPUs, or wherever $PJRT_DEVICE is set, torch_xla's own launcher starts them: one process or one for each device.
    Processes that do nothing for `stall_timeout` seconds (60; 0: never) are reported with their stacks.
    `use_port` is accepted and not needed: every launch finds a free port.
    Raises: the exception of the process that failed first, caused by a RankFailed with that process's traceback.
    """
    flags: dict[str, object] = {"num_processes": num_processes, "mixed_precision": mixed_precision, "cpu": cpu or None}
    flags |= {"max_restarts": max_restarts, "stall_timeout": stall_timeout}
    settings = detect(resolve(flags, {}, []), os.environ)
    if not cpu and is_for_xla():
        from accelify.runtime.launch.notebook_xla import launch_on_xla  # here, as it is for few

        return launch_on_xla(function, tuple(args), settings, num_processes, start_method or "fork")
    return _launch(function, tuple(args), settings, start_method)


def debug_launcher(function: Callable[..., T], args: Sequence[Any] = (), num_processes: int = 2) -> T:
    """Call the function in several processes on the CPU, whatever GPUs there are: to try a function, and for tests.

    Raises: as `notebook_launcher`.
    """
    return notebook_launcher(function, args, num_processes, cpu=True)


def _launch(function: Callable[..., T], args: tuple[Any, ...], settings: Settings, start_method: str | None) -> T:
    launch = plan_launch(settings, Program("program", "function"))
    method = start_method or choose_start_method()
    with with_variables(dict(launch.variables)):
        if launch.is_single:
            return function(*args)
        payload = cloudpickle.dumps((function, args)) if method == "spawn" else _Kept((function, args))
        value: T = _run(launch, payload, method)
        return value


def choose_start_method() -> str:
    """fork while it is safe: CUDA does not survive it once it has been started, and not every system has it."""
    used = torch.cuda.is_initialized() or _has_started_cuda()  # type: ignore[no-untyped-call]  # torch leaves it so
    return "spawn" if used or not hasattr(os, "fork") or sys.platform == "darwin" else "fork"


def _has_started_cuda() -> bool:
    """Whether something has started CUDA's driver in this process, as `torch.cuda.is_available()` does.

    torch does not call that initialized, but no process forked from here can use CUDA then.
    Source: https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#poison-fork-in-multiprocessing
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == _SUCCESS)  # else: not initialized


def is_for_xla() -> bool:
    """Whether $PJRT_DEVICE is set, or torch_xla is there and finds a TPU, which it then notes in that variable."""
    if os.environ.get(PJRT):
        return True
    if importlib.util.find_spec("torch_xla") is None or not any(Path("/dev").glob(each) for each in TPU_FILES):
        return False
    with with_variables({}):
        importlib.import_module("torch_xla")
        chosen = os.environ.get(PJRT)
    if chosen == "TPU":
        os.environ[PJRT] = chosen
    return chosen == "TPU"


class _Kept:
    """Something that a forked process finds in its memory, so that it need not be picklable."""

    def __init__(self, value: object) -> None:
        self.value = value


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
    gc.collect()  # an earlier launch's store and its threads, before they are forked
    address = own_address(launch)
    logs = CellLogs(log_folder(launch))

    def on_restart(result: RunResult, count: int) -> None:
        first = first_of(result)
        print_line(f"{headline(first)}\nstarting all processes again, {count} of at most {launch.max_restarts} times")

    try:
        with _own_signals(), forward_output(logs.pipes[1], sys.stdout), forward_output(logs.pipes[2], sys.stderr):
            result = run_agent(
                call,
                (payload,),
                rendezvous_of(launch, address),
                logs,
                grace=launch.grace,
                watch=Watch(launch.stall_timeout, print_line),
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
            first = first_of(result)
            raise_again(first, str(result.failures[first.rank].error_file))
        return pickle.loads(result.return_values[0])  # written a moment ago by our own process
    finally:
        shutil.rmtree(logs.folder, ignore_errors=True)


def call(payload: object) -> bytes:
    """In the started process: call the function, and return process 0's value in pickled form.

    What it raises is written down with its type, for the cell; the process then ends with status 1.
    """
    gc.freeze()  # what was left for the collector before the fork has threads in the other process only
    die_with(int(os.environ.pop("ACCELIFY_LAUNCHER", "0")))
    show_stack_when_asked()
    warn_when_training_alone()
    os.setsid()  # a group of its own, so that what the function starts can be ended with it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        redirect(descriptor, name, os.environ.pop(f"ACCELIFY_STREAM_{descriptor}"))
    for name in ("ACCELIFY_SHOWN", "ACCELIFY_ONE_LOG"):
        os.environ.pop(name, None)
    if isinstance(payload, _Kept):
        torch.set_num_threads(1)
    try:
        function, args = payload.value if isinstance(payload, _Kept) else pickle.loads(payload)  # type: ignore[arg-type, misc]  # bytes otherwise
        value = function(*args)
        return pickled(value) if os.environ["RANK"] == "0" else b""
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return pickled(None)
        write_exception(error, os.environ["TORCHELASTIC_ERROR_FILE"], [__file__])
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
