"""Facts about optimizers: whose parameters each gets, as the models are named where the optimizer is."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.objects.optimizer_models import Owners, is_plain
from tests.codemod.facts import Facts, texts

IMPORTS = "import torch\nfrom torch import nn\n"


def owners(text: str) -> list[str]:
    facts = Facts(IMPORTS + text)
    chains = facts.tracer.chains(facts.call("use(").args[0])
    found = Owners(facts.program, facts.roles, facts.tracer, facts.training)
    return texts(node for chain in chains for node in found.of(chain[-1]))


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("m = nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\nuse(o)\n", ["m"]),
        ("m, n = A(), B()\no = torch.optim.SGD(list(m.parameters()) + list(n.parameters()))\nuse(o)\n", ["m", "n"]),
        ("m = A()\no = torch.optim.SGD([{'params': m.parameters()}])\nuse(o)\n", ["m"]),
        ("m = A()\np = m.parameters()\no = torch.optim.SGD(p)\nuse(o)\n", ["m"]),
        ("m = A()\no = torch.optim.SGD(filter(f, m.parameters()))\nuse(o)\n", ["m"]),
        ("m = A()\no = torch.optim.SGD(m.features.parameters())\nuse(o)\n", ["m.features"]),
        ("def build(net):\n    return torch.optim.SGD(net.parameters())\nm = A()\no = build(m)\nuse(o)\n", ["m"]),
        ("m = nn.Sequential(A(), B())\no = torch.optim.SGD(m[1].parameters())\nuse(o)\n", ["m"]),
        (
            "m = nn.Sequential(A(), B())\np = []\nfor x in m: p += x.parameters()\no = torch.optim.SGD(p)\nuse(o)\n",
            ["m"],
        ),
        (
            "m = nn.Sequential(A(), B())\np = []\nfor i in range(2): p.extend(m[i].parameters())\n"
            "o = torch.optim.SGD(p)\nuse(o)\n",
            ["m"],
        ),
        (
            "m = nn.ModuleDict({'a': A()})\np = []\nfor k in m: p += [*m[k].parameters()]\n"
            "o = torch.optim.SGD(p)\nuse(o)\n",
            ["m"],
        ),
        ("m = [A(), B()]\no = torch.optim.SGD(m[1].parameters())\nuse(o)\n", ["m[1]"]),
        (
            "def build(some):\n    n, m = nn.Linear(1, 1), None\n    if some:\n        m = nn.Conv2d(1, 1, 1)\n"
            "        return m, n, torch.optim.SGD([*m.parameters(), *n.parameters()])\n"
            "    return m, n, torch.optim.SGD(n.parameters())\nm, n, o = build(a)\nuse(o)\nm, n\n",
            ["m", "n"],
        ),
        ("o = torch.optim.SGD([torch.zeros(1)])\nuse(o)\n", []),
        ("o = unknown()\nuse(o)\n", []),
    ],
)
def test_the_models_of_an_optimizer(text: str, models: list[str]) -> None:
    assert owners(text) == models


NET = """\
class Net(nn.Module):
    def __init__(self):
        self.body, self.head = nn.Linear(1, 1), nn.Linear(1, 1)
        self.scale = nn.Parameter(torch.ones(1))
    def trainable(self):
        return [p for p in self.parameters() if p.requires_grad]
    def of_body(self):
        for p in self.body.parameters():
            yield p
    def of_head(self):
        yield from self.head.parameters()
    def groups(self):
        return [{"params": self.body.parameters()}, {"params": [self.head.weight]}]
def sort(net):
    few, many = [], []
    for name, p in net.named_parameters():
        (few if p.ndim == 1 else many).append(p)
    return [{"params": few}, {"params": many}]
