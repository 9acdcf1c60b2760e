"""A file whose training loop gets its model from the script that imports it: both change, or neither."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from accelify.codemod.files.project import groups
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts

ENGINE = """\
def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
MAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{imports}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{call}(model, loader, optimizer, device)
"""
CALLER = MAIN.format(imports="import engine", call="engine.train")


def rewritten(root: Path, named: str, options: Options | None = None, **files: str) -> dict[str, FileResult]:
    scripts.write(root, {name.replace("__", "/") + ".py": text.encode() for name, text in files.items()})
    with scripts.inside(root):
        return {r.path: r for r in rewrite_together((named,), options or Options())}


def test_the_script_that_imports_the_file_changes_with_it(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "engine.py", engine=ENGINE, main=CALLER)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(("engine.py", "main.py"), Status.MIGRATED)
    assert b"engine.train(model, loader, optimizer, accelerator)" in found["main.py"].after
    assert b"def train(model, loader, optimizer, accelerator):" in found["engine.py"].after
    for path, result in found.items():
        (tmp_path / path).write_bytes(result.after)
    with scripts.inside(tmp_path):
        again = rewrite_together(("engine.py",), Options())
    assert {r.status for r in again} == {Status.UNCHANGED}


def test_it_may_be_in_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    text = MAIN.format(imports="from lib.engine import train", call="train")
    found = rewritten(tmp_path, "lib/engine.py", lib__engine=ENGINE, main=text)
    assert {r.status for r in found.values()} == {Status.MIGRATED}
    assert len(found) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main", CALLER.replace("import engine", "engine = __import__('json')")),  # the name, and no import of it
        ("main", "import engine\n"),  # no call
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, name: str, text: str) -> None:
    engine = ENGINE.replace("    for x, y", "    model.train()\n    for x, y")  # which tells the model
    found = rewritten(tmp_path, "engine.py", engine=engine, **{name: text})
    assert list(found) == ["engine.py"]
    assert found["engine.py"].status is Status.MIGRATED


def test_a_script_that_needs_another_is_not_followed_from_it(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "engine.py", Options(follow=False), engine=ENGINE, main=CALLER)
    assert found["engine.py"].status is Status.DECLINED
    assert "main.py" in found["engine.py"].notes[0].message


def test_the_script_that_stands_in_the_way_is_named(tmp_path: Path) -> None:
    text = CALLER.replace("model = ", "import torch.distributed as dist\nmodel = ") + "dist.broadcast_all(model)\n"
    found = rewritten(tmp_path, "engine.py", engine=ENGINE, main=text)
    assert list(found) == ["engine.py"]
    assert found["engine.py"].status is Status.DECLINED
    assert any("main.py" in note.message for note in found["engine.py"].notes)


def test_of_many_scripts_none_is_chosen(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "engine.py", engine=ENGINE, **{f"main{k}": CALLER for k in range(5)})
    assert list(found) == ["engine.py"]
    assert found["engine.py"].status is Status.DECLINED


LIBRARY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Base(nn.Module):
    def __init__(self):
        super().__init__()

    def compile(self, lr):
        self.optimizer = torch.optim.SGD(self.parameters(), lr=lr)

    def fit(self, data):
        for (x,) in DataLoader(data, batch_size=2):
            self.optimizer.zero_grad()
            self(x).mean().backward()
            self.optimizer.step()
"""
USER = """\
import torch
from base import Base
from torch import nn

class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)

net = Net()
net.compile(0.1)
net.fit(torch.utils.data.TensorDataset(torch.randn(8, 4)))
"""


def test_a_library_whose_calls_stay_the_same_changes_for_its_many_users(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "base.py", base=LIBRARY, **{f"main{k}": USER for k in range(5)})
    assert {path: r.status for path, r in found.items()} == {"base.py": Status.MIGRATED}
    after = found["base.py"].after.decode()
    assert "self.accelerator.backward(self(x).mean())" in after
    assert "self.optimizer = self.accelerator.prepare(" in after


KEPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        self.reset_parameters()

    def reset_parameters(self):
        for weight in self.parameters():
            weight.data.uniform_(-0.1, 0.1)

    def forward(self, x):
        return self.layer(x)


def train(model, data):
    for i in range(0, len(data), 2):
        model.optimizer.zero_grad()
        loss = model(data[i : i + 2]).pow(2).mean()
        loss.backward()
        model.optimizer.step()
"""


def test_a_model_that_keeps_its_optimizer_is_found_in_a_script_without_torch(tmp_path: Path) -> None:
    text = "from engine import Net, train\nfrom data import table\n\nmodel = Net(4)\ntrain(model, table())\n"
    data = "import torch\n\n\ndef table():\n    return torch.randn(8, 4)\n"
    found = rewritten(tmp_path, "engine.py", engine=KEPT, main=text, data=data)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(("engine.py", "main.py"), Status.MIGRATED)
    assert b"model = Net(4" in found["main.py"].after
    assert b"train(model, table()" in found["main.py"].after
    after = found["engine.py"].after
    assert after.index(b"self.reset_parameters()") < after.index(b"prepare(self)")  # what it draws is drawn before


def test_a_method_that_gets_no_instance_is_handed_the_accelerator(tmp_path: Path) -> None:
    engine = ENGINE.replace("\n", "\n    ").rstrip() + "\n"
    engine = f"class Trainer:\n    @classmethod\n    {engine}".replace("def train(", "def train(cls, ")
    text = MAIN.format(imports="from engine import Trainer", call="Trainer.train")
    found = rewritten(tmp_path, "main.py", engine=engine, main=text)
    assert {r.status for r in found.values()} == {Status.MIGRATED}
    assert b"def train(cls, model, loader, optimizer, accelerator):" in found["engine.py"].after
    assert b"Trainer.train(model, loader, optimizer, accelerator)" in found["main.py"].after


def test_arguments_with_a_line_each_get_one_more_line(tmp_path: Path) -> None:
    head = "def train(\n    model,  # what\n    loader,\n    optimizer,\n    device,\n    *,\n    epochs=1,\n):\n"
    engine = ENGINE.replace("def train(model, loader, optimizer, device):\n", head)
    engine = engine.replace("x.to(device), y.to(device)", "x.to(device), y.to(device)\n        print(device)")
    text = CALLER.replace("(model, loader", "(\n    model=model,\n    loader=loader")
    text = text.replace("optimizer, device)", "optimizer=optimizer,\n    device=device,\n)").replace(
        "=loader, ", "=loader,\n    "
    )
    found = rewritten(tmp_path, "main.py", engine=engine, main=text)
    assert b"    device,\n    accelerator,\n    *,\n    epochs=1,\n" in found["engine.py"].after
    assert b"    device=device,\n    accelerator=accelerator,\n)" in found["main.py"].after


STEPS = """\
import torch
from torch import nn


