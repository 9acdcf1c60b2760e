"""Finds what makes runs over several processes differ by nature, and can take it away in all runs alike.

Dropout draws a mask for the rows at hand; BatchNorm computes with the rows at hand; augmentation draws in the order of
fetching; a script may draw noise in its training step. Comparable means: no dropout, BatchNorm with its running
statistics, augmentation seeded by the sample's index, noise as the rows of one draw for the whole batch.
What else is drawn in a loop over a shard, all ranks draw alike.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any  # torch's functions take what they take

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import dataloader
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from accelify.runtime.data import random_state
from accelify.runtime.data.streams import Loop, RankStreams
from accelify.verify.inside.record import Recorder, digest_of
from accelify.verify.inside.rows import ARRAYS, Rows

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
DRAWS = (
    *("rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "normal", "bernoulli", "multinomial"),
    *("poisson", "randperm"),
)
DRAWS_IN_PLACE = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_")

# Of how many samples it is recorded what they hold.
SAMPLES = 64
# How often the state of a line's draws is recorded.
STATES = 3
# Whose draws are no training step's: weights, samplers, the runtime's own.
OURS = (f"{Path(torch.__file__).parent}{os.sep}", f"{Path(__file__).parents[2]}{os.sep}")
LOADERS = f"{Path(__file__).parents[2] / 'runtime' / 'data'}{os.sep}"  # the runtime's, whose order is one for all ranks
SEEDERS = ("accelify/runtime/data/random_state.py", "accelerate/utils/random.py")
# As they are before anything is watched.
_SEED_TORCH, _SEED_NUMPY, _SEED_PYTHON = torch.manual_seed, numpy.random.seed, random.seed


class Natures:
    """The natures that were found, each once for a line."""

    def __init__(self, recorder: Recorder, comparable: bool, notes_states: bool) -> None:
        self._recorder = recorder
        self.comparable = comparable
        self._notes_states = notes_states
        self._noted: Counter[str | None] = Counter()
        self.streams: RankStreams | None = None
        self.is_fetching = False  # what a dataset draws is augmentation
        self.samples = 0  # that were recorded
        self.drawn: dict[str | None, str] = {}  # since the last seed, by line
        self._streams = _other_streams()
        self._told: set[tuple[str, str | None]] = set()

    def tell(self, kind: str, what: str = "") -> None:
        """Record one, with the line."""
        self.tell_at(kind, self._recorder.place(), what)

    def tell_at(self, kind: str, place: str | None, what: str = "") -> None:
        """Record one at a place that is known."""
        if (kind, place) not in self._told:
            self._told.add((kind, place))
            self._recorder.write("nature", kind=kind, at=place, what=what)

    def tell_removable(self, kind: str, what: str = "") -> None:
        """Record dropout or a BatchNorm of the rows at hand, and whether an evaluation has it."""
        self.tell(kind, what)
        if not torch.is_grad_enabled():
            self.tell(f"{kind} in evaluation")

    def note_state(self, what: str, place: str | None = None, stream: str = "torch") -> None:
        """Record from which state of a stream a draw begins that is each rank's own, the first times for a line."""
        if not self._notes_states or not torch.is_grad_enabled():
            return
        place = place or self._recorder.place()
        is_own = self.streams is not None and self.streams.is_own
        if (what != "dropout" and not is_own) or self._noted[place] >= STATES:
            return
        self._noted[place] += 1
        numpys, pythons = _other_streams()
        states = {"torch": torch.get_rng_state().tolist(), "numpy": numpys, "random": pythons}
        state = hashlib.blake2b(repr(states.get(stream, states)).encode(), digest_size=8)
        self._recorder.write("draw", what=what, at=place, state=state.hexdigest())

    def note_sample(self, name: str, index: Any, sample: Any) -> None:
        """Record what stands for a sample, the first times."""
        if self.samples < SAMPLES:
            self.samples += 1
            self._recorder.write("sample", name=name, index=str(index), digest=digest_of(sample))

    def begin_streams(self, anew: bool = False) -> None:
        """Numbers drawn so far from numpy's and Python's streams are not the training's; `anew`: a seed was set."""
        self._streams = _other_streams()
        if anew:
            self.drawn.clear()

    def tell_drawn(self) -> None:
        """Record where random numbers were drawn outside of fetching since the last seed."""
        if not _is_same(self._streams, _other_streams()):
            self.drawn.setdefault(None, "numpy or random")
            self.begin_streams()
        for place, what in self.drawn.items():
            self.tell_at("own draw", place, what)


