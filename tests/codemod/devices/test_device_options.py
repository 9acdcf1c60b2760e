"""Options that name a device for code that stays as it is: they get the accelerator's, where that is created."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from accelify.codemod.devices.device_options import Asked, DeviceOptions
from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

HEAD = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
"""
LOOP = """\
    loader = DataLoader(rows, batch_size=2)
    model = nn.Linear(4, 1).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        model(x.to(args.device)).mean().backward()
        optimizer.step()
"""
TEST = """\
def test(loader, model, args):
    return sum(model(x.to(args.device)).mean() for x in loader)
"""
MAIN = f"{HEAD}{TEST}def main(args):\n{LOOP}    test(DataLoader(rest), model, args)\n"
PARSED = """\
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
"""


def settled(text: str) -> list[tuple[str, bool]]:
    """The options that are set, and whether as text."""
    script = Facts(text).script
    found = DeviceOptions(script.devices.known, script.access).find(())
    return [(ast.unparse(option.target), option.is_text) for option in found]


@pytest.mark.parametrize(
    ("set_before", "is_text"),
    [
        ("", True),
        ("print(args.device.type)\n", False),
        ('args.device = torch.device(args.device if torch.cuda.is_available() else "cpu")\n', False),
    ],
)
def test_an_option_that_an_evaluation_reads_too(set_before: str, *, is_text: bool) -> None:
    assert settled(f"{MAIN}{PARSED}args = parser.parse_args()\n{set_before}main(args)\n") == [("args.device", is_text)]


@pytest.mark.parametrize(
    "text",
    [
        "def check(args):\n    args.device = 'cuda' if args.gpu else 'cpu'\n"
        + MAIN.replace("    loader =", "    check(args)\n    loader ="),
        MAIN.replace(
            "def main(args):",
            "args = parse()\nargs.device = 'cuda:0' if args.gpu else 'cpu'\nif __name__ == '__main__':",
        ),
    ],
)
def test_an_option_that_is_set_by_a_function_or_above(text: str) -> None:
    assert settled(text if "check" not in text else f"{text}{PARSED}main(parser.parse_args())\n") == [
        ("args.device", True)
    ]


def test_an_option_of_another_name_in_a_dictionary() -> None:
    text = MAIN.replace("args.device", 'config["device"]').replace("args", "config")
    assert settled(f'{text}config = json.load(open("c.json"))\nmain(config)\n') == [("config['device']", True)]


def test_an_option_that_is_read_as_text() -> None:
    asked = MAIN + '    if args.device == "cuda":\n        print("GPU")\n'
    assert settled(f"{asked}{PARSED}main(parser.parse_args())\n") == [("args.device", True)]


def test_options_that_a_trainer_keeps() -> None:
    trainer = f"""\
{HEAD}
class Trainer:
    def __init__(self, opt):
        self.opt = opt
        self.model = nn.Linear(4, 1).to(opt.device)
        self.loader = DataLoader(rows, batch_size=2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.model(x.to(self.opt.device)).mean().backward()
            self.optimizer.step()
    def test(self, loader):
        return sum(self.model(x.to(self.opt.device)).mean() for x in loader)
"""
    assert settled(f"{trainer}{PARSED}trainer = Trainer(parser.parse_args())\n") == [("opt.device", True)]


@pytest.mark.parametrize(
    "text",
    [
        MAIN.replace("    test(DataLoader(rest), model, args)\n", ""),  # nothing else reads it
        MAIN.replace("    loader =", "    args.device = torch.device('cuda')\n    loader ="),  # a rule has it already
        "def reset(args):\n    args.device = pick()\n" + MAIN.replace("    test(", "    reset(args)\n    test("),
    ],
)
def test_options_that_are_left(text: str) -> None:
    assert not settled(f"{text}{PARSED}args = parser.parse_args()\nmain(args)\n")


@pytest.mark.parametrize(
    "use", ["print(args.device >= 0)", "print(args.device == -1)", 'print("GPU %d" % args.device)', "pick(args.device)"]
)
def test_an_option_that_is_a_number_stays_one(use: str) -> None:
    parsed = PARSED.replace('"cpu"', "0, type=int")
    pick = "def pick(index):\n    return 'cpu' if index < 0 else f'cuda:{index}'\n"
    assert not settled(f"{pick}{MAIN}    {use}\n{parsed}main(parser.parse_args())\n")


CONFIG = """\
from dataclasses import dataclass
from typing import NamedTuple
{head}
    device: str = "cuda"
"""


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("class Config(NamedTuple):", []),
        ("@dataclass(frozen=True)\nclass Config:", []),
        ("@dataclass\nclass Config:", [("args.device", True)]),
    ],
)
def test_options_that_cannot_be_set(head: str, options: list[tuple[str, bool]]) -> None:
    assert settled(f"{CONFIG.format(head=head)}{MAIN}main(Config())\n") == options


