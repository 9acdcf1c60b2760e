"""Facts about optimizers: whose parameters each gets, as the models are named where the optimizer is."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.optimizer_models import Owners, is_plain
from tests.codemod.facts import Facts, texts

IMPORTS = "import torch\nfrom torch import nn\n"


def owners(text: str) -> list[str]:
    facts = Facts(IMPORTS + text)
    chains = facts.tracer.chains(facts.call("use(").args[0])
    found = Owners(facts.program, facts.roles, facts.tracer, facts.training)
    return texts(node for chain in chains for node in found.of(chain[-1]))


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("m = nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\nuse(o)\n", ["m"]),
        ("m, n = A(), B()\no = torch.optim.SGD(list(m.parameters()) + list(n.parameters()))\nuse(o)\n", ["m", "n"]),
        ("m = A()\no = torch.optim.SGD([{'params': m.parameters()}])\nuse(o)\n", ["m"]),
        ("m = A()\np = m.parameters()\no = torch.optim.SGD(p)\nuse(o)\n", ["m"]),
        ("m = A()\no = torch.optim.SGD(filter(f, m.parameters()))\nuse(o)\n", ["m"]),
        ("m = A()\no = torch.optim.SGD(m.features.parameters())\nuse(o)\n", ["m.features"]),
        ("def build(net):\n    return torch.optim.SGD(net.parameters())\nm = A()\no = build(m)\nuse(o)\n", ["m"]),
        ("o = torch.optim.SGD([torch.zeros(1)])\nuse(o)\n", []),
        ("o = unknown()\nuse(o)\n", []),
    ],
)
def test_the_models_of_an_optimizer(text: str, models: list[str]) -> None:
    assert owners(text) == models


@pytest.mark.parametrize(
    ("text", "plain"),
    [("a", True), ("a.b.c", True), ("a['k']", True), ("a[0].b", True), ("a[i]", False), ("f()", False)],
)
def test_plain_names(text: str, plain: bool) -> None:
    assert is_plain(Facts(text).expression(text)) is plain