def install(recorder: Recorder, comparable: bool, rank: int, *, notes_states: bool) -> None:
    """Look out from here on; with `comparable`, also take away what differs by nature.

    notes_states: whether to record from which states each rank draws what is its own.
    """
    natures = Natures(recorder, comparable, notes_states)
    rows = Rows(rank)
    if comparable:
        rows.watch()
    for name in DROPOUTS:
        _watch_dropout(natures, name)
    _watch_attention(natures)
    _watch_recurrence(natures)
    _watch_batch_norm(natures)
    _watch_autocast(natures)
    _watch_fetching(natures)
    _watch_samplers(natures, recorder)
    _watch_draws(natures, recorder, rows)
    _watch_loops(natures)
    _watch_plateaus(natures)
    _watch_seeds(natures, recorder)


def _watch_dropout(natures: Natures, name: str) -> None:
    real = getattr(functional, name)
    usual = inspect.signature(real).parameters["training"].default

    @wraps(real)
    def dropout(input: Any, p: float = 0.5, training: bool = usual, *rest: Any, **more: Any) -> Any:
        if training and p > 0:
            natures.tell_removable("dropout")
            natures.note_state("dropout")
            if natures.comparable:
                return input
        return real(input, p, training, *rest, **more)

    setattr(functional, name, dropout)


def _watch_attention(natures: Natures) -> None:
    real: Any = functional.scaled_dot_product_attention

    # torch's own modules give all arguments by position, scripts by name or not at all.
    @wraps(real)
    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *rest: Any, **more: Any
    ) -> Any:
        if dropout_p > 0:
            natures.tell_removable("dropout")
            natures.note_state("dropout")
            dropout_p = 0.0 if natures.comparable else dropout_p
        return real(query, key, value, attn_mask, dropout_p, *rest, **more)

    functional.scaled_dot_product_attention = attention


def _watch_recurrence(natures: Natures) -> None:
    start = nn.RNNBase.__init__

    def started(self: nn.RNNBase, *given: Any, **options: Any) -> None:
        start(self, *given, **options)
        if self.dropout > 0:
            natures.tell("dropout")
            self.dropout = 0.0 if natures.comparable else self.dropout

    nn.RNNBase.__init__ = started  # type: ignore[method-assign]


def _watch_batch_norm(natures: Natures) -> None:
    real: Any = functional.batch_norm

    def batch_norm(
        input: Any,
        running_mean: Any,
        running_var: Any,
        weight: Any = None,
        bias: Any = None,
        training: bool = False,
        *rest: Any,
        **more: Any,
    ) -> Any:
        if training:
            natures.tell_removable("BatchNorm", "" if running_mean is not None else "without running statistics")
            if natures.comparable and running_mean is not None:
                training = False
        return real(input, running_mean, running_var, weight, bias, training, *rest, **more)

    functional.batch_norm = batch_norm


def _watch_autocast(natures: Natures) -> None:
    enter: Any = torch.autocast.__enter__

    def entered(context: Any) -> Any:
        if context._enabled:
            natures.tell("autocast", str(context.fast_dtype).removeprefix("torch."))
        return enter(context)

    torch.autocast.__enter__ = entered  # type: ignore[method-assign]


