"""Prepared objects, kept alive or only for as long as the script keeps them."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar  # Any: what weak references refer to

T = TypeVar("T")
# Of the time that passes, garbage is collected during less than one part in so many.
SHARE = 20


class Held(Collection[T]):
    """Prepared objects, each once and in order.

    A script that makes a model or an optimizer anew in each round lets the old one go, and so do we. In one process
    what is here is here as long as the script keeps it. On several, memory is cleared up at other times on each, so
    models and optimizers are kept alive until all ranks look at once which of them the script has let go; an optimizer
    whose parameters another has taken over is not. A loader never is.
    """

    def __init__(self) -> None:
        self._held: list[T | weakref.ref[Any]] = []

    def add(self, given: T) -> None:
        """Hold what is not here yet, and again what was let go."""
        self._held = [one for one in self._held if _alive(one) is not None]
        if all(one is not given for one in self.lasting):
            self._held = [one for one in self._held if _alive(one) is not given]
            self._held.append(given)

    def add_loosely(self, given: T) -> None:
        """Hold what is not here yet for as long as the script does, where that can be seen."""
        if given not in self:
            self.add(given)
            if type(given).__weakrefoffset__:
                self.loosen(lambda one: one is given)

    def loosen(self, is_meant: Callable[[T], bool]) -> None:
        """Keep some no longer alive."""
        self._held = [weakref.ref(one) if _alive(one) is one and is_meant(one) else one for one in self._held]

    def let_go(self, is_meant: Callable[[T], bool]) -> list[Callable[[], T | None]]:
        """Keep none of these alive; what gives each of them that was, as long as the script keeps it."""
        meant = [_reference(one) for one in self.lasting if is_meant(one)]
        self.loosen(lambda one: is_meant(one) and bool(type(one).__weakrefoffset__))
        return meant

    def keep(self, chosen: Collection[T]) -> None:
        """Keep these alive again."""
        known = set(map(id, chosen))
        self._held = [alive if id(alive := _alive(one)) in known else one for one in self._held]

    @property
    def lasting(self) -> list[T]:
        """The objects that are kept alive: the same on all ranks, whenever memory is cleared up on each."""
        return [one for one in self._held if not isinstance(one, weakref.ref)]

    def __iter__(self) -> Iterator[T]:
        return iter([one for one in map(_alive, self._held) if one is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, given: object) -> bool:
        return any(one is given for one in self)

    def clear(self) -> None:
        """Hold nothing."""
        self._held.clear()


def _reference(one: Any) -> Callable[[], Any]:
    return weakref.ref(one) if type(one).__weakrefoffset__ else lambda: one


def _alive(held: Any) -> Any:
    return held() if isinstance(held, weakref.ref) else held


class Garbage:
    """Objects that know each other and that nobody else knows: collected when asked, unless that takes long."""

    def __init__(self) -> None:
        self._due = 0.0

    def collect(self) -> None:
        """Collect it, if the last time is long enough ago."""
        began = time.monotonic()
        if began >= self._due:
            gc.collect()
            ended = time.monotonic()
            self._due = ended + SHARE * (ended - began)
