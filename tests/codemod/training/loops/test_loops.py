"""The training code of a program, found whole."""

from __future__ import annotations

from tests.codemod.facts import Facts, spelling, texts
from tests.codemod.training_scripts import training


def test_the_common_training_loop() -> None:
    found = training().training
    assert texts(found.backwards) == ["loss.backward()"]
    assert texts(found.steps) == ["optimizer.step()"]
    (data,) = found.data
    assert data.kind == "loaders"
    assert texts(data.sources) == ["loader"]
    (loops,) = found.loops.values()
    assert [spelling(n).partition(":")[0] for n in loops] == ["for x, y in loader", "for epoch in range(2)"]


def test_a_script_that_does_not_train() -> None:
    found = Facts("x.forward()\n").training
    assert (found.backwards, found.steps, found.data) == ((), (), ())
