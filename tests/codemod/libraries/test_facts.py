"""The facts of the table, checked against the real libraries: what exists, draws, seeds, changes, keeps rows apart."""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import importlib
import pathlib
import queue
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import DRAWS, SEEDS, Effect, Rows, Trait

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow

# Names of versions of these libraries and of Python that are not installed here.
OLD_OR_NEW = {
    *("raw_input", "xrange", "tqdm", "DataLoader", "time.clock", "math.sumprod", "random.binomialvariate"),
    *("math.cbrt", "math.exp2", "math.fma", "copy.replace", "itertools.batched", "itertools.pairwise"),
    *("PreTrainedModel", "MessagePassing"),
    "torch.utils.data.BufferedShuffleDataset",
    *("numpy.round_", "numpy.float_", "numpy.in1d", "numpy.Inf", "numpy.NaN", "numpy.infty", "numpy.concat"),
    *("numpy.set_string_function", "numpy.row_stack", "numpy.random.ranf", "numpy.random.random_integers"),
    *("numpy.trapz", "numpy.array2string", "numpy.unstack"),
}
CHECKED = {"torch", "numpy", "math", "random", "os", "itertools", "statistics", "time", "copy", "heapq", "shutil"}

pytestmark = pytest.mark.filterwarnings("ignore")


