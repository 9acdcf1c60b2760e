"""A script that names no device lets devices mix if it makes tensors itself, or reads them in the CPU's memory."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from accelify.codemod.devices.own_tensors import Homemade, Mixing
from accelify.codemod.options import ACCELERATE
from accelify.codemod.result import FileResult
from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, script, training

ON_THE_CPU = "accelerator = Accelerator(cpu=True)\n"
MIXED = "accelerator = Accelerator(mixed_devices=True)\n"
SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("shift", torch.zeros(1))
        {built}
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        {forward}
        return self.layer(x) * self.scale + self.shift

def error(out, y):
    return F.mse_loss(out, y)

def halves(x):
    return x / 2

data = TensorDataset(torch.randn(16, 4), torch.randn(16, 4))
loader = DataLoader(data, batch_size=2)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{after}
"""


def rewritten(options: Options | None = None, **slots: str) -> FileResult:
    """The script with something put into it."""
    slots = {"built": "pass", "forward": "pass", "loss": "error(model(x), y)", "after": "", **slots}
    return run(SCRIPT.format(**slots), options)


NOT_UNDERSTOOD = [
    ({"after": "print(model(data.tensors[0]))"}, "data.tensors[0]"),
    ({"after": "print(model(data[0][0]))"}, "data[0][0]"),
    ({"built": "self.mask = torch.ones(4)"}, "torch.ones(4)"),
    ({"forward": "x = nn.Linear(4, 4)(x) + torch.ones(4)"}, "torch.ones(4)"),
    ({"after": "import pickle\nh = torch.ones(1, 4)\nprint(pickle.dumps(model(h)))"}, "h"),
    ({"after": "import numpy as np\nh = torch.ones(1, 4)\nnp.random.shuffle(model(h))"}, "h"),
]
MADE_FOR_THE_CPU = [
    ({"forward": "assert isinstance(x, torch.FloatTensor)"}, "x"),
    ({"loss": "error(model(x), y) if y.type() == 'torch.FloatTensor' else None"}, "y"),
]


@pytest.mark.parametrize("slots", [slots for slots, _ in NOT_UNDERSTOOD])
def test_where_one_is_not_understood_operations_mix_devices(slots: dict[str, str]) -> None:
    result = rewritten(**slots)
    assert MIXED in result.after.decode()
    assert ".to(accelerator" not in result.after.decode()
    assert not [n for n in result.notes if n.rule == "own_tensors"]


@pytest.mark.parametrize(
    "slots",
    [
        {
            "built": "self.base = torch.distributions.Normal(torch.zeros(4), torch.ones(4))",
            "forward": "return self.base.log_prob(self.layer(x))",
        },
        {"built": "self.body = nn.ModuleList([nn.Linear(4, 4)])", "after": "print(model.body[0](torch.ones(1, 4)))"},
        {"after": "best = torch.load('model.pt', weights_only=False)\nprint(best.sample(3).detach().numpy())"},
        {"after": "apart = nn.Linear(4, 4).to('cpu')\nprint(apart(next(iter(loader))[0]))"},
        {"after": "import functools\nprint(functools.reduce(lambda a, b: a + b, [model(data[0][0]), data[0][1]]))"},
    ],
)
def test_what_only_seems_to_be_understood_mixes_devices(slots: dict[str, str]) -> None:
    assert MIXED in rewritten(**slots).after.decode()


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"after": "print('{:.2f}'.format(error(model(x), y)))"},
        {"forward": "x = torch.cat([x, x * 2], 1)[:, :4]"},
        {"after": "import numpy as np\nprint(np.mean([error(model(x), y).item()]))"},
        {"built": "self.body = nn.ModuleList([nn.Linear(4, 4)])", "forward": "for layer in self.body: x = layer(x)"},
    ],
)
def test_what_is_understood_mixes_none(slots: dict[str, str]) -> None:
    assert "accelerator = Accelerator()\n" in rewritten(**slots).after.decode()


