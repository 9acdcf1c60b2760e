"""A script that names no device brings the tensors it makes there; if one is not understood, devices may mix."""

from __future__ import annotations

import textwrap

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.result import FileResult
from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run

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
    assert note.message.startswith(f"`{where}` is in CPU memory")
    assert ".to(accelerator" not in result.after.decode()


@pytest.mark.parametrize(
    ("slots", "there"),
    [
        ({"after": "print(model(torch.ones(1, 4)))"}, "print(model(torch.ones(1, 4, device=accelerator.device)))"),
        ({"after": "h = torch.randn(1, 4)\nmodel(h)"}, "h = torch.randn(1, 4).to(accelerator.device)"),
        (
            {"after": "h = torch.randn(1, 4, requires_grad=True)\nmodel(h)"},
            "h = torch.randn(1, 4, requires_grad=True, device=accelerator.device)",
        ),
        (
            {"after": "h = torch.FloatTensor([[1, 2]]).repeat(1, 2)\nmodel(2 * h)"},
            "h = torch.FloatTensor([[1, 2]]).repeat(1, 2).to(accelerator.device)",
        ),
        (
            {"after": "h = torch.from_numpy(rows).float()[:2]\nmodel(h)"},
            "h = torch.from_numpy(rows).float()[:2].to(accelerator.device)",
        ),
        (
            {"after": "h = torch.autograd.Variable(torch.Tensor(rows))\nmodel(h)"},
            "h = torch.autograd.Variable(torch.Tensor(rows)).to(accelerator.device)",
        ),
        (
            {"loss": "F.mse_loss(model(x), torch.ones(2, 4))"},
            "F.mse_loss(model(x), torch.ones(2, 4, device=accelerator.device))",
        ),
        (
            {"loss": "error(model(halves(torch.ones(2, 4))), y)"},
            "error(model(halves(torch.ones(2, 4, device=accelerator.device))), y)",
        ),
        ({"forward": "x = x + torch.zeros(1)"}, "x = x + torch.zeros(1, device=x.device)"),
        ({"forward": "x = x + torch.FloatTensor([1])"}, "x = x + torch.FloatTensor([1]).to(x.device)"),
        (
            {"after": "rows = torch.ones(8, 4)\nfor i in range(4):\n    model(rows[2 * i : 2 * i + 2])"},
            "rows = torch.ones(8, 4, device=accelerator.device)",
        ),
        (
            {"after": "for x, y in DataLoader(data):\n    print(error(model(x), y))"},
            "    x, y = x.to(accelerator.device), y.to(accelerator.device)\n    print(error(model(x), y))",
        ),
        (
            {"after": "for i, (x, y) in enumerate(DataLoader(data)):\n    print(i, model(x), y)"},
            "    x = x.to(accelerator.device)\n    print(i, model(x), y)",
        ),
        (
            {"after": "for batch in DataLoader(data):\n    x, y = batch\n    print(error(model(x), y))"},
            "    x, y = batch\n    x, y = x.to(accelerator.device), y.to(accelerator.device)\n    print",
        ),
        (
            {"after": "torch.onnx.export(model, torch.ones(1, 4), 'model.onnx')\nmodel(torch.ones(1, 4))"},
            "torch.onnx.export(model, torch.ones(1, 4, device=accelerator.device), 'model.onnx')",
        ),
        (
            {"after": "model(torch.ones(1, 4))\nfor p in model.parameters():\n    p.data.add_(torch.randn(p.shape))"},
            "p.data.add_(torch.randn(p.shape).to(accelerator.device))",
        ),
        (
            {"after": "tries = iter(DataLoader(data))\nx, y = next(tries)\nprint(model(x))"},
            "x, y = next(tries)\nx = x.to(accelerator.device)\n",
        ),
    ],
)
def test_what_models_get_is_brought_there(slots: dict[str, str], there: str) -> None:
    if "rows)" in slots.get("after", ""):
        slots = {"after": f"rows = [[1.0, 2.0, 3.0, 4.0]]\n{slots['after']}"}
    result = rewritten(**slots)
    assert there in result.after.decode()
    assert "accelerator = Accelerator()\n" in result.after.decode()
    assert not [n for n in result.notes if n.rule == "own_tensors"]


@pytest.mark.parametrize(
    ("made", "head"),
    [
        ("enumerate(DataLoader(data))", "i, batch"),
        ("zip(range(9), DataLoader(data))", "i, batch"),
        ("enumerate(iter(DataLoader(data)), 1)", "i, batch"),
        ("iter(DataLoader(data))", "batch"),
    ],
)
def test_a_list_of_a_named_iterator_is_brought_tensor_by_tensor(made: str, head: str) -> None:
    after = rewritten(after=f"loop = {made}\nfor {head} in loop:\n    x, y = batch\n    print(error(model(x), y))")
    moves = "    x, y = batch\n    x, y = x.to(accelerator.device), y.to(accelerator.device)\n    print"
    assert moves in after.after.decode()


