"""Blocks that one process goes through before the others: nothing in them may wait for another process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_one_by_one: ContextVar[bool] = ContextVar("_one_by_one", default=False)


def goes_one_by_one() -> bool:
    """Whether this process is in such a block: a wait for all of them would wait for those that are still before it."""
    return _one_by_one.get()


@contextmanager
def one_by_one() -> Iterator[None]:
    """The inside of such a block."""
    token = _one_by_one.set(True)
    try:
        yield
    finally:
        _one_by_one.reset(token)
