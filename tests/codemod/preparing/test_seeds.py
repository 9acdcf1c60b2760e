"""Facts about after which statement processes may draw random numbers of their own."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.seeds import Seeds
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP


def after(build: str) -> str:
    step = STEP.replace("\n", "\n    ")
    text = f"""\
import torch
from torch import nn
def make():
    net = nn.Linear(4, 1)
    return net
{build}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(9):
    x = y = torch.randn(2)
    {step}
"""
    facts = Facts(text)
    found = facts.script.seeds
    assert isinstance(found, Seeds)
    return ast.unparse(found.after(facts.statement("net = nn.Linear"))).partition("\n")[0]


def test_a_function_that_builds_once() -> None:
    assert after("a = make()") == "net = nn.Linear(4, 1)"


def test_a_function_that_builds_several() -> None:
    assert after("a = make()\nb = make()") == "b = make()"
    assert after("for k in range(3):\n    a = make()") == "for k in range(3):"
    assert after("a = [make() for k in range(3)]") == "a = [make() for k in range(3)]"


def test_a_function_that_nothing_calls() -> None:
    assert after("a = 1") == "net = nn.Linear(4, 1)"


HEAD = """\
import random
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
built = True
"""
TRAIN = "for _ in range(9):\n    x = y = torch.randn(2)\n    " + STEP.replace("\n", "\n    ") + "\n"


def again(text: str) -> set[tuple[str, bool]]:
    """What seeds after `built = True`, and whether the data of a step are drawn before it is through."""
    facts = Facts(HEAD + text)
    seeds = facts.script.seeds
    assert isinstance(seeds, Seeds)
    return {
        (ast.unparse(s.statement).partition("\n")[0], s.is_drawn_from)
        for s in seeds.again(facts.statement("built = True"))
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torch.manual_seed(5)\n" + TRAIN, {("torch.manual_seed(5)", False)}),
        ("if a:\n    random.seed(5)\n" + TRAIN, {("if a:", False)}),
        (TRAIN + "torch.manual_seed(5)\n", set()),
        ("def f():\n    torch.manual_seed(5)\n" + TRAIN, set()),
        ("def f():\n    torch.manual_seed(5)\nf()\n" + TRAIN, {("f()", False)}),
        ("def f():\n    random.seed(2)\n    " + TRAIN.replace("\n", "\n    ") + "\nf()\n", {("random.seed(2)", False)}),
        (TRAIN.replace("torch.randn(2)", "get()").replace("for", "def get():\n    torch.manual_seed(1)\n"
         "    return torch.randn(2)\nfor", 1), {("x = y = get()", True)}),
    ],
)  # fmt: skip
def test_what_seeds_on_the_way_to_the_training(text: str, wanted: set[tuple[str, bool]]) -> None:
    assert again(text) == wanted


def test_a_generator_that_seeds_as_it_goes() -> None:
    data = "def batches():\n    random.seed(1)\n    yield torch.randn(2)\nwhile True:\n    it = batches()\n    "
    train = TRAIN.replace("torch.randn(2)", "next(it)").replace("\n", "\n    ")
    assert again(data + train) == {("x = y = next(it)", True)}


def test_a_seed_where_the_function_is_called() -> None:
    text = HEAD.partition("model =")[0] + "def build():\n    model = nn.Linear(4, 1)\n    built = True\n"
    text += "    return model\nmodel = build()\noptimizer = torch.optim.SGD(model.parameters())\ntorch.manual_seed(3)\n"
    facts = Facts(text + TRAIN)
    found = facts.script.seeds.again(facts.statement("built = True"))
    assert [ast.unparse(s.statement) for s in found] == ["torch.manual_seed(3)"]


@pytest.mark.parametrize(
    ("seed", "is_by_rank"),
    [
        ("torch.manual_seed(1337 + rank)", True),
        ("torch.manual_seed(rank)", True),
        ("seed = 3 + rank\ntorch.manual_seed(seed)", True),
        ("torch.manual_seed(1337)", False),
        ("torch.manual_seed(rank // 2)", False),
        ("torch.manual_seed(3)\ntorch.manual_seed(3 + rank)", False),
        ("random.seed(rank)", False),
        ("", False),
    ],
)
def test_a_script_that_seeds_by_the_rank(seed: str, is_by_rank: bool) -> None:
    rank = "import os\nrank = int(os.environ.get('RANK', 0))\n"
    seeds = Facts(rank + HEAD.replace("model =", f"{seed}\nmodel =") + TRAIN).script.seeds
    assert isinstance(seeds, Seeds)
    assert seeds.is_by_rank is is_by_rank


# Weights that are drawn behind the models.

FIT = """\
class Learner:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters())
        {init}
    def fit(self):
        {fit}
        for _ in range(9):
            loss = self.net(torch.randn(2, 4)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def learner(run: str, init: str = "pass", fit: str = "pass") -> Facts:
    return Facts("import torch\nfrom torch import nn\n" + FIT.format(init=init, fit=fit) + run + "\n")


def places(facts: Facts) -> list[str]:
    return [ast.unparse(place.statement) for place in facts.script.seeds.places]


def apart(facts: Facts) -> list[str]:
    return [ast.unparse(statement) for statement in facts.script.seeds.weights_apart()]


MADE = "optimizer = torch.optim.SGD(model.parameters())"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("teacher = nn.Linear(4, 1)\n", "teacher = nn.Linear(4, 1)"),
        ("teacher = nn.Linear(4, 1)\nnn.init.normal_(teacher.weight)\n", "nn.init.normal_(teacher.weight)"),
        ("def init(m):\n    nn.init.normal_(m.weight)\nmodel.apply(init)\n", "model.apply(init)"),
        ("if True:\n    teacher = nn.Linear(4, 1)\n", "if True:\n    teacher = nn.Linear(4, 1)"),
        ("noise = torch.randn(4)\nrandom.shuffle([1, 2])\n", "built = True"),
        ("noise = torch.empty(4).normal_()\nnn.init.normal_(torch.empty(4))\nnn.ReLU()\n", "built = True"),
    ],
)
def test_weights_that_are_drawn_before_the_training(text: str, wanted: str) -> None:
    facts = Facts(HEAD + text + TRAIN)
    assert ast.unparse(facts.script.seeds.behind_weights(facts.statement("built = True"))) == wanted
    assert not apart(facts)


