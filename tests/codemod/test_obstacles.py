"""Why training loops are left alone: source text in, reasons out."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

TRAINING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 2)
def train(seed):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data):
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("start", "name"),
    [
        ("import threading\nthreading.Thread(target=train, args=(1,)).start()", "threading.Thread"),
        ("from threading import Thread\ndef go(): train(1)\nThread(target=go).start()", "threading.Thread"),
        ("import multiprocessing as mp\nfor t in [train]: mp.Process(target=t).start()", "multiprocessing.Process"),
        ("from multiprocessing import Pool\nwith Pool(4) as pool: pool.map(train, range(4))", "multiprocessing.Pool"),
        (
            "from concurrent.futures import ThreadPoolExecutor as E\npool = E(4)\npool.submit(train, 1)",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        ("from joblib import Parallel, delayed\nParallel(4)(delayed(train)(s) for s in range(4))", "joblib.Parallel"),
    ],
)
def test_training_beside_the_script(start: str, name: str) -> None:
    obstacles = Facts(f"{TRAINING}{start}\n").verdict.obstacles
    assert [message for _, rule, message in obstacles if rule == "distributed" and f"`{name}` runs" in message]


@pytest.mark.parametrize(
    "start",
    [
        "train(0)",
        "import threading\nthreading.Thread(target=print).start()\ntrain(0)",
        "from multiprocessing import Pool\ndef load(i): return i\nwith Pool(4) as pool: pool.map(load, [1])\ntrain(0)",
        "list(map(train, range(4)))",
    ],
)
def test_what_else_runs_beside_a_script_is_no_obstacle(start: str) -> None:
    assert not [o for o in Facts(f"{TRAINING}{start}\n").verdict.obstacles if o[1] == "distributed"]


AGENT = """\
import torch
class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def train(self):
        self.opt.zero_grad()
        self.net(torch.randn(8, 4)).pow(2).mean().backward()
        self.opt.step()
"""
WORKER = """\
{start}
from agent import Agent
class Worker({base}):
    def __init__(self):
        super().__init__()
        self.agent = Agent()
    def run(self):
        for k in range(5):
            self.agent.train()
"""


@pytest.mark.parametrize(
    ("start", "base", "use", "name"),
    [
        ("import torch.multiprocessing as mp", "mp.Process", "w.start(); w.join()", "torch.multiprocessing.Process"),
        ("from multiprocessing import Process", "Process", "w.start()", "multiprocessing.Process"),
        ("import threading", "threading.Thread", "w.start()", "threading.Thread"),
        (
            "import multiprocessing\nclass Base(multiprocessing.Process): pass",
            "Base",
            "for each in [w]: each.start()",
            "multiprocessing.Process",
        ),
        ("", "object", "w.run()", ""),
    ],
)
def test_a_class_of_processes_that_trains_by_another_file(start: str, base: str, use: str, name: str) -> None:
    main = f"from worker import Worker\nw = Worker()\n{use}\n"
    facts = Facts({"main.py": main, "worker.py": WORKER.format(start=start, base=base), "agent.py": AGENT})
    found = [message for _, rule, message in facts.verdict.obstacles if rule == "distributed"]
    assert any(f"`{name}` runs" in message for message in found) if name else not found


def test_a_class_of_threads_that_only_loads() -> None:
    worker = "import threading\nclass Worker(threading.Thread):\n    def run(self): print(1)\n"
    main = "from worker import Worker\nfrom agent import Agent\nWorker().start()\nfor k in range(5): Agent().train()\n"
    facts = Facts({"main.py": main, "worker.py": worker, "agent.py": AGENT})
    assert not [o for o in facts.verdict.obstacles if o[1] == "distributed"]


def is_of_batches(text: str) -> bool:
    """Whether a note says that a model is made with what a process has seen of a prepared loader."""
    return any("made with values of the batches" in n.message for n in run(text).notes)


BUILT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
{start}
loader = DataLoader(rows)
{found}
model = nn.Embedding({size}, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("found", "size", "is_obstacle"),
    [
        ("longest = max(x.max().item() for x, y in loader)", "int(longest) + 1", True),
        ("seen = set()\nfor x, y in loader:\n    seen.update(x.tolist())", "len(seen)", True),
        ("longest = max(x.max().item() for x, y in other)", "int(longest) + 1", False),
        ("width = next(iter(loader))[1].shape[1]", "width", False),
        ("largest = 0\nfor x, y in loader:\n    largest = max(largest, int(x.max()))", "largest", False),  # reduced
        ("", "len(loader.dataset)", False),
        (
            "def same(net, x): return net\nfor x, y in loader:\n    n = x.max()\nmodel = nn.Linear(4, 2)\n"
            "kept = same(model, n)",
            "9",
            False,
        ),
    ],
)
def test_a_model_that_is_built_from_a_shard(found: str, size: str, is_obstacle: bool) -> None:
    text = BUILT.format(start="other = DataLoader(held_out)", found=found, size=size)
    assert is_of_batches(text) is is_obstacle


OPTIONS = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
WIDER = "for x, y in loader:\n    args.width = int(x.max())\n"
WIDEN = "def widen():\n    for x, y in loader:\n        args.width += int(x.max())\n"


@pytest.mark.parametrize(
    ("above", "below", "is_obstacle"),
    [(WIDER, "", True), (WIDEN + "widen()\n", "", True), ("", WIDER, False), ("", WIDEN + "widen()\n", False)],
)
def test_a_model_is_not_built_from_what_a_later_loop_finds(above: str, below: str, is_obstacle: bool) -> None:
    text = BUILT.format(start="", found=OPTIONS + above, size="args.width") + below
    assert is_of_batches(text) is is_obstacle


PRIVATE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
{imports}
def main(is_private):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=8)
    if is_private:
        {private}
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main(True)
"""


