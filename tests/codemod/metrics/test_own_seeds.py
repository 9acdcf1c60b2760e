"""Facts about seeds of which each process takes another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accelify.codemod.metrics.own_seeds import own_seeds
from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.facts import texts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, script, training

IMPORTS = "import random, time\nimport numpy as np\n"


def seeds(before: str, **slots: str) -> list[str]:
    return texts(s.call for s in own_seeds(training(imports=IMPORTS, before=before, **slots).script.metrics))


@pytest.mark.parametrize(
    "seed",
    [
        "torch.manual_seed(int(time.time()))",
        "np.random.seed(time.time_ns() % 1000)",
        "random.seed()",
        "np.random.seed(None)",
        "torch.seed()",
    ],
)
def test_seeds_of_the_clock_or_the_system(seed: str) -> None:
    assert seeds(seed) == [seed]
    assert seeds(f"def seed_all():\n    {seed}\nseed_all()") == [seed]
    assert not seeds("", step=STEP + seed)  # for this process's steps
    assert not seeds(f"def work(i):\n    {seed}\nother = DataLoader(rows, worker_init_fn=work)")


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("other = DataLoader(rows, worker_init_fn=lambda i: np.random.seed())", False),
        ("begin = lambda i: np.random.seed()\nother = DataLoader(rows, worker_init_fn=begin)", False),
        ("options = {'worker_init_fn': lambda i: np.random.seed()}\nother = DataLoader(rows, **options)", False),
        ("seed_all = lambda: np.random.seed()\nseed_all()", True),
        ("ways = {'own': lambda: np.random.seed()}\nways['own']()", True),
    ],
)
def test_a_lambda_seeds_where_it_is_called(code: str, *, is_found: bool) -> None:
    assert seeds(code) == ["np.random.seed()"] * is_found


@pytest.mark.parametrize("seed", ["torch.manual_seed(3)", "s = 3\nnp.random.seed(s)", "random.seed(hash('a'))"])
def test_seeds_that_all_processes_have(seed: str) -> None:
    assert not seeds(seed)


ROUNDS = """
import random, time
import numpy as np
import torch
from torch.utils.data import DataLoader, Subset
class Rows(torch.utils.data.Dataset):
    def __init__(self, seed=None):
        {of_data}
        self.chosen = np.random.choice(40, size=32, replace=False)
    def __len__(self):
        return 32
    def __getitem__(self, i):
        return X[self.chosen[i]], Y[self.chosen[i]]
X, Y = torch.randn(40, 4), torch.randn(40, 1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    {before}
    for x, y in DataLoader(rows, batch_size=8, shuffle=True):
        {step}
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "of_data", "step", "is_noted"),
    [
        ("np.random.seed(None); rows = Subset(range(40), np.random.choice(40, 32))", "pass", "pass", True),
        ("random.seed(); rows = Subset(range(40), random.sample(range(40), 32))", "pass", "pass", True),
        ("torch.manual_seed(int(time.time())); rows = Subset(range(40), torch.randperm(40))", "pass", "pass", True),
        ("rows = Rows()", "np.random.seed(seed)", "pass", True),
        ("rows = Rows(3)", "np.random.seed(seed)", "pass", False),
        ("rows = Rows()", "if seed is not None: np.random.seed(seed)", "pass", False),
        ("np.random.seed(epoch); rows = Subset(range(40), np.random.choice(40, 32))", "pass", "pass", False),
        ("np.random.seed(None); rows = Subset(range(40), torch.randperm(40))", "pass", "pass", False),
        ("np.random.seed(None); rows = Subset(range(40), list(range(32)))", "pass", "x += np.random.rand()", False),
    ],
)
def test_seeds_of_each_round_of_a_sharded_loop(before: str, of_data: str, step: str, *, is_noted: bool) -> None:
    text = ROUNDS.format(before=before, of_data=of_data, step=step)
    found = [n for n in run(text).notes if "another seed" in n.message]
    assert ["its shard of its own" in n.message for n in found] == [True] * is_noted


ENDING = """
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
X, Y = torch.randn(40, 4), torch.randn(40, 1)
rows = TensorDataset(X, Y)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def loss_of(x, y, learn=False):
    loss = ((model(x) - y) ** 2).mean()
    if learn:
        loss.backward()
    return loss.item()
def check():
    with torch.no_grad():
        return loss_of(X + np.random.rand(), Y + random.random())
for epoch in range(3):
    {before}
    for x, y in DataLoader(rows, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss_of(x, y, learn=True)
        optimizer.step()
    {after}
"""


