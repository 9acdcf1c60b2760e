"""Loaders below generators: which of them is prepared, and where."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.generators import Generators
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.preparing.objects.texts import HEAD, STEP

DRAWN = """\
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = {batches}
for i in range(10):
    x, y = next(batches)
    x, y = x.to(device), y.to(device)
"""


GENERATORS = [
    (
        "def feed(size):\n    loader = DataLoader(data, batch_size=size)\n    while True:\n        for b in loader:\n"
        "            yield b\n",
        "iter(feed(4))",
        "loader = accelerator.prepare(loader)",
    ),
    (
        "def feed(size):\n    while True:\n        yield from DataLoader(data, batch_size=size)\n",
        "feed(4)",
        "yield from accelerator.prepare(DataLoader(data, batch_size=size))",
    ),
    (
        "class Feed:\n    def __init__(self, size):\n        self.loader = DataLoader(data, batch_size=size)\n\n"
        "    def forever(self):\n        while True:\n            for b in self.loader:\n                yield b\n",
        "Feed(4).forever()",
        "self.loader = accelerator.prepare(self.loader)",
    ),
]


ASKED = """\
loader = DataLoader(data, batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = {batches}
for i in range(10):
    x, y = next(batches)
"""


@pytest.mark.parametrize(
    ("generator", "batches"),
    [
        (
            "def cycle(of):\n    it = iter(of)\n    while True:\n        try:\n            x, y = next(it)\n"
            "        except StopIteration:\n            it = iter(of)\n            x, y = next(it)\n"
            "        yield x, y\n",
            "cycle(loader)",
        ),
        ("def cycle(of):\n    while True:\n        for x, y in of:\n            yield x, y\n", "iter(cycle(loader))"),
        ("def rows():\n    for batch in loader:\n        yield batch[0] * 2, batch[1]\n", "rows()"),
    ],
)
def test_a_loader_is_prepared_from_whose_batches_a_generator_makes_its_own(generator: str, batches: str) -> None:
    result = run(f"{HEAD}\n\n{generator}\n\n{ASKED.format(batches=batches)}{STEP}")
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in result.after.decode()
    assert {note.rule for note in result.notes} == {"batch_size"}


@pytest.mark.parametrize(("generator", "batches", "prepared"), GENERATORS)
def test_a_loader_that_a_generator_builds_is_prepared_there(generator: str, batches: str, prepared: str) -> None:
    after = migrated(f"{HEAD}\n\n{generator}\n\n{DRAWN.format(batches=batches)}{STEP}")
    assert prepared in after
    assert f"batches = {batches}\n" in after
    is_seen = batches == "iter(feed(4))"  # elsewhere nothing says that the generator moves what it yields
    assert ("x, y = x.to(device), y.to(device)" in after) is not is_seen


FOLDS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
def folds(rows):
    for fold in range(4):
        kept = DataLoader(Subset(rows, range(fold, 8)), batch_size=2)
        yield {given}
class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def epoch(self, loader):
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
    def train(self, rows):
        for {target} in folds(rows):
            self.epoch(loader)
        {other}
Trainer(nn.Linear(4, 1)).train(rows)
"""


@pytest.mark.parametrize(
    ("given", "target", "prepared"),
    [
        ("kept", "loader", "kept = accelerator.prepare(kept)"),
        ("DataLoader(rows, batch_size=2)", "loader", "yield accelerator.prepare(DataLoader(rows, batch_size=2))"),
        ("fold, kept", "fold, loader", "kept = accelerator.prepare(kept)"),
    ],
)
@pytest.mark.parametrize("other", ["pass", "self.epoch(DataLoader(rows, batch_size=2))"])
def test_loaders_that_a_generator_yields_are_prepared(given: str, target: str, prepared: str, other: str) -> None:
    after = migrated(FOLDS.format(given=given, target=target, other=other))
    assert prepared.replace("accelerator", "self.accelerator") in after or prepared in after
    assert other == "pass" or "accelerator.prepare(DataLoader(rows, batch_size=2))" in after
    assert "x.cuda()" not in after


GIVEN = """\
def rows(batches):
    for b in batches:
        yield b
def endless(batches):
    while True:
        for b in batches:
            yield b
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_loader, test_loader = DataLoader(data), DataLoader(data)
{0}
"""


TRAINED = [
    "for x, y in rows(train_loader):\n" + STEP + "for x, y in rows(test_loader):\n    print(model(x))\n",
    "given = rows(train_loader)\nfor x, y in given:\n" + STEP + "print([model(x) for x, _ in rows(test_loader)])\n",
    "feed, other = endless(train_loader), endless(test_loader)\nfor i in range(3):\n    x, y = next(feed)\n"
    + STEP
    + "print(next(other))\n",
]


@pytest.mark.parametrize("trained", TRAINED)
def test_of_the_loaders_that_a_generator_is_given_the_one_that_is_trained_on(trained: str) -> None:
    items = Facts(HEAD + GIVEN.format(trained)).script.preparation.items
    assert [i.text for i in items if i.kind == "loader"] == ["train_loader"]


MIXED = """\
def endless(batches):
    while True:
        yield from batches
def again(batches):
    while True:
        for b in batches:
            yield b
def make(data):
    return endless(DataLoader(data))
def make_again(data):
    return again(DataLoader(data))
def make_with_length(data):
    return endless(DataLoader(data)), 3
def make_either(data):
    if large:
        first = DataLoader(data)
        return endless(first)
    return endless(DataLoader(data))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = DataLoader(data)
{0}
for i in range(3):
    x, y = next(feed)
"""


BRANCHES = "if large:\n    feed = endless(first)\nelse:\n    {0}"


INSIDE = "    return {}(accelerator.prepare(DataLoader(data)))"


@pytest.mark.parametrize(
    ("feed", "prepared"),
    [
        (BRANCHES.format("feed = make(data)"), INSIDE.format("endless")),
        (BRANCHES.format("batches = make(data)\n    feed = batches"), INSIDE.format("endless")),
        (BRANCHES.format("feed = make_again(data)"), INSIDE.format("again")),
        (BRANCHES.format("feed, n = make_with_length(data)"), f"{INSIDE.format('endless')}, 3"),
        ("feed = endless(first) if large else make(data)", INSIDE.format("endless")),
        (BRANCHES.format("feed = iter(DataLoader(data))"), "    feed = iter(accelerator.prepare(DataLoader(data)))"),
        (BRANCHES.format("feed = endless(DataLoader(data))"), "endless(accelerator.prepare(DataLoader(data)))"),
    ],
)
def test_each_loader_of_a_loop_is_prepared_also_inside_what_makes_a_generator(feed: str, prepared: str) -> None:
    text = migrated(HEAD + MIXED.format(feed) + STEP)
    assert prepared in text
    assert "accelerator.prepare(first" in text


def test_all_loaders_that_a_helper_may_make_a_generator_of_are_prepared() -> None:
    text = migrated(HEAD + MIXED.format("feed = make_either(data)") + STEP)
    assert "        first = accelerator.prepare(first)\n        return endless(first)\n" in text
    assert INSIDE.format("endless") in text


@pytest.mark.parametrize("other", ["other = make_again(data)", "other = iter(DataLoader(data))"])
def test_of_several_generators_the_one_that_is_not_trained_on_is_left(other: str) -> None:
    made = BRANCHES.format("feed = make(data)")
    text = migrated(HEAD + MIXED.format(f"{made}\n{other}") + STEP + "print(next(other))\n")
    assert INSIDE.format("endless") in text
    assert text.count("accelerator.prepare(DataLoader(data))") == 1, text


BELOW = """\
def feed(l):
    yield from l
loader = DataLoader(rows)
batches = feed(loader)
for b in batches: pass
"""


def test_the_argument_of_a_generator_is_the_loader_below_it() -> None:
    facts = Facts(BELOW)
    given = facts.program, facts.roles, facts.tracer
    generators = Generators(*given, Bindings(*given))
    (read,) = (n.iter for n in facts.named[0].nodes if isinstance(n, ast.For))
    assert [ast.unparse(n) for n in generators.loaders_inside(read)] == ["loader"]
