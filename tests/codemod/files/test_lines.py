"""Pairing lines: what pairs is equal, everything is told of, and a line that moved is not paired twice."""

from __future__ import annotations

import random

from accelify.codemod.files.lines import line_after, opcodes


def test_the_opcodes_make_the_new_text_out_of_the_old() -> None:
    draw = random.Random(0)
    for _ in range(200):
        before = [draw.choice("abcdefgh\n") for _ in range(draw.randrange(12))]
        after = [draw.choice([line, "x", "y"]) for line in before if draw.random() < 0.8]
        if draw.random() < 0.2:
            after.reverse()
        made, at, new_at = [], 0, 0
        for tag, start, end, new_start, new_end in opcodes(before, after):
            assert (start, new_start) == (at, new_at)
            assert tag != "equal" or before[start:end] == after[new_start:new_end]
            made += before[start:end] if tag == "equal" else after[new_start:new_end]
            at, new_at = end, new_end
        assert made == after
        assert (at, new_at) == (len(before), len(after))


def test_a_line_is_found_where_it_went() -> None:
    where = line_after("a\nb\nx\nc\nx\n", "new\na\nx\nc\nalso new\nx\n")
    assert [where(line) for line in (1, 3, 4, 5)] == [2, 3, 4, 6]


def test_lines_that_are_only_indented_keep_their_places() -> None:
    where = line_after("a\nsave(1)\nsave(2)\nb\n", "a\nx = 1\nif main:\n    save(1)\n    save(2)\nb\n")
    assert [where(line) for line in (1, 2, 3, 4)] == [1, 4, 5, 6]