net = Net()
"""


@pytest.mark.parametrize(
    "given",
    [
        "net.trainable()",
        "[{'params': net.of_body()}, {'params': net.of_head()}]",
        "net.groups()",
        "sort(net)",
        "[net.body.weight, net.head.bias]",
        "[*net.of_body()]",
        "[p for m in [net] for p in m.parameters()]",
        "[p for k, p in dict(net.named_parameters()).items()]",
        "itertools.chain(net.body.parameters(), net.head.parameters())",
        "filter(lambda p: p.requires_grad, net.parameters())",
    ],
)
def test_a_model_whose_parameters_come_another_way(given: str) -> None:
    assert set(owners(f"import itertools\n{NET}o = torch.optim.SGD({given})\nuse(o)\n")) == {"net"}


def test_the_model_has_to_be_there_when_the_optimizer_is() -> None:
    classes = NET.replace("net = Net()\n", "")
    assert (
        owners(f"{classes}def make():\n    m = Net()\n    return torch.optim.SGD(sort(m))\no = make()\nuse(o)\n") == []
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [("a", True), ("a.b.c", True), ("a['k']", True), ("a[0].b", True), ("a[i]", False), ("f()", False)],
)
def test_plain_names(text: str, plain: bool) -> None:
    assert is_plain(Facts(text).expression(text)) is plain


PARTS = """\
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.ones(1))
def split(net):
    norms, rest = [], []
    for part in net.modules():
        if "norm" in str(part.__class__): norms.extend([*part.parameters()])
        elif not list(part.children()): rest.extend([*part.parameters()])
    return norms, rest
def listed(parts):
    if not isinstance(parts, list):
        parts = [*parts.modules()]
    found = []
    for layer in parts:
        found.extend([*layer.parameters()])
    return found
def grouped(net, decay):
    yes, no = [], []
    for part in net.children():
        (no if isinstance(part, nn.BatchNorm1d) else yes).extend(part.parameters())
    return [{"params": yes, "weight_decay": decay}, {"params": no}]
m, head = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)), Head()
"""


@pytest.mark.parametrize(
    "given",
    [
        "norms, rest = split(m)\no = torch.optim.SGD([{'params': rest + [head.kernel]}, {'params': norms}])",
        "o = torch.optim.SGD(listed(m) + [head.kernel])",
        "o = torch.optim.SGD(grouped(m, 0.1) + [{'params': [head.kernel]}])",
        "norms = []\nfor part in m.modules():\n    norms += list(part.parameters(recurse=False))\n"
        "o = torch.optim.SGD(norms + [head.kernel])",
        "both = split(m)\no = torch.optim.SGD([*both[0], *both[1], head.kernel])",
    ],
)
def test_models_whose_parameters_a_helper_lists(given: str) -> None:
    assert set(owners(f"{PARTS}{given}\nuse(o)\n")) == {"m", "head"}


MODULES = """\
class Net(nn.Module):
    def __init__(self):
        self.body = nn.Linear(1, 1)
    def of_kind(self, kind):
        for part in self.modules():
            if isinstance(part, kind):
                yield part.weight
def weights(net, bias=False):
    for part in net.modules():
        if isinstance(part, nn.Linear):
            if bias:
                yield part.bias
            else:
                yield part.weight
        elif isinstance(part, (nn.ReLU, Net)):
            continue
def collected(net):
    found = []
    for name, part in net.named_modules():
        found.append(part.weight)
    return found
def rates(net):
    return [0.1 for part in net.modules()]
m, head = Net(), nn.Linear(1, 1)
"""


@pytest.mark.parametrize(
    ("given", "models"),
    [
        ("[{'params': weights(m)}, {'params': weights(m, bias=True), 'lr': 0.2}]", {"m"}),
        ("[{'params': weights(m)}, {'params': head.parameters()}]", {"m", "head"}),
        ("list(weights(m))", {"m"}),
        ("collected(m)", {"m"}),
        ("m.of_kind(nn.Linear)", {"m"}),
        ("[{'params': m.of_kind(nn.Linear)}, {'params': head.parameters()}]", {"m", "head"}),
        ("head.parameters(), lr=rates(m)[0]", {"head"}),
    ],
)
def test_models_whose_parts_are_gone_over(given: str, models: set[str]) -> None:
    assert set(owners(f"{MODULES}o = torch.optim.SGD({given})\nuse(o)\n")) == models


TAKEN_APART = """\
from collections import namedtuple
import copy
Groups = namedtuple("Groups", "body head")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
        self.head = nn.Linear(1, 1)
    def forward(self, x):
        return self.head(self.body(x))
    def groups(self):
        return self.body[:1], self.body[1:], self.head
    def by_name(self):
        return {"body": self.body, "head": self.head}
    def named(self):
        return Groups(self.body, self.head)
    def each(self):
        yield self.body
        yield self.head
