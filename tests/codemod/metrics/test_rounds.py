"""Facts about loops no round of which needs another."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rounds import Rounds
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.meters import Meters
from tests.codemod.metrics.loops import in_loop


def independent(body: str) -> bool:
    facts, loop = in_loop(body, before="total, best, rows = 0.0, 0.0, []")
    harmless = Harmless(facts.program, facts.roles)
    return Rounds(facts.program, facts.tracer, harmless, Meters(facts.program), loop).are_independent()


@pytest.mark.parametrize(
    "body",
    [
        "out = model(x)\ntotal += out.sum().item()",
        "out = model(x)\nrows.append(out.sum().item())",
        "out = model(x)\nif out.sum() > 0:\n    total += 1",
        "print(model(x))",
    ],
)
def test_rounds_that_need_no_other(body: str) -> None:
    assert independent(body)


@pytest.mark.parametrize(
    "body",
    [
        "best = max(best, model(x).sum().item())\nx = best",
        "unknown(x)",
        "out = torch.randn(3)",
        "if total > 3:\n    break\ntotal += model(x).sum().item()",
        "total = total * 0.9 + model(x).sum().item()",
        "model(x).sum().backward()",
        "torch.save(x, p)",
    ],
)
def test_rounds_that_do_more(body: str) -> None:
    assert not independent(body)
