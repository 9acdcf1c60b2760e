"""Facts about statements that make or fetch a file only where it is missing."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.caches import Caches
from tests.codemod.training_scripts import training

IMPORTS = "import json, os, subprocess, urllib.request\nfrom pathlib import Path\nimport numpy as np\n"
LOAD, SAVE = "data = json.load(open('c.json'))", "data = make()\n    json.dump(data, open('c.json', 'w'))"


def cached(end: str) -> list[str]:
    """The first lines of the statements that one process runs first."""
    alone = training(before=f"{IMPORTS}def make(): return 1\n", end=f"{end}\n").script.written.guarding.alone
    return [ast.unparse(choice).partition("\n")[0] for choice in Caches(alone).find()]


@pytest.mark.parametrize(
    "end",
    [
        f"if os.path.exists('c.json'):\n    {LOAD}\nelse:\n    {SAVE}",
        f"if not os.path.isfile('c.json'):\n    {SAVE}\nelse:\n    {LOAD}",
        f"if not Path('c.json').exists():\n    {SAVE}\nelse:\n    {LOAD}",
        "if not os.path.exists('d'):\n    subprocess.run(['wget', 'http://x'])",
        "if not os.path.exists('d'):\n    os.system('wget http://x')",
        "if not os.path.exists('d.zip'):\n    path, _ = urllib.request.urlretrieve('http://x', 'd.zip')",
    ],
)
def test_what_is_made_where_it_is_missing(end: str) -> None:
    assert cached(end) == [end.partition("\n")[0]]


@pytest.mark.parametrize(
    "end",
    [
        f"if fresh:\n    {SAVE}\nelse:\n    {LOAD}",  # all processes decide alike
        "if os.path.exists('m.pt'):\n    model.load_state_dict(torch.load('m.pt'))\nelse:\n    os.system('x')",
        "if not os.path.exists('c.json'):\n    json.dump(1, open('c.json', 'w'))",  # is guarded as a whole
        "if not os.path.exists('d'):\n    out = model(torch.zeros(1))\n    os.system('x')",
        "for k in range(3):\n    if not os.path.exists('d'):\n        os.system('x')",
    ],
)
def test_what_is_none(end: str) -> None:
    assert cached(end) == []