@pytest.mark.parametrize(
    ("slots", "where", "options"),
    [(*case, None) for case in MADE_FOR_THE_CPU]
    + [(*case, Options(runtime=ACCELERATE)) for case in NOT_UNDERSTOOD[:3]],
)
def test_what_cannot_leave_it_keeps_the_script_on_the_cpu(
    slots: dict[str, str], where: str, options: Options | None
) -> None:
    result = rewritten(options, **slots)
    assert ON_THE_CPU in result.after.decode()
    (note,) = [n for n in result.notes if n.rule == "own_tensors"]
    assert f"what meets at `{where}` may be on two" in note.message
    assert ".to(accelerator" not in result.after.decode()


OWN = [
    {"after": "print(model(torch.ones(1, 4)))"},
    {"after": "h = torch.randn(1, 4, requires_grad=True)\nmodel(h)"},
    {"after": "h = torch.FloatTensor([[1, 2]]).repeat(1, 2)\nmodel(2 * h)"},
    {"after": "h = torch.autograd.Variable(torch.Tensor([[1, 2, 3, 4]]))\nmodel(h)"},
    {"loss": "F.mse_loss(model(x), torch.ones(2, 4))"},
    {"loss": "error(model(halves(torch.ones(2, 4))), y)"},
    {"forward": "x = x + torch.zeros(1)"},
    {"after": "rows = torch.ones(8, 4)\nfor i in range(4):\n    model(rows[2 * i : 2 * i + 2])"},
    {"after": "for x, y in DataLoader(data):\n    print(error(model(x), y))"},
    {"after": "for i, (x, y) in enumerate(DataLoader(data)):\n    print(i, model(x), y)"},
    {"after": "for batch in DataLoader(data):\n    x, y = batch\n    print(error(model(x), y))"},
    {"after": "torch.onnx.export(model, torch.ones(1, 4), 'model.onnx')\nmodel(torch.ones(1, 4))"},
    {"after": "for p in model.parameters():\n    p.data.add_(torch.randn(p.shape))"},
    {"after": "tries = iter(DataLoader(data))\nx, y = next(tries)\nprint(model(x))"},
    {"after": "loop = enumerate(DataLoader(data))\nfor i, (x, y) in loop:\n    print(error(model(x), y))"},
    {"after": "other = Net()\nfor x, y in loader:\n    print(other(x) - model(x))"},
    {"after": "def made():\n    return torch.zeros(1, 4, requires_grad=True), 1\n\nh, n = made()\nmodel(h)"},
    {"forward": "x = x + torch.zeros(1, device=x.device)", "after": "print(model(halves(torch.ones(1, 4))))"},
]
READ = [
    "y.numpy()",
    "(x + 1).data.numpy()",
    "np.array(y - x)",
    "torch.FloatTensor(x.float())",
    "torch.max(model(x), 1)[1].data.numpy()",
    "rnn.pack_padded_sequence(x, y.long(), True)",
    "axes[0].scatter(x[:, 0], x[:, 1], c=y)",
    "PCA(2).fit_transform(x)",
    "np.concatenate([x, y])",
    "seen.append(y); np.array(seen)",
    "seen.extend(list(y)); plt.plot(seen)",
    "rows[0:2] = x",
    "rows[y.long()].sum()",
    "confusion_matrix(y, model(x).argmax(1))",
    "np.asarray(vendor.rows(y).detach())",
]
IMPORTS = """\
import vendor
import numpy as np
import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix
from torch.nn.utils import rnn
figure, axes = plt.subplots(1, 2)
seen, rows = [], np.zeros((2, 4))
for x, y in loader:
    y = y * 2
    y = y - 1
    {}
    error(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("slots", [*OWN, *({"after": IMPORTS.format(read)} for read in READ)])
def test_what_meets_in_two_memories_is_left_to_the_runtime(slots: dict[str, str]) -> None:
    result = rewritten(**slots)
    after = result.after.decode()
    assert MIXED in after
    assert not any(text in after for text in (".to(accelerator", "device=accelerator", ".cpu()"))
    assert not [n for n in result.notes if n.rule == "own_tensors"]


@pytest.mark.parametrize(
    "kept",
    [
        "print(np.shape(x), np.ndim(y))",
        "axes[0].set_title(y[0])",
        "print(np.mean([t.item() for t in y]))",
        "print(np.array([len(x), x.shape[0], float(y[0])]))",
        "axes[0].plot(x.cpu(), y.tolist())",
        "print(x * np.sqrt(2))",
        "axes[0].text(0, 0, 'loss %.3f' % y.mean())",
        "print(y.cpu().numpy(), y.to('cpu').numpy(), torch.zeros(1).numpy())",
        "rnn.pack_padded_sequence(x, y.tolist())",
    ],
)
def test_what_reads_no_tensor_of_the_device_mixes_none(kept: str) -> None:
    assert "accelerator = Accelerator()\n" in rewritten(after=IMPORTS.format(kept)).after.decode()


EARLY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def features(self, x):
        return self.layer(x)

    def forward(self, x):
        return self.features(x)

def width_of(net):
    net.eval()
    return net(torch.randn(2, 4)).shape[1]

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 6)), batch_size=8)
{made}
model = Net()
{early}
head = nn.Linear(6, 6)
both = nn.ModuleList([model, head])
optimizer = torch.optim.SGD(both.parameters(), lr=0.1)
{moved}
for x, y in loader:
    loss = (head(model(x{there})) - y{there}).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{later}
"""
MOVES = ["both.cuda()", "model.cuda()\nhead.cuda()", "parts = nn.ModuleList([model, head])\nparts.to('cuda')"]