class Gan:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).pow(2).mean()
        loss.backward()
        self.optimizer.step()
"""
LOOPS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

from engine import Gan

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
gan = Gan()
for x, y in loader:
    gan.step(x, y)
"""


def test_the_script_that_hands_over_each_batch_shards_them(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "engine.py", engine=STEPS, main=LOOPS)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(("engine.py", "main.py"), Status.MIGRATED)
    assert b"\nloader = accelerator.prepare(loader)\ngan = Gan(accelerator)\n" in found["main.py"].after
    assert b"seed_by_rank" not in found["engine.py"].after


def test_a_script_that_imports_the_file_and_trains_nothing_keeps_its_saves(tmp_path: Path) -> None:
    show = "import torch\nimport engine\n\ntorch.save(torch.ones(1), 'ones.pt')\nprint(engine.__name__)\n"
    found = rewritten(tmp_path, "engine.py", engine=ENGINE, main=CALLER, show=show)
    assert found["main.py"].status is Status.MIGRATED
    assert found["show.py"].status is Status.UNCHANGED


def test_a_wrapper_in_a_file_that_the_script_calls_goes(tmp_path: Path) -> None:
    nets = """\
from torch import nn


class Net(nn.Linear):
    pass


def build():
    net = nn.DataParallel(Net(4, 1))
    return net
"""
    text = CALLER.replace("nn.Linear(4, 1)", "nets.build()").replace("import engine", "import engine\nimport nets")
    text += "torch.save(model.module.state_dict(), 'model.pt')\n"
    found = rewritten(tmp_path, "main.py", engine=ENGINE, main=text, nets=nets)
    assert b"    net = Net(4, 1)\n" in found["nets.py"].after
    assert b"accelerator.save(model.state_dict(), 'model.pt')" in found["main.py"].after
    assert not any(n.rule == "elsewhere" for n in found["nets.py"].notes)


LOSS = """\
import torch
from torch import nn


class Margin(nn.Module):
    def forward(self, x, y):
        return (x - y).clamp(min=0).mean()


if __name__ == "__main__":
    margin = Margin()
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = margin(model(torch.rand(2, 4)), torch.rand(2, 1))
        loss.backward()
        optimizer.step()
"""


def test_a_module_that_only_tries_itself_out_is_left_to_the_script_that_trains_with_it(tmp_path: Path) -> None:
    trainer = (
        MAIN.format(imports="from loss import Margin", call="(lambda *_: 0)") + "Margin()(model(x), y).backward()\n"
    )
    found = rewritten(tmp_path, "loss.py", loss=LOSS, main=trainer)
    assert found["loss.py"].status is Status.UNCHANGED
    assert ["main.py: name that" in n.message for n in found["loss.py"].notes] == [True]
    shown = rewritten(tmp_path, "loss.py", loss=LOSS, main="from loss import Margin\nprint(Margin())\n")
    assert shown["loss.py"].status is Status.MIGRATED


STARTED = """\
import os

import torch.distributed as dist


def init(args):
    if "RANK" in os.environ:
        dist.init_process_group("nccl", rank=int(os.environ["RANK"]))


def folder(path):
    if not os.path.exists(path):
        os.makedirs(path)
"""


def test_a_helper_that_starts_processes_counts_where_it_is_called(tmp_path: Path) -> None:
    text = CALLER.replace("import engine", "import engine\nimport tools\n\ntools.init(None)")
    found = rewritten(tmp_path, "main.py", engine=ENGINE, main=text, tools=STARTED)
    assert found["main.py"].status is Status.DECLINED
    assert {n.rule for n in found["main.py"].notes} == {"distributed"}


def test_a_helper_that_could_start_processes_is_reported(tmp_path: Path) -> None:
    training = ENGINE.replace("    for x", "    tools.folder('out')\n    for x", 1)
    found = rewritten(tmp_path, "main.py", engine=f"import tools\n{training}", main=CALLER, tools=STARTED)
    assert found["tools.py"].status is Status.MIGRATED
    assert [n.line for n in found["tools.py"].notes if n.rule == "elsewhere"] == [8]


def test_a_module_is_known_by_its_package_and_name(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/__init__.py").touch()
    text = CALLER.replace("import engine", "import parts.engine").replace("engine.train(", "parts.engine.train(")
    found = rewritten(tmp_path, "main.py", parts__engine=ENGINE, main=text)
    assert {path: r.status for path, r in found.items()} == {
        "main.py": Status.MIGRATED,
        "parts/engine.py": Status.MIGRATED,
    }


def test_another_script_that_calls_the_file_changes_with_it(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "train_a.py", engine=ENGINE, train_a=CALLER, train_b=CALLER)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(
        ("engine.py", "train_a.py", "train_b.py"), Status.MIGRATED
    )
    assert b"engine.train(model, loader, optimizer, accelerator)" in found["train_b.py"].after


def test_another_script_by_another_name_changes_with_it(tmp_path: Path) -> None:
    other = MAIN.format(imports="from engine import train as fit", call="fit")
    found = rewritten(tmp_path, "train_a.py", engine=ENGINE, train_a=CALLER, train_b=other)
    assert b"fit(model, loader, optimizer, accelerator)" in found["train_b.py"].after


OPTIMIZER = """\
import torch

class Optimizer:
    def __init__(self, parameters):
        self.inner = torch.optim.SGD(parameters, lr=0.1)

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()
"""


def test_so_does_a_script_that_calls_what_changes_only_for_the_caller(tmp_path: Path) -> None:
    main = MAIN.format(imports="import engine\nfrom own import Optimizer", call="engine.train")
    main = main.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "Optimizer(model.parameters())")
    third = (
        "import torch\nfrom own import Optimizer\n\nmodel = torch.nn.Linear(2, 1)\n"
        "own = Optimizer(model.parameters())\nfor _ in range(3):\n"
        "    own.zero_grad()\n    model(torch.ones(4, 2)).mean().backward()\n    own.step()\n"
    )
    found = rewritten(tmp_path, "engine.py", engine=ENGINE, own=OPTIMIZER, main=main, third=third)
    assert b"def __init__(self, parameters, accelerator):" in found["own.py"].after
    assert b"own = Optimizer(model.parameters(), accelerator)" in found["third.py"].after
    other = "import accelerate\nimport own\n\nprint(accelerate.Accelerator(), own.Optimizer([]))\n"
    found = rewritten(tmp_path, "engine.py", third=other)
    assert "third.py" not in found
    assert b"self.accelerator" not in found["own.py"].after
    assert b"        self.inner = Accelerator.current().prepare(" in found["own.py"].after
    assert not [n for r in found.values() for n in r.notes if n.rule == "callers"]


