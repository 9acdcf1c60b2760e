"""Facts about a block's statements as they come out: which lines stay above and between them."""

from __future__ import annotations

import ast

import libcst as cst

from accelify.codemod.edits.blocks import Block, Comments, comments_in, has_blank, is_blank, last_blank, lines_above
from accelify.codemod.edits.values import Insert, Wrap

AT = ast.parse("x").body[0]


def statement(text: str) -> cst.BaseStatement:
    return cst.parse_module(text + "\n").body[0]


def lines(text: str) -> list[cst.EmptyLine]:
    """Blank lines and comments."""
    return list(lines_above(cst.parse_module(f"a\n{text}\nb\n").body[1]))


def printed(block: Block) -> str:
    return cst.Module(block.body).code


def test_statements_one_after_another() -> None:
    block = Block("    ", is_dense=True)
    block.put(statement("a"))
    block.put(statement("b"))
    assert printed(block) == "a\nb\n"


def test_lines_of_a_removed_statement_go_to_the_next() -> None:
    block = Block("    ", is_dense=False)
    block.put(statement("a"))
    block.remove(lines("\n# why"), [])
    above = block.reach([], [])
    block.put(statement("b").with_changes(leading_lines=above))
    assert printed(block) == "a\n\n# why\nb\n"


def test_a_new_statement_after_another_and_one_in_the_place_of_a_removed_one() -> None:
    block = Block("    ", is_dense=True)
    block.put(statement("a"))
    block.follow([new := Insert(AT, "after", "n()")])
    block.remove([], [other := Insert(AT, "after", "m()")])
    block.put(statement("b").with_changes(leading_lines=block.reach([], [])))
    assert printed(block) == "a\nn()\nm()\nb\n"
    assert block.placed == [new, other]


def test_comments_that_no_statement_follows_are_kept() -> None:
    block = Block("    ", is_dense=True)
    block.remove(lines("\n# why"), [])
    assert [line.comment.value for line in block.close() if line.comment] == ["# why"]
    assert block.body == []


def test_statements_under_one_header() -> None:
    block = Block("  ", is_dense=True)
    wrap = Wrap((AT,), "if main:")
    block.put(statement("a"), wrap)
    block.put(statement("b"), wrap)
    block.put(statement("c"))
    assert printed(block) == "if main:\n  a\n  b\nc\n"
    block.put(statement("d"), Wrap((AT,), "if main:"))
    assert printed(block).endswith("c\nif main:\n  d\n")


def test_blank_lines_and_comments() -> None:
    every = lines("# a\n\n# b")
    assert [is_blank(line) for line in every] == [False, True, False]
    assert has_blank(every)
    assert not has_blank(lines("# a"))
    assert last_blank(every) == 2
    assert last_blank(lines("# a")) == 0
    assert comments_in(statement("# a\nf(  # b\n  c)  # d")).total() >= 2
    found = Comments()
    statement("f()  # a").visit(found)
    assert [comment for _, comment in found.found] == ["# a"]
