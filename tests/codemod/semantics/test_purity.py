"""Facts about what expressions and functions do besides giving a value, by their spelling."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.purity import (
    asks_environment,
    draws_at_random,
    draws_weights,
    function_draws,
    is_pure,
    tells_about,
)
from tests.codemod.facts import Facts

IMPORTS = "import random, torch, gym\nimport numpy as np\nfrom torch import nn\nenv = gym.make('x')\n"


@pytest.mark.parametrize(
    ("expression", "pure"),
    [
        ("torch.device('cuda' if torch.cuda.is_available() else 'cpu')", True),
        ("args.gpu and a.b[0] > 3", True),
        ("len(x)", True),
        ("train()", False),
        ("(a := 3)", False),
        ("[f() for _ in x]", False),
    ],
)
def test_expressions_without_an_effect(expression: str, pure: bool) -> None:
    assert is_pure(ast.parse(expression, mode="eval").body) is pure


@pytest.mark.parametrize(
    ("call", "draws"),
    [
        ("torch.randn(3)", True),
        ("np.random.rand()", True),
        ("random.random()", True),
        ("buffer.sample(3)", True),
        ("env.step(1)", True),
        ("torch.zeros(3)", False),
        ("np.random.seed(3)", False),
        ("optimizer.step()", False),
    ],
)
def test_what_draws_at_random(call: str, draws: bool) -> None:
    facts = Facts(f"{IMPORTS}{call}\n")
    assert draws_at_random(facts.program, facts.call(call)) is draws


def test_environments() -> None:
    facts = Facts(f"{IMPORTS}env.reset()\noptimizer.step()\n")
    assert asks_environment(facts.program, facts.call("env.reset()"))
    assert not asks_environment(facts.program, facts.call("optimizer.step()"))


def test_functions_that_draw() -> None:
    text = "def f():\n    return g()\ndef g():\n    return torch.randn(1)\ndef h():\n    return h()\nf()\nh()\n"
    facts = Facts(IMPORTS + text)
    assert function_draws(facts.program, facts.scope("f"))
    assert not function_draws(facts.program, facts.scope("h"))


@pytest.mark.parametrize(
    ("statement", "draws"),
    [
        ("net.apply(init)", True),
        ("nn.init.normal_(net.weight)", True),
        ("reset(net)", True),
        ("other.apply(init)", False),
        ("net.eval()", False),
    ],
)
def test_weights_that_are_drawn_anew(statement: str, draws: bool) -> None:
    facts = Facts(f"{IMPORTS}def reset(m):\n    nn.init.zeros_(m.weight)\n{statement}\n")
    node = facts.files[0].tree.body[-1]
    assert draws_weights(facts.program, node, {"net"}) is draws


def test_what_a_tensor_says_of_itself() -> None:
    found = {t: tells_about(ast.parse(t, mode="eval").body) for t in ("x.shape[0]", "x.device", "x.data", "x[0]")}
    assert found == {"x.shape[0]": True, "x.device": True, "x.data": False, "x[0]": False}
