"""Random numbers over several ranks: shared by all outside loops over sharded data, each rank's own inside.

Outside, the ranks do the same with all of the data (splits, weights, orders), so they must draw the same. Inside, each
has rows of its own, and noise, masks and dropout for these: one process with the whole batch would draw other numbers
for each row. A loop begins when its first element is asked for, so that fetching, augmenting and collating draw the
rank's own numbers, too; the order of the samples is shared wherever it is drawn. When the loop ends, the shared stream
goes on from where it was. A rank's own stream follows from the shared one's state, the number of such loops and the
rank.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Protocol  # Any: the states of three libraries, each of its own kind, and elements of every kind

import torch

from accelify.runtime.data.global_generators import GlobalGenerators
from accelify.runtime.data.random_state import (
    LIBRARIES,
    States,
    device_state,
    digest,
    follow,
    global_state,
    is_same,
    private_generators,
    restore,
    seed_libraries,
    set_device_state,
    set_global_state,
    set_seed,
    states_with,
)
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World

# Code from here on outwards starts processes, threads and scripts; its loops are none of the script's.
_OUTERMOST = ("threading", "multiprocessing.process")


class Models(Protocol):
    """The prepared models, of which every rank holds a copy."""

    @property
    def synchronised(self) -> int:
        """How many backward passes have made the copies agree."""

    @property
    def has_buffers(self) -> bool:
        """Whether there are buffers, which a forward pass may change since."""

    def versions_of_buffers(self) -> int:
        """A number that is another one once a forward pass has changed buffers."""


class Streams:
    """One process: one stream, from which everything is drawn."""

    differ = False

    def __init__(self, collectives: Collectives, device: torch.device) -> None:
        self.collectives = collectives
        self._device = device
        self._generators = GlobalGenerators(device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Streams:
        """The same object: it belongs to the process, also where a copied loader uses it."""
        return self

    @property
    def is_own(self) -> bool:
        """Whether this rank now draws numbers of its own."""
        return False

    def loop(self, items: Iterator[Any], *, is_resumed: bool | None = None) -> Iterator[Any]:
        """The iterator itself: nothing changes in its loop."""
        return items

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Draw what all ranks draw, inside."""
        yield

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let states be set inside that belong to neither stream."""
        yield

    def begin_step(self) -> None:
        """Draw what all ranks draw until `end_step`."""

    def end_step(self) -> None:
        """Draw again what was drawn before `begin_step`."""

    def meet(self, why: str) -> None:
        """There is no other rank whose buffers could differ."""

    def separate(self) -> None:
        """There is no other rank to draw something else."""

    def share_always(self) -> None:
        """There is one stream anyhow."""

    def state(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Where the shared stream is, for a checkpoint, and within a loop this rank's own."""
        return self._states(), None

    def load_state(self, shared: dict[str, Any], own: dict[str, Any] | None) -> None:
        """Go on from there."""
        self._set(shared)

    def undo(self) -> Callable[[], None]:
        """A function that lets the streams go on where they are now, whatever is loaded meanwhile."""
        attributes, states = dict(vars(self)), self._states()

        def undo() -> None:
            vars(self).update(attributes)
            self._set(states)

        return undo

    def exchange(self, states: dict[str, Any]) -> dict[str, Any]:
        """Draw from these states of generators on, and return those under the same names that were drawn from."""
        return self._generators.exchange(states)

    def _states(self) -> dict[str, Any]:
        return global_state() | device_state(self._device)

    def _set(self, states: dict[str, Any]) -> None:
        set_global_state(states)
        set_device_state(states, self._device)


