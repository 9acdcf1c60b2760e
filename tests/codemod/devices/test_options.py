"""Facts about options of the script that keep it on the CPU."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.moves import options_in
from accelify.codemod.devices.options import Cpu, CpuSetting
from accelify.codemod.script import Script
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.training_scripts import STEP, script, training


def cpu_of(script: Script, files: set[str] | None = None) -> CpuSetting | None:
    """What keeps a script's accelerator on the CPU."""
    found = Cpu(script.program, script.roles, script.tracer, script.reach, script.prepared)
    return found.find(files if files is not None else {"main.py"})


@pytest.mark.parametrize(
    ("choice", "setting"),
    [
        ("'cuda' if not args.no_cuda and torch.cuda.is_available() else 'cpu'", "args.no_cuda"),
        ("'cuda' if args.gpu and torch.cuda.is_available() else 'cpu'", "not args.gpu"),
        ("'cuda' if torch.cuda.is_available() else 'cpu'", None),
        ("'cuda'", None),
        ("'cpu' if args.cpu or not torch.cuda.is_available() else 'cuda'", "args.cpu"),
        ("'cpu' if not (args.gpu and torch.cuda.is_available()) else 'cuda'", "not args.gpu"),
        ("'cpu' if not torch.cuda.is_available() else 'cuda'", None),
        ("'cuda' if args.gpu else 'mps' if args.gpu and torch.backends.mps.is_available() else 'cpu'", "not args.gpu"),
        ("torch.accelerator.current_accelerator() if args.gpu else 'cpu'", "not args.gpu"),
        ("'cpu' if args.gpu < 0 else f'cuda:{args.gpu}'", "args.gpu < 0"),
        ("'cuda' if args.gpu != -1 else 'cpu'", "args.gpu == -1"),
        ("'cuda' if len(args.gpus) > 0 else 'cpu'", "len(args.gpus) <= 0"),
        ("'cuda' if args.share > 0.5 else 'cpu'", "not args.share > 0.5"),
        ("'mps' if args.gpu else 'cpu'", "not args.gpu"),
    ],
)
def test_what_keeps_it_on_the_cpu(choice: str, setting: str | None) -> None:
    before = f"args = argparse.ArgumentParser().parse_args()\ndevice = torch.device({choice})\n"
    facts = training(imports="import argparse\n", before=before, model="model.to(device)\n")
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


BY_OPTION = """\
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader
from tune import learn, rows
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-cuda", action="store_true")
    args = parser.parse_args()
    CHOICE
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learn(model, DataLoader(rows, batch_size=4), optimizer, device)
if __name__ == "__main__":
    main()
"""
OTHER_HOME = """\
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
def learn(model, loader, optimizer, device):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def main():
    model = nn.Linear(4, 1)
    OTHER
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learn(model, DataLoader(rows, batch_size=4), optimizer, device)
if __name__ == "__main__":
    main()
"""
CHOSEN = "device = 'cuda' if torch.cuda.is_available() and not args.no_cuda else 'cpu'"
PARSED = "args = argparse.ArgumentParser().parse_args()"


@pytest.mark.parametrize(
    ("choice", "other", "settings"),
    [
        (CHOSEN, "device = torch.device('cpu')", {"main.py": "args.no_cuda"}),
        (f"device = torch.device({CHOSEN[9:]})", "device = 'cpu'", {"main.py": "args.no_cuda"}),
        ("device = 'cpu'\n    if not args.no_cuda: device = 'cuda'", "device = 'cpu'", {"main.py": "args.no_cuda"}),
        (CHOSEN, f"{PARSED}\n    {CHOSEN}", {"main.py": "args.no_cuda", "tune.py": "args.no_cuda"}),
        (CHOSEN, f"{PARSED}\n    {CHOSEN.replace('no_cuda', 'host')}", {}),  # one setting cannot be both
    ],
)
def test_a_home_without_a_choice_takes_no_other_s_option_away(
    choice: str, other: str, settings: dict[str, str]
) -> None:
    main, tune = BY_OPTION.replace("CHOICE", choice), OTHER_HOME.replace("OTHER", other)
    facts = Facts({"main.py": main, "tune.py": tune})
    facts.named.append(facts.files[1])
    script = facts.script
    assert len(script.reach.homes) == 2
    found = cpu_of(script, {"main.py", "tune.py"})
    assert {home.module: found.text for home in (found.homes if found is not None else ())} == settings


ANY = "torch.device('cuda' if torch.cuda.is_available() else 'cpu')"


@pytest.mark.parametrize(
    ("first", "again", "setting"),
    [
        (ANY, f"if args.data == 'b':\n    device = {ANY}", None),
        (ANY, f"if args.data == 'b':\n    device = {ANY.replace('cuda', 'cuda:0', 1)}", None),
        (ANY, "if args.data == 'b':\n    device = torch.device('cuda:1')", None),
        (ANY[13:-1], f"if args.data == 'b':\n    device = {ANY[13:-1]}", None),
        ("torch.device('cpu')", f"if args.gpu:\n    device = {ANY}", "not args.gpu"),
        (ANY, "if args.cpu:\n    device = torch.device('cpu')", "args.cpu"),
    ],
)
def test_a_choice_between_devices_that_are_both_the_gpu(first: str, again: str, setting: str | None) -> None:
    before = f"args = argparse.ArgumentParser().parse_args()\ndevice = {first}\n{again}\n"
    found = cpu_of(training(imports="import argparse\n", before=before, model="model.to(device)\n").script)
    assert (found and found.text) == setting


GPU, CPU = 'torch.device("cuda")', 'torch.device("cpu")'


