"""Facts about samples that are drawn once and trained on in all rounds."""

from __future__ import annotations

import pytest

from accelify.codemod.training.randomness.kept_draws import KeptDraws
from tests.codemod.facts import Facts, spelling
from tests.codemod.pairs import run

HEAD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
data = torch.arange(40.0).view(40, 1)
both = TensorDataset(data, data)
loader = DataLoader(both, batch_size=4, shuffle=True)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
    loss = (model(x * torch.rand(4, 1)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOOP = f"for step in range(9):\n{STEP}"
SAMPLES = {
    "x = next(iter(DataLoader(data, batch_size=1, shuffle=True)))[0]": "x = next(",
    "it = iter(loader)\nx, y = next(it)": "x, y = next(it)",
    "rows = torch.randperm(40)[:4]\nx = data[rows]": "rows = ",
    "x = torch.rand(4, 1)": "x = ",
}
IN_ROUNDS = {
    "x = next(iter(DataLoader(data, batch_size=4, shuffle=True)))\n": "",
    "x = data[torch.randperm(40)[:4]]\n": "",
    "x = data[order[torch.randint(40, (4,))]]\n": "order = torch.randperm(40)\n",
    "x = x + 1\n": "x = torch.rand(4, 1)\n",
}


def found(text: str) -> list[str]:
    facts = Facts(text)
    return [spelling(facts.program.statement(c)) for c in KeptDraws(facts.program, facts.training).find()]


@pytest.mark.parametrize("drawn", SAMPLES)
def test_a_sample_is_drawn_before_the_processes_draw_their_own(drawn: str) -> None:
    assert len(found(f"{HEAD}{drawn}\n{LOOP}")) == 1
    lines = run(f"{HEAD}{drawn}\n{LOOP}").after.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(SAMPLES[drawn]))
    assert lines[at + 1] == "accelerator.seed_by_rank()"


def test_it_is_followed_through_functions() -> None:
    steps = STEP.replace("\n    ", "\n        ").replace("    loss", "        loss", 1)
    trains = f"def train(x):\n    for step in range(9):\n{steps}"
    assert found(f"{HEAD}{trains}x, y = next(iter(loader))\ntrain(x)\n") == ["x, y = next(iter(loader))"]
    one = f"def step():\n    x, y = next(iter(loader))\n{STEP}"
    assert found(f"{HEAD}{one}for _ in range(9):\n    step()\n") == []


HELPED = {
    "def pick(n):\n    order = torch.randperm(40)\n    return data[order[:n]]\nx = pick(4)": "x = pick(4)",
    "def first(rows):\n    for x, y in rows:\n        return x\nx = first(loader)": "x = first(loader)",
    "class P:\n    def __init__(self):\n        self.x = torch.rand(4, 1)\np = P()": "self.x = torch.rand(4, 1)",
}


@pytest.mark.parametrize("drawn", HELPED)
def test_it_is_followed_into_helpers_and_attributes(drawn: str) -> None:
    step = STEP.replace("model(x *", "model(p.x *") if "p = P()" in drawn else STEP
    assert found(f"{HEAD}{drawn}\nfor step in range(9):\n{step}") == [HELPED[drawn]]
    made, _, asked = drawn.rpartition("\n")
    assert found(f"{HEAD}{made}\nfor step in range(9):\n    {asked}\n{step}") == []


@pytest.mark.parametrize("drawn", IN_ROUNDS)
def test_what_rounds_draw_or_pick_is_their_own(drawn: str) -> None:
    text = f"{HEAD}{IN_ROUNDS[drawn]}for step in range(9):\n    {drawn}{STEP}"
    assert found(text) == []
    result = run(text)
    assert "drawn here once" not in str(result.notes)


def test_a_fixed_sample_that_is_only_shown_is_no_sample_of_the_training() -> None:
    shown = "fixed = torch.rand(4, 1)\n"
    text = f"{HEAD}{shown}for step in range(9):\n    x = torch.rand(4, 1)\n{STEP}    print(model(fixed))\n"
    assert found(text) == []


SHARING = (
    HEAD.partition("model = ")[0]
    + """\
class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.rows = torch.nn.Linear(1, 1), None
    def encode(self, x):
        return self.layer(x)
    def keep(self, x):
        self.rows = x
        return x
    def forward(self, x):
        return self.encode(x) + self.keep(self.rows)
model = Flow()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
)
ROUNDS = "for step in range(9):\n    x = torch.rand(4, 1)\n" + STEP
SHOWN = {
    "x = torch.rand(4, 1)\nprint(model.encode(x))": [],
    "def plot():\n    x = torch.rand(4, 1)\n    print(model.encode(x=x))\nplot()": [],
    "print(model.encode(torch.rand(4, 1)))": [],
    "given = torch.rand(4, 1)\nprint(model.keep(given))": ["given = torch.rand(4, 1)"],
}


@pytest.mark.parametrize("shown", SHOWN)
def test_a_sample_that_is_passed_to_what_the_steps_run_for_a_plot(shown: str) -> None:
    assert found(f"{SHARING}{ROUNDS}{shown}\n") == []
    assert found(f"{SHARING}{shown}\n{ROUNDS}") == SHOWN[shown]


def test_a_sample_that_is_changed_by_what_the_steps_run_and_then_trained_on() -> None:
    steps = ROUNDS.replace("    x = torch.rand(4, 1)\n", "")
    assert found(f"{SHARING}x = model.encode(torch.rand(4, 1))\n{steps}") == ["x = model.encode(torch.rand(4, 1))"]


@pytest.mark.parametrize("drawn", SAMPLES)
def test_a_sample_of_a_later_training_is_noted_at_its_line(drawn: str) -> None:
    before = "for step in range(9):\n    x = torch.rand(4, 1)\n" + STEP
    result = run(f"{HEAD}{before}{drawn}\n{LOOP}")
    notes = [n for n in result.notes if "drawn here once" in n.message]
    lines = result.after.decode().splitlines()
    assert [lines[n.line - 1].startswith(SAMPLES[drawn]) for n in notes] == [True]


def test_other_draws_between_stay_the_processes_own() -> None:
    fill = "pool = [torch.rand(4, 1) for _ in range(9)]\n"
    text = f"{HEAD}{fill}x, y = next(iter(loader))\n{LOOP}"
    result = run(text)
    assert result.after.index(b"seed_by_rank") < result.after.index(b"pool =")
    assert any("drawn here once" in n.message for n in result.notes)
