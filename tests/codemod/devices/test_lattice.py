"""Where tensors live on a machine with a GPU: source text in, the places of its last expression out."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.options import Options
from accelify.codemod.script import Script
from accelify.codemod.understand import understand
from tests.codemod.semantics.programs import last, program

TRAINING = """\
import argparse
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = argparse.ArgumentParser().parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
loader = DataLoader(data, batch_size=2)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HOST, DEVICE, NUMBERED, UNKNOWN = Where.HOST, Where.ACCELERATOR, Where.NUMBERED, Where.UNKNOWN


def understood(text: str) -> Script:
    """The model of the training script with some lines after it."""
    found = understand(program(TRAINING + dedent(text)), Options()).script
    assert found is not None
    return found


def places(text: str) -> set[tuple[Where, Where]]:
    """Where the tensors of the last expression are, and where they were in the plain script."""
    script = understood(text)
    assert isinstance(script.devices.lattice, Lattice)
    return {(p.where, p.was) for p in script.devices.lattice.of(last(script.program))}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("torch.zeros(3)", HOST),
        ("torch.distributions.Normal(0.0, 1.0).sample((3,))", HOST),
        ("noise = torch.distributions.Uniform(0, 1)\nnoise.rsample(x.size())", HOST),
        ("torch.distributions.Normal(model(x.to(device)), 1.0).sample()", DEVICE),
        ("torch.FloatTensor(3)", HOST),
        ("import torchvision\ntorchvision.utils.make_grid(x.to(device))", DEVICE),
        ("import torchvision.transforms.functional as tf\ntf.hflip(x.to(device))", DEVICE),
        ("from torchvision.utils import make_grid\nmake_grid(torch.zeros(3))", HOST),
        ("from einops import rearrange\nrearrange(x.to(device), 'a b -> b a')", DEVICE),
        ("torch.cuda.FloatTensor(3)", DEVICE),
        ("kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\nkind(3)", DEVICE),
        ("kind = torch.FloatTensor if not torch.cuda.is_available() else torch.cuda.FloatTensor\nkind(3)", DEVICE),
        ("T = torch.cuda\ntorch.ones(3).type(T.LongTensor)", DEVICE),
        ("torch.ones(3).cuda().type(torch.FloatTensor)", HOST),
        ("torch.ones(3, device=device).type(torch.float64)", DEVICE),
        ("torch.zeros(3, device=device)", DEVICE),
        ("torch.zeros(3, device='cpu')", HOST),
        ("torch.zeros(3, device='cuda')", DEVICE),
        ("torch.zeros(3, device='cuda:1')", DEVICE),
        ("torch.zeros(3).to(f'cuda:{1}')", NUMBERED),
        ("torch.zeros(3).cuda()", DEVICE),
        ("torch.zeros(3).cuda().cpu()", HOST),
        ("torch.zeros(3).to(torch.float64)", HOST),
        ("torch.zeros(3).double().view(-1)[0]", HOST),
        ("torch.zeros(3) + 1", HOST),
        ("torch.from_numpy(np.ones(3))", HOST),
        ("torch.tensor([1.0]).to(model.weight.device)", DEVICE),
        ("torch.cat([torch.zeros(1), torch.ones(1)])", HOST),
        ("model(torch.zeros(1, 4).to(device)).sum()", DEVICE),
        ("model(torch.zeros(1, 4).to(device)).cpu()", HOST),
        ("torch.zeros_like(model.weight)", DEVICE),
        ("torch.zeros(3).to(device) * torch.tensor(2.0)", DEVICE),
        ("{'a': torch.zeros(1)}['a']", HOST),
        ("[torch.zeros(1) for _ in range(3)]", HOST),
    ],
)
def test_what_an_expression_makes(text: str, where: Where) -> None:
    assert places(text) == {(where, DEVICE if where is NUMBERED else where)}


@pytest.mark.parametrize("text", ["3", "x.shape[0]", "model(x).item()", "y.numpy()", "x.size(0)", "len(loader)", "'a'"])
def test_what_is_no_tensor(text: str) -> None:
    assert not places(text)


@pytest.mark.parametrize(
    "text",
    [
        "for x, y in loader:\n    kept = y\nkept",
        "for batch in loader:\n    kept = batch[0]\nkept",
        "for i, (x, y) in enumerate(loader):\n    kept = x.float()\nkept",
        "kept = next(iter(loader))\nkept",
        "kept = [y for _, y in loader]\ntorch.cat(kept)",
        "kept = []\nfor x, y in loader:\n    kept.append(y)\ntorch.cat(kept)",
    ],
)
def test_a_batch_that_was_not_moved_is_on_the_device_now(text: str) -> None:
    assert places(text) == {(DEVICE, HOST)}


