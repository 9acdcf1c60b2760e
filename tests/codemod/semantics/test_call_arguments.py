"""Facts about conditions of a function's parameters, for one call."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.call_arguments import Given
from tests.codemod.facts import Facts


@pytest.mark.parametrize(
    ("test", "call", "truth"),
    [
        ("train", "f(True)", True),
        ("train", "f(False)", False),
        ("train", "f()", False),
        ("not train", "f(True)", False),
        ("train == 'yes'", "f('yes')", True),
        ("train != 'yes'", "f('yes')", False),
        ("train is None", "f(None)", True),
        ("train is not None", "f(torch.zeros(1))", True),
        ("train", "f(torch.optim.SGD(p))", True),
        ("train", "f(unknown)", None),
        ("train", "f(*rest)", None),
        ("train > 3", "f(4)", None),
        ("other", "f(True)", None),
        ("train and other", "f(True)", None),
    ],
)
def test_what_a_condition_says_for_a_call(test: str, call: str, truth: bool | None) -> None:
    facts = Facts(f"import torch\ndef f(train=False):\n    if {test}:\n        pass\n{call}\n")
    given = Given(facts.program, facts.tracer)
    condition = facts.statement(f"if {test}")
    assert given.truth(condition.test, facts.call(call), facts.scope("f")) is truth  # type: ignore[attr-defined]


def test_a_parameter_that_is_given_anew() -> None:
    facts = Facts("def f(a):\n    a = g()\n    if a:\n        pass\nf(True)\n")
    condition = facts.statement("if a")
    found = Given(facts.program, facts.tracer).truth(condition.test, facts.call("f(True)"), facts.scope("f"))  # type: ignore[attr-defined]
    assert found is None