@pytest.mark.parametrize(
    ("imports", "private", "name"),
    [
        (
            "from opacus import PrivacyEngine",
            "model, optimizer, loader = PrivacyEngine().make_private(module=model, optimizer=optimizer)",
            "opacus.PrivacyEngine",
        ),
        (
            "import opacus.privacy_engine as p",
            "engine = p.PrivacyEngine(model, sample_rate=0.1); engine.attach(optimizer)",
            "opacus.privacy_engine.PrivacyEngine",
        ),
        (
            "from opacus.optimizers import DPOptimizer",
            "optimizer = DPOptimizer(optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=8)",
            "opacus.optimizers.DPOptimizer",
        ),
        ("import fastDP", "fastDP.PrivacyEngine(model, 8, 64).attach(optimizer)", "fastDP.PrivacyEngine"),
    ],
)
def test_optimizers_that_compute_gradients_when_they_step(imports: str, private: str, name: str) -> None:
    obstacles = Facts(PRIVATE.format(imports=imports, private=private)).verdict.obstacles
    (node,) = [node for node, rule, message in obstacles if rule == "prepare" and f"optimizers of `{name}`" in message]
    assert node.lineno == PRIVATE.format(imports=imports, private=private).splitlines().index(f"        {private}") + 1


def test_a_library_for_privacy_that_only_looks_at_the_model() -> None:
    imports = "from opacus.validators import ModuleValidator"
    text = PRIVATE.format(imports=imports, private="print(ModuleValidator.validate(model))")
    assert not [m for _, _, m in Facts(text).verdict.obstacles if "clip gradients" in m]


ADJOINT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, z):
        return self.layer(z)

    def gradients(self, z, upstream):
        with torch.enable_grad():
            return torch.autograd.grad(self(z), (z,) + tuple(self.parameters()), upstream)

class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, field, z, *weights):
        ctx.field = field
        ctx.save_for_backward(z)
        return z + field(z)

    @staticmethod
    def backward(ctx, upstream):
        return (None, *ctx.field.gradients(ctx.saved_tensors[0], upstream))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = Field()

    def forward(self, x):
        return Adjoint.apply(self.field, x, *self.field.parameters())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = {block}, nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.block(x))

