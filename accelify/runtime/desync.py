"""What ranks say when they do not ask for the same thing at the same time: which did what, and at which line."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from accelify.errors import AccelifyError
from accelify.runtime.process import World, leave_word

_HERE = str(Path(__file__).parent)


class Desync(AccelifyError):
    """The ranks asked for different things at the same time, or one never came."""


def call_site() -> str:
    """`train.py:88`, the innermost line outside the runtime."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def mark_of(text: str) -> int:
    """A number that stands for a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def disagreement(stories: Sequence[str]) -> Desync:
    """What to say when ranks ask for different things, as each one told it."""
    return Desync("the ranks disagree: " + "; ".join(f"rank {rank} {story}" for rank, story in enumerate(stories)))


def missing(world: World, asked: str, error: RuntimeError) -> Desync:
    """What to say when some rank did not come: who, and where the ones that wait stand.

    Each rank that waited in vain leaves a word in the store that brought the ranks together, and reads the others'.
    """
    here = f"{call_site()} {asked.strip()}"
    absent, waiting = [], [f"rank {world.rank} waits at {here}"]
    for rank, word in sorted(leave_word(world, here).items()):
        if word is None:
            absent.append(f"rank {rank}")
        else:
            waiting.append(f"rank {rank} waits at {word}")
    never = f"{', '.join(absent)} never came" if absent else "the connection broke"
    return Desync(f"{never}; {'; '.join(waiting)} ({error})")
