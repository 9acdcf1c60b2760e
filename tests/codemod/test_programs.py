"""Several files at once, and scripts whose training is in another file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.commands.rewrite import command

MIGRATED, DECLINED, UNCHANGED = Status.MIGRATED, Status.DECLINED, Status.UNCHANGED
NET = """\
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)
"""
SCRIPT = """\
import torch
from net import Net
from torch.utils.data import DataLoader, TensorDataset

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        loss = model(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""
SPREAD = SCRIPT.replace("Net().to(device)", 'Net().to("cuda:0").to("cuda:1")')
TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer, self.device = model, optimizer, device

    def fit(self, loader):
        for (x,) in loader:
            loss = self.model(x.to(self.device)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
SETUP = """\
import torch
from net import Net
from torch.utils.data import DataLoader, TensorDataset
from trainer import Trainer

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), device)
trainer.fit(DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2))
"""
ENTRY = "import argparse\nfrom train import main\n\nargparse.ArgumentParser().parse_args()\nmain()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def together(**texts: str) -> dict[str, FileResult]:
    """What becomes of some files that are all named."""
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
    return {r.path: r for r in rewrite_together(tuple(f"{name}.py" for name in texts), Options())}


def statuses(results: dict[str, FileResult]) -> dict[str, Status]:
    return {path.removesuffix(".py"): result.status for path, result in results.items()}


def test_one_script_that_cannot_be_migrated_does_not_hold_back_another() -> None:
    results = together(a=SCRIPT, b=SPREAD, net=NET)
    assert statuses(results) == {"a": MIGRATED, "b": DECLINED, "net": UNCHANGED}
    assert "places its parts on several GPUs" in results["b.py"].notes[0].message


def test_a_file_that_one_needs_as_it_was_holds_all_back() -> None:
    other = SETUP.replace("Net().to(device)", 'Net().to("cuda:1")')
    assert statuses(together(a=SETUP, trainer=TRAINER, net=NET))["trainer"] is MIGRATED
    results = together(a=SETUP, b=other, trainer=TRAINER, net=NET)
    assert MIGRATED not in statuses(results).values()
    assert any("places its parts on several GPUs" in note.message for note in results["a.py"].notes)


def test_what_only_a_script_trains_with_that_cannot_be_migrated_stays_too() -> None:
    other = SETUP.replace("Net().to(device)", 'Net().to("cuda:1")')
    results = together(b=other, trainer=TRAINER, net=NET)
    assert statuses(results) == {"b": DECLINED, "trainer": DECLINED, "net": UNCHANGED}
    assert results["trainer.py"].notes[0].message == "b.py trains with this, and cannot be migrated"


def test_training_is_followed_from_a_script_without_torch() -> None:
    results = together(main=ENTRY)
    assert statuses(results) == {"main": UNCHANGED}
    Path("train.py").write_text(SCRIPT)
    Path("net.py").write_text(NET)
    assert statuses(together(main=ENTRY)) == {"main": UNCHANGED, "train": MIGRATED}
    assert [r.status for r in rewrite_together(("main.py",), Options(follow=False))] == [UNCHANGED]
    Path("train.py").write_text(SPREAD)
    (declined,) = rewrite_together(("main.py",), Options())
    assert declined.status is DECLINED
    assert declined.notes[0].message.startswith("train.py:8: ")


def test_in_a_folder_a_script_without_torch_changes_with_what_it_runs() -> None:
    Path("train.py").write_text(SCRIPT)
    Path("net.py").write_text(NET)
    Path("main.py").write_text(f"import os\nif not os.path.exists('out'):\n    os.makedirs('out')\n{ENTRY}")
    assert CliRunner().invoke(command, ["."]).exit_code == 0
    assert "os.makedirs('out', exist_ok=True)" in Path("main.py").read_text()


def test_the_command_follows_named_files_only() -> None:
    for name, text in {"main": ENTRY, "train": SCRIPT, "net": NET, "other": "import json\n"}.items():
        Path(f"{name}.py").write_text(text)
    answer = CliRunner().invoke(command, ["--check", "main.py", "other.py"])
    assert answer.exit_code == 1
    assert "train.py: would be migrated" in answer.output
    assert "other.py: unchanged" in answer.output
    assert CliRunner().invoke(command, ["main.py", "train.py"]).exit_code == 0
    assert "from accelify" in Path("train.py").read_text()
    assert "2 files unchanged" in CliRunner().invoke(command, ["main.py", "train.py"]).output


def test_a_module_that_prepares_what_a_script_imports_shares_its_accelerator() -> None:
    data = (
        "from torch.utils.data import DataLoader\nimport torch\nloader = DataLoader(torch.randn(9, 4), batch_size=4)\n"
    )
    train = (
        "import torch\nfrom data import loader\nmodel = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nn = 0\nfor x in loader:\n"
        "    optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()\n    n += len(x)\nprint(n)\n"
    )
    results = together(train=train, data=data)
    assert statuses(results) == {"train": MIGRATED, "data": MIGRATED}
    after = results["train.py"].after.decode()
    assert "from data import loader\nfrom data import accelerator\n" in after
    assert "Accelerator(" not in after
    assert "= Accelerator()" in results["data.py"].after.decode()


@pytest.mark.parametrize("asked", ["device == 'cuda'", "device.startswith('cuda')", "'cuda' in device"])
def test_a_device_that_a_file_beside_takes_for_text_stays_text(tmp_path: Path, asked: str) -> None:
    choice = "'cuda' if torch.cuda.is_available() else 'cpu'\n    seed(device)\n"
    text = SCRIPT.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', choice)
    (tmp_path / "train.py").write_text(text.replace("from net", "from util import seed\nfrom net"))
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "util.py").write_text(f"def seed(device):\n    if {asked}:\n        print(device)\n")
    (result,) = (r for r in rewrite_together((str(tmp_path / "train.py"),), Options()) if r.path.endswith("train.py"))
    assert "device = accelerator.device.type\n" in result.after.decode()


DATA = """\
import os, torch
from torch.utils.data import TensorDataset

def rows(count):
    os.system(f"make_rows {count}")
    return TensorDataset(torch.randn(count, 4))
"""
WITH_DATA = SCRIPT.replace("from net import Net", "from data import rows\nfrom net import Net").replace(
    "TensorDataset(torch.randn(8, 4))", "rows(8)"
)


def reported(*arguments: str) -> str:
    return CliRunner().invoke(command, ["--check", "--no-cache", *arguments]).stdout


def test_notes_on_a_file_that_does_not_change_are_listed_under_it() -> None:
    for name, text in {"train": WITH_DATA, "net": NET, "data": DATA}.items():
        Path(f"{name}.py").write_text(text)
    assert "data.py: unchanged:\n  data.py:5  writes  " in reported("train.py")
    assert "1 file would be migrated, 1 unchanged, 2 notes to review." in reported("train.py")
    files = {file["path"]: file for file in json.loads(reported("--output-format", "json", "train.py"))["files"]}
    assert [(note["line"], note["rule"]) for note in files["data.py"]["notes"]] == [(5, "writes")]
    assert not any("data.py" in note["message"] for note in files["train.py"]["notes"])
    assert "title=accelify (writes),file=data.py,line=5::" in reported("--output-format", "github", "train.py")
    (run,) = json.loads(reported("--output-format", "sarif", "train.py"))["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"] if result["ruleId"] == "writes"]
    assert places == [{"artifactLocation": {"uri": "data.py"}, "region": {"startLine": 5}}]