def ran_early(moved: str, **slots: str) -> tuple[str, list[str]]:
    """What comes out of a script whose model runs before it is moved, and the notes on its tensors."""
    slots = {"made": "", "early": "", "later": "", "moved": moved, "there": ".cuda()" if moved else "", **slots}
    result = run(EARLY.format(**slots))
    return result.after.decode(), [n.message for n in result.notes if n.rule == "own_tensors"]


@pytest.mark.parametrize("moved", MOVES)
@pytest.mark.parametrize(
    "early",
    [
        "print(model(torch.ones(1, 4)))",
        "probe = torch.randn(2, 4)\nwidth = model(probe).shape[1]",
        "width = width_of(model)",
        "width = width_of(net=model)",
        "print(model.features(torch.randn(2, 4)).shape)",
        "print(nn.functional.mse_loss(model(torch.zeros(2, 4)), torch.ones(2, 6)))",
        "for _ in range(3):\n    print(model(torch.randn(2, 4)))",
    ],
)
def test_what_runs_before_the_models_are_moved_stays_in_cpu_memory(moved: str, early: str) -> None:
    after, notes = ran_early(moved, early=early)
    assert f"model = Net()\n{early}\n" in after
    assert "net(torch.randn(2, 4)).shape[1]\n" in after
    assert "mixed_devices" not in after
    assert notes == []


@pytest.mark.parametrize(
    "run_between",
    ["print(model(torch.ones(1, 4).cuda()))", "print(head(torch.ones(1, 6).cuda()))", "print(show(torch.ones(1, 4)))"],
)
def test_a_move_stays_that_a_part_of_the_model_runs_after(run_between: str) -> None:
    made = "def show(x):\n    return model(x.cuda())"
    text = EARLY.replace("optimizer =", f"both.cuda()\n{run_between}\noptimizer =")
    slots = {"made": made, "early": "", "moved": "", "later": "", "there": ".cuda()"}
    assert "both.to(accelerator.device)\n" in run(text.format(**slots)).after.decode()


