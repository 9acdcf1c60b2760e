"""Facts about tensors that a script which names no device has to bring there."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.bringing import Brought
from tests.codemod.facts import texts
from tests.codemod.training_scripts import training


def brought(**slots: str) -> Brought:
    found = training(**slots).script.devices.brought
    assert isinstance(found, Brought)
    return found


def test_a_script_that_makes_none() -> None:
    assert not brought().bringing


def test_a_tensor_is_brought_where_it_is_made() -> None:
    found = brought(batch="x = torch.ones(2, 4)\n")
    assert texts(n for b in found.bringing for n in b.nodes) == ["torch.ones(2, 4)"]


def test_a_script_that_names_a_device_does_that_itself() -> None:
    assert not brought(before="device = torch.device('cuda')\n", batch="x = x.to(device) + torch.ones(4)\n").bringing


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.empty(2, 4).normal_()",
        "torch.empty(2, 4).uniform_(0, scale)",
        "torch.FloatTensor(2, 4).normal_(std=scale)",
    ],
)
def test_a_tensor_is_brought_there_after_its_values_were_drawn(drawn: str) -> None:
    found = brought(before="import sys\nscale = sys.argv[1]\n", batch=f"noise = {drawn}\nmodel(noise)\n")
    assert texts(n for b in found.bringing for n in b.nodes) == [drawn]


@pytest.mark.parametrize("drawn", ["noise.uniform_()", "noise.data.normal_()", "nn.init.xavier_normal_(noise)"])
def test_a_tensor_whose_values_are_drawn_by_its_name_is_brought_where_it_is_used(drawn: str) -> None:
    found = brought(batch=f"noise = torch.empty(2, 4)\n{drawn}\nmodel(noise)\n")
    assert texts(n for b in found.bringing for n in b.nodes) == ["noise"]


def test_a_tensor_that_is_filled_in_place_is_made_there() -> None:
    found = brought(batch="model(torch.empty(2, 4).fill_(0.3))\n")
    assert texts(n for b in found.bringing for n in b.nodes) == ["torch.empty(2, 4)"]


@pytest.mark.parametrize("inputs", ["x0", "[x0]", "inputs=(x0,)"])
def test_a_tensor_that_gradients_are_asked_of_is_not_copied_for_it(inputs: str) -> None:
    shown = "def show(x=None):\n    if x is not None:\n        print(x.numpy())\nshow()\n"
    grown = f"y0 = model(x0)\ny0 = torch.autograd.grad(y0.sum(), {inputs})[0]\n"
    found = brought(before=f"x0 = torch.ones(2, 4).requires_grad_(True)\n{shown}", batch=grown, end="show(x0.detach())")
    assert not any(" x0" in text or text == "x0" for text in texts(n for b in found.bringing for n in b.nodes))


@pytest.mark.parametrize(
    "filled", ["rows[0] = 1", "np.random.shuffle(rows)", "np.clip(rows, 0, 1, out=rows)", "rows.T[0] += 1", "rows += 1"]
)
@pytest.mark.parametrize("made", ["torch.from_numpy(rows)", "torch.as_tensor(rows[:2])"])
def test_a_tensor_whose_array_is_filled_later_is_brought_where_it_is_used(made: str, filled: str) -> None:
    before = f"import numpy as np\nrows = np.zeros((2, 4))\nnoise = {made}\n"
    found = brought(before=before, batch=f"{filled}\nmodel(noise)\n")
    assert texts(n for b in found.bringing for n in b.nodes) == ["noise"]


@pytest.mark.parametrize(
    "batch",
    [
        "rows[0] = 1\nnoise = torch.from_numpy(rows)\nmodel(noise)\n",  # filled before it is made, in each round
        "rows = np.zeros((2, 4))\nrows[0] = 1\nmodel(noise)\n",  # another array
        "more = rows + 1\nmore[0] = 1\nmodel(noise)\n",
        "noise = torch.from_numpy(rows)\nmodel(noise)\nrows[0] = 1\n",
    ],
)
def test_a_tensor_whose_array_is_filled_before_is_brought_where_it_is_made(batch: str) -> None:
    before = "import numpy as np\nrows = np.zeros((2, 4))\nrows[1] = 2\nnoise = torch.from_numpy(rows)\n"
    found = brought(before=before, batch=batch)
    assert set(texts(n for b in found.bringing for n in b.nodes)) == {"torch.from_numpy(rows)"}
