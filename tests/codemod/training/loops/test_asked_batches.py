"""Batches that loops ask for by `next`."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.loops.asked_batches import asked_of
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("import tensorflow as tf\nit = iter(tf.data.Dataset.from_tensor_slices(x).batch(8))", ["it"]),
        ("from somewhere import sets\ntrain, test = sets.load()\nit = iter(train)", ["it"]),
        ("from somewhere import batches\nit = batches(8)", ["it"]),
        ("import itertools\nit = itertools.count()", []),
        ("def batches():\n    yield x\nit = batches()", []),
    ],
)
def test_iterators_of_libraries_that_are_not_known(made: str, asked: list[str]) -> None:
    text = (
        f"import torch\nm = torch.nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\nx = torch.ones(8, 1)\n{made}\n"
    )
    for noise, kind in (("", "full"), (" + torch.randn(1)", "random")):
        facts = Facts(f"{text}for step in range(9):\n    m(f(next(it)){noise}).mean().backward()\n    o.step()\n")
        (data,) = facts.training.data
        assert (data.kind, texts(data.sources)) == (kind, asked)


SAMPLES = "held = iter(DataLoader(others))\n"


@pytest.mark.parametrize(
    ("batch", "before", "asked"),
    [
        ("z, _ = next(held)\nsave(model(z))", "", []),  # pictures
        ("show()", "def show():\n    z = next(held)\n    save(model(z))", []),
        ("if f():\n    z, _ = next(held)\n    z = model(z)\n    picture = z.cpu()\n    save(picture)", "", []),
        ("z, _ = next(held)\nloss = model(z).mean()\nloss.backward()", "", ["held"]),
        ("zs = []\nzs.append(next(held))\nloss = model(zs).mean()\nloss.backward()", "", ["held"]),
        ("z = take()\nloss = model(z).mean()\nloss.backward()", "def take():\n    return next(held)", ["held"]),
        ("kept.z = next(held)", "", ["held"]),  # whoever reads that
        ("z = next(held)\nfor part in z.chunk(2):\n    model(part).mean().backward()", "", ["held"]),
        ("z = next(held)\nfor part in z:\n    zs = model(part)\nzs.mean().backward()", "", ["held"]),
        ("z, on = next(held)\nif on.any():\n    more = 2\n(more * model(x)).mean().backward()", "", ["held"]),
        ("fill()", "kept = []\ndef fill():\n    kept.append(next(held))", ["held"]),
    ],
)
def test_batches_that_are_asked_for_and_from_which_nothing_is_learned(
    batch: str, before: str, asked: list[str]
) -> None:
    found = training(set_up=SAMPLES + before, batch=batch).training
    assert [*dict.fromkeys(s for d in found.data for s in texts(d.sources))] == ["loader", *asked]


def test_samples_of_a_generator_that_an_object_keeps() -> None:
    keeping = """\
        class Kept:
            def __init__(self):
                self.samples = self.endless()
            def endless(self):
                while True:
                    own = DataLoader(others)
                    for item in own:
                        yield item
            def show(self):
                z = next(self.samples)
                picture = model(z)
                picture.save("p")
        kept = Kept()
        """
    found = training(set_up=keeping, batch="kept.show()").training
    assert [s for d in found.data for s in texts(d.sources)] == ["loader"]


CURVES = """\
def fit():
    errors, found = torch.zeros(3), []
    for epoch in range(3):
        for x, y in loader:
            loss = (model(x) - y).mean()
            loss.backward()
            optimizer.step()
        x, y = next(iter(DataLoader(others)))
        loss = (model(x) - y).mean()
        {kept}
    return errors, found
{end}
"""


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("errors[epoch] = loss.item()", []),
        ("found += [loss.item()]", []),
        ("found.append(loss.item())", []),
        ("loss.backward()", ["iter(DataLoader(others))"]),
        ("kept[epoch] = x", []),  # from which no step learns
    ],
)
def test_errors_that_a_function_collects_beside_its_training(kept: str, asked: list[str]) -> None:
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\nkept = {}\n"
    made = (
        "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nloader = DataLoader(rows)\n"
    )
    found = Facts(f"{head}{made}{CURVES.format(kept=kept, end='print(fit())')}").training
    assert sorted({s for d in found.data for s in texts(d.sources)} - {"loader"}) == asked


GIVEN = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        self.seen = x
        return x.mean()


class Trainer:
    def __init__(self, loader, other):
        self.loader = loader
        self.other = other
        self.batches = iter(self.other)
        self.models = {{"net": Net()}}
        self.optimizer = torch.optim.SGD(self.models["net"].parameters(), lr=0.1)

    def run_epoch(self):
        for x in {over}:
            loss = self.loss(x){inside}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def fit(self, epochs):
        for _ in range(epochs):
            self.run_epoch()
            {after}

    def show(self):
        x = self.batches.__next__()
        self.models["net"].eval()
        print(self.loss(x))

    def loss(self, x):
        self.output = self.models["net"](x)
        return self.output
"""


@pytest.mark.parametrize(
    ("over", "inside", "after", "found"),
    [
        ("self.loader", "", "self.show()", ["self.loader"]),
        ("tqdm(self.loader)", "", "self.show()", ["self.loader"]),
        ("self.loader", " + self.loss(next(self.batches))", "pass", ["self.loader", "self.batches"]),
        ("self.loader", " + self.loss(self.batches.__next__())", "self.show()", ["self.loader", "self.batches"]),
        ("[next(self.batches) for _ in range(3)]", "", "pass", ["self.batches"]),
        ("range(9)", " + self.loss(next(self.batches))", "pass", ["self.batches"]),
    ],
)
def test_loaders_of_unknown_callers_and_batches_asked_for_beside_them(
    over: str, inside: str, after: str, found: list[str]
) -> None:
    facts = Facts("from tqdm import tqdm\n" + GIVEN.format(over=over, inside=inside, after=after))
    assert [ast.unparse(source) for data in facts.training.data for source in data.sources] == found


@pytest.mark.parametrize("call", ["next(batches)", "batches.next()", "next(batches, None)"])
def test_what_is_asked_for_a_batch(call: str) -> None:
    assert ast.unparse(asked_of(Facts(call).call(call))) == "batches"