@pytest.mark.parametrize(
    ("tests", "devices", "setting"),
    [
        (["args.gpu == 0", "args.gpu == 1"], [GPU, GPU, CPU], "args.gpu != 0 and args.gpu != 1"),
        (["args.fast", "args.gpu"], [GPU, GPU, CPU], "not (args.fast or args.gpu)"),
        (["args.no_cuda", "args.gpu == 3"], [CPU, GPU, CPU], "args.no_cuda or args.gpu != 3"),
        (["args.gpu >= 0", "args.cpu"], [GPU, CPU, GPU], "args.gpu < 0 and args.cpu"),
        (["torch.cuda.is_available()", "args.gpu"], [GPU, GPU, CPU], None),
    ],
)
def test_each_branch_counts_that_names_a_gpu(tests: list[str], devices: list[str], setting: str | None) -> None:
    heads = [f"{'elif' if k else 'if'} {test}:" for k, test in enumerate(tests)] + ["else:"]
    choice = "".join(f"{head}\n    device = {each}\n" for head, each in zip(heads, devices, strict=True))
    before = f"args = argparse.ArgumentParser().parse_args()\n{choice}"
    facts = training(imports="import argparse\n", before=before, model="model.to(device)\n")
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


FREE = 'torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")'


@pytest.mark.parametrize(
    ("choice", "setting"),
    [
        (f"device = {FREE}\nif said.cpu:\n    device = {CPU}\n", "said.cpu"),
        (f"device = {FREE}\ndevice = {CPU} if said.cpu else device\n", "said.cpu"),
        (f"device = {CPU} if said.cpu else {GPU}\nif not torch.cuda.is_available():\n    device = {CPU}\n", "said.cpu"),
        (
            f"if torch.cuda.is_available():\n    device = {GPU}\nelse:\n    device = {CPU}\n"
            f"if said.cpu:\n    device = {CPU}\n",
            "said.cpu",
        ),
        (
            f"device = {CPU}\nif torch.cuda.is_available():\n    if not said.cpu:\n        device = {GPU}\n",
            "said.cpu",
        ),
        (
            f"if said.cpu:\n    device = {CPU}\nelif torch.cuda.is_available():\n    device = {GPU}\n"
            f"else:\n    device = {CPU}\n",
            "said.cpu",
        ),
        (f"device = {FREE}\nif not torch.cuda.is_available():\n    device = {CPU}\n", None),
    ],
)
def test_a_choice_replaces_what_another_has_chosen(choice: str, setting: str | None) -> None:
    before = f"said = argparse.ArgumentParser().parse_args()\n{choice}"
    facts = training(imports="import argparse\n", before=before, model="model.to(device)\n")
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


def test_an_option_that_is_not_understood_is_reported_whatever_holds_it() -> None:
    choices = f"device = {GPU} if said.fast else {CPU}\nif said.slow:\n    device = {GPU}\nelse:\n    device = {CPU}\n"
    before = f"said = argparse.ArgumentParser().parse_args()\n{choices}"
    result = run(script(imports="import argparse\n", before=before, model="model.to(device)\n"))
    noted = {note.message.split("`")[1] for note in result.notes if "no longer selects the device" in note.message}
    assert noted == {"said.fast", "said.slow"}


ANY = "'cuda' if torch.cuda.is_available() else 'cpu'"


@pytest.mark.parametrize(
    ("option", "before", "setting", "numbered"),
    [
        ("default='cuda'", "device = torch.device(args.device)\n", "args.device.startswith('cpu')", True),
        ("default='cpu', type=str", "device = args.device\n", "args.device.startswith('cpu')", True),
        ("default='cuda', choices=['cuda', 'cpu']", "device = args.device\n", "args.device == 'cpu'", False),
        (
            "default='cuda:0'",
            "if not torch.cuda.is_available():\n    print('slow')\ndevice = torch.device(args.device)\n",
            "args.device.startswith('cpu')",
            True,
        ),
        ("default=0, type=int", "device = args.device\n", None, False),
        (
            "default='cuda'",
            "args.device = torch.device(args.device)\ndevice = args.device\n",
            "torch.device(args.device).type == 'cpu'",
            True,
        ),
        ("default='cuda'", "args.device = 'cuda'\ndevice = args.device\n", None, False),
        ("type=torch.device, default='cuda'", "device = args.device\n", "str(args.device).startswith('cpu')", True),
        ("default='adam'", "device = torch.device('cuda')\n", None, False),
        (
            "default='cuda' if torch.cuda.is_available() else 'cpu'",
            "device = args.device\n",
            "args.device.startswith('cpu')",
            True,
        ),
        ("default=usual", "device = torch.device(args.device)\n", "args.device.startswith('cpu')", True),
        (
            "default=usual",
            "if torch.cuda.is_available():\n    torch.cuda.set_device(int(args.device[5]))\n"
            "else:\n    args.device = 'cpu'\ndevice = args.device\n",
            "args.device.startswith('cpu')",
            True,
        ),
        ("default=pick()", "device = args.device\n", "str(args.device).startswith('cpu')", True),
        (
            "default=None",
            "device = args.device or ('cuda' if torch.cuda.is_available() else 'cpu')\n",
            "str(args.device).startswith('cpu')",
            True,
        ),
        (
            "default=None",
            f"if args.device is None:\n    args.device = {ANY}\ndevice = args.device\n",
            "str(args.device).startswith('cpu')",
            True,
        ),
        (
            "default='auto'",
            f"if args.device == 'auto':\n    args.device = {ANY}\ndevice = torch.device(args.device)\n",
            "args.device.startswith('cpu')",
            True,
        ),
        (
            "default='cuda'",
            "if not torch.cuda.is_available():\n    args.device = 'cpu'\ndevice = args.device\n",
            "args.device.startswith('cpu')",
            True,
        ),
        ("default='cuda'", f"args.device = {ANY}\ndevice = args.device\n", None, False),
        ("default='cuda'", f"device = {ANY}\nprint(args.device)\n", None, False),
    ],
)
def test_an_option_that_names_the_device(option: str, before: str, setting: str | None, numbered: bool) -> None:
    usual = "usual = 'cpu' if not torch.cuda.is_available() else 'cuda'\n" if "usual" in option else ""
    made = "parser = argparse.ArgumentParser()\n"
    parsed = f"{usual}{made}parser.add_argument('--device', {option})\nargs = parser.parse_args()\n"
    facts = training(imports="import argparse\n", before=parsed + before, model="model.to(device)\n")
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting
    assert bool(found and found.numbered) == numbered


