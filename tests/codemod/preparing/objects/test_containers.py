"""Loaders in containers: the key of the one that trains, and the statements that put it there."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.objects.containers import Containers
from tests.codemod.facts import Facts
from tests.codemod.preparing.objects.texts import HEAD, STEP

TEXT = """\
{made}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loaders["train"]:
"""


@pytest.mark.parametrize(
    ("made", "filled"),
    [
        ('loaders = {"train": DataLoader(data), "val": DataLoader(data)}', ['loaders = {"train"']),
        ("loaders = dict(train=DataLoader(data))", ["loaders = dict("]),
        ('loaders = {}\nloaders["train"] = DataLoader(data)', ['loaders["train"] = ']),
        ('loaders = {}\nloaders.update({"train": DataLoader(data)})', ["loaders.update("]),
        ('loaders = {}\nfor p in ("train", "val"):\n    loaders[p] = DataLoader(data)', ["for p in"]),
        ('loaders = {"val": DataLoader(data)}\nloaders["train"] = DataLoader(data)', ['loaders["train"] = ']),
    ],
)
def test_the_statements_that_fill_a_place(made: str, filled: list[str]) -> None:
    facts = Facts(HEAD + TEXT.format(made=made) + STEP)
    (loop,) = (n for n in facts.named[0].nodes if isinstance(n, ast.For) and ast.unparse(n.target) == "(x, y)")
    assert isinstance(loop.iter, ast.Subscript)
    containers = Containers(facts.program, facts.training)
    (container,) = (chain[-1] for chain in facts.tracer.chains(loop.iter.value))
    assert containers.training_keys(loop.iter, loop) == ["train"]
    statements = [s for _, s in containers.places(container, "train", loop.iter)]
    lines = [facts.named[0].lines[s.lineno - 1] for s in statements if s is not None]
    assert [line[: len(text)] for line, text in zip(lines, filled, strict=True)] == filled
