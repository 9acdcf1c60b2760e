"""Which lines of two texts pair, and where a line of the original went."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

Opcode = tuple[str, int, int, int, int]


def opcodes(before: Sequence[str], after: Sequence[str]) -> Iterator[Opcode]:
    """The operations that turn one list of lines into another, as `difflib` gives them.

    It is asked only of what differs between lines that both have once: where lines repeat, it takes the square of their
    number.
    """
    start, new_start = 0, 0
    for anchor, new_anchor in [*_anchors(before, after), (len(before), len(after))]:
        yield from _between(before, after, (start, anchor), (new_start, new_anchor))
        if anchor < len(before):
            yield "equal", anchor, anchor + 1, new_anchor, new_anchor + 1
        start, new_start = anchor + 1, new_anchor + 1


def _between(
    before: Sequence[str], after: Sequence[str], old: tuple[int, int], new: tuple[int, int]
) -> Iterator[Opcode]:
    """The opcodes of two ranges of lines: what both begin and end with is equal, `difflib` gets the rest."""
    (start, end), (new_start, new_end) = old, new
    first, most = 0, min(end - start, new_end - new_start)
    while first < most and before[start + first] == after[new_start + first]:
        first += 1
    last, most = 0, most - first
    while last < most and before[end - 1 - last] == after[new_end - 1 - last]:
        last += 1
    if first:
        yield "equal", start, start + first, new_start, new_start + first
    start, new_start = start + first, new_start + first
    differing = before[start : end - last], after[new_start : new_end - last]
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *differing, autojunk=False).get_opcodes():
        yield tag, start + a, start + b, new_start + c, new_start + d
    if last:
        yield "equal", end - last, end, new_end - last, new_end


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


@lru_cache(maxsize=16)
def line_after(before: str, after: str) -> Callable[[int], int]:
    """A function from a line number (from 1) of the original to the line of the new text that stands in its place."""
    old, new = before.split("\n"), after.split("\n")
    table: dict[int, int] = {}
    for tag, start, end, new_start, new_end in opcodes(old, new):
        for offset in range(end - start):
            into = new_start + offset if tag == "equal" else min(new_start + offset, max(new_end - 1, new_start))
            table[start + offset + 1] = into + 1
        if tag == "replace":  # there may be lines that are only indented
            texts = ([line.strip() for line in lines] for lines in (old[start:end], new[new_start:new_end]))
            alike = (found for found in opcodes(*texts) if found[0] == "equal")
            table.update((start + i, new_start + i - a + b) for _, a, to, b, _ in alike for i in range(a + 1, to + 1))
    last = after.count("\n") + 1
    return lambda line: min(table.get(line, line), last)
