"""Facts about what is inside values: attributes, items and what iterating over them yields."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.dataflow.containers import device_of, only
from accelify.codemod.semantics.values import Constant, External
from tests.codemod.facts import Facts, describe, values


def test_items_are_kept_apart_by_literal_keys() -> None:
    text = "a = {'x': 1, 'y': 2}\nb = (3, 4)\nf(a['x'], b[1], a[k], b[-1])\n"
    assert values(text, "a['x']") == {"1"}
    assert values(text, "b[1]") == {"4"}
    assert values(text, "a[k]") == {"1", "2"}


def test_a_negative_index_is_an_item() -> None:
    assert values("b = (3, 4)\nf(b[-1])\n", "b[-1]") == {"4"}
    assert values("b = [3, 4]\nb.append(5)\nf(b[-1])\n", "b[-1]") >= {"5"}
    assert values("b = [*a, 4]\nf(b[-1])\n", "b[-1]") == set()
    assert values("b = (3, 4)\nf(b[-3])\n", "b[-3]") == set()


def test_a_key_that_holds_a_literal() -> None:
    assert values("a = {'x': 1, 'y': 2}\nk = 'x'\nf(a[k])\n", "a[k]") == {"1"}


def test_unpacking_with_a_star() -> None:
    facts = Facts("a, *b, c = 1, 2, 3, 4\nx = (5, 6, 7)\nd, *e, f = x\nfor g in e: pass\n")
    assert facts.variable("d") == {"5"}
    assert facts.variable("f") == {"7"}
    assert facts.variable("g") >= {"6"}


def test_a_slice_is_a_part_of_the_same() -> None:
    assert values("a = [1, 2]\nf(a[1:])\n", "a[1:]") == {"collection [1, 2]"}


def test_what_is_put_in_later() -> None:
    text = "a = []\na.append(1)\na.extend([2])\na.insert(0, 3)\nb = {}\nb['x'] = 4\nb[k] = 5\nf(a[0], b['x'], b['y'])\n"
    assert values(text, "a[0]") == {"1", "2", "3"}
    assert values(text, "b['x']#2") == {"4", "5"}
    assert values(text, "b['y']") == {"5"}
    assert values(text + "for v in b.values(): pass\n", "b.values()") != set()
    assert Facts(text + "for v in b.values(): pass\n").variable("v") == {"4", "5"}
    assert Facts(text + "for k2 in b: pass\n").variable("k2") == {"'x'"}


def test_a_method_that_fills_nothing() -> None:
    text = "a = []\na.remove(1)\na.index(2)\nf(a[0])\n"
    assert values(text, "a[0]") == set()


def test_a_starred_element_gives_its_elements() -> None:
    assert values("a = [1]\nb = [*a, 2]\nf(b[1], b[0])\n", "b[1]") == {"1", "2"}
    assert values("a = [1]\nb = [*a, 2]\nf(b[1], b[0])\n", "b[0]") == {"1"}


def test_iterating_over_containers() -> None:
    assert values("for x in [1, 2]:\n    f(x)\n", "x#2") == {"1", "2"}
    assert values("for x in {'a': 1}:\n    f(x)\n", "x#2") == {"'a'"}
    assert values("for x in {'a': 1}.values():\n    f(x)\n", "x#2") == {"1"}
    assert values("for k, x in {'a': 1}.items():\n    f(x)\n", "x#2") == {"1"}
    assert values("for k, x in {'a': 1}.items():\n    f(k)\n", "k#2") == {"'a'"}
    assert values("for x in 3:\n    f(x)\n", "x#2") == set()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("i, x in enumerate([1, 2])", {"1", "2"}),
        ("i, x in enumerate([1, 2], start=1)", {"1", "2"}),
        ("y, x in zip('ab', [1, 2])", {"1", "2"}),
        ("i, (y, x) in enumerate(zip([0], [1]))", {"1"}),
        ("x in reversed([1])", {"1"}),
        ("x in list([1])", {"1"}),
        ("x in tqdm(iterable=[1])", {"1"}),
        ("x in itertools.islice([1, 2], 3)", {"1", "2"}),
        ("x in itertools.chain([1], [2])", {"1", "2"}),
        ("x in itertools.chain(*[[1], [2]])", {"1", "2"}),
        ("x in itertools.chain.from_iterable([[1], [2]])", {"1", "2"}),
        ("x in itertools.chain.from_iterable([f(), [2]])", {"element of made: f()", "2"}),
        ("x in filter(None, [1])", {"1"}),
        ("x in map(lambda y: 2, [1])", {"2"}),
        ("x in [y for y in [1]]", {"1"}),
        ("x in unknown_function([1])", {"element of made: unknown_function([1])"}),
    ],
)
def test_what_views_yield(head: str, expected: set[str]) -> None:
    text = f"import itertools\nfrom tqdm import tqdm\nfor {head}:\n    f(x)\n"
    facts = Facts(text)
    read = next(n for n in facts.program.calls if ast.unparse(n) == "f(x)").args[0]
    assert {describe(v) for v in facts.program.values(read)} == expected


def test_next_of_an_iterator_is_an_element() -> None:
    text = "it = iter([1, 2])\nf(next(it))\n"
    assert values(text, "next(it)") == {"1", "2"}


def test_attributes_of_instances_belong_to_their_class() -> None:
    text = """\
        class Trainer:
            lr = 1
            def __init__(self):
                self.model = 2
        a, b = Trainer(), Trainer()
        a.best = 3
        f(b.model, b.lr, b.best, b.missing)
    """
    assert values(text, "b.model") == {"2"}
    assert values(text, "b.lr") == {"1"}
    assert values(text, "b.best") == {"3"}  # instances of one class are not told apart
    assert values(text, "b.missing") == {"a Trainer.missing"}


def test_attributes_of_a_base_class() -> None:
    text = """\
        class Base:
            size = 1
            def make(self):
                self.made = 2
                self.own = self.build()
            def build(self):
                return 'base'
        class Net(Base):
            def build(self):
                return 'net'
        n = Net()
        f(n.size, n.build, n.own)
    """
    assert values(text, "n.size") == {"1"}
    assert values(text, "n.build") == {"function Net.build of a Net"}
    assert values(text, "self.build()") == {"'base'", "'net'"}


def test_properties_class_methods_and_static_methods() -> None:
    text = """\
        class A:
            @property
            def device(self):
                return 'cpu'
            @staticmethod
            def one():
                return 1
            @classmethod
            def two(cls):
                return cls
        a = A()
        f(a.device, a.one, A.two, A.one(), A.two())
    """
    assert values(text, "a.device") == {"'cpu'"}
    assert values(text, "a.one") == {"function A.one"}
    assert values(text, "A.two") == {"function A.two of class A"}
    assert values(text, "A.one()") == {"1"}
    assert values(text, "A.two()") == {"class A"}


def test_super_finds_the_method_of_the_base() -> None:
    text = """\
        class Base:
            def make(self): return self
        class Net(Base):
            def make(self): return super().make()
        f(Net().make())
    """
    assert values(text, "super().make") == {"function Base.make of a Net"}


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("super(Net, self).make", "function Base.make of a Wide"),
        ("super(Wide, self).make", "function Net.make of a Wide"),
        ("super(self.__class__, self).make", "function Net.make of a Wide"),
        ("Base.make", "function Base.make"),
    ],
)
def test_super_may_name_the_class_whose_bases_it_means(call: str, found: str) -> None:
    text = f"""\
        class Base:
            def make(self): return 1
        class Net(Base):
            def make(self): return 2
        class Wide(Net):
            def make(self): return {call}(self)
        f(Wide().make())
    """
    assert values(text, call) == {found}


def test_members_of_libraries_and_of_unknown_objects() -> None:
    used = "nn.Linear, args.model.layers.deep.deeper, nn.Linear(2, 2).weight"
    text = f"import torch.nn as nn\ndef f(args):\n    g({used})\n"
    assert values(text, "nn.Linear") == {"torch.nn.Linear"}
    assert values(text, "args.model") == {"argument args of f.model"}
    assert values(text, "args.model.layers.deep.deeper") == set()  # too far to be told apart
    assert values(text, "nn.Linear(2, 2).weight") == {"made: nn.Linear(2, 2).weight"}


def test_a_wrapper_s_module_is_the_model() -> None:
    text = "from torch import nn\nm = nn.DataParallel(nn.Linear(1, 1))\nf(m.module)\n"
    assert values(text, "m.module") == {"made: nn.Linear(1, 1)"}


def test_a_batch_s_parts_are_elements_of_the_loader() -> None:
    text = "loader = make()\nfor batch in loader:\n    x, y = batch\n    f(x, y, batch['a'], batch.label)\n"
    for part in ("x", "y", "batch['a']", "batch.label"):
        assert values(text, part) == {"element of made: make()"}


def test_a_project_s_own_iterator() -> None:
    text = """\
        class Loader:
            def __iter__(self):
                for x in [1]:
                    yield x
        class Stream:
            def __iter__(self):
                return self
            def __next__(self):
                return 2
        class Listed:
            def __getitem__(self, i):
                return 3
        class Both(Stream):
            def __getitem__(self, i):
                return 3
        class Unknown: pass
        for a in Loader(): pass
        for b in Stream(): pass
        for c in Unknown(): pass
        for n, d in enumerate(Listed()): pass
        for e in Both(): pass
    """
    assert Facts(text).variable("a") == {"1", "element of a Loader"}
    assert Facts(text).variable("b") == {"2", "element of a Stream"}
    assert Facts(text).variable("c") == {"element of a Unknown"}
    assert Facts(text).variable("d") == {"3", "element of a Listed"}
    assert Facts(text).variable("e") == {"2", "element of a Both"}


def test_a_project_s_own_getitem() -> None:
    text = "class Data:\n    def __getitem__(self, i):\n        return 1\nd = Data()\nf(d[0])\n"
    assert "1" in values(text, "d[0]")


def test_what_is_put_in_by_default_is_given_back() -> None:
    text = "d = {'a': 1}\nf(d.setdefault(k, 2))\n"
    assert values(text, "d.setdefault(k, 2)") == {"1", "2"}
    assert values("d = {}\nf(d.setdefault('b', 3))\n", "d.setdefault('b', 3)") == {"3"}


def test_methods_of_collections() -> None:
    text = "d = {'a': 1}\nf(d.get('a'), d.pop('a'), d.copy())\n"
    assert values(text, "d.get('a')") == {"1"}
    assert values(text, "d.pop('a')") == {"1"}
    assert values(text, "d.copy()") == {"collection {'a': 1}"}


@pytest.mark.parametrize(("text", "is_device"), [("cuda:", True), ("cuda:%d", True), ("cpu", False), ("cuda", False)])
def test_the_text_before_the_number_of_a_gpu(text: str, is_device: bool) -> None:
    assert bool(device_of(ast.Constant(text))) is is_device
    assert not device_of(ast.Name("device"))


def test_only_the_values_of_a_kind() -> None:
    both = frozenset({Constant(1), External("x")})
    assert only(both, Constant) == {Constant(1)}
    assert only(both, (Constant, External)) == both
    assert only(frozenset(), External) == frozenset()


@pytest.mark.parametrize("maker", ["munch.Munch", "easydict.EasyDict", "addict.Dict"])
def test_items_that_are_attributes_too(maker: str) -> None:
    text = f"import munch, easydict, addict\na = {maker}(x=1)\na['y'] = 2\nf(a['x'], a.y, a[k])\n"
    assert values(text, "a['x']") == {"1"}
    assert values(text, "a.y") == {"2"}
    assert values(text, "a[k]") == {"1"}
    filled = f"import munch, easydict, addict\na = {maker}()\nfor k in keys: a[k] = 3\nf(a.z)\n"
    assert values(filled, "a.z") == {"3"}


def test_attributes_that_are_no_items() -> None:
    text = "import types\na = types.SimpleNamespace(x=1)\na['y'] = 2\nf(a['x'], a.y)\n"
    assert "1" not in values(text, "a['x']")
    assert "2" not in values(text, "a.y")
