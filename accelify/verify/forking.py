"""Forks the ranks of all runs, so that torch is imported once."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any  # the server's answers are JSON

from accelify.verify.inside.server import kill
from accelify.verify.scratch import PREFIX, CannotVerify

# Variables that an outer launcher may have set, and their values in every run.
_OUTER = {
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE", "ACCELIFY_MIXED_PRECISION", "ACCELIFY_DEBUG"),
    "PYTHONSTARTUP",
}
_VARIABLES = {
    "ACCELIFY_CPU": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking for GPUs before a fork does not keep the fork from using one
    "PYTHONHASHSEED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
}


class Server:
    """The process that has torch imported and forks the ranks."""

    def __init__(self) -> None:
        if not hasattr(os, "fork"):
            raise CannotVerify("verify starts its runs by fork, which this system does not have")
        kept = {name: value for name, value in os.environ.items() if name not in _OUTER}
        # torch puts caches of its own into the folder for temporary files, and leaves them there.
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "accelify.verify.inside.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, **_VARIABLES, "TMPDIR": self._folder.name},
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._pids: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._names = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put({"gone": True})

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for identity in list(self._pids):
            self.kill(identity)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()

    def name(self) -> str:
        """A name for a rank that no rank had before."""
        self._names += 1
        return str(self._names)

    def start(self, identity: str, order: Mapping[str, Any]) -> None:
        """Fork a rank."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # why it is gone, `wait` will say
            self._process.stdin.write(json.dumps({"id": identity, **order}) + "\n")
            self._process.stdin.flush()

    def wait(self, seconds: float) -> None:
        """Take in what has happened, waiting at most so long for something to happen."""
        with suppress(queue.Empty):
            self._take(self._answers.get(timeout=seconds))
            while True:
                self._take(self._answers.get_nowait())

    def _take(self, answer: dict[str, Any]) -> None:
        if "cannot" in answer:
            raise CannotVerify(f"{answer['cannot']}: pip install 'accelify[runtime]' into it")
        if "gone" in answer:
            raise CannotVerify(f"the process that starts the runs ended with status {self._process.wait()}")
        if "started" in answer:
            self._pids[answer["started"]] = answer["pid"]
        elif "ended" in answer:
            self._ended[answer["ended"]] = answer["status"]
            with suppress(ProcessLookupError, PermissionError):  # what it started and left behind
                os.killpg(self._pids[answer["ended"]], signal.SIGKILL)

    def has_ended(self, identity: str) -> bool:
        """Whether a rank's process is gone."""
        return identity in self._ended

    def signal(self, identity: str, number: int) -> None:
        """Send a signal to a rank that still runs."""
        if identity in self._pids and identity not in self._ended:
            with suppress(ProcessLookupError):
                os.kill(self._pids[identity], number)

    def kill(self, identity: str) -> None:
        """End a rank and the processes that it started, its loaders' workers say."""
        if identity in self._pids and identity not in self._ended:
            with suppress(ProcessLookupError):  # it is gone, and the word of it is on its way
                kill(self._pids[identity])