def test_a_batch_that_was_moved_is_where_it_was() -> None:
    assert places("for x, y in loader:\n    x = x.to(device)\n    kept = x\nkept") == {(DEVICE, DEVICE)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if torch.cuda.is_available():\n    w = w.cuda()\nw", {(DEVICE, DEVICE)}),
        ("if args.gpu:\n    w = w.cuda()\nw", {(DEVICE, DEVICE), (HOST, HOST)}),
        ("if not torch.cuda.is_available():\n    w = w.cuda()\nw", {(HOST, HOST)}),
        ("has_gpu = torch.cuda.is_available()\nw = w.cuda() if has_gpu else w\nw", {(DEVICE, DEVICE)}),
        ("w = w.to(device)\nw = torch.ones(3)\nw", {(HOST, HOST)}),
        ("for i in range(3):\n    w = w.to(device)\nw", {(DEVICE, DEVICE), (HOST, HOST)}),
    ],
)
def test_the_branches_that_run_on_a_gpu_and_reach_it_count(text: str, expected: set[tuple[Where, Where]]) -> None:
    assert places(f"w = torch.zeros(3)\n{text}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def same(t):\n    return t\nsame(torch.ones(1).cuda())\nsame(torch.ones(1))", {(HOST, HOST)}),
        ("def there(t):\n    return t.to(device)\nthere(torch.ones(1))", {(DEVICE, DEVICE)}),
        ("def put(t, where):\n    return t.to(where)\nput(torch.ones(1), 'cuda:1')", {(DEVICE, DEVICE)}),
        ("def put(t, where='cpu'):\n    return t.to(where)\nput(torch.ones(1))", {(HOST, HOST)}),
        (
            "def put(t):\n    if torch.cuda.is_available():\n        return t.cuda()\n    return t\nput(torch.ones(1))",
            {(DEVICE, DEVICE)},
        ),
        ("from somewhere import read\nread(torch.ones(1))", {(UNKNOWN, UNKNOWN)}),
    ],
)
def test_a_function_is_followed_for_the_call_that_is_asked_about(text: str, expected: set[tuple[Where, Where]]) -> None:
    assert places(text) == expected


@pytest.mark.parametrize("written", ["model.weight.data", "model.weight.data[:1]", "[*model.parameters()][0].data"])
def test_an_attribute_of_a_tensor_is_not_that_of_a_data_set(written: str) -> None:
    rows = "class Rows:\n    def __init__(self):\n        self.data = np.zeros(3)\nrows = Rows()\n"
    assert places(f"{rows}{written} = model.weight\nrows.data") == set()
    assert places(f"{rows}rows.data = model.weight\nrows.data") == {(DEVICE, DEVICE)}


def test_an_attribute_holds_what_is_ever_put_into_it() -> None:
    text = "class Box:\n    def __init__(self):\n        self.w = torch.ones(1)\nbox = Box()\n"
    assert places(f"{text}box.w") == {(HOST, HOST)}
    assert places(f"{text}box.w = box.w.cuda()\nbox.w") == {(HOST, HOST), (DEVICE, DEVICE)}


@pytest.mark.parametrize(
    "text",
    [
        "def walk(t, n):\n    if n:\n        return walk(t, n - 1)\n    return t, 0",
        "def walk(t, n):\n    return back(t, n) if n else (t, 0)\ndef back(t, n):\n    return walk(t, n - 1)",
        "def walk(t, n):\n    if not n:\n        return t, 0\n    a, b = walk(t, n - 1)\n    return a, b",
    ],
)
def test_a_function_that_takes_its_own_result_apart_comes_to_an_end(text: str) -> None:
    assert places(f"{text}\nx, _ = walk(torch.ones(1).cuda(), 3)\nx") == {(DEVICE, DEVICE)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("def __iter__(self):\n    return self\ndef __next__(self):\n    return 1, torch.zeros(3)", {(HOST, HOST)}),
        ("def __iter__(self):\n    for k in range(3):\n        yield k, torch.zeros(k).cuda()", {(DEVICE, DEVICE)}),
        ("def __iter__(self):\n    yield from ((k, torch.zeros(k)) for k in range(3))", {(HOST, HOST)}),
        ("def __iter__(self):\n    return iter([(1, torch.zeros(3))])", {(HOST, HOST)}),
        ("def __iter__(self):\n    return iter(self)", set()),
        ("def __getitem__(self, k):\n    a, b = [torch.tensor(r) for r in (k, k)]\n    return a, b", {(HOST, HOST)}),
        ("def __iter__(self):\n    yield 1, 2", set()),
    ],
)
def test_what_an_object_of_the_project_gives_a_loop(body: str, expected: set[tuple[Where, Where]]) -> None:
    cls = "class Rows:\n" + indent(body, "    ")
    assert places(f"{cls}\nfor a, b in Rows():\n    print(a)\nb") == expected
