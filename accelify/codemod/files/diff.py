"""Unified diffs that `git apply` takes, whatever the file's encoding, newlines and name."""

from __future__ import annotations

import difflib
import os
import re

from accelify.codemod.files.source import changed_cells, is_notebook

_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_QUOTED = {ord("\n"): b"\\n", ord("\t"): b"\\t", ord("\r"): b"\\r", ord('"'): b'\\"', ord("\\"): b"\\\\"}


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """The change of one file as a patch to be applied where we are; empty if nothing changed.

    A notebook's is to be read: one for each cell that changed.
    """
    name = _from_here(path)
    if not is_notebook(path) or before == after:
        return _diff(name, before, after)
    return b"".join(
        _diff(b"%s:cell %d" % (name, number), old.encode(), new.encode())
        for number, old, new in changed_cells(path, before, after)
    )


def _diff(name: bytes, before: bytes, after: bytes) -> bytes:
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _lines(before),
        _lines(after),
        _quoted(b"a/" + name),
        _quoted(b"b/" + name),
    )
    return b"".join(line if line.endswith(b"\n") else line + _NO_NEWLINE for line in lines)


def _lines(data: bytes) -> list[bytes]:
    """Lines as git counts them: only a line feed ends one, and a carriage return before it is part of the line."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def _from_here(path: str) -> bytes:
    """The path relative to where we are; of a file elsewhere the whole path, which then applies from the root."""
    whole = os.path.abspath(path)  # noqa: PTH100 -- Path.absolute keeps `..`, and resolve would follow the link
    here = os.path.join(os.path.realpath("."), "")  # noqa: PTH118 -- for the separator at its end
    whole = whole.removeprefix(here)
    return os.fsencode(whole).replace(os.fsencode(os.sep), b"/").lstrip(b"/")


def _quoted(name: bytes) -> bytes:
    """The name as git writes it: in quotes with escapes where it must be, with a tab behind where it holds a space."""
    if any(byte < 32 or byte == 127 or byte in _QUOTED for byte in name):
        escaped = (
            _QUOTED.get(byte) or (b"\\%03o" % byte if byte < 32 or byte > 126 else b"%c" % byte) for byte in name
        )
        return b'"' + b"".join(escaped) + b'"'
    return name + b"\t" if b" " in name else name
