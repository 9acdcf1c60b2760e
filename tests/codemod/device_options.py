"""Small scripts over how an option for the device is declared, how it is used, and where.

A declaration is the code that declares it, the condition under which a GPU is wanted, the device, and what `cpu=` has
to come to by either.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

HEAD = """\
import argparse, json, os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
ANY = '"cuda" if torch.cuda.is_available() else "cpu"'


@dataclass(frozen=True)
class Declared:
    """One way to declare it.

    cpu, gpu: the arguments of a command line for either. variables: the variable of the environment that asks for the
    CPU, and its value.
    """

    code: str
    wished: str
    device: str
    by_condition: str
    by_device: str = ""
    cpu: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    variables: tuple[str, str] = ("", "")


def _parsed(option: str) -> str:
    return f"parser = argparse.ArgumentParser()\nparser.add_argument({option})\nargs = parser.parse_args()\n"


def _flag(option: str, wished: str, cpu: str, *, asked: tuple[str, ...] = (), gpu: tuple[str, ...] = ()) -> Declared:
    return Declared(_parsed(option), wished, f'torch.device("cuda" if {wished} else "cpu")', cpu, "", asked, gpu)


def _named(option: str, wished: str, *, device: str = "torch.device(args.device)", after: str = "") -> Declared:
    cpu = ("--device", "cpu")
    text = "str(args.device)" if "default=None" in option else "args.device"
    by_device = 'args.device == "cpu"' if "choices=" in option else f'{text}.startswith("cpu")'
    return Declared(_parsed(option) + after, wished, device, "", by_device, cpu)


_FALLBACK = f'if args.device in (None, "auto"):\n    args.device = {ANY}\n'
_PICK = 'def pick(gpu):\n    if gpu < 0:\n        return torch.device("cpu")\n    return torch.device(f"cuda:{gpu}")\n'
DECLARED = {
    "cuda": _flag('"--cuda", action="store_true"', "args.cuda", "not args.cuda", gpu=("--cuda",)),
    "no_cuda": _flag(
        '"--no-cuda", action="store_true"',
        "not args.no_cuda and torch.cuda.is_available()",
        "args.no_cuda",
        asked=("--no-cuda",),
    ),
    "cpu": _flag('"--cpu", action="store_true"', "not args.cpu", "args.cpu", asked=("--cpu",)),
    "text": _flag('"--cuda", default="True"', 'args.cuda == "True"', 'args.cuda != "True"', asked=("--cuda", "False")),
    "number": _flag('"--gpu", type=int, default=-1', "args.gpu >= 0", "args.gpu < 0", gpu=("--gpu", "0")),
    "not_minus_one": _flag('"--gpu", type=int, default=0', "args.gpu != -1", "args.gpu == -1", asked=("--gpu", "-1")),
    "number_of_text": _flag('"--gpu", default="-1"', "int(args.gpu) >= 0", "int(args.gpu) < 0", gpu=("--gpu", "0")),
    "none": _flag('"--gpu", type=int', "args.gpu is not None", "args.gpu is None", gpu=("--gpu", "0")),
    "list": _flag(
        '"--gpus", type=int, nargs="*", default=[0]', "len(args.gpus) > 0", "len(args.gpus) <= 0", asked=("--gpus",)
    ),
    "starts": _flag(
        '"--device", default="cuda"',
        'args.device.startswith("cuda")',
        'not args.device.startswith("cuda")',
        asked=("--device", "cpu"),
    ),
    "device": _named('"--device", default="cuda"', 'args.device == "cuda"'),
    "any": _named(f'"--device", default={ANY}', 'args.device != "cpu"', device="args.device"),
    "named_or_any": _named('"--device", default=None', "", device=f"torch.device(args.device or ({ANY}))"),
    "chosen": _named('"--device", default="cuda", choices=("cuda", "cpu")', 'args.device == "cuda"'),
    "auto": _named('"--device", default="auto"', "", after=_FALLBACK),
    "no_gpu": _named(
        '"--device", default="cuda"', "", after='if not torch.cuda.is_available():\n    args.device = "cpu"\n'
    ),
    "picked": Declared(
        _parsed('"--gpu", type=int, default=-1') + _PICK,
        "args.gpu >= 0",
        "pick(args.gpu)",
        "args.gpu < 0",
        gpu=("--gpu", "0"),
    ),
    "vars": Declared(
        _parsed('"--cuda", action="store_true"') + "opt = vars(args)\n",
        'opt["cuda"]',
        'torch.device("cuda" if opt["cuda"] else "cpu")',
        'not opt["cuda"]',
        gpu=("--cuda",),
    ),
    "environment": Declared(
        'name = os.environ.get("DEVICE", "cuda")\n',
        'name != "cpu"',
        "torch.device(name)",
        'name == "cpu"',
        'str(name).startswith("cpu")',
        variables=("DEVICE", "cpu"),
    ),
    "json": Declared(
        'config = json.loads(os.environ.get("CONFIG", "{}"))\n',
        'config.get("device", "cuda") != "cpu"',
        'torch.device(config.get("device", "cuda"))',
        'config.get("device", "cuda") == "cpu"',
        'str(config.get("device", "cuda")).startswith("cpu")',
        variables=("CONFIG", '{"device": "cpu"}'),
    ),
    "class": Declared(
        'class Config:\n    cuda = os.environ.get("NO_CUDA") is None\n',
        "Config.cuda",
        'torch.device("cuda" if Config.cuda else "cpu")',
        "not Config.cuda",
        variables=("NO_CUDA", "1"),
    ),
}
_STEP = """\
loss = nn.functional.cross_entropy(model(x){noise}, y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(loss.item())
"""
_DATA = "loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.arange(8) % 2), batch_size=4, shuffle=True)\n"
_IF = "if {wished}:\n    "
_SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


