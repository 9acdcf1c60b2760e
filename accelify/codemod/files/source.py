"""Files to bytes and back: read them, decode them, replace them atomically. Nothing else in the codemod writes."""

from __future__ import annotations

import ast
import codecs
import os
import re
import signal
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accelify import atomic
from accelify.errors import CannotRead, CannotWrite

if TYPE_CHECKING:
    from accelify.codemod.files.notebook import Notebook

_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_ENDING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
_EMPTY_OR_COMMENT = re.compile(rb"^[ \t\f]*(#|$)")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text, newlines untouched and the byte order mark taken off, with what it takes to encode it again.

    notebook: the one whose cells the text is.
    """

    text: str
    encoding: str
    bom: bool
    notebook: Notebook | None = None


@dataclass(frozen=True, slots=True)
class Replacement:
    """New bytes for a file, to be written only while it still holds the old ones."""

    path: str
    before: bytes
    after: bytes


def read(path: str) -> bytes:
    """The bytes of a file; raises CannotRead with what the system said."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # opening a pipe would wait for ever
            raise CannotRead(path, reason="not a regular file")
        return Path(path).read_bytes()
    except OSError as error:
        raise CannotRead(path, reason=f"cannot be read: {describe(error)}") from error


def may_train(data: bytes) -> bool:
    """Whether a file is worth parsing: without these bytes it holds no training loop, and only has to be Python."""
    return b"torch" in data or b".backward(" in data or b"accelerate" in data


def parses(data: bytes) -> bool:
    """Whether Python can read a script."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd about a script is not ours to report
            ast.parse(data)
    except (SyntaxError, ValueError):
        return False
    except (RecursionError, MemoryError):  # so deep that a deeper stack is needed
        return True
    return True


def decode(data: bytes, path: str) -> Decoded:
    """Decode as Python would: byte order mark, then the coding comment (PEP 263), else UTF-8; of a notebook, its cells.

    Raises: CannotRead at the byte that does not decode, or at the comment that names an unknown encoding.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise CannotRead(path, 1, 0, "UTF-16 text, which Python cannot run either; save it as UTF-8")
    nul = data.find(b"\0")
    if nul >= 0:
        raise CannotRead(path, *_position(data, nul), "a binary file: it holds a NUL byte")
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    encoding = _encoding(data, path)
    try:
        text = body.decode(encoding)
        lossless = text.encode(encoding) == body
    except UnicodeDecodeError as error:
        raise CannotRead(path, *_position(body, error.start), f"not valid {encoding}: {error.reason}") from error
    except (UnicodeError, LookupError) as error:
        raise CannotRead(path, 1, 0, f"cannot be decoded as {encoding}: {error}") from error
    if not lossless:
        raise CannotRead(path, 1, 0, f"cannot be written back as {encoding} without changing other bytes")
    if is_notebook(path):
        from accelify.codemod.files.notebook import read as read_notebook  # most files are none, and do not pay for it

        notebook = read_notebook(text, path)
        return Decoded(notebook.python, encoding, bom, notebook)
    return Decoded(text=text, encoding=encoding, bom=bom)


def is_notebook(path: str) -> bool:
    """Whether a file is a Jupyter notebook, by its name."""
    return path.endswith(".ipynb")


def encode(text: str, like: Decoded) -> bytes:
    """The bytes of `text` in the encoding of the file it came from, its byte order mark put back.

    Raises: CannotParse where the text does not go back into the cells of a notebook.
    """
    if like.notebook is not None:
        text = like.notebook.with_python(text)
    return (codecs.BOM_UTF8 if like.bom else b"") + text.encode(like.encoding)


