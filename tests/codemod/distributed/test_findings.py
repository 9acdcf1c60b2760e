"""Facts about where it is looked for what a script does to run on several processes, and how that is noted."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.distributed.findings import Distribution, Place, is_part_of_a_name, option_of, reason_for
from tests.codemod.distributed.scripts import distributed
from tests.codemod.facts import Facts, texts


def test_what_is_removed_is_known_and_removed_once() -> None:
    found, statement = Distribution(), ast.parse("f(x)").body[0]
    found.remove(statement)
    found.remove(statement)
    assert found.removed == [statement]
    assert set(ast.walk(statement)) <= found.known
    assert found.is_understood


def test_what_is_not_understood() -> None:
    found = Distribution()
    found.refuse(ast.Pass(), "odd")
    assert not found.is_understood


def test_what_goes_is_not_replaced() -> None:
    gone, kept = ast.parse("rank = f()\nother = g()").body
    found = Distribution(ranks={gone.value: "process_index", kept.value: "process_index"})  # type: ignore[attr-defined]
    found.remove(gone)
    assert texts(found.replaced) == ["g()"]


def test_a_place_holds_code_that_may_run_in_its_files() -> None:
    facts = Facts({"main.py": "import other\nother.f()\n", "other.py": "def f(): a()\ndef g(): b()\nc()\n"})
    own, both = Place(facts.program, {"main.py"}), Place(facts.program, {"main.py", "other.py"})
    assert own.holds(facts["other.f()"])
    assert not own.holds(facts["a()"])
    assert both.holds(facts["a()"])
    assert not both.holds(facts["b()"])


def test_calls_that_are_statements() -> None:
    facts = Facts("f()\nx = g()\nh(k())\n")
    place = Place(facts.program, {"main.py"})
    assert [c for c in ("f()", "g()", "h(k())", "k()") if place.is_alone(facts.call(c))] == ["f()", "h(k())"]


def test_what_runs_under_a_condition() -> None:
    text = "if a:\n    f()\nelse:\n    g()\nif True:\n    h()\nif __name__ == '__main__':\n    k()\ndef l():\n    m()\n"
    facts = Facts(text)
    place = Place(facts.program, {"main.py"})
    assert place.is_optional(facts["f()"])
    assert {holds for _, holds in place.branches(facts["g()"])} == {False}
    for text in ("h()", "k()", "m()"):
        assert not place.is_optional(facts[text]), text


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("torch.distributed.all_reduce", "accelerator.reduce"),
        ("torch.distributed.new_group", "torchrun"),
        ("torch.multiprocessing.spawn", "accelify launch"),
        (
            "torch_xla.core.xla_model.xla_device",
            "written for a TPU, on which `accelify launch` starts it as well; `acc",
        ),
        ("torch_xla.core.xla_model.mark_step", "written for a TPU, on which `accelify launch` starts it as well; rem"),
        ("torch_xla.core.xla_model.all_reduce", "already distributes itself"),
    ],
)
def test_why_a_name_is_left_alone(name: str, part: str) -> None:
    assert part in reason_for(name)


def test_the_beginning_of_a_longer_name() -> None:
    facts = distributed("dist.barrier()\nf(dist)\n")
    assert is_part_of_a_name(facts.program, facts["dist"])
    assert not is_part_of_a_name(facts.program, facts["dist.barrier"])
    assert not is_part_of_a_name(facts.program, facts.call("f(dist)").args[0])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("p.add_argument('--dist-url')", ("--dist-url", "dist_url")),
        ("p.add_argument('-g', '--gpu', type=int)", ("--gpu", "gpu")),
        ("p.add_argument('--id', dest='gpu')", ("--id", "gpu")),
        ("p.add_argument('path')", ("path", "path")),
        ("p.add_argument(name)", None),
        ("add('--gpu')", None),
    ],
)
def test_the_option_that_a_call_adds(call: str, expected: tuple[str, str] | None) -> None:
    assert option_of(Facts(call).call(call)) == expected