def test_another_script_that_cannot_change_is_named(tmp_path: Path) -> None:
    other = "import accelerate\nimport engine\n\nprint(accelerate.Accelerator())\nengine.train(None, [], None, None)\n"
    found = rewritten(tmp_path, "train_a.py", engine=ENGINE, train_a=CALLER, train_b=other)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(("engine.py", "train_a.py"), Status.MIGRATED)
    assert any("train_b.py calls `train`" in n.message for r in found.values() for n in r.notes)


@pytest.mark.parametrize(
    "start",
    [
        "import torch.multiprocessing as mp\nmp.spawn(engine.train, args=(None, None, None, None))",
        "from threading import Thread\nThread(target=engine.train, args=(None, None, None, None)).start()",
        "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor().submit(engine.train, 1, 2, 3, 4)",
    ],
)
def test_a_file_whose_training_another_starts_beside_itself_is_left_alone(tmp_path: Path, start: str) -> None:
    found = rewritten(tmp_path, "engine.py", engine=ENGINE, hogwild=f"import engine\n{start}\n")
    assert {path: r.status for path, r in found.items()} == {"engine.py": Status.DECLINED}


PACKAGE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{start}
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
FUNCTION = PACKAGE.format(start='def train(epochs, device="cpu"):')


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("tests/test_train.py", "from pkg import train\ntrain(1, device='cuda')\n"),
        ("tests/test_train.py", "import pkg.train as t\nt.train(1, 'cuda')\n"),
        (
            "examples/run.py",
            "from functools import partial\nfrom pkg.train import train\nrun = partial(train, device=0)\n",
        ),
        ("pkg/other.py", "from .train import train\noptions = {}\ntrain(1, **options)\n"),
    ],
)
def test_a_parameter_that_another_file_gives_stays(user: str, text: str, tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "from .train import train\n", "pkg/train.py": f"{FUNCTION}\ntrain(3)\n", user: text}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    (tmp_path / ".git").mkdir()
    with scripts.inside(tmp_path):
        (result,) = rewrite_together(("pkg/train.py",), Options())
    assert b'def train(epochs, device="cpu"):' in result.after
    assert b".to(device)" not in result.after
    (note,) = [n.message for n in result.notes if n.rule == "unused"]
    assert note.startswith(f"`device` is kept for {user}")


@pytest.mark.parametrize(
    "text",
    ["from pkg import train\ntrain(1)\n", "from library import train\ntrain(1, device='cuda')\n", "print('train')\n"],
)
def test_a_parameter_that_nobody_gives_goes(text: str, tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/train.py": f"{FUNCTION}\ntrain(3)\n", "tests/test_train.py": text}
    scripts.write(tmp_path, {name: each.encode() for name, each in files.items()})
    (tmp_path / ".git").mkdir()
    with scripts.inside(tmp_path):
        (result,) = rewrite_together(("pkg/train.py",), Options())
    assert b"def train(epochs):" in result.after


HELPER = """\
from torch import nn, optim


class Stepper:
    def __init__(self, model):
        self.optimizer = optim.SGD(model.parameters(), lr=0.1)

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def get_model(width, train=False):
    model = nn.Linear(width, 1)
    return (model, Stepper(model)) if train else model
"""
TRAIN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from utils.model import get_model


def main():
    model, stepper = get_model(3, train=True)
    for (x,) in DataLoader(TensorDataset(torch.randn(16, 3)), batch_size=4):
        model(x).pow(2).mean().backward()
        stepper.update()


main()
"""
USER = "from utils.model import get_model\n\nprint(get_model(3, train=False))\n"


@pytest.mark.parametrize("user", ["use", "tools/use", "tools/more/use"])
def test_callers_are_searched_in_the_folders_of_the_whole_program(tmp_path: Path, user: str) -> None:
    train = f"{user.rpartition('/')[0]}/train".strip("/")
    files = {train: TRAIN, user: USER, "utils/model": HELPER}
    found = rewritten(tmp_path, f"{train}.py", **{n.replace("/", "__"): text for n, text in files.items()})
    assert b"get_model(3, train=False, accelerator=accelerator)" in found[f"{user}.py"].after


OPTIONS = """\
import argparse
import torch

def get():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--dist_url", default="env://")
    return parser

def start(args):
    torch.distributed.init_process_group("nccl")
"""
OWN = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from opts import get{also}

args = get().parse_args()
{start}
torch.cuda.set_device(args.local_rank)
model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[args.local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(8, 4)
for x in DataLoader(data, 2, sampler=DistributedSampler(data)):
    loss = model(x.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("user", "stays"),
    [
        ("print(get().parse_args().local_rank)\n", ["--local_rank"]),
        ("print(vars(get().parse_args())['dist_url'])\n", ["--dist_url"]),
        (
            "args = get().parse_args()\nprint(args.dist_url, args.local_rank)\n",
            ["--local_rank", "--dist_url"],
        ),
        ("print(get().parse_args())\n", []),
    ],
)
def test_an_option_that_another_script_reads_stays(user: str, stays: list[str], tmp_path: Path) -> None:
    start = "if args.local_rank != -1:\n    torch.distributed.init_process_group('nccl', init_method=args.dist_url)"
    files = {"train": OWN.format(also="", start=start), "opts": OPTIONS, "probe": f"from opts import get\n{user}"}
    found = rewritten(tmp_path, "train.py", **files)
    options = found["opts.py"].after.decode() if "opts.py" in found else OPTIONS
    assert [o for o in ("--local_rank", "--dist_url") if f'"{o}"' in options] == stays
    notes = [n.message for r in found.values() for n in r.notes]
    assert [o for o in ("--local_rank", "--dist_url") if any(f"`{o}`" in n and "probe.py" in n for n in notes)] == stays


def test_a_script_that_calls_what_no_longer_starts_processes_is_named(tmp_path: Path) -> None:
    probe = "import torch\nfrom opts import start\nstart(args)\ntorch.distributed.scatter(x)\n"
    train = OWN.format(also=", start", start="start(args)")
    found = rewritten(tmp_path, "train.py", train=train, opts=OPTIONS, probe=probe)
    assert any("probe.py calls `start` as before" in n.message for r in found.values() for n in r.notes)


def test_a_script_whose_name_begins_with_test_changes_with_it(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "main.py", engine=ENGINE, main=CALLER, test=CALLER, test_engine=CALLER)
    assert set(found) == {"engine.py", "main.py", "test.py", "test_engine.py"}
    assert {r.status for r in found.values()} == {Status.MIGRATED}


def test_each_script_draws_its_own_data(tmp_path: Path) -> None:
    steps = """import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def fit(self, optimizer):
        for i in range(9):
            optimizer.zero_grad()
            loss = self.layer(torch.rand(8, 2)).mean()
            loss.backward()
            optimizer.step()
"""
    main = "import torch\nfrom net import Net\nmodel = Net()\nmodel.fit(torch.optim.Adam(model.parameters()))\n"
    found = rewritten(tmp_path, "main.py", net=steps, main=main, other=main)
    assert [found[f"{name}.py"].after.count(b".seed_by_rank()") for name in ("main", "other")] == [1, 1]


UNPLACED = """\
import torch
def train(model, loaders):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for phase in ("train", "valid"):
        for x, y in loaders[phase]:
            loss = (model(x) - y).pow(2).mean()
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    ("engine", "start"),
    [
        (UNPLACED, "from engine import train\ntrain(net.cuda(), loaders)"),
        (UNPLACED, "import engine\ndevice = pick()\nengine.train(net.to(device), loaders)"),
        (
            UNPLACED.replace("train(", "_train(") + "def run(model, loaders):\n    _train(model, loaders)\n",
            "from engine import run\nrun(net.to('cuda:1'), loaders)",
        ),
    ],
)
def test_the_script_that_calls_a_file_names_its_device(tmp_path: Path, engine: str, start: str) -> None:
    (tmp_path / ".git").mkdir()
    found = rewritten(tmp_path, "engine.py", engine=engine, main=start)
    assert b"Accelerator()" in found["engine.py"].after
    found = rewritten(tmp_path, "engine.py", engine=engine, main="from engine import *\ntrain(net, loaders)\n")
    assert b"Accelerator(mixed_devices=True)" in found["engine.py"].after


