"""Facts about conditions that ask for a file which one process may just have made."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.existence_checks import ExistenceChecks
from tests.codemod.pairs import run, script
from tests.codemod.training_scripts import training

IMPORTS = "import os\nimport numpy as np\nfrom pathlib import Path\n"
MAKE = "def make(path):\n    np.save(path, [1])\n    return np.load(path)\n"
KEPT = "def kept(to):\n    os.makedirs(to, exist_ok=True)\n    np.save('x.npy', [1])\n    return np.load('x.npy')\n"


def asked(end: str, before: str = MAKE) -> list[str]:
    """The statements before which the processes have to meet for the first load."""
    facts = training(imports=IMPORTS, before=before, end=end)
    written = facts.script.written
    checks = ExistenceChecks(facts.script.effects, written.stored, facts.script.training.backwards)
    return [ast.unparse(first) for _, first in checks.round(facts.call("np.load("))]


@pytest.mark.parametrize(
    ("end", "statements"),
    [
        ("if not os.path.exists('a.npy'):\n    make('a.npy')", ["make('a.npy')"]),
        ("p = 'a.npy'\nif os.path.isfile(p):\n    x = 1\nelse:\n    x = make(p)", ["x = make(p)"]),
        ("if os.path.isfile('a.npy'):\n    pass\nelif model:\n    x = make('a.npy')", ["x = make('a.npy')"]),
        ("def there(p):\n    return Path(p).exists()\nif not there('a.npy'):\n    make('a.npy')", ["make('a.npy')"]),
        ("def outer():\n    make('a.npy')\nif not Path('a.npy').exists():\n    print(1)\n    outer()", ["print(1)"]),
        ("for p in ['a']:\n    if os.path.exists(p):\n        continue\n    x = 1\n    make(p)", ["x = 1"]),
        ("try:\n    x = open('a.npy')\nexcept OSError:\n    make('a.npy')", ["make('a.npy')"]),
        ("try:\n    x = 1 / 0\nexcept OSError:\n    make('a.npy')", []),
        ("if not os.path.exists('b.txt'):\n    make('a.npy')", []),  # which nobody makes
        ("if epoch > 1:\n    make('a.npy')", []),
        ("make('a.npy')", []),
    ],
)
def test_which_conditions_may_be_answered_anew(end: str, statements: list[str]) -> None:
    assert asked(end) == statements


def test_a_folder_that_is_made_answers_the_question_for_it() -> None:
    assert asked("if not os.path.exists('out'):\n    kept('out')", KEPT) == ["kept('out')"]


def test_processes_that_have_trained_have_met() -> None:
    fit = MAKE.replace("    np.save", "    for x, y in loader:\n        model(x).sum().backward()\n    np.save")
    assert asked("if not os.path.exists('a.npy'):\n    make('a.npy')", fit) == []


@pytest.mark.parametrize(
    "made", ["np.save(path, [1])\n    return np.load(path)", "torch.save([1], path)\n    return torch.load(path)"]
)
def test_all_processes_have_looked_before_one_makes_the_file(made: str) -> None:
    before = f"import os\nimport numpy as np\ndef make(path):\n    {made}\n"
    prepared = (
        "rows = [1]\nif not os.path.exists('a'):\n    rows = make('a')\noptimizer.param_groups[0]['lr'] = rows[0]"
    )
    after = run(script(before=before, prepared=prepared)).after.decode()
    assert "if not os.path.exists('a'):\n    accelerator.wait_for_everyone()\n    rows = make('a')\n" in after


def test_all_have_looked_before_one_makes_the_folder_to_train_for() -> None:
    before = """\
        import os
        def train(loader, folder):
            os.makedirs(folder, exist_ok=True)
            for x, y in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
    """
    after = run(script(before=before, end="if not os.path.exists('out'):\n    train(loader, 'out')")).after.decode()
    assert "if not os.path.exists('out'):\n    accelerator.wait_for_everyone()\n    train(loader, 'out')" in after


FETCH = "urllib.request.urlretrieve('https://x', path)"


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        (f"for path in 'ab':\n    if not os.path.exists(path):\n        {FETCH}", 1),  # one process alone asks
        (f"for path in 'ab':\n    if os.path.exists(path):\n        continue\n    {FETCH}", 2),
        (f"path = 'a'\n{FETCH}", 1),
    ],
)
def test_all_have_looked_before_one_downloads_a_file(asked: str, waits: int) -> None:
    after = run(script(before=f"import os, urllib.request, nltk\n{asked}")).after.decode()
    guarded = after.partition("if accelerator.is_main_process:")[2].split("accelerator.wait_for_everyone()")[0]
    assert FETCH in guarded
    assert after.count("accelerator.wait_for_everyone()") == waits