def test_what_a_data_set_reads_stays_where_it_is_and_goes_to_the_model_from_there() -> None:
    after = rewritten(after="h = torch.ones(8, 4)\nmore = DataLoader(TensorDataset(h))\nprint(model(h))").after.decode()
    assert "h = torch.ones(8, 4)\n" in after
    assert "print(model(h.to(accelerator.device)))\n" in after


def test_a_data_set_keeps_its_tensors_where_its_loaders_read_them() -> None:
    rows = "class Rows:\n    def __init__(self):\n        self.rows = torch.ones(8, 4)\n\n"
    rows += "    def __getitem__(self, i):\n        return self.rows[i]\n\nrows = Rows()\n"
    after = rewritten(after=f"{rows}print(model(rows.rows[:2]))").after.decode()
    assert "        self.rows = torch.ones(8, 4)\n" in after
    assert "print(model(rows.rows[:2].to(accelerator.device)))\n" in after


def test_a_leaf_that_a_function_hands_back_stays_one() -> None:
    made = "def made():\n    return torch.zeros(1, 4, requires_grad=True), 1\n\nh, n = made()\nmodel(h)"
    after = rewritten(after=made).after.decode()
    assert "    return torch.zeros(1, 4, requires_grad=True, device=accelerator.device), 1\n" in after
    assert "h = h.to" not in after


def test_what_is_read_on_the_cpu_is_brought_back() -> None:
    script = "import matplotlib.pyplot as plt\nh = torch.ones(1, 4)\nmodel(h)\nplt.plot(h, 2 * h[0])\nprint(h.numpy())"
    after = rewritten(after=script).after.decode()
    assert "plt.plot(h.cpu(), (2 * h[0]).cpu())\n" in after
    assert "print(h.cpu().numpy())\n" in after


def test_what_a_function_hands_back_is_brought_by_its_caller() -> None:
    script = """\
        import torch
        from torch import nn


        def batch(size):
            return torch.ones(size, 4), torch.zeros(size, 1), size


        def main():
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(2):
                x, y, size = batch(8)
                loss = (model(x) - y).pow(2).sum() / size
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


        main()
        """
    after = run(textwrap.dedent(script)).after.decode()
    moves = "x, y = x.to(accelerator.device), y.to(accelerator.device)"
    assert f"        x, y, size = batch(8)\n        {moves}\n" in after
    assert "def batch(size):\n    return torch.ones(size, 4), torch.zeros(size, 1), size\n" in after


def test_a_network_that_is_not_prepared_comes_along() -> None:
    after = rewritten(after="other = Net()\nprint(other(torch.ones(1, 4)) - model(torch.ones(1, 4)))").after.decode()
    assert "other = Net().to(accelerator.device)\n" in after


@pytest.mark.parametrize("drawn", ["maker.draw()", "next(maker)"])
def test_a_network_that_makes_its_own_input_comes_along(drawn: str) -> None:
    script = f"""\
import torch
from torch import nn

class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def draw(self):
        return self.layer(torch.randn(16, 4))

    def __next__(self):
        return self.draw()

net = nn.Linear(8, 2)
teacher = nn.Linear(8, 2)
maker = Maker()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    x = {drawn}
    loss = (net(x) - teacher(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    after = run(script).after.decode()
    assert "teacher = nn.Linear(8, 2).to(accelerator.device)\nmaker = Maker().to(accelerator.device)\n" in after
    assert after.count("torch.randn(16, 4).to(accelerator.device)") == 1


def test_a_model_that_runs_before_it_is_prepared_is_made_there() -> None:
    script = SCRIPT.replace("model = Net()\n", "model = Net()\nprint(model(torch.ones(1, 4)))\n")
    slots = {"built": "pass", "forward": "pass", "loss": "error(model(x), y)", "after": ""}
    after = run(script.format(**slots)).after.decode()
    assert "model = Net().to(accelerator.device)\nprint(model(torch.ones(1, 4, device=accelerator.device)))\n" in after


@pytest.mark.parametrize(
    ("early", "brought"),
    [
        ("print(model(torch.ones(1, 4)))", "print(model(torch.ones(1, 4, device=accelerator.device)))"),
        ("width = width_of(model)", "width = width_of(model"),
    ],
)
def test_a_part_of_a_model_that_runs_before_the_model_is_prepared_is_made_there(early: str, brought: str) -> None:
    after, _ = ran_early("", early=early)
    assert f"model = Net().to(accelerator.device)\n{brought}" in after
    assert ("net(torch.randn(2, 4).to(accelerator.device))" in after) == ("width_of" in early)


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
    ("slots", "brought"),
    [
        ({"later": "model(torch.ones(1, 4))"}, "model(torch.ones(1, 4, device=accelerator.device))"),
        ({"later": "width = width_of(model)"}, "net(torch.randn(2, 4).to(accelerator.device))"),
        (
            {"early": "def show(net):\n    print(net(torch.ones(1, 4)))", "later": "show(model)"},
            "print(net(torch.ones(1, 4, device=accelerator.device)))",
        ),
    ],
)
def test_what_runs_once_the_models_are_moved_does_not(slots: dict[str, str], brought: str) -> None:
    assert brought in ran_early("", **slots)[0]


def test_a_first_state_goes_where_the_weights_are() -> None:
    script = SCRIPT.replace("    def forward", "    def start(self):\n        return torch.zeros(4)\n\n    def forward")
    slots = {"built": "pass", "forward": "x = x + self.start()", "loss": "error(model(x), y)", "after": ""}
    after = run(script.format(**slots)).after.decode()
    assert "return torch.zeros(4, device=accelerator.device)\n" in after


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
    "forward",
    [
        "x = x + torch.zeros(1, device=x.device)",
        "x = x + torch.zeros(1).to(x.device)",
        "device = x.device; x = x + torch.zeros(1, device=device)",
    ],
)
def test_to_follow_a_tensor_is_to_name_no_device(forward: str) -> None:
    after = rewritten(forward=forward, after="print(model(halves(torch.ones(1, 4))))").after.decode()
    assert "torch.ones(1, 4, device=accelerator.device)" in after


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
    assert "torch.ones(1, 4, device=accelerator.device)" in after
    moved = rewritten(after=f"{chosen}\nmodel.to(device)\n{made}").after.decode()
    assert "torch.ones(1, 4))" in moved


def test_a_device_among_the_settings_of_a_dict_is_a_name_for_one() -> None:
    moved = 'config = {"device": "cpu"}\nfor x, y in loader:\n    x = x.to(config["device"])\n    print(x.sum())'
    after = rewritten(after=f"{moved}\nprint(model(torch.ones(1, 4).to(config['device'])))").after.decode()
    assert "torch.ones(1, 4).to(accelerator.device)" in after
    assert "x = x.to(accelerator.device)" in after


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


def test_nothing_is_brought_to_the_cpu_that_never_left_it() -> None:
    options = Options(runtime=ACCELERATE)
    after = rewritten(options, after="print(model(data.tensors[0]).detach().numpy())").after.decode()
    assert ".cpu()" not in after


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("nn.ModuleList([embed, head])", "head(embed(rows))"),
        ("nn.Sequential(embed, head)", "head(embed(rows))"),
        ("nn.ModuleDict({'embed': embed, 'head': head})", "head(embed(rows))"),
    ],
)
def test_what_the_parts_of_a_model_get_is_brought_there(model: str, output: str) -> None:
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
    assert "torch.randn(4).to(accelerator.device)" in after
    assert "embed, head = nn.Linear(4, 8), nn.Linear(8, 1)\n" in after
    assert "accelerator = Accelerator()\n" in after


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


FIRST_RUN = """\
import random
import torch
from torch import nn
from torch.autograd import Variable

