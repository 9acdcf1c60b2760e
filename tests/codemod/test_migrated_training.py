"""Scripts that run training code which has been migrated before them: the order of the migrations does not matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.files.project import Project
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.codemod.semantics.program import Program
from accelify.codemod.understand import understand
from tests import scripts

TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, out):
        self.out = out
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2, shuffle=True)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
        torch.save(self.model.state_dict(), self.out + "/model.pt")


def run(out):
    Trainer(out).train()
"""
MAIN = """\
import json
import os
from datetime import datetime

from train import Trainer, run
{before}
if __name__ == "__main__":
    out = "runs/" + datetime.now().strftime("%H%M%S")
    if not os.path.exists(out):
        os.makedirs(out)
    json.dump({{"lr": 0.1}}, open(out + "/args.json", "w"))
    {end}
"""
PACKAGE = MAIN.replace("from train", "from lib.train")
IN_FUNCTION = """\
import json
import os
import time

import train as t

def main():
    out = f"runs/{time.time()}"
    os.mkdir(out)
    with open(os.path.join(out, "args.json"), "w") as file:
        json.dump([1], file)
    t.Trainer(out).train()

main()
"""


def text(main: str = MAIN, before: str = "", end: str = "Trainer(out).train()") -> str:
    return main.format(before=before, end=end)


def rewritten(*paths: str) -> dict[str, FileResult]:
    """The results for each path in turn, whose files are written before the next."""
    found: dict[str, FileResult] = {}
    for path in paths:
        for result in rewrite_together((path,), Options()):
            found[result.path] = result
            if result.status is Status.MIGRATED:
                Path(result.path).write_bytes(result.after)
    return found


@pytest.mark.parametrize(
    ("main", "train"),
    [
        (text(), "train.py"),
        (text(end="run(out)"), "train.py"),
        (text(PACKAGE), "lib/train.py"),
        (IN_FUNCTION, "train.py"),
    ],
)
def test_a_script_comes_out_the_same_before_and_after_what_it_runs(tmp_path: Path, main: str, train: str) -> None:
    for name, order in {"at_once": ("main.py",), "in_turn": (train, "main.py")}.items():
        scripts.write(tmp_path / name, {"main.py": main.encode(), train: TRAINER.encode()})
        with scripts.inside(tmp_path / name):
            assert rewritten(*order)["main.py"].status is Status.MIGRATED
    at_once, in_turn = (scripts.read(tmp_path, name) for name in ("at_once", "in_turn"))
    assert at_once == in_turn
    assert b"broadcast_object_list([" in in_turn["main.py"]
    assert b"is_main_process:\n" in in_turn["main.py"]
    with scripts.inside(tmp_path / "in_turn"):
        assert rewritten("main.py")["main.py"].status is Status.UNCHANGED


GUARDED = "if trainer.accelerator.is_main_process:\n        print(out)\n    trainer.train()"


@pytest.mark.parametrize(
    ("before", "end"),
    [
        ("", f"trainer = Trainer(out)\n    {GUARDED}"),  # migrated by hand
        ("from accelify.runtime import PartialState\n", "Trainer(out).train()"),
        ("", "print(Trainer)"),  # trains nothing
    ],
)
def test_a_script_that_stays_as_it_is(tmp_path: Path, before: str, end: str) -> None:
    files = {"main.py": text(before=before, end=end), "train.py": TRAINER}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    with scripts.inside(tmp_path):
        assert rewritten("train.py", "main.py")["main.py"].status is Status.UNCHANGED


STEPPING = """\
from accelify.runtime import Accelerator

class Learner:
    def __init__(self, model, optimizer):
        self.accel = Accelerator()
        self.model, self.optimizer = self.accel.prepare(model, optimizer)
    def step(self, x):
        self.optimizer.zero_grad()
        self.accel.backward(self.model(x).mean())
        self.optimizer.step()
"""
FEEDING = """\
import json
import torch
from torch.utils.data import DataLoader
from learner import Learner
model = torch.nn.Linear(4, 1)
learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1))
json.dump([1], open("args.json", "w"))
for x in {data}:
    learner.step(x)
"""


