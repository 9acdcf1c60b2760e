"""torchrun's elastic agent, told where output goes and how ranks are ended.

Source: https://docs.pytorch.org/docs/stable/elastic/agent.html
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.api import to_map
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

INTERRUPT_GRACE = 5.0  # seconds a rank gets to end after Ctrl-C; a rank inside a collective never sees the signal


class RankLogs(LogsSpecs):
    """Rank 0 keeps the launcher's own streams, every other rank writes `rank-N.log` in the folder."""

    def __init__(self, folder: Path, tee: str | None = None) -> None:
        super().__init__(log_dir=str(folder))
        self.folder = folder
        self.files: dict[int, Path] = {}
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
        return destination


class Agent(LocalElasticAgent):
    """An elastic agent that leaves no process behind, and lets ranks end by themselves when asked to stop.

    A signal goes to the rank alone first: sent to the whole group, it would end the rank's data loading workers under
    a rank that is still writing its last checkpoint.
    """

    def __init__(self, spec: WorkerSpec, logs: RankLogs, *, grace: float) -> None:
        super().__init__(spec, logs)
        self._grace = grace
        self._started: set[int] = set()

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        pids: dict[int, Any] = super()._start_workers(worker_group)
        self._started.update(pids.values())
        return pids

    def _stop_workers(self, worker_group: WorkerGroup, *args: Any, **kwargs: Any) -> None:
        super()._stop_workers(worker_group, *args, **kwargs)
        self.sweep()

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, *args: Any, **kwargs: Any) -> None:
        deadline = time.monotonic() + (min(INTERRUPT_GRACE, self._grace) if death_sig == signal.SIGINT else self._grace)
        running = list(self._running())
        for process in running:
            process.send_signal(death_sig)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        super()._shutdown(death_sig, *args, **kwargs)

    def sweep(self) -> None:
        """End whatever is left of the sessions that were started for ranks."""
        for pid in self._started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._started.clear()

    def _running(self) -> Iterator[subprocess.Popen[bytes]]:
        handlers = getattr(self._pcontext, "subprocess_handlers", None) or {}
        for handler in handlers.values():
            if handler.proc.poll() is None:
                yield handler.proc


def run_agent(
    command: list[str], rendezvous: RendezvousParameters, logs: RankLogs, *, grace: float, **options: Any
) -> RunResult:
    """Start the command once for each local rank and stay until all have ended.

    Raises: SignalException when this process was asked to stop; no rank is left running then either.
    """
    spec = WorkerSpec(
        role="default",
        entrypoint=command[0],
        args=tuple(argument.replace("$", "$$") for argument in command[1:]),  # the agent fills in `${local_rank}`
        rdzv_handler=get_rendezvous_handler(rendezvous),
        **options,
    )
    os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    agent = Agent(spec, logs, grace=grace)
    clean = False
    try:
        result: RunResult = agent.run()
        clean = not result.is_failed()
        return result
    finally:
        if not clean:
            agent.sweep()
        with contextlib.suppress(SignalException):
            spec.rdzv_handler.shutdown()
