"""A script that does anything else with a batch than to move all of it to its GPU keeps its own moves."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.arrivals import Arrivals
from tests.codemod.facts import texts
from tests.codemod.pairs import KEPT, changed, migrated, run, script
from tests.codemod.training_scripts import training

MOVED = "x, y = x.to(device), y.to(device)"
GONE = f"-{MOVED}"


@pytest.mark.parametrize(
    ("batch", "gone"),
    [
        (MOVED, [GONE]),
        ("x = x.to(device)\ny = y.to(device)", ["-x = x.to(device)", "-y = y.to(device)"]),
        (f"print(len(x), x.shape[0], y.size(0), y.dim(), isinstance(x, dict))\n{MOVED}", [GONE]),
        (f"if y is None: continue\n{MOVED}", [GONE]),
        (f"{MOVED}\nright = model(x).cpu() == y.cpu()", [GONE]),
        (
            "x, y = x.float().to(device), y.view(-1, 1).to(device)",
            ["-x, y = x.float().to(device), y.view(-1, 1).to(device)", "+x, y = x.float(), y.view(-1, 1)"],
        ),
        (
            "x, y = x.pin_memory().to(device, non_blocking=True), y.to(device)",
            ["-x, y = x.pin_memory().to(device, non_blocking=True), y.to(device)"],
        ),
        (
            "x = x.pin_memory().cuda()\ny = y.pin_memory().to(device)",
            ["-x = x.pin_memory().cuda()", "-y = y.pin_memory().to(device)"],
        ),
        (
            "x, y = x.pin_memory().to(device, torch.float64).float(), y.to(device)",
            [
                "-x, y = x.pin_memory().to(device, torch.float64).float(), y.to(device)",
                "+x = x.to(torch.float64).float()",
            ],
        ),
        ("x, y = map(lambda t: t.cuda(), (x, y))", ["-x, y = map(lambda t: t.cuda(), (x, y))"]),
        ("y, x = [t.to(device) for t in (x, y)]", ["-y, x = [t.to(device) for t in (x, y)]", "+y, x = (x, y)"]),
        (f"x, y = torch.cat([x, x], dim=0), torch.cat((y, y))\n{MOVED}", [GONE]),
        (
            "rows = [y, y]\nx, y = torch.stack([x, x])[1].to(device), torch.stack(rows)[0].to(device)",
            [
                "-x, y = torch.stack([x, x])[1].to(device), torch.stack(rows)[0].to(device)",
                "+x, y = torch.stack([x, x])[1], torch.stack(rows)[0]",
            ],
        ),
    ],
)
def test_a_batch_that_is_moved_first_of_all_is_moved_by_its_loader(batch: str, gone: list[str]) -> None:
    changed(*gone, "-model.to(device)", batch=batch, model="model.to(device)")


@pytest.mark.parametrize(
    "batch",
    [
        f"{MOVED.replace('y.to(device)', 'y')}\nright = model(x).cpu() == y",  # a part that stays
        f"seen.append(y)\n{MOVED}",
        f"print(y.numpy().sum())\n{MOVED}",
        f"vendor.look(x)\n{MOVED}",
        f"x = x + torch.ones(4)\n{MOVED}",
        f"x = torch.cat([x, torch.ones(1, 4)])\n{MOVED}",
        f"x = torch.stack([x, vendor.changed(x)]).mean(0)\n{MOVED}",
        f"x /= 255\n{MOVED}",
        f"noise = torch.randn_like(x)\n{MOVED}",
        f"w = weights[y.long()]\n{MOVED}",
        f"if x.sum() > 0: print(x)\n{MOVED}",
        f"shown(x)\n{MOVED}",
        f"x, y = x.pin_memory(), y.pin_memory()\n{MOVED}",  # which is for what is in the CPU's memory
    ],
)
def test_a_batch_of_which_more_is_read_stays_where_it_is(batch: str) -> None:
    before = "seen, weights = [], torch.ones(3)\ndef shown(rows):\n    print(rows.mean())"
    after = run(script(imports="import vendor", before=before, model="model.to(device)", batch=batch)).after.decode()
    assert f"accelerator = {KEPT}\n" in after
    assert "device = accelerator.device\n" in after
    kept = [line for line in batch.splitlines() if line.strip()]
    assert all(line in after for line in (*kept, "model.to(device)"))
    assert ".cpu()" not in after.replace("model(x).cpu()", "")


def test_what_is_read_is_found_where_it_is_read() -> None:
    devices = training(model="model.cuda()\n", batch="seen = x, x.cuda()\nprint(x.sum())\n").script.devices
    arrivals = Arrivals(devices.lattice, devices.moves)
    assert "x" in texts(arrivals.reads())
    assert not [*arrivals.brought_by_wrapper()]


def test_a_gpu_that_is_named_is_still_the_accelerators() -> None:
    batch = "print(y.numpy())\nx, y = x.cuda(), y.to('cuda:0')"
    after = run(script(model="model.cuda(0)", batch=batch)).after.decode()
    assert "        x, y = x.to(accelerator.device), y.to(accelerator.device)\n" in after
    assert "model.to(accelerator.device)\n" in after
    assert KEPT in after


def test_a_batch_is_followed_through_functions_attributes_and_generators() -> None:
    held = "class Step:\n    def take(self, pair):\n        self.pair = pair\n    def go(self):\n        {}\n"
    given = "step = Step()\nstep.take(x)\nx, y = step.go(), y.to(device)"
    moved = held.format("return self.pair.to(device)")
    assert "accelerator = Accelerator()\n" in migrated(script(before=moved, model="model.to(device)", batch=given))
    read = held.format("print(self.pair.mean()); return self.pair.to(device)")
    assert KEPT in migrated(script(before=read, model="model.to(device)", batch=given))


WRAPPED = "model = nn.DataParallel(model).cuda()"


def test_what_a_wrapper_brought_to_its_model_is_brought_by_the_loader() -> None:
    after = migrated(script(model=WRAPPED, batch="y = y.cuda()"))
    assert "device_placement" not in after
    both = migrated(script(model=WRAPPED, batch="print(y.numpy())\ny = y.cuda()"))
    assert "split_batches=True, device_placement=False, mixed_devices=True" in both
    assert "y.numpy()" in both


@pytest.mark.parametrize("between", ["vendor.summary(model)", "pass"])
def test_a_model_that_may_stay_in_cpu_memory_does_so_where_a_wrapper_goes(between: str) -> None:
    wrapped = "if vendor.several:\n    model = nn.DataParallel(model)"
    model = f"if vendor.flag: model.cuda()\n{between}\n{wrapped}"
    after = migrated(script(imports="import vendor", model=model, batch="x = x.cuda() if vendor.flag else x"))
    assert "device_placement=False, mixed_devices=True" in after
    assert "if vendor.flag: model.to(accelerator.device)\n" in after
    assert "x = x.to(accelerator.device) if vendor.flag else x\n" in after


def test_a_model_that_is_moved_under_a_condition_stays_where_the_script_has_it() -> None:
    batch = "if vendor.flag:\n    x, y = x.cuda(), y.cuda()"
    after = migrated(script(imports="import vendor", model="if vendor.flag:\n    model.cuda()", batch=batch))
    assert KEPT in after
    assert after.count("if vendor.flag:") == 2


def test_a_model_that_the_script_never_moves_beside_one_that_it_does() -> None:
    second = """
    small = nn.Linear(4, 1)
    steps = torch.optim.SGD(small.parameters(), lr=0.1)
    for a, b in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2):
        steps.zero_grad()
        nn.functional.mse_loss(small(a), b).backward()
        steps.step()
    """
    after = migrated(script(model="model.to(device)", batch=MOVED, end=second))
    assert KEPT in after
    assert "small(a), b)" in after


OF_NUMBERS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.randn(4), i % 3

def made(numbers): return torch.LongTensor(numbers).cuda()

loader = DataLoader(Rows(){size})
model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for {batch} in loader:
    {taken}
    loss = nn.functional.cross_entropy(model(x.cuda()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("batch", "taken", "read"),
    [
        ("x, y", "y = torch.LongTensor(y).cuda()", "torch.LongTensor(y)"),
        ("x, y", "y = made(y)", "torch.LongTensor(numbers)"),
        ("both", "x, n = both; y = torch.LongTensor(n).cuda()", "torch.LongTensor(n)"),
        ("both", "x = both[0]; y = torch.LongTensor(both[1]).cuda()", "torch.LongTensor(both[1])"),
    ],
)
def test_numbers_that_a_script_with_a_gpu_makes_a_tensor_stay_where_they_are(batch: str, taken: str, read: str) -> None:
    after = migrated(OF_NUMBERS.format(size=", batch_size=8", batch=batch, taken=taken))
    assert read in after
    assert KEPT in after


@pytest.mark.parametrize(
    ("model", "is_kept"),
    [
        ("", True),
        ("criterion = torch.nn.MSELoss()\ncriterion.to(device)", True),
        ("model.to(device)", False),
        ("for part in vendor.parts(model): part.to(device)", False),
        ("kind = torch.cuda.FloatTensor\nmodel.type(kind)", False),
    ],
)
def test_a_model_that_no_code_moves_stays_where_it_is(model: str, is_kept: bool) -> None:
    after = run(script(imports="import vendor", model=model, batch=f"if use_cuda:\n    {MOVED}")).after.decode()
    assert (f"accelerator = {KEPT}\n" in after) is is_kept


@pytest.mark.parametrize(
    ("rounds", "device", "is_kept"),
    [
        ("device in ['cpu', 'cuda']", "device", True),
        ("number, device in enumerate(['cpu', 'cuda'])", "device", True),
        ("run in vendor.runs(device=['cpu', 'cuda'])", "torch.device(run.device)", True),
        ("number in range(2)", "torch.device('cuda')", False),
    ],
)
def test_a_device_of_each_round_stays(rounds: str, device: str, is_kept: bool) -> None:
    after = migrated(f"""\