class RankStreams(Streams):
    """Several ranks: a shared stream, and one of this rank's own for loops over its shard of the data."""

    differ = True

    def __init__(self, *, world: World, collectives: Collectives, models: Models) -> None:
        super().__init__(collectives, world.device)
        self._models = models
        self._rank = world.rank
        self._process = os.getpid()
        self._open: set[int] = set()
        self._loops = 0
        # The shared stream's state while the rank draws from its own, and the other way round.
        self._shared: dict[str, Any] | None = None
        self._own: dict[str, Any] | None = None
        self._waiting: dict[str, Any] | None = None
        self._in_step: dict[str, Any] | None = None
        self._steps = 0
        self._busy = 0
        self._is_on = True
        self._is_separate = False
        self._met = 0

    @property
    def is_own(self) -> bool:
        """Whether this rank is in a loop over its shard, and not in the part of a step that all ranks do alike."""
        return self._shared is not None and self._own is None and self._in_step is None

    def loop(self, items: Iterator[Any], *, is_resumed: bool | None = None) -> Iterator[Any]:
        """The iterator, inside whose loop the rank draws its own numbers.

        is_resumed: whether it goes on where a loaded checkpoint was; None where that is not known.
        """
        return Loop(items, self, may_resume=is_resumed is not False)

    @property
    def synchronised(self) -> int:
        """How many backward passes have made models and their buffers agree."""
        return self._models.synchronised

    def meet(self, why: str) -> None:
        """Make buffers agree where all ranks come after they have trained: what follows may evaluate, and decide by it.

        The last backward pass need not have been the last forward pass (the accuracy of a batch after its step).
        """
        if self._met < self.synchronised and self._may_meet():
            self._met = self.synchronised
            self.collectives.agree(why)

    def _may_meet(self) -> bool:
        """Whether all ranks come where this one does, and have anything to meet for: none loads ahead in a thread."""
        is_alone = self._is_separate or os.getpid() != self._process
        return not is_alone and threading.current_thread() is threading.main_thread() and self._models.has_buffers

    def end(self, loop: Loop) -> None:
        """Meet at the end of a loop that trained, or in which each batch of a loader set buffers (statistics anew).

        Another one some ranks may have left, and not come here.
        """
        if self.synchronised > loop.synchronised:
            self.meet("a loop over the data ends")
        elif loop.is_alike and self.versions() != loop.versions and self._may_meet():
            self.collectives.agree("a loop over the data ends")

    def versions(self) -> int:
        """A number that is another one once a forward pass has changed buffers."""
        return self._models.versions_of_buffers()

    def enter(self, loop: Loop) -> None:
        """Draw the rank's own numbers from here on, until each loop that was entered is left."""
        if not self._is_on or os.getpid() != self._process:
            return
        self._open.add(id(loop))
        if self._shared is None and not self._busy:
            self._loops += 1
            self._shared = self._states()
            own = None
            if loop.may_resume:
                own, self._waiting = self._waiting, None
            if own is None:
                self._seed_own(self._shared)
            else:
                self._set(own)

    def leave(self, loop: Loop) -> None:
        """Note that a loop is over; once all are, the shared stream goes on."""
        if id(loop) in self._open and os.getpid() == self._process and not sys.is_finalizing():
            self._open.discard(id(loop))
            self._settle()

    def _settle(self) -> None:
        if self._open or self._busy or self._shared is None:
            return
        self._in_step, self._steps = None, 0
        shared, self._shared = self._shared, None
        self._set(shared)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Draw from the shared stream inside, also within a loop."""
        if self._shared is None or self._own is not None:
            with self.busy():
                yield
            return
        self._own = self.exchange(self._shared)
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            own, self._own = self._own, None
            self._shared = self.exchange(own)
            self._settle()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Change no streams inside, where the states that are set may belong to neither of them."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            if self._own is None:
                self._settle()

    def begin_step(self) -> None:
        """Draw from torch's shared stream until `end_step`: all ranks change their parameters alike."""
        if self._shared is None or self._busy:
            return
        # A step may call that of its base class, for which torch calls hooks, too.
        self._steps += 1
        if self._steps == 1:
            self._in_step = self._torch_states()
            self._set({name: self._shared[name] for name in self._in_step})

    def end_step(self) -> None:
        """Draw from this rank's own stream again."""
        self._steps = max(self._steps - 1, 0)
        if self._steps or self._in_step is None or self._shared is None:
            return
        own, self._in_step = self._in_step, None
        self._shared |= self._torch_states()
        self._set(own)

    def separate(self) -> None:
        """Draw this rank's own numbers from here on, in loops and outside: whatever is drawn now is."""
        self._is_on, self._is_separate = False, True
        self._open.clear()
        self._shared = self._own = self._in_step = None

    def share_always(self) -> None:
        """Draw the same numbers on all ranks, in loops too, as `verify` compares runs: never in training."""
        self._is_on = self.differ = False

    def state(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Where the shared stream is, with the number of loops, and within a loop this rank's own."""
        now = self._states()
        return (self._shared or now) | {"loops": self._loops}, None if self._shared is None else now

    def load_state(self, shared: dict[str, Any], own: dict[str, Any] | None) -> None:
        """Draw from the shared stream as it was; the loop that goes on, from the own one."""
        self._waiting = own
        self._loops = shared.get("loops", 0) - (own is not None)
        if self._shared is None:
            self._set(shared)
        else:
            self._shared |= {name: shared[name] for name in self._shared if name in shared}

    def _seed_own(self, shared: dict[str, Any]) -> None:
        """Begin this rank's own stream for the loop that begins, the same whenever the run is repeated."""
        text = shared["torch"].numpy().tobytes() + f" {self._loops} {self._rank}".encode()
        seed_libraries(int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1, self._device)

    def _torch_states(self) -> dict[str, Any]:
        return global_state(("torch",)) | device_state(self._device)


def choose_streams(world: World, collectives: Collectives, models: Models) -> Streams:
    """The streams for this world: several where there are several ranks."""
    if world.size == 1:
        return Streams(collectives, world.device)
    return RankStreams(world=world, collectives=collectives, models=models)


class Loop:
    """An iterator inside whose loop the rank draws numbers of its own; one that is let go of has ended."""

    def __init__(self, items: Iterator[Any], streams: RankStreams, *, may_resume: bool) -> None:
        self.may_resume = may_resume
        self.synchronised = streams.synchronised
        self.versions = streams.versions()
        self._items = items
        self._streams = streams
        self._is_inside = False

    def __iter__(self) -> Loop:
        return self

    def __next__(self) -> Any:
        if self._is_inside:
            try:
                return next(self._items)
            except StopIteration:
                self._leave()
                self._streams.end(self)
                raise
        self._streams.enter(self)
        try:
            item = next(self._items)
        except BaseException:
            self._leave()
            raise
        # An item that is asked for once, to look at it, has no loop body in which anything would be drawn.
        self._is_inside = _is_in_loop(sys._getframe(1))
        if not self._is_inside:
            self._streams.leave(self)
        return item

    @property
    def is_alike(self) -> bool:
        """Whether every rank has had an element in each round, as far as that is known."""
        return getattr(self._items, "is_alike", False)

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]  # TypeError where that is not known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_items" not in vars(self):
            raise AttributeError(name)
        return getattr(self._items, name)

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self._is_inside = False
        self._streams.leave(self)


