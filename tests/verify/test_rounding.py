"""How far two runs may be apart follows from how far rounding moves the original."""

from __future__ import annotations

import torch
from torch import nn

from accelify.verify.inside.perturbation import Perturbation
from accelify.verify.judging import outputs, training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.rounding import MARGIN, Rounding, of_texts
from accelify.verify.trace import Backward, Checkpoint, Leaf, Optimizer, Print, Run, Step, Trace
from accelify.verify.verdict import Status
from tests.verify.conftest import Prove, differing, row
from tests.verify.test_judge import evidence, traced


def trained(*losses: float, weight: float = 1.0, text: str = "") -> Trace:
    """A training of one parameter, whose gradient at each step is as large as the loss."""
    steps = [Step(0, "a.py:9", gradients=((x, x),), digests=(str(x),), sketches=((weight, weight),)) for x in losses]
    return traced(
        backwards=[Backward(x, "float32", "a.py:8") for x in losses],
        optimizers={0: Optimizer("SGD", ("w",), ("float32",), ((0.0, 0.0),))},
        steps=steps,
        prints=[Print(text, "a.py:10", passes=len(losses))] if text else [],
        checkpoints=[Checkpoint("m.pt", "a.py:11", (Leaf("w", "float32[1]", str(weight), (weight, weight)),))],
    )


def compared(original: Trace, many: Trace, *perturbed: Trace) -> Evidence:
    return evidence(original, many, perturbed=tuple(Run("perturbed", (each,)) for each in perturbed))


ROWS = training.losses, training.gradients, training.parameters, outputs.printed, outputs.checkpoints


def test_what_moves_the_original_as_far_is_no_difference() -> None:
    original = trained(1.0, 0.5, weight=2.0, text="12 right, score 3.0000")
    many = trained(1.0, 0.52, weight=2.04, text="13 right, score 3.1000")
    assert {judge(compared(original, many)).status for judge in ROWS} == {Status.DIFFERS}
    moved = trained(1.0, 0.503, weight=2.006, text="12 right, score 3.0200")
    further = trained(1.0, 0.501, weight=2.001, text="11 right, score 3.0100")
    found = compared(original, many, moved, further)
    assert {judge(found).status for judge in ROWS} == {Status.HOLDS}
    assert f"{MARGIN} times what the original moves" in training.losses(found).words


def test_what_moves_later_allows_nothing_before() -> None:
    original, many = trained(1.0, 0.5, 0.25), trained(1.02, 0.5, 0.25)
    found = training.losses(compared(original, many, trained(1.0, 0.5, 0.2)))
    assert (found.status, found.step) == (Status.DIFFERS, 1)
    assert list(Rounding(compared(original, many, trained(1.0, 0.375, 0.25))).of_losses()) == [
        0.0,
        MARGIN * 0.125,
        MARGIN * 0.125,
    ]


def test_runs_that_end_early_or_print_other_words_allow_what_they_show() -> None:
    assert list(of_texts(["loss 1.0 at 3", "loss 1.5 at 3", "done"])) == [MARGIN * 0.5, 0.0]
    assert list(of_texts(["loss nan", "loss 1.5"])) == [0.0]
    found = Rounding(compared(trained(1.0, 0.5), trained(1.0, 0.5), trained(1.25)))
    assert list(found.of_losses()) == [MARGIN * 0.25]
    assert list(Rounding(compared(trained(1.0), trained(1.0))).of_losses()) == []


def test_parameters_are_moved_by_rounding_before_they_are_used_and_after_each_step() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Embedding(5, 2))
    frozen, before = model[1].weight, [each.detach().clone() for each in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    perturbation = Perturbation(0)
    perturbation.before_forward(model[0])
    perturbation.before_forward(model[0])
    epsilon = torch.finfo(torch.float32).eps

    def moves() -> list[float]:
        pairs = zip(model.parameters(), before, strict=True)
        return [float(((new.detach() - old) / old).abs().max() / epsilon) for new, old in pairs]

    assert all(0.5 <= each <= 2.0 for each in moves()[:2])
    assert moves()[2] == 0.0
    model[0](torch.ones(4)).sum().backward()
    for _ in range(20):
        perturbation.after_step(optimizer)
    assert max(moves()[:2]) > 2.0
    assert frozen.grad is None
    assert moves()[2] == 0.0


AMPLIFIED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.randn(64, 4)
loader = DataLoader(TensorDataset(rows, rows.sum(1)), batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
state = torch.full((1,), 0.3)
for x, y in loader:
    optimizer.zero_grad()
    loss = (model(x).squeeze(1) - y).square().mean()
    loss.backward()
    optimizer.step()
    weight = float(model.weight.sum())
    for _ in range(60):
        weight = 3.9 * abs(weight) % 1.0 if abs(weight) > 1.0 else 3.9 * abs(weight) * (1.0 - abs(weight))
    print(f"chaos {weight:.6f}")
"""


def test_a_number_that_rounding_moves_anywhere_is_no_fault(proving: Prove) -> None:
    verdict = proving(AMPLIFIED)
    assert differing(verdict) == []
    assert row(verdict, "printed").status is Status.HOLDS
