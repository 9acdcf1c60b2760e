"""What a script of several processes trains."""

from __future__ import annotations

from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries.row import Role
from tests.codemod.checks.checking import ACCELERATE, DDP
from tests.codemod.facts import Facts, texts


def trained(text: str) -> tuple[Trained, Facts]:
    facts = Facts(text)
    return Trained(Processes(facts.program)), facts


def test_backward_passes_with_their_losses() -> None:
    found, _ = trained(ACCELERATE + "for x in l:\n    accelerator.backward(loss)\n    (a + b).backward()\n")
    assert texts(found.backwards.values()) == ["loss", "a + b"]
    assert {ast_loop is not None for ast_loop in map(found.loop, found.backwards)} == {True}


def test_what_is_wrapped() -> None:
    found, facts = trained(DDP + "model = DDP(net)\nmodel.a\nnet.b\n")
    assert texts(found.wraps) == ["DDP(net)"]
    assert found.is_wrapped(facts.expression("model.a").value)  # type: ignore[attr-defined]  # an attribute
    assert not found.is_wrapped(facts.expression("net.b").value)  # type: ignore[attr-defined]  # an attribute


def test_what_is_prepared() -> None:
    found, _ = trained(
        ACCELERATE + "o = torch.optim.SGD(p)\nq = torch.optim.Adam(p)\no = accelerator.prepare(o)\nq.step()\n"
    )
    one, other = sorted(found.made_by(Role.OPTIMIZER), key=found.program.position)
    assert found.is_given_to_prepare(one)
    assert not found.is_given_to_prepare(other)
    assert texts(found.steps(other)) == ["q.step()"]


def test_where_a_value_comes_from() -> None:
    found, facts = trained("a = f(1)\nb = a + 2\nprint(b)\n")
    assert set(texts(found.sources(facts.call("print").args[0]))) == {"b", "a + 2", "f(1)"}
