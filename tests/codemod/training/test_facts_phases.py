"""Facts about loaders of a loop that trains in one phase only: which is trained on, and which evaluated."""

from __future__ import annotations

import pytest

from accelify.codemod.training.facts import with_phases
from accelify.codemod.training.loops.training import Training
from tests.codemod.facts import Facts, texts

TEXT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
train_loader, test_loader = DataLoader(a), DataLoader(b)
def run(loader, training):
    for x, y in loader:
        loss = f(model(x), y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
run(train_loader, True)
run(test_loader, False)
"""


def told(text: str) -> Training:
    facts = Facts(text)
    return with_phases(facts.program, facts.tracer, facts.training)


def test_the_loader_that_is_trained_on() -> None:
    training = told(TEXT)
    assert [texts(d.sources) for d in training.data] == [["train_loader"]]
    assert [phase.text for phase in training.phases.values()] == ["training"]


@pytest.mark.parametrize("source", ["loader", "enumerate(loader)", "tqdm.tqdm(loader)", "enumerate(tqdm.tqdm(loader))"])
@pytest.mark.parametrize("made", ["", "torchtext.data.BucketIterator.splits((a, b))", "build(a, b)"])
def test_the_loader_of_a_library_that_is_trained_on(source: str, made: str) -> None:
    text = "import torchtext, tqdm\n" + TEXT.replace(
        "DataLoader(a), DataLoader(b)", made or "DataLoader(a), DataLoader(b)"
    )
    text = text.replace("in loader:", f"in {source}:")
    training = told(text.replace("for x, y in enum", "for i, (x, y) in enum"))
    assert [texts(d.sources) for d in training.data] == [["train_loader"]]


def test_one_loader_for_both() -> None:
    training = told(TEXT.replace("run(test_loader", "run(train_loader"))
    assert [texts(d.sources) for d in training.data] == [["loader"]]
    assert training.phases == {}


def test_a_loop_that_always_trains() -> None:
    training = told(TEXT.replace("if training:", "if True:"))
    assert training.phases == {}


def test_a_call_of_which_it_is_not_known() -> None:
    training = told(TEXT.replace("run(test_loader, False)", "run(test_loader, *rest)"))
    assert training.phases == {}


def test_loaders_by_key_stay_together() -> None:
    text = (
        TEXT.partition("def run")[0]
        + """\
loaders = {"train": train_loader, "val": test_loader}
for phase in ["train", "val"]:
    for x, y in loaders[phase]:
        loss = f(model(x), y)
        if phase == "train":
            loss.backward()
            optimizer.step()
"""
    )
    training = told(text)
    assert [texts(d.sources) for d in training.data] == [["loaders[phase]"]]
    assert len(training.phases) == 1


@pytest.mark.parametrize(
    "body",
    [
        "if training:",
        "if stop():\n            training = False\n        if training:",
        "if stop():\n            training = None\n        if not training:\n            continue\n        if True:",
    ],
)
def test_a_flag_that_may_be_put_off_on_the_way(body: str) -> None:
    assert [texts(d.sources) for d in told(TEXT.replace("if training:", body)).data] == [["train_loader"]]


def test_a_flag_that_another_function_asks_for() -> None:
    text = """\
def learn(loss, training):
    if training:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def run(loader, training):
    for x, y in loader:
        learn(f(model(x), y), training)
run(train_loader, True)
run(test_loader, False)
"""
    assert [texts(d.sources) for d in told(TEXT.partition("def run")[0] + text).data] == [["train_loader"]]


@pytest.mark.parametrize(
    ("bound", "over"),
    [
        ("batches = enumerate(loader)", "i, (x, y) in batches"),
        ("bar = tqdm(loader, leave=False)", "x, y in bar"),
        ("bar = tqdm(loader)\n    batches = enumerate(bar)", "i, (x, y) in batches"),
        ("batches = iter(loader)", "x, y in batches"),
    ],
)
def test_an_iterator_that_is_bound_before_the_phase_is_asked_for(bound: str, over: str) -> None:
    text = f"""\
from tqdm import tqdm
def run(loader, training):
    {bound}
    if training:
        for {over}:
            loss = f(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    else:
        for {over}:
            print(f(model(x), y))
run(train_loader, True)
run(test_loader, False)
"""
    assert [texts(d.sources) for d in told(TEXT.partition("def run")[0] + text).data] == [["train_loader"]]


CONTAINER = "loaders = {'train': DataLoader(a), 'val': DataLoader(b)}\n"


@pytest.mark.parametrize(
    ("loaders", "trained", "evaluated", "are_told_apart"),
    [
        (CONTAINER, "loaders['train']", "loaders['val']", True),
        ("loaders = {s: DataLoader(s) for s in ('train', 'val')}\n", "loaders['train']", "loaders['val']", True),
        ("loaders = [DataLoader(s) for s in (1, 2)]\n", "loaders[0]", "loaders[1]", True),
        ("def make(n):\n    return DataLoader(n)\nx, y = make(1), make(2)\n", "x", "y", True),
        (CONTAINER, "loaders['train']", "loaders['train']", False),
        (CONTAINER, "loaders['train']", "loaders[key]", False),
        ("x = DataLoader(a)\ny = x\n", "x", "y", False),
    ],
)
def test_loaders_that_one_container_or_function_gives(
    loaders: str, trained: str, evaluated: str, are_told_apart: bool
) -> None:
    text = TEXT.replace("run(train_loader", f"{loaders}run({trained}").replace("run(test_loader", f"run({evaluated}")
    training = told(text)
    assert [texts(d.sources) for d in training.data] == [[trained] if are_told_apart else ["loader"]]


STEP = """\
def learn(x, y, optimizer):
    loss = f(model(x), y)
{early}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
def fit(loader):
    {train}
    for x, y in loader:
        learn(x, y, optimizer)
def test(loader):
    {evaluate}
    for x, y in loader:
        {call}
{rest}
fit(train_loader)
test(test_loader)
"""
PARTS = {
    "early": "",
    "train": "model.train()",
    "evaluate": "model.eval()",
    "call": "learn(x, y, optimizer)",
    "rest": "",
}
BY_MODE = {"early": "    if not model.training:\n        return loss"}


@pytest.mark.parametrize(
    "parts",
    [
        BY_MODE,
        {"early": "    if model.training is False:\n        return loss"},
        BY_MODE | {"train": "pass"},
        {"early": "    if stop:\n        return loss", "call": "learn(x, y, None)"},
        {"early": "    if stop:\n        return loss", "call": "learn(x, y, optimizer=None)"},
        {
            "early": "    if stop:\n        return loss",
            "call": "with torch.no_grad():\n            learn(x, y, optimizer)",
        },
        {"early": "    if stop:\n        return loss", "call": "with torch.inference_mode(): learn(x, y, optimizer)"},
    ],
)
def test_calls_that_leave_before_the_backward_pass(parts: dict[str, str]) -> None:
    text = TEXT.partition("def run")[0] + STEP.format(**PARTS | parts)
    training = told(text)
    assert [texts(d.sources) for d in training.data] == [["loader"]]
    (loop,) = [o for loops in training.loops.values() for o in loops]
    assert loop.lineno < text.partition("def test")[0].count("\n")


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"early": "    if stop:\n        return loss"},
        BY_MODE | {"evaluate": "model.train()"},
        BY_MODE | {"evaluate": "model.train(flag)"},
        BY_MODE | {"evaluate": "pass"},
        {"call": "with torch.no_grad():\n            learn(x, y, optimizer)", "rest": "torch.set_grad_enabled(True)"},
        {"call": "learn(x, None, optimizer)"},
    ],
)
def test_calls_that_may_get_to_the_backward_pass(parts: dict[str, str]) -> None:
    training = told(TEXT.partition("def run")[0] + STEP.format(**PARTS | parts))
    assert len([o for loops in training.loops.values() for o in loops]) == 2


def test_a_step_that_all_its_calls_seem_to_evaluate_with_trains() -> None:
    text = STEP.format(**PARTS | BY_MODE | {"train": "model.eval()"})
    assert len([o for loops in told(TEXT.partition("def run")[0] + text).loops.values() for o in loops]) == 2
