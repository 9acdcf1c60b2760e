"""Where a line of the original went."""

from __future__ import annotations

import difflib
from collections.abc import Callable


def line_after(before: str, after: str) -> Callable[[int], int]:
    """A function from a line number (from 1) of the original to the line of the new text that stands in its place."""
    table: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        for offset in range(end - start):
            into = new_start + offset if tag == "equal" else min(new_start + offset, max(new_end - 1, new_start))
            table[start + offset + 1] = into + 1
    last = after.count("\n") + 1
    return lambda line: min(table.get(line, line), last)
