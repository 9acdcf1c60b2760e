"""A file imports the library once, in one form."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.edits.values import Change, Insert
from accelify.codemod.options import ACCELERATE, Options
from accelify.codemod.planning.imports import in_one_form
from accelify.codemod.rewrite import rewrite_source

FROM = "from accelify.runtime import Accelerator\n"
WHOLE = "import accelify.runtime\n"
SAVE = "def keep(net, path):\n    torch.save(net.state_dict(), path)\n"


def after(*, helper: str = "", training: str = "", options: Options | None = None) -> str:
    text = f"""\
import torch
from torch import nn
{helper}
def main():
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(rows):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {training}
main()
"""
    return rewrite_source("train.py", text.encode(), options or Options()).after.decode()


def test_a_script_that_asks_the_accelerator_alone_imports_that() -> None:
    text = after(training='torch.save(model.state_dict(), "m.pt")')
    assert FROM in text
    assert WHOLE not in text


@pytest.mark.parametrize(
    "asks",
    [
        SAVE,
        "def restore(net, path):\n    net.load_state_dict(torch.load(path))\n",
    ],
)
def test_a_script_that_asks_the_library_too_takes_the_accelerator_from_there(asks: str) -> None:
    text = after(helper=asks, training=f'{asks.split("(")[0].removeprefix("def ")}(model, "m.pt")')
    assert text.count(WHOLE) == 1
    assert FROM not in text
    assert "    accelerator = accelify.runtime.Accelerator()\n" in text
    assert "accelify.runtime." in text.split("def main")[0].split(WHOLE)[1]


def test_a_trainer_that_asks_the_library_too() -> None:
    text = f"""\
import torch
from torch import nn
{SAVE}
class Trainer:
    def __init__(self):
        self.model = nn.Linear(3, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def fit(self):
        for x in torch.utils.data.DataLoader(rows):
            self.optimizer.zero_grad()
            self.model(x).mean().backward()
            self.optimizer.step()
        keep(self.model, "m.pt")
Trainer().fit()
"""
    result = rewrite_source("train.py", text.encode(), Options()).after.decode()
    assert WHOLE in result
    assert FROM not in result
    assert "        self.accelerator = accelify.runtime.Accelerator()\n" in result


def test_another_library_has_its_functions_elsewhere() -> None:
    text = after(helper=SAVE, training='keep(model, "m.pt")', options=Options(runtime=ACCELERATE))
    assert "from accelerate import Accelerator\n" in text


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("Accelerator()", "accelify.runtime.Accelerator()"),  # no name is given to it
        ("Accelerator(\n    cpu=args.cpu\n)", "accelify.runtime.Accelerator(\n    cpu=args.cpu\n)"),
        ("self.accelerator = Accelerator()", "self.accelerator = accelify.runtime.Accelerator()"),
        ("accelerator = Accelerator.current()", "accelerator = Accelerator.current()"),
    ],
)
def test_the_accelerator_is_taken_from_there_wherever_it_is_made(code: str, made: str) -> None:
    line = ast.parse("pass").body[0]
    whole = Change("checkpoints", "a.py", 1, "", (Insert(line, "before", "import accelify.runtime"),))
    creation = Change("accelerator", "a.py", 1, "", (Insert(line, "after", code),))
    assert in_one_form([whole, creation], "accelify.runtime", ()) == [
        whole,
        Change("accelerator", "a.py", 1, "", (Insert(line, "after", made),)),
    ]
