"""Facts about seeds of which each process takes another."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.own_seeds import own_seeds
from tests.codemod.facts import texts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, script, training

IMPORTS = "import random, time\nimport numpy as np\n"


def seeds(before: str, **slots: str) -> list[str]:
    return texts(own_seeds(training(imports=IMPORTS, before=before, **slots).script.metrics))


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


@pytest.mark.parametrize("seed", ["torch.manual_seed(3)", "s = 3\nnp.random.seed(s)", "random.seed(hash('a'))"])
def test_seeds_that_all_processes_have(seed: str) -> None:
    assert not seeds(seed)


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


def test_the_note() -> None:
    text = script(imports=IMPORTS, before="torch.manual_seed(int(time.time()))\nrows = torch.randn(8, 5)")
    (note,) = [n for n in run(text).notes if "another seed" in n.message]
    assert note.rule == "notes"