def test_weights_that_the_caller_of_what_prepares_draws() -> None:
    run = "learner = Learner()\nteacher = nn.Linear(4, 1)\nlearner.fit()"
    facts = learner(run, fit="steps = 9")
    assert (places(facts), apart(facts)) == (["steps = 9"], [])
    assert apart(learner(run.replace("learner = L", "steps = 9\nlearner = L"), fit="")) == ["teacher = nn.Linear(4, 1)"]


def test_weights_that_the_function_draws_that_trains() -> None:
    facts = learner("Learner().fit()", fit="self.teacher = nn.Linear(4, 1)")
    assert (places(facts), apart(facts)) == (["self.teacher = nn.Linear(4, 1)"], [])


def test_weights_that_are_drawn_in_each_round() -> None:
    step = "    if _ == 5:\n        {}\n"
    assert apart(Facts(HEAD + TRAIN + step.format("probe = nn.Linear(4, 1)"))) == ["probe = nn.Linear(4, 1)"]
    assert apart(Facts(HEAD + TRAIN + step.format("model.reset_parameters()"))) == ["model.reset_parameters()"]
    assert apart(Facts(HEAD + TRAIN + step.format("model.weight.data[0].normal_()")))
    assert not apart(Facts(HEAD + TRAIN + step.format("z = torch.zeros(2).normal_()")))
    loaded = "probe = nn.Linear(4, 1); probe.load_state_dict(model.state_dict())"
    assert not apart(Facts(HEAD + TRAIN + step.format(loaded)))


@pytest.mark.parametrize(
    ("seed", "wanted"), [("pass", ["self.other = nn.Linear(4, 1)"]), ("torch.manual_seed(run)", [])]
)
def test_weights_of_several_runs(seed: str, wanted: list[str]) -> None:
    run = f"for run in range(3):\n    {seed}\n    learner = Learner()\n    learner.fit()"
    assert apart(learner(run, init="self.other = nn.Linear(4, 1)")) == wanted


