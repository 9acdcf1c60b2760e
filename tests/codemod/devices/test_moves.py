"""Facts about moves to a device: which there are, and which a prepared script no longer needs."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.moves import Move, is_cpu, last_name
from accelify.codemod.semantics.scopes import assignment
from tests.codemod.facts import Facts, texts
from tests.codemod.pairs import migrated, run
from tests.codemod.training_scripts import script, training

DEVICE = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"


def moves(**slots: str) -> tuple[Facts, tuple[Move, ...]]:
    facts = training(before=DEVICE, **slots)
    return facts, facts.script.devices.moves


def test_moves_of_batches_and_models_are_needless() -> None:
    facts, found = moves(model="model = model.to(device)\n", batch="x, y = x.to(device), y.cuda()\n")
    assert texts(m.call for m in found) == ["model.to(device)", "x.to(device)", "y.cuda()"]
    assert all(facts.script.devices.known.is_needless(m) for m in found)


def test_moves_of_what_the_script_makes_are_not() -> None:
    facts, found = moves(end="z = torch.zeros(3).to(device)\n")
    assert [facts.script.devices.known.is_needless(m) for m in found] == [False]


def test_what_is_no_move() -> None:
    _, found = moves(end="x.to(torch.float16)\nx.float()\nother(device)\n")
    assert found == ()


def test_moves_to_the_cpu() -> None:
    facts, found = moves(end="host = torch.device('cpu')\nx.to('cpu')\nx.to(host)\nx.to(device)\n")
    assert texts(m.call for m in found) == ["x.to(host)", "x.to(device)"]  # one that names the CPU is right anywhere
    assert [facts.script.devices.goes_to_cpu(m) for m in found] == [True, False]


@pytest.mark.parametrize(
    ("device", "cpu"), [("'cpu'", True), ("torch.device('cpu')", True), ("'cuda'", False), ("device", False)]
)
def test_the_cpu(device: str, cpu: bool) -> None:
    assert is_cpu(ast.parse(device, mode="eval").body) is cpu


@pytest.mark.parametrize(
    ("node", "name"),
    [("gpu", "gpu"), ("args.gpu", "gpu"), ("config['gpu']", "gpu"), ("gpu_ids[0]", "gpu_ids"), ("f()", "")],
)
def test_the_last_name(node: str, name: str) -> None:
    assert last_name(ast.parse(node, mode="eval").body) == name


LATER = "device = torch.device('cpu')\nz = model(x).to(device)\n"


@pytest.mark.parametrize(
    ("before", "batch", "end", "is_beside"),
    [
        ("device = torch.device('cuda')\n", "x = x.to(device)\n", LATER, True),
        ("device = torch.device('cpu')\n", "x = x.to(device)\n", "", False),
        ("device = torch.device('cpu')\n", "", "", False),
        ("device = torch.device('cuda')\nif p:\n    device = torch.device('cpu')\n", "x = x.to(device)\n", "", False),
    ],
)
def test_the_cpu_beside_what_is_trained(before: str, batch: str, end: str, is_beside: bool) -> None:
    facts = training(before=before, batch=batch, end=end)
    assigned = assignment(facts.statement("device = torch.device('cpu')"))
    assert assigned is not None
    assert facts.script.devices.is_for_the_cpu(assigned) is is_beside


@pytest.mark.parametrize("value", ["given if given is not None else {}", "given or {}"])
def test_a_device_unless_one_is_given(value: str) -> None:
    made = "torch.device('cuda')"
    choose = f"def choose(given=None):\n    device = {value.format(made)}\n    return device\n"
    facts = training(before=f"{choose}device = choose()\n", batch="x, y = x.to(device), y.to(device)\n")
    bound = texts(b.value for b in facts.script.devices.known.bindings)
    assert sorted(bound) == ["choose()", value.format(made)]


@pytest.mark.parametrize(
    "device",
    [DEVICE, DEVICE.replace(" =", ": torch.device =", 1), f"print(({DEVICE.strip().replace(' =', ' :=', 1)}))\n"],
)
def test_the_variables_that_hold_devices(device: str) -> None:
    end = "again = device\ncpu: torch.device = torch.device('cpu')\nshown = x.to(cpu)\n"
    facts = training(before=device, batch="x, y = x.to(device), y.to(device)\n", end=end)
    bound = facts.script.devices.known.bindings
    assert texts(b.target for b in bound) == ["device"]
    assert texts(b.value for b in bound) == ["torch.device('cuda' if torch.cuda.is_available() else 'cpu')"]


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("model.eval().cpu()", "model.to(device).train()"),
        ("model.to('cpu')", "model.to(device)"),
        ("model = model.cpu()", "model = model.cuda()"),
    ],
)
def test_a_model_that_was_brought_to_the_host_comes_back(there: str, back: str) -> None:
    end = f"for again in range(2):\n    {there}\n    torch.save(model.state_dict(), 'model.pt')\n    {back}\n"
    facts, found = moves(model="model = model.to(device)\n", end=end)
    assert [facts.script.devices.known.is_needless(m) for m in found] == [True, False]


HELPER = """\
import torch
class Keeper:
    def keep(self, net):
        torch.save(net.cpu().state_dict(), 'best.pt')
