"""Facts about loops that train where a condition holds and evaluate where it does not."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.phases import Phase, Phases
from tests.codemod.facts import Facts, texts


def asked(
    body: str, head: str = "for x in loader:", before: str = "", after: str = ""
) -> tuple[Phases, Phase | None, Facts]:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    facts = Facts(f"{before}{head}\n{lines}\n{after}")
    loop = next(n for n in facts.files[0].nodes if isinstance(n, ast.For) and texts([n.target]) == ["x"])
    calls = [c for c in facts.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "backward"]
    phases = Phases(facts.program, facts.tracer)
    return phases, phases.of(loop, calls), facts


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("if training:\n    loss.backward()", "training"),
        ("if not evaluate:\n    loss.backward()", "not evaluate"),
        ("if phase == 'train':\n    loss.backward()", "phase == 'train'"),
        ("if evaluate:\n    pass\nelse:\n    loss.backward()", "not evaluate"),
        ("if training and grad:\n    loss.backward()", "training"),
        ("if self.training:\n    loss.backward()", "self.training"),
    ],
)
def test_the_condition_on_which_a_loop_trains(body: str, text: str) -> None:
    _, phase, _ = asked(body)
    assert phase is not None
    assert phase.text == text


@pytest.mark.parametrize(
    "body",
    [
        "loss.backward()",
        "if loss > 3:\n    loss = f(x)\n    loss.backward()",
        "if f(x):\n    loss.backward()",
        "if x:\n    loss.backward()",
        "if training:\n    loss.backward()\nother.backward()",
        "training = f()\nif training:\n    loss.backward()",
        "model.train()\nif model.training:\n    loss.backward()",
    ],
)
def test_conditions_that_change_or_are_none(body: str) -> None:
    assert asked(body)[1] is None


def test_what_conditions_say_where_a_loop_evaluates() -> None:
    _, phase, facts = asked(
        "if training:\n    loss.backward()", after="use(training, not training, training or a, training and a, other)\n"
    )
    assert phase is not None
    assert [phase.said(a) for a in facts.call("use(").args] == [False, True, None, False, None]


def test_what_runs_where_a_loop_evaluates() -> None:
    _, phase, facts = asked("if training:\n    loss.backward()\nelse:\n    a()\nif other:\n    b()")
    assert phase is not None
    live = set(phase.live(*phase.loop.body))
    assert [facts.call(c) in live for c in ("loss.backward()", "a()", "b()")] == [False, True, True]


def test_branches_of_the_other_phase() -> None:
    _, phase, facts = asked(
        "if phase == 'train':\n    loss.backward()", after="use(phase == 'val', phase == 'train', p == 'val')\n"
    )
    assert phase is not None
    val, train, other = facts.call("use(").args
    assert phase.is_over(val, holds=True)
    assert phase.is_over(train, holds=False)
    assert not phase.is_over(train, holds=True)
    assert not phase.is_over(val, holds=False)
    assert not phase.is_over(other, holds=True)


def test_loaders_chosen_by_the_phase() -> None:
    phases, phase, _ = asked("if training:\n    loss.backward()", "for x in (a if training else b):")
    assert phase is not None
    found = phases.loaders(phase)
    assert found is not None
    assert [texts(listed) for listed in found] == [["a"], ["b"]]


@pytest.mark.parametrize(
    "head", ["for x in {'train': a, 'val': b}[phase]:", "loader = {'val': b, 'train': a}[phase]\nfor x in loader:"]
)
def test_loaders_of_a_dict_that_no_variable_holds(head: str) -> None:
    phases, phase, _ = asked("if phase == 'train':\n    loss.backward()", head)
    assert phase is not None
    trained, evaluated = phases.loaders(phase) or ([], [])
    assert (phases.key(phase), texts(trained), texts(evaluated)) == (None, ["a"], ["b"])
    phases, phase, _ = asked("if phase == 'train':\n    loss.backward()", "for x in {key: a, 'val': b}[phase]:")
    assert phase is not None
    assert phases.loaders(phase) is None


def test_loaders_that_callers_give() -> None:
    text = "def run(loader, training):\n    for x in loader:\n        if training:\n            loss.backward()\n"
    facts = Facts(f"{text}run(a, True)\nrun(b, training=False)\n")
    loop = facts["for x"]
    assert isinstance(loop, ast.For)
    phases = Phases(facts.program, facts.tracer)
    phase = phases.of(loop, [facts.call("loss.backward()")])
    assert phase is not None
    found = phases.loaders(phase)
    assert found is not None
    assert [texts(listed) for listed in found] == [["a"], ["b"]]
    assert phases.trains(facts.call("run(a"), facts.scope("run"), phase) is True
    assert phases.trains(facts.call("run(b"), facts.scope("run"), phase) is False


def test_callers_of_whom_nothing_is_known() -> None:
    text = "def run(loader, training):\n    for x in loader:\n        if training:\n            loss.backward()\n"
    facts = Facts(f"{text}run(a, unknown())\n")
    loop = facts["for x"]
    assert isinstance(loop, ast.For)
    phases = Phases(facts.program, facts.tracer)
    phase = phases.of(loop, [facts.call("loss.backward()")])
    assert phase is not None
    assert phases.loaders(phase) is None or phases.trains(facts.call("run(a"), facts.scope("run"), phase) is True


@pytest.mark.parametrize(
    ("head", "test", "key"),
    [
        ("for x in loaders[phase]:", "phase == 'train'", "train"),
        ("for x in loaders[phase]:", "phase == 'val'", "val"),
        ("for x in tqdm(loaders[phase]):", "phase != 'val'", "train"),
        ("for x in loaders[phase]:", "phase in ('train',)", "train"),
        ("for x in loaders[phase]:", "phase in ('train', 'val')", None),
        ("loader = loaders[phase]\n    for x in loader:", "phase == 'train'", "train"),
        ("for x in loaders[phase]:", "phase == 'other'", None),
        ("for x in loaders['val']:", "phase == 'train'", None),
        ("for x in loaders[other]:", "phase == 'train'", None),
    ],
)
def test_loaders_by_the_phase_s_key(head: str, test: str, key: str | None) -> None:
    before = "from tqdm import tqdm\nloaders = {'train': a, 'val': b}\nfor phase in ['train', 'val']:\n"
    facts = Facts(f"{before}    {head}\n        if {test}:\n            loss.backward()\n")
    loop = facts["for x"]
    assert isinstance(loop, ast.For)
    phases = Phases(facts.program, facts.tracer)
    phase = phases.of(loop, [facts.call("loss.backward()")])
    assert phase is not None
    assert phases.key(phase) == key
