"""Facts about what draws random numbers or asks a simulation, and about passes over all data in a drawn order."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.result import Status
from accelify.codemod.training.draws import Passes, Workers, asks_environment, draws, function_draws, late_parameters
from accelify.codemod.training.loops import Loops
from tests.codemod.facts import Facts, texts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script

IMPORTS = """\
from torchvision import transforms as T
import random, torch, gym, remote
import numpy as np
from torch import nn
env = gym.make('x')
"""


@pytest.mark.parametrize(
    ("call", "is_drawn"),
    [
        ("torch.randn(3)", True),
        ("np.random.rand()", True),
        ("random.random()", True),
        ("buffer.sample(3)", True),
        ("remote.buffer.sample_batch(3)", True),
        ("torch.empty(3).uniform_()", True),
        ("np.random.default_rng(0).normal()", True),
        ("env.step(1)", True),
        ("torch.zeros(3)", False),
        ("nn.Linear(3, 3)", False),
        ("nn.functional.dropout(x, training=model.training)", False),
        ("np.random.seed(3)", False),
        ("optimizer.step()", False),
        ("remote.optimizer.step()", False),
        ("env.close()", False),
        ("T.RandomCrop(8)(x)", True),
        ("T.Compose([T.RandomCrop(8), T.ToTensor()])(x)", True),
        ("T.Compose(parts)(x)", True),
        ("T.ToTensor()(x)", False),
        ("T.v2.Resize(8)(x)", False),
        ("T.Compose([T.Resize(8), T.ToTensor()])(x)", False),
    ],
)
def test_what_draws_at_random(call: str, is_drawn: bool) -> None:
    facts = Facts(f"{IMPORTS}{call}\n")
    assert draws(facts.program, facts.call(call)) is is_drawn


@pytest.mark.parametrize(
    ("call", "is_asked"),
    [
        ("env.reset()", True),
        ("remote.make().train_envs.step(1)", True),
        ("gym.vector.make('x').reset()", True),
        ("optimizer.step()", False),
        ("env.close()", False),
    ],
)
def test_environments(call: str, is_asked: bool) -> None:
    facts = Facts(f"{IMPORTS}{call}\n")
    assert asks_environment(facts.program, facts.call(call)) is is_asked


def test_functions_that_draw() -> None:
    text = "def f():\n    return g()\ndef g():\n    return torch.randn(1)\ndef h():\n    return h()\nf()\nh()\n"
    facts = Facts(IMPORTS + text)
    assert function_draws(facts.program, facts.scope("f"))
    assert not function_draws(facts.program, facts.scope("h"))


# Passes.

HEAD = """\
import random
import torch
import numpy as np
from torch import nn
data = torch.randn(100, 5)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = "loss = model(x).mean(); optimizer.zero_grad(); loss.backward(); optimizer.step()"
NEXT = f"""
for epoch in range(3):
    it = batches(10)
    for step in range(10):
        x = next(it)
        {STEP}
"""
PASSES = {
    "seeded": """\
def batches(size):
    order = list(range(100)); random.seed(230); random.shuffle(order)
    for i in range(100 // size):
        yield data[order[i * size:(i + 1) * size]]
""",
    "unseeded": """\
def batches(size):
    order = torch.randperm(100)
    for start in range(0, 100, size):
        yield data[order[start:start + size]]
""",
    "in_a_function": """\
def drawn(n):
    return np.random.permutation(n)
def batches(size):
    order = drawn(len(data))
    rows = [data[i] for i in order]
    for i in range(0, 100, size):
        yield torch.stack(rows[i:i + size])
""",
    "in_reverse": """\
def batches(size):
    order = list(range(100)); np.random.shuffle(order)
    while order:
        yield data[[order.pop() for _ in range(size)] + order[:0]]
""",
}
WHILE = f"""
for epoch in range(3):
    order = np.random.permutation(100)
    start = 0
    while start < 100:
        x = data[order[start:start + 10]]
        {STEP}
        start += 10
"""
DRAWN = {
    "endless": """\
def batches(size):
    while True:
        order = torch.randperm(100)
        for i in range(0, 100, size):
            yield data[order[i:i + size]]
""",
    "in_each_step": """\
def batches(size):
    for _ in range(10):
        order = np.random.permutation(100)
        yield data[order[:size]]
""",
    "from_a_subset": """\
def batches(size):
    some = np.random.permutation(100)[:50]
    for _ in range(10):
        yield data[np.random.choice(some, size)]
""",
}


