"""Which lines of two texts pair, and where a line of the original went."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

Opcode = tuple[str, int, int, int, int]


def opcodes(before: Sequence[str], after: Sequence[str]) -> Iterator[Opcode]:
    """What makes one list of lines out of another, as `difflib` tells it.

    It is asked only between lines that both have once: where lines repeat, it takes the square of the file's length.
    """
    start, new_start = 0, 0
    for anchor, new_anchor in [*_anchors(before, after), (len(before), len(after))]:
        part = difflib.SequenceMatcher(None, before[start:anchor], after[new_start:new_anchor], autojunk=False)
        for tag, a, b, c, d in part.get_opcodes():
            yield tag, start + a, start + b, new_start + c, new_start + d
        if anchor < len(before):
            yield "equal", anchor, anchor + 1, new_anchor, new_anchor + 1
        start, new_start = anchor + 1, new_anchor + 1


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of lines that both texts have once, as many as follow each other in both."""
    counts, new_counts = Counter(before), Counter(after)
    places = {line: index for index, line in enumerate(after)}
    pairs = [(i, places[line]) for i, line in enumerate(before) if counts[line] == 1 == new_counts[line]]
    tails: list[int] = []  # the place in `after` at which the shortest-ending sequence of each length ends
    ends: list[int] = []  # which pair that is
    links: list[int | None] = []  # the pair before each in its sequence
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        links.append(ends[length - 1] if length else None)
        tails[length : length + 1], ends[length : length + 1] = [place], [index]
    found = []
    last = ends[-1] if ends else None
    while last is not None:
        found.append(pairs[last])
        last = links[last]
    return found[::-1]


def line_after(before: str, after: str) -> Callable[[int], int]:
    """A function from a line number (from 1) of the original to the line of the new text that stands in its place."""
    table: dict[int, int] = {}
    for tag, start, end, new_start, new_end in opcodes(before.split("\n"), after.split("\n")):
        for offset in range(end - start):
            into = new_start + offset if tag == "equal" else min(new_start + offset, max(new_end - 1, new_start))
            table[start + offset + 1] = into + 1
    last = after.count("\n") + 1
    return lambda line: min(table.get(line, line), last)
