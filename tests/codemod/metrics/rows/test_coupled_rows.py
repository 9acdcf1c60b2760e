"""Facts about steps that relate the rows of a batch to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.metrics.rows.coupled_rows import coupled, taken_by_place
from accelify.codemod.options import Options
from accelify.codemod.rewrite import rewrite_together
from tests.codemod.facts import texts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script, training

FUNCTIONS = """\
weights = torch.ones(3, 4)
embed = nn.Embedding(4, 2)
def kept(width):
    return embed(torch.arange(width))
def pairs(v):
    return (v @ v.T).mean()
def apart(v, w):
    v = v.unsqueeze(1).expand(2, 2, 1)
    w = w.unsqueeze(0).repeat(2, 1, 1)
    return (v - w).pow(2).mean()
"""
REST = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"


def found(step: str, before: str = "") -> list[str]:
    return texts(coupled(training(before=before, step=f"{step}\n{REST}").script.metrics))


@pytest.mark.parametrize(
    ("step", "compared"),
    [
        ("z = model(x)\nloss = (z @ z.t()).exp().sum(0).log().mean()", ["z @ z.t()"]),
        ("z = model(x)\nloss = torch.mm(z, y.T).mean()", ["torch.mm(z, y.T)"]),
        ("z = model(x)\nloss = z.matmul(z.transpose(0, 1)).mean()", ["z.matmul(z.transpose(0, 1))"]),
        ("z = model(x)\nloss = torch.mm(z, z.t().data).mean()", ["torch.mm(z, z.t().data)"]),
        ("z = model(x)\nloss = (z @ z.T.detach().clone()).mean()", ["z @ z.T.detach().clone()"]),
        ("z = model(x)\nw = z.t().detach()\nloss = torch.matmul(z, w).mean()", ["torch.matmul(z, w)"]),
        ("z = model(x)\nd = y * 1\nd.addmm_(1, -2, z, z.t())\nloss = d.mean()", ["d.addmm_(1, -2, z, z.t())"]),
        ("z = model(x)\nloss = nn.functional.linear(z, z).mean()", ["nn.functional.linear(z, z)"]),
        (
            "z = model(x)\nloss = nn.functional.cosine_similarity(z.unsqueeze(1), z[None]).mean()",
            ["nn.functional.cosine_similarity(z.unsqueeze(1), z[None])"],
        ),
        (
            "z = model(x)\nloss = nn.functional.cosine_similarity(z.unsqueeze(-2), z.unsqueeze(-3)).mean()",
            ["nn.functional.cosine_similarity(z.unsqueeze(-2), z.unsqueeze(-3))"],
        ),
        (
            "z = model(x)\nloss = (z[..., None, :] - z[..., None, :, :]).mean()",
            ["z[..., None, :] - z[..., None, :, :]"],
        ),
        ("z = model(x)\nloss = (z[..., None] - z[..., None, :]).mean()", []),
        ("z = model(x)\nloss = (z[()] - y[:, None]).mean()", []),
        ("z = model(x)\nloss = (z[None, None] - z[:, None]).mean()", []),
        (
            "z = model(x)\nalike = nn.CosineSimilarity(dim=2)\nloss = alike(z[:, None], z[None]).mean()",
            ["alike(z[:, None], z[None])"],
        ),
        ("z = model(x)\nloss = torch.log(torch.cumsum(z.exp(), dim=0)).mean()", ["torch.cumsum(z.exp(), dim=0)"]),
        ("z = model(x)\nz = z[y[:, 0].argsort(0)]\nloss = z.logcumsumexp(0).mean()", ["z.logcumsumexp(0)"]),
        ("z = model(x)\nloss = torch.cumsum(z, dim=1).mean()", []),
        ("w = embed(torch.arange(x.size(1)))\nloss = (model(x).mean() * (w @ w.T)).mean()", []),
        (
            "n, k = x.shape\nw = embed(torch.arange(k)).view(k, -1)\nloss = model(x).mean() * (w @ w.T).mean()",
            [],
        ),
        ("w = kept(x.shape[1])\nw = w.detach()\nloss = (model(x).mean() * torch.matmul(w, w.t())).mean()", []),
        ("w = embed(x.long())[:, 0]\nloss = (model(x).mean() * (w @ w.T)).mean()", ["w @ w.T"]),
        ("w = embed(y.long().view(x.size(0), -1))[:, 0]\nloss = (w @ w.T).mean() + model(x).mean()", ["w @ w.T"]),
        ("z = model(x)\nloss = torch.cumsum(input=z, dim=0).mean()", ["torch.cumsum(input=z, dim=0)"]),
        ("z = model(x)\nloss = torch.cumsum(**{'input': z}, dim=0).mean()", []),
        ("z = model(x + x.flip(0))\nloss = z.mean()", []),
        ("z = model(x)\nloss = sum(torch.cumsum(row, dim=0).mean() for row in z)", []),
        ("z = model(x)\nloss = nn.functional.linear(z, weights).mean()", []),
        ("z = model(x)\nloss = torch.mm(z, z.t().view(4, 2)).mean()", []),
        ("z = model(x)\nloss = torch.cdist(z, z).mean()", ["torch.cdist(z, z)"]),
        ("z = model(x)\nloss = torch.cdist(z, y, 1).mean()", ["torch.cdist(z, y, 1)"]),
        ("z = model(x)\nloss = nn.functional.pdist(z, 2).mean()", ["nn.functional.pdist(z, 2)"]),
        ("z = model(x)\nloss = z.cov().mean()", ["z.cov()"]),
        ("z = model(x)\nloss = torch.cdist(z, nn.functional.normalize(weights)).mean()", []),
        ("z = model(x)\nloss = torch.cdist(model.weight, z).mean()", []),
        ("z = model(x)\nloss = (z[None] - z[:, None]).mean()", ["z[None] - z[:, None]"]),
        (
            "z = model(x)\nc = z.mean(1)\nloss = torch.cosine_similarity(z.unsqueeze(2), c[None].unsqueeze(0)).mean()",
            ["torch.cosine_similarity(z.unsqueeze(2), c[None].unsqueeze(0))"],
        ),
        ("z = model(x)\nloss = (z.unsqueeze(1) * z.unsqueeze(0)).mean()", ["z.unsqueeze(1) * z.unsqueeze(0)"]),
        ("z = model(x)\nloss = torch.einsum('nc,mc->nm', z, y).mean()", ["torch.einsum('nc,mc->nm', z, y)"]),
        ("z = model(x)\nloss = pairs(z)", ["v @ v.T"]),
        ("z = model(x)\nc = z.t() @ y\nloss = (c - 1).pow(2).mean()", ["z.t() @ y"]),
        ("z = model(x)\nloss = torch.matmul(z.T, z).pow(2).mean()", ["torch.matmul(z.T, z)"]),
        ("z = model(x)\nloss = torch.einsum('bi,bj->ij', z, y).mean()", ["torch.einsum('bi,bj->ij', z, y)"]),
        ("z = model(x)\na = z.unsqueeze(0).expand(2, 2, 1)\nb = z[:, None]\nloss = (a - b).mean()", ["a - b"]),
        ("z = model(x)\nloss = apart(z, y)", ["v - w"]),
        ("z = model(x)\nloss = (z @ weights.t()).mean()", []),
        ("z = model(x)\nloss = (weights.t() @ z).mean()", []),
        ("z = model(x)\nloss = (z @ model.weight.t()).mean()", []),
        ("z = model(x)[:, None]\nloss = torch.bmm(z, z.transpose(1, 2)).mean()", []),
        ("z = model(x)[:, None]\nloss = (z.transpose(2, 1) @ z).mean()", []),
        ("z = model(x)\nloss = (z - z[torch.randperm(len(z))]).pow(2).mean()", []),
        ("z = model(x)\nloss = (z @ z.transpose(-2, -1)).mean()", []),
        ("z = model(x)\nloss = torch.einsum('nc,nc->n', z, y).mean()", []),
        ("z = model(x)\nloss = (z.unsqueeze(1) - y.unsqueeze(1)).mean()", []),
        ("loss = (model(x) - y).pow(2).mean()\nwith torch.no_grad():\n    print(y @ y.t())", []),
    ],
)
def test_rows_that_are_compared(step: str, compared: list[str]) -> None:
    assert found(step, FUNCTIONS) == compared


@pytest.mark.parametrize(
    ("step", "taken"),
    [
        ("out = model(x)\nloss = (out[:labelled] - y[:labelled]).abs().mean()", ["out[:labelled]", "y[:labelled]"]),
        ("loss = model(x)[2:].abs().mean()", ["model(x)[2:]"]),
        ("out, rest = model(x).split([1, 1])\nloss = (out - rest).abs().mean()", ["model(x).split([1, 1])"]),
        ("a, b = torch.split(model(x), labelled)\nloss = a.mean() - b.mean()", ["torch.split(model(x), labelled)"]),
        ("part = x[:labelled, 0]\nloss = (model(x).mean() - part.mean()).abs()", ["x[:labelled, 0]"]),
        ("half = len(x) // 2\nloss = (model(x)[:half] - y[half:]).abs().mean()", []),
        ("loss = model(x)[:, :2].abs().mean()", []),
        ("loss = (model(x)[:-1] - y[1:]).abs().mean()", []),
        ("mean, spread = model(x).split(2, dim=1)\nloss = mean.sum() + spread.sum()", []),
        ("loss = sum(model(row[:4]).sum() for row in x)", []),
        ("loss, out = model(x)[:2]", []),
        ("right = model(x).argmax(1).eq(y)\nk = right[:2].sum()\nloss = model(x).mean()", []),
        ("right = model(x).argmax(1) == y\nk = right[:labelled].sum()\nloss = model(x).mean()", []),
        ("right = torch.eq(model(x).t(), y)\nk = right[:labelled].sum(0)\nloss = model(x).mean()", []),
        ("loss = (model(x) - y).abs().mean()\nprint(x[:4])", []),
        ("loss = (model(x) - y).abs().mean()\nwith torch.no_grad():\n    kept = x[:4]", []),
    ],
)
def test_rows_that_are_taken_by_their_places(step: str, taken: list[str]) -> None:
    facts = training(before="labelled = 1", step=f"{step}\n{REST}")
    assert texts(taken_by_place(facts.script.metrics)) == taken


EPISODES = """\
class Episodes:
    def __len__(self):
        return 4
    def __iter__(self):
        for k in range(4):
            yield [k, k + 4]