def _is_in_loop(frame: FrameType | None) -> bool:
    """Whether code of this frame, or of one that led to it, is at a loop; outermost is the script's own module."""
    while frame is not None and frame.f_globals.get("__name__") not in _OUTERMOST:
        if any(first <= frame.f_lasti <= last for first, last in loops_of(frame.f_code)):
            return True
        if frame.f_code.co_name == "<module>" or frame.f_code.co_name.startswith("<cell line"):
            return False
        frame = frame.f_back
    return False


@lru_cache(maxsize=256)
def loops_of(code: CodeType) -> tuple[tuple[int, int], ...]:
    """From where to where the code's loops go."""
    import dis

    jumps = {*dis.hasjrel, *dis.hasjabs}
    found = ((i.argval, i.offset) for i in dis.get_instructions(code) if i.opcode in jumps)
    return tuple((target, at) for target, at in found if target <= at)


class SharedRandom:
    """Draws that are the same on every rank, as rank 0 would have drawn them.

    A rank whose shared stream stood where rank 0's stood keeps in step with it, as if it had drawn itself; any other
    rank's own stream is left where it was. Generators that the owners hold privately are set to rank 0's state.
    """

    def __init__(
        self,
        streams: Streams,
        owners: Iterable[object],
        before: States | None = None,
        libraries: Iterable[str] = LIBRARIES,
    ) -> None:
        """With `before`, draw again what was drawn from that state; every rank's own stream stays where it is.

        Only what is drawn from these `libraries` is shared.
        """
        self._streams = streams
        private = list(private_generators(owners))
        with streams.shared():
            mine = states_with(global_state(libraries), private)
        collectives = streams.collectives
        is_alike = before is None and collectives.is_alike(
            "a pass over a loader begins, random state", digest(mine)[:12]
        )
        self.before = mine if is_alike else before or collectives.broadcast_object(mine)
        if not is_alike:
            for generator, state in zip(private, self.before["private"], strict=before is None):
                restore(generator, state)
        # The shared streams that are not this rank's own; where it is in step, it draws from its own.
        self._apart: dict[str, Any] = {
            name: state
            for name, state in self.before["shared"].items()
            if before is not None or not (is_alike or is_same(mine["shared"][name], state))
        }
        self._later: dict[str, Any] = {}
        self._is_diverged = False
        self._is_inside = False
        self._is_over = False

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw from the shared stream inside."""
        if self._is_inside:
            yield
            return
        self._is_inside, was_diverged = True, self._is_diverged
        # Once diverged, all that is drawn from is kept here.
        with self._streams.busy() if was_diverged else self._streams.shared():
            own = self._streams.exchange(self._apart)
            try:
                yield
            finally:
                self._is_inside = False
                if was_diverged or not self._is_diverged:
                    self._apart = self._streams.exchange(own)
                else:
                    drawn = global_state(self.before["shared"])
                    self._streams.exchange(own)
                    self._part_with(drawn)
                if self._is_over:
                    self.converge()

    def diverge(self) -> None:
        """Keep the shared stream from here on unchanged by what is drawn in this pass; the next draws other numbers."""
        self._is_diverged = True
        if not self._is_inside:
            with self._streams.shared():
                self._part_with(global_state(self.before["shared"]) | self._apart)

    def _part_with(self, drawn: dict[str, Any]) -> None:
        self._later = follow(self.before["shared"])  # the same where the pass is resumed
        set_global_state({name: state for name, state in self._later.items() if name not in self._apart})
        self._apart = drawn

    def converge(self) -> None:
        """Have the shared stream go on from the end of the pass, where nothing else was drawn from it meanwhile."""
        self._is_over = True
        if not self._is_inside:
            with self._streams.shared():
                now = global_state(self._apart)
                set_global_state({name: self._apart[name] for name in now if is_same(now[name], self._later[name])})


def draw_items(items: Iterator[Any], shared: SharedRandom, *, by_all: bool) -> Iterator[Any]:
    """Items that are made from the shared stream, one after the other.

    by_all: whether every rank makes all of them.
    """
    shared.diverge()
    while True:
        with shared.drawing():
            try:
                item = next(items)
            except StopIteration:
                break
        yield item
    if by_all:
        shared.converge()


class RankSeed:
    """Random numbers of each rank's own, from where the script asks for them; rank 0 draws what it always did."""

    def __init__(self, *, world: World, streams: Streams, at_exit: Callable[[], None]) -> None:
        """`at_exit`: what a rank does at the script's end, to which the ranks may come at different times then."""
        self.is_used = False
        self._world = world
        self._streams = streams
        self._at_exit = at_exit
        self._own_seed: int | None = None

    def apply(self) -> None:
        """Give this rank a stream of its own; called again it changes nothing, unless the script has seeded anew."""
        if self._world.size > 1 and not self.is_used:
            self.is_used = True
            self._streams.separate()
            atexit.register(self._at_exit)
        if self._world.rank and torch.initial_seed() != self._own_seed:
            set_seed(torch.initial_seed(), device_specific=True, rank=self._world.rank)
            self._own_seed = torch.initial_seed()