def encoded(place):
    row = torch.zeros(1, 4)
    row[0][place] = 1
    return row

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 4), nn.Linear(8, 3)

    def forward(self, x, hidden):
        both = torch.cat((x, hidden), 1)
        return self.out(both), self.hidden(both)

    def first(self):
        return {wrap}(torch.zeros(1, 4))

net = Net()
x = {wrap}(encoded(1))
output, hidden = net(x, net.first())
hidden = {wrap}(torch.zeros(1, 4))
output, hidden = net(x, hidden)

def drawn():
    kind = random.randrange(3)
    return {wrap}(torch.LongTensor([kind])), {wrap}(encoded(kind))

optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def train(kind, x):
    net.zero_grad()
    output, hidden = net(x, net.first())
    output, hidden = net(x, hidden)
    loss = nn.functional.cross_entropy(output, kind)
    loss.backward()
    optimizer.step()

for step in range(20):
    kind, x = drawn()
    train(kind, x)
"""


@pytest.mark.parametrize("wrap", ["Variable", "torch.autograd.Variable", ""])
def test_what_runs_before_the_optimizer_is_all_on_one_device(wrap: str) -> None:
    result = run(FIRST_RUN.format(wrap=wrap))
    after = result.after.decode()
    assert "net = Net().to(accelerator.device)\n" in after, after
    assert ".cpu()" not in after
    assert f"{wrap}(torch.zeros(1, 4, device=accelerator.device))" in after
    assert not [n for n in result.notes if n.rule == "own_tensors"]


@pytest.mark.parametrize("wrap", ["Variable", ""])
def test_a_state_of_the_size_of_the_batch_needs_no_note(wrap: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.autograd import Variable

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(1, 2, batch_first=True), nn.Linear(2, 1)

    def forward(self, x):
        h = {wrap}(torch.zeros(1, x.size(0), 2))
        c = {wrap}(torch.zeros(1, x.size(0), 2))
        _, (h, _) = self.lstm(x, (h, c))
        return self.out(h.view(-1, 2))

data, target = {wrap}(torch.randn(64, 4, 1)), {wrap}(torch.randn(64, 1))
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(5):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(data), target)
    loss.backward()
    optimizer.step()
"""
    result = run(text)
    assert result.after.decode().count("device=x.device") == 2
    assert not [n for n in result.notes if n.rule == "own_tensors"]


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


def test_what_an_iterator_of_the_script_yields_is_brought_to_the_device() -> None:
    after = rewritten(after=WORDS.format(made="torch.tensor(x)")).after.decode()
    assert "[torch.tensor(x, device=accelerator.device) for x in" in after


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