@pytest.mark.parametrize(
    ("call", "setting"),
    [("", "not args.cuda"), ("place(Options(), model)\n", None), ("place(args, model)\n", "not args.cuda")],
)
def test_a_function_that_nothing_calls_chooses_no_device(call: str, setting: str | None) -> None:
    place = "def place(options, net):\n    if options.cuda:\n        net.cuda()\n"
    before = f"args = argparse.ArgumentParser().parse_args()\n{place}"
    facts = training(imports="import argparse\n", before=before, model=f"if args.cuda:\n    model.cuda()\n{call}")
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


ENTRIES = """
class Config:
    use_gpu = True
def evaluate(path):
    opt = Config()
    device = torch.device("cuda") if opt.use_gpu else torch.device("cpu")
    return torch.load(path).to(device)
"""
TRAINS = """
def train(**given):
    opt = Config()
    for name, value in given.items():
        setattr(opt, name, value)
    device = torch.device("cuda") if opt.use_gpu else torch.device("cpu")
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(8, 4), batch_size=2):
        model(x.to(device)).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("start", "is_one"), [("fire.Fire()", True), ("train()\nevaluate('model.pt')", False), ("train()", True)]
)
def test_a_function_that_is_called_from_a_command_line_has_its_own_options(start: str, is_one: bool) -> None:
    imports = "import fire, torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    after = run(f"{imports}{ENTRIES}{TRAINS}{start}\n").after.decode()
    assert ("setattr(opt, name, value)\n    accelerator = Accelerator(cpu=not opt.use_gpu)\n" in after) == is_one


@pytest.mark.parametrize(
    ("gpu", "cpu", "setting"),
    [
        ("torch.cuda.FloatTensor", "torch.FloatTensor", "not args.cuda"),
        ("torch.cuda.LongTensor", "torch.LongTensor", "not args.cuda"),
        ("torch.cuda.FloatTensor", "torch.cuda.HalfTensor", None),
    ],
)
def test_types_of_tensors(gpu: str, cpu: str, setting: str | None) -> None:
    before = f"args = argparse.ArgumentParser().parse_args()\nkind = {gpu} if args.cuda else {cpu}\n"
    script = training(imports="import argparse\n", before=before, model="model.type(kind)\n").script
    found = cpu_of(script)
    assert (found and found.text) == setting


SAYING = "def pick(gpu):\n    print(gpu)\n    if gpu < 0: return torch.device('cpu')\n    return torch.device('cuda')\n"
PICK = "def pick(gpu):\n    if gpu < 0: return torch.device('cpu')\n    return torch.device(f'cuda:{gpu}')\n"


@pytest.mark.parametrize(
    ("before", "setting"),
    [
        ("config = json.load(open('c.json'))\ndevice = config['device']\n", "str(config['device']).startswith('cpu')"),
        ("from settings import config\ndevice = config.device\n", "str(config.device).startswith('cpu')"),
        ("from settings import config\ndevice = config.accelerator\n", None),
        (
            "config = json.load(open('c.json'))\ndevice = torch.device(config.get('device', 'cuda'))\n",
            "str(config.get('device', 'cuda')).startswith('cpu')",
        ),
        (
            "import os\nname = os.environ.get('DEVICE', 'cuda')\ndevice = torch.device(name)\n",
            "str(name).startswith('cpu')",
        ),
        (f"{PICK}from settings import config\ndevice = pick(config.gpu)\n", "config.gpu < 0"),
        (f"{PICK}device = pick(0)\n", None),
        (f"{SAYING}from settings import config\ndevice = pick(config.gpu)\n", "config.gpu < 0"),
    ],
)
def test_an_option_of_a_file_that_names_the_device(before: str, setting: str | None) -> None:
    facts = training(imports="import json\n", before=before, model="model.to(device)\n")
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


MAIN = """\
import argparse, click, torch
from torch import nn
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, device):
        self.device = device
        self.center = torch.zeros(2, device=self.device)
    def train(self, net, loader):
        net = net.to(self.device)
        optimizer = torch.optim.Adam(net.parameters())
        for x in loader:
            loss = (net(x.to(self.device)) - self.center).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{decorator}def main(device):
    {first}
    Trainer(device=device).train(nn.Linear(4, 2), DataLoader(torch.randn(8, 4)))
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    {call}
"""
PARSED = "parser.add_argument('--device', default='cuda')\n    args = parser.parse_args()\n    main(args.device)"
CLICK = "@click.command()\n@click.option('--device', default={default})\n"


@pytest.mark.parametrize(
    ("decorator", "first", "call", "setting"),
    [
        ("", "pass", PARSED, "device.startswith('cpu')"),
        ("", "pass", PARSED.replace("args.device", "device=args.device"), "device.startswith('cpu')"),
        ("", "pass", PARSED.replace("main(args.device)", "main(**vars(args))"), "device.startswith('cpu')"),
        ("", "if not torch.cuda.is_available(): device = 'cpu'", PARSED, "device.startswith('cpu')"),
        (CLICK.format(default="'cuda'"), "pass", "main()", "device.startswith('cpu')"),
        (
            CLICK.format(default="'cpu', type=str"),
            "device = device or 'cpu'",
            "main()",
            "str(device or 'cpu').startswith('cpu')",
        ),
        (CLICK.format(default="0, type=int"), "pass", "main()", None),
        ("", "device = torch.device(device)", PARSED, "str(device).startswith('cpu')"),
        (
            "",
            "pass",
            PARSED.replace("    main", "    args.device = torch.device(args.device)\n    main"),
            "str(args.device).startswith('cpu')",
        ),
        ("", "pass", "main('cuda')", None),
        ("", "pass", PARSED.replace("'cuda'", "'adam'"), None),
    ],
)
def test_an_option_that_a_parameter_of_the_home_is_given(
    decorator: str, first: str, call: str, setting: str | None
) -> None:
    script = Facts(MAIN.format(decorator=decorator, first=first, call=call)).script
    found = cpu_of(script)
    assert (found and found.text) == setting
    assert not (found and found.after)
    assert bool(found and found.numbered) is bool(setting)


SOLVER = """\
import torch
GPU_IN_USE = torch.cuda.is_available()