@pytest.mark.parametrize(
    ("before", "after", "is_noted"),
    [
        ("np.random.seed()", "print(check())", False),
        ("random.seed(None)", "print(check())", False),
        ("np.random.seed()", "shown = np.random.choice(40, 3); print(X[shown])", False),
        ("np.random.seed(); scale = np.random.rand()", "print(check())", True),
        ("random.seed(); check()", "pass", True),
    ],
)
def test_what_a_round_draws_behind_its_steps_is_no_data_of_theirs(before: str, after: str, *, is_noted: bool) -> None:
    notes = run(ENDING.format(before=before, after=after)).notes
    assert any("another seed" in n.message for n in notes) == is_noted


@pytest.mark.parametrize(
    ("made", "drawn", "found"),
    [
        ("g = np.random.default_rng()", "g.permutation(8)", ["np.random.default_rng()"]),
        ("g = np.random.RandomState()", "g.permutation(8)", ["np.random.RandomState()"]),
        ("g = random.Random()", "g.random()", ["random.Random()"]),
        ("g = random.SystemRandom()", "g.random()", ["random.SystemRandom()"]),
        ("g = np.random.default_rng(3)", "g.permutation(8)", []),
        ("g = torch.Generator()", "torch.randperm(8, generator=g)", []),
        ("g = np.random.default_rng()", "print(3)", []),
    ],
)
def test_generators_that_the_set_up_draws_from(made: str, drawn: str, found: list[str]) -> None:
    assert seeds(f"{made}\n{drawn}") == found
    assert not seeds(made, step=STEP + drawn)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("g = random.SystemRandom(); rows = torch.tensor(g.sample(range(40), 8))", "which no seed repeats"),
        ("rows = torch.tensor(random.SystemRandom().sample(range(40), 8))", "which no seed repeats"),
        ("g = random.Random(); rows = torch.tensor(g.sample(range(40), 8))", "another seed"),
        ("g = random.Random(3); rows = torch.tensor(g.sample(range(40), 8))", None),
    ],
)
def test_a_generator_of_the_system_takes_no_seed(made: str, said: str | None) -> None:
    notes = [n.message for n in run(script(imports=IMPORTS, before=made)).notes if n.rule == "notes"]
    assert [("another seed" in m, "no seed repeats" in m) for m in notes] == (
        [("another" in said, "repeats" in said)] if said else []
    )


def test_the_note() -> None:
    text = script(imports=IMPORTS, before="torch.manual_seed(int(time.time()))\nrows = torch.randn(8, 5)")
    (note,) = [n for n in run(text).notes if "another seed" in n.message]
    assert note.rule == "notes"


SAMPLER = """
import random, time
import numpy as np
import torch
from torch.utils.data import IterableDataset, Sampler
def endless(n):
    while True:
        {seed}
        yield from {drawn}
class Own(Sampler):
    def __init__(self, rows):
        self.rows = rows
    def __iter__(self):
        return iter(endless(len(self.rows)))
    def __len__(self):
        return 2 ** 31
class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows
    def __iter__(self):
        return endless(len(self.rows))
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], list[str]]:
    """What is said of a loader whose sampler, or whose data, another module has."""

    def rewrite(seed: str, drawn: str, made: str) -> list[str]:
        imports = "from order import Own, Stream"
        text = script(imports=imports, before="rows = []").replace("DataLoader(rows, batch_size=2)", made)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "train.py").write_text(text)
        (tmp_path / "order.py").write_text(SAMPLER.format(seed=seed, drawn=drawn))
        results = rewrite_together(("train.py",), Options())
        assert results[0].status is Status.MIGRATED
        return [n.message for r in results for n in r.notes if "another seed" in n.message]

    return rewrite


@pytest.mark.parametrize(
    ("seed", "drawn", "made"),
    [
        ("np.random.seed()", "np.random.permutation(n)", "DataLoader(rows, 2, sampler=Own(rows))"),
        ("torch.manual_seed(time.time_ns())", "torch.randperm(n).tolist()", "DataLoader(Stream(rows), batch_size=2)"),
        ("rng = np.random.default_rng()", "rng.permutation(n)", "DataLoader(rows, 2, sampler=Own(rows))"),
    ],
)
def test_orders_of_each_process_s_own(
    seed: str, drawn: str, made: str, notes: Callable[[str, str, str], list[str]]
) -> None:
    (message,) = notes(seed, drawn, made)
    assert "another order of the data" in message


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        ("np.random.seed(3)", "np.random.permutation(n)"),
        ("pass", "np.random.permutation(n)"),
        ("np.random.seed()", "np.random.randn(n)"),  # no order of what there is
    ],
)
def test_orders_that_all_processes_draw(seed: str, drawn: str, notes: Callable[[str, str, str], list[str]]) -> None:
    assert not notes(seed, drawn, "DataLoader(Stream(rows), batch_size=2)")
