"""Clean-up when verify itself is stopped: the processes it started end, and its scratch folders are removed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def tidy_end() -> Iterator[None]:
    """Leave by SystemExit when a signal comes, with the status that shells give it; later ones change nothing."""
    before = {number: signal.signal(number, _leave) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    print(f"accelify verify: stopped by {signal.Signals(number).name}", file=sys.stderr)
    raise SystemExit(128 + number)
