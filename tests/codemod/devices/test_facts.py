"""Facts about devices, as rules are told of them."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.facts import Devices
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script, training


def devices(**slots: str) -> tuple[Devices, Facts]:
    facts = training(**slots)
    found = facts.script.devices
    assert isinstance(found, Devices)
    return found, facts


def test_a_script_that_names_no_device() -> None:
    found, _ = devices()
    assert (found.moves, found.needless, found.named, found.cpu) == ((), frozenset(), (), None)


BANK = """
device = torch.device('cuda')
flag = bool(input())
class Bank:
    def __init__(self, device):
        self.device = device
    def add(self, row):
        self.row = row.to(self.device)
"""


@pytest.mark.parametrize(
    ("code", "move", "says"),
    [
        ("host = torch.device('cpu')\nseen = loss.to(host)", "loss.to", "it goes to the CPU"),
        ("rates = torch.ones(4).to(y.device)", "torch.ones(4).to", "it goes to the device of `y`"),
        ("place = y.device if flag else device\nrates = loss.to(place)", "loss.to", "the process's own device"),
        ("Bank(device).add(loss)", "row.to", "it goes to the process's own device"),
        ("Bank(device if flag else 'cpu').add(loss)", "row.to", "or to the CPU where the script asks for that"),
        (
            "def put(t, device):\n    return [put(e, device) for e in t] if t else t.to(device)\nput(loss, device)",
            "t.to",
            "it goes to the process's own device",
        ),
        ("Bank(pick()).add(loss)", "row.to", "it goes to the device that the script sets, `self.device`"),
        ("def show(x):\n    return x.to(device)", "x.to", "the training does not run this"),
        ("def show(x):\n    return x.to(device)\ndraw(show)", "x.to", "it goes to the process's own device"),
    ],
)
def test_a_move_that_stays_has_its_reason(code: str, move: str, says: str) -> None:
    found, facts = devices(before=BANK, model="model.to(device)", step=STEP + code)
    (reason,) = {found.reason_to_stay(m, facts.script.run) for m in found.moves if ast.unparse(m.call.func) == move}
    assert says in reason


def test_options_that_no_longer_choose() -> None:
    found, facts = devices(before="device = args.gpu\nother = 3\n")
    (said,) = found.ignored_options("accelify launch", [facts.statement("device = args.gpu")])
    assert said.startswith("`args.gpu` no longer selects the device")
    assert not list(found.ignored_options("accelify launch", [facts.statement("other = 3")]))


@pytest.mark.parametrize(
    "device",
    [
        "torch.device('cuda', index=args.gpu)",
        "torch.device(type='cuda', index=args.gpu) if torch.cuda.is_available() else torch.device('cpu')",
        "nn.Linear(4, 1).cuda(device=args.gpu)",
    ],
)
def test_an_option_that_is_the_number_of_a_gpu(device: str) -> None:
    found, facts = devices(before=f"device = {device}\n")
    (said,) = found.ignored_options("accelify launch", [facts.statement("device = ")])
    assert said.startswith("`args.gpu` no longer selects the GPU: use `accelify launch --gpu-ids`")


@pytest.mark.parametrize(
    ("kept", "options"),
    [
        ("dict(device=args.gpu, lr=1)", []),  # of which the accelerator is made
        ("{'device': args.gpu}", []),
        ("{'device': 'cuda' if torch.cuda.is_available() else 'cpu'}", []),
        ("json.load(open('a.json'))", ["params.get('device')"]),
        ("{'device': 'cpu'}", ["params.get('device')"]),
    ],
)
def test_what_a_lookup_in_a_literal_goes_by(kept: str, options: list[str]) -> None:
    before = f"params = {kept}\ndevice = torch.device(params.get('device'))\n"
    found, facts = devices(before=before, model="model.to(device)\n")
    said = found.ignored_options("accelify launch", [facts.statement("device = torch")])
    assert [message.split("`")[1] for message in said] == options


@pytest.mark.parametrize("option", ["hp.device", "conf['train']['device']", "settings.device", "self.options.gpu"])
def test_a_device_from_a_configuration_no_longer_chooses(option: str) -> None:
    found, facts = devices(before=f"device = torch.device({option})\n", model="model.to(device)\n")
    (said,) = found.ignored_options("accelify launch", [facts.statement("device = torch")])
    assert said.startswith(f"`{option}` no longer selects the device")


@pytest.mark.parametrize(
    ("before", "is_open"),
    [
        ("exec(open('settings.py').read())\n", True),
        ("for key in range(3):\n    globals()[key] = 1\n", True),
        ("globals().update(torch.load('settings.pt'))\n", True),
        ("print(globals()['device'], eval('1'))\n", False),
        ("def f():\n    exec('x = 1')\n", False),
    ],
)
def test_a_setting_that_code_of_the_user_s_may_change_no_longer_chooses(before: str, is_open: bool) -> None:
    found, facts = devices(before=f"device = 'cuda'\n{before}", model="model.to(device)\n")
    said = list(found.ignored_options("accelify launch", facts.call("model.to(device)").args))
    assert [s.startswith("`device` no longer selects") for s in said] == [True] * is_open


def test_tensors_of_a_script_that_names_no_device() -> None:
    found, _ = devices(step="x = torch.zeros(2, 4)\n" + STEP)
    assert ast.unparse(found.together.mixed) == "x"
    assert found.together.homemade is None


PICKED = """\
def pick(number):
    return torch.device({device})
