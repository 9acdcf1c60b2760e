"""Random states of the three libraries, of devices, and of generators that samplers hold: read, set, compared."""

from __future__ import annotations

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
from accelify.runtime.world.turns import goes_one_by_one

# Units: levels of attributes below a sampler in which its private generators are looked for
DEPTH = 3

# Units: elements of a list among these that are looked at, such as transforms one after the other
WIDTH = 16

LIBRARIES: dict[str, Callable[[], Any]] = {
    "torch": torch.get_rng_state,
    "python": random.getstate,
    "numpy": numpy.random.get_state,
}

# Bound here: a script may write `random.seed = 0` where it means `random.seed(0)`.
_seed_python, _seed_numpy, _seed_torch = random.seed, numpy.random.seed, torch.manual_seed

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
    _seed_python(seed)
    _seed_numpy(seed % 2**32)
    _seed_torch(seed)
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


@contextmanager
def drawing_on_alike(world: World, collectives: Collectives) -> Iterator[None]:
    """After a block in which rank 0 may draw more than the others, as it makes what they find, they go on as it does.

    Ranks that drew numbers of their own before the block keep them.
    """
    if world.size == 1 or goes_one_by_one():
        yield
        return
    before = _digest_of_all(world)
    try:
        yield
    finally:  # after an error, too: the others must not wait for what does not come
        is_moved = world.rank == 0 and _digest_of_all(world) != before
        states = global_state() | device_state(world.device) if is_moved else None
        theirs, states = collectives.broadcast_object((before, states))
        if states is not None and theirs == before and world.rank:
            set_global_state(states)
            set_device_state(states, world.device)


def _digest_of_all(world: World) -> str:
    return digest({"shared": global_state() | device_state(world.device), "private": []})


def states_of(owners: Iterable[object], libraries: Iterable[str] = LIBRARIES) -> States:
    """This process's random states, and those of the generators that the owners hold."""
    return states_with(global_state(libraries), list(private_generators(owners)))


def private_states(owners: Iterable[object]) -> list[Any]:
    """The states of the generators that the owners hold."""
    return [_state(generator) for generator in private_generators(owners)]


def set_private_states(owners: Iterable[object], states: list[Any]) -> None:
    """Set the generators that the owners hold, if they are as many as the states."""
    generators = list(private_generators(owners))
    if len(generators) == len(states):
        for generator, state in zip(generators, states, strict=True):
            restore(generator, state)


@contextmanager
def unchanged_generators(owners: Sequence[object]) -> Iterator[None]:
    """Whatever is drawn inside, the owners' generators are afterwards where they were."""
    before = private_states(owners)
    yield
    set_private_states(owners, before)


def states_with(shared: dict[str, Any], private: list[Any]) -> States:
    """The states of the libraries, beside those of these generators."""
    return {"shared": shared, "private": [_state(generator) for generator in private]}


class WorkerStart:
    """A loader's `worker_init_fn`: workers of different ranks draw differently, though their seed is one for all.

    What the script's own function seeds, by the worker's number as a rule, it would seed alike on all ranks.
    """

    def __init__(self, own: Callable[[int], None] | None, rank: int) -> None:
        self._own = own
        self._rank = rank

    def __call__(self, worker: int) -> None:
        if self._rank:
            set_seed(torch.initial_seed(), device_specific=True, rank=self._rank)
        before = global_state()
        if self._own is not None:
            self._own(worker)
        if self._rank:
            self._part_from_other_ranks(before)

    def _part_from_other_ranks(self, before: dict[str, Any]) -> None:
        """Give each library that was seeded since then random numbers of this rank, which follow from its seed."""
        now = global_state()
        seeded = {name: state for name, state in now.items() if not is_same(state, before[name])}
        if seeded:
            set_seed(int(digest({"shared": seeded, "private": []})[:8], 16), device_specific=True, rank=self._rank)
            set_global_state({name: state for name, state in now.items() if name not in seeded})


def global_state(libraries: Iterable[str] = LIBRARIES) -> dict[str, Any]:
    return {name: LIBRARIES[name]() for name in libraries}


def set_global_state(states: dict[str, Any]) -> None:
    if "torch" in states:
        torch.set_rng_state(states["torch"])
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states:
        numpy.random.set_state(states["numpy"])


def follow(states: dict[str, Any]) -> dict[str, Any]:
    """The libraries' states that follow from these and give other numbers; where they are now, they stay."""
    now = global_state()
    seed_libraries(int(digest({"shared": states, "private": []})[:16], 16) >> 1, torch.device("cpu"))
    later = global_state(states)
    set_global_state(now)
    return later


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


def seed_libraries(seed: int, device: torch.device) -> None:
    """Seed the three libraries and this device, no other one."""
    torch.default_generator.manual_seed(seed)
    _seed_python(seed)
    _seed_numpy(seed % 2**32)
    if device.type == "cuda":
        set_device_state({"cuda": torch.Generator(device).manual_seed(seed).get_state()}, device)
    elif device.type == "xla":
        set_device_state({"xla": seed % 2**32}, device)


def is_same(left: Any, right: Any) -> bool:
    """Whether these are the same states of one library."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, numpy.ndarray):
        return bool((left == right).all())
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(is_same(*pair) for pair in zip(left, right, strict=True))
    return bool(left == right)


def private_generators(owners: Iterable[object]) -> Iterator[Any]:
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


def restore(generator: Any, state: Any) -> None:
    """Set a private generator to a state that it was in."""
    if isinstance(generator, (torch.Generator, numpy.random.RandomState)):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.bit_generator.state = state
