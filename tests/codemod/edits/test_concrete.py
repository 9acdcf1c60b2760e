"""Facts about the part of a file that LibCST gets to see, and where an `ast` node is in it."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from accelify.codemod.edits.concrete import Concrete, fold
from accelify.codemod.edits.values import Insert, Remove, Replace
from tests.codemod.facts import Facts, find

TEXT = "import a\nb = 1\nfor c in d:\n    e = f(g)\n    h = 2\nk = 3\nl = 4\n"


def identity(node: cst.CSTNode) -> cst.CSTNode:
    return node


def test_what_no_edit_is_at_is_folded() -> None:
    facts = Facts(TEXT)
    folded = fold(facts.files[0], [Replace(facts["f(g)"], identity)])
    assert "f(g)" in folded.text
    for other in ("import a", "h = 2", "l = 4"):
        assert other not in folded.text
    assert folded.unfold(folded.text) == TEXT
    assert folded.lost(folded.text) == []
    assert folded.line(4) == folded.text.split("\n").index("    e = f(g)") + 1


def test_what_is_lost_from_a_fold() -> None:
    facts = Facts(TEXT)
    folded = fold(facts.files[0], [Replace(facts["f(g)"], identity)])
    name = next(iter(folded.folds))
    assert folded.lost(folded.text.replace(name, "")) == [folded.folds[name]]
    assert folded.lost(folded.text + name) == [folded.folds[name]]


def test_without_edits_all_is_folded() -> None:
    facts = Facts(TEXT)
    folded = fold(facts.files[0], [])
    assert folded.unfold(folded.text) == TEXT
    assert len(folded.folds) == 1


def test_names_of_folds_are_no_names_of_the_file() -> None:
    facts = Facts("folded_0_ = 1\nb = f(g)\nc = 2\n")
    folded = fold(facts.files[0], [Replace(facts["f(g)"], identity)])
    assert folded.unfold(folded.text) == facts.files[0].text
    assert all(name not in facts.files[0].text for name in folded.folds)


@pytest.mark.parametrize("spelled", ["f(g)", "g", "e = f(g)", "for c in d", "d", "f"])
def test_the_node_for_a_node(spelled: str) -> None:
    facts = Facts(TEXT)
    loop = facts["for c"]
    assert isinstance(loop, ast.stmt)
    edits = [Remove(loop)]
    concrete = Concrete(facts.files[0], fold(facts.files[0], edits))
    node = find([facts.files[0].tree], spelled, ast.AST)
    printed = concrete.module.code_for_node(concrete.find(node)).strip()
    assert printed.startswith(spelled)


def test_a_generator_in_parentheses_of_its_own() -> None:
    facts = Facts("a = ( c for c in (d for d in e) )\n")
    node = facts.expression("(c for")
    concrete = Concrete(facts.files[0], fold(facts.files[0], [Replace(node, identity)]))
    assert concrete.module.code_for_node(concrete.find(node)) == "( c for c in (d for d in e) )"


def test_a_folded_statement_has_its_name() -> None:
    facts = Facts(TEXT)
    at = facts.statement("b = 1")
    folded = fold(facts.files[0], [Insert(at, "after", "x()")])
    concrete = Concrete(facts.files[0], folded)
    assert concrete.module.code_for_node(concrete.find(at)).strip() in folded.folds


def test_a_node_that_is_not_there() -> None:
    facts, other = Facts(TEXT), Facts("zzzzzzzzzzzzzz + yyyyyyyyyyyyyyyyyyy\n")
    concrete = Concrete(facts.files[0], fold(facts.files[0], [Remove(facts.statement("b = 1"))]))
    with pytest.raises(LookupError):
        concrete.find(other.expression("zzzzzzzzzzzzzz + yyyyyyyyyyyyyyyyyyy"))


def test_comments_at_the_end_of_a_file_print_as_they_were() -> None:
    text = "if a:\n    b = 1\n    # deep\n  # odd\n# end"
    facts = Facts({"main.py": text})
    concrete = Concrete(facts.files[0], fold(facts.files[0], [Remove(facts.statement("b = 1"))]))
    assert concrete.module.code.endswith("# end")