def build(number):
    device = pick(number)
    return nn.Linear(4, 1).to(device), device
"""


@pytest.mark.parametrize(
    ("device", "numbered"),
    [
        ('f"cuda:{number}"', ["f'cuda:{number}'"]),
        ('"cuda:0" if torch.cuda.is_available() else "cpu"', ["'cuda:0'"]),
        ('"cuda", number', ["torch.device('cuda', number)"]),
        ('"cuda"', []),
    ],
)
@pytest.mark.parametrize(("kept", "read"), [("model, there", "there"), ("model, args.there", "args.there")])
def test_a_gpu_that_a_function_chooses_and_returns_with_the_model(
    device: str, numbered: list[str], kept: str, read: str
) -> None:
    found, _ = devices(
        before="import argparse\nargs = argparse.ArgumentParser().parse_args()\n" + PICKED.format(device=device),
        model=f"{kept} = build(args.gpu)\n",
        step=f"x = x.to({read})\n" + STEP,
    )
    assert texts(found.numbered) == numbered


@pytest.mark.parametrize(
    ("decorator", "returned", "numbered"),
    [
        ("@property", 'torch.device(f"cuda:{self.gpu}")', ["f'cuda:{self.gpu}'"]),
        ("@cached_property", '"cuda:1" if torch.cuda.is_available() else "cpu"', ["'cuda:1'"]),
        ("@property", "next(self.model.parameters()).device", []),
    ],
)
def test_a_gpu_that_a_property_chooses(decorator: str, returned: str, numbered: list[str]) -> None:
    trainer = f"class Trainer:\n    gpu = 1\n    {decorator}\n    def device(self):\n        return {returned}\n"
    found, _ = devices(
        before=f"from functools import cached_property\n{trainer}trainer = Trainer()\n",
        model="model.to(trainer.device)\n",
        step="x = x + torch.zeros(1, device=trainer.device)\n" + STEP,
    )
    assert texts(found.numbered) == numbered


def test_a_gpu_that_a_function_chooses_and_the_script_binds() -> None:
    found, _ = devices(
        before='def pick(number):\n    return torch.device(f"cuda:{number}")\ndevice = pick(1)\n',
        model="model.to(device)\n",
        step="x = x.to(device)\n" + STEP,
    )
    assert texts(found.numbered) == []


NOISE = """\
import torch
HOME = {home}