@pytest.mark.parametrize("moved", ["", *MOVES])
def test_a_batch_for_a_model_that_is_not_moved_yet(moved: str) -> None:
    after, notes = ran_early(moved, early="for x, y in loader:\n    print(model(x))\n    break")
    assert "    print(model(x))\n    break\n" in after
    assert f"Accelerator({'device_placement=False' if moved else 'mixed_devices=True'})\n" in after
    assert notes == []


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"loss": "error(model(halves(x)), y)"},
        {"loss": "F.mse_loss(model(x), torch.zeros_like(y))"},
        {"forward": "x = x + torch.zeros_like(x)"},
        {"after": "print(torch.ones(1))"},
    ],
)
def test_batches_alone_do_not(slots: dict[str, str]) -> None:
    result = rewritten(**slots)
    assert "accelerator = Accelerator()\n" in result.after.decode()
    assert not [n for n in result.notes if n.rule == "own_tensors"]


def test_a_script_that_names_a_device_is_taken_at_its_word() -> None:
    after = rewritten(after="print(model(torch.ones(1, 4, device=model.scale.device)))").after.decode()
    assert "accelerator = Accelerator()\n" in after


def test_what_is_made_where_a_tensor_is_is_there() -> None:
    for made in ("torch.ones(1, 4, device=model.scale.device)", "torch.ones(1, 4).to(model.scale.device)"):
        after = rewritten(
            forward="x = x + torch.zeros(1, device=x.device)", after=f"print(model({made}))"
        ).after.decode()
        assert "accelerator = Accelerator()\n" in after


@pytest.mark.parametrize(
    "named",
    [
        "{chosen}",
        "{chosen}\nprint(device)",
        "print('GPU', torch.cuda.is_available())",
        "if torch.cuda.is_available(): torch.cuda.manual_seed_all(0)",
    ],
)
def test_a_device_that_is_only_looked_at_is_none(named: str) -> None:
    chosen = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    made = "print(model(torch.ones(1, 4)))"
    after = rewritten(after=f"{named.format(chosen=chosen)}\n{made}").after.decode()
    assert MIXED in after
    moved = rewritten(after=f"{chosen}\nmodel.to(device)\n{made}").after.decode()
    assert MIXED not in moved


def test_a_device_among_the_settings_of_a_dict_is_a_name_for_one() -> None:
    moved = 'config = {"device": "cpu"}\nfor x, y in loader:\n    x = x.to(config["device"])\n    print(x.sum())'
    after = rewritten(after=f"{moved}\nprint(model(torch.ones(1, 4).to(config['device'])))").after.decode()
    assert "torch.ones(1, 4).to(accelerator.device)" in after
    assert "x = x.to(accelerator.device)" in after


def test_where_tensors_may_be_in_two_memories_is_known() -> None:
    script = training(step=f"{STEP}print(x.numpy())").script
    lattice = script.devices.lattice
    assert Homemade(lattice, script.training.backwards).find() is None
    assert ast.unparse(Mixing(lattice).first()) == "x"
    assert Mixing(training().script.devices.lattice).first() is None