def test_what_several_programs_say_of_a_file_that_none_changes_is_said_once() -> None:
    for name, text in {"a": WITH_DATA, "b": WITH_DATA, "net": NET, "data": DATA}.items():
        Path(f"{name}.py").write_text(text)
    for paths in (("a.py", "b.py"), (".",), ("a.py", "b.py", "data.py", "net.py")):
        said = reported(*paths)
        assert said.count("data.py:5") == 1, said
        assert said.count("data.py: unchanged") == 1, said


def test_a_file_whose_imports_change_says_so() -> None:
    for name, text in {"main": ENTRY, "train": SCRIPT, "net": NET}.items():
        Path(f"{name}.py").write_text(text)
    said = reported("main.py", "net.py")
    assert "main.py: unchanged, what changes is in the files that it imports: train.py\n" in said
    assert "net.py: unchanged, nothing to migrate\n" in said


LOSSES = """\
import torch
from torch import nn


def class_weights({parameter}):
    return (torch.ones(2) * 0.5).cuda()


class Weighted(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def forward(self, output, target):
        return self.scale * (output - target).abs().mean()
"""
KEPT_LOSS = """\
import torch

class Trainer:
    def __init__(self, model, loss):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model, self.loss = model.to(self.device), loss
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, loader):
        for x, y in loader:
            loss = self.loss(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
CHOSEN_LOSS = """\
import json
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import losses
from trainer import Trainer