class Solver:
    def __init__(self, config, loader):
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if {asked} else "cpu")
        self.loader = loader
        self.model = torch.nn.Linear(4, 2).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr)

    def train(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""
CHOOSING = """\
import argparse
from torch.utils.data import DataLoader
from data import get_data
import first, second

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", action="store_true")
args = parser.parse_args()

def main():
    loader = DataLoader(get_data(), batch_size=8)
    solver = first.Solver(args, loader) if args.first else second.Solver(args, loader)
    solver.train()

main()
"""


@pytest.mark.parametrize(
    ("asked", "setting"),
    [
        ("self.cuda", None),
        ("GPU_IN_USE", None),
        ("self.cuda and GPU_IN_USE", None),
        ("torch.cuda.is_available() and config.gpu", "not args.gpu"),
        ("torch.cuda.is_available() or config.gpu", None),  # the file of the accelerator does not know torch
    ],
)
def test_what_only_asks_for_a_gpu_is_no_option(asked: str, setting: str | None) -> None:
    solver = SOLVER.format(asked=asked)
    script = Facts({"main.py": CHOOSING, "first.py": solver, "second.py": solver}).script
    files = {"main.py", "first.py", "second.py"}
    found = cpu_of(script, files)
    assert (found and found.text) == setting


PARSED = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"


MOVED = "if args.gpu:\n    model.cuda()\n"


@pytest.mark.parametrize(
    ("before", "model", "setting"),
    [
        ("", "if args.gpu:\n    model = nn.DataParallel(model).cuda()\n", "not args.gpu"),
        ("", "model = nn.DataParallel(model, [0]).cuda() if args.gpu else model\n", "not args.gpu"),
        ("", "if args.gpu:\n    model = nn.DataParallel(nn.Linear(4, 1)).cuda()\n", None),
        ("", "if args.gpu:\n    model = model.cuda()\n", "not args.gpu"),
        ("", "if args.gpu:\n    torch.backends.cudnn.benchmark = True\n    model.cuda()\n", "not args.gpu"),
        (
            "other = nn.Linear(1, 1)\n",
            "if args.gpu:\n    model.cuda()\n    if args.two:\n        other = other.cuda()\n",
            "not args.gpu",
        ),
        (
            "",
            "if args.gpu:\n    if a:\n        model = nn.DataParallel(model).cuda()\n    else:\n        model.cuda()\n",
            "not args.gpu",
        ),
        ("", "if args.two:\n    print(2)\n    if args.gpu:\n        model = model.cuda()\n", "not args.gpu"),
        ("", "if args.gpu is not None:\n    print(args)\n    model.cuda(args.gpu)\n", "args.gpu is None"),
        ("", "model = model.to('cuda') if args.use_cuda else model\n", "not args.use_cuda"),
        (
            "def put(net, args):\n    return net.cuda() if args.gpu else net\n",
            "model = put(model, args)\n",
            "not args.gpu",
        ),
        ("def put(t, uses):\n    return t.cuda() if uses else t\n", "model = put(model, args.cuda)\n", "not args.cuda"),
        (
            "def put(t, uses):\n    if uses:\n        t = t.cuda()\n    return t\n",
            "put(model, args.cuda)\n",
            "not args.cuda",
        ),
        (
            "if args.cuda and torch.cuda.is_available():\n    where = torch.device('cuda:0')\n"
            "else:\n    where = torch.device('cpu')\n",
            "model.to(where)\n",
            "not args.cuda",
        ),
        ("where = 'cuda'\nif args.cpu:\n    where = 'cpu'\n", "model.to(where)\n", "args.cpu"),
        (
            "wanted = not args.cpu and torch.accelerator.is_available()\nif wanted:\n"
            "    where = torch.accelerator.current_accelerator()\nelse:\n    where = torch.device('cpu')\n",
            "model.to(where)\n",
            "args.cpu",
        ),
        (
            "where = 'cpu'\nif args.cuda is True and torch.cuda.is_available():\n    where = 'cuda'\n",
            "model.to(where)\n",
            "not args.cuda",
        ),
        (
            "def put(net, uses=True):\n    if uses == True and torch.cuda.is_available() is True:\n"
            "        where = torch.device('cuda:0')\n    else:\n        where = torch.device('cpu')\n"
            "    return net.to(where)\n",
            "put(model, uses=args.cuda != 'no')\n",
            "args.cuda == 'no'",
        ),
        (
            "if torch.cuda.is_available():\n    where = 'cuda'\nelse:\n    where = 'cpu'\n",
            "model.to(where)\n",
            None,
        ),
        (
            "def a(): torch.rand(8).cuda()\ndef b(): pass\n",
            MOVED + "made = a if args.b else b\nmade()\n",
            "not args.gpu",
        ),
        (
            "class A:\n    def show(self): torch.rand(8).cuda()\nclass B:\n    def show(self): pass\n",
            MOVED + "made = {'a': A, 'b': B}[args.name]()\nmade.show()\n",
            "not args.gpu",
        ),
        ("def a(): torch.rand(8).cuda()\n", MOVED + "made = a\nmade()\n", None),
        ("", "if args.resume:\n    model.load_state_dict(rows)\n    model.cuda()\n", None),
        ("", "if args.gpu:\n    model = nn.Linear(4, 1)\n    model.cuda()\n    print(model)\n", None),
        ("", "if args.gpu:\n    print(args)\n    model.cuda(1)\nelse:\n    model.cuda(0)\n", None),
    ],
)
def test_conditions_under_which_a_model_is_moved(before: str, model: str, setting: str | None) -> None:
    script = training(imports=PARSED, before=before, model=model).script
    found = cpu_of(script)
    assert (found and found.text) == setting


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ('"--cuda", type=int, default=1', "args.cuda != True"),  # 2 is not equal to True
        ('"--cuda", default=0', "args.cuda != True"),
        ('"--cuda", type=str', "args.cuda != True"),
        ('"--cuda", action="store_true"', "not args.cuda"),
        ('"--cuda", type=bool', "not args.cuda"),
        ('"--cuda", default=False', "not args.cuda"),
    ],
)
@pytest.mark.parametrize("asked", ["args.cuda == True", "args.cuda is True and torch.cuda.is_available()"])
def test_an_option_that_is_compared_with_true(option: str, setting: str, asked: str) -> None:
    parsed = f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({option})\n"
    script = training(imports=f"{parsed}args = parser.parse_args()", model=f"if {asked}:\n    model.cuda()").script
    found = cpu_of(script)
    assert found is not None
    assert found.text == (setting if "==" in asked else setting.replace("!= True", "is not True"))


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ("args.device = torch.device('cuda' if args.device == 'gpu' else 'cpu')", None),
        (
            "if args.device == 'gpu':\n    args.device = torch.device('cuda')\nelse:\n    args.device = 'cpu'",
            "str(args.device).startswith('cpu')",
        ),
        ("args.device = 'cuda:0' if torch.cuda.is_available() and args.device == 'gpu' else 'cpu'", None),
        ("where = 'cuda' if args.device == 'gpu' else 'cpu'\nargs.device = 'gpu'", "args.device != 'gpu'"),
    ],
)
def test_an_option_that_the_script_gives_its_device(given: str, setting: str | None) -> None:
    script = training(imports=PARSED, before=given, model="model.to(args.device)").script
    found = cpu_of(script)
    assert (found and found.text) == setting