def test_what_is_trained_without_a_model_stays_too() -> None:
    script = textwrap.dedent("""\
        import torch
        weights = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.SGD([weights], lr=0.1)
        for step in range(2):
            loss = (weights - 1).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    assert ON_THE_CPU in run(script).after.decode()


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("nn.ModuleList([embed, head])", "head(embed(rows))"),
        ("nn.Sequential(embed, head)", "head(embed(rows))"),
        ("nn.ModuleDict({'embed': embed, 'head': head})", "head(embed(rows))"),
    ],
)
def test_what_the_parts_of_a_model_get_meets_them(model: str, output: str) -> None:
    script = textwrap.dedent(f"""\
        import torch
        from torch import nn
        embed, head = nn.Linear(4, 8), nn.Linear(8, 1)
        model = {model}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rows = torch.stack([torch.randn(4) for _ in range(8)])
        for step in range(2):
            loss = {output}.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    after = run(script).after.decode()
    assert MIXED in after


GIVEN = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, rows, get_batch):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.rows, self.get_batch = rows, get_batch

    def fit(self, loader):
        for _ in range(10):
            self.step(loader)

    def step(self, loader):
        {batch}
        loss = self.model(batch).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    "batch",
    ["batch = self.rows", "batch = self.get_batch()", "batch, _ = self.get_batch('train')", "batch = self.rows[:8]"],
)
def test_what_an_unknown_caller_gives_is_not_said_to_be_in_cpu_memory(batch: str) -> None:
    assert "self.accelerator = Accelerator(mixed_devices=True)\n" in run(GIVEN.format(batch=batch)).after.decode()
    result = run(GIVEN.format(batch=batch), Options(runtime=ACCELERATE))
    assert "self.accelerator = Accelerator()\n" in result.after.decode()
    note = next(n for n in result.notes if n.rule == "own_tensors")
    assert note.message.startswith("`batch` and what it is computed with may now be on different devices")


@pytest.mark.parametrize("batch", ["batch = next(iter(loader))", "batch = nn.Linear(2, 4)(torch.ones(2))"])
def test_what_it_makes_itself_and_batches_are(batch: str) -> None:
    assert "different devices" not in str(run(GIVEN.format(batch=batch)).notes)


WORDS = """\
class Words:
    def __iter__(self):
        self.k = 0
        return self

    def __next__(self):
        self.k += 1
        if self.k > 4:
            raise StopIteration()
        context, target = [{made} for x in ((1, 2, 3, 4), (4, 3, 2, 1))]
        return context, target

for a, b in Words():
    loss = error(model(a), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_an_iterator_of_the_script_yields_meets_the_model() -> None:
    after = rewritten(after=WORDS.format(made="torch.tensor(x)")).after.decode()
    assert MIXED in after


def test_where_an_iterator_yields_what_is_not_understood_operations_mix_devices() -> None:
    made = "pickle.loads(bytes(x))"
    assert MIXED in rewritten(after="import pickle\n" + WORDS.format(made=made)).after.decode()
    given = "import pickle\nwith pickle.load(open('x')) as h:\n    print(model(h))"
    assert MIXED in rewritten(after=given).after.decode()


FIRST_ON_THE_CPU = """\
import torch
import torch.nn.functional as F
from torch import nn, optim

x, y = torch.randn(48, 2), torch.randint(2, (48,))

def net(x):
    return torch.matmul(x, weights)

weights = torch.randn(2, 2)
print(net(x))

def fit({parameters}):
    optimizer = optim.SGD(net.parameters(), lr=0.2)
    for epoch in range(5):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

