"""Where functions get the accelerator, and how their calls hand it over."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.pairs import migrated

TEXT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train({parameters}):
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(torch.randn(8, 4))
    train({arguments})


main()
"""
THREE = "model, optimizer, loader"


@pytest.mark.parametrize(
    ("parameters", "arguments", "taken", "handed"),
    [
        (THREE, THREE, f"{THREE}, accelerator", f"{THREE}, accelerator"),
        (
            THREE,
            "model, loader=loader, optimizer=optimizer",
            f"{THREE}, accelerator",
            "=optimizer, accelerator=accelerator",
        ),
        (f"{THREE}, epochs=1", THREE, f"{THREE}, epochs=1, accelerator=None", f"{THREE}, accelerator=accelerator"),
        (f"{THREE}, *, epochs=1", THREE, f"{THREE}, accelerator, *, epochs=1", f"{THREE}, accelerator"),
        (
            f"{THREE}, **more",
            f"{THREE}, a=1",
            f"{THREE}, accelerator, **more",
            f"{THREE}, a=1, accelerator=accelerator",
        ),
        (f"{THREE}, *more", THREE, f"accelerator, {THREE}, *more", f"accelerator, {THREE}"),
    ],
)
def test_no_parameter_that_others_give_by_its_place_moves(
    parameters: str, arguments: str, taken: str, handed: str
) -> None:
    after = migrated(TEXT.format(parameters=parameters, arguments=arguments))
    assert f"def train({taken}):" in after
    assert f"{handed})\n\n\nmain()" in after


STEP = """\
import torch
from torch import nn


class Step:
    def take(self, x, model, optimizer):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
TAKEN = """\
from torch.utils.data import DataLoader
{imports}

def main():
    loader = DataLoader(torch.randn(8, 4), batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = {made}
    for x in loader:
        step.take(x, model, optimizer)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("Step()", "Step(accelerator)"),
        ("Step(\n    )", "Step(\n    accelerator)"),
        ("{'a': Step()}['a']", "{'a': Step(accelerator)}"),
    ],
)
def test_a_class_without_a_constructor_is_given_it(made: str, given: str) -> None:
    text = migrated(STEP + TAKEN.format(imports="", made=made))
    assert "    def __init__(self, accelerator):\n        self.accelerator = accelerator\n\n    def take(" in text
    assert "self.accelerator.backward(model(x).mean())" in text
    assert f"step = {given}" in text


def test_a_class_without_a_constructor_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.py").write_text(STEP)
    head = "import torch\nfrom torch import nn\n"
    Path("main.py").write_text(head + TAKEN.format(imports="import steps", made="steps.Step()"))
    main, steps = (r.after.decode() for r in rewrite_together(("main.py",), Options()))
    assert "step = steps.Step(accelerator)" in main
    assert "def __init__(self, accelerator):" in steps


IN_A_FUNCTION = """\
import json
import torch
from torch import nn
from torch.utils.data import DataLoader


def {head}:
    {asked}
    for x, y in DataLoader(data):
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


{call}
"""
MADE = "model = nn.Linear(4, 2)\n{}optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


@pytest.mark.parametrize("asked", ["locals()", "dict(locals())"])
def test_local_variables_that_are_written_are_the_scripts_own(asked: str) -> None:
    home = IN_A_FUNCTION.format(
        head="main(data, lr=0.1)", asked=f"print(json.dumps({asked}))\n    " + MADE.format("    "), call="main([1])"
    )
    without = "{k: v for k, v in locals().items() if k != 'accelerator'}"
    assert f"json.dumps({asked.replace('locals()', without)})" in migrated(home)
    of_all = IN_A_FUNCTION.format(
        head="fit(data)", asked=f"print({asked})", call=f"{MADE.format('')}\nfit([1])\nsettings = {asked}"
    )
    assert f"print({asked})" in migrated(of_all)  # the accelerator is a global there
    assert f"settings = {asked}" in migrated(of_all)


GLOBAL = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args, best = parser.parse_args(), 0
def main():
    {first}global args, best
    model = nn.Linear(4, 1)
    if not args.no_cuda: model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(rows, batch_size=4):
        if not args.no_cuda: x = x.cuda()
        best = model(x).mean()
        optimizer.zero_grad()
        best.backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize("first", ["", '"""Train."""\n    ', "global parser\n    "])
def test_an_accelerator_is_created_below_what_a_function_calls_global(first: str) -> None:
    assert "global args, best\n    accelerator = Accelerator(cpu=args.no_cuda)\n" in migrated(
        GLOBAL.format(first=first)
    )


GROUPED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Steps:
    def fit(width, epochs):
        model = nn.Linear(width, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(torch.randn(8, width))
        for epoch in range(epochs):
            Steps.train(model, loader, optimizer)

    def train(model, loader, optimizer):
        model.train()
        for x in loader:
            loss = model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


Steps.fit(4, 2)
"""


def test_a_function_that_a_class_only_groups_has_no_self_to_keep_it() -> None:
    after = migrated(GROUPED)
    assert "        accelerator = Accelerator(cpu=True)\n" in after or "        accelerator = Accelerator()\n" in after
    assert "Steps.train(model, loader, optimizer, accelerator)" in after
    assert "def train(model, loader, optimizer, accelerator):" in after
    assert "width." not in after


def test_a_class_whose_methods_are_called_on_it_with_an_instance_keeps_it() -> None:
    text = GROUPED.replace("fit(width", "fit(self, width").replace("def train(", "def train(self, ")
    text = text.replace("Steps.train(", "Steps.train(self, ").replace("Steps.fit(", "Steps().fit(")
    assert "self.accelerator.backward(loss)" in migrated(text)
