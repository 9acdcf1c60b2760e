"""Facts about loops that begin a training anew in each round: over folds, seeds or settings."""

from __future__ import annotations

import ast
import textwrap
from textwrap import indent

import pytest

from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.made_anew import Anew
from tests.codemod.facts import MARK, Facts

IMPORTS = "import torch\nfrom torch import nn\n"


def begins(text: str, **modules: str) -> bool:
    facts = Facts({"main.py": IMPORTS + text, **{f"{name}.py": each for name, each in modules.items()}})
    (loop,) = (n for n in facts.marked if isinstance(n, ast.For))
    loops = Loops(facts.program, facts.roles, facts.tracer)
    anew = Anew(facts.program, facts.roles, facts.tracer, loops.nesting.stack)
    stepped = [c.func.value for c in facts.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "step"]
    return anew.begins(loop, stepped)


MAKE = "m = nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\n"


def test_each_round_makes_its_own() -> None:
    assert begins(
        f"for fold in folds:  {MARK}\n    m = nn.Linear(1, 1)\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n"
    )


def test_through_functions_and_classes() -> None:
    text = "def build():\n    m = nn.Linear(1, 1)\n    return m, torch.optim.SGD(m.parameters())\n"
    assert begins(f"{text}for fold in folds:  {MARK}\n    m, o = build()\n    o.step()\n")
    net = "class Net(nn.Module): pass\n"
    assert begins(
        f"{net}for f in folds:  {MARK}\n    m = Net()\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n"
    )


@pytest.mark.parametrize(
    "unused",
    [
        "if __name__ == '__main__':\n    print(Net())\n",
        "def demonstrate():\n    print(Net())\nif __name__ == '__main__':\n    demonstrate()\n",
        "def never_called():\n    return Net()\n",
        "if False:\n    print(Net())\n",
    ],
)
def test_what_no_run_of_the_script_makes_does_not_count(unused: str) -> None:
    net = f"{IMPORTS}class Net(nn.Module): pass\n{unused}"
    rounds = "    m = Net()\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n"
    assert begins(f"from net import Net\nfor f in folds:  {MARK}\n{rounds}", net=net)


def test_what_an_imported_module_makes_as_it_is_imported_is_there_before() -> None:
    net = f"{IMPORTS}class Net(nn.Module): pass\nshared = Net()\n"
    rounds = "    o = torch.optim.SGD(shared.parameters())\n    o.step()\n"
    assert not begins(f"from net import shared\nfor f in folds:  {MARK}\n{rounds}", net=net)


@pytest.mark.parametrize(
    "text",
    [
        f"{MAKE}for x in rows:  {MARK}\n    o.step()\n",
        f"m = nn.Linear(1, 1)\nfor f in folds:  {MARK}\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n",
        f"{MAKE}for f in folds:  {MARK}\n    m = nn.Linear(1, 1)\n    o.step()\n",
        f"def f(o):\n    for x in rows:  {MARK}\n        o.step()\n",
        f"for f in folds:  {MARK}\n    unknown.step()\n",
    ],
)
def test_what_was_there_before_is_trained_on(text: str) -> None:
    assert not begins(text)


def nested(text: str) -> list[tuple[str, bool, bool]]:
    facts = Facts(IMPORTS + "from torch.utils.data import DataLoader\n" + text)
    found = Loops(facts.program, facts.roles, facts.tracer).find().nested
    return [(ast.unparse(n.backward.func), n.is_within, n.is_mixed) for n in found]


INNER = """\
loader = DataLoader(rows)
for x in loader:
    d = torch.zeros_like(x, requires_grad=True)
    i = torch.optim.SGD([d])
    for _ in range(3):
        f(m(x + d)).backward()
        i.step()
"""


def test_a_pass_for_one_batch_within_another_training() -> None:
    assert nested(f"{MAKE}{INNER}    g(m(x)).backward()\n    o.step()\n") == [("f(m(x + d)).backward", True, False)]


def test_a_pass_for_one_batch_alone() -> None:
    assert nested(INNER) == [("f(m(x + d)).backward", False, False)]


def test_a_pass_for_one_batch_beside_another_training() -> None:
    """Which leaves the loader of the one whole: it is for an evaluation that adapts to each batch."""
    trains = f"{MAKE}for y in DataLoader(rows):\n    g(m(y)).backward()\n    o.step()\n"
    assert nested(f"{trains}{INNER}") == [("f(m(x + d)).backward", True, False)]
    folds = f"for fold in folds:\n{textwrap.indent(trains, '    ')}"
    assert nested(folds + INNER) == [("f(m(x + d)).backward", True, False)]


@pytest.mark.parametrize("given", ["({'params': d, 'lr': 1},)", "[{'params': [d]}]", "[d, {'params': [x + 1]}]"])
def test_tensors_given_in_groups(given: str) -> None:
    assert nested(INNER.replace("[d]", given)) == [("f(m(x + d)).backward", False, False)]
    kept = f"w = torch.zeros(1, requires_grad=True)\n{INNER}"
    assert nested(kept.replace("[d]", given.replace("x + 1", "w").replace("d,", "w,").replace("[d]", "[w]"))) == []