def real(name: str) -> Any:
    """The object of a qualified name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    return getattr(importlib.import_module("builtins"), name)


def exact_names() -> Iterator[str]:
    return (name for name, _facts, _source in table.entries() if "*" not in name and name[0] != "<")


def public(holder: object) -> list[str]:
    return [n for n in dir(holder) if not n.startswith("_") and callable(getattr(holder, n, None))]


# What exists.


def test_every_name_exists() -> None:
    missing = []
    for name in exact_names():
        if name not in OLD_OR_NEW and ("." not in name or name.partition(".")[0] in CHECKED):
            try:
                real(name)
            except (AttributeError, ImportError):
                missing.append(name)
    # What needs other hardware or an optional part of torch is not in every build.
    assert [n for n in missing if not n.startswith(("torch.xpu", "torch.mtia", "torch.utils.tensorboard"))] == []


@pytest.mark.parametrize(
    "module",
    [
        *("torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.optim", "torch.distributed"),
        *("torch.optim.lr_scheduler", "numpy", "numpy.random", "random", "math", "itertools", "heapq"),
    ],
)
def test_every_function_has_a_row(module: str) -> None:
    missing = [n for n in public(real(module)) if table.function(f"{module}.{n}") is None]
    tools = ("main", "has_torch_function", "handle_torch_function", "boolean_dispatch", "assert_int_or_pair")
    assert [n for n in missing if n[0] > "Z" and not n.startswith(tools)] == []


def test_every_function_of_torch_on_tensors_has_a_row() -> None:
    tensors = [n for n in public(torch) if hasattr(torch.Tensor, n) or hasattr(torch.nn.functional, n)]
    assert len(tensors) > 300
    assert [n for n in tensors if table.function(f"torch.{n}") is None] == []


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        *(("list", list), ("dict", dict), ("set", set), ("tuple", tuple), ("deque", collections.deque)),
        *(("counter", collections.Counter), ("queue", queue.Queue), ("optimizer", torch.optim.SGD)),
        *(("numpy_generator", numpy.random.Generator), ("python_random", random.Random)),
    ],
)
def test_every_method_has_a_row(kind: str, cls: type) -> None:
    missing = [n for n in public(cls) if table.member(kind, n) is None]
    assert [n for n in missing if not n.startswith(("register_", "Optimizer", "profile_", "maketrans", "bit_"))] == []


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        *(("tensor", torch.Tensor), ("ndarray", numpy.ndarray), ("module", torch.nn.Module), ("path", pathlib.Path)),
        *(("list", list), ("dict", dict), ("set", set), ("string", str), ("queue", queue.Queue)),
        *(("deque", collections.deque), ("counter", collections.Counter), ("bytes", bytes)),
        *(("thread", threading.Thread), ("python_random", random.Random)),
        *(("numpy_generator", numpy.random.Generator),),
    ],
)
def test_most_public_methods_of_a_kind_have_a_row(kind: str, cls: type) -> None:
    methods = public(cls)
    known = [n for n in methods if table.member(kind, n) is not None]
    assert len(known) >= 0.6 * len(methods)


# Random numbers.


def states() -> dict[str, object]:
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(numpy.random.get_state()),
        "python": random.getstate(),
    }


def changed_by(call: Callable[[], object]) -> set[str]:
    """The generators whose state a call changes."""
    before = states()
    call()
    after = states()
    return {name for name in before if before[name] != after[name]}


def x() -> torch.Tensor:
    return torch.linspace(0.1, 0.9, 12).reshape(4, 3)


SAMPLES: dict[str, Callable[..., object]] = {
    **{
        f"torch.{n}": (lambda f: f(3)) for n in ("rand", "randn", "randperm", "zeros", "ones", "arange", "eye", "empty")
    },
    **{f"torch.{n}": (lambda f: f(x())) for n in ("rand_like", "randn_like", "bernoulli", "poisson", "sigmoid", "sum")},
    **{f"torch.{n}": (lambda f: f(x(), 1)) for n in ("softmax", "topk", "multinomial", "unsqueeze", "cumsum")},
    "torch.randint": lambda f: f(5, (3,)),
    "torch.normal": lambda f: f(0.0, 1.0, (3,)),
    "torch.dropout": lambda f: f(x(), 0.5, True),
    "torch.nn.functional.dropout": lambda f: f(x()),
    "torch.nn.functional.alpha_dropout": lambda f: f(x(), training=True),
    "torch.nn.functional.gumbel_softmax": lambda f: f(x()),
    "torch.nn.functional.rrelu": lambda f: f(-x(), training=True),
    "torch.nn.functional.relu": lambda f: f(x()),
    "torch.nn.functional.mse_loss": lambda f: f(x(), x()),
    "torch.nn.Linear": lambda f: f(2, 3),
    "torch.nn.Conv2d": lambda f: f(1, 2, 3),
    "torch.nn.Embedding": lambda f: f(2, 3),
    "torch.nn.LSTM": lambda f: f(2, 3),
    "torch.nn.TransformerEncoderLayer": lambda f: f(4, 2),
    "torch.nn.MultiheadAttention": lambda f: f(4, 2),
    "torch.nn.BatchNorm1d": lambda f: f(3),
    "torch.nn.LayerNorm": lambda f: f(3),
    "torch.nn.Dropout": lambda f: f(0.5),
    "torch.nn.ReLU": lambda f: f(),
    "torch.nn.CrossEntropyLoss": lambda f: f(),
    "torch.nn.init.kaiming_normal_": lambda f: f(torch.ones(2, 2)),
    "torch.nn.init.orthogonal_": lambda f: f(torch.ones(2, 2)),
    "torch.nn.init.xavier_uniform_": lambda f: f(torch.ones(2, 2)),
    "torch.nn.init.zeros_": lambda f: f(torch.ones(2, 2)),
    "torch.nn.init.constant_": lambda f: f(torch.ones(2, 2), 3.0),
    "torch.utils.data.random_split": lambda f: f(range(4), [2, 2]),
    "torch.optim.Adam": lambda f: f([torch.ones(1, requires_grad=True)]),
    "torch.manual_seed": lambda f: f(torch.initial_seed() + 1),
    "torch.seed": lambda f: f(),
    "torch.get_rng_state": lambda f: f(),
    "torch.Generator": lambda f: f(),
    **{f"numpy.random.{n}": (lambda f: f(3)) for n in ("rand", "randn", "permutation", "choice", "random", "randint")},
    **{
        f"numpy.random.{n}": (lambda f: f())
        for n in ("normal", "uniform", "standard_normal", "get_state", "default_rng")
    },
    "numpy.random.shuffle": lambda f: f([1, 2, 3]),
    "numpy.random.seed": lambda f: f(1),
    "numpy.mean": lambda f: f([1.0, 2.0]),
    "numpy.linspace": lambda f: f(0, 1, 5),
    "random.random": lambda f: f(),
    "random.choice": lambda f: f([1, 2]),
    "random.choices": lambda f: f([1, 2]),
    "random.sample": lambda f: f([1, 2], 1),
    "random.shuffle": lambda f: f([1, 2, 3]),
    "random.randint": lambda f: f(0, 5),
    "random.gauss": lambda f: f(0.0, 1.0),
    "random.getrandbits": lambda f: f(5),
    "random.seed": lambda f: f(1),
    "random.Random": lambda f: f(1),
    "uuid.uuid4": lambda f: f(),
    "time.time": lambda f: f(),
    "sorted": lambda f: f([2, 1]),
}
CHANGED = {
    "torch": {Effect.DRAWS_TORCH, Effect.SEEDS_TORCH, Effect.DRAWS_IN_TRAINING},
    "numpy": {Effect.DRAWS_NUMPY, Effect.SEEDS_NUMPY},
    "python": {Effect.DRAWS_PYTHON, Effect.SEEDS_PYTHON},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_draws_and_seeds_of_a_function(name: str) -> None:
    row = table.function(name)
    assert row is not None
    said = {generator for generator, effects in CHANGED.items() if row.effects & effects}
    assert changed_by(lambda: SAMPLES[name](real(name))) == said


DRAWING_METHODS = (
    "uniform_",
    "normal_",
    "random_",
    "bernoulli_",
    "exponential_",
    "cauchy_",
    "geometric_",
    "log_normal_",
)
OTHER_METHODS = (
    "zero_",
    "abs_",
    "sigmoid_",
    "sin_",
    "neg_",
    "clone",
    "detach",
    "t_",
    "floor_",
    "relu_",
    "tolist",
    "numpy",
)


@pytest.mark.parametrize("name", [*DRAWING_METHODS, *OTHER_METHODS])
def test_draws_of_a_method_of_a_tensor(name: str) -> None:
    row = table.member("tensor", name)
    assert row is not None
    arguments = (0.5,) if name == "geometric_" else ()
    assert ("torch" in changed_by(lambda: getattr(x(), name)(*arguments))) is row.draws


@pytest.mark.parametrize(
    "name", ["integers", "normal", "random", "choice", "permutation", "uniform", "standard_normal"]
)
def test_draws_of_a_generator_of_numpy(name: str) -> None:
    row = table.member("numpy_generator", name)
    assert row is not None
    assert Effect.DRAWS_GIVEN in row.effects
    generator = numpy.random.default_rng(0)
    before = str(generator.bit_generator.state)
    getattr(generator, name)(*((3,) if name in ("integers", "choice", "permutation") else ()))
    assert str(generator.bit_generator.state) != before


def test_a_generator_of_torch() -> None:
    generator = torch.Generator()
    before = generator.get_state().tolist()
    generator.manual_seed(5)
    assert generator.get_state().tolist() != before
    row = table.member("torch_generator", "manual_seed")
    assert row is not None
    assert row.seeds
    assert row.returns == "self"
    assert changed_by(lambda: torch.rand(3, generator=generator)) == set()


def test_no_row_draws_and_seeds_at_once_but_from_the_system() -> None:
    for name in exact_names():
        row = table.function(name)
        if row is not None and row.effects & SEEDS:
            assert row.effects & DRAWS <= {Effect.DRAWS_SYSTEM}, name


# In place.

INSTANCES: dict[str, Callable[[], Any]] = {
    "list": lambda: [3, 1, 2],
    "deque": lambda: collections.deque([3, 1, 2]),
    "dict": lambda: {"a": 1, "b": 2},
    "set": lambda: {1, 2, 3},
    "counter": lambda: collections.Counter("aab"),
    "ndarray": lambda: numpy.array([3.0, 1.0, 2.0]),
    "tensor": x,
    "string": lambda: "abc",
}
CALLS: list[tuple[str, str, tuple[Any, ...]]] = [
    *(("list", n, (5,)) for n in ("append", "count")),
    *(("list", n, ([7],)) for n in ("extend", "__iadd__")),
    *(("list", n, ()) for n in ("sort", "reverse", "pop", "clear", "copy")),
    *(("list", n, (3,)) for n in ("remove", "index")),
    ("list", "insert", (0, 9)),
    *(("deque", n, (5,)) for n in ("append", "appendleft", "rotate", "count")),
    *(("deque", n, ()) for n in ("pop", "popleft", "clear", "copy", "reverse")),
    *(("dict", n, ({"c": 3},)) for n in ("update",)),
    *(("dict", n, ("a",)) for n in ("get", "pop")),
    *(("dict", n, ()) for n in ("items", "keys", "values", "popitem", "clear", "copy")),
    ("dict", "setdefault", ("z", 1)),
    *(("set", n, ({5},)) for n in ("update", "union", "difference", "intersection_update", "issubset")),
    *(("set", n, (5,)) for n in ("add",)),
    *(("set", n, (1,)) for n in ("discard", "remove")),
    *(("counter", n, ("abc",)) for n in ("update", "subtract")),
    *(("counter", n, ()) for n in ("most_common", "elements")),
    *(("ndarray", n, ()) for n in ("sort", "argsort", "mean", "copy", "tolist")),
    *(("ndarray", n, (7.0,)) for n in ("fill",)),
    *(("tensor", n, (2.0,)) for n in ("add_", "mul_", "div_", "sub_", "pow_", "fill_", "add", "mul", "clamp", "eq")),
    *(("tensor", n, ()) for n in ("zero_", "exp_", "log_", "neg_", "t_", "sqrt_", "exp", "log", "sum", "normal_")),
    *(("tensor", n, (0, torch.tensor([0]), torch.ones(1, 3))) for n in ("index_add_", "index_add", "index_copy_")),
    ("tensor", "copy_", (torch.ones(4, 3),)),
    ("tensor", "copy_", (torch.ones(3),)),
    *(("tensor", n, (torch.ones(4, 3) > 0, 5.0)) for n in ("masked_fill_", "masked_fill")),
    *(("string", n, ()) for n in ("upper", "strip", "split")),
]


@pytest.mark.parametrize(("kind", "method", "arguments"), CALLS)
def test_what_changes_in_place(kind: str, method: str, arguments: tuple[Any, ...]) -> None:
    row = table.member(kind, method)
    assert row is not None
    instance = INSTANCES[kind]()
    before = copy.deepcopy(instance)
    getattr(instance, method)(*arguments)
    same = repr(instance) == repr(before)
    assert ("self" in row.mutates) is not same


def test_every_method_of_a_tensor_with_an_underscore_returns_the_tensor() -> None:
    seen = 0
    for name in (n for n in public(torch.Tensor) if n.endswith("_")):
        row = table.member("tensor", name)
        assert row is not None, name
        assert "self" in row.mutates, name
        instance = x()
        try:
            result = getattr(instance, name)()
        except (TypeError, RuntimeError, ValueError):
            continue
        assert result is instance, name
        seen += 1
    assert seen > 60


def test_functions_that_change_their_first_argument() -> None:
    for name in (n for n in public(torch) if n.endswith("_")):
        row = table.function(f"torch.{name}")
        assert row is not None, name
        assert row.mutates == ("0",), name


# Rows of a batch.


def functions_of_one_tensor(rows: Rows) -> Iterator[tuple[str, Callable[[torch.Tensor], Any]]]:
    """Functions of torch and methods of tensors whose rows are so, and that need nothing else."""
    for name, facts, _source in table.entries():
        if "*" in name or not name.startswith(("torch.", "<tensor>.")) or f"rows={rows.value}" not in facts.split():
            continue
        if name.startswith("<tensor>."):
            method = name.removeprefix("<tensor>.")
            if hasattr(torch.Tensor, method) and not method.endswith("_") and "attribute" not in facts:
                yield name, lambda tensor, method=method: getattr(tensor, method)()
        elif "effects" not in facts and "mutates" not in facts:
            yield name, real(name)


def result_of(function: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> torch.Tensor | None:
    """What a function makes of a tensor, if it is one tensor."""
    try:
        result = function(tensor)
    except Exception:
        return None
    return result if isinstance(result, torch.Tensor) and result.numel() and result.layout == torch.strided else None


def test_functions_that_keep_rows_apart() -> None:
    """Another row changes nothing of what the function makes of this one."""
    seen = 0
    for name, function in functions_of_one_tensor(Rows.EACH):
        other = x()
        other[3] += 0.05
        one, two = result_of(function, x()), result_of(function, other)
        if one is None or two is None or one.shape != two.shape:
            continue
        different = (one != two) & ~(one.isnan() & two.isnan()) if one.is_floating_point() else one != two
        assert different.sum() <= one.numel() / 4, name
        seen += 1
    assert seen > 100


def test_functions_that_sum_over_rows() -> None:
    seen = 0
    for name, function in functions_of_one_tensor(Rows.SUM):
        whole, first, second = (result_of(function, part) for part in (x(), x()[:2], x()[2:]))
        if "trace" not in name and whole is not None and first is not None and second is not None and whole.dim() == 0:
            assert torch.allclose(whole.double(), (first + second).double()), name
            seen += 1
    assert seen >= 4


def test_functions_that_take_the_extreme_of_rows() -> None:
    for name, function in functions_of_one_tensor(Rows.EXTREME):
        whole, first, second = (result_of(function, part) for part in (x(), x()[:2], x()[2:]))
        if whole is not None and first is not None and second is not None:
            assert whole in (first, second), name


def test_losses_are_means_over_rows() -> None:
    seen = 0
    for name in exact_names():
        row = table.function(name)
        if row is None or row.rows is not Rows.MEAN or not name.startswith("torch.nn.functional."):
            continue
        try:
            function = real(name)
            whole, first, second = (function(part, part.flip(1)) for part in (x(), x()[:2], x()[2:]))
        except Exception:
            continue
        assert torch.allclose(whole, (first + second) / 2), name
        seen += 1
    assert seen >= 6


# Places, kinds of results.


def test_what_is_asked_of_shapes_needs_no_values() -> None:
    seen = 0
    for name, facts, _source in table.entries():
        if not name.startswith("<tensor>.") or "shape_only" not in facts or "tensor" in facts:
            continue
        method = name.removeprefix("<tensor>.")
        answers = []
        for tensor in (x(), torch.ones(4, 3)):
            with contextlib.suppress(AttributeError, TypeError, RuntimeError):
                found = getattr(tensor, method)
                answers.append(found() if "attribute" not in facts else found)
        if len(answers) == 2:
            assert answers[0] == answers[1], name
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", ["numpy", "tolist", "item", "detach"])
def test_what_leaves_the_graph(name: str) -> None:
    row = table.member("tensor", name)
    assert row is not None
    assert Trait.LEAVES_GRAPH in row.traits
    result = getattr(torch.ones(1), name)()
    assert not getattr(result, "requires_grad", False)


def test_what_gives_the_same_values() -> None:
    seen = 0
    for name, facts, _source in table.entries():
        method = name.removeprefix("<tensor>.")
        if not name.startswith("<tensor>.") or "same_values" not in facts or "attribute" in facts:
            continue
        if method in ("item", "bool", "type"):
            continue
        with contextlib.suppress(TypeError, RuntimeError, AssertionError):
            result = getattr(x().round(decimals=1) * 10, method)()
            assert torch.as_tensor(result).flatten().tolist() == (x().round(decimals=1) * 10).flatten().tolist(), name
            seen += 1
    assert seen > 8


RETURNED = {
    **dict.fromkeys(("torch.zeros", "torch.rand", "torch.stack", "torch.from_numpy", "torch.abs"), torch.Tensor),
    "torch.device": torch.device,
    "torch.Generator": torch.Generator,
    "torch.manual_seed": torch.Generator,
    "numpy.random.default_rng": numpy.random.Generator,
    "pathlib.Path": pathlib.Path,
    "collections.deque": collections.deque,
    "collections.Counter": collections.Counter,
    "datetime.datetime.now": datetime.datetime,
    "list": list,
    "dict": dict,
    "sorted": list,
}
KIND_OF: dict[type, str] = {
    torch.Tensor: "tensor",
    torch.device: "device",
    torch.Generator: "torch_generator",
    pathlib.Path: "path",
    numpy.random.Generator: "numpy_generator",
    collections.deque: "deque",
    collections.Counter: "counter",
    datetime.datetime: "datetime",
    list: "list",
    dict: "dict",
}


@pytest.mark.parametrize("name", RETURNED)
def test_the_kind_that_a_call_returns(name: str) -> None:
    row = table.function(name)
    assert row is not None
    assert row.returns == KIND_OF[RETURNED[name]]


def test_layers_without_weights_have_none() -> None:
    seen = 0
    for name in exact_names():
        row = table.function(name)
        if row is None or Trait.HAS_NO_WEIGHTS not in row.traits or not name.startswith("torch.nn."):
            continue
        arguments: tuple[int, ...] = ()
        layer = None
        while layer is None and len(arguments) < 3:
            with contextlib.suppress(TypeError, ValueError):
                layer = real(name)(*arguments)
            arguments = (*arguments, 2)
        if layer is None:
            continue
        assert not list(layer.parameters()), name
        seen += 1
    assert seen > 60


@pytest.mark.parametrize("name", ["BatchNorm1d", "Dropout", "RReLU", "ReLU", "Linear", "LayerNorm", "GELU", "Flatten"])
def test_layers_for_which_training_makes_a_difference(name: str) -> None:
    row = table.function(f"torch.nn.{name}")
    assert row is not None
    layer = getattr(torch.nn, name)(*((3, 3) if name == "Linear" else (3,) if "Norm" in name else ()))
    torch.manual_seed(0)
    trained = layer.train()(-x())
    evaluated = layer.eval()(-x())
    assert (not torch.equal(trained, evaluated)) is (Trait.DIFFERS_IN_TRAINING in row.traits)
