"""Facts about steps that compare the rows of a batch with each other."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rows.coupled_rows import coupled
from accelify.codemod.options import Options
from tests.codemod.facts import texts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script, training

REST = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"


def found(step: str, before: str = "") -> list[str]:
    return texts(coupled(training(before=before, step=f"{step}\n{REST}").script.metrics))


@pytest.mark.parametrize(
    ("step", "compared"),
    [
        ("z = model(x)\nloss = (z @ z.t()).exp().sum(0).log().mean()", ["z @ z.t()"]),
        ("z = model(x)\nloss = torch.mm(z, y.T).mean()", ["torch.mm(z, y.T)"]),
        ("z = model(x)\nloss = z.matmul(z.transpose(0, 1)).mean()", ["z.matmul(z.transpose(0, 1))"]),
        ("z = model(x)\nloss = torch.cdist(z, z).mean()", ["torch.cdist(z, z)"]),
        ("z = model(x)\nloss = (z[None] - z[:, None]).mean()", ["z[None] - z[:, None]"]),
        ("z = model(x)\nloss = (z.unsqueeze(1) * z.unsqueeze(0)).mean()", ["z.unsqueeze(1) * z.unsqueeze(0)"]),
        ("z = model(x)\nloss = torch.einsum('nc,mc->nm', z, y).mean()", ["torch.einsum('nc,mc->nm', z, y)"]),
        ("z = model(x)\nloss = pairs(z)", ["v @ v.T"]),
        ("z = model(x)\nloss = (z @ weights.t()).mean()", []),
        ("z = model(x)\nloss = (z @ z.transpose(-2, -1)).mean()", []),
        ("z = model(x)\nloss = torch.einsum('nc,nc->n', z, y).mean()", []),
        ("z = model(x)\nloss = (z.unsqueeze(1) - y.unsqueeze(1)).mean()", []),
        ("loss = (model(x) - y).pow(2).mean()\nwith torch.no_grad():\n    print(y @ y.t())", []),
    ],
)
def test_rows_that_are_compared(step: str, compared: list[str]) -> None:
    assert found(step, "weights = torch.ones(3, 4)\ndef pairs(v):\n    return (v @ v.T).mean()\n") == compared


@pytest.mark.parametrize(("keeps", "notes"), [(True, 1), (False, 0)])
def test_parts_of_batches_are_reported(keeps: bool, notes: int) -> None:
    step = f"z = model(x)\nloss = torch.cdist(z, z).mean()\n{REST}"
    result = run(script(before="rows = torch.randn(8, 2, 4)", step=step), Options(keep_global_batch=keeps))
    assert sum("compares all rows of a batch" in n.message for n in result.notes) == notes
    assert "DataParallel" not in result.after.decode()