def _other_streams() -> tuple[Any, ...]:
    """Where numpy's and Python's streams stand."""
    state: Any = numpy.random.get_state()
    return state[1:3], random.getstate()


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    same_numpy = one[0][1] == other[0][1] and bool((one[0][0] == other[0][0]).all())
    return same_numpy and bool(one[1] == other[1])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers that follow from the seed alone, and leave the streams outside as they were."""
    states = torch.get_rng_state(), numpy.random.get_state(), random.getstate()
    _SEED_TORCH(seed)
    _SEED_NUMPY(seed % 2**32)
    _SEED_PYTHON(seed)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        numpy.random.set_state(states[1])
        random.setstate(states[2])


def _watch_fetching(natures: Natures) -> None:
    real: Any = _MapDatasetFetcher.fetch

    def fetch(self: Any, indices: Any) -> Any:
        natures.is_fetching = True
        before = _other_streams()
        try:
            return fetch_seeded(self, indices) if natures.comparable else fetch_watched(self, indices, before)
        finally:
            natures.is_fetching = False
            if not _is_same(before, _other_streams()):
                natures.begin_streams()

    def fetch_watched(self: Any, indices: Any, before: tuple[Any, ...]) -> Any:
        torchs = torch.get_rng_state()
        data = real(self, indices)
        if not (_is_same(before, _other_streams()) and torch.equal(torchs, torch.get_rng_state())):
            natures.tell_at("augmentation", None, type(self.dataset).__name__)
            natures.note_state(
                "augmentation", type(self.dataset).__name__, "all"
            )  # states that follow from those before
        return data

    def fetch_seeded(self: Any, indices: Any) -> Any:
        if not self.auto_collation:
            with _seeded(_seed_of(indices)):
                return real(self, indices)
        rows = []
        for index in indices:
            with _seeded(_seed_of(index)):
                if hasattr(self.dataset, "__getitems__") and self.dataset.__getitems__:
                    rows += self.dataset.__getitems__([index])
                else:
                    rows.append(self.dataset[index])
                natures.note_sample(type(self.dataset).__name__, index, rows[-1])
        return self.collate_fn(rows)

    _MapDatasetFetcher.fetch = fetch  # type: ignore[method-assign]
    following: Any = _IterableDatasetFetcher.fetch

    def fetch_next(self: Any, indices: Any) -> Any:
        natures.is_fetching = True
        try:
            return following(self, indices)
        finally:
            natures.is_fetching = False

    _IterableDatasetFetcher.fetch = fetch_next  # type: ignore[method-assign]


def _watch_samplers(natures: Natures, recorder: Recorder) -> None:
    """Notice batches that a rank draws from a loader that is not prepared: in an order of its own stream's."""
    kind: Any = dataloader._BaseDataLoaderIter
    real = kind._next_index

    def next_index(self: Any) -> Any:
        before = torch.get_rng_state()
        indices = real(self)
        if not before.equal(torch.get_rng_state()) and not _is_runtimes(sys._getframe(1)):
            natures.drawn.setdefault(recorder.place(), "the order of a loader")
        return indices

    kind._next_index = next_index


def _is_runtimes(frame: FrameType | None) -> bool:
    """Whether one of the runtime's loaders is under way."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(LOADERS):
            return True
        frame = frame.f_back
    return False


def _seed_of(index: Any) -> int:
    """A seed for a sample: its index alone, since workers and ranks do not know how often it was seen elsewhere."""
    return hash(("sample", index if isinstance(index, (int, str)) else str(index))) % 2**31


def _watch_draws(natures: Natures, recorder: Recorder, rows: Rows) -> None:
    """Notice random numbers that the user's own code draws once training is under way."""
    passes = [0]
    backward = torch.autograd.backward

    def counted(*given: Any, **options: Any) -> None:
        passes[0] += 1
        natures.tell_drawn()
        backward(*given, **options)

    torch.autograd.backward = counted

    def is_users(frame: Any) -> bool:
        name = frame.f_code.co_filename
        return recorder.owns(name) or "torch/distributions" in name.replace("\\", "/")

    def watch(owner: Any, name: str, of_rows: Callable[..., Any] = rows.draw, stream: str = "torch") -> None:
        real = getattr(owner, name)

        @wraps(real)
        def draw(*given: Any, **options: Any) -> Any:
            if natures.is_fetching:
                return real(*given, **options)
            caller = sys._getframe(1)
            has_generator = options.get("generator") is not None
            if not has_generator and (is_users(caller) or not _is_library(caller.f_code.co_filename)):
                natures.drawn.setdefault(recorder.place(), name)
            if not is_users(caller):
                return real(*given, **options)
            if not has_generator:
                natures.note_state(name, stream=stream)
            drawn = of_rows(name, real, given, options)
            if drawn is not None:
                return drawn
            drawn = real(*given, **options)
            if passes[0] and torch.is_grad_enabled() and not rows.is_for_all(drawn):
                natures.tell("draw", f"{name} from a generator" if has_generator else name)
            return drawn

        setattr(owner, name, draw)

    _watch_functions(watch, rows)


