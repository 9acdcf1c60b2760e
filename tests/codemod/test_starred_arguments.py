"""Arguments that stars and `functools.partial` hand over: the script comes out as if the call named them."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.codemod.pairs import run

HEAD = """\
import argparse
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
TRAIN = """
def train({parameters}):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(validate(net, held_out))

def validate(net, batches):
    losses = []
    with torch.no_grad():
        for x, y in batches:
            losses.append(nn.functional.cross_entropy(net(x), y).item())
    return sum(losses) / len(losses)
"""
DATA = """
data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
net = nn.Linear(4, 2)
first = DataLoader(data, batch_size=8, shuffle=True)
second = DataLoader(data, batch_size=8)
"""


def migrated(call: str, parameters: str = "net, loader, held_out") -> str:
    """What becomes of a script that trains by a call."""
    main = "def main():" + indent(DATA + dedent(call), "    ") + "\n"
    return run(HEAD + TRAIN.format(parameters=parameters) + main + "main()\n").after.decode()


CALLS = {
    "a dictionary": "train(**dict(net=net, loader=first, held_out=second))",
    "a literal": 'train(net, **{"loader": first, "held_out": second})',
    "a name": 'options = {"net": net, "loader": first}\noptions["held_out"] = second\ntrain(**options)',
    "an update": "options = dict(net=net)\noptions.update(loader=first, held_out=second)\ntrain(**options)",
    "two": 'options = {"net": net}\ntrain(**{**options, "loader": first}, **dict(held_out=second))',
    "a tuple": "loaders = first, second\ntrain(net, *loaders)",
    "a list": "train(*[net, first], second)",
    "attributes": "args = argparse.Namespace()\nargs.net, args.loader, args.held_out = net, first, second\n"
    "train(**vars(args))",
    "handed on": "def run(*args, **options):\n    return train(*args, **options)\nrun(net, first, held_out=second)",
    "decorated": "def timed(f):\n    def w(*args, **options):\n        return f(*args, **options)\n    return w\n"
    "@timed\ndef run(*args, **options):\n    train(*args, **options)\nrun(net, first, second)",
    "a partial": "run = functools.partial(train, net, held_out=second)\nrun(first)",
    "a partial, called at once": "functools.partial(train, net)(first, second)",
}


@pytest.mark.parametrize("spelling", CALLS)
def test_a_star_hands_over_what_it_holds(spelling: str) -> None:
    after = migrated(CALLS[spelling])
    assert "    first = accelerator.prepare(first)" in after or "loader, net, optimizer = accelerator.prepare(" in after
    assert "Accelerator(mixed_devices=True)" in after
    if "partial" not in spelling:
        assert "for x, y in accelerator.shard(batches, even=False):" in after
        assert 'losses = accelerator.gather_for_metrics(losses, per="batch")' in after


DEVICE = """
def train(net, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Linear(4, 2).to(device)
    loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    CALL

main()
"""


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("train(net, loader, optimizer, **dict(device=device))", "**dict(device=device), accelerator=accelerator)"),
        ("train(*(net, loader), *(optimizer, device))", "*(optimizer, device), accelerator=accelerator)"),
        ("functools.partial(train, device=device)(net, loader, optimizer)", "optimizer, accelerator=accelerator)"),
        ("functools.partial(train, net, device=device)(loader, optimizer)", "optimizer, accelerator=accelerator)"),
    ],
)
def test_a_parameter_that_a_star_hands_over_is_not_replaced(call: str, after: str) -> None:
    text = run(HEAD + DEVICE.replace("CALL", call)).after.decode()
    assert "def train(net, loader, optimizer, device, accelerator):" in text
    assert "device = accelerator.device" in text
    assert after in text


COLLECTED = """
def penalty(mean, spread, store=None):
    value = (mean.pow(2) + spread.exp()).mean()
    if store is not None:
        store["penalty"].append(value.item())
    return value

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(4, 4).to(device)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    store = {"penalty": []}
    for (x,) in loader:
        pair = net(x.to(device)).chunk(2, 1)
        loss = CALL
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print({name: sum(values) / len(values) for name, values in store.items()})
"""


@pytest.mark.parametrize(
    "call",
    ["penalty(pair[0], pair[1], store)", "penalty(*pair, store)", "penalty(*pair, **dict(store=store))"],
)
def test_what_is_collected_behind_a_star_is_reported(call: str) -> None:
    result = run(HEAD + COLLECTED.replace("CALL", call))
    assert any("`store`" in note.message and "this process's shard" in note.message for note in result.notes)


def test_without_a_place_to_collect_nothing_is_reported() -> None:
    result = run(HEAD + COLLECTED.replace("CALL", "penalty(*pair)"))
    assert not any("`store`" in note.message for note in result.notes)
