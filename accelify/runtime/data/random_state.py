"""Random states: one stream from which all ranks draw the same numbers, beside each rank's own."""

from __future__ import annotations

import atexit
import hashlib
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any  # the states of three libraries, each of its own kind

import numpy
import torch

from accelify.runtime.world import xla
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World, place

# Units: levels of attributes below a sampler in which its private generators are looked for
DEPTH = 3

# Units: elements of a list among these that are looked at, such as transforms one after the other
WIDTH = 16

LIBRARIES: dict[str, Callable[[], Any]] = {
    "torch": torch.get_rng_state,
    "python": random.getstate,
    "numpy": numpy.random.get_state,
}

_PRIVATE = (torch.Generator, random.Random, numpy.random.Generator, numpy.random.RandomState)

# Random states as a checkpoint keeps them: "shared", by library, and "private", those of samplers' own generators.
States = dict[str, Any]


def set_seed(seed: int, device_specific: bool = False, deterministic: bool = False, *, rank: int | None = None) -> None:
    """Seed python, numpy and torch on all devices; `device_specific` gives every rank a stream of its own.

    The streams of ranks come from a hash of seed and rank: with `seed + rank`, rank 1 of one run would repeat rank 0
    of the next.
    """
    if device_specific:
        if rank is None:
            rank, _ = place()
        seed = zlib.crc32(f"{seed} {rank}".encode()) if rank else seed
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if deterministic:
        torch.use_deterministic_algorithms(True)


def share_random_state(world: World, collectives: Collectives) -> None:
    """Give every rank rank 0's random state; once in the life of a process group, later calls change nothing.

    Unseeded scripts draw their splits, permutations and weights by hand, and these must be the same on all ranks.
    """
    # The store through which the ranks met remembers: it lives exactly as long as the group.
    if world.store is None or world.store.add(f"accelify/random/{world.rank}", 1) > 1:
        return
    theirs = collectives.broadcast_object(global_state() | device_state(world.device))
    if world.rank:
        set_global_state(theirs)
        set_device_state(theirs, world.device)


class SharedRandom:
    """Draws that are the same on every rank, as rank 0 would have drawn them.

    A rank whose own stream stood where rank 0's stood keeps in step with it, as if it had drawn itself; any other
    rank's own stream is left where it was. Generators that the owners hold privately are set to rank 0's state.
    """

    def __init__(
        self,
        collectives: Collectives,
        owners: Iterable[object],
        before: States | None = None,
        libraries: Iterable[str] = LIBRARIES,
    ) -> None:
        """With `before`, draw again what was drawn from that state; every rank's own stream stays where it is.

        Only what is drawn from these `libraries` is shared.
        """
        private = list(_private_generators(owners))
        mine = _states(global_state(libraries), private)
        is_alike = before is None and collectives.is_alike(
            "a pass over a loader begins, random state", digest(mine)[:12]
        )
        self.before = mine if is_alike else before or collectives.broadcast_object(mine)
        if not is_alike:
            for generator, state in zip(private, self.before["private"], strict=before is None):
                _restore(generator, state)
        # The shared streams that are not this rank's own; where it is in step, it draws from its own.
        self._apart: dict[str, Any] = {
            name: state
            for name, state in self.before["shared"].items()
            if before is not None or not (is_alike or _same(mine["shared"][name], state))
        }
        self._inside = False

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw from the shared stream inside."""
        if self._inside or not self._apart:
            yield
            return
        own = global_state(self._apart)
        set_global_state(self._apart)
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            self._apart = global_state(self._apart)
            set_global_state(own)

    @property
    def is_in_step(self) -> bool:
        """Whether this rank draws what rank 0 draws."""
        return "torch" not in self._apart

    def diverge(self) -> None:
        """Keep each rank's own stream from here on unchanged by what is drawn from the shared one."""
        self._apart = global_state(self.before["shared"]) | self._apart


def draw_items(items: Iterator[Any], shared: SharedRandom) -> Iterator[Any]:
    """Items that are made from the shared stream, one after the other."""
    shared.diverge()
    while True:
        with shared.drawing():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def states_of(owners: Iterable[object], libraries: Iterable[str] = LIBRARIES) -> States:
    """This process's random states, and those of the generators that the owners hold."""
    return _states(global_state(libraries), list(_private_generators(owners)))


def private_states(owners: Iterable[object]) -> list[Any]:
    """The states of the generators that the owners hold."""
    return [_state(generator) for generator in _private_generators(owners)]


