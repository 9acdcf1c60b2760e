"""Start a cell's function on all XLA devices, through torch_xla's own launcher."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar  # functions of every kind, with arguments of every kind

import cloudpickle  # type: ignore[import-untyped]  # it has no type hints

from accelify.runtime.launch.bootstrap import die_with
from accelify.runtime.launch.cell import (
    RankFailed,
    forward_output,
    pickled,
    raise_again,
    redirect,
    with_variables,
    write_exception,
)
from accelify.runtime.launch.config import Settings
from accelify.runtime.launch.failure import first_failure, read_failure
from accelify.runtime.launch.plan import script_variables
from accelify.runtime.world import xla
from accelify.runtime.world.environment import PJRT

T = TypeVar("T")


def launch_on_xla(
    function: Callable[..., T], args: tuple[Any, ...], settings: Settings, processes: int | None, start_method: str
) -> T:
    """Call the function on one XLA device or on all of them, and return what it returned on the first.

    Raises: CannotUseXla without torch_xla or for what its launcher cannot do, else what the function raised first.
    """
    if settings["max_restarts"].value:
        raise xla.CannotUseXla("max_restarts: torch_xla's launcher starts nothing again")
    launch = xla.module().launch
    variables = dict(script_variables(settings))
    if processes is not None and os.environ.get(PJRT) == "CPU":
        variables["CPU_NUM_DEVICES"] = str(processes)
    with with_variables(variables):
        if processes == 1:
            values: list[T] = []
            launch(lambda _: values.append(function(*args)), debug_single_process=True)
            return values[0]
        value: T = _launch_all(launch, cloudpickle.dumps((function, args)), processes, start_method)
        return value


def _launch_all(launch: Any, payload: bytes, processes: int | None, start_method: str) -> Any:
    folder = Path(tempfile.mkdtemp(prefix="accelify-"))
    pipes = {name: folder / name for name in ("stdout", "stderr")}
    for pipe in pipes.values():
        os.mkfifo(pipe, 0o600)
    try:
        with (
            forward_output(pipes["stdout"], sys.stdout),
            forward_output(pipes["stderr"], sys.stderr),
            _interruptible(folder) as stopped,
        ):
            try:
                launch(call, args=(payload, str(folder), os.getpid(), processes), start_method=start_method)
            except Exception as error:  # of every kind: of a process that ended it says only that it did
                if stopped.is_set():
                    raise KeyboardInterrupt from None
                _raise_first(folder, error)
        return pickle.loads((folder / "value").read_bytes())  # written a moment ago by our own process
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _interruptible(folder: Path) -> Iterator[threading.Event]:
    """Have Ctrl-C end the processes, for which torch_xla's launcher would wait in vain; the event says that it did."""
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()
        for process in folder.glob("process-*"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name.removeprefix("process-")), signal.SIGKILL)

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _raise_first(folder: Path, error: Exception) -> None:
    files = {int(file.name.split(".")[0].removeprefix("rank-")): file for file in folder.glob("rank-*.error.json")}
    if not files:
        raise RankFailed(
            f"a process on XLA devices ended without a report ({type(error).__name__}: {error})"
        ) from error
    host = socket.gethostname()
    first = first_failure(read_failure(rank, 1, str(file), time.time(), host) for rank, file in files.items())
    raise_again(first, str(files[first.rank]))


def call(rank: int, payload: bytes, folder: str, launcher: int, processes: int | None) -> None:
    """On one device: call the function; the first one leaves its value in the folder.

    What it raises is written down there with its type, and the whole process ends: the other ranks may wait for it.
    """
    runtime = xla.module("runtime")
    if runtime.local_ordinal() % runtime.addressable_device_count() == 0:
        _begin_process(rank, Path(folder), launcher)
    try:
        if processes not in (None, runtime.world_size()):
            reason = f"torch_xla finds {runtime.world_size()} devices and starts one or all of them"
            raise xla.CannotUseXla(f"num_processes={processes}: {reason}")
        function, args = pickle.loads(payload)
        value = _value(function, args)
        if rank == 0:
            Path(folder, "value").write_bytes(pickled(value))
    except BaseException as error:
        write_exception(error, str(Path(folder, f"rank-{rank}.error.json")), [__file__])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _value(function: Callable[..., T], args: tuple[Any, ...]) -> T | None:
    try:
        return function(*args)
    except SystemExit as end:
        if end.code in (None, 0):
            return None
        raise


def _begin_process(rank: int, folder: Path, launcher: int) -> None:
    """Once in a process: the first rank's prints into the cell, every other one into a log."""
    die_with(launcher)
    Path(folder, f"process-{os.getpid()}").touch()
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        redirect(descriptor, name, str(folder / (name if rank == 0 else f"rank-{rank}.log")))
