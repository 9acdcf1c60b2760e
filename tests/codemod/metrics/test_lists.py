"""Facts about lists that get one number from each batch, and are read for their mean."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.lists import Lists
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
