"""Find what is dealt out already inside of what is to be: a loader over a prepared loader would be dealt out twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # loaders hold whatever they hold

from torch.utils.data import DataLoader

from accelify.errors import AccelifyError
from accelify.runtime.data.data import STAND_INS, is_prepared
from accelify.runtime.data.sharding import IterableShard, SequenceShard

# Units: levels of attributes below a loader in which others are looked for, and elements of a list among these
DEPTH, WIDTH = 3, 16


class DealtTwice(AccelifyError):
    """A loader that goes over batches or elements of which each rank has its own already."""


def is_dealt(loader: Any, *, anew: bool = False) -> bool:
    """Whether this goes over batches that are dealt already, as what wraps a prepared loader does.

    anew: whether it is to be dealt in another way, which a prepared loader itself can be.
    Raises: DealtTwice for a DataLoader over what is dealt, whose batches are new ones, and for what cannot be anew.
    """
    if anew and is_prepared(loader):
        return False
    if isinstance(loader, DataLoader) and not isinstance(loader, STAND_INS):
        parts: list[Any] = [loader.dataset, loader.sampler, loader.batch_sampler]
        inner = next((found for part in parts for found in _search(part, DEPTH)), None)
        if inner is not None:
            raise DealtTwice(
                f"prepare: a DataLoader over a {type(inner).__name__}, of which each process has its own part already. "
                "Use it without preparing it, or prepare it alone"
            )
    found = next(_search(loader, DEPTH), None)
    if anew and found is not None:
        raise DealtTwice(f"shard: a {type(loader).__name__} over a loader that is prepared. Shard that loader itself")
    return found is not None


def _search(value: Any, depth: int) -> Iterator[object]:
    if isinstance(value, (*STAND_INS, SequenceShard, IterableShard)):
        yield value
    elif depth:
        for part in _held(value):
            yield from _search(part, depth - 1)


def _held(value: Any) -> list[Any]:
    """What an iterable or a container holds; of anything else it is not known what it is there for."""
    if isinstance(value, (list, tuple)):
        return list(value[:WIDTH])
    if isinstance(value, dict):
        return list(value.values())[:WIDTH]
    is_gone_over = hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")
    return list(vars(value).values()) if is_gone_over and hasattr(value, "__dict__") else []