def kinds(text: str) -> list[str]:
    return [data.kind for data in Facts(HEAD + text).training.data]


@pytest.mark.parametrize("generator", PASSES.values(), ids=PASSES)
def test_one_pass_that_a_generator_gives(generator: str) -> None:
    assert kinds(generator + NEXT) == ["pass"]


def test_one_pass_in_slices() -> None:
    assert kinds(WHILE) == ["pass"]


@pytest.mark.parametrize("generator", DRAWN.values(), ids=DRAWN)
def test_what_is_drawn_again_and_again(generator: str) -> None:
    assert kinds(generator + NEXT) == ["random"]


def test_the_generators_that_a_loop_asks() -> None:
    facts = Facts(HEAD + PASSES["seeded"] + NEXT)
    around = Loops(facts.program, facts.roles, facts.tracer)
    passes = Passes(facts.program, around.stack, around.owners)
    loops = [loop for listed in facts.training.loops.values() for loop in listed]
    assert [generator.name for _, generator in passes.generators(loops)] == ["batches"]


def test_a_pass_that_is_asked_for_is_declined_at_its_line_and_one_that_is_gone_over_is_sharded() -> None:
    declined = run(HEAD + PASSES["seeded"] + NEXT)
    assert declined.status is Status.DECLINED
    assert [(n.rule, n.line) for n in declined.notes] == [("data", 16)]
    looped = run(f"{HEAD}{PASSES['seeded']}for epoch in range(3):\n    for x in batches(10):\n        {STEP}\n")
    assert "for x in accelerator.shard(batches(10)):" in looped.after.decode()
    assert "seed_by_rank" not in looped.after.decode()


EVALUATED = """\
import torch
from torch import nn
def score(model, x):
    return model(x + torch.rand(3)).mean()
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
x, scores, best = torch.ones(4, 3), [], 0
for step in range(100):
    {step}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {end}
"""
STEP_ALONE = "loss = model(x).sum()"


@pytest.mark.parametrize(
    ("step", "end", "kind"),
    [
        (STEP_ALONE, "print(score(model, x))", "full"),
        (STEP_ALONE, "found = score(model, x)\n    best = max(best, found)\n    print(best)", "full"),
        (STEP_ALONE, "scores.append(score(model, x))", "full"),
        ("loss = score(model, x)", "", "random"),
        ("loss = model(x).sum() + best", "best = score(model, x)", "random"),
        ("loss = model(x).sum()", "x[0] = score(model, x)", "random"),
        ("loss = model(x + torch.rand(3)).sum()", "", "random"),
    ],
)
def test_draws_of_an_evaluation(step: str, end: str, kind: str) -> None:
    facts = Facts(EVALUATED.format(step=step, end=end))
    assert {d.kind for d in facts.training.data} == {kind}


BESIDE = """\
import random, threading
import numpy as np
import torch
from multiprocessing import Process, Queue
from torch import nn
def work(queue, seed=0):
    {seeds}
    while True:
        {draws}
def score(model):
    return model(torch.randn(4, 3)).mean().item()
queue = Queue(8)
{starts}
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = model(torch.as_tensor(queue.get())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found = score(model)
    print(found)
"""


def beside(
    starts: str, seeds: str = "np.random.seed(seed)", draws: str = "queue.put(np.random.randn(4, 3, dtype='f'))"
) -> str:
    return BESIDE.format(starts=starts, seeds=seeds, draws=draws)