import torch, vendor
from torch import nn
from torch.utils.data import DataLoader
for {rounds}:
    place = {device}
    model = nn.Linear(4, 1).to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(vendor.rows):
        x = x.to(place)
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
""")
    assert (KEPT in after) is is_kept
    assert (f"    place = {device}\n    model = nn.Linear(4, 1).to(place)\n" in after) is is_kept
    assert ("x = x.to(place)\n" in after) is is_kept


AGENT = """\
import torch
from torch import nn
class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.where = "cpu"
    def place(self, device="cpu"):
        {move}
    def update(self, x):
        loss = self.net(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
agent = Agent()
for episode in range(4):
    agent.place("cpu")
    x = agent.net(torch.randn(4, 4)).detach().repeat(1, 2)
    agent.place("gpu")
    agent.update(x.cuda())
"""
BY_FUNCTION = """\
move = (lambda m: m.cuda()) if device == "gpu" else (lambda m: m.cpu())
        if self.where != device:
            self.net = move(self.net)
            self.where = device"""
BY_METHOD = """\
if not self.where == device:
            self.net.cuda() if device == "gpu" else self.net.cpu()
            self.where = device"""
BY_NAME = """\
if self.where != device:
            if device == "gpu":
                self.net.cuda()
            else:
                self.net.cpu()
            self.where = device"""


@pytest.mark.parametrize("move", [BY_FUNCTION, BY_METHOD, BY_NAME])
def test_a_model_that_is_moved_to_and_fro_stays_where_it_is(move: str) -> None:
    after = migrated(AGENT.format(move=move))
    assert KEPT in after
    assert "self.where = device" in after
    assert ".cpu()" in after
    assert ".to(self.accelerator.device)" in after


def test_a_model_that_is_moved_without_asking() -> None:
    assert "device_placement" not in migrated(AGENT.format(move="self.net.cuda()"))


PACKED = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader
from rows import rows

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.last = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)
    def forward(self, x, lengths):
        {packed}
        return self.last(self.rnn(packed)[1][0][-1])

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, lengths, y in DataLoader(rows, batch_size=4):
    {moved}
    loss = nn.functional.mse_loss({loss})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "packed",
    [
        "packed = pack_padded_sequence(x, lengths, batch_first=True)",
        "packed = pack_padded_sequence(x, lengths.numpy(), True)",
        "lengths, order = lengths.sort(); packed = pack_padded_sequence(x, lengths, True)",
    ],
)
@pytest.mark.parametrize(
    ("moved", "loss"),
    [("x, y = x.cuda(), y.cuda()", "model(x, lengths), y"), ("x = x.cuda()", "model(x, lengths=lengths), y.cuda()")],
)
def test_what_a_model_gets_unmoved_beside_what_is_moved_stays_there(packed: str, moved: str, loss: str) -> None:
    after = migrated(PACKED.format(packed=packed, moved=moved, loss=loss))
    assert f"accelerator = {KEPT}\n" in after


def test_what_a_model_gets_is_moved_with_the_rest() -> None:
    packed = "packed = pack_padded_sequence(x, lengths.tolist(), batch_first=True)"
    moved = "x, lengths, y = x.cuda(), lengths.cuda(), y.cuda()"
    after = migrated(PACKED.format(packed=packed, moved=moved, loss="model(x, lengths), y"))
    assert "accelerator = Accelerator()\n" in after


GIVEN = """\
import numpy as np
import torch
from sklearn.metrics import accuracy_score
from torch.nn.functional import cross_entropy

def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        {moved}
        loss = cross_entropy(guess, {y})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {read}
"""


@pytest.mark.parametrize(
    ("read", "created"),
    [
        ("y.numpy()", "mixed_devices=True"),
        ("np.mean(y[0])", "mixed_devices=True"),
        ("accuracy_score(y, guess.argmax(1).cpu())", "mixed_devices=True"),
        ("y.cpu().numpy()", ""),
        ("y.tolist(), y.float().mean().item()", ""),
        ("np.mean(guess.detach().cpu().numpy())", ""),
    ],
)
def test_what_arrays_read_of_batches_that_a_caller_gives(read: str, created: str) -> None:
    after = migrated(GIVEN.format(moved="guess = model(x.cuda())", y="y.cuda()", read=f"print({read})"))
    assert f"accelerator = Accelerator({created})\n" in after


def test_batches_that_a_caller_gives_are_moved_before_arrays_read_them() -> None:
    moved = "y = y.cuda(); guess = model(x.cuda())"
    after = migrated(GIVEN.format(moved=moved, y="y", read="print(y.cpu().numpy())"))
    assert "accelerator = Accelerator()\n" in after
