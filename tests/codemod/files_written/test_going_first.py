"""Facts about the statements that one process may run before the others."""

from __future__ import annotations

import ast

import pytest

from tests.codemod.training_scripts import training

MAKE = "import os, numpy as np\ndef rows():\n    np.save('rows.npy', [1])\n    return 1\n"


def calling(code: str, make: str = MAKE) -> list[str]:
    """The statements that call `rows`, where all of them may go first."""
    facts = training(before=make, end=f"{code}\n")
    going = facts.script.written.guarding.cached.caches.going
    (function,) = (f for f in facts.script.program.reachable if f.name == "rows")
    return [ast.unparse(s) for s in going.calling(function)]


@pytest.mark.parametrize("code", ["x = rows()", "rows()", "with open('log') as f:\n    x = rows()"])
def test_a_statement_that_all_come_to(code: str) -> None:
    assert calling(code) == [code.rpartition("\n")[2].strip()]


@pytest.mark.parametrize(
    "code",
    [
        "x = 1; rows()",
        "for _ in range(3):\n    rows()",
        "if os.path.isdir('d'):\n    rows()",
        "for batch in loader:\n    x = rows()",
    ],
)
def test_one_that_some_process_may_not_come_to(code: str) -> None:
    assert calling(code) == []


def test_one_of_several_that_may_not() -> None:
    assert calling("x = rows()\nfor _ in range(3):\n    rows()") == []


def test_one_behind_a_function() -> None:
    assert calling("def both():\n    x = rows()\n    return x\ny = both()") == ["x = rows()"]


def test_a_generator_that_is_not_run_yet() -> None:
    lazy = MAKE.replace("return", "yield")
    assert calling("x = rows()", lazy) == []
    assert calling("x = list(rows())", lazy) == ["x = list(rows())"]
