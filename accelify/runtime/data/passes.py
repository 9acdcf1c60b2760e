"""One pass over a prepared loader, and what it knows of each step: how many rows every rank holds, how many count."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import UserDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any  # batches are whatever the user's loader yields

import torch

from accelify.runtime.data.streams import Streams
from accelify.runtime.world import tensors

# Units: batches of one pass that may be on a GPU before their computation has begun; each takes memory of its own there
AHEAD = 2
# Units: bytes. A copy of so few does not wait for the computation, even out of memory that is not pinned, and costs
# less than a stream of its own; measured on an H200
SMALL = 1 << 16


class NoBatch:
    """In place of a batch, for a rank that has none in a step in which other ranks have the last ones."""

    def __reduce__(self) -> str:
        """The same object in another process."""
        return "NO_BATCH"


NO_BATCH = NoBatch()
# What `len` raises where there is none: Python, torchtext, and a DataLoader that was never set up as one.
NO_LENGTH = (TypeError, NotImplementedError, AttributeError)


@dataclass(frozen=True, slots=True)
class Step:
    """The rows that the ranks hold in one step, and how many of them count (the first ones; the rest only fill up).

    `rows` None: the batches are not ours to count (one element of a sampler is one batch); valid then is 1 or 0.
    """

    rows: tuple[int, ...] | None
    valid: tuple[int, ...]
    is_split: bool = False

    @property
    def is_unpadded(self) -> bool:
        """Whether nothing was added on any rank."""
        return all(self.valid) if self.rows is None else self.rows == self.valid

    @property
    def is_partial(self) -> bool:
        """Whether some ranks have no batch at all in this step."""
        return self.rows is not None and 0 in self.rows

    def weight(self, rank: int) -> float:
        """The factor of the mean over this rank's slice with which the ranks' mean is that of the unsplit batch."""
        if not self.is_split or len(set(self.valid)) == 1:
            return 1.0
        return self.valid[rank] * len(self.valid) / sum(self.valid)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The batches of one pass, this rank's, and the steps that they belong to: that of a batch is there when it is."""

    batches: Iterator[Any]
    steps: Sequence[Step | None] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """A loop that the script has left: the steps it took, the loader it was over, and whether it was broken off."""

    steps: Sequence[Step]
    loader: str
    is_broken: bool = False

    @property
    def is_unpadded(self) -> bool:
        """Whether nothing was added to any of its steps."""
        return all(step.is_unpadded for step in self.steps)


def epoch_of(pairs: Iterator[tuple[Any, Step | None]]) -> Epoch:
    """The epoch of batches that come with their steps."""
    steps: list[Step | None] = []

    def batches() -> Iterator[Any]:
        for batch, step in pairs:
            steps.append(step)
            if batch is not NO_BATCH:
                yield batch

    return Epoch(batches(), steps)


class LoaderPass:
    """An iterator over one epoch of one loader."""

    def __init__(
        self,
        epoch: Epoch,
        passes: LoaderPasses,
        device: torch.device | None,
        length: int | None,
        at_end: Callable[[], None] | None = None,
        loader: str = "",
        owner: Any = None,
    ) -> None:
        self.loader = loader
        self.owner = owner
        self._at_end = at_end
        self._is_over = False
        self.taken = 0
        self.ref = weakref.ref(self)
        self._batches = epoch.batches
        self._steps = epoch.steps
        self._length = length
        self._passes = passes
        self._copies = None if device is None else DeviceCopies(device)

    def __iter__(self) -> LoaderPass:
        return self

    def __len__(self) -> int:
        """How many batches the pass has from its start on, as the iterator of a plain loader does."""
        if self._length is None:
            raise TypeError("this pass goes over a loader that has no length")
        return self._length

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._passes.end(self)
            self._is_over = True
            if self._at_end is not None:
                self._at_end()
                self._at_end = None
            raise
        except Exception:
            # The script may catch it and go on with the next batch, as with a plain loader.
            self.taken += 1
            raise
        self.taken += 1
        if self._passes.moved is not self.ref:
            self._passes.advance(self)
        return batch if self._copies is None else self._copies.of(batch)

    def __del__(self) -> None:
        if not self._is_over:
            self._passes.drop(self)

    @property
    def step(self) -> Step | None:
        """That of the batch which the script is at, where it is known."""
        return self._steps[self.taken - 1] if self.taken and self._steps else None

    @property
    def history(self) -> list[Step]:
        """The steps of the pass, once it is over: also one in which only other ranks had a batch."""
        return [step for step in self._steps if step is not None]

    @property
    def is_alike(self) -> bool:
        """Whether every rank had a batch of its own in each step, once the pass is over."""
        return bool(self._steps) and all(0 not in (step.rows or step.valid) for step in self.history)

    @property
    def is_last(self) -> bool:
        """Whether the batch the script is at is the epoch's last."""
        if self._length is None:
            # No length to go by: look one batch ahead.
            ahead = list(itertools.islice(self._batches, 1))
            self._batches = itertools.chain(ahead, self._batches)
            return not ahead
        return self.taken >= self._length


