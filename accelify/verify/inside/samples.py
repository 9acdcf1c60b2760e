"""Records which indices of which dataset each batch of a loader was made of."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any  # torch's loader iterators are private and untyped

import torch
from torch.utils.data import dataloader

from accelify.verify.inside.reach import Reach
from accelify.verify.inside.record import Recorder


class Samples:
    """The passes over loaders; a loader is known by its dataset, since `prepare` may copy the loader."""

    def __init__(self, recorder: Recorder, reach: Reach) -> None:
        self._recorder = recorder
        self._reach = reach
        self._datasets: list[Any] = []
        self._passes: list[int] = []

    def number_of(self, dataset: Any) -> int:
        """The number of a data set: they are counted as passes over them begin."""
        return next((n for n, known in enumerate(self._datasets) if known is dataset), len(self._datasets))

    def begin(self, iterator: Any, loader: Any) -> None:
        """A pass begins."""
        dataset = loader.dataset
        number = self.number_of(dataset)
        if number == len(self._datasets):
            self._datasets.append(dataset)
            self._passes.append(0)
        iterator._verified = (number, self._passes[number])
        self._passes[number] += 1
        try:
            length = len(dataset)
        except TypeError:
            length = None
        self._recorder.write(
            "pass",
            dataset=number,
            number=iterator._verified[1],
            name=type(dataset).__name__,
            length=length,
            by_batch=_is_divided_by_batch(),
            prepared=any(frame.f_code.co_filename.endswith("accelerate/data_loader.py") for frame in _frames()),
            at=self._recorder.place(),
        )

    def batch(self, iterator: Any, indices: Any) -> None:
        """A batch was yielded."""
        dataset, number = iterator._verified
        self._reach.took_batch(iterator._verified)
        if not hasattr(iterator, "_stream"):
            iterator._stream = torch.get_rng_state()
        self._recorder.write("batch", dataset=dataset, number=number, indices=_plain(indices))

    def end(self, iterator: Any) -> None:
        """A pass is over."""
        dataset, number = iterator._verified
        self._reach.ended_pass(iterator._verified)
        draws = hasattr(iterator, "_stream") and not iterator._stream.equal(torch.get_rng_state())
        self._recorder.write("pass end", dataset=dataset, number=number, draws=draws)


def install(recorder: Recorder, reach: Reach, whole: Sequence[int], part: Sequence[int] | None) -> None:
    """Record every DataLoader's passes from here on; batches of the data sets of these numbers are taken whole.

    part: a rank, and of how many: a process alone takes that rank's rows of all other batches.
    """
    samples = Samples(recorder, reach)
    if whole:
        _take_whole(samples, whole)
    kind: Any = dataloader._BaseDataLoaderIter
    start, next_index, following = kind.__init__, kind._next_index, kind.__next__

    def started(self: Any, loader: Any) -> None:
        self._drawn = deque()
        samples.begin(self, loader)
        start(self, loader)

    def drawn(self: Any) -> Any:
        indices = next_index(self)
        if part is not None and isinstance(indices, list) and self._verified[0] not in whole:
            indices = _rows_of(indices, *part)
        self._drawn.append(indices)
        return indices

    def handed(self: Any) -> Any:
        try:
            data = following(self)
        except StopIteration:
            samples.end(self)
            raise
        samples.batch(self, self._drawn.popleft() if self._drawn else None)
        return data

    reset = kind._reset

    def again(self: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:  # persistent workers: the same iterator makes the next pass
            self._drawn.clear()
            samples.begin(self, loader)
        reset(self, loader, first_iter)

    kind.__init__ = started
    kind._next_index = drawn
    kind.__next__ = handed
    kind._reset = again


def _rows_of(indices: list[Any], rank: int, world: int) -> list[Any]:
    """A rank's rows of a batch, as the runtime divides it."""
    from accelify.runtime.data.sharding import Sharding, _bounds

    start, stop, _ = _bounds(len(indices), Sharding(rank=rank, size=world))
    return indices[start:stop]


def _take_whole(samples: Samples, whole: Sequence[int]) -> None:
    """Have each rank take batches of its own of some data sets, although it takes its part of every batch of others."""
    from accelify.runtime.data.loader import _Prepared
    from accelify.runtime.data.sources import choose_source

    real = _Prepared.begin

    def begin(self: Any, start: Any) -> Any:
        own = vars(self)
        sharding = getattr(own["_source"], "_sharding", None)
        dataset = getattr(own["_loader"], "dataset", None)
        if sharding is not None and sharding.split_batches and samples.number_of(dataset) in whole:
            sharding = replace(sharding, split_batches=False)
            own["_source"] = choose_source(own["_loader"], sharding, own["_passages"].streams)
        return real(self, start)

    _Prepared.begin = begin  # type: ignore[method-assign]


def _is_divided_by_batch() -> bool:
    """Whether every rank runs the whole loader, and the runtime keeps a part of each batch."""
    return any(
        frame.f_code.co_name == "__iter__" and type(frame.f_locals.get("self")).__name__ == "ByBatch"
        for frame in _frames()
    )


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _plain(indices: Any) -> list[Any] | None:
    """Indices as JSON; None for what a dataset without indices is asked for."""
    if isinstance(indices, (int, str)):
        return [indices]
    if indices is None:
        return None
    try:
        values = [value.item() if hasattr(value, "item") else value for value in indices]
    except TypeError:
        return None
    if any(value is None for value in values):
        return None
    return [value if isinstance(value, (int, str)) else str(value) for value in values]