def test_the_line_stands_below_the_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"
        "    def __init__(self, opt):\n        super().__init__()\n        self.opt, self.f = opt, nn.Linear(4, 1)\n"
        "    def forward(self, x):\n        return self.f(x + torch.zeros(x.size(0), 4).to(self.opt.device))\n"
    )
    text = MAIN.replace("nn.Linear(4, 1)", "Net(args)").replace(
        "import argparse", "import argparse\nfrom net import Net"
    )
    Path("train.py").write_text(f"{text}{PARSED}main(parser.parse_args())\n")
    after = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}["train.py"]
    created = '    accelerator = Accelerator(cpu=str(args.device).startswith("cpu"))\n'
    assert f"{created}    args.device = accelerator.device.type\n" in after
    assert "model(x.to(args.device)).mean() for x in" in after


@pytest.mark.parametrize("option", ["args.device", "opt.dev"])
def test_an_option_that_a_network_reads_where_its_move_stays(option: str) -> None:
    """The move is not needless, as the weights are changed before `prepare`."""
    holder, _, name = option.partition(".")
    net = (
        f"from torch import nn\nclass Net(nn.Module):\n    def __init__(self, {holder}):\n        self.dev = {option}\n"
    )
    script = f"""\
{HEAD}from net import Net
parser = argparse.ArgumentParser()
parser.add_argument("--{name}", default="cuda")
{holder} = parser.parse_args()
loader = DataLoader(rows, batch_size=2)
model = Net({holder}).to({option})
nn.init.normal_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x.to({option})).mean() * torch.ones(1, device={option})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    devices = Facts({"main.py": script, "net.py": net}).script.devices
    assert [ast.unparse(o.target) for o in devices.options] == [option]
    assert not devices.named


NET = """\
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device, self.layer = device, nn.Linear(4, 1)
        self.to(self.device)
    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize("parse", ["args = parser.parse_args()", "args, rest = parser.parse_known_args()"])
def test_an_option_that_the_accelerator_is_made_by_is_set_below_it(parse: str) -> None:
    read = "    device = torch.device('cuda:0' if args.device == 'cuda:0' else 'cpu')\n"
    parsing = "".join(f"    {line}\n" for line in [*PARSED.splitlines(), parse])
    loop = LOOP.replace("nn.Linear(4, 1).to(args.device)", "Net(args.device)").replace("args.device))", "device))")
    text = f"{HEAD}{NET}def main():\n{parsing}{read}{loop}main()\n"
    after = run(text).after.decode()
    created = after.index("accelerator = Accelerator(cpu=args.device != 'cuda:0')")
    assert after.index(parse) < created < after.index("args.device = accelerator.device")


TEACHER = """\
from torch import nn
class Teacher:
    def __init__(self, device):
        self.device = device
        self.net = nn.Linear(4, 4).to(device)
"""


@pytest.mark.parametrize(("default", "options"), [("cuda:0", ["args.device"]), ("cpu", []), ("cuda", [])])
def test_an_option_that_puts_what_another_file_makes_on_one_gpu(default: str, options: list[str]) -> None:
    loop = LOOP.replace("args.device", "device")
    text = (
        f"{HEAD}from teacher import Teacher\ndef main(args):\n    print(args)\n    device = torch.device('cuda:0')\n"
        f"    teacher = Teacher(args.device)\n{loop}{PARSED.replace('cpu', default)}main(parser.parse_args())\n"
    )
    found = Facts({"main.py": text, "teacher.py": TEACHER}).script.devices.options
    assert [ast.unparse(option.target) for option in found] == options


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("args.gpu_ids[0]", {"args.gpu_ids"}),
        ("Net(args).ids[0]", {"opt.gpu_ids"}),
        ("args.device.type", {"args.device"}),
        ('"cuda" if torch.cuda.is_available() else "cpu"', set()),
        ('"cuda" if use and torch.cuda.is_available() else "cpu"', {"args.no_cuda"}),
        ("pick(args.cpu)", {"args.cpu"}),
        ("torch.cuda.device_count() * args.local_rank", set()),
        ("DEVICES[args.on]", {"args.on"}),
        ("len(holder.kept['ids']) > 0", {"holder.kept['ids']"}),
        ("os.environ['GPU'] == '1'", {"os.environ['GPU']"}),
        ("os.getenv('GPU', '0') is None", {"os.getenv('GPU')"}),
        ("'GPU' in os.environ", {"'GPU' in os.environ"}),
        ("int(os.environ['LOCAL_RANK'])", set()),
        ("int(sys.argv[1])", {"sys.argv[1]"}),
        ("parsed.getboolean('train', 'gpu')", {"parsed.getboolean('train', 'gpu')"}),
        ("loaded.train.device", {"loaded.train.device"}),
        ("cluster.has_gpu()", {"cluster.has_gpu()"}),
        ("cluster.pick(args.gpu)", {"args.gpu"}),
        ("'mps' if platform.system() == 'Darwin' else 'cpu'", set()),
    ],
)
def test_what_a_choice_goes_by(code: str, asked: set[str]) -> None:
    facts = Facts(
        "import cluster, configparser, os, platform, sys, torch, yaml\nDEVICES = {'g': 'cuda', 'c': 'cpu'}\n"
        "loaded, parsed = yaml.safe_load(open('c')), configparser.ConfigParser()\n"
        "class Holder:\n    def __init__(self, kept): self.kept = kept\n"
        "    def load(self): self.kept = torch.load('c')['config']\n"
        "holder = Holder({'a': {'ids': [0]}}[sys.argv[1]])\n"
        "args = parse()\nuse = not args.no_cuda\nclass Net:\n    def __init__(self, opt):\n"
        "        self.ids = opt.gpu_ids\ndef pick(cpu):\n    if cpu:\n        return 'cpu'\n    return 'cuda'\n"
        f"chosen = {code}\n"
    )
    value = facts.statement("chosen = ").value
    assert Asked(facts.program, facts.roles, facts.tracer, [value]).by == asked