def keep(net):
    Keeper().keep(net)
"""


@pytest.mark.parametrize(
    ("epoch", "end", "is_needless"),
    [
        ("model.to(device)\nkeep(model)\n", "", False),
        ("model.to(device)\nKeeper().keep(model)\n", "", False),
        ("model.to(device)\n", "keep(model)\n", True),  # only once training is over
    ],
)
def test_a_model_that_another_file_brings_to_the_host_comes_back(epoch: str, end: str, is_needless: bool) -> None:
    text = script(imports="from keeping import Keeper, keep\n", before=DEVICE, epoch=epoch, end=end)
    facts = Facts({"main.py": text, "keeping.py": HELPER})
    assert [facts.script.devices.known.is_needless(m) for m in facts.script.devices.moves] == [is_needless]


OPTION = """
import argparse
import torch
from torch.utils.data import DataLoader
args = argparse.ArgumentParser().parse_args()
args.device = {device}
def score(model, loader, args):
    for x in loader:
        x = x.to(args.device)
        print(model(x))
def main(args):
    loader = DataLoader(rows)
    model = torch.nn.Linear(4, 1).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x.to(args.device)).sum().backward()
        optimizer.step()
    score(model, loader, args)
main(args)
"""


@pytest.mark.parametrize(
    ("device", "may_stay"),
    [
        ("torch.device('cuda')", True),
        ("torch.device(args.gpu)", False),
        ("args.gpu", False),
        ("pick(args)", False),
    ],
)
def test_a_needless_move_stays_only_where_its_device_is_the_process_s_own(device: str, may_stay: bool) -> None:
    devices = Facts(OPTION.format(device=device)).script.devices
    assert all(devices.is_needless(m) for m in devices.moves)
    assert {devices.may_stay(m) for m in devices.moves} == {may_stay}


@pytest.mark.parametrize(
    ("given", "is_device"),
    [
        ("config['device']", True),
        ("config['train']['device']", True),
        ("config['size']", False),
        ("read('device')", False),
    ],
)
def test_a_device_of_the_settings_is_one(given: str, is_device: bool) -> None:
    facts = training(imports="from settings import config, read", before=f"device = {given}", batch="x.to(device)")
    assert bool(facts.script.devices.known.bindings) is is_device


CONTRASTIVE = """\
class Contrastive(nn.Module):
    def __init__(self, temperature=0.07):
        super().__init__()
        self.temperature = temperature