@pytest.mark.parametrize(
    ("given", "device", "asks_option"),
    [
        ("cfg['device'] = torch.device('cuda' if cfg['device'] == 'gpu' else 'cpu')", "cfg['device']", False),
        ("where = 'cuda' if cfg['device'] == 'gpu' else 'cpu'\ncfg['other'] = where", "where", True),
    ],
)
def test_an_item_that_the_script_gives_its_device(given: str, device: str, asks_option: bool) -> None:
    parsed = f"{PARSED}cfg = vars(args)\n"
    script = training(imports=parsed, before=given, model=f"model.to({device})").script
    found = cpu_of(script)
    assert (found is not None and "'gpu'" in found.text) is asks_option


CHOSEN = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
def parsed(args):
    args.cuda = bool(args.gpus) and torch.cuda.is_available()
    args.cuda = args.cuda and not args.debug
    return args
def main(args):
    {first}
    model = nn.Linear(4, 1)
    if args.cuda:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(rows):
        optimizer.zero_grad()
        model(x.cuda() if args.cuda else x).mean().backward()
        optimizer.step()
if __name__ == "__main__":
    args = argparse.ArgumentParser().parse_args()
    {last}
"""


@pytest.mark.parametrize(
    ("first", "last", "setting"),
    [
        ("args = parsed(args)", "main(args)", "not args.cuda"),
        ("print(args)", "args = parsed(args)\n    main(args)", "not args.cuda"),
        ("print(args)", "args.cuda = not args.no_cuda\n    main(parsed(args))", "not args.cuda"),
        ("for each in args.all: args = parsed(args)", "main(args)", None),
    ],
)
def test_options_that_are_computed(first: str, last: str, setting: str | None) -> None:
    cpu = Facts(CHOSEN.format(first=first, last=last)).script.devices.cpu
    assert (cpu and cpu.text) == setting


def test_a_flag_that_only_batches_are_moved_by() -> None:
    moved = "        for x in self.{0}:\n            if self.cuda:\n                x = x.cuda()\n            {1}\n"
    step = "self.optim.zero_grad(); self.model(x).mean().backward(); self.optim.step()"
    text = (
        "class Trainer:\n    def __init__(self, cuda, model, optimizer, loader, val_loader):\n"
        "        self.cuda, self.model, self.optim = cuda, model, optimizer\n"
        "        self.loader, self.val_loader = loader, val_loader\n        self.uses = cuda\n"
        f"    def validate(self):\n{moved.format('val_loader', 'print(self.model(x))')}"
        f"    def train(self):\n{moved.format('loader', step)}        self.validate()\n"
    ).replace("self.cuda, self.model, self.optim = cuda,", "self.cuda = cuda\n        self.model, self.optim =")
    cpu = Facts("import torch\n" + text).script.devices.cpu
    assert cpu is not None
    assert "cuda" in cpu.text


def test_options_that_are_read() -> None:
    node = ast.parse("f(args.a, opt.b.c, x.y, self.args.d)")
    assert {"args.a"} <= options_in(node)
    assert "x.y" not in options_in(node)


HELPERS = """\
def options():
    return argparse.ArgumentParser().parse_args()