def noise(rows):
    return torch.randn(rows){moved}

def unused(rows):
    return rows.to("cuda:2")
"""


@pytest.mark.parametrize(
    ("home", "moved", "found"),
    [
        ('torch.device("cuda:0")', ".to(HOME)", ["'cuda:0'"]),
        ("0", '.to("cuda:0")', ["'cuda:0'"]),
        ("0", '.to(torch.device("cuda:1"))', ["'cuda:1'"]),
        ("0", '.to("cuda")', []),
        ("0\nclass Config:\n    home: str = torch.device('cuda:0')", ".to(Config().home)", ["'cuda:0'"]),
        ("0\n@dataclass\nclass Config:\n    home: str = torch.device('cuda')", ".to(Config().home)", []),
    ],
)
def test_a_gpu_by_its_number_in_another_file(home: str, moved: str, found: list[str]) -> None:
    step = STEP.replace("model(x)", "model(x + noise(x.shape))")
    main = script(imports="from helper import noise", step=step)
    facts = Facts({"main.py": main, "helper.py": NOISE.format(home=home, moved=moved)})
    assert texts(facts.script.devices.out_of_reach) == found


OWN_NOISE = """\
import torch
class Noise:
    def __init__(self, where{default}):
        self.where = where
    def __call__(self, rows):
        return torch.randn(rows){moved}
"""


@pytest.mark.parametrize(
    ("default", "made", "moved", "said", "numbers"),
    [
        ('="cuda:0"', "Noise()", ".to(self.where)", ["'cuda:0'"], []),
        ("", "Noise('cuda:1')", ".to(self.where)", ["'cuda:1'"], []),
        ("", "Noise(where=torch.device('cuda:1'))", ".to(device=self.where)", ["'cuda:1'"], []),
        ("=0", "Noise()", ".cuda(self.where)", [], ["self.where"]),
        ("", "Noise(0)", ".to(self.where)", [], ["self.where"]),
        ("", "Noise(1)", ".to(f'cuda:{self.where}')", ["f'cuda:{self.where}'"], []),
        ("=None", "Noise()", ".cuda(0)", [], ["0"]),
        ("=None", "Noise()", ".cuda(self.where)", [], []),
        ('="cuda"', "Noise()", ".to(self.where)", [], []),
        ("", "Noise(device)", ".to(self.where)", [], []),
        ("", "Noise(args.gpu)", ".cuda(self.where)", [], []),
    ],
)
def test_a_gpu_by_its_number_that_another_file_is_given(
    default: str, made: str, moved: str, said: list[str], numbers: list[str]
) -> None:
    step = STEP.replace("model(x)", "model(x + noise(x.shape))")
    before = f"device = torch.device('cuda')\nnoise = {made}"
    main = script(imports="from helper import Noise\nfrom options import args", before=before, step=step)
    facts = Facts({"main.py": main, "helper.py": OWN_NOISE.format(default=default, moved=moved)})
    found = facts.script.devices
    assert (texts(found.out_of_reach), texts(found.numbers)) == (said, numbers)


@pytest.mark.parametrize(
    ("default", "made", "moved", "found"),
    [
        ('="cpu"', "Noise()", ".to(self.where)", ["Noise()"]),
        ('=torch.device("cpu")', "Noise()", "[0].to(device=self.where)", ["Noise()"]),
        ('="cpu"', "Noise(where='cpu')", ".to(self.where)", []),
        ('="cpu"', "Noise(*given)", ".to(self.where)", []),
        ("=None", "Noise()", ".to(self.where)", []),
        ('="cpu"', "Noise()", "", []),
        ('="cpu", text=""', "Noise()", ".to(self.where)", ["Noise()"]),
    ],
)
@pytest.mark.parametrize("is_on_gpu", [False, True])
def test_a_default_of_another_file_where_the_script_trains(
    default: str, made: str, moved: str, found: list[str], is_on_gpu: bool
) -> None:
    step = STEP.replace("model(x)", "model(x + noise(x.shape))")
    main = script(
        imports="from helper import Noise",
        before=f"noise = {made}",
        model="model.cuda()" if is_on_gpu else "",
        step=f"x, y = x.cuda(), y.cuda()\n{step}" if is_on_gpu else step,
    )
    facts = Facts({"main.py": main, "helper.py": OWN_NOISE.format(default=default, moved=moved)})
    calls = facts.script.devices.defaulted
    assert (texts(c for c, _ in calls), {n for _, n in calls}) == (
        ([], set()) if is_on_gpu else (found, {"where"} if found else set())
    )


def test_a_default_that_is_compared_as_text_stays() -> None:
    noise = OWN_NOISE.format(default='="cpu"', moved=".to(self.where)") + "        assert self.where\n"
    step = STEP.replace("model(x)", "model(x + noise(x.shape))")
    for asked, expected in (("print(where)", 1), ("assert where == 'cpu'", 0), ("print(where.upper())", 0)):
        helper = noise.replace("self.where = where", f"self.where = where\n        {asked}")
        main = script(imports="from helper import Noise", before="noise = Noise()", step=step)
        assert len(Facts({"main.py": main, "helper.py": helper}).script.devices.defaulted) == expected


FOLLOWING = """\
def mask(x, device=None):
    {body}
    return torch.zeros(len(x)).to(device)