def _watch_functions(watch: Callable[..., None], rows: Rows) -> None:
    """All functions that draw from the streams of torch, numpy and Python."""
    for name in DRAWS:
        watch(torch, name)
    for name in DRAWS_IN_PLACE:
        watch(torch.Tensor, name)
    for name in ARRAYS:
        if hasattr(numpy.random, name):
            watch(numpy.random, name, rows.draw_array, "numpy")
    for name in ("shuffle", "sample", "choices"):
        watch(random, name, _nothing, "random")
    _watch_generators(watch, rows)


def _nothing(*_: Any) -> None:
    """Draws of this kind are never one draw for each row."""


def _watch_generators(watch: Callable[..., None], rows: Rows) -> None:
    """Have `numpy.random.default_rng` give generators whose draws are watched."""

    class Generator(numpy.random.Generator):
        pass

    for name in ARRAYS:
        if hasattr(Generator, name):
            watch(Generator, name, rows.draw_array, "numpy")
    real = numpy.random.default_rng

    @wraps(real)
    def default_rng(seed: Any = None) -> Any:
        return seed if isinstance(seed, numpy.random.Generator) else Generator(real(seed).bit_generator)

    numpy.random.default_rng = default_rng


def _is_library(filename: str) -> bool:
    return filename.startswith(OURS) and filename != functional.__file__  # gumbel_softmax draws there


def _watch_loops(natures: Natures) -> None:
    """Notice random numbers drawn in loops over shards, where the ranks would draw their own and draw alike here."""
    following: Callable[[Loop], Any] = Loop.__next__
    left: dict[int, tuple[Any, ...]] = {}

    def handed(loop: Loop) -> Any:
        before = left.pop(id(loop), None)
        if before is not None and not (
            _is_same(before[1], _other_streams()) and before[0].equal(torch.get_rng_state())
        ):
            natures.tell("alike")
        item = following(loop)
        left[id(loop)] = torch.get_rng_state(), _other_streams()
        return item

    Loop.__next__ = handed  # type: ignore[method-assign, assignment]
    start = RankStreams.__init__

    def started(streams: RankStreams, **given: Any) -> None:
        start(streams, **given)
        natures.streams = streams
        natures.tell("accelerator")

    RankStreams.__init__ = started  # type: ignore[method-assign, assignment]


def _watch_plateaus(natures: Natures) -> None:
    """Notice schedules that follow a metric."""
    kind = torch.optim.lr_scheduler.ReduceLROnPlateau
    step = kind.step

    def stepped(self: Any, *given: Any, **options: Any) -> None:
        natures.tell("plateau")
        step(self, *given, **options)

    kind.step = stepped  # type: ignore[method-assign]


def _watch_seeds(natures: Natures, recorder: Recorder) -> None:
    """Record the seeds that the script sets, by which ranks with random numbers of their own are known."""

    def watch(owner: Any, name: str, stream: str) -> None:
        real = getattr(owner, name)

        def seed(*given: Any, **options: Any) -> Any:
            caller = sys._getframe(1).f_code.co_filename
            if recorder.owns(caller) or caller.endswith(SEEDERS):  # not torch's own workers
                value = given[0] if given else next(iter(options.values()), None)
                recorder.write("seed", stream=stream, value=str(value), at=recorder.place())
                seeded = real(*given, **options)
                natures.begin_streams(anew=True)
                return seeded
            return real(*given, **options)

        setattr(owner, name, seed)

    watch(torch, "manual_seed", "torch")
    watch(numpy.random, "seed", "numpy")
    watch(numpy.random, "default_rng", "numpy")
    watch(random, "seed", "random")
    watch(random_state, "_seed_torch", "torch")  # the runtime's own, bound before anything was watched
    watch(random_state, "_seed_numpy", "numpy")
    watch(random_state, "_seed_python", "random")
