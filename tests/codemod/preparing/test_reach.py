"""How does each function that needs the accelerator get it?"""

from __future__ import annotations

import dataclasses

import pytest

from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.reach import Reach
from tests.codemod.facts import Facts

BUILD = """\
loader = DataLoader(d)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
FUNCTION = """\
def fit(model, optimizer, loader):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""
TRAINER = """\
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x in DataLoader(d):
            self.model(x).sum().backward()
            self.optimizer.step()

Trainer().fit()
"""


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def reached(text: str) -> tuple[list[str], list[str], str | None]:
    """The homes, the functions that get a parameter, and what the accelerator is at the backward pass."""
    facts = Facts(HEAD + text)
    reach, access = facts.script.reach, facts.script.access
    assert isinstance(reach, Reach)
    assert isinstance(access, Access)
    backward = facts.script.training.backwards[0]
    return [h.name for h in reach.homes], [f.name for f in reach.parameters], access.at(backward)


def test_a_module_that_builds_all_is_the_home() -> None:
    homes, parameters, at = reached(FUNCTION + BUILD + "fit(model, optimizer, loader)")
    assert len(homes) == 1
    assert (parameters, at) == ([], "accelerator")


def test_a_function_that_builds_all_hands_it_on() -> None:
    homes, parameters, at = reached(
        f"{FUNCTION}def main():\n{indented(BUILD)}    fit(model, optimizer, loader)\nmain()"
    )
    assert (homes, parameters, at) == (["main"], ["fit"], "accelerator")


def test_a_class_keeps_it() -> None:
    assert reached(TRAINER) == (["Trainer"], [], "self.accelerator")


def test_nothing_changes_the_model_once_it_is_made() -> None:
    script = Facts(HEAD + FUNCTION + BUILD + "fit(model, optimizer, loader)").script
    with pytest.raises(dataclasses.FrozenInstanceError):
        script.files = frozenset()  # type: ignore[misc]
    assert not hasattr(script, "__dict__")
    for table in (script.run, script.access, script.devices, script.metrics, script.written, script.training):
        assert dataclasses.is_dataclass(table)
        assert not hasattr(table, "__dict__")
