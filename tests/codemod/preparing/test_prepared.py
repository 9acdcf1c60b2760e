"""Facts about prepared things, wherever they have gone since: loaders, batches, models."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.prepared import Prepared, brings_to_cpu
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training


def prepared(facts: Facts) -> Prepared:
    found = facts.script.prepared
    assert isinstance(found, Prepared)
    return found


def used(expression: str, **slots: str) -> tuple[Prepared, ast.expr]:
    """The prepared things, and an expression inside the training loop."""
    facts = training(step=f"use({expression})\n{STEP}", **slots)
    return prepared(facts), facts.call("use(").args[0]


@pytest.mark.parametrize("expression", ["x", "x[0]", "x.view(-1)", "x.to(d)"])
def test_batches_and_their_parts(expression: str) -> None:
    found, node = used(expression)
    assert found.is_batch(node)


@pytest.mark.parametrize(
    "expression", ["x.cpu()", "x.size(0)", "other", "3", "loader", "x if flag else other", "x.numpy()", "(x, y)"]
)
def test_what_is_no_batch(expression: str) -> None:
    found, node = used(expression, before="other = load()\n")
    assert not found.is_batch(node)


def test_names_of_batches() -> None:
    found, node = used("z", batch="z = x\n")
    assert found.is_batch(node)
    found, node = used("z", batch="z = x\nif flag:\n    z = other\n")
    assert not found.is_batch(node)


def test_loaders_and_their_views() -> None:
    for expression in ("loader", "enumerate(loader)", "iter(loader)"):
        found, node = used(expression)
        assert found.is_loader(node), expression
    found, node = used("other", before="other = DataLoader(rows)\n")
    assert not found.is_loader(node)


def test_loops_over_prepared_loaders() -> None:
    facts = training(end="for x, y in loader:\n    print(x)\nfor z in DataLoader(rows):\n    print(z)\n")
    loops = [n for n in facts.files[0].nodes if isinstance(n, ast.For) and n in prepared(facts).loops]
    assert [ast.unparse(n.iter) for n in loops] == ["loader", "loader"]


def test_models() -> None:
    found, node = used("model")
    assert found.is_model(node)
    found, node = used("nn.Linear(1, 1)")
    assert not found.is_model(node)


@pytest.mark.parametrize(
    ("expression", "brings"),
    [
        ("x.cpu()", True),
        ("x.to('cpu')", True),
        ("x.detach().cpu()", True),
        ("x.to(device)", False),
        ("x.cuda()", False),
        ("x", False),
        ("cpu(x)", False),
    ],
)
def test_what_is_on_the_cpu_from_there_on(expression: str, brings: bool) -> None:
    assert brings_to_cpu(Facts(f"use({expression})").call("use(").args[0]) is brings