def _used(model: str, moves: str, *, noise: str = "", end: str = "", before: str = "") -> str:
    loop = f"for x, y in loader:\n{indent(moves + _STEP.replace('{noise}', noise), '    ')}"
    return f"torch.manual_seed(0)\n{before}{_DATA}model = nn.Linear(4, 2)\n{model}{_SGD}{loop}{end}"


BY_CONDITION = {
    "if": _used(f"{_IF}model.cuda()\n", f"{_IF}x, y = x.cuda(), y.cuda()\n"),
    "kinds": _used(
        "model = model.type(kind)\n",
        f"x = x.type(kind)\n{_IF}y = y.cuda()\n",
        before="kind = torch.cuda.FloatTensor if {wished} else torch.FloatTensor\n",
    ),
    "own": _used(
        f"{_IF}model = model.cuda()\n",
        f"noise = torch.randn(4, 2)\n{_IF}x, y, noise = x.cuda(), y.cuda(), noise.cuda()\n",
        noise=" + noise",
        end=f"start = torch.ones(1, 4)\n{_IF}start = start.cuda()\nprint(model(start).sum().item())\n",
    ),
}
BY_DEVICE = {
    "to": _used("model.to(device)\n", "x, y = x.to(device), y.to(device)\n", before="device = {device}\n"),
    "own": _used(
        "model = model.to(device)\n",
        "x, y = x.to(device), y.to(device)\n",
        noise=" * torch.ones(2, device=device)",
        before="device = {device}\n",
        end="print(model(torch.ones(1, 4).to(device)).sum().item())\n",
    ),
}


def script(declared: Declared, use: str, *, in_main: bool) -> str:
    """The script's text."""
    body = use.replace("{wished}", declared.wished).replace("{device}", declared.device)
    if in_main:
        body = f"def main():\n{indent(body, '    ')}if __name__ == '__main__':\n    main()\n"
    return f"{HEAD}{declared.code}{body}"