@pytest.mark.parametrize(
    ("kept", "before", "asked"),
    [
        ("self.config = config", "", set()),
        ("self.config, self.size = config, 4", "", set()),
        ("settings = config\n        self.config = settings", "", set()),
        ("self.config = {**config}", "", {"self.config['device']"}),
        ("self.config = config", "config['device'] = args.device\n", {"self.config['device']"}),
        ("self.config = config", "config.update(vars(args))\n", {"self.config['device']"}),
        ("self.config = config", "Net({'device': 'cpu'})\n", {"self.config['device']"}),
    ],
)
def test_a_literal_that_an_object_is_given_says_what_its_device_goes_by(
    kept: str, before: str, asked: set[str]
) -> None:
    facts = Facts(
        "import argparse, torch\nargs = argparse.ArgumentParser().parse_args()\nclass Net:\n"
        f"    def __init__(self, config):\n        {kept}\n"
        "    def run(self, x):\n        return x.to(self.config['device'])\n"
        "config = {'device': 'cuda' if torch.cuda.is_available() else 'cpu', 'size': 4}\n"
        f"{before}Net(config).run(torch.ones(1))\n"
    )
    place = facts.call("x.to(").args[0]
    assert Asked(facts.program, facts.roles, facts.tracer, [place]).by == asked


OUTSIDE = """\
import cluster, configparser, os, sys, torch
from torch import nn
from torch.utils.data import DataLoader
parsed = configparser.ConfigParser()
parsed.read("settings.ini")
DEVICES = {"g": "cuda", "c": "cpu"}
"""
PLAIN = "\n".join(line[4:] for line in LOOP.replace("args.device", "device").splitlines()) + "\n"


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        ("device = 'cuda' if os.getenv('GPU') else 'cpu'", "os.getenv('GPU')"),
        ("device = 'cuda'\nif 'CPU' in os.environ: device = 'cpu'", "'CPU' in os.environ"),
        ("device = DEVICES[sys.argv[1]]", "sys.argv[1]"),
        ("if cluster.has_gpu():\n    device = 'cuda'\nelse:\n    device = 'cpu'", "cluster.has_gpu()"),
        ("device = 'cuda' if cluster.has_gpu() else 'cpu'", "cluster.has_gpu()"),
    ],
)
def test_what_chose_the_device_outside_the_program_is_named(chosen: str, asked: str) -> None:
    result = run(f"{OUTSIDE}{chosen}\n{PLAIN}")
    notes = [n.message for n in result.notes if n.rule == "devices"]
    is_asked = f"`{asked}` no longer selects the device" in "".join(notes)
    assert is_asked or f"cpu={asked}" in result.after.decode().replace('"', "'")


def test_a_file_of_settings_keeps_it_on_the_cpu() -> None:
    chosen = "device = 'cuda' if parsed.getboolean('train', 'gpu') else 'cpu'\n"
    result = run(f"{OUTSIDE}{chosen}{PLAIN}")
    assert "Accelerator(cpu=not parsed.getboolean('train', 'gpu'))" in result.after.decode().replace('"', "'")
    assert not [n for n in result.notes if n.rule == "devices"]


def test_a_device_that_the_machine_alone_chooses_is_not_named() -> None:
    chosen = "device = 'cuda' if torch.cuda.is_available() and sys.platform != 'darwin' else 'cpu'\n"
    assert not [n for n in run(f"{OUTSIDE}{chosen}{PLAIN}").notes if n.rule == "devices"]
