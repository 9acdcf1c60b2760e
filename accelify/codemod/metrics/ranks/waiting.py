"""In which order to work out facts that depend on each other: what a fact needs before the fact, in rounds."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Fact = TypeVar("Fact")


class Waiting(Generic[Fact]):
    """The facts that are to be worked out, or again.

    What is found later is what something found before it needs. So a round goes from the last to the first, and each
    fact waits until what it needs is known. What has a cycle of facts grow goes round it once in each round.
    """

    def __init__(self) -> None:
        self._found: dict[Fact, int] = {}
        self._round: list[tuple[int, Fact]] = []
        self._next: dict[Fact, None] = {}
        self._queued: set[Fact] = set()
        self._at = 0

    def __bool__(self) -> bool:
        return bool(self._queued)

    def add(self, fact: Fact) -> None:
        """Have a fact worked out: in this round if it is new, or if its turn is still to come."""
        is_new = fact not in self._found
        at = self._found.setdefault(fact, len(self._found))
        if fact in self._queued:
            return
        self._queued.add(fact)
        if is_new or at < self._at:
            heapq.heappush(self._round, (-at, fact))
        else:
            self._next[fact] = None

    def pop(self) -> Fact:
        """The fact whose turn it is."""
        if not self._round:
            self._round = [(-self._found[fact], fact) for fact in self._next]
            heapq.heapify(self._round)
            self._next = {}
        at, fact = heapq.heappop(self._round)
        self._at = -at
        self._queued.discard(fact)
        return fact
