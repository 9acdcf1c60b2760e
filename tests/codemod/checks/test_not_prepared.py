"""Optimizers, models and loaders that are trained with beside the accelerator."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.not_prepared import NAME
from tests.codemod.checks.checking import ACCELERATE, leaves, reports

TEXT = (
    ACCELERATE
    + """\
optimizer = torch.optim.SGD(net.parameters()){mark}
net, loader = accelerator.prepare(net, loader)
for x in loader:
    accelerator.backward(net(x))
    optimizer.step()
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_it_takes_steps() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("net, loader = accelerator.prepare(net, loader)", "net, optimizer = accelerator.prepare(net, optimizer)"),
        ("net, loader = accelerator.prepare(net, loader)", "optimizer = accelerator.prepare(optimizer)"),
        ("accelerator.prepare(net, loader)", "accelerator.prepare(*everything)"),
        ("    optimizer.step()\n", ""),
        ("net, loader = accelerator.prepare(net, loader)\n", ""),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in PLAIN
    leaves(NAME, PLAIN.replace(old, new))


WHOLE = (
    ACCELERATE
    + """\
from torch.utils.data import DataLoader
net = torch.nn.Linear(3, 3){model}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4){loader}
{prepare}
for x in loader:
    accelerator.backward(net(x).sum())
    optimizer.step()
"""
)
MARKED = "  # <- here"


def whole(prepare: str, model: str = "", loader: str = "") -> str:
    return WHOLE.format(prepare=prepare, model=model, loader=loader)


def test_a_model_and_a_loader() -> None:
    reports(NAME, whole("optimizer, loader = accelerator.prepare(optimizer, loader)", model=MARKED))
    reports(NAME, whole("net, optimizer = accelerator.prepare(net, optimizer)", loader=MARKED))


@pytest.mark.parametrize(
    "prepare",
    [
        "net, optimizer, loader = accelerator.prepare(net, optimizer, loader)",
        "net, optimizer = accelerator.prepare(net, optimizer)\nloader = accelerator.prepare_data_loader(loader)",
        "net, optimizer = accelerator.prepare(net, optimizer)\nloader = shard_of(loader)",
        "net, optimizer, loader = accelerator.prepare(*[net, optimizer, loader])",
    ],
)
def test_all_are_prepared(prepare: str) -> None:
    leaves(NAME, whole(prepare))


@pytest.mark.parametrize("moved", ["", ".cuda()"])
def test_a_model_that_is_prepared_where_it_is_made(moved: str) -> None:
    text = whole("optimizer, loader = accelerator.prepare(optimizer, loader)")
    made = "torch.nn.Linear(3, 3)"
    leaves(NAME, text.replace(made, f"accelerator.prepare({made}){moved}"))


def test_a_part_of_what_is_prepared_and_a_sampler() -> None:
    text = whole(
        "both = torch.nn.Sequential(net)\nboth, optimizer, loader = accelerator.prepare(both, optimizer, loader)"
    )
    leaves(NAME, text.replace("net(x)", "both(x)"))
    text = whole("net, optimizer = accelerator.prepare(net, optimizer)")
    leaves(NAME, text.replace("batch_size=4", "batch_size=4, sampler=own"))


def test_a_part_of_a_class_that_is_prepared() -> None:
    part = "class Both(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    part += (
        "        self.one = torch.nn.Linear(3, 3)\n    def parameters(self):\n        return self.one.parameters()\n"
    )
    text = whole("net, optimizer, loader = accelerator.prepare(net, optimizer, loader)")
    leaves(NAME, part + text.replace("net = torch.nn.Linear(3, 3)", "net = Both()"))
