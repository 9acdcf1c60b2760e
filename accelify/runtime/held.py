"""Prepared objects, kept alive or only for as long as the script keeps them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar  # Any: what weak references refer to

T = TypeVar("T")


class Held(Collection[T]):
    """Prepared objects, each once and in order.

    A script that makes its optimizer anew in each epoch lets the old one go, and so do we, with its state: where
    another has taken over its parameters, an optimizer is here as long as the script keeps it. A loader always is.
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


def _alive(held: Any) -> Any:
    return held() if isinstance(held, weakref.ref) else held