def make(o):
    return nn.Linear(4, 1).to("cuda:0" if torch.cuda.is_available() and o.cuda else "cpu")

def never_called(o):
    own = options()
    print(make(own))

"""


@pytest.mark.parametrize(
    ("before", "model", "setting"),
    [
        (f"{HELPERS}args = options()\n", "model = make(args)\n", "not args.cuda"),
        (f"{HELPERS}args = options()\nother = options()\nprint(make(other))\n", "model = make(args)\n", None),
        (
            "device = 'cuda' if args.gpu else 'cpu'\n",
            "if torch.cuda.is_available():\n    model = model.cuda()\nmodel.to(device)\n",
            "not args.gpu",
        ),
        (
            "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n",
            "if args.gpu:\n    model = model.cuda()\nmodel.to(device)\n",
            None,
        ),
    ],
)
def test_of_several_choices_the_one_that_is_run_and_asks(before: str, model: str, setting: str | None) -> None:
    script = training(imports=PARSED, before=before, model=model).script
    found = cpu_of(script)
    assert (found and found.text) == setting


PICKED = "device = pick(args.device)\n"
TEXT = "args.device.startswith('cpu')"
HAS = "torch.cuda.is_available()"
SAID = "isinstance(device, str) and device != 'auto'"
MAYBE = "str(args.device).startswith('cpu')"


@pytest.mark.parametrize(
    ("default", "body", "choice", "setting"),
    [
        ("None", f"return device if device else {ANY}", PICKED, MAYBE),
        ("None", f"if device: return torch.device(device)\n    return {ANY}", PICKED, MAYBE),
        ("None", f"if device is None:\n        device = {ANY}\n    return device", PICKED, MAYBE),
        ("None", f"device = device or ({ANY})\n    return device", PICKED, MAYBE),
        ("None", f"if isinstance(device, str): return torch.device(device)\n    return {ANY}", PICKED, MAYBE),
        ("'auto'", f"if {SAID}: return torch.device(device)\n    return {ANY}", PICKED, TEXT),
        ("'auto'", f"if not ({SAID}): return {ANY}\n    return torch.device(device)", PICKED, TEXT),
        ("'auto'", f"return ({ANY}) if device is None or device == 'auto' else device", PICKED, TEXT),
        ("''", "pass", f"device = torch.device(args.device) if args.device != '' else {ANY}\n", TEXT),
        ("'auto'", "pass", f"device = ({ANY}) if args.device in ('auto', None) else args.device\n", TEXT),
        ("None", "pass", f"if args.device is None: device = {ANY}\nelse: device = args.device\n", MAYBE),
        ("'cuda'", "pass", "device = 'cuda' if args.device == 'cuda' else 'cpu'\n", "args.device != 'cuda'"),
        ("'cuda'", "pass", f"device = torch.device(args.device) if {HAS} else torch.device('cpu')\n", TEXT),
        ("'cuda'", f"return torch.device(device) if {HAS} else torch.device('cpu')", PICKED, TEXT),
        ("'cuda'", "pass", f"if {HAS}: device = torch.device(args.device)\nelse: device = torch.device('cpu')\n", TEXT),
        ("None", "pass", "device = 'cpu' if args.device is None else 'cuda'\n", "args.device is None"),
        ("None", "pass", f"if args.gpu: device = {ANY}\nelse: device = 'cpu'\n", "not args.gpu"),
    ],
)
def test_a_gpu_that_is_chosen_where_no_device_is_named(default: str, body: str, choice: str, setting: str) -> None:
    parsed = f"parser = argparse.ArgumentParser()\nparser.add_argument('--device', default={default})\n"
    before = f"def pick(device):\n    {body}\n{parsed}args = parser.parse_args()\n{choice}"
    script = training(imports="import argparse\n", before=before, model="model.to(device)\n").script
    found = cpu_of(script)
    assert (found and found.text) == setting


RESUMED = """\
import argparse
import torch
from torch import nn

def update(args, path):
    saved = torch.load(path)
    return saved["args"], saved["epoch"]

