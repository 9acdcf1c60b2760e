"""Errors of ranks that make different calls at the same time: which rank made which call, and at which line."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from accelify.errors import AccelifyError
from accelify.runtime.world.process_group import ENDED, World, exchange_reports

LOOK = timedelta(seconds=3)  # a rank that has waited for so long reports where, and looks up where the others are
_messages = itertools.count()  # ranks that do the same have waited for as many

_NOT_THE_SCRIPT = str(Path(__file__).parents[1]), str(Path(torch.__file__).parent)

_ALIKE = (
    "All ranks must make the same calls equally often: a prepared loader gives them equally many batches, and "
    "join_uneven_inputs lets these differ"
)


_APART = "the ranks wait at different calls"


class Desync(AccelifyError):
    """The ranks made different calls at the same time, or one made none."""


class Unanswered(AccelifyError, RuntimeError):
    """A message to the other ranks that the backend gave up: one of them is gone, or did not come in time."""


@contextmanager
def answered() -> Iterator[None]:
    """Send messages inside. Raises: Unanswered for whatever the backend raises."""
    try:
        yield
    except RuntimeError as error:
        raise Unanswered(str(error)) from error


def call_site() -> str:
    """`train.py:88`, the innermost line outside the runtime and torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_SCRIPT):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def wait(work: dist.Work, operation: str, detail: str = "") -> None:
    """Return once a message from CPU to CPU has come.

    Raises: Desync, seconds after another rank has begun to wait for the message of another operation; and what the
    backend raises.
    """
    number = next(_messages)
    while True:
        try:
            work.wait(LOOK)
        except RuntimeError:
            if not work.is_completed():
                _look_around(number, operation, detail)
                continue
            work.wait()  # raises what the backend did, unless it came just now
        return


def _look_around(number: int, operation: str, detail: str) -> None:
    store, here = _get_default_store(), dist.get_rank()
    stands = {here: (operation, f"waits at {call_site()} {operation} {detail}".strip())}
    # The store is gone with the process that held it; then the message fails soon.
    with suppress(RuntimeError):
        store.set(f"waits/{here}", json.dumps([number, *stands[here]]))
        for rank in range(dist.get_world_size()):
            if rank != here and store.check([f"waits/{rank}"]):
                its_number, *its_stand = json.loads(store.get(f"waits/{rank}"))
                if its_number == number:  # else it is long past that
                    stands[rank] = tuple(its_stand)
    if len({operation for operation, _ in stands.values()}) > 1:
        waiting = [f"rank {rank} {word}" for rank, (_, word) in sorted(stands.items())]
        raise Desync("; ".join([_APART, *waiting]))


def hash_of_text(text: str) -> int:
    """A hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def disagreement(calls: Sequence[str]) -> Desync:
    """The error of ranks that make different calls, with the call that each one reported."""
    return Desync("the ranks disagree: " + "; ".join(f"rank {rank} {call}" for rank, call in enumerate(calls)))


def missing(world: World, asked: str, error: RuntimeError) -> Desync:
    """The error of ranks that waited in vain: which rank did not come, and where the others wait.

    Each rank that waited in vain leaves a report in the store through which the ranks met, and reads the others'.
    """
    here = f"waits at {call_site()} {asked.strip()}"
    words = {rank: word or "never came" for rank, word in exchange_reports(world, here).items()}
    gone = [f"rank {rank} {word}" for rank, word in sorted(words.items()) if not word.startswith("waits")]
    waits = {world.rank: here, **{rank: word for rank, word in words.items() if word.startswith("waits")}}
    waiting = [f"rank {rank} {word}" for rank, word in sorted(waits.items())]
    is_same = len({_asked(word) for word in waits.values()}) == 1
    why = gone or ["the connection broke" if is_same else _APART]
    advice = f". {_ALIKE}" if ENDED in words.values() else ""
    return Desync(f"{'; '.join([*why, *waiting])} ({error}){advice}")


def _asked(word: str) -> str:
    """`gather f32[2]` of `waits at train.py:7 gather f32[2]`."""
    return re.sub(r"^waits at .*?:\d+ ", "", word)
