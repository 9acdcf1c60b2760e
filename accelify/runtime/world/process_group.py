"""Start the process group that joins the ranks, choose device and backend, and leave quietly at exit."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any  # torch's store is untyped

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]  # public, but left out of __all__
from torch.distributed.distributed_c10d import _get_default_store

from accelify.runtime.world import files_written
from accelify.runtime.world.environment import BadEnvironment, Environment

TIMEOUT = timedelta(minutes=10)
# How long a rank that waited in vain looks for the reports of the others that did.
GRACE = timedelta(seconds=10)
# The report of a rank that has come to its end.
ENDED = "has ended"
# Of this process. What asks for its rank afterwards, as a log that is flushed at the end does, starts no other group.
_HAS_LEFT = threading.Event()
# From the import on: a script may open its log before it joins the others.
with suppress(BadEnvironment):
    if Environment.read().world_size > 1:
        files_written.FILES.start()


@dataclass(frozen=True, kw_only=True)
class World:
    """The ranks that train together, as this one sees them."""

    device: torch.device
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    timeout: timedelta = TIMEOUT
    backend: str | None = None
    debug: bool = False
    store: Any = None


def join(environment: Environment, *, cpu: bool, timeout: timedelta) -> World:
    """The world that the environment describes, its process group started unless it already runs.

    A group that somebody else started (the script itself, another Accelerator) is used as it is and left to them.
    """
    running = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if running else environment.world_size
    rank = dist.get_rank() if running else environment.rank
    device = choose_device(environment.local_rank, size, cpu=cpu)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if device.index:
            _begin_threads_on(device)
    if size > 1 and not running and not _HAS_LEFT.is_set():
        _start(environment, device, timeout)
    is_joined = size > 1 and dist.is_initialized()
    return World(
        device=device,
        rank=rank,
        size=size,
        local_rank=environment.local_rank,
        local_size=environment.local_world_size,
        timeout=timeout,
        backend=str(dist.get_backend()) if is_joined else None,
        debug=environment.debug,
        store=_get_default_store() if is_joined else None,
    )


def rank_here() -> int:
    """This process's rank, without joining the others."""
    rank, size = place()
    return rank if size > 1 else Environment.read().rank


def place() -> tuple[int, int]:
    """This rank and the world size, for code that has no accelerator."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    runtime = sys.modules.get("torch_xla.runtime")
    # Asked before XLA has started, torch_xla would remember that there is one process, in those forked later as well.
    if runtime is None or not sys.modules["torch_xla"]._XLAC._xla_runtime_is_initialized():
        return 0, 1
    size = int(runtime.world_size())
    return (int(runtime.global_ordinal()), size) if size > 1 else (0, 1)


def choose_device(local_rank: int, world_size: int, *, cpu: bool) -> torch.device:
    """CUDA if it is there, else MPS for a process of its own (no backend joins several), else the CPU."""
    if cpu:
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", local_rank % torch.cuda.device_count())
    if world_size == 1 and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@cache
def _begin_threads_on(device: torch.device) -> None:
    """Threads that start from here on have this GPU as their current one: by itself, each begins with GPU 0.

    Not those of forked processes, the workers of loaders, which must not ask for a GPU.
    """
    process, start = os.getpid(), threading.Thread.start

    def started(thread: threading.Thread) -> None:
        run = thread.run

        def run_there() -> None:
            torch.cuda.set_device(device)
            run()

        if os.getpid() == process:
            thread.run = run_there  # type: ignore[method-assign]  # of this thread alone
        start(thread)

    threading.Thread.start = started  # type: ignore[assignment,method-assign]


def _start(environment: Environment, device: torch.device, timeout: timedelta) -> None:
    # Its functions have the default group, whatever that is when it is imported, as a default argument: imported first
    # they do not keep alive what _leave destroys.
    importlib.import_module("torch.distributed.nn.functional")
    # tcp:// finds the store of torchrun's agent where there is one, and lets rank 0 open one where there is none.
    url = f"tcp://{environment.address}:{environment.port}"
    store, rank, size = next(rendezvous(url, environment.rank, environment.world_size, timeout=timeout))
    # The agent may keep one store over restarts, so each attempt has keys of its own.
    store = PrefixStore(f"accelify/{environment.restarts}", store)
    # Tensors on the CPU need gloo also beside NCCL: checks and objects travel there without a device synchronisation.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    files_written.FILES.start()
    atexit.register(_leave, _get_default_store(), rank, size)


def exchange_reports(world: World, report: str) -> dict[int, str | None]:
    """The reports that the other ranks left in the store within the grace period, None for a rank that left none."""
    store = world.store
    others = [rank for rank in range(world.size) if rank != world.rank]
    reports: dict[int, str | None] = dict.fromkeys(others)
    if store is None:
        return reports
    # The store is gone with the process that held it; then there are no more reports.
    with suppress(RuntimeError):
        store.set(f"word/{world.rank}", report)
        end = time.monotonic() + GRACE.total_seconds()
        for rank in others:
            reports[rank] = _report_of(store, rank, until=end)
    return reports


def _report_of(store: Any, rank: int, *, until: float) -> str | None:
    """The report of a rank that waited in vain, or else how it ended. Units: seconds of the monotonic clock."""
    while True:
        for key in (f"word/{rank}", f"end/{rank}"):
            if store.check([key]):
                return str(store.get(key).decode())
        if time.monotonic() > until:
            return None
        time.sleep(0.05)


def _leave(store: Any, rank: int, size: int) -> None:
    """Report how this rank ended and which files it shared, and end the groups, gloo's threads with them.

    A thread that needs Python to free a tensor must not outlive it. They end with the last reference to their group,
    so nothing in the runtime keeps one.
    """
    _HAS_LEFT.set()
    if dist.is_initialized():
        error = getattr(sys, "last_value", None)
        report = ENDED if error is None else f"failed with {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        with suppress(RuntimeError, OSError, ValueError):  # the store is gone with the process that held it
            if rank:
                files_written.leave_notes(store, rank)
            store.set(f"end/{rank}", report)
            if rank == 0 and error is None:
                files_written.warn_of_shared_files(store, size)
        dist.destroy_process_group()