net = nn.Linear(2, 2)
fit({parameters})
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
{moved}
net = nn.Linear(2, 2)
net.to(device)
fit({parameters})
"""


def test_a_model_that_is_trained_before_any_is_moved_has_its_data_there() -> None:
    after = run(FIRST_ON_THE_CPU.format(parameters="", moved="x, y = x.to(device), y.to(device)")).after.decode()
    assert "device_placement=False)" in after
    assert ".cpu()" not in after


def test_a_function_whose_models_are_here_and_there_leaves_them_there() -> None:
    given = FIRST_ON_THE_CPU.format(parameters="net, x, y", moved="x, y = x.to(device), y.to(device)")
    assert "device_placement=False" in run(given).after.decode()
    plain = given.replace("net = nn.Linear(2, 2)\nfit(net, x, y)\n", "", 1)
    assert "device_placement=False" not in run(plain).after.decode()


@pytest.mark.parametrize(
    ("slots", "is_said"),
    [
        ({}, True),
        ({"model": "model.to('cpu')"}, True),
        ({"model": "model = model.float()", "before": "rows = [torch.randn(2, 4, 1)]"}, True),
        ({"before": "device = 'cpu'", "model": "model.to(device)"}, False),  # said of `device`
        ({"model": "model.cuda()"}, False),
        ({"before": "device = 'cuda' if torch.cuda.is_available() else 'cpu'", "model": "model.to(device)"}, False),
    ],
)
def test_a_script_of_the_cpu_is_told_that_it_moves_with_the_batch_size(slots: dict[str, str], is_said: bool) -> None:
    found = run(script(**slots)).notes
    notes = [n.message for n in found]
    assert any(". The script trained on the CPU, and now" in n for n in notes) is is_said
    assert not is_said or {n.rule for n in found} == {"batch_size"}
    assert is_said or "device = 'cpu'" not in slots.values() or any("no longer keeps the training" in n for n in notes)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ("x, y = torch.randn(8, 4), torch.randn(8, 1)\nfor epoch in range(2):\n", "data"),
        ("for epoch in range(2):\n    x, y = torch.randn(8, 4), torch.randn(8, 1)\n", "data"),
    ],
)
def test_without_a_loader_the_note_on_the_data_says_so(data: str, rule: str) -> None:
    head, _, _ = script().partition("for epoch")
    text = head.replace("loader = DataLoader(rows, batch_size=2)\n", "") + data + textwrap.indent(STEP, " " * 4)
    result = run(text)
    (note,) = result.notes
    assert note.rule == rule
    assert "The script trained on the CPU" in note.message


NAMED_CPU = """\
import argparse
import torch
from torch import nn
args = argparse.Namespace()
class Settings:
    dev = "cpu"
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.layer = nn.Embedding(9, 1)
    def forward(self, x):
        return self.layer(torch.LongTensor(x).to(self.device)).sum()
{mask}
model = Net(device="cpu"){moved}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [[1, 2], [3, 4]]:
    loss = model(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("mask", "moved", "is_said"),
    [
        ("", "", True),
        ("mask = torch.ones(3, device=args.dev)", "", True),
        ("mask = torch.ones(3, device=Settings().dev)", "", True),
        ("mask = torch.ones(3).to(Settings.dev)", "", True),
        ("mask = torch.ones(3, device=args.dev)", ".to(args.dev)", True),
        ("mask = torch.ones(3, device='cuda')", "", False),
    ],
)
def test_a_device_that_is_not_known_is_no_gpu_where_no_model_is_moved(mask: str, moved: str, is_said: bool) -> None:
    result = run(NAMED_CPU.format(mask=mask, moved=moved))
    after = result.after.decode()
    assert "self.device = accelerator.device\n" in after
    assert "model = Net()\n" in after
    assert any("to train on the CPU" in n.message or "on the CPU: use" in n.message for n in result.notes) is is_said


DEFAULT_TYPE = "torch.set_default_tensor_type('torch.cuda.FloatTensor')"


@pytest.mark.parametrize(
    ("setting", "is_on_gpu"),
    [
        (DEFAULT_TYPE, True),
        (f"if torch.cuda.is_available():\n    {DEFAULT_TYPE}", True),
        ("torch.set_default_device('cuda')", True),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", False),
        ("torch.set_default_device('cpu')", False),
    ],
)
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_script_whose_tensors_are_made_on_the_gpu_by_default(
    setting: str, is_on_gpu: bool, is_elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = "from common import name" if is_elsewhere else setting
    text = script(before=f"{before}\nrows = torch.randn(8, 4)", step=STEP.replace("y)", "torch.ones(2, 1))"))
    Path("main.py").write_text(text)
    Path("common.py").write_text(f"import torch\n{setting}\nname = 'a'\n")
    (result,) = rewrite_together(("main.py",), Options())
    assert (MIXED in result.after.decode()) is not is_on_gpu
    assert ("Accelerator(device_placement=False)" in result.after.decode()) is is_on_gpu
    assert any("script trained on the CPU" in n.message for n in result.notes) is not is_on_gpu
