"""Facts about which paths mean one file by how they are written."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.path_uses import PathUses
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [("'a.txt'", "str('a.txt')", True), ("p", "Path(p)", True), ("'a.txt'", "'b.txt'", False)],
)
def test_two_spellings_of_a_file(one: str, other: str, is_one: bool) -> None:
    end = f"p = str(a)\nfirst = open({one}, 'w')\nsecond = open({other}, 'w')\n"
    uses = training(imports="from pathlib import Path\n", end=end).script.written.guarding.uses
    assert isinstance(uses, PathUses)
    made = [c for c in uses.program.calls if isinstance(c.func, ast.Name) and c.func.id == "open"]
    places = [uses.place_of(path) for call in made for path in uses.written(call)]
    assert (places[0] == places[1]) is is_one


@pytest.mark.parametrize(
    ("lines", "is_for_folder"),
    [
        ("if not os.path.exists(p):\n    os.makedirs(p)", True),
        ("if not os.path.exists(p):\n    Path(p).mkdir()", True),
        ("Path(p).exists() or os.mkdir(p)", True),
        ("if not os.path.exists(p):\n    os.makedirs(q)", False),
        ("os.path.exists(p)", False),
        ("os.makedirs(p)\nopen(p)", False),
    ],
)
def test_questions_for_a_folder_that_is_made_beside(lines: str, is_for_folder: bool) -> None:
    end = f"p, q = str(a), str(b)\n{lines}\n"
    uses = training(imports="import os\nfrom pathlib import Path\n", end=end).script.written.guarding.uses
    asked = [uses.asks_for_folder(call, path) for call in uses.program.calls for path in uses.read(call)]
    assert any(asked) is is_for_folder
