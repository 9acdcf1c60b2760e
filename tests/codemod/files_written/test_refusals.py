"""Facts about scripts that stop because a folder is there that they make themselves."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.refusals import Refusals
from tests.codemod.training_scripts import training

IMPORTS = "import os, sys\nfrom pathlib import Path\n"
MAKE = "def make(path):\n    os.makedirs(path)\n"


def refused(code: str, make: str = "os.makedirs(") -> list[tuple[str, list[str]]]:
    """The first line of each statement that stops, and the calls before which all could wait."""
    facts = training(imports=IMPORTS, before=code)
    refusals = Refusals(facts.script.written.stored, lambda c: c.args[0] if c.args else c.func.value)  # type: ignore[attr-defined]
    found = refusals.before(facts.call(make))
    return [(ast.unparse(r.statement).split("\n")[0], list(map(ast.unparse, r.waits))) for r in found]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "if os.path.exists('a'):\n    raise OSError\nos.makedirs('a')",
            [("if os.path.exists('a'):", ["os.makedirs('a')"])],
        ),
        ("if not os.path.exists('a'):\n    raise OSError\nos.makedirs('a')", []),
        ("assert not os.path.isdir('a')\nos.makedirs('a')", [("assert not os.path.isdir('a')", ["os.makedirs('a')"])]),
        (MAKE + "if os.path.exists('a'):\n    sys.exit(1)\nmake('a')", [("if os.path.exists('a'):", ["make('a')"])]),
        (MAKE + "if os.path.exists('b'):\n    sys.exit(1)\nmake('a')", []),
        ("try:\n    os.makedirs('a')\nexcept OSError:\n    raise", [("os.makedirs('a')", [])]),
        ("try:\n    os.makedirs('a')\nexcept ValueError:\n    raise", []),
        ("try:\n    if not os.path.isdir('a'):\n        os.makedirs('a')\nexcept OSError:\n    sys.exit(1)", []),
        ("try:\n    if rows and not os.path.exists('a'):\n        os.makedirs('a')\nexcept OSError:\n    raise", []),
        (
            "try:\n    if not os.path.isfile('a'):\n        os.makedirs('a')\nexcept OSError:\n    raise",
            [("os.makedirs('a')", [])],
        ),
        (
            "try:\n    if not os.path.exists('b'):\n        os.makedirs('a')\nexcept OSError:\n    raise",
            [("os.makedirs('a')", [])],
        ),
        (
            "if not os.path.exists('a'):\n    try:\n        os.makedirs('a')\n    except OSError:\n        raise",
            [("os.makedirs('a')", []), ("if not os.path.exists('a'):", ["os.makedirs('a')"])],
        ),
        ("if os.path.exists('a'):\n    def f():\n        raise OSError\nos.makedirs('a')", []),
        ("if not os.path.exists('a'):\n    os.makedirs('a')", []),
        ("if os.path.exists('a'):\n    print('there')\nelse:\n    os.makedirs('a')", []),
        ("there = os.path.exists('a')\nprint(there)\nif not there:\n    os.makedirs('a')", []),
        ("path = 'b' if os.path.exists('a') else 'a'\nos.makedirs('a')\nprint(path)", []),
        ("if not os.path.exists('a'):\n    k = 1\n    os.makedirs('a')\nk = 2\nprint(k)", []),
    ],
)
def test_what_stops_where_the_folder_is_there(code: str, expected: list[tuple[str, list[str]]]) -> None:
    assert refused(code) == expected


@pytest.mark.parametrize(
    ("make", "is_refused"),
    [
        ("(out / 'log').mkdir(parents=True)", True),
        ("(out / 'log' / 'a').mkdir(parents=True)", True),
        ("Path(out, 'log').mkdir(parents=True)", True),
        ("os.makedirs(os.path.join(out, 'log'))", True),
        ("os.makedirs(f'{out}/log')", True),
        ("inner = out / 'log'\n    os.makedirs(inner)", True),
        ("(out / 'log').mkdir()", False),  # which fails where the folder above is missing
        ("(out / 'log').mkdir(parents=False)", False),
        ("os.makedirs(other / 'log')", False),
    ],
)
def test_what_stops_where_the_folder_above_is_there(make: str, is_refused: bool) -> None:
    code = f"out, other = Path(sys.argv[1]), Path('b')\nif not out.is_dir():\n    {make}\nelse:\n    raise OSError"
    call = ast.unparse(ast.parse(make.split("\n")[-1].strip()))
    assert [waits for _, waits in refused(code, call)] == ([[call]] if is_refused else [])


@pytest.mark.parametrize(
    "code",
    [
        "if os.path.exists('a'):\n    resume = True\nelse:\n    os.makedirs('a')\n    resume = False\nprint(resume)",
        "k = 0\nif not os.path.isdir('a'):\n    os.makedirs('a')\nelse:\n    k = len(os.listdir('a'))\nprint(k)",
        "if os.path.exists('a'):\n    rows.extend(os.listdir('a'))\nelse:\n    os.makedirs('a')",
        "force = True\nif force or not os.path.exists('a'):\n    os.makedirs('a')\n    open('a/b', 'w').write('x')",
        "if not os.path.exists('a'):\n    os.makedirs('a')\n    sys.exit('fill it')",
        "resume = os.path.exists('a')\nos.makedirs('a')\nif resume:\n    rows.append(1)",
        "new = not os.path.exists('a')\nos.makedirs('a')\nmake_rows(new)",
    ],
)
def test_what_goes_another_way_where_the_folder_is_there(code: str) -> None:
    question = next(line for line in code.split("\n") if "exists(" in line or "isdir(" in line)
    assert refused(f"rows = []\n{code}") == [(question, ["os.makedirs('a')"])]