rows = torch.randn(8, 2, 4)
"""


@pytest.mark.parametrize(
    ("loader", "keeps", "note"),
    [
        ("batch_size=2", True, "but each process now has"),
        ("batch_size=2", False, "on N processes only"),
        ("batch_size=1", False, None),
        ("batch_sampler=Episodes()", False, None),
    ],
)
def test_losses_of_all_pairs_are_reported(loader: str, keeps: bool, note: str | None) -> None:
    step = f"z = model(x)\nloss = torch.cdist(z, z).mean()\n{REST}"
    result = run(script(before=EPISODES, step=step).replace("batch_size=2", loader), Options(keep_global_batch=keeps))
    notes = [n.message for n in result.notes if n.message.startswith("this relates the rows")]
    assert len(notes) == bool(note)
    assert all(str(note) in message for message in notes)


LOSS = """\
import torch
class Contrast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ce = torch.nn.CrossEntropyLoss()
        self.alike = self.pairs
    def pairs(self, a, b):
        return a @ b.t()
    def forward(self, a, b):
        return self.ce(self.alike(a, b), torch.arange(len(a)))
"""


@pytest.mark.parametrize(
    "check",
    [
        "",
        "        if len(a) != len(b):\n            raise ValueError(len(a))\n",
        "        if self.alike is None:\n            raise NotImplementedError(self)\n",
    ],
)
def test_a_loss_of_another_file_hands_its_rows_on(check: str, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    (tmp_path / "contrast.py").write_text(LOSS.replace("        return self.ce", f"{check}        return self.ce"))
    step = f"loss = contrast(model(x), model(y))\n{REST}"
    before = "rows = torch.randn(8, 2, 4)\ncontrast = Contrast()"
    train.write_text(script(imports="from contrast import Contrast", before=before, step=step))
    notes = [n.message for r in rewrite_together((str(train),), Options()) for n in r.notes]
    assert sum(message.startswith("this relates the rows") for message in notes) == 1


PARALLEL = "model = nn.DataParallel(model)"
PLACES = f"out = model(x)\nloss = (out[:1] - y[:1]).abs().mean()\n{REST}"


def kept(step: str, loader: str, model: str, options: Options) -> tuple[bool, list[str]]:
    text = script(before=EPISODES, model=model, step=step).replace("batch_size=2", loader)
    result = run(text, options)
    notes = [n.message for n in result.notes if n.message.startswith(("this takes rows", "this chooses"))]
    return "split_batches" in result.after.decode(), [message[:15] for message in notes]


@pytest.mark.parametrize(
    ("loader", "model", "keeps", "splits", "notes"),
    [
        ("batch_sampler=Episodes()", PARALLEL, False, False, []),
        ("batch_sampler=Episodes()", "", True, True, ["this chooses wh"]),
        ("**{'batch_sampler': Episodes()}", PARALLEL, False, False, []),
        ("**dict(batch_sampler=Episodes(), num_workers=0)", "", True, True, ["this chooses wh"]),
        ("batch_size=2", PARALLEL, False, True, ["this takes rows"]),
        ("**{'batch_size': 2}", PARALLEL, False, True, ["this takes rows"]),
        ("batch_size=2", "", True, True, ["this takes rows"]),
        ("batch_size=2", "", False, False, []),
    ],
)
def test_rows_with_fixed_places(loader: str, model: str, keeps: bool, splits: bool, notes: list[str]) -> None:
    assert kept(PLACES, loader, model, Options(keep_global_batch=keeps)) == (splits, notes)
