"""States that a model hands on from one batch to the next."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.training.loops.model_runs import ModelRuns
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from tests.codemod.facts import Facts, texts

CARRIED = """\
import torch
from torch import nn
data, model = torch.randn(40, 3, 4), nn.GRU(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batches():
    for i in range(0, 40, 5):
        yield data[i:i + 5]
def step(x, state):
    y, state = model(x, state)
    y.mean().backward()
    optimizer.step()
    return state.detach()
for epoch in range(2):
    hidden = torch.zeros(1, 3, 4)
    {head}
"""


BACK = "\n        y.mean().backward()\n        optimizer.step()\n"


SLICES = "for i in range(0, 40, 5):\n        x = data[i:i + 5]\n        "


@pytest.mark.parametrize(
    ("rounds", "state"),
    [
        (SLICES + "y, hidden = model(x, hidden.detach())" + BACK, "hidden"),
        (
            "for x in batches():\n        hidden = tuple(h.data for h in hidden)\n        y, hidden = model(x, hidden)"
            + BACK,
            "hidden",
        ),
        (
            "for x in batches():\n        out = model(hx=hidden, input=x)\n        hidden = out[1].detach(); y = out[0]"
            + BACK,
            "hidden",
        ),
        (SLICES + "hidden = step(x, hidden)\n", "hidden"),
        (SLICES + "hidden = torch.zeros(1, 3, 4)\n        y, hidden = model(x, hidden)" + BACK, None),
        (SLICES + "y, last = model(x, hidden)" + BACK, None),
        (SLICES + "y, last = model(x)\n        y, last = model(y, last)" + BACK, None),
    ],
)
def test_a_state_that_goes_from_batch_to_batch(rounds: str, state: str | None) -> None:
    (data,) = Facts(CARRIED.format(head=rounds)).training.data
    assert (data.kind, data.state and texts([data.state])) == (
        "sequence" if state is None else "full",
        state and [state],
    )


def test_a_loop_runs_a_model_itself_or_in_a_function() -> None:
    text = "import torch\nm = torch.nn.Linear(1, 1)\ndef f(): m(x)\nfor a in y: m(a)\nfor b in y: f()\n"
    facts = Facts(text)
    runs = ModelRuns(facts.program, facts.roles)
    first, second = (n for n in facts.named[0].nodes if isinstance(n, ast.For))
    assert runs.are_in(first)
    assert not runs.are_in(second)
    assert runs.are_run_by(facts.call("f()"))


def test_asks_once_where_each_variable_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = "\n    ".join(f"a{i + 1} = a{i} + b{i}; b{i + 1} = a{i} - b{i}" for i in range(8))
    text = f"import torch\nm = torch.nn.Linear(1, 1)\nfor a0 in y:\n    b0 = a0\n    {mixed}\n    m(a8)\n    m(b8)\n"
    facts, asked = Facts(text), list[ast.expr]()
    chains = facts.program.once(Chains)
    find = chains.definitions
    monkeypatch.setattr(chains, "definitions", lambda read: asked.append(read) or find(read))
    loop = next(n for n in facts.named[0].nodes if isinstance(n, ast.For))
    evaluations = Evaluations(facts.program, facts.roles, ())
    assert ModelRuns(facts.program, facts.roles).state(loop, evaluations) is None
    assert len(asked) <= 2 * 40


RESUMED = """\
import torch
from torch import nn
data, model = torch.randn(40, 3, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saved = torch.load("last.pt")
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
losses, last = saved["losses"], saved["last"]
def step(x, model, optimizer, last):
    loss = model(x).mean() + last
    loss.backward()
    optimizer.step()
    return loss.detach()
for i in range(0, 40, 5):
    x = data[i:i + 5]
    loss = step(x, {given})
    losses.append(loss)
    {end}
"""


@pytest.mark.parametrize(
    ("given", "end", "state"),
    [
        ("model, optimizer, 0.0", "print(loss)", None),
        ("optimizer=optimizer, model=model, last=0.0", "print(loss)", None),
        ("model, optimizer, last", "last = loss", "last"),
    ],
)
def test_a_model_is_no_state_though_a_checkpoint_holds_it_and_losses(given: str, end: str, state: str | None) -> None:
    (data,) = Facts(RESUMED.format(given=given, end=end)).training.data
    assert (data.state and texts([data.state])) == (state and [state])


SCORED = """\
import numpy as np
import torch
data, dev = [torch.randn(4, 3) for _ in range(12)], [torch.randn(4, 3) for _ in range(12)]
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def score(model, rows, best):
    found, better = sum(model(row).mean().item() for row in rows), False
    if found > best:
        best, better = found, True
    return best, better
def train(out):
    out.backward()
best, count, scores = -1.0, 0, []
for index in np.random.permutation(len(data)):
    count += 1
    model.zero_grad()
    {step}
    optimizer.step()
    {end}
"""


LEARN = "(model(data[index]) ** 2).mean().backward()"
ASKED = "if count % 5 == 0:\n        "


@pytest.mark.parametrize(
    ("step", "end", "state"),
    [
        (LEARN, ASKED + "best, save = score(model, dev, best)\n        if save: torch.save(model, 'm.pt')", None),
        (LEARN, ASKED + "new, save = score(model, dev, best)\n        best = max(best, new); print(best)", None),
        (LEARN, "best = score(model, rows=dev, best=best)[0]; scores.append(best)", None),
        (LEARN.replace("2", "best"), ASKED + "best, save = score(model, dev, best)", "best"),
        (LEARN, "best, save = score(model, dev, best)\n    if save: " + LEARN, "best"),
        (LEARN, "best, save = score(model, dev, best)\n    train(model(data[index]).mean() * best)", "best"),
        (LEARN, "best, save = score(model, dev, best); scores.append(best)\n    sum(scores).backward()", "best"),
    ],
)
def test_what_no_step_learns_from_is_no_state(step: str, end: str, state: str | None) -> None:
    data, *_ = Facts(SCORED.format(step=step, end=end)).training.data
    assert (data.state and texts([data.state])) == (state and [state])
