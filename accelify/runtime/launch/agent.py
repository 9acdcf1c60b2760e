"""torchrun's elastic agent, with our log files and our way to end ranks.

Source: https://docs.pytorch.org/docs/stable/elastic/agent.html
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.api import to_map
from torch.distributed.elastic.rendezvous import (
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
)
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from accelify.runtime.launch import stacks
from accelify.runtime.launch.plan import CannotLaunch
from accelify.runtime.launch.stalls import Rank, Watch

FAREWELL = timedelta(seconds=10)  # how long machines that cannot work together wait for each other to see it
INTERRUPT_GRACE = 5.0  # seconds a rank gets to end after Ctrl-C; a rank inside a collective never sees the signal


OnRestart = Callable[[RunResult, int], None]  # what the ranks ended with, and which restart this is


class RankLogs(LogsSpecs):
    """Rank 0 keeps the launcher's own streams, every other rank writes `rank-N.log` in the folder."""

    def __init__(self, folder: Path, tee: str | None = None) -> None:
        super().__init__(log_dir=str(folder))
        self.folder = folder
        self.files: dict[int, Path] = {}  # by rank: where its output is
        self.stacks: dict[int, Path] = {}  # by local rank: where it writes its stack when asked
        self.ranks: dict[int, int] = {}  # by local rank
        self.seed = 0  # of this start: one number for the ranks of all machines
        self._shown_by_tee = Std.from_str(tee) if tee else Std.NONE

    @property
    def root_log_dir(self) -> str:
        return str(self.folder)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        destination = LogsDest()
        tees = to_map(self._shown_by_tee, len(envs))
        for local_rank, variables in envs.items():
            rank, attempt = int(variables["RANK"]), int(variables.get("TORCHELASTIC_RESTART_COUNT", "0"))
            name = f"rank-{rank}" + (f".restart-{attempt}" if attempt else "")
            self.ranks[local_rank], self.stacks[local_rank] = rank, self.folder / f"{name}.stack"
            out, err, teed = "", "", tees[local_rank]
            if rank != 0 or teed:
                out = str(self.folder / f"{name}.log")
                err = str(self.folder / f"{name}.err") if teed else ""
                self.files[rank] = Path(out)
            if teed & Std.OUT:
                destination.tee_stdouts[local_rank] = out
            if teed & Std.ERR:
                destination.tee_stderrs[local_rank] = err
            destination.stdouts[local_rank], destination.stderrs[local_rank] = out, err
            destination.error_files[local_rank] = str(self.folder / f"{name}.error.json")
            variables["TORCHELASTIC_ERROR_FILE"] = destination.error_files[local_rank]
            variables["ACCELIFY_SHOWN"] = "1" if rank == 0 and not teed else "0"
            variables["ACCELIFY_ONE_LOG"] = "1" if out and not err else "0"
            variables["ACCELIFY_LAUNCHER"] = str(os.getpid())
            if int(variables["WORLD_SIZE"]) > 1:
                variables["ACCELIFY_SEED"] = str(self.seed)
                variables.setdefault("PYTHONHASHSEED", os.environ.get("PYTHONHASHSEED", str(self.seed)))
        return destination


class Agent(LocalElasticAgent):
    """An elastic agent that leaves no process behind, and lets ranks end by themselves when asked to stop.

    A signal goes to the rank alone first: sent to the whole group, it would end the rank's data loading workers under
    a rank that is still writing its last checkpoint.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs: RankLogs,
        *,
        grace: float,
        watch: Watch,
        on_restart: OnRestart,
        start_method: str = "spawn",
    ) -> None:
        super().__init__(spec, logs, start_method=start_method)
        self._logs = logs
        self._grace = grace
        self._watch = watch
        self._on_restart = on_restart
        self._started: set[int] = set()

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        store: Any = worker_group.store
        attempt = worker_group.spec.max_restarts - self._remaining_restarts
        drawn = store.compare_set(f"accelify/seed/{attempt}", "", str(secrets.randbits(32)))
        self._logs.seed = int(drawn)
        pids: dict[int, Any] = super()._start_workers(worker_group)
        self._started.update(pids.values())
        context: Any = self._pcontext
        end = context.close  # called as soon as the agent sees a rank that has failed

        def close(*args: Any, **kwargs: Any) -> None:
            if any(process.poll() for process in self._processes().values()):
                self._ask_for_stacks()
            end(*args, **kwargs)

        context.close = close
        return pids

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result: RunResult = super()._monitor_workers(worker_group)
        self._result = result
        pids: dict[int, int] = self._pcontext.pids() if self._pcontext is not None else {}
        ranks = (Rank(self._logs.ranks[local], pid, self._logs.stacks[local]) for local, pid in pids.items())
        self._watch.look({rank.pid: rank for rank in ranks})
        return result

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        self._on_restart(self._result, worker_group.spec.max_restarts - self._remaining_restarts)
        super()._restart_workers(worker_group)

    def _ask_for_stacks(self) -> None:
        """Have the ranks that still run write down where they are, before the agent ends them for another's failure."""
        running = {local: process for local, process in self._processes().items() if process.poll() is None}
        stacks.ask((process.pid, self._logs.stacks[local]) for local, process in running.items())

    def _stop_workers(self, worker_group: WorkerGroup, *args: Any, **kwargs: Any) -> None:
        super()._stop_workers(worker_group, *args, **kwargs)
        self.sweep()

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, *args: Any, **kwargs: Any) -> None:
        deadline = time.monotonic() + (min(INTERRUPT_GRACE, self._grace) if death_sig == signal.SIGINT else self._grace)
        running = [process for process in self._processes().values() if process.poll() is None]
        for process in running:
            process.send_signal(death_sig)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        if death_sig == signal.SIGINT and "timeout" in kwargs:
            kwargs["timeout"] = int(min(INTERRUPT_GRACE, self._grace))
        super()._shutdown(death_sig, *args, **kwargs)

    def sweep(self) -> None:
        """End whatever is left of the sessions that were started for ranks."""
        for pid in self._started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._started.clear()

    def _processes(self) -> dict[int, subprocess.Popen[bytes]]:
        handlers = getattr(self._pcontext, "subprocess_handlers", None) or {}
        return {local_rank: handler.proc for local_rank, handler in handlers.items()}


