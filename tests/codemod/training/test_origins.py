"""Facts about the parameters and draws that the data of a step come from."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.training.origins import Origins, RoundTensors, owners_of_gradients
from tests.codemod.facts import Facts
from tests.codemod.metrics.facts import script_of

HEAD = "import random\nimport torch\nfrom torch import nn\nmodel = nn.Linear(4, 1)\n"


def origins(text: str) -> set[str]:
    """The origins of what `use` is given."""
    facts = Facts(HEAD + text)
    (call,) = (c for c in facts.program.calls if ast.unparse(c.func) == "use")
    return set(map(ast.unparse, Origins(facts.program, facts.roles, facts.tracer).of(call.args)))


@pytest.mark.parametrize(
    "text",
    [
        "z = model(x.cuda()).detach()\n    use(z[rows])",
        "rows = []\n    rows.append(x[0])\n    use(torch.cat(rows))",
        "for part in DataLoader(TensorDataset(x)):\n        use(part)",
        "use(*[each + 1 for each in (x, 2)])",
        "a, b = x.chunk(2)\n    a = a + 1\n    use(a)",
    ],
)
def test_back_to_a_parameter(text: str) -> None:
    assert origins(f"def f(x):\n    {text}\n") == {"x"}


@pytest.mark.parametrize(
    "text",
    [
        "use(torch.load(x))",
        "for batch in x:\n        use(batch)",
        "for i, batch in enumerate(x):\n        use(batch)",
        "use(model.weight)",
        "use(torch.zeros(3))",
    ],
)
def test_files_and_a_data_set_that_is_passed_are_no_data_of_the_call(text: str) -> None:
    assert origins(f"def f(x):\n    {text}\n") == set()


def test_through_calls_to_what_is_drawn() -> None:
    text = "def g(y):\n    use(y)\ndef f(x):\n    g(random.choice(x))\nf(tasks)\n"
    assert origins(text) == {"y", "random.choice(x)", "x"}


def test_an_object_is_no_data() -> None:
    assert origins("class A:\n    def f(self, x):\n        use(self.size, x)\n") == {"x"}


def test_what_a_function_learns_from() -> None:
    facts = Facts(f"{HEAD}def f(x, y):\n    (model(x) - y).sum().backward()\n")
    backward = next(c for c in facts.program.calls if ast.unparse(c.func).endswith("backward"))
    found = Origins(facts.program, facts.roles, facts.tracer)
    assert list(map(ast.unparse, found.learned(facts.program.frame(backward), backward))) == ["x"]
    facts = Facts("def f(x, y):\n    (g(x) - y).sum().backward()\n")
    backward = next(c for c in facts.program.calls if ast.unparse(c.func).endswith("backward"))
    found = Origins(facts.program, facts.roles, facts.tracer)
    assert list(map(ast.unparse, found.learned(facts.program.frame(backward), backward))) == ["(g(x) - y).sum()"]


ATTACK = """\
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
shared = torch.zeros(2, 4, requires_grad=True)

def noise(x):
    return torch.randn_like(x)

def given():
    return shared

def attack(model, x, other):
    global kept
{attack}
    model(x).sum().backward()
    return x + {name}.grad

for i, (x,) in enumerate(loader):
    if i == 0:
        first = torch.zeros_like(x)
    other = x.clone()
    x = attack(model, x, {other})
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("attack", "name", "other", "holds"),
    [
        ("d = torch.zeros_like(x, requires_grad=True)", "d", "x", True),
        ("d = 0.1 * torch.randn(x.shape).to(x.device)\nd = Variable(d.data, requires_grad=True)", "d", "x", True),
        ("d = noise(x)", "d", "x", True),
        ("d = noise(x)\nfor _ in range(3):\n    d.requires_grad_()\n    d = d.grad / d.norm()", "d", "x", True),
        ("d = x.detach() if len(x) else noise(x)", "d", "x", True),
        ("x.requires_grad = True", "x", "x", True),
        ("pass", "other", "other", True),
        ("d = shared", "d", "x", False),
        ("d = Variable(shared.data, requires_grad=True)", "d", "x", False),
        ("d = shared[: len(x)].detach()", "d", "x", False),
        ("d = given()", "d", "x", False),
        ("d = noise(x) if len(x) else shared", "d", "x", False),
        ("kept = noise(x)", "kept", "x", False),
        ("model.noise = noise(x)", "model.noise", "x", False),
        ("d = model.weight", "d", "x", False),
        ("pass", "other", "shared", False),
        ("pass", "other", "first", False),  # the first round's, which all have
    ],
)
def test_tensors_of_a_round(attack: str, name: str, other: str, holds: bool) -> None:
    script = script_of(ATTACK.format(attack=indent(attack, "    "), name=name, other=other))
    tensors = RoundTensors(script.program, script.roles, script.tracer, script.training.rounds)
    (result,) = (
        n
        for n in script.program.flow.parsed_of["train.py"].parents
        if isinstance(n, ast.Return) and f"{name}.grad" in ast.unparse(n)
    )
    assert [tensors.holds(owner) for owner in owners_of_gradients(result)] == [holds]