@pytest.mark.parametrize(
    ("starts", "seeds", "found"),
    [
        ("Process(target=work, args=(queue, np.random.randint(9))).start()", "np.random.seed(seed)", [(True, 1)]),
        ("s = random.random()\nProcess(target=work, args=(queue, s)).start()", "np.random.seed(seed)", [(True, 1)]),
        ("threading.Thread(target=work, args=[queue, 7]).start()", "random.seed(seed + 1)", [(False, 1)]),
        ("Process(target=work, args=(queue,), kwargs={'seed': 7}).start()", "np.random.seed(seed)", [(False, 1)]),
        ("Process(target=work, args=(queue, 7)).start()", "print(seed)", []),
    ],
)
def test_what_seeds_a_worker(starts: str, seeds: str, found: list[tuple[bool, int]]) -> None:
    seeded = list(Workers(Facts(beside(starts, seeds)).program).seeds())
    assert [(s.is_drawn, 1) for s in seeded] == found


@pytest.mark.parametrize("draws", ["queue.put(1)", "np.random.randn(4)"])
def test_a_worker_that_hands_over_nothing_drawn(draws: str) -> None:
    facts = Facts(beside("Process(target=work, args=(queue, 7)).start()", draws=draws))
    assert not list(Workers(facts.program).drawing())
    assert {d.kind for d in facts.training.data} == {"full"}  # what `score` draws trains nothing


def test_a_worker_of_each_rank_draws_for_itself() -> None:
    result = run(beside("for i in range(2):\n    Process(target=work, args=(queue, i)).start()"))
    after = result.after.decode()
    assert "args=(queue, i * accelerator.num_processes + accelerator.process_index)" in after
    assert "accelerator.seed_by_rank()" in after
    assert any("`found` is computed from this process's own random draws" in n.message for n in result.notes)


def test_a_worker_in_a_file_that_the_accelerator_does_not_reach() -> None:
    facts = Facts(beside("Process(target=work, args=(queue, np.random.randint(2e9))).start()"))
    (seed,) = Workers(facts.program).seeds()
    assert ast.unparse(seed.node) == "np.random.randint(2000000000.0)"


LATE = """\
class Cell:
    def __init__(self, net):
        self.net = net
    def give(self):
        p = nn.Parameter(torch.rand(4))
        self.net.register_parameter('w', p)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)
        self.w = None
    def weights(self):
        {weights}
    def unused(self):
        self.late = nn.Linear(4, 4)
    def forward(self, x):
        {forward}
        return self.out(x)
"""


@pytest.mark.parametrize(
    ("weights", "forward", "found"),
    [
        ("pass", "if self.w is None: self.w = nn.Parameter(torch.rand(4))", ["nn.Parameter(torch.rand(4))"]),
        ("p = nn.Parameter(torch.rand(4)); self.w = p", "self.weights()", ["nn.Parameter(torch.rand(4))"]),
        (
            "p = nn.Parameter(torch.rand(4)); self.register_parameter('w', p)",
            "self.weights()",
            ["nn.Parameter(torch.rand(4))"],
        ),
        ("pass", "if self.w is None: self.w = nn.Linear(4, 4)", ["nn.Linear(4, 4)"]),
        ("self.w = nn.Parameter(torch.rand(4))", "pass", []),
        ("pass", "p = nn.Parameter(torch.rand(4)); x = x * p", []),
        ("pass", "c = Cell(self); c.w = nn.Parameter(torch.rand(4))", []),
        ("pass", "self.w = torch.rand(4)", []),
        ("self.cell = Cell(self)", "self.weights(); self.cell.give()", ["nn.Parameter(torch.rand(4))"]),
    ],
)
def test_what_a_forward_pass_makes(weights: str, forward: str, found: list[str]) -> None:
    text = script(before=LATE.format(weights=weights, forward=forward)).replace("nn.Linear(4, 1)", "Net()")
    assert texts(late_parameters(Facts(text).program)) == found
