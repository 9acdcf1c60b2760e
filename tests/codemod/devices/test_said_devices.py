"""The code that says where training goes, if the user may say so."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.options import CpuSetting
from accelify.codemod.devices.said_devices import SaidDevices
from accelify.codemod.preparing.settings import Settings
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    ("before", "model", "code"),
    [
        (
            "device = torch.device(config.get('device'))\n",
            "model.to(device)\n",
            "str(config.get('device')).startswith('cpu')",
        ),
        (
            "name = os.getenv('DEVICE')\ndevice = torch.device(name)\n",
            "model = model.to(device)\n",
            "str(name).startswith('cpu')",
        ),
        ("", "model.to(config['device'])\n", "str(config['device']).startswith('cpu')"),
        ("device = torch.device('cuda')\n", "model.to(device)\n", None),
        ("device = torch.device('cpu')\n", "model.to(device)\n", None),
        ("device = torch.device(config.get('device'))\nmodel.to('cuda:1')\n", "model.to(device)\n", None),
        ("device = torch.device(config.get('device'))\nmodel.cuda()\n", "model.to(device)\n", None),
        ("device = torch.device(unknown())\n", "model.to(device)\n", None),
    ],
)
def test_a_device_that_the_user_may_say(before: str, model: str, code: str | None) -> None:
    facts = training(imports="import os\nfrom settings import config\n", before=before, model=model)
    script = facts.script
    found = SaidDevices(script.devices.known, lambda test: None).find(
        Settings(script.program, script.roles, script.tracer, script.reach)
    )
    assert (found and ast.unparse(found.setting.code)) == code


@pytest.mark.parametrize(
    ("device", "numbered"),
    [
        ("config.get('device')", {"config.get('device')"}),
        ("pick(config.gpu)", {"config.gpu"}),
        ("put(config.gpu)", set()),
    ],
)
def test_options_that_may_be_the_number_of_a_gpu(device: str, numbered: set[str]) -> None:
    before = (
        "def pick(gpu):\n    return f'cuda:{gpu}' if gpu >= 0 else 'cpu'\n"
        f"def put(gpu):\n    return 'cuda' if gpu else 'cpu'\ndevice = {device}\n"
    )
    script = training(imports="from settings import config\n", before=before, model="model.to(device)\n").script
    found = SaidDevices(script.devices.known, lambda test: None).find(
        Settings(script.program, script.roles, script.tracer, script.reach)
    )
    assert found is not None
    assert found.numbered == numbered


TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from settings import config
class Trainer:
    def __init__(self, device):
        self.device = device
        self.net = nn.Linear(4, 2).to(self.device)
        self.start = torch.zeros(2, device=self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def step(self, x):
        loss = (self.net(x.to(self.device)) - self.start).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
where = config.get("device") or "cuda"
trainer = Trainer({given})
for x in DataLoader(rows):
    trainer.step(x)
"""


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ("torch.device(config.get('device', 'cuda'))", "cpu=str(config.get('device', 'cuda')).startswith('cpu')"),
        ("device=torch.device(config.where)", "cpu=str(config.where).startswith('cpu')"),
        ("torch.device(where)", "cpu=str(where).startswith('cpu')"),
        ("torch.device('cuda')", ""),
        ("config.unknown()", ""),
        ("config.rank", ""),
    ],
)
def test_a_device_that_an_object_is_given(given: str, setting: str) -> None:
    after = migrated(TRAINER.format(given=given)).replace('"', "'")
    assert f"Accelerator({setting})\n" in after


AGENT = """\
import argparse
import torch
from torch import nn

class Agent:
    def __init__(self, device):
        self.device = device
        self.actor = nn.Linear(3, 1).to(device)
        self.optimizer = torch.optim.Adam(self.actor.parameters())

    def train(self, rows):
        loss = self.actor(torch.tensor(rows, device=self.device)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def run(args):
    agent = Agent({device})
    for step in range(3):
        agent.train([[1.0, 2.0, 3.0]])

parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_true")
run(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("device", "setting"),
    [
        ("'cuda' if args.cuda else 'cpu'", 'cpu=str(device).startswith("cpu")'),
        ("torch.device('cuda' if args.cuda else 'cpu')", 'cpu=str(device).startswith("cpu")'),
        ("torch.device('cuda:0' if args.cuda else 'cpu')", 'cpu=str(device).startswith("cpu")'),
        ("f'cuda:{args.gpu}' if args.gpu >= 0 else 'cpu'", 'cpu=str(device).startswith("cpu")'),
        ("torch.device('cuda' if torch.cuda.is_available() else 'cpu')", ""),
        ("torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')", ""),
        ("'cuda'", ""),
        ("args.gpu", ""),
    ],
)
def test_a_parameter_that_callers_give_the_cpu_or_a_gpu(device: str, setting: str) -> None:
    assert f"Accelerator({setting})" in migrated(AGENT.format(device=device)).replace("'cpu'", '"cpu"')


SETTINGS = {
    "from c import DEVICE": "DEVICE",
    "import c": "c.DEVICE",
    "import c as conf": "conf.DEVICE",
    "from c import options": "options.DEVICE",
}
FIT = """\
import torch
{imports}
from torch import nn
from torch.utils.data import DataLoader

def fit(model, loader, optimizer):
    model.to({device})
    for x, y in loader:
        loss = model(x.to({device})).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
MADE = """\
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.ones(8, 4), batch_size=2)
fit(model, loader, optimizer)
"""


def cpu_of(main: str, **files: str) -> str | None:
    cpu = Facts({"main.py": main, **{f"{name}.py": text for name, text in files.items()}}).script.devices.cpu
    assert not isinstance(cpu, CpuSetting) or not cpu.numbered
    return cpu and cpu.text


@pytest.mark.parametrize("value", ["'cpu'", "'cuda'"])
@pytest.mark.parametrize(("imports", "device"), SETTINGS.items())
def test_a_device_that_a_file_of_settings_says(imports: str, device: str, value: str) -> None:
    settings = f"from vendor import Options\noptions = Options()\noptions.DEVICE = {value}\nDEVICE = {value}\n"
    assert cpu_of(FIT.format(imports=imports, device=device) + MADE, c=settings) == f"{device} == 'cpu'"


@pytest.mark.parametrize("value", ["'cuda' if torch.cuda.is_available() else 'cpu'", "torch.device('cuda')", "3"])
def test_a_file_that_asks_for_a_gpu_says_no_more_than_the_accelerator(value: str) -> None:
    settings = f"import torch\nDEVICE = {value}\n"
    assert cpu_of(FIT.format(imports="import c", device="c.DEVICE") + MADE, c=settings) is None


@pytest.mark.parametrize("imported", ["import c", "from vendor import *"])
def test_settings_are_asked_by_the_name_that_the_file_with_the_accelerator_has_for_them(imported: str) -> None:
    engine = FIT.format(imports="import c as settings", device="settings.DEVICE")
    main = f"from engine import *\n{imported}\n{MADE}"
    expected = "c.DEVICE == 'cpu'" if imported == "import c" else None
    assert cpu_of(main, engine=engine, c="DEVICE = 'cpu'\n") == expected