{start}
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no_cuda", action="store_true")
    args = parser.parse_args()
    {before}
    rows = torch.randn(8, 3).to({device})
    model = nn.Linear(3, 3).to({device})
    optimizer = torch.optim.Adam(model.parameters())
    {after}
    for i in range(0, len(rows), 2):
        loss = model(rows[i : i + 2]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(args)

{end}
"""
AGAIN = ["args, epoch = update(args, 'last.pth')", "if args.no_cuda:\n        args = torch.load('last.pth')['args']"]


@pytest.mark.parametrize(("start", "end"), [("def main():", "main()"), ("if __name__ == '__main__':", "")])
@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize(
    ("device", "setting"),
    [("args.device", "cpu=args.device.startswith('cpu')"), ("'cpu' if args.no_cuda else 'cuda'", "cpu=args.no_cuda")],
)
def test_options_that_a_checkpoint_replaces_later(start: str, end: str, again: str, device: str, setting: str) -> None:
    later = RESUMED.format(start=start, end=end, before="pass", after=again, device=device)
    text = run(later).after.decode().replace('"', "'")
    assert f"Accelerator({setting})" in text
    assert text.index("Accelerator(") < text.index("rows = ")
    earlier = RESUMED.format(start=start, end=end, before=again, after="pass", device=device)
    text = run(earlier).after.decode().replace('"', "'")
    assert f"Accelerator({setting})" in text
    assert text.index("Accelerator(") > text.rindex("last.pth")


IN_A_CLASS = "class CFG:\n    {device}\n    lr = 0.1\n"


@pytest.mark.parametrize(
    ("device", "made"),
    [
        ("device = 'cuda'", "CFG"),
        ("device: str = 'cuda'", "CFG()"),
    ],
)
def test_a_device_in_the_body_of_a_class_is_above_the_accelerator(device: str, made: str) -> None:
    before = IN_A_CLASS.format(device=device) + f"cfg = {made}\n"
    after = migrated(script(before=before, model="model.to(cfg.device)\n")).partition("loader =")[0]
    assert f"    {device}\n" in after
    assert "Accelerator(cpu=str(cfg.device).startswith('cpu'))" in after.replace('"', "'")
    assert "accelerator.device" not in after.partition("accelerator = ")[0]


@pytest.mark.parametrize("made", ["CFG", "CFG()"])
def test_a_device_that_only_asks_the_machine_is_no_option(made: str) -> None:
    before = IN_A_CLASS.format(device="device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')")
    result = run(
        script(before=f"{before}cfg = {made}\n", model="model.to(cfg.device)\nw = torch.ones(1).to(cfg.device)")
    )
    after = result.after.decode()
    assert "accelerator = Accelerator()\n\nclass CFG:\n    device = accelerator.device\n" in after
    assert after.count("accelerator.device") == 1
    assert not [n for n in result.notes if n.rule == "devices"]


BY_RETURN = """\
def get_device({parameters}):
{body}
device = get_device({given})
"""
CUDA, MPS, HOST = "torch.device('cuda')", "torch.device('mps')", "torch.device('cpu')"


@pytest.mark.parametrize(
    ("parameters", "body", "given", "setting"),
    [
        ("gpu", f"    if gpu:\n        return {CUDA}\n    else:\n        return {HOST}", "args.gpu", "not args.gpu"),
        ("", f"    if args.gpu and {HAS}:\n        return {CUDA}\n    return {HOST}", "", "not args.gpu"),
        ("cpu", f"    if cpu:\n        return {HOST}\n    return {CUDA}", "args.cpu", "args.cpu"),
        (
            "gpu",
            f"    if not gpu:\n        return {HOST}\n    if not {HAS}:\n        raise OSError\n    return {CUDA}",
            "args.gpu",
            "not args.gpu",
        ),
        (
            "name",
            f"    if name == 'gpu' and {HAS}:\n        return {CUDA}\n    if name == 'mps':\n        return {MPS}\n"
            f"    return {HOST}",
            "args.accelerator",
            "args.accelerator != 'gpu' and args.accelerator != 'mps'",
        ),
        ("", f"    if {HAS}:\n        return {CUDA}\n    return {HOST}", "", None),
        (
            "name",
            "    name = str(name).strip().lower()\n    cpu = name == 'cpu'\n    if cpu:\n        print('the CPU')\n"
            f"    return torch.device('cuda:0' if not cpu and {HAS} else 'cpu')",
            "args.place",
            "str(args.place).strip().lower() == 'cpu'",
        ),
        (
            "name",
            "    if args.other:\n        name = 'cpu'\n    cpu = name == 'cpu'\n"
            f"    return torch.device('cuda' if not cpu and {HAS} else 'cpu')",
            "args.place",
            None,
        ),
        ("n", f"    if n % 2:\n        return {CUDA}\n    return {HOST}", "len(os.listdir())", None),
    ],
)
def test_a_function_that_returns_one_of_two_devices(
    parameters: str, body: str, given: str, setting: str | None
) -> None:
    function = BY_RETURN.format(parameters=parameters, body=body, given=given)
    facts = training(
        imports="import argparse, os\n",
        before=f"args = argparse.ArgumentParser().parse_args()\n{function}",
        model="model.to(device)\n",
    )
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


@pytest.mark.parametrize(
    ("gpu", "otherwise"),
    [
        ("device = torch.device('cuda')", ""),
        ("device = torch.device('cuda')\n    else:\n        device = torch.device('cpu')", ""),
        ("device = pick()", ""),
        ("device = pick()", "else:\n    device = torch.device('cpu')\n"),
    ],
)
def test_a_choice_with_the_question_for_a_gpu_inside(gpu: str, otherwise: str) -> None:
    before = (
        "args = argparse.ArgumentParser().parse_args()\n"
        "def pick():\n    free = gpustat.new_query()\n    return torch.device('cuda' if free else 'cpu')\n"
        f"device = torch.device('cpu')\nif args.place == 'gpu':\n    if {HAS}:\n        {gpu}\n{otherwise}"
    )
    facts = training(imports="import argparse, gpustat\n", before=before, model="model.to(device)\n")
    script = facts.script
    found = cpu_of(script)
    assert found is not None
    assert found.text == "args.place != 'gpu'"


def test_a_choice_in_a_method_of_the_class_that_trains() -> None:
    after = migrated(
        """\
        import json
        import torch
        from torch.utils.data import DataLoader
        class Run:
            def __init__(self, params):
                self.params = params
                self.set_device()
                self.model = torch.nn.Linear(4, 1).to(self.device)
                self.opt = torch.optim.SGD(self.model.parameters(), 0.1)
                self.loader = DataLoader(torch.randn(64, 4), 8, shuffle=True)
            def set_device(self):
                device = torch.device("cpu")
                if self.params["device"] == "cuda":
                    if torch.cuda.is_available():
                        device = torch.device("cuda", 0)
                self.device = device
            def train(self):
                for x in self.loader:
                    loss = self.model(x.to(self.device)).pow(2).mean()
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
        with open("params.json") as file:
            Run(json.load(file)).train()
        """
    )
    assert 'self.accelerator = Accelerator(cpu=self.params["device"] != "cuda")' in after


@pytest.mark.parametrize(
    ("choice", "given", "setting"),
    [
        ("options.where = {cpu} if options.gpu == -1 else {gpu}", "chosen = parse()", "chosen.gpu == -1"),
        ("options.where = {gpu} if options.use_gpu else {cpu}", "chosen = parse()", "not chosen.use_gpu"),
        (
            "options.where = {cpu}\n    if options.gpu >= 0:\n        options.where = {gpu}",
            "chosen = parse()",
            "chosen.gpu < 0",
        ),
        ("options.where = {cpu} if options.gpu == -1 else {gpu}", "parse()\nchosen = parse()", None),
        ("options.where = {cpu} if options.gpu == -1 else {gpu}", "chosen = parse()\nchosen = other(chosen)", None),
    ],
)
def test_options_that_a_function_returns(choice: str, given: str, setting: str | None) -> None:
    parse = (
        "def parse():\n    options = argparse.ArgumentParser().parse_args()\n"
        f"    {choice.format(cpu=HOST, gpu=CUDA)}\n    return options\n"
    )
    facts = training(
        imports="import argparse\nfrom vendor import other\n",
        before=f"{parse}{given}\n",
        model="model.to(chosen.where)\n",
    )
    script = facts.script
    found = cpu_of(script)
    assert (found and found.text) == setting


BESIDE = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def run(args, device):
    device = torch.device({trained_on})
    loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 1)), 2)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", type=str, default="cuda")
    args = parser.parse_args()
{chosen}
    run(args, {given})
"""
NAMED_BRANCH = "    if args.device.lower() == 'cuda':\n        device = 'cuda'\n    else:\n        device = 'cpu'\n"
NESTED_BRANCH = NAMED_BRANCH.replace("device = 'cuda'", "device = 'cuda' if torch.cuda.is_available() else 'cpu'")
BY_VALUE = "    device = torch.device('cuda' if args.device.lower() == 'cuda' else 'cpu')\n"
BY_TEXT, BY_BRANCH = "args.device.startswith('cpu')", "args.device.lower() != 'cuda'"


@pytest.mark.parametrize(
    ("chosen", "trained_on", "given", "setting"),
    [
        (NAMED_BRANCH, "args.device", "None", BY_TEXT),
        (NESTED_BRANCH, "args.device", "None", BY_TEXT),
        (BY_VALUE, "args.device", "None", BY_TEXT),
        (NAMED_BRANCH + "    print(f'on {device}')\n", "args.device", "None", BY_TEXT),
        (NESTED_BRANCH, "device", "device", BY_BRANCH),
        (BY_VALUE, "device", "device", BY_BRANCH),
        (NAMED_BRANCH + "    args.place = device\n", "args.place", "None", BY_BRANCH),
    ],
)
def test_a_choice_that_nothing_reads_keeps_nothing_on_the_cpu(
    chosen: str, trained_on: str, given: str, setting: str
) -> None:
    facts = Facts(BESIDE.format(chosen=chosen.rstrip(), trained_on=trained_on, given=given))
    found = cpu_of(facts.script)
    assert found is not None
    assert found.text == setting


@pytest.mark.parametrize(
    ("read", "setting"),
    [
        ("from main import device\n    return x.to(device)", "not args.gpu"),
        ("from main import *\n    return x.to(device)", "not args.gpu"),
        ("import main\n    return x.to(main.device)", "not args.gpu"),
        ("return x", "str(args.device).startswith('cpu')"),
    ],
)
def test_another_file_may_read_a_choice(read: str, setting: str) -> None:
    before = PARSED + "import net\ndevice = 'cuda' if args.gpu else 'cpu'"
    step = STEP.replace("model(x)", "model(net.bring(x))")
    main = script(before=before, model="model.to(args.device)", step=step)
    found = cpu_of(Facts({"main.py": main, "net.py": f"def bring(x):\n    {read}\n"}).script)
    assert (found and found.text) == setting


SAID_TOO = """\
parser = argparse.ArgumentParser()
parser.add_argument('--device', default='cuda')
args = parser.parse_args()
device = torch.device('cpu')
"""


@pytest.mark.parametrize(
    ("wished", "again", "setting"),
    [
        ("args.device.lower() == 'cuda'", "device = torch.device(args.device)", TEXT),
        ("args.device == 'cuda'", "if ':' in args.device:\n    device = torch.device(args.device)", TEXT),
        ("args.device in ('cuda', 'gpu')", "if args.device.startswith('cuda:'):\n    device = args.device", TEXT),
        ("args.device.lower() == 'cuda'", "", "args.device.lower() != 'cuda'"),
        ("args.device.lower() == 'cuda'", "print(torch.device(args.device))", "args.device.lower() != 'cuda'"),
        ("args.device.lower() == 'cuda'", "other = torch.device(args.device)", "args.device.lower() != 'cuda'"),
    ],
)
def test_a_device_that_an_option_names_replaces_one_by_its_kind(wished: str, again: str, setting: str) -> None:
    chosen = f"if {wished} and torch.cuda.is_available():\n    device = torch.device('cuda')\n"
    before = f"{SAID_TOO}{chosen}{again}\n"
    found = cpu_of(training(imports="import argparse\n", before=before, model="model.to(device)\n").script)
    assert found is not None
    assert found.text == setting
