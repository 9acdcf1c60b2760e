"""Files to bytes and back: find them, decode them, replace them atomically. Nothing else in the codemod writes."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from accelify.errors import CannotRead

_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_EMPTY_OR_COMMENT = re.compile(rb"^[ \t\f]*(#|$)")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text, newlines untouched and the byte order mark taken off, with what it takes to encode it again."""

    text: str
    encoding: str
    bom: bool


def read(path: str) -> bytes:
    """The bytes of a file; raises CannotRead with what the system said."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CannotRead(path, reason=f"cannot be read: {describe(error)}") from error


def decode(data: bytes, path: str) -> Decoded:
    """Decode as Python would: byte order mark, then the coding comment (PEP 263), else UTF-8.

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
    return Decoded(text=text, encoding=encoding, bom=bom)


def encode(text: str, like: Decoded) -> bytes:
    """The bytes of `text` in the encoding of the file it came from, its byte order mark put back."""
    return (codecs.BOM_UTF8 if like.bom else b"") + text.encode(like.encoding)


def describe(error: OSError) -> str:
    """What the system said, without the number and the path that `str` of it adds."""
    return (error.strerror or type(error).__name__).lower()


def _encoding(data: bytes, path: str) -> str:
    bom = data.startswith(codecs.BOM_UTF8)
    line, name = _coding_comment(data[len(codecs.BOM_UTF8) :] if bom else data)
    try:
        encoding = codecs.lookup(name).name
    except LookupError:
        raise CannotRead(path, line, 0, f"unknown encoding: {name}") from None
    if encoding == "utf-8-sig":
        return "utf-8"
    if bom and encoding != "utf-8":
        raise CannotRead(path, line, 0, f"a UTF-8 byte order mark, but a coding comment that says {name}")
    return encoding


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
