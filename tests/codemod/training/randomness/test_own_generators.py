"""Facts about generators of the script's own that training steps draw from."""

from __future__ import annotations

import pytest

from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.randomness.own_generators import OwnGenerators
from tests.codemod.facts import Facts, texts
from tests.codemod.pairs import migrated, run

SCRIPT = """\
import random
import numpy as np
import torch
from torch import nn
X = torch.randn(64, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for step in range(9):
    {drawn}
    model(X[rows]).sum().backward()
    optimizer.step()
"""


def seeds(before: str, drawn: str) -> list[tuple[list[str], bool]]:
    facts = Facts(SCRIPT.format(before=before, drawn=drawn))
    loops = Loops(facts.program, facts.roles, facts.tracer)
    found = OwnGenerators(facts.program, loops, facts.training).find()
    return [(texts(g.seeds), g.is_shared) for g in found]


@pytest.mark.parametrize(
    ("before", "drawn", "found"),
    [
        ("g = torch.Generator().manual_seed(1)", "rows = torch.randint(0, 64, (8,), generator=g)", [(["1"], False)]),
        ("g = torch.Generator()\ng.manual_seed(1)", "rows = torch.randperm(64, generator=g)", [(["1"], False)]),
        ("rng = np.random.default_rng(2)", "rows = rng.integers(0, 64, 8)", [(["2"], False)]),
        ("rng = np.random.RandomState(2)", "rows = rng.choice(64, 8)", [(["2"], False)]),
        ("rng = random.Random(3)", "rows = rng.sample(range(64), 8)", [(["3"], False)]),
        ("rng = np.random.default_rng(seed=2)", "rows = rng.choice(64, 8)", [(["2"], False)]),
        ("rng = random.Random()", "rows = rng.sample(range(64), 8)", [([], False)]),
        ("rng = np.random.default_rng(2)\nrng.shuffle(list(X))", "rows = rng.integers(0, 64, 8)", [(["2"], True)]),
        ("rng = np.random.default_rng(2)\nsplit(X, rng)", "rows = rng.integers(0, 64, 8)", [(["2"], True)]),
        ("rng = np.random.default_rng(2)\nfirst = rng.integers(0, 64, 8)", "rows = first", []),
        ("", "rows = torch.randint(0, 64, (8,))", []),
    ],
)
def test_what_steps_draw_from(before: str, drawn: str, found: list[tuple[list[str], bool]]) -> None:
    assert seeds(before, drawn) == found


@pytest.mark.parametrize(
    ("before", "drawn", "line"),
    [
        (
            "g = torch.Generator().manual_seed(1)",
            "rows = torch.randint(0, 64, (8,), generator=g)",
            "manual_seed(1 + accelerator.process_index)",
        ),
        (
            "class S:\n    def __init__(self, seed):\n        self.rng = np.random.default_rng(seed)\n"
            "    def draw(self):\n        return self.rng.integers(0, 64, 8)\ns = S(2)",
            "rows = s.draw()",
            "default_rng(seed + accelerator.process_index)",
        ),
        (
            "",
            "torch.manual_seed(step)\n    rows = torch.randint(0, 64, (8,))",
            "torch.manual_seed(step * accelerator.num_processes + accelerator.process_index)",
        ),
    ],
)
def test_it_is_seeded_by_rank(before: str, drawn: str, line: str) -> None:
    assert line in migrated(SCRIPT.format(before=before, drawn=drawn))


def test_what_is_drawn_from_elsewhere_too_is_left_alone() -> None:
    before = "rng = np.random.default_rng(2)\nkept = rng.permutation(64)"
    result = run(SCRIPT.format(before=before, drawn="rows = rng.choice(kept, 8)"))
    assert any("the same seed" in note.message for note in result.notes)


