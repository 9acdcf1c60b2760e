"""Facts about processes and threads that draw training data beside the script."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.randomness.workers import Workers
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

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