{before}
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(data):
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("block", "before", "is_declined"),
    [
        ("Block()", "", False),
        ("nn.Sequential(Block(), nn.Tanh())", "", False),
        ("nn.Sequential(*[Block()])", "", False),
        ("Block()", "truth = Field()", False),
        ("nn.Linear(4, 4)", "truth = Block()", False),
        ("nn.Linear(4, 4)", "truth = Field()\ntruth.gradients(torch.zeros(1, 4), torch.zeros(1, 4))", True),
    ],
)
def test_gradients_that_a_backward_pass_returns(block: str, before: str, is_declined: bool) -> None:
    """They are those of a part of what the optimizer steps, or given back by an operation of the script's own."""
    reasons = [message for _, _, message in Facts(ADJOINT.format(block=block, before=before)).verdict.obstacles]
    assert any("which nothing averages" in reason for reason in reasons) is is_declined


@pytest.mark.parametrize(
    ("start", "model", "reason"),
    [
        ("", "net", (7, "`net`")),
        ("def build():\n    net = nn.Linear(4, 2)\n    return net", "net", (9, "`net`")),
        ("from parts import *", "net", None),
        ("net = nn.Linear(4, 2)", "net", None),
    ],
)
def test_what_is_used_under_a_name_that_nothing_assigns(start: str, model: str, reason: tuple[int, str] | None) -> None:
    source = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader
{start}
loader = DataLoader(data)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD({model}.parameters(), lr=0.1)
for x, y in loader:
    nn.functional.cross_entropy({model}(x), y).backward()
    optimizer.step()
"""
    found = [(n, message) for n, _, message in Facts(source).verdict.obstacles if "nothing assigns" in message]
    assert [(getattr(n, "lineno", 0), m.split()[0]) for n, m in found] == ([reason] if reason else [])


OPTIONS = """\
import argparse
import types
import torch
from omegaconf import OmegaConf
from torch import nn
from torch.utils.data import DataLoader

class Settings:
    def __init__(self, model):
        self.model = model

class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.body = nn.Linear(4, 1 if kind == 'small' else 2)

    def forward(self, x):
        self.seen = self.body(x)
        return self.seen

class Runner:
    def __init__(self, args):
        self.model = Net(args.model)
        self.loader = DataLoader(data)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

for name in ("small", "large"):
    Runner({options}).fit()
"""


@pytest.mark.parametrize(
    "options",
    [
        "argparse.ArgumentParser().parse_args()",
        "argparse.Namespace(model=name)",
        "types.SimpleNamespace(model=name)",
        "Settings(name)",
        "OmegaConf.load(name)",
    ],
)
def test_an_option_of_the_name_of_an_attribute(options: str) -> None:
    assert not Facts(OPTIONS.format(options=options)).verdict.obstacles


SIZED = """\
import json
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self, model, optimizer, device, every=10):
        self.model, self.optimizer, self.device, self.every = model, optimizer, device, every
        self.histories = {{"loss": []}}

    def train(self, loader):
        for x, y in loader:
            loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.histories["loss"].append(loss.item())

class Net(nn.Module):
    def __init__(self, device, width):
        super().__init__()
        self.layer = nn.Linear(4, 4 + width)

    def forward(self, x):
        return self.layer(x)

def run(device, settings):
    results, seen = [], set()
    for dataset in settings["datasets"]:
        loader = DataLoader(data)
        results.append({{"dataset": dataset, "info": [], "models": []}})
        for each in settings["models"]:
            losses, models = [], []
            for rep in range(settings["reps"]):
                for x, y in loader:
                    seen.update(y.tolist())
                model = Net(device, {size})
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                trainer = Trainer(model, optimizer, device, every=settings["every"])
                trainer.train(loader)
                losses.append(trainer.histories["loss"])
                models.append(model)
            results[-1]["info"].append({{"kind": each["kind"], "losses": losses}})
            results[-1]["info"][-1]["more"] = losses
            results[-1]["models"].append(models)