class LoaderPasses:
    """The passes under way. One that the script has let go of, as `break` does, is no longer there."""

    def __deepcopy__(self, memo: dict[int, Any]) -> LoaderPasses:
        """The same object: a copied loader's passes are known here, too."""
        return self

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        # The one that moved last.
        self.moved: weakref.ref[LoaderPass] | None = None
        self._open: list[weakref.ref[LoaderPass]] = []
        self._left: list[Left] = []

    def begin(
        self,
        epoch: Epoch,
        device: torch.device | None,
        length: int | None,
        at_end: Callable[[], None] | None = None,
        loader: str = "",
        owner: Any = None,
    ) -> LoaderPass:
        """A new pass over a loader, the owner, of this description; `at_end` is called when it comes to its end."""
        return LoaderPass(epoch, self, device, length, at_end, loader, owner)

    def advance(self, loader_pass: LoaderPass) -> None:
        """Take this pass for the one whose batch the script is at."""
        self._open = [ref for ref in self._open if ref() is not None and ref is not loader_pass.ref]
        self._open.append(loader_pass.ref)
        self.moved = loader_pass.ref

    def end(self, loader_pass: LoaderPass) -> None:
        """Note that a pass came to its end."""
        self._open = [ref for ref in self._open if ref() is not None and ref is not loader_pass.ref]
        self._left, self.moved = [Left(loader_pass.history, loader_pass.loader)], None

    def drop(self, loader_pass: LoaderPass) -> None:
        """Note that the script has let go of a pass before its end."""
        if loader_pass.taken:
            broken = Left(loader_pass.history[: loader_pass.taken], loader_pass.loader, is_broken=True)
            self._left = [*(left for left in self._left if not left.is_broken), broken]
        if self.moved is loader_pass.ref:
            self.moved = None

    def loop(self, elements: Iterator[Any]) -> Iterator[Any]:
        """The elements for a loop that begins over a shard of them, whose rows are not known here."""
        self._left = []
        return self.streams.loop(elements)

    @property
    def current(self) -> LoaderPass | None:
        """The pass that moved last, if one is under way."""
        for ref in reversed(self._open):
            loader_pass = ref()
            if loader_pass is not None:
                return loader_pass
        return None

    @property
    def is_inside(self) -> bool:
        """Whether a pass is under way, and none has ended since it moved."""
        return self.moved is not None and self.current is not None

    @property
    def step(self) -> Step | None:
        """The step of the pass that moved last, if one is under way."""
        return None if (loader_pass := self.current) is None else loader_pass.step

    def is_last_batch(self) -> bool:
        """Whether the script is at the last batch of the pass that moved last."""
        return (loader_pass := self.current) is not None and loader_pass.is_last

    def is_per_epoch(self, steps: int) -> bool:
        """Whether the script does once in an epoch what it does now, `steps` optimizer steps since it last did so.

        It does after a loop over a prepared loader, and in its last round after several steps.
        """
        if (current := self.current) is None:
            return bool(self._left) or steps > 1
        return steps > 1 and current.is_last

    @property
    def left(self) -> list[Left]:
        """The pass that ended last and, behind it, one that was broken off since."""
        return self._left


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all passes: a stream keeps the memory of what was copied on it for its next copies."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch leaves it so


class DeviceCopies:
    """The copies of one pass to a device, none of which the processor waits for."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._reached: deque[torch.cuda.Event] = deque()

    def of(self, batch: Any) -> Any:
        """The batch on the device: its tensors, containers of them, and objects that have a `to` of their own."""
        if self._device.type != "cuda":
            return self._each(self._there, batch)
        computing = torch.cuda.current_stream(self._device)
        copying: torch.cuda.Stream | None = None

        def there(leaf: Any) -> Any:
            nonlocal copying
            if not _is_large(leaf):
                # Whoever computed this did so on the script's own stream, and what else it holds is its own affair.
                return self._there(leaf)
            if copying is None:
                self._limit(computing)
                copying = _side_stream(self._device)
            with torch.cuda.stream(copying):
                moved = self._there(leaf)
            moved.record_stream(computing)  # its memory is not for the next copy while a step still reads it
            return moved

        moved = self._each(there, batch)
        if copying is not None:
            computing.wait_stream(copying)
        return moved

    def _each(self, change: Callable[[Any], Any], batch: Any) -> Any:
        return tensors.map_leaves(change, batch, is_leaf=moves_itself)

    def _there(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to(self._device, non_blocking=True)
        return _moved_itself(leaf, self._device) if moves_itself(leaf) else leaf

    def _limit(self, computing: torch.cuda.Stream) -> None:
        """Return once the GPU has come to the batch before the last: a script that asks on and on would fill it."""
        self._reached.append(computing.record_event())
        if len(self._reached) > AHEAD:
            self._reached.popleft().synchronize()


def _is_large(leaf: Any) -> bool:
    """Whether a leaf is a tensor that is copied beside the computation."""
    return isinstance(leaf, torch.Tensor) and _is_one_piece(leaf) and leaf.nbytes > SMALL


def _is_one_piece(tensor: torch.Tensor) -> bool:
    """Whether the tensor is one piece of the CPU's memory: only then can its copy be recorded on a stream."""
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_nested


def moves_itself(tree: Any) -> bool:
    """Whether this has a `to` of its own, as graphs and packed sequences have; a tokenizer's dict is a dict."""
    return callable(getattr(tree, "to", None)) and not isinstance(tree, (type, UserDict))


def _moved_itself(thing: Any, device: torch.device) -> Any:
    try:
        there = thing.to(device, non_blocking=True)
    except TypeError:
        there = thing.to(device)
    return thing if there is None else there