TRAINER = """\
class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), device

    def fit(self, optimizer, loader):
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            optimizer.zero_grad()
            (self.model(x) - y).pow(2).mean().backward()
            optimizer.step()

    def predict(self, x):
        return self.model(x.to(self.device))
"""
FIT = MAIN.format(imports="from lib.trainer import Trainer", call="Trainer(model, device).fit").replace(
    "fit(model, loader, optimizer, device)", "fit(optimizer, loader)"
)
PREDICTS = """

class Engine:
    def predict(self, x):
        return {call}(None, torch.device("cpu")).predict(x)
"""


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from lib.trainer import Trainer", "Trainer"),
        ("import lib.trainer as t", "t.Trainer"),
        ("from lib import Trainer", "Trainer"),
        ("import sys; sys.path.append('..')\nfrom lib.trainer import Trainer as Net", "Net"),
    ],
)
@pytest.mark.parametrize("user", ["web__serve", "tests__test_trainer"])
def test_a_file_in_another_folder_may_call_as_before(tmp_path: Path, user: str, imports: str, call: str) -> None:
    """It may import from the root of the project, without a word on where that is."""
    text = f"import torch\n{imports}\n" + PREDICTS.format(call=call)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/__init__.py").write_text("from .trainer import Trainer\n")
    found = rewritten(tmp_path, "train.py", lib__trainer=TRAINER, train=FIT, **{user: text})
    assert b"self, model, device):\n" in found["lib/trainer.py"].after
    assert b"Accelerator.current().backward(" in found["lib/trainer.py"].after
    assert b"Trainer(model, device).fit(" in found["train.py"].after
    notes = [(n.line, n.message) for n in found["lib/trainer.py"].notes if n.rule == "callers"]
    path = user.replace("__", "/") + ".py"
    assert notes == [(3, f"{path} calls `Trainer` as before: if that trains, migrate it too")]