run(torch.device("cuda"), {settings})
"""


@pytest.mark.parametrize(
    ("size", "settings", "is_noted"),
    [
        ('each["width"]', 'json.load(open("settings.json"))', False),
        ('each["width"]', 'yaml.safe_load(open("settings.yml"))', False),
        ('settings["models"][0]["width"]', 'json.load(open("settings.json"))', False),
        ("len(seen)", 'json.load(open("settings.json"))', True),
        ('max(each["width"], len(seen))', 'json.load(open("settings.json"))', True),
    ],
)
def test_a_model_sized_by_a_file(size: str, settings: str, is_noted: bool) -> None:
    result = run(SIZED.format(size=size, settings=settings))
    assert result.status is Status.MIGRATED
    assert [n.rule for n in result.notes if "made with values of the batches" in n.message] == ["prepare"] * is_noted


INITIAL = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

class Net(nn.Module):
    def __init__(self, mean):
        super().__init__()
        self.mean = nn.Parameter(mean)
    def forward(self, x):
        return (x - self.mean).pow(2).mean()

loader = DataLoader(data, batch_size=8)
{first}
net = Net({mean})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, _ in loader:
    optimizer.zero_grad()
    net(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "mean", "is_noted"),
    [
        ("for x, _ in loader:\n    first = x.flatten(1)\n    break", "first.mean(0)", True),
        ("first = next(iter(loader))[0]", "first.mean()", True),
        ("first = torch.cat([x for x, _ in loader])", "first.mean(0)", True),
        ("first = data.tensors[0]", "first.mean(0)", False),
    ],
)
def test_a_model_whose_first_weights_are_of_a_batch(first: str, mean: str, is_noted: bool) -> None:
    result = run(INITIAL.format(first=first, mean=mean))
    assert result.status is Status.MIGRATED
    assert any("`prepare` takes over those of process 0" in n.message for n in result.notes) is is_noted


BY_HAND = """
import torch
from torch import nn
from torch.utils.data import DataLoader

weight = {weight}
bias = torch.zeros(2, requires_grad=True)
for x, y in DataLoader(range(8), batch_size=2):
    shift = torch.zeros(4, requires_grad=True)
    loss = nn.functional.cross_entropy((x + shift) @ weight + bias, y)
    loss.backward()
    with torch.no_grad():
        {update}
"""
TENSOR = "torch.randn(4, 2, requires_grad=True)"


@pytest.mark.parametrize(
    ("weight", "update", "is_obstacle"),
    [
        (TENSOR, "weight -= 0.1 * weight.grad", True),
        (TENSOR, "for each in (weight, bias):\n            each.data -= 0.1 * each.grad", True),
        (TENSOR, "weight.data = weight.data - 0.1 * weight.grad", True),
        ("nn.Parameter(torch.randn(4, 2))", "weight.sub_(0.1 * weight.grad)", True),
        (TENSOR, "shift += shift.grad.sign()", False),
        (TENSOR, "print(weight.grad.norm())", False),
    ],
)
def test_tensors_that_steps_change_by_their_own_gradients(weight: str, update: str, is_obstacle: bool) -> None:
    found = Facts(BY_HAND.format(weight=weight, update=update)).verdict.obstacles
    assert any("is a tensor of no model" in message for _, _, message in found) is is_obstacle


ATTACK = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
shared = torch.zeros(2, 4, requires_grad=True)

def attack(x, y):
    delta = {delta}
    for _ in range(3):
        nn.functional.cross_entropy(model(x + delta), y).backward()
        {update}
        model.zero_grad()
    return delta.detach()

for x, y in DataLoader(range(8), batch_size=2):
    loss = nn.functional.cross_entropy(model(x + attack(x, y)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("delta", "update", "is_obstacle"),
    [
        ("torch.zeros_like(x, requires_grad=True)", "delta.data += 0.1 * delta.grad.sign()", False),
        ("torch.rand(2, 4)", "delta = (delta.grad / delta.grad.norm()).requires_grad_()", False),
        ("shared", "delta.data += 0.1 * delta.grad.sign()", True),
    ],
)
def test_perturbations_that_a_function_makes_for_each_batch(delta: str, update: str, is_obstacle: bool) -> None:
    found = Facts(ATTACK.format(delta=delta, update=update)).verdict.obstacles
    assert any("is a tensor of no model" in message for _, _, message in found) is is_obstacle


PLACED = """\
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader
args = argparse.ArgumentParser().parse_args()
{}
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data):
    nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("choice", "is_spread"),
    [
        ("device = ['cuda:0', 'cuda:1'][args.gpu]", False),
        ("names = {0: 'cuda:0', 1: 'cuda:1', -1: 'cpu'}\ndevice = torch.device(names[args.gpu])", False),
        ("device = torch.device('cuda:0') if args.first else torch.device('cuda:1')", False),
        (
            "if args.gpu:\n    device = 'cuda:0'\nelif args.other:\n    device = 'cuda:1'\nelse:\n    device = 'cpu'",
            False,
        ),
        ("def pick(k):\n    return ['cuda:0', 'cuda:1'][k]\ndevice = pick(args.gpu)", False),
        ("parser.add_argument('--at', choices=['cuda:0', 'cuda:1'], default='cuda:0')\ndevice = args.at", False),
        ("def pick(k):\n    return ['cuda:0', 'cuda:1'][k]\ndevice = pick(0)\nhead = head.to(pick(1))", True),
        ("names = ['cuda:0', 'cuda:1']\ndevice = names[0]\nhead = head.to(names[1])", True),
        ("for k, part in parts: part.to('cuda:0' if k else 'cuda:1')\ndevice = 'cuda:0'", True),
        ("device = 'cuda:0'\nhead = head.to('cuda:1')", True),
        ("if args.gpu:\n    device = 'cuda:0'\n    head = head.to('cuda:1')", True),
    ],
)
def test_one_gpu_of_several_is_no_model_on_several(choice: str, is_spread: bool) -> None:
    obstacles = Facts(PLACED.format(choice)).verdict.obstacles
    assert any("on several GPUs by hand" in message for _, _, message in obstacles) is is_spread


