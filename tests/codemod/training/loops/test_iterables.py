"""The loaders whose batches a loop yields."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.loops.iterables import Iterables
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import training


def test_loaders_whose_batches_a_loop_yields() -> None:
    facts = training(
        end="def g(it):\n    for b in it:\n        yield b\nfor z in g(loader): pass\nfor w in range(3): pass\n"
    )
    iterables = Iterables(facts.program, facts.roles, facts.tracer)
    found = {ast.unparse(n.target): iterables.is_loader_loop(n) for n in facts.files[0].nodes if isinstance(n, ast.For)}
    assert found == {"epoch": False, "(x, y)": True, "b": True, "z": True, "w": False}
    assert texts(iterables.yielded_from(facts.scope("g"))) == ["it"]


@pytest.mark.parametrize(
    ("rows", "is_loader"),
    [
        ("rows = next(iter(loader))\nif f(): rows = torch.stack(list(rows))", False),
        ("for rows in loader: break\nrows = rows if f() else torch.randn(4, 1)", False),
        ("rows = enumerate(next(iter(loader)) if f() else torch.randn(4, 1))", False),
        ("rows = next(iter(loader))\nif f(): rows = DataLoader(rows)", True),
        ("rows = enumerate(loader)", True),
    ],
)
def test_the_rows_of_a_batch_are_no_batches(rows: str, is_loader: bool) -> None:
    facts = training(end=f"{rows}\nfor r in rows: pass")
    loop = next(n for n in facts.files[0].nodes if isinstance(n, ast.For) and ast.unparse(n.target) == "r")
    assert Iterables(facts.program, facts.roles, facts.tracer).is_loader_loop(loop) is is_loader


@pytest.mark.parametrize(
    ("body", "loaders"),
    [
        ("    loader = DataLoader(d)\n    for b in loader:\n        yield b", ["loader"]),
        ("    while True:\n        yield from DataLoader(d)", ["DataLoader(d)"]),
        ("    it = iter(DataLoader(d))\n    while True:\n        a, b = next(it)\n        yield a * 2, b", ["it"]),
        ("    for i in range(9):\n        yield i", []),
    ],
)
def test_loaders_that_a_generator_yields_from(body: str, loaders: list[str]) -> None:
    facts = Facts(f"from torch.utils.data import DataLoader\ndef feed():\n{body}\nbatches = feed()\nnext(batches)")
    iterables = Iterables(facts.program, facts.roles, facts.tracer)
    (generator,) = iterables.generators(facts.expression("batches#2"))
    assert texts(iterables.yielded_from(generator.scope)) == loaders