SHARDED = """\
import random
import numpy as np
import torch
from monai import transforms
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split
class Rows(Dataset):
    def __init__(self, transform):
        self.transform = transform
        self.rng = {own}
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return self.transform(torch.zeros(4))
def same(x):
    return x
class Noise:
    def __init__(self, seed):
        self.rng = random.Random(seed)
    def __call__(self, x):
        return x + self.rng.random()
{before}
loader = DataLoader({data}, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    {epoch}
    for x in loader:
        {step}
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def alike(before: str = "", step: str = "", data: str = "Rows(same)", epoch: str = "", own: str = "None") -> list[str]:
    text = SHARDED.format(before=before, step=step or "pass", data=data, epoch=epoch or "pass", own=own)
    result = run(text)
    lines = result.after.decode().splitlines()
    return [lines[n.line - 1].strip() for n in result.notes if "with this seed" in n.message]


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ("rng = np.random.RandomState(2)", "x = x + torch.from_numpy(rng.randn(4))"),
        ("rng = np.random.default_rng(seed=2)", "x = x + rng.random()"),
        ("rng = random.Random(3)", "x = x + rng.random()"),
        ("g = torch.Generator().manual_seed(1)", "x = x + torch.randn(4, generator=g)"),
        ("noise = Noise(3)", "x = noise(x)"),
    ],
)
def test_a_seed_that_every_process_draws_its_own_samples_noise_with(before: str, step: str) -> None:
    seeded = "self.rng = random.Random(seed)" if "Noise" in before else before
    assert alike(before, step) == [seeded]


@pytest.mark.parametrize(
    ("before", "data", "seeded"),
    [
        ("noise = Noise(3)", "Rows(noise)", "self.rng = random.Random(seed)"),
        (
            "first, _ = random_split(Rows(Noise(3)), [48, 16], generator=torch.Generator().manual_seed(1))",
            "first",
            "self.rng = random.Random(seed)",
        ),
        (
            "t = transforms.Compose([transforms.RandFlip()]).set_random_state(seed=1)",
            "Rows(t)",
            "t = transforms.Compose([transforms.RandFlip()]).set_random_state(seed=1)",
        ),
    ],
)
def test_or_with_which_data_sets_draw(before: str, data: str, seeded: str) -> None:
    assert alike(before, data=data) == [seeded]


@pytest.mark.parametrize(
    ("before", "step", "epoch"),
    [
        ("rng = np.random.default_rng()", "x = x + rng.random()", ""),
        ("rng = random.Random(3)", "", "print(rng.random())"),  # before the processes have samples of their own
        ("import os; rng = random.Random(int(os.environ['RANK']))", "x = x + rng.random()", ""),
        ("", "x = x + random.Random(len(x)).random()", ""),
        ("t = transforms.Compose([]).set_random_state(None)", "", ""),
        ("torch.manual_seed(3)", "x = x + torch.randn(4)", ""),
    ],
)
def test_what_is_not_drawn_alike_for_them(before: str, step: str, epoch: str) -> None:
    assert alike(before, step, epoch=epoch) == []


@pytest.mark.parametrize(
    ("body", "use", "is_found"),
    [
        ("return weight[rng.choice(64, 8)].mean()", "print(sample(X))", False),
        ("return weight[rng.choice(64, 8)].mean()", "mean = sample(X)\n    print(mean)", False),
        ("log['sample'] = weight[rng.choice(64, 8)]", "log = {}\n    sample(X, log)\n    print(log)", False),
        ("return rng.choice(64, 8)", "rows = sample(X)", True),
        ("log['rows'] = rng.choice(64, 8)", "log = {}\n    sample(X, log)\n    rows = log['rows']", True),
        ("weight.rows = rng.choice(64, 8)", "sample(X.kept)\n    rows = X.kept.rows", True),
    ],
)
def test_what_nothing_learns_from(body: str, use: str, is_found: bool) -> None:
    before = f"def sample(weight, log=None):\n    rng = np.random.RandomState(1234)\n    {body}\nrows = [1, 2]\n"
    assert bool(seeds(before, use)) is is_found