TRIED = """\
import torch
from copy import deepcopy
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

data = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randint(0, 2, (24,)))
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def tried(x, y):
    net = {copy}
    grads = torch.autograd.grad(F.cross_entropy(net(x), y), net.parameters())
    fast = [w - 0.1 * g for w, g in zip(net.parameters(), grads)]
    with torch.no_grad():
        hits = torch.eq(F.linear(x, *fast).argmax(1), y).sum().item()
    {end}

for x, y in DataLoader(data, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
print(tried(*data[:8]))
"""


@pytest.mark.parametrize(
    ("copy", "end", "is_declined"),
    [
        ("deepcopy(model)", "return hits / len(y)", False),
        ("deepcopy(model)", "return float(hits)", False),
        ("deepcopy(model).eval()", "return hits", False),
        ("deepcopy(model)", "return grads", True),
        ("deepcopy(model)", "model.taken = grads\n    return hits", True),
        ("nn.Linear(4, 2)", "return hits", True),
        ("deepcopy(model)", "for w, v in zip(net.parameters(), fast):\n        w.data.copy_(v)\n    return net", True),
    ],
)
def test_a_copy_that_a_function_only_tries_out(copy: str, end: str, is_declined: bool) -> None:
    obstacles = Facts(TRIED.format(copy=copy, end=end)).verdict.obstacles
    assert any("updated from these gradients" in message for _, _, message in obstacles) is is_declined


CELLS = """\
import {imported}
app = {made}
@app.cell{options}
def train(torch):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(9):
        model(torch.randn(4, 4)).pow(2).mean().backward()
        optimizer.step()
app.run()
"""


@pytest.mark.parametrize(
    ("imported", "made", "options", "is_declined"),
    [
        ("marimo", "marimo.App()", "", True),
        ("marimo as mo", "mo.App(width='full')", "(hide_code=True)", True),
        ("tasks", "tasks.App()", "", False),
    ],
)
def test_training_that_is_run_without_the_names_of_its_file(
    imported: str, made: str, options: str, is_declined: bool
) -> None:
    text = CELLS.format(imported=imported, made=made, options=options)
    found = [message for _, _, message in Facts(text).verdict.obstacles]
    assert any("without the names of its file" in message for message in found) is is_declined