RUNS = """\
import torch
from torch import nn
def init(m):
    nn.init.normal_(m.weight)
teacher = nn.Linear(4, 1)
for run in range(3):
    net = nn.Linear(4, 1)
    {above}
    optimizer = torch.optim.SGD(net.parameters())
    {below}
    for _ in range(9):
        loss = net(torch.randn(2, 4)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "drawing",
    [
        "net.apply(init)",
        "init(net)",
        "nn.init.normal_(net.weight)",
        "net.weight.data.normal_()",
        "net.reset_parameters()",
        "for p in net.parameters(): nn.init.normal_(p)",
        "for name, p in net.named_parameters(): nn.init.normal_(p)",
        "if run: net.apply(init)",
    ],
)
def test_weights_that_are_drawn_above_what_prepares_their_model(drawing: str) -> None:
    leaf = drawing.rpartition(": ")[2]
    assert apart(Facts(RUNS.format(above=drawing, below="pass"))) == []
    assert apart(Facts(RUNS.format(above="pass", below=drawing))) == [leaf]
    other = drawing.replace("net", "teacher")
    assert apart(Facts(RUNS.format(above=other, below="pass"))) == [leaf.replace("net", "teacher")]


def test_a_seed_in_the_statement_that_prepares() -> None:
    for run in ("Learner().fit()", "with torch.no_grad():\n    Learner().fit()"):
        assert places(learner(run, fit="torch.manual_seed(5)")) == ["torch.manual_seed(5)"]
    made = "self.optimizer = torch.optim.SGD(self.net.parameters())"
    facts = learner("for _ in [Learner()]:\n    _.fit()", fit="torch.manual_seed(5)")
    assert places(facts) == [made, "torch.manual_seed(5)"]


@pytest.mark.parametrize(
    ("between", "wanted"),
    [
        ("torch.manual_seed(5)", ["torch.manual_seed(5)"]),
        ("if seed:\n    torch.manual_seed(5)", ["if seed:\n    torch.manual_seed(5)"]),
        ("seed()", ["seed()"]),
        ("rows = [1]\nsampler = Sampler()\nrows = [2]", ["sampler = Sampler()"]),
    ],
)
def test_a_seed_between_what_prepares_and_the_training(between: str, wanted: list[str]) -> None:
    seeding = "def seed():\n    torch.manual_seed(0)\nclass Sampler:\n    def __init__(self):\n        seed()\n"
    text = f"{seeding}learner = Learner()\n{between}\nlearner.fit()"
    facts = learner(text, fit="pass")
    assert places(facts) == wanted
    assert [home.kind for home in facts.script.reach.homes] == ["module"]


def test_a_seed_that_some_runs_leave_out_does_not_stand_for_the_first_place() -> None:
    facts = learner("learner = Learner()\nif seed:\n    torch.manual_seed(1)\n    learner.fit()", fit="pass")
    assert places(facts) == ["self.optimizer = torch.optim.SGD(self.net.parameters())", "torch.manual_seed(1)"]


BEGUN = "def begun(learner):\n    torch.manual_seed(3)\n    return learner\n"


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        ("def make():\n    made = Learner()\n    return begun(made)\nmodel = make()\nmodel.fit()", "model = make()"),
        (
            "def make():\n    made = Learner()\n    return begun(made)\ndef start():\n    return make()\n"
            "model = start()\nmodel.fit()",
            "model = start()",
        ),
        (
            "def make():\n    made = Learner()\n    made = begun(made)\n    return made\nmake().fit()",
            "made = begun(made)",
        ),
    ],
)
def test_a_seed_in_what_is_returned(run: str, wanted: str) -> None:
    found = places(learner(BEGUN + run))
    assert found[-1] == wanted
    assert not any(place.startswith("return") for place in found)


THREADED = """\
import queue, random, threading
import torch
from torch import nn
class Batches:
    def __init__(self, rows):
        self.rows, self.queue = rows, queue.Queue(100)
        self.thread = threading.Thread(target=self.fill, daemon=True)
        {made}
    def fill(self):
        while True:
            random.shuffle(self.rows)
            for row in self.rows:
                self.queue.put(row)
class Learner:
    def __init__(self):
        self.batches = Batches([torch.randn(4, 3) for _ in range(8)])
    def fit(self):
        {above}
        self.net = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters())
        {below}
        for step in range(20):
            loss = self.net(self.batches.queue.get()).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
Learner().fit()
"""


@pytest.mark.parametrize(
    ("at", "start", "is_early"),
    [
        ("made", "self.thread.start()", True),
        ("above", "self.batches.thread.start()", True),
        ("below", "self.batches.thread.start()", False),
    ],
)
def test_a_thread_that_draws_before_the_place(at: str, start: str, is_early: bool) -> None:
    parts = {"made": "pass", "above": "pass", "below": "pass"} | {at: start}
    found = Facts(THREADED.format(**parts)).script.seeds.drawn_before()
    assert [ast.unparse(call) for call, _ in found] == [start] * is_early