@pytest.mark.parametrize("data", ["DataLoader(torch.randn(8, 4), 2)", "torch.randn(8, 4).split(2)"])
def test_a_script_whose_data_no_process_takes_its_shard_of_stays(tmp_path: Path, data: str) -> None:
    files = {"main.py": FEEDING.format(data=data), "learner.py": STEPPING}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    with scripts.inside(tmp_path):
        assert rewritten("main.py")["main.py"].status is Status.UNCHANGED


def test_what_waits_for_all_processes_is_not_run_by_one(tmp_path: Path) -> None:
    """Its constructor prepares: no process may go first, or alone."""
    end = "json.dump(Trainer(out).train(), open(out + '/result.json', 'w'))"
    files = {"main.py": text(end=end), "train.py": TRAINER}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    with scripts.inside(tmp_path):
        after = rewritten("train.py", "main.py")["main.py"].after
    assert b"    value = Trainer(out).train()\n    if accelify.runtime.PartialState().is_main_process:\n" in after


def test_a_thread_that_trains_is_a_reason_to_decline(tmp_path: Path) -> None:
    end = "import threading\n    threading.Thread(target=Trainer(out).train).start()"
    files = {"main.py": text(end=end), "train.py": TRAINER}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    with scripts.inside(tmp_path):
        found = rewritten("train.py", "main.py")["main.py"]
    assert found.status is Status.DECLINED
    assert [n.rule for n in found.notes] == ["distributed"]


LOOP = """\
import torch
from accelify.runtime import Accelerator
{made}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(8, 4), 2):
    {backward}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "backward"),
    [
        ("accel = Accelerator()", "accel.backward(model(x).mean())"),
        ("", "Accelerator.current().backward(model(x).mean())"),
        ("from setup import accelerator", "accelerator.backward(model(x).mean())"),
    ],
)
def test_a_backward_pass_of_an_accelerator_is_migrated(made: str, backward: str) -> None:
    data = LOOP.format(made=made, backward=backward).encode()
    project = Project({"main.py": b"import train\n", "train.py": data})
    files = [project.load("main.py"), project.load("train.py")]
    found = understand(Program(files, project, files), Options())
    assert found.script is not None
    assert found.script.migrated == {"train.py"}
    assert found.obstacles == ()


READER = """\
import os
import torch
def made():
    if not os.path.isdir("kept"):
        os.makedirs("kept")
    pairs = torch.rand(64, 3)
    torch.save(pairs, "kept/pairs.pt")
    return pairs
def load():
    {load}
"""
LEARNING = """\
import torch
from torch import nn
from pairs import load
def train():
    pairs = load()
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(8):
        optimizer.zero_grad()
        net(pairs[i * 8 : i * 8 + 8]).pow(2).mean().backward()
        optimizer.step()
    torch.save(net.state_dict(), "net.pt")
"""
SCORING = """\
import torch
from torch import nn
from pairs import load
def score():
    pairs = load()
    net = nn.Linear(3, 1)
    net.load_state_dict(torch.load("net.pt"))
    print(net(pairs).mean())
"""
CHOOSING = """\
import sys
from learning import train
from scoring import score
if __name__ == "__main__":
    train() if sys.argv[1] == "train" else score()
