"""Facts about the parameters and draws that the data of a step come from."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.origins import Origins
from tests.codemod.facts import Facts

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
        "part: torch.Tensor\n    part = x[0]\n    use(part)",
        "total = 0\n    for _ in range(2):\n        total += model(x)\n    total /= 2\n    use(total)",
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


def test_what_a_network_was_run_on_before_is_no_data_of_the_next_run() -> None:
    text = "def render(net, rays):\n    return net(rays)\ndef f(x, y):\n    for i in g():\n"
    assert origins(f"{text}        use(render(model, x))\n        render(model, y)\n") == {"x"}


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


def test_a_field_that_is_only_declared_is_given_nothing() -> None:
    text = "class State:\n    part: torch.Tensor\ndef f(x):\n    use(State().part, x)\n"
    facts = Facts(HEAD + text)
    (call,) = (c for c in facts.program.calls if ast.unparse(c.func) == "use")
    found = Origins(facts.program, facts.roles, facts.tracer).along_results(call.args, lambda node: True)
    assert None not in {*found}
