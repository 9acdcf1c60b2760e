"""Stop on SIGTERM: the signal is noticed at once, and acted on where the training step is complete."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

from accelify.runtime.world.collectives import Collectives


class Preemption:
    """Listens for SIGTERM, which schedulers and `accelify launch` send before they end a process for good."""

    def __init__(self, *, collectives: Collectives, is_main: bool) -> None:
        self._collectives = collectives
        self._is_main = is_main
        self._is_listening = False
        self._is_asked = False

    def stop_if_asked(self, save: Callable[[], str]) -> None:
        """Save and end this process with the status of a SIGTERM, if the signal has come to any rank; all ranks ask.

        The first question begins to listen: a script that never asks is ended by the signal as ever.
        """
        if not self._is_listening:
            self._listen()
        if self._collectives.reduce(int(self._is_asked), "max"):
            folder = save()
            if self._is_main:
                hint = "load_state() goes on from there"
                print(f"accelify: stopped by SIGTERM with a checkpoint, {folder}; {hint}", file=sys.stderr, flush=True)
            raise SystemExit(128 + signal.SIGTERM)

    def _listen(self) -> None:
        self._is_listening = True
        before = signal.getsignal(signal.SIGTERM)

        def notice(number: int, frame: FrameType | None) -> None:
            self._is_asked = True
            if callable(before):  # the script's own
                before(number, frame)

        signal.signal(signal.SIGTERM, notice)
