"""A process that is asked to end: noticed at once, acted on where the training step is complete."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


class Preemption:
    """Listens for SIGTERM, which schedulers and `accelify launch` send before they end a process for good."""

    def __init__(self) -> None:
        self._is_listening = False
        self._is_asked = False

    def is_asked(self) -> bool:
        """Whether the signal has come. The first question begins to listen: who never asks is ended as ever."""
        if not self._is_listening:
            self._is_listening = True
            before = signal.getsignal(signal.SIGTERM)

            def notice(number: int, frame: FrameType | None) -> None:
                self._is_asked = True
                if callable(before):  # the script's own
                    before(number, frame)

            signal.signal(signal.SIGTERM, notice)
        return self._is_asked

    def leave(self, folder: str, *, tells: bool) -> NoReturn:
        """End this process with the status of a SIGTERM, and say where the run can go on from."""
        if tells:
            hint = "load_state() goes on from there"
            print(f"accelify: stopped by SIGTERM with a checkpoint, {folder}; {hint}", file=sys.stderr, flush=True)
        raise SystemExit(128 + signal.SIGTERM)
