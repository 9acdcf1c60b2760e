"""Facts about what switches mixed precision on, and which branches differ in the precision alone."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.precision.switches import NotUnderstood, is_none, method_of_call
from tests.codemod.facts import Facts
from tests.codemod.precision.scripts import SCALED, scaled, switches


def choice(facts: Facts, test: str) -> ast.If:
    return next(n for n in facts.files[0].nodes if isinstance(n, ast.If) and ast.unparse(n.test) == test)


def test_the_settings_that_are_given() -> None:
    facts = scaled()
    found = switches(facts)
    given = [k.value for k in facts.call("torch.autocast").keywords]
    assert found.conditions(facts["with torch.autocast"], given) == {"use_amp"}
    assert found.conditions(facts["with torch.autocast"], [ast.Constant(True)]) == frozenset()


def test_a_setting_that_is_not_known_where_the_accelerator_is_created() -> None:
    facts = scaled(SCALED.replace("enabled=use_amp", "enabled=x.is_cuda"))
    given = [k.value for k in facts.call("torch.autocast").keywords]
    with pytest.raises(NotUnderstood, match="not known where the accelerator is created"):
        switches(facts).conditions(facts["with torch.autocast"], given)


@pytest.mark.parametrize(
    ("mixed", "full", "is_same"),
    [
        ("with torch.autocast('cuda'):\n    z = model(x)", "z = model(x)", True),
        ("scaler.scale(loss).backward()", "loss.backward()", True),
        ("scaler.step(optimizer)\nscaler.update()", "optimizer.step()", True),
        ("scaler.unscale_(optimizer)\nclip(model)", "clip(model)", True),
        ("with torch.autocast('cuda'):\n    z = model(x)", "z = model(y)", False),
        ("scaler.step(optimizer)", "other.step()", False),
        ("with torch.no_grad():\n    z = model(x)", "z = model(x)", False),
        ("with torch.autocast('cuda'), other():\n    z = model(x)", "z = model(x)", False),
    ],
)
def test_branches_that_do_the_same(mixed: str, full: str, is_same: bool) -> None:
    indented = [code.replace("\n", "\n    ") for code in (mixed, full)]
    facts = scaled(SCALED + f"if flag:\n    {indented[0]}\nelse:\n    {indented[1]}\n")
    found = switches(facts)
    node = choice(facts, "flag")
    assert found.is_choice(node, in_body=True) is is_same
    if is_same:
        assert found.is_without(node, node.orelse[0])
        assert not found.is_without(node, node.body[0])


def test_an_elif_is_no_choice() -> None:
    facts = scaled(SCALED + "if a:\n    f()\nelif flag:\n    scaler.update()\nelse:\n    pass\n")
    assert not switches(facts).is_choice(choice(facts, "flag"), in_body=True)


def test_whether_an_expression_holds_the_scaler() -> None:
    facts = scaled()
    assert switches(facts).is_scaler(facts.expression("scaler#2"))
    assert not switches(facts).is_scaler(facts.expression("optimizer"))
    assert not switches(facts).is_scaler(None)


def test_questions_for_a_gpu() -> None:
    facts = scaled(end="use(device.type == 'cuda', device.type == 'cpu', device == 'cuda')\n")
    found = [switches(facts).asks_for_cuda(a) for a in facts.call("use(device").args]
    assert [s is not None for s in found] == [True, False, False]


def test_small_questions() -> None:
    facts = Facts("a.step(b)\nf(None, 0)\n")
    assert method_of_call(facts.call("a.step(b)")) == "step"
    assert method_of_call(facts.call("f(None")) == ""
    assert [is_none(a) for a in facts.call("f(None").args] == [True, False]
    assert is_none(None)
