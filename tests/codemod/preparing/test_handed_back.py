"""Facts about things that a function hands back among others."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.handed_back import goes_over, handed_back, is_handed_through
from tests.codemod.facts import Facts

LOADER = "def make():\n    loader = DataLoader(d)\n    return loader, iter(loader)\nl, it = make()\nuse(it, l)\n"


def origins(text: str, index: int) -> set[tuple[str, ...]]:
    facts = Facts(text)
    (chain,) = facts.tracer.chains(facts.call("use(").args[index])
    return {tuple(b.text for b in way) for way in handed_back(facts.program, facts.tracer, chain)}


def test_the_loader_behind_an_iterator() -> None:
    assert origins(LOADER, 0) == {("loader",)}
    assert origins(LOADER, 1) == {("loader",)}


def test_without_an_iterator_the_chain_stays() -> None:
    assert origins(LOADER.replace("iter(loader)", "3"), 1) == {("l",)}
    assert origins("l, it = unknown()\nuse(it, l)\n", 0) == {("it",)}


def through(text: str) -> bool:
    facts = Facts(text)
    (chain,) = facts.tracer.chains(facts.call("use(").args[0])
    return is_handed_through(facts.program, facts.tracer, chain[-1])


def test_what_a_function_was_given_comes_back() -> None:
    assert through("def f(m, o):\n    return m, o\nm, o = f(a, b)\nuse(m)\n")
    assert not through("def f(m, o):\n    m = g(m)\n    return m, o\nm, o = f(a, b)\nuse(m)\n")
    assert not through("def f(m, o):\n    return g(), o\nm, o = f(a, b)\nuse(m)\n")
    assert not through("m, o = unknown(a, b)\nuse(m)\n")


@pytest.mark.parametrize(
    ("value", "is_over"),
    [
        ("iter(loader)", True),
        ("each_of(loader)", True),
        ("(x for x in loader)", True),
        ("(x + 1 for x in loader)", False),
        ("[x for x in loader]", False),
        ("len(loader)", False),
        ("iter(loader) if loader else None", True),
        ("loader and iter(loader)", True),
        ("loader if loader else None", False),
    ],
)
def test_what_goes_over_another(value: str, is_over: bool) -> None:
    facts = Facts(f"def each_of(rows):\n    for x in rows: yield x\nuse({value})\n")
    node = facts.call("use(").args[0]
    assert isinstance(node, ast.expr)
    assert goes_over(facts.program, facts.tracer, node) is is_over
