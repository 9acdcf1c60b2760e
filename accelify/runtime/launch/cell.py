"""The messages between a notebook's cell and the processes it starts: output, the returned value, an exception."""

from __future__ import annotations

import codecs
import contextlib
import os
import pickle
import selectors
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

import cloudpickle  # type: ignore[import-untyped]  # it has no type hints

from accelify.errors import AccelifyError
from accelify.runtime.launch.bootstrap import write_error
from accelify.runtime.launch.failure import Failure


class RankFailed(AccelifyError):
    """A process ended badly; the message has its rank, its host and its own traceback."""


@contextlib.contextmanager
def with_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment with these variables, as it was again afterwards: a cell must not change the next one."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def forward_output(pipe: Path, stream: IO[str]) -> Iterator[None]:
    """Write what comes out of the pipe to the stream as it comes, until the block ends and the pipe is empty."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    keep = os.open(pipe, os.O_WRONLY)  # so that there is no end of file between two attempts
    done, wake = os.pipe()
    reader = threading.Thread(target=_copy, args=(descriptor, done, stream), daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.write(wake, b"x")
        reader.join()
        for each in (descriptor, keep, done, wake):
            os.close(each)


def _copy(source: int, done: int, stream: IO[str]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        selector.register(done, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if source in ready:
                stream.write(decoder.decode(os.read(source, 65536)))
                stream.flush()
            elif done in ready:
                return


def pickled(value: object) -> bytes:
    """The value in pickled form, its class by name where the cell has it under that name: it is the same class then.

    Raises: RankFailed when the value cannot be pickled at all.
    """
    with contextlib.suppress(Exception):  # whatever a class raises here, the other way may work
        return pickle.dumps(value)
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise RankFailed(f"the function's value, {type(value).__name__}, cannot be sent back: {error}") from error


def redirect(descriptor: int, name: str, path: str) -> None:
    """Send this process's standard stream of that name to the end of a file or into a pipe."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(target, descriptor)
    os.close(target)
    setattr(sys, name, open(descriptor, "w", encoding="utf-8", buffering=1, closefd=False))  # noqa: SIM115


def write_exception(error: BaseException, path: str, callers: Sequence[str]) -> None:
    """Write what a process raised to a file, its traceback without the first frames where they are of these files."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in callers and frames.tb_next is not None:
        frames = frames.tb_next
    error.__traceback__ = None  # a traceback cannot be pickled; its text goes beside it
    with contextlib.suppress(RankFailed):  # an exception that does not pickle still has its text
        Path(f"{path}.pickle").write_bytes(pickled(error))
    write_error(path, error.with_traceback(frames), frames)


def headline(first: Failure) -> str:
    """Which process failed first, and how."""
    return f"process {first.rank} on {first.host} failed first ({first.ending})"


def raise_again(first: Failure, path: str) -> NoReturn:
    """Raise the process's own exception where it can be had, with the text of its traceback as the cause."""
    text = f"{headline(first)}\n\n{first.traceback}" if first.traceback else headline(first)
    cause = RankFailed(text.rstrip())
    error: object = None
    if Path(f"{path}.pickle").exists():
        with contextlib.suppress(Exception):  # a class that does not unpickle here: its text says enough
            error = pickle.loads(Path(f"{path}.pickle").read_bytes())
    if isinstance(error, BaseException) and not isinstance(error, SystemExit):
        raise error from cause
    raise cause
