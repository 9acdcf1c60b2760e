"""What one rank or every rank tries, and all then know: it went well, or every rank raises the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # what is tried gives values of any kind

from accelify.errors import AccelifyError
from accelify.runtime.world.collectives import Alone


class Attempts:
    """Work that may fail on some rank, whose failure every rank must hear of."""

    def __init__(self, collectives: Alone, rank: int) -> None:
        self._collectives = collectives
        self._rank = rank

    def on_main(self, work: Callable[[], Any], kind: type[AccelifyError]) -> Any:
        """What `work` gives on rank 0, on every rank; its failure too."""
        outcome, cause = _attempt(work) if self._rank == 0 else ((None, None), None)
        value, reason = self._collectives.broadcast_object(outcome)
        if reason is not None:
            raise kind(reason) from cause
        return value

    def on_all(self, work: Callable[[], Any], kind: type[AccelifyError]) -> list[Any]:
        """What `work` gives on each rank; if it fails on any, every rank raises the same."""
        outcome, cause = _attempt(work)
        outcomes = self._collectives.gather_object(outcome)
        failed = [f"rank {rank}: {reason}" for rank, (_, reason) in enumerate(outcomes) if reason is not None]
        if failed:
            raise kind("; ".join(failed)) from cause
        return [value for value, _ in outcomes]


def _attempt(work: Callable[[], Any]) -> tuple[tuple[Any, str | None], Exception | None]:
    try:
        return (work(), None), None
    except Exception as error:  # whatever it is, the other ranks wait to hear of it; all raise it
        words = str(error) if isinstance(error, AccelifyError) else f"{type(error).__name__}: {error}"
        return (None, words), error