def test_a_pass_for_one_batch_and_for_what_lasts() -> None:
    assert nested(f"{MAKE}{INNER}        o.step()\n") == [("f(m(x + d)).backward", False, True)]


@pytest.mark.parametrize("given", ["[w]", "m.parameters()", "unknown()"])
def test_what_lasts_longer_than_a_batch_is_not_nested(given: str) -> None:
    head = f"{MAKE}w = torch.zeros(1, requires_grad=True)\n"
    assert nested(head + INNER.replace("[d]", given) + "    g(m(x)).backward()\n    o.step()\n") == []


def test_a_training_on_a_loader_in_each_round_is_not_nested() -> None:
    fold = "    for x in DataLoader(rows):\n        f(m(x)).backward()\n        o.step()\n"
    assert nested(f"for fold in folds:\n    m = nn.Linear(1, 1)\n    o = torch.optim.SGD(m.parameters())\n{fold}") == []


ADAPT = """\
def adapt(x, y):
    head = nn.Linear(4, 2)
    o = torch.optim.SGD(head.parameters())
    for i in range(0, len(x), 2):
        f(head(x[i]), y[i]).backward()
        o.step()
    return head
"""
LASTING = f"{MAKE}for b in DataLoader(rows):\n    g(m(b)).backward()\n    o.step()\n"
KEPT = ADAPT.replace("head = nn", "self.head = head = nn").replace("(x, y)", "(self, x, y)")
READ = ADAPT.replace("(x, y):", "(path):\n    x, y = torch.load(path)")
GIVEN_LOADER = ADAPT.replace("(x, y)", "(loader)").replace("i in range(0, len(x), 2)", "i, (x, y) in enumerate(loader)")
ASKED = [("f(head(x[i]), y[i]).backward", True, False)]


def test_a_call_that_no_script_makes_trains_for_itself() -> None:
    assert nested(ADAPT + LASTING) == ASKED


@pytest.mark.parametrize(
    "calls",
    [
        "[adapt(*random.choice(tasks)) for _ in range(9)]\n",
        "for _ in range(9):\n    x, y = random.choice(tasks)\n    adapt(x, y)\n",
        "def score():\n    r = torch.randperm(9)\n    return adapt(data[r], labels[r])\n[score() for _ in range(9)]\n",
        "while True:\n    x = []\n    x.append(random.sample(data, 3))\n    adapt(torch.tensor(x), y)\n",
    ],
)
def test_calls_on_data_drawn_for_each_of_them(calls: str) -> None:
    assert nested(f"import random\n{ADAPT}{LASTING}{calls}") == ASKED


def test_where_each_call_makes_an_object_that_trains() -> None:
    cls = """\
class Episode:
    def __init__(self):
        self.head = nn.Linear(4, 2)
    def fit(self, x, y):
        o = torch.optim.SGD(self.head.parameters())
        for rows in (torch.randperm(len(x)) for _ in range(5)):
            f(self.head(x[rows]), y[rows]).backward()
            o.step()
def adapt(x, y):
    episode = Episode()
    episode.fit(x, y)
"""
    assert nested(cls + LASTING) == []  # what an object keeps may last
    own = cls.replace("self.head = nn.Linear(4, 2)", "pass").replace(
        "        o =", "        head = nn.Linear(4, 2)\n        o ="
    )
    assert [n[1:] for n in nested(own.replace("self.head", "head") + LASTING)] == [(True, False)]


@pytest.mark.parametrize(
    "text",
    [
        f"{ADAPT}{LASTING}adapt(data, labels)\n",  # a second stage
        f"{ADAPT}{LASTING}for seed in range(5):\n    adapt(data, labels)\n",
        f"{ADAPT}x = torch.randn(9, 4)\n{LASTING}[adapt(x, labels) for _ in range(5)]\n",
        ADAPT,  # the training of a module
        f"{ADAPT}def helper():\n{indent(LASTING, '    ')}",
        KEPT + LASTING,
        READ + LASTING,
        GIVEN_LOADER + LASTING,
    ],
)
def test_a_training_of_its_own_is_not_one_calls(text: str) -> None:
    assert nested(text) == []


def test_random_steps_of_calls_that_are_all_the_training() -> None:
    drawn = ADAPT.replace("for i in range(0, len(x), 2):", "for _ in range(5):\n        i = torch.randint(9, (2,))")
    calls = "import random\n[adapt(*random.choice(tasks)) for _ in range(9)]\n"
    assert nested(drawn + calls) == [("f(head(x[i]), y[i]).backward", False, False)]
    assert nested(ADAPT + calls) == []


@pytest.mark.parametrize(
    ("made", "is_own"),
    [
        ("head = Net()\n    head = head.cuda()", True),
        ("if wide:\n        head = Net()\n    else:\n        head = nn.Linear(4, 2)", True),
        ("head = shared", False),
        ("head = Net() if wide else shared", False),
        ("head = get()", False),
    ],
)
def test_a_network_of_a_class_that_others_are_of(made: str, is_own: bool) -> None:
    nets = "class Net(nn.Module): pass\nshared = Net()\ndef get():\n    return shared\n"
    adapt = ADAPT.replace("head = nn.Linear(4, 2)", made)
    assert nested(nets + adapt + LASTING.replace("nn.Linear(1, 1)", "Net()")) == (ASKED if is_own else [])
