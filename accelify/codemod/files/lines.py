"""Lines of two texts: which pair, where a line of the original went, and the line ends that new text gets."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.source import encode

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


def encoded(parsed: Parsed, text: str) -> bytes:
    """A file's new text as bytes."""
    return encode(_restored(parsed, text), parsed.decoded)


def _restored(parsed: Parsed, text: str) -> str:
    """Give the lines that did not change their own ends, form feeds and all; new lines end as most of the file's do."""
    original = parsed.decoded.text
    if "\r" not in original and "\f" not in original:
        return text
    before, raw = parsed.text.split("\n"), _split(original)
    counts = {end: sum(line.endswith(end) for line in raw) for end in ("\r\n", "\n", "\r")}
    counts["\n"] -= counts["\r\n"]
    common = max(counts, key=lambda end: counts[end])
    after = text.split("\n")
    out = []
    for tag, start, end, new_start, new_end in opcodes(before, after):
        if tag == "equal":
            out.extend(raw[start:end])
        else:
            out.extend(line + common for line in after[new_start:new_end])
    joined = "".join(out)
    if not text.endswith("\n"):
        return joined.rstrip("\r\n") if joined.endswith(("\r", "\n")) else joined
    return joined


def _split(text: str) -> list[str]:
    """Lines with their ends, cut at `\\n`, `\\r\\n` and `\\r` only, so that they pair with the parsed text's lines."""
    out, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\r" and text[index + 1 : index + 2] == "\n":
            index += 2
        elif text[index] in "\r\n":
            index += 1
        else:
            index += 1
            continue
        out.append(text[start:index])
        start = index
    return [*out, text[start:]]