WRAPPING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self, model):
        self.model = nn.DataParallel(model)
        self.loader = DataLoader(torch.randn(8, 4), 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x in self.loader:
            loss = self.model(x).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
WRAPPED = "from lib.trainer import Trainer\nprint(Trainer(None).model.module)\n"
SUPER = """\
from lib.trainer import Trainer

class Other(dict):
    'For nn.DataParallel(Other()).'
    def __init__(self):
        super({self}).__init__()
"""


@pytest.mark.parametrize(
    ("user", "is_named"),
    [(WRAPPED, True), (SUPER.format(self="Other, self"), False), (SUPER.format(self=""), False)],
)
def test_a_constructor_that_wraps_no_more_is_called_by_its_class(tmp_path: Path, user: str, is_named: bool) -> None:
    main = "from torch import nn\nfrom lib.trainer import Trainer\nTrainer(nn.Linear(4, 1)).fit()\n"
    found = rewritten(tmp_path, "main.py", lib__trainer=WRAPPING, main=main, web__use=user)
    notes = [n.message for r in found.values() for n in r.notes if n.rule == "callers"]
    assert notes == ["web/use.py calls `Trainer` as before: change it too"] * is_named


UNWRAPS = "def peek(model):\n    return model.{}children()\n"
ASKS = "from lib.trainer import Trainer\nfrom web.peek import peek\nprint(peek(Trainer(None).model))\n"


@pytest.mark.parametrize(
    ("unwraps", "advice"),
    [(UNWRAPS.format("module."), "change it too"), (UNWRAPS.format(""), "if that trains, migrate it too")],
)
def test_a_file_whose_helper_asks_for_the_wrapper_is_to_change(tmp_path: Path, unwraps: str, advice: str) -> None:
    main = "from torch import nn\nfrom lib.trainer import Trainer\nTrainer(nn.Linear(4, 1)).fit()\n"
    found = rewritten(tmp_path, "main.py", lib__trainer=WRAPPING, main=main, web__use=ASKS, web__peek=unwraps)
    notes = [n.message for r in found.values() for n in r.notes if n.rule == "callers"]
    assert notes == [f"web/use.py calls `Trainer` as before: {advice}"]


def test_another_script_with_such_a_helper_is_migrated_as_well(tmp_path: Path) -> None:
    main = MAIN.format(imports="from engine import train\nfrom wrap import wrap", call="train")
    main = main.replace("nn.Linear(4, 1).to(device)", "wrap(nn.Linear(4, 1).to(device))")
    other = (
        main.replace("from wrap import wrap", "from wrap import wrap\nfrom peek import peek") + "print(peek(model))\n"
    )
    wrap = "from torch import nn\ndef wrap(model):\n    return nn.DataParallel(model)\n"
    files = {"engine": ENGINE, "wrap": wrap, "peek": UNWRAPS.format("module."), "main": main, "other": other}
    found = rewritten(tmp_path, "main.py", **files)
    assert {name for name, r in found.items() if r.status is Status.MIGRATED} == {f"{name}.py" for name in files}
    assert "model.children()" in found["peek.py"].after.decode()


def test_several_files_that_call_as_before_are_named_in_one_note(tmp_path: Path) -> None:
    text = "import torch\nfrom lib.trainer import Trainer\n" + PREDICTS.format(call="Trainer")
    found = rewritten(tmp_path, "train.py", lib__trainer=TRAINER, train=FIT, web__a=text, web__b=text)
    notes = [n.message for r in found.values() for n in r.notes if n.rule == "callers"]
    assert len(notes) == 1
    assert notes[0] == "web/a.py and web/b.py call `Trainer` as before: if that trains, migrate them too"


@pytest.mark.parametrize("user", ["from trainer import Trainer", "from other.trainer import Trainer", "import torch"])
def test_a_file_that_calls_another_class_of_this_name_does_not_count(tmp_path: Path, user: str) -> None:
    text = f"import torch\n{user}\n" + PREDICTS.format(call="Trainer")
    files = {
        "lib__trainer": TRAINER,
        "train": FIT,
        "web__serve": text,
        "web__trainer": TRAINER,
        "other__trainer": TRAINER,
    }
    found = rewritten(tmp_path, "train.py", **files)
    assert b"def __init__(self, model, device, accelerator):" in found["lib/trainer.py"].after
    assert not any(n.rule == "callers" for r in found.values() for n in r.notes)


UPDATE = """\
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BESIDE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from engine import update
rows = torch.randn(8, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in {items}:
    {batch}
    update(optimizer, model(x).mean())
"""


@pytest.mark.parametrize(
    ("items", "batch", "expected"),
    [
        ("range(9)", "x = torch.randn(8, 4)", b"accelerator.seed_by_rank()"),
        ("range(9)", "x = rows[torch.randint(8, (2,))]", b"accelerator.seed_by_rank()"),
        ("range(0, 8, 2)", "x = rows[x:x + 2]", b"for x in accelerator.shard(range(0, 8, 2)):"),
    ],
)
def test_another_script_that_trains_with_the_same_step(tmp_path: Path, items: str, batch: str, expected: bytes) -> None:
    texts = {
        "first": BESIDE.format(items="DataLoader(rows, 4)", batch="pass"),
        "second": BESIDE.format(items=items, batch=batch),
    }
    found = rewritten(tmp_path, "first.py", engine=UPDATE, **texts)
    assert {r.status for r in found.values()} == {Status.MIGRATED}
    assert expected in found["second.py"].after
    assert b"seed_by_rank" not in found["first.py"].after
    alone = rewritten(tmp_path, "second.py", engine=UPDATE, **texts)
    assert alone["second.py"].after == found["second.py"].after
    said = [(n.rule, path) for path, r in found.items() for n in r.notes if "draws its own data" in n.message]
    assert said == ([("data", "second.py")] if expected.startswith(b"acc") else [])


@pytest.mark.parametrize(
    ("function", "call", "after"),
    [
        ("f(x, gpu=0): return x.cuda(gpu)", "f(x)", "f(x): return x.cuda()"),
        ("f(x): return x.to(0)", "f(x)", 'f(x): return x.to("cuda")'),
        ("f(x, device='cuda:0'): return x.to(device)", "f(x)", "f(x, device='cuda'): return x.to(device)"),
    ],
)
def test_a_helper_s_gpu_by_its_number_becomes_the_process_s_own(
    tmp_path: Path, function: str, call: str, after: str
) -> None:
    engine = f"import helper\n{ENGINE.replace('model(x)', f'model(helper.{call})')}"
    found = rewritten(tmp_path, "main.py", main=CALLER, engine=engine, helper=f"def {function}\n")
    assert found["helper.py"].after.decode() == f"def {after}\n"


@pytest.mark.parametrize(
    ("function", "call", "after"),
    [
        ("f(x, device='cpu'): return x.to(device)", "f(x)", "f(x, device=accelerator.device)"),
        ("f(x, on='cpu'): return x * torch.ones(1, device=on)", "f(x)", "f(x, on=accelerator.device)"),
    ],
)
def test_a_helper_that_stays_on_the_cpu_by_default_is_told_the_device(
    tmp_path: Path, function: str, call: str, after: str
) -> None:
    moves = "        x, y = x.to(device), y.to(device)\n"
    engine = f"import helper\n{ENGINE.replace('model(x)', f'model(helper.{call})').replace(moves, '')}"
    engine = engine.replace(", device)", ")")
    main = CALLER.replace(", device)", ")").replace(".to(device)", "")
    main = "\n".join(line for line in main.split("\n") if not line.startswith("device ="))
    found = rewritten(tmp_path, "main.py", main=main, engine=engine, helper=f"import torch\ndef {function}\n")
    assert f"helper.{after}" in found["engine.py"].after.decode()
    assert "helper.py" not in found


LEARNER = """\
class Steps:
    def __init__(self, model, optimizer, get_batch):
        self.model, self.optimizer, self.get_batch = model, optimizer, get_batch

    def train(self, steps):
        for _ in range(steps):
            self.step()

    def step(self):
        loss = self.model(self.get_batch()).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
HEIR = """\
from steps import Steps

class Own(Steps):
    def step(self):
        loss = self.model(self.get_batch()).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

print("defined")
"""
RUN = """\
import torch
from torch import nn
from own import Own

def run(device="cuda"):
    data = torch.randn(64, 4)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Own(model, optimizer, lambda: data[torch.randint(64, (8,))].to(device)).train(10)

run()
"""


@pytest.mark.parametrize(
    "own",
    [
        HEIR,
        HEIR.replace("from steps import Steps", "import steps as s").replace("(Steps)", "(s.Steps)"),
        "from steps import Steps\n\ndef Own(model, optimizer, batch):\n    return Steps(model, optimizer, batch)\n",
    ],
)
def test_the_script_that_uses_what_an_importer_makes_of_a_class_changes_too(tmp_path: Path, own: str) -> None:
    (tmp_path / ".git").mkdir()
    found = rewritten(tmp_path, "steps.py", steps=LEARNER, own=own, run=RUN)
    assert {r.status for r in found.values()} == {Status.MIGRATED}
    assert b'def run(device="cuda"):\n    accelerator = Accelerator()\n' in found["run.py"].after
    assert b"Accelerator(" not in found["steps.py"].after


def test_the_device_that_a_user_of_a_subclass_names_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    users = {f"run_{k}": RUN for k in range(5)}  # too many to change with it
    steps = LEARNER.replace("        loss =", "        self.model.train()\n        loss =")
    found = rewritten(tmp_path, "steps.py", steps=steps, own=HEIR, **users)
    assert b"self.accelerator = Accelerator()\n" in found["steps.py"].after


SISTER = """\
import torch
from torch import nn
from train import {imported}
{own}
print(validate(nn.Linear(4, 4), torch.zeros(1, 4), torch.zeros(1, 4)))
"""
HELPED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def turned(x):
    return x.roll(1)
def validate(model, loader, device):
    total = 0
    for (x,) in loader:
        total += model(x.to(device)).sum().item()
    return total
def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4)
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        loss = model(turned(x.to(device))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(validate(model, loader, device))
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("imported", "own", "is_named"),
    [
        ("turned, validate", "", True),
        ("turned, validate as check\nvalidate = check", "", True),
        ("turned", "def validate(model, x, y):\n    return model(turned(x)) - y\n", False),
        ("turned", "class validate:\n    def __init__(self, *given): turned(given)\n", False),
    ],
)
def test_a_sister_s_own_function_of_the_same_name_is_another(
    tmp_path: Path, imported: str, own: str, is_named: bool
) -> None:
    found = rewritten(tmp_path, "train.py", train=HELPED, check=SISTER.format(imported=imported, own=own))
    notes = [n.message for n in found["train.py"].notes if n.rule == "callers"]
    assert bool(notes) is is_named


LED = MAIN.format(imports="{imports}", call="train")


@pytest.mark.parametrize(
    ("imports", "where", "is_found"),
    [
        ("from engine import train", {"src__engine__engine": ENGINE, "src__engine____init__": ""}, True),
        ("from engine import train", {"lib__deep__engine": ENGINE}, True),
        ("from parts.engine import train", {"lib__parts__engine": ENGINE}, True),
        ("from engine import train", {"lib__engine": ENGINE, "lib__deep__engine": "from torch import train"}, True),
        ("from engine import train", {"lib__engine": ENGINE, "old__engine": ENGINE}, False),  # which of them?
        ("from engine import train", {"lib__engine": ENGINE.replace("loss.backward()", "pass")}, False),
        ("from elsewhere import train", {"lib__engine": ENGINE}, False),
        ("from engine import *", {"lib__engine": ENGINE}, False),
    ],
)
def test_a_training_file_that_only_a_path_of_the_user_leads_to_is_read(
    tmp_path: Path, imports: str, where: dict[str, str], *, is_found: bool
) -> None:
    (tmp_path / ".git").mkdir()
    results = rewritten(tmp_path, "src/bin/train.py", src__bin__train=LED.format(imports=imports), **where)
    changed = {Path(name).name for name, result in results.items() if result.status is Status.MIGRATED}
    assert changed == ({"train.py", "engine.py"} if is_found else set())


def test_files_that_only_a_path_of_the_user_joins_are_one_program(tmp_path: Path) -> None:
    files = {"bin/train.py": LED.format(imports="from engine import train"), "engine/engine.py": ENGINE}
    scripts.write(tmp_path, {name: text.encode() for name, text in [*files.items(), ("engine/__init__.py", "")]})
    (tmp_path / ".git").mkdir()
    with scripts.inside(tmp_path):
        assert groups(list(files), follow=True) == [tuple(files)]


REGISTRY = (
    "KINDS = {{}}\ndef register(cls):\n    KINDS[{key}] = cls\n    return cls\ndef build(kind):\n    return {made}\n"
)
REGISTERED = (
    "from registry import register\n@register\nclass Runner:\n    def run(self, loss):\n        loss.backward()\n"
)


@pytest.mark.parametrize(
    ("key", "made", "is_told"),
    [
        ("cls.__name__", "KINDS[kind]()", True),
        ("cls.__name__.lower()", "KINDS.get(kind)()", True),
        ("cls.__name__", "KINDS['Runner']()", False),
        ("cls.__name__", "list(KINDS)", False),
    ],
)
def test_a_registry_may_make_what_trains(tmp_path: Path, key: str, made: str, *, is_told: bool) -> None:
    main = "import runner, torch\nfrom registry import build\nbuild(open('kind').read())\n"
    files = {"registry": REGISTRY.format(key=key, made=made), "runner": REGISTERED, "main": main}
    found = rewritten(tmp_path, "main.py", **files)
    notes = [n.message for r in found.values() for n in r.notes if n.rule == "callers"]
    assert [n for n in notes if n.endswith("name the file that you use as well (runner.py)")] == notes
    assert bool(notes) is is_told


PARSED = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
use_cuda = not args.no_cuda and torch.cuda.is_available()
"""
OPTION = CALLER.replace("\ndevice =", f"\n{PARSED}device =").replace("torch.cuda.is_available() else", "use_cuda else")
IN_MAIN = OPTION.replace("import engine\n", "import engine\ndef main():\n", 1)
IN_MAIN = IN_MAIN.partition("main():\n")[0] + "main():" + IN_MAIN.partition("main():\n")[2].replace("\n", "\n    ")
DEAD = "\ndef train_backwards(args, model, loader, optimizer, device):\n" + ENGINE.partition("\n")[2]


@pytest.mark.parametrize("other", [OPTION, f"{IN_MAIN}\nmain()\n"])
def test_each_script_gives_the_accelerator_the_option_that_it_parses(tmp_path: Path, other: str) -> None:
    found = rewritten(tmp_path, "main.py", engine=ENGINE, main=OPTION, other=other)
    for path in ("main.py", "other.py"):
        lines = [line.strip() for line in found[path].after.decode().splitlines()]
        assert lines.index("accelerator = Accelerator(cpu=args.no_cuda)") > lines.index("args = parser.parse_args()")


def test_scripts_with_different_options_have_none_of_them(tmp_path: Path) -> None:
    other = OPTION.replace("not args.no_cuda", "args.gpu").replace("--no-cuda", "--gpu")
    found = rewritten(tmp_path, "main.py", engine=ENGINE, main=OPTION, other=other)
    assert b"Accelerator()" in found["main.py"].after
    assert b"Accelerator()" in found["other.py"].after


STEPPING = """\
import torch

class Steps:
    def __init__(self, parameters):
        self.optimizer = torch.optim.SGD(parameters, lr=0.1)

    def step(self):
        self.optimizer.step()

class Rows:
    def __init__(self, device):
        self.rows, self.device = torch.randn(64, 4), device

    def batches(self):
        for row in self.rows:
            yield row.to(self.device)
"""
STEPPER = f"""\
import argparse, torch
from engine import Steps, Rows
{PARSED.partition("use_cuda")[0].replace('"--no-cuda", action="store_true"', '"--device", default="cuda:1"')}
device = torch.device(args.device)

def main():
    rows, model = Rows(device), torch.nn.Linear(4, 1).to(device)
    steps = Steps(model.parameters())
    for row in rows.batches():
        loss = model(row).mean() + torch.zeros(1, device=device)
        model.zero_grad()
        loss.backward()
        steps.step()

if __name__ == "__main__":
    for _ in range(2):
        main()
"""
UNNAMED = """
class Trainer:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.optimizer = torch.optim.Adam(model.parameters())

    def train(self, x):
        self.model(x).mean().backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(("own", "others"), [("", ["other"]), ("", ["other", "third"]), (UNNAMED, [])])
def test_scripts_that_change_with_a_module_get_their_devices(tmp_path: Path, own: str, others: list[str]) -> None:
    files = {"engine": STEPPING + own, **dict.fromkeys(["main", *others], STEPPER)}
    files |= {"user": "import sys\nfrom engine import Trainer\nTrainer(None, sys.argv[1])\n"} if own else {}
    found = rewritten(tmp_path, "main.py", **files)
    below = "accelerator = Accelerator(cpu=args.device.startswith('cpu'))\n    device = accelerator.device\n"
    for path in ["main.py", *(f"{name}.py" for name in others)]:
        assert below.replace("'", '"') in found[path].after.decode()


def test_a_function_that_nothing_calls_decides_about_no_option(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "main.py", engine=ENGINE + DEAD, main=OPTION)
    assert b"accelerator = Accelerator(cpu=args.no_cuda)\n" in found["main.py"].after
    assert b"    accelerator = Accelerator()\n" in found["engine.py"].after


LOSSES = """\
def _step(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

def squared(model, loader, optimizer, scale=1):
    for x, y in loader:
        _step(scale * (model(x) - y).pow(2).mean(), optimizer)

def absolute(model, loader, optimizer, scale=1):
    for x, y in loader:
        _step(scale * (model(x) - y).abs().mean(), optimizer)
"""


@pytest.mark.parametrize(
    "table", ["losses.__dict__[name]", "getattr(losses, name)", "functools.partial(vars(losses)[name], scale=2)"]
)
def test_functions_of_a_table_work_for_other_scripts_as_before(tmp_path: Path, table: str) -> None:
    body = MAIN.format(imports="", call=table).split("TensorDataset\n")[1].replace(", device)", ")")
    train = f"import functools\nimport sys\nimport losses\n{MAIN.split('{imports}')[0]}"
    train = f"{train}def main(name):\n{indent(body, '    ')}\nmain(sys.argv[1])\n"
    probe = f"import functools\nimport losses\nname = 'squared'\n{table}(model, loader, optimizer)\n"
    found = rewritten(tmp_path, "train.py", losses=LOSSES, train=train, probe=probe)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(("train.py", "losses.py"), Status.MIGRATED)
    made = found["losses.py"].after.decode().replace("from accelify.runtime import Accelerator\n", "").strip()
    assert made == LOSSES.replace("loss.backward()", "Accelerator.current().backward(loss)").strip()
    assert not [n for r in found.values() for n in r.notes if n.rule == "callers"]


@pytest.mark.parametrize(
    ("keeping", "kept"),
    [
        ("torch.save(net.state_dict(), path)", "accelify.runtime.save("),
        ("net.load_state_dict(torch.load(path))", "map_location=accelify.runtime.PartialState().device"),
    ],
)
def test_a_file_that_asks_for_the_current_one_and_the_library_imports_both(
    tmp_path: Path, keeping: str, kept: str
) -> None:
    engine = f"import torch\n\n{ENGINE}\ndef keep(net, path):\n    {keeping}\n"
    text = f'{CALLER}torch.save(model.state_dict(), "m.pt")\nengine.keep(model, "m.pt")\n'
    found = rewritten(tmp_path, "one.py", engine=engine, **dict.fromkeys(("one", "two", "six", "ten", "a", "b"), text))
    made = found["engine.py"].after.decode()
    assert "Accelerator.current().backward(loss)" in made
    assert kept in made
    assert "from accelify.runtime import Accelerator\n" in made


FAMILY = """\
import torch

class Engine:
    def __init__(self, config):
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = (self.model(x.cuda()) - y.cuda()).pow(2).mean()
            loss.backward()
            self.optimizer.step()
"""
MEMBERS = """\
import torch
from engine import Engine

class Small(Engine):
    def __init__(self, config):
        self.model = torch.nn.Linear(4, 1).cuda()
        super().__init__(config)

class Large(Engine):
    def __init__(self, config):
        self.model = torch.nn.Linear(4, 1, bias=False).cuda()
        {call}
"""


@pytest.mark.parametrize(
    "call", ["super().__init__(config)", "Engine.__init__(self, config)", "super(Large, self).__init__({'lr': 2})"]
)
def test_a_class_that_the_script_does_not_make_works_as_before(tmp_path: Path, call: str) -> None:
    body = MAIN.split("TensorDataset\n")[1].partition("model = ")[0].format(imports="from members import Large, Small")
    train = f"{MAIN.split('{imports}')[0]}{body}Small({{'lr': 0.1}}).fit(loader)\n"
    found = rewritten(tmp_path, "train.py", engine=FAMILY, members=MEMBERS.format(call=call), train=train)
    assert {path: r.status for path, r in found.items()}["engine.py"] is Status.MIGRATED
    assert b"def __init__(self, config):" in found["engine.py"].after
    assert b"Accelerator.current().backward(" in found["engine.py"].after
    assert b"self.accelerator" not in found["engine.py"].after


LOADED = """\
from importlib import import_module
def build(name, settings):
    return {found}.build(settings)
"""
RUNNERS = """\
import torch
class Runner:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
    def epoch(self, batches):
        for x, y in batches:
            loss = (self.model(x) - y).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
def build(settings):
    model = torch.nn.Linear(4, 1)
    return Runner(model, torch.optim.SGD(model.parameters(), **settings))
"""
CHOOSING = """\
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from load import build
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
runner = build(sys.argv[1], {"lr": 0.1})
runner.epoch(loader)
torch.save(runner.model.state_dict(), "model.pt")
"""


@pytest.mark.parametrize(
    "found",
    ["import_module('runners.' + name)", "import_module(f'runners.{name}')", "import_module('runners.%s' % name)"],
)
def test_a_named_file_is_one_that_a_name_of_run_time_may_mean(tmp_path: Path, found: str) -> None:
    files = {
        "train": CHOOSING,
        "load": LOADED.format(found=found),
        "runners__small": RUNNERS,
        "runners__other": "x = 1\n",
    }
    scripts.write(tmp_path, {name.replace("__", "/") + ".py": text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = {r.path: r for r in rewrite_together(("train.py", "runners/small.py"), Options())}
    assert {r.status for r in results.values()} == {Status.MIGRATED}
    assert b"loader = accelerator.prepare(loader)" in results["train.py"].after
    assert b"accelerator.save(runner.model.state_dict()" in results["train.py"].after
    assert b"accelerator.backward(loss)" in results["runners/small.py"].after


def test_a_name_of_run_time_means_none_of_the_files_elsewhere(tmp_path: Path) -> None:
    files = {
        "train": CHOOSING,
        "load": LOADED.format(found="import_module('plugins.' + name)"),
        "runners__small": RUNNERS,
    }
    scripts.write(tmp_path, {name.replace("__", "/") + ".py": text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = {r.path: r for r in rewrite_together(("train.py", "runners/small.py"), Options())}
    assert results["train.py"].status is Status.UNCHANGED


@pytest.mark.parametrize("name", ["'.'.join(['zoo', part, chosen])", "f'{part}.{chosen}'", "part + chosen"])
def test_a_module_whose_name_leads_to_no_file_may_be_any_that_trains(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").mkdir()
    main = f"from importlib import import_module\ndef load(part, chosen):\n    return import_module({name})\n"
    start = "import torch\nfrom settings import part, chosen\nload(part, chosen).run()\n"
    found = rewritten(tmp_path, "main.py", main=main + start, zoo__deep__engine=ENGINE)
    (note,) = found["main.py"].notes
    assert note.message.endswith("if that trains, name its file as well (zoo/deep/engine.py)")


@pytest.mark.parametrize(
    "other", ["", "\nclass Other:\n    def run(self, config):\n        pick(True, config['gpu'])\n"]
)
def test_a_gpu_that_another_file_selects_is_not_selected(tmp_path: Path, other: str) -> None:
    picks = """\
import torch

def pick(enabled, gpu=0):
    if enabled:
        print("a GPU")
        torch.cuda.set_device(gpu)
"""
    (tmp_path / ".git").mkdir()
    imports = "from picks import pick\nfrom engine import train\nfrom other import Other\nimport sys"
    body = MAIN.format(imports=imports, call="pick(True, sys.argv[1])\ntrain")
    files = {"engine": ENGINE, "picks": picks, "other": f"from picks import pick\nclass Other: pass\n{other}"}
    found = rewritten(tmp_path, "main.py", main=body, **files)
    assert b"set_device" not in found["picks.py"].after
    assert (b"def pick(enabled):" in found["picks.py"].after) is (not other)
    assert (b"pick(True)\n" in found["main.py"].after) is (not other)
    assert not any("not the one that" in n.message for n in found["main.py"].notes)


@pytest.mark.parametrize("number", ["f'cuda:{ids[0]}'", "'cuda:0'", "'cuda:%d' % ids[0]"])
def test_a_device_that_a_file_chooses_by_number_is_not_set_there(tmp_path: Path, number: str) -> None:
    picks = f"""\
import torch

def pick():
    ids = list(range(torch.cuda.device_count()))
    if ids:
        device = torch.device({number})
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    return device, ids
"""
    body = MAIN.format(imports="from picks import pick\nfrom engine import train", call="train")
    body = body.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "pick()")
    found = rewritten(tmp_path, "main.py", main=body.replace("device = ", "device, ids = "), engine=ENGINE, picks=picks)
    assert found["main.py"].status is Status.MIGRATED
    assert b"accelerator = Accelerator(cpu=not torch.cuda.is_available())\n" in found["main.py"].after
    assert "picks.py" not in found or b"set_device" not in found["picks.py"].after


@pytest.mark.parametrize(
    ("use", "is_told"),
    [
        ("KINDS = {'small': engine.train}\nKINDS['small'](None, [], None, None)", True),
        ("run = engine.train if engine else print\nrun(None, [], None, None)", True),
        ("train, rest = engine.__name__, 2\nprint(train, rest)", False),  # a variable of that name
        ("train = engine.__name__\nprint(train)", False),
    ],
)
def test_a_file_that_holds_a_function_calls_it_and_one_that_binds_its_name_does_not(
    tmp_path: Path, use: str, is_told: bool
) -> None:
    other = f"import accelerate\nimport engine\nprint(accelerate.Accelerator())\n{use}\n"
    found = rewritten(tmp_path, "main.py", engine=ENGINE, main=CALLER, other=other)
    told = [n.message for r in found.values() for n in r.notes if n.rule == "callers"]
    assert [message.startswith("other.py calls `train`") for message in told] == [True] * is_told
    assert (b"def train(model, loader, optimizer, accelerator):" in found["engine.py"].after) is not is_told


CONTROLLER = """\
import torch

class Controller:
    def __init__(self, {parameter}):
        {move}
        self.device = {parameter}

    def parameters(self):
        return self.model.parameters()

    def loss(self, x):
        return self.model(x).mean()
"""
CONTROLLED = """\
import torch
from torch.utils.data import DataLoader
from lib.controller import Controller

c = Controller(torch.device("cuda"))
optimizer = torch.optim.SGD(c.parameters(), lr=0.1)
for x in DataLoader(torch.randn(16, 4), 4):
    optimizer.zero_grad()
    c.loss(x.to(c.device)).backward()
    optimizer.step()
"""
SHOWS = """\
from lib.controller import Controller
import torch.multiprocessing as mp

def show(rank):
    print(Controller(rank).model.weight.device)

mp.spawn(show, nprocs=2)
"""


@pytest.mark.parametrize(
    ("parameter", "move", "is_said"),
    [
        ("device", "self.model = torch.nn.Linear(4, 1).to(device)", True),
        ("gpu", "self.model = torch.nn.Linear(4, 1)\n        self.model.cuda(gpu)", True),
        ("where", "self.model = torch.nn.Linear(4, 1)\n        self.model.to(device=where)", True),
        ("device", "self.model = torch.nn.Linear(4, 1).cuda()", False),
    ],
)
def test_a_caller_reads_that_its_device_is_not_asked(tmp_path: Path, parameter: str, move: str, is_said: bool) -> None:
    lib = CONTROLLER.format(parameter=parameter, move=move)
    found = rewritten(tmp_path, "train.py", lib__controller=lib, train=CONTROLLED, web__show=SHOWS)
    assert b"Accelerator.current().prepare(self.model)" in found["lib/controller.py"].after
    notes = [n.message for n in found["lib/controller.py"].notes if n.rule == "callers"]
    said = f". What this prepares goes to the accelerator's device, not to `{parameter}`" * is_said
    assert notes == [f"web/show.py calls `Controller` as before: if that trains, migrate it too{said}"]
