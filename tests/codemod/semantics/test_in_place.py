"""Facts about where objects are changed in place."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.in_place import InPlace, is_fixed
from tests.codemod.facts import Facts, texts


@pytest.mark.parametrize(
    "change",
    [
        "rows[0] = 1",
        "rows /= 2",
        "rows[:, 0].T[0] = 1",
        "rows.sort()",
        "np.clip(rows, 0, 1, out=rows)",
        "np.random.shuffle(rows.T)",
        "other = rows\nother[0] = 1",
        "fill(rows)",
    ],
)
def test_a_change_of_an_array(change: str) -> None:
    facts = Facts(f"import numpy as np\ndef fill(a):\n    a[:] = 1\nrows = np.zeros((2, 2))\n{change}\n")
    assert [*InPlace(facts.program).changes(facts.expression("np.zeros((2, 2))"))]


@pytest.mark.parametrize(
    "use", ["rows = rows / 2", "print(rows[0])", "rows.copy()[0] = 1", "np.sort(rows)", "rows = []\nrows[0] = 1"]
)
def test_what_leaves_it_as_it_is(use: str) -> None:
    facts = Facts(f"import numpy as np\nrows = np.zeros((2, 2))\n{use}\n")
    assert texts(InPlace(facts.program).changes(facts.expression("np.zeros((2, 2))"))) == []


@pytest.mark.parametrize(
    ("made", "is_one"),
    [
        ("namedtuple('A', 'model')", True),
        ("class A(NamedTuple):\n    model: object", True),
        ("class A(namedtuple('B', 'model')): pass", True),
        ("@dataclass(frozen=True)\nclass A:\n    model: object", True),
        ("@dataclass\nclass A:\n    model: object", False),
        ("class A:\n    def __init__(self, model): self.model = model", False),
        ("argparse.Namespace", False),
        ("class A:\n    @property\n    def model(self): return 1", True),
        ("class A:\n    @cached_property\n    def model(self): return 1", False),
        (
            "class A:\n    @property\n    def model(self): return 1\n    @model.setter\n    def model(self, m): pass",
            False,
        ),
    ],
)
def test_what_keeps_its_attributes(made: str, is_one: bool) -> None:
    imports = "import argparse\nfrom collections import namedtuple\nfrom dataclasses import dataclass\n"
    made = made if made.startswith(("class", "@")) else f"A = {made}"
    facts = Facts(f"{imports}from typing import NamedTuple\n{made}\na = A(1)\nuse(a.model)\n")
    assert is_fixed(facts.program, facts.call("use(").args[0]) is is_one
