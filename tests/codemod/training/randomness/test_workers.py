"""Facts about processes and threads that draw training data beside the script."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.training.randomness.workers import Workers, has_workers, run_beside
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

BESIDE = """\
import random, threading
import numpy as np
import torch
from multiprocessing import Process, Queue
from torch import nn
class World:
    def __init__(self, seed):
        self.seed = seed
        self.rng = np.random.default_rng(self.seed)
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
        ("Process(target=work, args=(queue, 7)).start()", "rng = np.random.RandomState(seed + 1)", [(False, 1)]),
        ("Process(target=work, args=(queue, 7)).start()", "world = World(seed)", [(False, 1)]),
        ("Process(target=work, args=(queue, 7)).start()", "print(seed)", []),
        ("Process(target=work, args=(queue, 7)).start()", "rng = np.random.RandomState(3)", []),
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


READER = """\
class Reader(threading.Thread):
    def __init__(self, queue):
        super().__init__(daemon=True)
        self.queue = queue
    def run(self):
        while True:
            self.queue.put(np.random.randn(4, 3))
"""
THREAD = "threading.Thread(target=work, args=(queue,))"


@pytest.mark.parametrize(
    ("starts", "seeds", "found"),
    [
        (f"{THREAD}.start()", "pass", [f"{THREAD}.start()"]),
        (f"thread = {THREAD}\nprint(thread)\nthread.start()", "pass", ["thread.start()"]),
        (f"{READER}reader = Reader(queue)\nreader.start()", "pass", ["reader.start()"]),
        (f"thread = {THREAD}", "pass", []),
        (f"{THREAD}.start()", "np.random.seed(3)", []),
        ("Process(target=work, args=(queue,)).start()", "pass", []),
    ],
)
def test_threads_that_draw_from_the_script_s_random_numbers(starts: str, seeds: str, found: list[str]) -> None:
    threads = Workers(Facts(beside(starts, seeds)).program).threads()
    assert [ast.unparse(call) for call in threads] == found


def test_a_thread_that_draws_from_a_generator_of_its_own() -> None:
    facts = Facts(beside(f"{THREAD}.start()", "rng = np.random.default_rng()", "queue.put(rng.random(3))"))
    assert not list(Workers(facts.program).threads())


def test_a_worker_of_each_rank_draws_for_itself() -> None:
    result = run(beside("for i in range(2):\n    Process(target=work, args=(queue, i)).start()"))
    after = result.after.decode()
    assert "args=(queue, i * accelerator.num_processes + accelerator.process_index)" in after
    assert "accelerator.seed_by_rank()" in after
    (said,) = (n for n in result.notes if "each process draws its own data" in n.message)
    assert "found" in after.split("\n")[int(said.shows[-1].rpartition(":")[2]) - 1]


def test_a_worker_that_hands_over_by_a_pipe() -> None:
    facts = Facts(beside("Process(target=work, args=(queue, 7)).start()", draws="queue.send(np.random.randn(4))"))
    assert len(list(Workers(facts.program).drawing())) == 1


def test_a_worker_in_a_file_that_the_accelerator_does_not_reach() -> None:
    facts = Facts(beside("Process(target=work, args=(queue, np.random.randint(2e9))).start()"))
    (seed,) = Workers(facts.program).seeds()
    assert ast.unparse(seed.node) == "np.random.randint(2000000000.0)"


@pytest.mark.parametrize(
    ("loader", "has"),
    [
        ("DataLoader(rows)", False),
        ("DataLoader(rows, num_workers=0)", False),
        ("DataLoader(rows, num_workers=2)", True),
        ("DataLoader(rows, 2, True, None, None, 2)", True),
        ("DataLoader(rows, **options)", True),
        ("make(rows)", True),
    ],
)
def test_whether_data_are_read_by_other_processes(loader: str, has: bool) -> None:
    assert has_workers(Facts(f"from torch.utils.data import DataLoader\nloader = {loader}\n").program) is has


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(i): ...\nmap_on(pool, f)", {"f"}),
        ("def g(): ...\nfrom functools import partial\nVec([partial(g, i) for i in range(3)])", {"g"}),
        ("def g(): ...\nVec([lambda: g() for _ in range(3)])", {"g"}),
        ("def f(i):\n    def g(): h()\n    return g\ndef h(): ...\nVec([f(i) for i in range(3)])", {"g", "h"}),
        ("class A(Process):\n    def run(self): ...\n    def __init__(self): ...\nA().start()", {"run"}),
        ("class A(torch.utils.data.Dataset):\n    def __init__(self): ...\n    def __getitem__(self, i): ...\n"
         "torch.utils.data.DataLoader(A(), num_workers=2)", {"__getitem__"}),
        ("class A(torch.utils.data.Dataset):\n    def __getitem__(self, i): ...\n"
         "torch.utils.data.DataLoader(A())", set()),
        ("def f(i): ...\nf(1)", set()),
        ("def f(): ...\nMAKERS = {'f': f}\nMAKERS['f']()", set()),
        ("def f(m, o):\n    m(1).sum().backward(); o.step()\nrun_in(f)", set()),
    ],
)  # fmt: skip
def test_what_worker_processes_may_run(code: str, found: set[str]) -> None:
    facts = Facts(beside("Process(target=work, args=(queue,)).start()") + code + "\n")
    run = {f.name for f in run_beside(facts.program, facts.training.frames) if f.kind == "function"}
    assert run == found | {"work"}


def test_a_worker_loads_to_where_it_did() -> None:
    load = "net = nn.Linear(3, 1); net.load_state_dict(torch.load('net.pt'))"
    saves = "torch.save(model.state_dict(), 'net.pt')"
    text = beside("Process(target=work, args=(queue, 7)).start()", load).replace("print(found)", saves)
    assert "torch.load('net.pt')" in run(text).after.decode()
    assert "map_location" in run(text.replace("Process(target=work, args=(queue, 7)).start()", load)).after.decode()


def test_a_guard_in_a_worker_joins_no_group() -> None:
    write = "open('log.txt', 'a').write('x')"
    head, start, rest = beside("Process(target=work, args=(queue, 7)).start()", write).partition("queue = Queue(8)\n")
    result = run(f"{head}def main():\n{indent(start + rest, '    ')}main()\n")
    assert any("`if accelify.runtime.Environment.read().is_main_process:`" in n.message for n in result.notes)


CALLED_BACK = """\
import tkinter
import torch
from torch.utils.data import DataLoader

class Runner:
    def __init__(self, loader):
        self.loader = loader
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {write}

    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.model(x).mean().backward()
            self.optimizer.step()

class Window:
    def __init__(self):
        self.loader = DataLoader(torch.randn(32, 4), 8)
        self.parts = [{parts}]

    def start(self):
        self.runner = Runner(self.loader)

    def train(self):
        self.runner.train()

Window()
"""


@pytest.mark.parametrize(
    "parts",
    [
        "tkinter.Button(command=self.start), tkinter.Button(command=self.train)",
        "tkinter.Button(None, command=lambda: self.start()), tkinter.Button(None, command=self.train)",
        "tkinter.Tk().bind('a', self.start), tkinter.Tk().bind('b', self.train)",
    ],
)
@pytest.mark.parametrize("write", ["open('log.txt', 'a').write('x')", "print('x', file=open('log.txt', 'w'))"])
def test_what_is_called_back_asks_the_accelerator_that_it_has(parts: str, write: str) -> None:
    after = run(CALLED_BACK.format(parts=parts, write=write)).after.decode()
    assert "if self.accelerator.is_main_process:" in after
    assert "import accelify.runtime" not in after
