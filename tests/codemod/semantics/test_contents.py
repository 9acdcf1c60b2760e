"""Facts about what is put into containers after they are made."""

from __future__ import annotations

from accelify.codemod.semantics.contents import Kept
from tests.codemod.facts import Facts, texts


def kept(text: str) -> tuple[Kept, Facts]:
    facts = Facts(text)
    return Kept(facts.program), facts


def test_what_a_variable_s_container_gets() -> None:
    found, facts = kept("a = []\na.append(1)\na[0] = 2\na[0][1] = 3\na.extend(b)\na[k] += 4\na.clear()\nb = a[0]\n")
    root = facts.scope("main.py")
    assert sorted(texts(found.in_name(root, "a"))) == ["1", "2", "3", "4", "b"]
    assert found.in_name(root, "b") == []
    assert found.in_name(root, "missing") == []


def test_variables_of_functions_are_told_apart() -> None:
    found, facts = kept("a = []\ndef f(a):\n    a.append(1)\ndef g():\n    a.append(2)\n")
    assert texts(found.in_name(facts.scope("main.py"), "a")) == ["2"]
    assert texts(found.in_name(facts.scope("f"), "a")) == ["1"]


def test_attributes_of_objects_that_may_be_the_same() -> None:
    found, facts = kept(
        "def f(x, y, z):\n    x.rows.append(1)\n    y.rows[0] = 2\n    z.other.add(3)\n    z.rows\n    z.one\n"
    )
    assert sorted(texts(found.in_attribute(facts.expression("z.rows")))) == ["1", "2"]
    assert found.in_attribute(facts.expression("z.one")) == []


CLASSES = """\
from torch import nn

class Rows:
    def __init__(self):
        self.data = []

class More(Rows):
    def add(self, row):
        self.data.append(row)

more, model = More(), nn.Linear(2, 2)
more.add(1)
model.weight.data[:1] = 2
for p in model.parameters():
    p.data[0] = 3
Rows().data
"""


def test_attributes_of_objects_of_another_class_are_others() -> None:
    found, facts = kept(CLASSES)
    assert texts(found.in_attribute(facts.expression("Rows().data"))) == ["row"]


def test_functions_of_a_module_put_nothing_into_it() -> None:
    found, facts = kept(
        "import numpy as np\nfrom torch import nn\nnp.append(a, b)\nnp.insert(a, 0, b)\nrows = []\nrows.append(d)\n"
    )
    root = facts.scope("main.py")
    assert found.in_name(root, "np") == []
    assert texts(found.in_name(root, "rows")) == ["d"]


DICTS = """\
from collections import OrderedDict, defaultdict
def fill(found, name):
    found[name] = 1
    found.setdefault("last", 2)
    return found
"""


def test_keys_of_dicts() -> None:
    for made, keys in {
        "{'a': 1, b: 2}": ["'a'", "b"],
        "{n: 1 for n in names}": ["n"],
        "dict(a=1)": [],
        "fill(OrderedDict(), b)": ["'last'", "name"],
        "fill(defaultdict(list), b)": ["'last'", "name"],
    }.items():
        found, facts = kept(f"{DICTS}made = {made}\nmade\n")
        assert sorted(texts(found.keys(facts.expression("made")) or [])) == keys, made


def test_keys_of_what_is_no_known_dict() -> None:
    for made in ("{**others}", "dict(pairs)", "dict(**others)", "[1]", "f()", "{'a': 1} if b else f()"):
        found, facts = kept(f"made = {made}\nmade\n")
        assert found.keys(facts.expression("made")) is None, made
    found, facts = kept("made = {'a': 1}\nmade.update(others)\nmade\n")
    assert found.keys(facts.expression("made")) is None