def main(config):
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    loss = {loss}(scale=config["scale"])
    Trainer(nn.Linear(4, 1), loss).fit(loader)

main(json.load(open("config.json")))
"""


@pytest.mark.parametrize("parameter", ["target", "scale"])
@pytest.mark.parametrize(
    "loss",
    [
        'getattr(losses, config["loss"])',
        '{"weighted": losses.Weighted, "weights": losses.class_weights}[config["loss"]]',
        'vars(losses)[config["loss"]]',
    ],
)
def test_a_chosen_class_is_not_given_the_accelerator_of_a_helper(tmp_path: Path, loss: str, parameter: str) -> None:
    texts = {
        "losses": LOSSES.format(parameter=parameter),
        "trainer": KEPT_LOSS,
        "main": CHOSEN_LOSS.replace("{loss}", loss),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = {Path(r.path).name: r for r in rewrite_together((str(tmp_path / "main.py"),), Options())}
    assert found["trainer.py"].status is MIGRATED
    assert found["main.py"].status is not DECLINED
    assert "losses.py" not in found or found["losses.py"].status is UNCHANGED
    assert b"accelerator=" not in found["main.py"].after


@pytest.mark.parametrize(
    "asked",
    [
        "if not os.path.exists('x.pt'):\n    torch.save(1, 'x.pt')\n",
        "if os.path.exists('x.pt'):\n    raise SystemExit\ntorch.save(1, 'x.pt')\nif True:\n",
    ],
)
def test_a_caller_waits_for_the_training_in_another_file(asked: str) -> None:
    start, _, last = SETUP.rpartition("trainer.fit")
    results = together(main=f"import os\n{start}{asked}    trainer.fit{last}", trainer=TRAINER, net=NET)
    assert statuses(results)["trainer"] is MIGRATED
    after = results["main.py"].after.decode()
    before_wait, _, behind = after.partition("accelerator.wait_for_everyone()\n")
    assert "os.path.exists('x.pt')" in before_wait
    assert "save(1, 'x.pt')" in behind


@pytest.mark.parametrize(
    ("gradients", "line"),
    [
        ("for p, g in zip(ps, torch.autograd.grad(loss(), ps)):\n    p.grad = g\n", 8),
        ("gs = autograd.grad(loss(), ps)\nfor i, p in enumerate(ps):\n    p.grad = gs[i] / 4\n", 9),
        ("torch.autograd.grad(loss(), ps)\nfor p in ps:\n    p.grad = None\n", None),
    ],
)
def test_training_by_gradients_of_its_own_is_named_where_there_is_no_backward(gradients: str, line: int | None) -> None:
    start = (
        "import torch\nfrom torch import autograd\nnet = torch.nn.Linear(1, 1)\nps = list(net.parameters())\n"
        "o = torch.optim.Adam(ps)\nloss = lambda: net(torch.rand(4, 1)).mean()\n"
    )
    (result,) = together(main=f"{start}{gradients}o.step()\n").values()
    assert result.status is UNCHANGED
    assert [n.line for n in result.notes if "torch.autograd.grad" in n.message] == ([] if line is None else [line])
    Path("fit.py").write_text(f"{start}{gradients}o.step()\n")
    assert bool(together(main="import fit\nfit.run()\n")["main.py"].because) is (line is not None)


@pytest.mark.parametrize("default", ["KIND", "nn.ReLU", "[KIND]"])
def test_a_class_beside_may_keep_a_default(default: str) -> None:
    net = NET.replace("__init__(self):", f"__init__(self, kind={default}):").replace(
        "        self.layer", "        self.kind = kind\n        self.layer"
    )
    script = SCRIPT.replace("from net import Net", "import net").replace("Net()", "net.Net()")
    results = together(net=net.replace("\n\n", "\n\nKIND = nn.ReLU\n\n", 1), train=script)
    assert results["train.py"].status is MIGRATED


@pytest.mark.parametrize("imported", ["from . import rows", "from .rows import Rows", "import package.rows"])
def test_a_module_of_a_package_is_no_tensor(imported: str) -> None:
    Path("package").mkdir()
    Path("package/__init__.py").write_text(f"{imported}\n")
    Path("package/rows.py").write_text(
        "import numpy as np\n\nclass Rows:\n    def __len__(self):\n        return 8\n\n"
        "    def __getitem__(self, index):\n        return {'x': np.ones(4, np.float32)}\n"
    )
    script = SCRIPT.replace("from net", "import package\nfrom net").replace(
        "for (x,) in loader:", "for batch in loader:"
    )
    script = script.replace("TensorDataset(torch.randn(8, 4))", "package.rows.Rows()").replace("x.to", 'batch["x"].to')
    shown = "    print(model(torch.from_numpy(package.rows.Rows()[0]['x']).to(device)))\n\nif __name__"
    results = together(net=NET, train=script.replace("\nif __name__", shown))
    assert results["train.py"].status is MIGRATED


TRAINS_IN_A_NEWER_PYTHON = """\
import torch
def start(rate):
    model = torch.nn.Linear(3, 1)
    model(torch.randn(2, 3)).sum().backward()
    print(f"{rate if rate else}")
