"""Prepared loaders: stand-ins that yield this rank's batches, know how far they are, and can go on from there."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any  # batches and attributes are whatever the user's loader has

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from accelify.runtime.data.index_sharding import AlreadySharded
from accelify.runtime.data.one_process import OneProcess
from accelify.runtime.data.passes import NO_LENGTH, LoaderPass, LoaderPasses
from accelify.runtime.data.random_state import private_states, set_private_states
from accelify.runtime.data.resume import PassStart, Source, is_reread, is_torch_loader, owners_of, samplers_of
from accelify.runtime.data.sources import ByDataset
from accelify.runtime.data.streams import Loop, Streams

# Passes under way, which have a length as loaders do.
_PASSES = (_BaseDataLoaderIter, LoaderPass, Loop)


def is_loader(value: object) -> bool:
    """Whether this is a source of batches: a DataLoader, or what can be iterated again and again but not indexed."""
    if isinstance(value, DataLoader):
        return True
    if isinstance(value, (torch.Tensor, str, bytes, dict, set, frozenset, *_PASSES)):
        return False
    can_begin_again = hasattr(value, "__len__") or not (hasattr(value, "__next__") or isinstance(value, Dataset))
    return hasattr(value, "__iter__") and can_begin_again and not hasattr(value, "__getitem__")


class Progress:
    """How far a loader is: its finished passes, and the one under way."""

    def __init__(self) -> None:
        self.iteration = 0
        self.start = PassStart()
        self.waiting: PassStart | None = None
        self._was_finished = False
        self._loader_pass: weakref.ref[LoaderPass] | None = None

    def begin(self, start: PassStart, loader_pass: LoaderPass) -> None:
        """Note a pass that begins."""
        self.start, self.waiting, self._was_finished = start, None, False
        self._loader_pass = weakref.ref(loader_pass)

    def end(self) -> None:
        """Note that the pass came to its end."""
        self.iteration += 1
        self._loader_pass = None
        self._was_finished = True

    @property
    def is_at_last(self) -> bool:
        """Whether the pass under way is at its last batch; with none under way, whether one has come to its end."""
        loader_pass = None if self._loader_pass is None else self._loader_pass()
        return self._was_finished if loader_pass is None else bool(loader_pass.taken) and loader_pass.is_last

    def next_start(self, per_step: int, seeded: torch.Tensor | None) -> PassStart:
        """Where the next pass would have to begin to go on from here; one that was broken off is over.

        `seeded`: what workers that live on were seeded from.
        """
        if self.waiting is not None:
            return self.waiting
        loader_pass = None if self._loader_pass is None else self._loader_pass()
        if loader_pass is None:
            return PassStart(seeded=seeded)
        position = self.start.position + loader_pass.taken * per_step
        return replace(self.start, position=position) if position else PassStart(seeded=seeded)


class _Prepared:
    """A loader's stand-in: its batches are this rank's, on its device; everything else is the loader's own."""

    def __init__(self, loader: Any, source: Source, passes: LoaderPasses, device: torch.device | None) -> None:
        own = {"_loader": loader, "_source": source, "_passages": passes, "_device": device, "_progress": Progress()}
        vars(self).update(own)

    def __iter__(self) -> Iterator[Any]:
        return self.begin(vars(self)["_progress"].waiting or PassStart())

    def begin(self, start: PassStart) -> Iterator[Any]:
        """A pass from this start on."""
        own = vars(self)
        progress: Progress = own["_progress"]
        streams: Streams = own["_passages"].streams
        with streams.shared():
            epoch = own["_source"].begin(start)
        try:
            length = own["_source"].count(start.position)
        except NO_LENGTH:
            length = None
        loader_pass: LoaderPass = own["_passages"].begin(
            epoch, own["_device"], length, self._end, _description(own["_loader"]), self
        )
        progress.begin(start, loader_pass)
        return streams.loop(loader_pass, is_resumed=start.position > 0)

    def _end(self) -> None:
        """The function that a pass calls at its end; until then it keeps its loader alive for `save_state`."""
        vars(self)["_progress"].end()

    def begin_after(self, count: int) -> Iterator[Any]:
        """A pass without its first `count` batches, however far a loaded checkpoint was in it."""
        own = vars(self)
        progress: Progress = own["_progress"]
        position = count * own["_source"].per_step
        if progress.waiting is not None and self.is_at_end and not count:
            progress.waiting = None
            progress.iteration += 1
        return self.begin(replace(progress.waiting or PassStart(), position=position))

    @property
    def is_at_end(self) -> bool:
        """Whether a loaded checkpoint was written at the last batch of a pass."""
        own = vars(self)
        waiting = own["_progress"].waiting
        try:
            return waiting is not None and waiting.position > 0 and own["_source"].count(waiting.position) == 0
        except NO_LENGTH:
            return False

    @property
    def iteration(self) -> int:
        """How many passes have come to their end, those before a loaded checkpoint included."""
        return vars(self)["_progress"].iteration  # type: ignore[no-any-return]

    @property
    def total_batch_size(self) -> int:
        """How many rows a full step of all processes has. Raises: AttributeError for a loader without a batch size."""
        own = vars(self)
        sampler = getattr(own["_loader"], "batch_sampler", None)
        size = getattr(own["_loader"], "batch_size", None) or getattr(sampler, "batch_size", None)
        if size is None:
            raise AttributeError("total_batch_size: the loader has no batch_size")
        return int(size * own["_source"].per_step)

    @property
    def total_dataset_length(self) -> int:
        """How many elements the dataset has, of all processes. Raises: TypeError for one without a length."""
        return len(vars(self)["_loader"].dataset)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the loop under way is at its last batch; after a whole one, until the next begins, too."""
        return vars(self)["_progress"].is_at_last  # type: ignore[no-any-return]

    @property
    def remainder(self) -> int:
        """How many rows the last step of all processes has beside whole ones, 0 for none; -1 where that is unknown."""
        loader = vars(self)["_loader"]
        rows = _length(getattr(loader, "dataset", None))
        if rows is None or getattr(loader, "drop_last", False) or getattr(loader, "batch_size", None) is None:
            return -1
        return rows % self.total_batch_size

    def __len__(self) -> int:
        return vars(self)["_source"].count()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if "_loader" not in vars(self):
            raise AttributeError(name)
        return getattr(vars(self)["_loader"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_loader"], name, value)

    def __repr__(self) -> str:
        return f"prepared {vars(self)['_loader']!r}"

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch on whatever of the loader takes it: its samplers, its dataset."""
        loader = vars(self)["_loader"]
        own = [loader] if hasattr(loader, "set_epoch") else []
        for owner in own or [*samplers_of(loader), getattr(loader, "dataset", None)]:
            if hasattr(owner, "set_epoch"):
                owner.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """How far the loop over the loader is; the same on all processes, and what `save_state` keeps of it."""
        return {**(state_of(self) or {}), "generators": generators_of(self)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next loop go on where the state was taken; a warning says what makes that inexact."""
        problem = load_state(self, state_dict, generators=state_dict["generators"])
        if problem is not None:
            warnings.warn(f"load_state_dict: {problem}", stacklevel=2)


class PreparedIterable(_Prepared):
    """The stand-in for another library's loader."""


class PreparedLoader(_Prepared, DataLoader[Any]):  # type: ignore[misc]  # our iterator is not torch's private one
    """The stand-in for a DataLoader, and one itself."""


class _Asked(_Prepared):
    """A stand-in that `next` can be asked of, as of a loader that is its own iterator: an endless one."""

    def __next__(self) -> Any:
        own = vars(self)
        asked = own.setdefault("_asked", None) or iter(self)
        own["_asked"] = None  # after the last batch another pass begins
        batch = next(asked)
        own["_asked"] = asked
        return batch


class AskedIterable(_Asked, PreparedIterable):
    """The stand-in for another library's loader that is its own iterator."""


class AskedLoader(_Asked, PreparedLoader):  # type: ignore[misc]  # as above
    """The stand-in for a DataLoader that is its own iterator."""


def prepare_loader(loader: Any, source: Source, passes: LoaderPasses, device: torch.device | None) -> Any:
    """The loader to use from now on; the very same one where nothing has to be done and it is no DataLoader."""
    is_plain = isinstance(source, OneProcess) and device is None and not is_torch_loader(loader)
    if isinstance(loader, _Prepared) or is_plain:
        return loader
    kinds = (PreparedIterable, AskedIterable), (PreparedLoader, AskedLoader)
    kind = kinds[is_torch_loader(loader)][hasattr(type(loader), "__next__")]
    return kind(loader, source, passes, device)


def is_prepared(loader: Any, passes: LoaderPasses | None = None) -> bool:
    """Whether this is a prepared loader, and if passes are given, one whose passes these are."""
    return isinstance(loader, _Prepared) and passes in (None, vars(loader)["_passages"])


def original_of(loader: Any) -> Any:
    """The loader for which a prepared one stands; any other itself."""
    return vars(loader)["_loader"] if isinstance(loader, _Prepared) else loader


def state_of(loader: Any) -> dict[str, Any] | None:
    """How far a prepared loader is, for a checkpoint; None for one that is not ours to know."""
    if not isinstance(loader, _Prepared):
        return None
    own = vars(loader)
    start = own["_progress"].next_start(own["_source"].per_step, own["_source"].seeded)
    workers = getattr(own["_loader"], "num_workers", 0)
    return {
        "iteration": loader.iteration,
        "position": start.position,
        "before": start.before,
        "seeded": start.seeded,
        "per_step": own["_source"].per_step,
        "workers": workers,
        "in_order": not workers or getattr(own["_loader"], "in_order", True),
        "batch_size": getattr(own["_loader"], "batch_size", None),
        "rows": _length(getattr(own["_loader"], "dataset", None)),
        "shards": own["_source"].per_step if isinstance(own["_source"], ByDataset) else None,
    }


def generators_of(loader: Any) -> list[Any]:
    """The states that the generators of a prepared loader, its samplers and its dataset are in."""
    return private_states(owners_of(vars(loader)["_loader"])) if isinstance(loader, _Prepared) else []


def load_state(loader: Any, state: dict[str, Any] | None, *, generators: list[Any] | None = None) -> str | None:
    """Let the loader's next pass go on where a checkpoint was; what makes that inexact, if anything does."""
    if not isinstance(loader, _Prepared) or state is None:
        return None
    own = vars(loader)
    if generators is not None:
        set_private_states(owners_of(own["_loader"]), generators)
    progress: Progress = own["_progress"]
    position, problem = state["position"], None
    size, rows = getattr(own["_loader"], "batch_size", None), _length(getattr(own["_loader"], "dataset", None))
    if position and size and state["batch_size"] and size != state["batch_size"]:
        samples = position * state["batch_size"]
        position = samples // size
        if samples % size:
            problem = f"batches of {size} do not end where {samples} samples were seen; {samples % size} are seen again"
    if rows != state["rows"]:
        problem = f"the dataset has {rows} elements and had {state['rows']}"
    if position and state["shards"] != (own["_source"].per_step if isinstance(own["_source"], ByDataset) else None):
        problem = "the dataset shards itself, and is cut in another number of shards now"
    if isinstance(own["_source"], AlreadySharded) and (again := position % own["_source"].per_step):
        problem = f"the sampler divides the data itself, so that the last batches ({again}) are seen again"
    if position and not state.get("in_order", True):
        problem = "its workers' batches came as they were ready (in_order=False): some come again, some not at all"
    if state["iteration"] and is_reread(own["_loader"]) and getattr(own["_loader"], "persistent_workers", False):
        problem = problem or "its workers live on (persistent_workers): what they draw at random, if anything, differs"
    progress.iteration = state["iteration"]
    workers = getattr(own["_loader"], "num_workers", 0)
    if position and workers != state["workers"]:
        problem = problem or f"{workers} workers draw other random numbers, if any, than {state['workers']} did"
    can_repeat = (workers, own["_source"].per_step) == (state["workers"], state["per_step"])
    start = PassStart(position, state["before"], state["seeded"], can_repeat, state["iteration"])
    progress.waiting = None if start.is_new else start
    return problem


def undo_of_state(loader: Any) -> Callable[[], None]:
    """A function that lets a prepared loader go on where it would have, whatever it loads meanwhile."""
    if not isinstance(loader, _Prepared):
        return lambda: None
    own = vars(loader)
    owners = owners_of(own["_loader"])
    progress, generators = dict(vars(own["_progress"])), private_states(owners)

    def undo() -> None:
        vars(own["_progress"]).update(progress)
        set_private_states(owners, generators)

    return undo


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except NO_LENGTH:
        return None


def _description(loader: Any) -> str:
    """`the DataLoader over 18 elements of a TensorDataset`."""
    dataset = getattr(loader, "dataset", None)
    count = "" if (rows := _length(dataset)) is None else f"{rows} elements of "
    over = "" if dataset is None else f" over {count}a {type(dataset).__name__}"
    return f"the {type(loader).__name__}{over}"


class _Skipping:
    """A loader without the first batches of each pass."""

    def __init__(self, loader: Any, count: int) -> None:
        self._loader = loader
        self._count = count

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self._loader, _Prepared):
            return self._loader.begin_after(self._count)
        loader_pass = iter(self._loader)
        for _ in itertools.islice(loader_pass, self._count):
            pass
        return loader_pass  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return max(len(self._loader) - self._count, 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loader, name)


STAND_INS = (_Prepared, _Skipping)


def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
    """The loader without its first `num_batches` batches, the rest the same.

    A prepared loader after `load_state` goes on by itself; asked to skip as well, it skips once.
    """
    is_waiting = isinstance(dataloader, _Prepared) and dataloader.is_at_end
    return _Skipping(dataloader, num_batches) if num_batches or is_waiting else dataloader