class Net(nn.Module):
    @property
    def device(self): return next(self.parameters()).device
net, weights = Net(), load_weights()
mask(weights); mask(weights, {given})
"""


@pytest.mark.parametrize(
    ("body", "given", "follows"),
    [
        ("device = x.device", "None", True),
        ("if device is None: device = x.device", "weights.device", True),
        ("device = device or x.device", "device=weights[0].device", True),
        ("device = x.get_device()", "None", True),
        ("device = 'cuda' if x.is_cuda else 'cpu'", "None", True),
        ("pass", "net.device", True),
        ("if device is None: device = x.device", "load_device()", False),
        ("device = x.device if test() else 'cpu'", "None", False),
        ("device = settings.place", "None", False),
    ],
)
def test_a_device_that_follows_tensors(body: str, given: str, follows: bool) -> None:
    found, facts = devices(before=FOLLOWING.format(body=body, given=given))
    assert found.follows_tensors(facts.call("torch.zeros(len(x)).to").args[0]) is follows


IN_MAIN = """\
def go(args):
    loader = DataLoader(rows, batch_size=2)
    {0}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
HOST, GPU = Where.HOST, Where.ACCELERATOR


@pytest.mark.parametrize(
    ("made", "was"),
    [
        ("if args.train:\n        model = Net().to(device)", {GPU}),
        ("if args.train:\n        model = Net()\n        model.to(device)", {GPU}),
        ("if not args.test:\n        model = Net()\n        model = model.to(device)", {GPU}),
        ("if True:\n        model = Net()\n        if args.move:\n            model.to(device)", {HOST, GPU}),
        ("if True:\n        model = Net()\n        if args.move:\n            model = model.to(device)", {HOST, GPU}),
        ("if True:\n        model = Net().to(device) if args.move else Net()", {HOST, GPU}),
        (
            "if True:\n        if args.move:\n            model = Net().to(device)\n        else:\n"
            "            model = Net()",
            {HOST, GPU},
        ),
    ],
)
def test_where_a_model_may_have_been_is_asked_where_it_is_made(made: str, was: set[Where]) -> None:
    net = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(4, 1)\n"
    )
    text = f"import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n{net}device = 'cuda'\n"
    facts = Facts(f"{text}{IN_MAIN.format(made)}go(options())\n")
    assert {p.was for p in facts.script.devices.lattice.of_models} == was