"""


@pytest.mark.parametrize(
    ("files", "noted", "line"),
    [
        ({"main.py": "import os\nfrom lib import start\nstart(0.1)\n"}, "main.py", 2),
        ({"main.py": "import pkg.lib as fitting\nfitting.start(0.1)\n"}, "main.py", 1),
        ({"main.py": "from pkg import lib\nlib.start(0.1)\n"}, "main.py", 1),
        ({"main.py": "import run\nrun.go()\n", "run.py": "def go():\n    from lib import start\n"}, "run.py", 2),
    ],
)
def test_training_in_a_file_that_cannot_be_parsed(
    files: dict[str, str], noted: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry script need not name torch itself."""
    monkeypatch.chdir(tmp_path)
    Path("pkg").mkdir()
    for path, text in {**files, "lib.py": TRAINS_IN_A_NEWER_PYTHON, "pkg/lib.py": TRAINS_IN_A_NEWER_PYTHON}.items():
        Path(path).write_text(text)
    results = {r.path: r for r in rewrite_together(("main.py",), Options())}
    (note,) = results[noted].notes
    assert (note.line, note.rule) == (line, "callers")
    assert "lib.py:5:" in note.message
    assert f"newer Python than {sys.version_info.major}.{sys.version_info.minor}," in note.message
    assert noted == "main.py" or noted in results["main.py"].because


@pytest.mark.parametrize("replaced", ["torch", ".backward()"])  # another library's losses; a model that is only used
def test_a_file_that_cannot_be_parsed_and_trains_nothing(
    replaced: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").write_text("from lib import start\nstart(0.1)\n")
    Path("lib.py").write_text(TRAINS_IN_A_NEWER_PYTHON.replace(replaced, "other" if replaced == "torch" else ""))
    (result,) = rewrite_together(("main.py",), Options())
    assert (result.status, result.notes, result.because) == (UNCHANGED, (), "")
