"""Losses that depend on which rows a batch holds: right where the original's on the same rows say so, and else not."""

from __future__ import annotations

from dataclasses import replace

import torch

from accelify.verify.inside.samples import _rows_of
from accelify.verify.inside.training import _sum_of
from accelify.verify.judging import training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.parts import MIXES_ROWS, agree_on_parts, agree_undivided
from accelify.verify.trace import Backward, Call, Optimizer, Run, Step, Trace
from accelify.verify.verdict import Status
from tests.verify.conftest import Prove, differing, row
from tests.verify.test_judge import evidence, passing, traced

WHOLE = (0, 1, 2, 3)
PARTS = (0, 1), (2, 3)
KNOWN = {0: Optimizer("SGD", ("w",), ("float64",), ((1.0, 1.0, 0.0),))}

CONTRASTIVE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
loader = DataLoader(TensorDataset(torch.randn(32, 6)), batch_size=8, shuffle=True)
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    similar = model(x) @ model(x + 0.1).t()
    loss = nn.functional.cross_entropy(similar, torch.arange(len(x), device=x.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def learned(loss: float, gradient: float, rows: tuple[int, ...], rank: int = 0, *calls: str) -> Trace:
    return traced(
        rank,
        backwards=[Backward(loss, "float64")],
        passes=passing(rows),
        optimizers=KNOWN,
        steps=[Step(gradients=((abs(gradient), gradient, 0.0),))],
        calls=[Call(kind) for kind in (*calls, "step")],
    )


def compared(*losses: float, gradient: float, calls: tuple[str, ...] = ()) -> Evidence:
    ranks = [
        learned(loss, gradient, rows, rank, *calls) for rank, (loss, rows) in enumerate(zip(losses, PARTS, strict=True))
    ]
    return evidence(learned(3.0, 5.0, WHOLE), *ranks)


def of_parts(*pairs: tuple[float, float]) -> list[Run]:
    return [Run("part", (learned(*pair, rows),)) for pair, rows in zip(pairs, PARTS, strict=True)]


def test_ranks_agree_with_the_original_on_their_rows() -> None:
    parts = of_parts((1.0, 1.0), (2.0, 4.0))
    found = compared(1.0, 2.0, gradient=2.5)
    assert training.losses(found).status is Status.DIFFERS
    assert training.losses(replace(found, mixes_rows=MIXES_ROWS)).status is Status.NATURE
    assert agree_on_parts(found, parts)
    assert not agree_on_parts(compared(1.0, 1.0, gradient=2.5), parts)
    assert not agree_on_parts(compared(1.0, 2.0, gradient=5.0), parts)
    assert agree_on_parts(compared(1.0, 2.0, gradient=0.1, calls=("clip_grad_norm_",)), parts)
    others = [Run("part", (learned(1.0, 1.0, PARTS[1]),)), parts[1]]
    assert not agree_on_parts(found, others)


def test_all_steps_agree_on_whole_batches() -> None:
    found = compared(1.0, 2.0, gradient=2.5)
    alike = [learned(3.0, 5.0, WHOLE, rank) for rank in range(2)]
    assert agree_undivided(found, Run("undivided", tuple(alike)))
    halved = [learned(1.5, 2.5, WHOLE, rank) for rank in range(2)]
    assert not agree_undivided(found, Run("undivided", tuple(halved)))


def test_a_part_holds_the_rows_that_the_runtime_gives_a_rank() -> None:
    assert [_rows_of(list(range(5)), rank, 2) for rank in range(2)] == [[0, 1, 2], [3, 4]]


def test_losses_that_go_backward_together_are_added_in_their_own_precision() -> None:
    losses = [torch.tensor(0.1), torch.tensor(0.2), torch.tensor(0.7)]
    assert _sum_of(losses) == float(losses[0] + losses[1] + losses[2])
    assert _sum_of([torch.ones(3)]) == 3.0


def test_a_contrastive_loss_differs_by_nature(proving: Prove) -> None:
    verdict = proving(CONTRASTIVE)
    assert differing(verdict) == []
    found = row(verdict, "losses")
    assert found.status is Status.NATURE
    assert found.words.startswith(MIXES_ROWS)