def set_private_states(owners: Iterable[object], states: list[Any]) -> None:
    """Set the generators that the owners hold, if they are as many as the states."""
    generators = list(_private_generators(owners))
    if len(generators) == len(states):
        for generator, state in zip(generators, states, strict=True):
            _restore(generator, state)


@contextmanager
def unchanged_generators(owners: Sequence[object]) -> Iterator[None]:
    """Whatever is drawn inside, the owners' generators are afterwards where they were."""
    before = private_states(owners)
    yield
    set_private_states(owners, before)


def _states(shared: dict[str, Any], private: list[Any]) -> States:
    return {"shared": shared, "private": [_state(generator) for generator in private]}


class RankSeed:
    """Random numbers of each rank's own, from where the script asks for them; rank 0 draws what it always did."""

    def __init__(self, *, world: World, at_exit: Callable[[], None]) -> None:
        """`at_exit`: what a rank does at the script's end, to which the ranks may come at different times then."""
        self.is_used = False
        self._world = world
        self._at_exit = at_exit
        self._own_seed: int | None = None

    def apply(self) -> None:
        """Give this rank a stream of its own; said again it changes nothing, unless the script has seeded anew."""
        if self._world.size > 1 and not self.is_used:
            self.is_used = True
            atexit.register(self._at_exit)
        if self._world.rank and torch.initial_seed() != self._own_seed:
            set_seed(torch.initial_seed(), device_specific=True, rank=self._world.rank)
            self._own_seed = torch.initial_seed()


class WorkerStart:
    """A loader's `worker_init_fn`: workers of different ranks draw differently, though their seed is one for all."""

    def __init__(self, own: Callable[[int], None] | None, rank: int) -> None:
        self._own = own
        self._rank = rank

    def __call__(self, worker: int) -> None:
        if self._rank:
            set_seed(torch.initial_seed(), device_specific=True, rank=self._rank)
        if self._own is not None:
            self._own(worker)


def global_state(libraries: Iterable[str] = LIBRARIES) -> dict[str, Any]:
    return {name: LIBRARIES[name]() for name in libraries}


def set_global_state(states: dict[str, Any]) -> None:
    if "torch" in states:
        torch.set_rng_state(states["torch"])
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states:
        numpy.random.set_state(states["numpy"])


def digest(states: States) -> str:
    """The same for the same states, on any rank, and not for others."""
    each = [*states["shared"].values(), *states["private"]]
    plain = [state.numpy().tobytes() if isinstance(state, torch.Tensor) else state for state in each]
    return hashlib.sha256(pickle.dumps(plain)).hexdigest()


def device_state(device: torch.device) -> dict[str, Any]:
    """The random state of a device that has one of its own, by its kind."""
    if device.type == "cuda":
        return {"cuda": torch.cuda.get_rng_state(device)}
    if device.type == "xla":
        return {"xla": xla.module("core.xla_model").get_rng_state()}
    return {}


def set_device_state(states: dict[str, Any], device: torch.device) -> None:
    """Set the device's random state to one that `device_state` gave for its kind; another kind's is ignored."""
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    if device.type == "xla" and "xla" in states:
        xla.module("core.xla_model").set_rng_state(states["xla"])


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, numpy.ndarray):
        return bool((left == right).all())
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(_same(*pair) for pair in zip(left, right, strict=True))
    return bool(left == right)


def _private_generators(owners: Iterable[object]) -> Iterator[Any]:
    """The generators that samplers hold as attributes, each once, in an order that all ranks share."""
    found: set[int] = set()
    # How deep an object was looked into: it may be met again nearer to an owner.
    searched: dict[int, int] = {}

    def search(value: object, depth: int) -> Iterator[Any]:
        if isinstance(value, _PRIVATE):
            if id(value) not in found:
                found.add(id(value))
                yield value
            return
        if searched.get(id(value), -1) >= depth:
            return
        searched[id(value)] = depth
        if depth and hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module, torch.Tensor)):
            for inner in vars(value).values():
                yield from search(inner, depth - 1)
        elif depth and isinstance(value, (list, tuple)):
            for inner in value[:WIDTH]:
                yield from search(inner, depth - 1)

    for owner in owners:
        yield from search(owner, DEPTH)


def _state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def _restore(generator: Any, state: Any) -> None:
    if isinstance(generator, (torch.Generator, numpy.random.RandomState)):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.bit_generator.state = state