"""
WITH_WEIGHTS = CONTRASTIVE.replace("        self.temperature = temperature\n", "        self.w = nn.Linear(2, 2)\n")
WITH_A_BUFFER = CONTRASTIVE.replace(
    "        self.t", "        self.register_buffer('m', torch.ones(2))\n        self.t"
)


@pytest.mark.parametrize(
    ("before", "made", "is_needless"),
    [
        ("", "nn.CrossEntropyLoss()", True),
        ("", "nn.CrossEntropyLoss(reduction='sum', ignore_index=0)", True),
        ("", "nn.CrossEntropyLoss(weight=torch.ones(3))", False),
        ("", "nn.CrossEntropyLoss(weights)", False),
        ("", "nn.Linear(2, 2)", False),
        (CONTRASTIVE, "Contrastive(temperature=args.temperature)", True),
        (CONTRASTIVE, "Contrastive(nn.Linear(2, 2))", False),
        (WITH_WEIGHTS, "Contrastive()", False),
        (WITH_A_BUFFER, "Contrastive()", False),
    ],
)
def test_a_loss_without_tensors_needs_no_move(before: str, made: str, is_needless: bool) -> None:
    facts, (found,) = moves(imports=before, model=f"criterion = {made}.cuda()\n")
    assert facts.script.devices.known.is_needless(found) is is_needless


MADE = """\
def make(args):
    net = nn.Linear(4, 1)
    loss = nn.MSELoss(weight=args.weight)
    if torch.cuda.is_available():
        net = net.cuda()
    {rest}
    return {given}
"""


@pytest.mark.parametrize(
    ("rest", "given", "taken", "is_needless"),
    [
        ("", "net", "model", True),
        ("", "net, loss", "model, criterion", True),
        ("", "net, loss", "pair", False),
        ("print(net(torch.ones(4).cuda()))", "net", "model", False),
        ("if args.early:\n        return net", "net", "model", False),
        ("", "net, [net]", "model, criterion", False),
    ],
)
def test_a_model_that_a_function_gives_back_to_be_prepared(
    rest: str, given: str, taken: str, is_needless: bool
) -> None:
    unpacked = "model = pair[0]\n" if taken == "pair" else ""
    facts, found = moves(imports=MADE.format(rest=rest, given=given), model=f"{taken} = make(args)\n{unpacked}")
    move = next(m for m in found if ast.unparse(m.call) == "net.cuda()")
    assert facts.script.devices.known.is_needless(move) is is_needless


@pytest.mark.parametrize(
    ("end", "is_needless"),
    [
        ("model = nn.Linear(4, 1).to(device)\nmodel(x)\n", False),
        ("model = nn.Sequential(nn.Linear(4, 1)).cuda()\nmodel.load_state_dict(torch.load('net.pt'))\n", False),
        ("model = model.to(device)\nmodel(x)\n", True),
    ],
)
def test_a_new_model_under_the_name_of_the_trained_one_is_moved(end: str, is_needless: bool) -> None:
    facts, found = moves(end=end)
    assert [facts.script.devices.known.is_needless(m) for m in found] == [is_needless]


def test_one_that_each_round_makes_anew_is_prepared_each_time() -> None:
    text = DEVICE.join(("import torch\nfrom torch import nn\n", "for fold in range(3):\n"))
    steps = ["model = nn.Linear(4, 1).to(device)", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"]
    steps += ["for x in torch.utils.data.DataLoader(rows):", "    model(x).mean().backward()", "    optimizer.step()"]
    facts = Facts(text + "".join(f"    {step}\n" for step in steps))
    assert [facts.script.devices.known.is_needless(m) for m in facts.script.devices.moves] == [True]


TRIED = """\
import torch
from torch import nn
net = nn.Linear(4, 2)
net.cuda()
{between}
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(rows):
    net(x).mean().backward()
    optimizer.step()
{end}
"""


@pytest.mark.parametrize(
    ("between", "end", "needless"),
    [
        ("print(net.forward(torch.ones(8, 4)))", "", [False]),
        ("torch.multiprocessing.Process(target=watch, args=(net,)).start()", "", [False]),
        ("print(net)", "", [True]),
        ("", "net.head = nn.Linear(8, 2)\nnet.cuda()\nnet(x)", [True, False]),
        ("", "net.body.head = nn.Linear(8, 2)\nnet = net.cuda()\nnet(x)", [True, False]),
        ("", "net.cuda()\nnet(x)", [True, True]),
    ],
)
def test_a_model_that_is_used_or_changed_between_is_moved(between: str, end: str, needless: list[bool]) -> None:
    facts = Facts(TRIED.format(between=between, end=end))
    assert [facts.script.devices.known.is_needless(m) for m in facts.script.devices.moves] == needless


@pytest.mark.parametrize(
    ("made", "moved", "stays"),
    [
        ("vendor.TopLoss(2)", "loss.cuda()", True),
        ("losses.svm.TopLoss()", "if torch.cuda.is_available(): loss.cuda()", True),
        ("vendor.TopLoss(2)", "loss.cuda(1)", False),
        ("vendor.TopLoss(2)", "loss.to('cuda')", False),
        ("vendor.top_loss(2)", "loss.cuda()", False),
        ("nn.CrossEntropyLoss(torch.ones(2))", "loss.cuda()", False),
    ],
)
def test_an_object_of_a_library_s_class_moves_itself(made: str, moved: str, stays: bool) -> None:
    text = script(before=f"import vendor, losses\nloss = {made}\n{moved}\n", model="model.cuda()\n")
    assert (f"\n{moved}\n" in migrated(text)) is stays


TAKES = """\
import torch
from torch import nn