class NumberedRendezvous(RendezvousHandler):
    """A rendezvous in which each machine keeps the number it was given.

    c10d numbers machines by their addresses, so rank 0's output could turn up anywhere. The store that the ranks
    use stays where the rendezvous put it: the agents hold it, not rank 0.
    """

    def __init__(self, inner: RendezvousHandler, machine_rank: int) -> None:
        self._inner = inner
        self._machine_rank = machine_rank

    def next_rendezvous(self) -> RendezvousInfo:
        met = self._inner.next_rendezvous()
        keys = [f"accelify/machine/{rank}" for rank in range(met.world_size)]
        met.store.set(keys[met.rank], str(self._machine_rank))
        numbers = [int(met.store.get(key)) for key in keys]
        if sorted(numbers) != list(range(met.world_size)):
            # Each leaves when all have seen it: the store goes with the machine that holds it.
            met.store.set(f"{keys[met.rank]}/seen", "")
            with contextlib.suppress(RuntimeError):
                met.store.wait([f"{key}/seen" for key in keys], FAREWELL)
            raise RendezvousError(f"{met.world_size} machines were started with the machine ranks {sorted(numbers)}")
        assert met.bootstrap_store_info is not None  # always there when the agents hold the store
        return RendezvousInfo(met.store, self._machine_rank, met.world_size, met.bootstrap_store_info)

    def get_backend(self) -> str:
        return self._inner.get_backend()

    @property
    def use_agent_store(self) -> bool:
        return self._inner.use_agent_store

    def is_closed(self) -> bool:
        return self._inner.is_closed()

    def set_closed(self) -> None:
        self._inner.set_closed()  # type: ignore[no-untyped-call]  # torch leaves it so

    def num_nodes_waiting(self) -> int:
        return self._inner.num_nodes_waiting()

    def get_run_id(self) -> str:
        return self._inner.get_run_id()

    def shutdown(self) -> bool:
        return self._inner.shutdown()


def run_agent(
    entrypoint: str | Callable[..., Any],
    arguments: tuple[Any, ...],
    rendezvous: RendezvousParameters,
    logs: RankLogs,
    *,
    grace: float,
    watch: Watch,
    on_restart: OnRestart,
    machine_rank: int | None = None,
    start_method: str = "spawn",
    **options: Any,
) -> RunResult:
    """Start the program or call the function once for each local rank, and stay until all have ended.

    Raises: SignalException when this process was asked to stop; no rank is left running then either.
    """
    try:
        handler = get_rendezvous_handler(rendezvous)
    except (ValueError, ImportError) as error:  # a backend that is not there
        raise CannotLaunch(f"the rendezvous cannot begin: {error}") from None
    if machine_rank is not None and handler.use_agent_store:
        handler = NumberedRendezvous(handler, machine_rank)
    # The agent fills in `${local_rank}` in arguments that are text, hence the doubled dollars.
    spec = WorkerSpec(
        role="default",
        entrypoint=entrypoint,
        args=tuple(given.replace("$", "$$") if isinstance(given, str) else given for given in arguments),
        rdzv_handler=handler,
        **options,
    )
    os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    agent = Agent(spec, logs, grace=grace, watch=watch, on_restart=on_restart, start_method=start_method)
    try:
        result: RunResult = agent.run()
    except SignalException:
        agent.sweep()
        raise  # the rendezvous stays open: in an elastic job the other machines go on without this one
    except BaseException:
        agent.sweep()
        handler.shutdown()
        raise
    if result.is_failed():
        agent.sweep()
    handler.shutdown()
    return result