def changed_cells(path: str, before: bytes, after: bytes) -> Iterator[tuple[int, str, str]]:
    """The number of each cell that differs in two versions of a notebook, and what it holds, with a last newline."""
    old, new = decode(before, path).notebook, decode(after, path).notebook
    assert old is not None
    assert new is not None
    for one, other in zip(old.cells, new.cells, strict=True):
        if one.source != other.source:
            yield one.number, _with_newline(one.source), _with_newline(other.source)


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def replace(replacements: Sequence[Replacement]) -> None:
    """Replace files that belong together: every one, or none if one of them may not be written or has changed.

    A symbolic link stays and the file behind it is replaced; mode and owner are kept. The new bytes are on disk beside
    every file before the first is replaced, so a reader sees a file's old bytes or its new ones, never a part. A signal
    that would end this process waits until all is done.
    Raises: CannotWrite naming the file that stood in the way.
    """
    with _undisturbed(), ExitStack() as stack:
        prepared = [stack.enter_context(_staged(each)) for each in replacements]
        for each, new in zip(replacements, prepared, strict=True):
            _refuse_if_changed(each, new.target)
        for each, new in zip(replacements, prepared, strict=True):
            with _as_cannot_write(each.path):
                new.replace()


def remove_leftovers(paths: Iterable[str]) -> None:
    """Remove what a rewrite of these files that was killed has left beside them."""
    names: dict[Path, set[str]] = {}
    for path in paths:
        target = Path(os.path.realpath(path))
        names.setdefault(target.parent, set()).add(target.name)
    for folder, its_names in names.items():
        atomic.remove_leftovers(folder, its_names)


def describe(error: OSError) -> str:
    """The system's message, without the number and the path that `str` of the error adds."""
    return (error.strerror or type(error).__name__).lower()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back the signals that would end this process half-way; they come when all is done."""
    if threading.current_thread() is not threading.main_thread():  # which alone may say what becomes of signals
        yield
        return
    held: list[int] = []
    ours = [number for number in _ENDING if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, lambda number, frame: held.append(number)) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in held:
            signal.raise_signal(number)


@contextmanager
def _staged(each: Replacement) -> Iterator[atomic.Staged]:
    """The new bytes beside the file that they are for; they go at the end unless they have become the file."""
    with ExitStack() as stack:
        with _as_cannot_write(each.path):
            _refuse_if_read_only(each, Path(os.path.realpath(each.path)))
            new = atomic.staged(each.path, lambda file: file.write(each.after), must_keep_owner=True)
            staged = stack.enter_context(new)
        yield staged


@contextmanager
def _as_cannot_write(path: str) -> Iterator[None]:
    try:
        yield
    except atomic.OwnerWouldChange as error:
        raise CannotWrite(path, reason="is owned by another user, and rewriting it would make it yours") from error
    except OSError as error:
        raise CannotWrite(path, reason=f"cannot be written: {describe(error)}") from error


def _refuse_if_read_only(each: Replacement, target: Path) -> None:
    # The mode counts even for root, whom the system would let through.
    if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
        raise CannotWrite(each.path, reason="read-only; make it writable, then run again")


def _refuse_if_changed(each: Replacement, target: Path) -> None:
    with _as_cannot_write(each.path):
        unchanged = target.read_bytes() == each.before
    if not unchanged:
        raise CannotWrite(each.path, reason="changed by another program while it was being rewritten; run again")


def _encoding(data: bytes, path: str) -> str:
    bom = data.startswith(codecs.BOM_UTF8)
    line, name = _coding_comment(data[len(codecs.BOM_UTF8) :] if bom else data)
    try:
        encoding = codecs.lookup(name).name
    except LookupError:  # that of a package, as `future_fstrings`, or an editor's name for UTF-8
        if not _is_utf8(data):
            raise CannotRead(path, line, 0, f"unknown encoding: {name}") from None
        return "utf-8"
    if encoding == "utf-8-sig":
        return "utf-8"
    if bom and encoding != "utf-8":
        raise CannotRead(path, line, 0, f"a UTF-8 byte order mark, but a coding comment that says {name}")
    return encoding


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _coding_comment(data: bytes) -> tuple[int, str]:
    """Line and name of the encoding that a comment in the first two lines declares; UTF-8 if none does.

    Source: https://peps.python.org/pep-0263/
    """
    for number, line in enumerate(data[:4096].splitlines()[:2], start=1):
        if match := _CODING.match(line):
            return number, match[1].decode("ascii")
        if not _EMPTY_OR_COMMENT.match(line):
            break
    return 1, "utf-8"


def _position(data: bytes, offset: int) -> tuple[int, int]:
    """Line (from 1) and column (from 0, in bytes) of the byte at an offset."""
    lines = (data[:offset] + b"x").splitlines()
    return len(lines), len(lines[-1]) - 1