def train(model, loader, norm{said}):
    opt = torch.optim.Adam(model.parameters())
    {moved}
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        opt.zero_grad()
        loss = ((norm.decode(model(x)) - y) ** 2).mean()
        {used}
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("said", "moved", "used"),
    [
        ("", "norm.cuda()", ""),
        ("=None", "if norm is not None: norm.cuda()", "loss = loss + norm.mean"),
        ("", "norm.inner.cuda()", ""),
        (": 'Normalizer'", "norm.cuda()", ""),
        ("", "norm.cuda()", "norm.cpu()"),
    ],
)
def test_an_object_of_which_nothing_tells_the_class_moves_itself(said: str, moved: str, used: str) -> None:
    result = run(TAKES.format(said=said, moved=moved, used=used))
    assert moved in result.after.decode()
    (note,) = (n for n in result.notes if n.rule == "own_methods")
    assert "nothing here tells the class" in note.message
    assert moved in result.after.decode().splitlines()[note.line - 1]


@pytest.mark.parametrize(
    ("said", "moved", "used"),
    [
        ("", "norm.cuda()", "loss = loss + norm(x)"),
        ("", "norm.cuda()", "norm.eval()"),
        ("", "norm.cuda()", "print(norm.state_dict())"),
        ("", "norm.cuda()", "norm.to(x.device)"),
        ("", "norm = norm.cuda()", ""),
        (": nn.Module", "norm.cuda()", ""),
    ],
)
def test_a_module_or_a_tensor_by_its_use_goes_to_the_accelerator(said: str, moved: str, used: str) -> None:
    result = run(TAKES.format(said=said, moved=moved, used=used))
    assert f"    {moved.replace('cuda()', 'to(accelerator.device)')}\n" in result.after.decode()
    assert all(n.rule != "own_methods" for n in result.notes)


def test_a_loss_that_is_passed_goes_to_the_accelerator() -> None:
    text = TAKES.format(said="", moved="norm.cuda()", used="loss = norm(model(x), y)").replace("norm", "criterion")
    assert "criterion.to(accelerator.device)" in migrated(text)


FOR_WORKERS = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    @property
    def device(self):
        return self.layer.weight.device
    def forward(self, x):
        return self.layer(x)

def place(workers, model):
    return "cpu" if workers else model.device

args = argparse.ArgumentParser().parse_args()
model = Net().cuda()
device = {device}
loader = DataLoader(rows, 4, num_workers=args.workers, collate_fn=lambda r: torch.tensor(r, device=device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("device", "stays"),
    [
        ('"cpu" if args.workers else model.device', True),
        ("model.device if args.workers == 0 else 'cpu'", True),
        ("place(args.workers, model)", True),
        ('"cpu" if args.cpu else "cuda"', False),
    ],
)
def test_a_device_that_may_be_where_a_model_is_stays(device: str, stays: bool) -> None:
    after = migrated(FOR_WORKERS.format(device=device))
    assert ("device = accelerator.device\n" not in after) is stays
    assert (f"device = {device}\n" in after) is stays
