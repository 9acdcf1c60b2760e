"""Calls that run code which a name of run time picks."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.files.project import Project
from accelify.codemod.files_written.unread_code import UnreadCode
from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.codemod.semantics.program import Program

HOOKS = """\
import torch
class Keep:
    def at_end(self, model):
        torch.save(model.state_dict(), 'last.pt')
        open('saves.txt', 'a').write('saved\\n')
    def at_start(self, model):
        print(model)
"""
TRAINING = """\
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
name = sys.argv[1]
{load}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(16, 1), torch.zeros(16, 1)), batch_size=4):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{use}
"""
PICKED = """\
from importlib import import_module
def make(target):
    module, kind = target.rsplit('.', 1)
    return getattr(import_module(module), kind)()
hook = make(name)
"""


def said(load: str, use: str) -> list[str]:
    """The notes on unread code, for a script beside hooks that it picks."""
    Path("main.py").write_text(TRAINING.format(load=load, use=use))
    results = rewrite_together(("main.py",), Options())
    assert Status.MIGRATED in {r.status for r in results}
    return [n.message for r in results for n in r.notes if "was not read" in n.message]


@pytest.mark.parametrize(
    "load",
    [
        PICKED,
        "import importlib\nmodule = importlib.import_module(name)\nhook = module.Keep()\n",
        "Kind = getattr(__import__(name), sys.argv[2])\nhook = Kind()\n",
        "import hydra\nhook = hydra.utils.instantiate(name)\n",
        f"{PICKED}hooks = []\nhooks.append(make(name))\nhook = hooks[0]\n",
    ],
)
def test_every_process_writes_what_code_writes_that_is_picked_by_name(
    load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks.py").write_text(HOOKS)
    (message,) = said(load, "hook.at_end(model)")
    assert message.startswith("`at_end`: `")
    assert "(hooks.py:4, hooks.py:5)" in message


def test_what_a_method_writes_by_a_function_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("files.py").write_text("import torch\ndef keep(model):\n    torch.save(model, 'last.pt')\n")
    Path("hooks.py").write_text("import files\nclass Keep:\n    def at_end(self, model):\n        files.keep(model)\n")
    (message,) = said(PICKED, "for hook in [hook]:\n    hook.at_end(model)")
    assert "(files.py:3)" in message


@pytest.mark.parametrize(
    ("load", "use"),
    [
        (PICKED, "hook.at_start(model)"),
        (PICKED, "hook.elsewhere(model)"),
        ("import hooks\nhook = hooks.Keep()", "hook.at_end(model)"),
        ("import importlib\nhook = importlib.import_module('hooks').Keep()", "hook.at_end(model)"),
        ("import hook", "hook.at_end(model)"),
    ],
)
def test_code_that_writes_nothing_or_is_read(
    load: str, use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks.py").write_text(HOOKS)
    assert said(load, use) == []


def test_a_trainer_is_for_the_user_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks.py").write_text(f"{HOOKS}        model(torch.ones(1, 1)).backward()\n")
    assert said(PICKED, "hook.at_end(model)") == []


def test_the_call_and_what_picks_its_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks.py").write_text(HOOKS)
    Path("main.py").write_text(f"import sys\nname = sys.argv[1]\n{PICKED}hook.at_start()\nhook.at_end()\n")
    project = Project()
    parsed = project.load("main.py")
    (unread,) = UnreadCode(Program([parsed], project, [parsed])).calls()
    assert (unread.call.lineno, unread.picked.lineno) == (9, 6)
    assert unread.writes == ("hooks.py:4", "hooks.py:5")


TRAINER = """\
import torch
class Trainer:
    def __init__(self, model, optimizer, hooks=(), table=None):
        self.model, self.optimizer, self.hooks, self.table = model, optimizer, hooks, table
    def fit(self, loader, criterion):
        for epoch in range(3):
            for x, y in loader:
                loss = criterion(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            {use}
"""


def said_of_trainer(use: str) -> list[str]:
    """The notes on unread code, for a trainer whose hooks a caller makes."""
    Path("trainer.py").write_text(TRAINER.format(use=use))
    results = rewrite_together(("trainer.py",), Options())
    assert Status.MIGRATED in {r.status for r in results}
    return [n.message for r in results for n in r.notes if "was not read" in n.message]


@pytest.mark.parametrize(
    ("use", "parameter"),
    [
        ("self.table.at_end(self.model)", "table"),
        ("for hook in self.hooks: hook.at_end(self.model)", "hooks"),
        ("for number, hook in enumerate(self.hooks): hook.at_end(self.model)", "hooks"),
        (
            "for hook in reversed(self.hooks):\n                if epoch:\n                    hook.at_end(self.model)",
            "hooks",
        ),
    ],
)
def test_every_process_writes_what_objects_write_that_a_caller_gives(
    use: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks.py").write_text(HOOKS)
    (message,) = said_of_trainer(use)
    assert message.startswith(f"`at_end`: `{parameter}` (line 4) is given by a caller")
    assert "(hooks.py:4, hooks.py:5)" in message


@pytest.mark.parametrize(
    "use",
    [
        "self.table.at_start(self.model)",
        "self.at_end(self.model)\n    def at_end(self, model):\n        print(model)",
        "self.optimizer.at_end(self.model)",
        "print(self.table.at_end(self.model))",
    ],
)
def test_what_a_caller_gives_and_what_writes_nothing_or_is_known(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks.py").write_text(f"{HOOKS}    def __init__(self):\n        open('saves.txt', 'w')\n")
    assert said_of_trainer(use) == []
