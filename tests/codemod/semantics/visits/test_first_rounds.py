"""What the first round of a counting loop sets."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.visits.first_rounds import set_in_first_round


def is_set(text: str) -> bool:
    (loop,) = ast.parse(text).body
    assert isinstance(loop, ast.For)
    return set_in_first_round(loop, "out")


@pytest.mark.parametrize("head", ["for k in range(n)", "for k in range(0, n, 2)", "for k, x in enumerate(xs)"])
@pytest.mark.parametrize(
    "body",
    [
        "if k == 0:\n        out = f()\n    else:\n        out = g(out)",
        "if not k: out = f()",
        "if k > 0:\n        out = g(out)\n    else:\n        out = f()",
        "out = f() if k == 0 else g(out)",
        "out = g(out) if k else f()",
    ],
)
def test_the_first_round_sets_the_name(head: str, body: str) -> None:
    assert is_set(f"{head}:\n    {body}")


@pytest.mark.parametrize(
    "text",
    [
        "for k in range(1, n):\n    if k == 0: out = f()",
        "for k, x in enumerate(xs, 1):\n    if k == 0: out = f()",
        "for k in ks:\n    if k == 0: out = f()",
        "for k in range(n):\n    if k == 1: out = f()",
        "for k in range(n):\n    if k == 0: out = g(out)",
        "for k in range(n):\n    if k == 0: other = f()",
        "for k in range(n):\n    if k == 0 and x: out = f()",
        "for k in range(n):\n    out = g(out) if k == 0 else f()",
        "for k in range(n):\n    out = g(out)",
    ],
)
def test_the_name_may_keep_what_it_held(text: str) -> None:
    assert not is_set(text)