def halves(model):
    return model.body, model.head
net, other = Net(), Net()
"""


@pytest.mark.parametrize(
    "taken",
    [
        "g = net.groups()\np = [{'params': g[0].parameters()}, {'params': g[2].parameters()}]",
        "a, b, c = net.groups()\np = [*a.parameters(), *b.parameters(), *c.parameters()]",
        "g = net.groups()\np = [{'params': part.parameters()} for part in g]",
        "g = net.by_name()\np = g['body'].parameters()",
        "g = net.named()\np = g.body.parameters()",
        "g = list(net.each())\np = g[0].parameters()",
        "a, b = halves(net)\np = b.parameters()",
        "body, head = net.body, net.head\np = [*body.parameters(), *head.parameters()]",
        "body = net.body\nfirst = body[0]\np = first.parameters()",
        "head = getattr(net, 'head')\np = head.parameters()",
        "head = net.get_submodule('head')\np = head.parameters()",
        "layers = list(net.children())\np = layers[0].parameters()",
        "*_, head = net.children()\np = head.parameters()",
        "parts = dict(net.named_children())\np = [{'params': parts['head'].parameters()}]",
        "layers = [net.body, net.head]\np = layers[1].parameters()",
        "parts = dict(body=net.body)\np = [{'params': m.parameters()} for k, m in parts.items()]",
    ],
)
def test_parts_stand_for_the_model_that_they_are_taken_from(taken: str) -> None:
    assert owners(f"{TAKEN_APART}{taken}\no = torch.optim.SGD(p)\nnet(x), other(x)\nuse(o)\n") == ["net"]


@pytest.mark.parametrize(
    ("made", "models"),
    [
        (
            "body, head = net.body, net.head\np = [*body.parameters(), *head.parameters()]\nhead(body(x))",
            ["body", "head"],
        ),
        ("head = copy.deepcopy(net.head)\np = head.parameters()\nhead(net.body(x))", ["head"]),
        ("body = nn.Linear(1, 1)\nboth = nn.Sequential(body, nn.ReLU())\np = body.parameters()\nboth(x)", ["body"]),
        ("mine = nn.Sequential(net.body, nn.Linear(1, 1))\np = mine.parameters()\nmine(x)", ["mine"]),
    ],
)
def test_modules_of_their_own_stand_for_themselves(made: str, models: list[str]) -> None:
    assert owners(f"{TAKEN_APART}{made}\no = torch.optim.SGD(p)\nuse(o)\n") == models


def test_parts_that_an_object_keeps() -> None:
    trainer = """
class Trainer:
    def __init__(self, model):
        self.net = model
        self.groups = self.net.groups()
        self.o = torch.optim.SGD([{"params": g.parameters()} for g in self.groups])
    def fit(self):
        self.net(x)
        use(self.o)
Trainer(net)
"""
    assert owners(TAKEN_APART + trainer) == ["self.net"]


def test_options_are_no_model_though_unknown_code_may_give_them_back() -> None:
    text = (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nnet = nn.Linear(1, 1)\n"
        "def make(model):\n    return torch.optim.SGD(model.parameters())\n"
        "def pick(one, other):\n    return one if some else other\n"
        "o = make(pick(args, net))\nuse(o)\nnet, args\n"
    )
    assert owners(text) == ["net"]