"""


@pytest.mark.parametrize(
    "load",
    [
        "try:\n        return torch.load('kept/pairs.pt')\n    except FileNotFoundError:\n        return made()",
        "if not os.path.exists('kept/pairs.pt'):\n        made()\n    return torch.load('kept/pairs.pt')",
        "if os.path.isfile('kept/pairs.pt'):\n        return torch.load('kept/pairs.pt')\n    return made()",
    ],
)
def test_what_one_process_makes_first_for_two_files_is_left_alone_by_a_second_run(tmp_path: Path, load: str) -> None:
    files = {"main.py": CHOOSING, "learning.py": LEARNING, "scoring.py": SCORING, "pairs.py": READER.format(load=load)}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    with scripts.inside(tmp_path):
        results = rewritten("main.py")
    changed = {path for path, result in results.items() if result.status is Status.MIGRATED}
    assert changed == {"learning.py", "scoring.py"}
    assert all(b"process_first():\n        pairs = load()\n" in results[path].after for path in changed)


SAVING = """\
import torch


class Embedder:
    def __init__(self, size):
        self.model = torch.nn.Linear(size, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(torch.randn(8, 4)).mean().backward()
            self.optimizer.step()

    def save(self, folder):
        {save}


def write(folder, text):
    {write}
"""
WRITING = "with open(folder + '/weight.txt', 'w') as file:\n        file.write('w')"
OF_MAIN = "if {}.is_main_process:\n            with open(folder + '/weight.txt', 'w') as file: file.write('w')"
EARLY_END = "if not {}.is_main_process:\n            return\n        open(folder + '/weight.txt', 'w').write('w')"


@pytest.mark.parametrize("save", [WRITING, WRITING.replace("file.write('w')", "print(folder, file=file)")])
def test_what_a_method_guards_is_not_guarded_where_it_is_called(tmp_path: Path, save: str) -> None:
    library = SAVING.format(save=save.replace("\n", "\n    "), write="pass")
    main = "from embedder import Embedder\nembedder = Embedder(4)\nembedder.train(2)\nembedder.save(folder='out')\n"
    scripts.write(tmp_path, {"main.py": main.encode(), "embedder.py": library.encode()})
    with scripts.inside(tmp_path):
        found = rewritten("main.py")
        assert [found[name].status for name in ("main.py", "embedder.py")] == [Status.UNCHANGED, Status.MIGRATED]
        assert b"        if self.accelerator.is_main_process:\n            with open" in found["embedder.py"].after
        assert rewritten("main.py")["main.py"].status is Status.UNCHANGED


@pytest.mark.parametrize(
    ("save", "write", "is_guarded"),
    [
        (OF_MAIN.format("self.accelerator"), "pass", True),
        (OF_MAIN.format("accelify.runtime.PartialState()"), "pass", True),
        (EARLY_END.format("self.accelerator"), "pass", True),
        ("if self.accelerator.is_main_process:\n            write(folder, 'w')", WRITING, True),
        (WRITING.replace("\n", "\n    "), "pass", False),
        (f"{OF_MAIN.format('self.accelerator')}\n        write(folder, 'w')", WRITING, False),
        ("if self.accelerator.device.type == 'cpu':\n            write(folder, 'w')", WRITING, False),
    ],
)
def test_what_migrated_code_guards_itself(tmp_path: Path, save: str, write: str, is_guarded: bool) -> None:
    library = "import accelify.runtime\n" + SAVING.format(save=save, write=write)
    made = "SGD(self.model.parameters(), lr=0.1)"
    prepared = "self.model, self.optimizer = self.accelerator.prepare(self.model, self.optimizer)"
    library = library.replace(
        made, f"{made}\n        self.accelerator = accelify.runtime.Accelerator()\n        {prepared}"
    )
    loss = "self.model(torch.randn(8, 4)).mean()"
    library = library.replace(f"{loss}.backward()", f"self.accelerator.backward({loss})")
    main = "from embedder import Embedder\nembedder = Embedder(4)\nembedder.train(2)\nembedder.save('out')\n"
    scripts.write(tmp_path, {"main.py": main.encode(), "embedder.py": library.encode()})
    with scripts.inside(tmp_path):
        after = rewritten("main.py")["main.py"]
    assert (after.status is Status.UNCHANGED) is is_guarded
    assert (b"is_main_process:\n    embedder.save('out')" in after.after) is not is_guarded
