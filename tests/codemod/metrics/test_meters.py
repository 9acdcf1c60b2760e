"""Facts about the meters and lists that a loop fills, and what is put into them."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.meters import Elements, Lists
from accelify.codemod.training.harmless import Harmless
from tests.codemod.metrics.loops import in_loop


def lists(body: str, end: str, before: str = "losses = []") -> tuple[str, ...]:
    facts, loop = in_loop(body, end, f"import numpy as np\n{before}")
    found = Lists(facts.program, facts.tracer, facts.script.prepared, Harmless(facts.program, facts.roles))
    block = facts.program.block(loop)
    return found.of(loop, block[: block.index(loop)])


def test_a_list_that_is_read_for_its_mean() -> None:
    assert lists("losses.append(model(x).mean().item())", "print(np.mean(losses))\n") == ("losses",)


@pytest.mark.parametrize(
    ("body", "end", "before"),
    [
        ("losses.append(model(x).mean().item())", "print(losses[-1])\n", "losses = []"),
        ("losses.append(model(x))", "print(np.mean(losses))\n", "losses = []"),
        ("losses.append(1.0)\nbreak", "print(np.mean(losses))\n", "losses = []"),
        ("losses.append(1.0)", "print(np.mean(losses))\n", "losses = [0.0]"),
    ],
)
def test_lists_that_are_left_alone(body: str, end: str, before: str) -> None:
    assert lists(body, end, before) == ()


@pytest.mark.parametrize(
    ("value", "number", "plain"),
    [
        ("3", True, True),
        ("loss.item()", True, True),
        ("float(x)", True, True),
        ("named", True, True),
        ("loss.item() * 2", True, True),
        ("*x.tolist()", True, True),
        ("x", False, True),
        ("model(x)", False, True),
        ("x.cpu().numpy()", False, True),
        ("(x, y)", False, True),
        ("open(p)", False, False),
        ("unknown", False, False),
    ],
)
def test_numbers_and_what_processes_can_hand_each_other(value: str, number: bool, plain: bool) -> None:
    facts, loop = in_loop(f"named = loss.item()\nuse({value})")
    found = Elements(facts.program, facts.tracer, Harmless(facts.program, facts.roles), loop)
    node = facts.call("use(").args[0]
    assert (found.is_number(node), found.is_plain(node)) == (number, plain)
