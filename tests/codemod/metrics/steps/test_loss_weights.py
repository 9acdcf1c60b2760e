"""Facts about weights of losses that come from numbers of batches."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.steps.loss_weights import LossWeights
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script

WEIGHED = """\
import argparse, numpy
from itertools import cycle
other, args = DataLoader(rows[:3], batch_size=2), argparse.Namespace()
n, step, kl, total, args.weight = len(loader), 0, 0, 0, 1 / len(loader)
betas = numpy.linspace(0, 1, 2 * len(loader))
class Weighted(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.by = weight
    def forward(self, out, y):
        return self.by * (out - y).mean()
def add(error, term, by):
    return error + by * term
{set_up}
for epoch in range(2):
    for i, ((x, y), _) in enumerate(zip(loader, cycle(other))):
        step += 1
        out = model(x)
        kl = out.pow(2).sum()
        loss = {loss}
        {rest}
"""


LEARN = "optimizer.zero_grad(); loss.backward(); optimizer.step()"


ONCE = "loss.backward()\n    optimizer.step(); optimizer.zero_grad()"


AT_ONCE = "\n    ".join(LEARN.split("; "))


PROGRESS = "p = float(i + epoch * n) / 2 / n; loss = loss + (2 / (1 + p)) * kl"


@pytest.mark.parametrize(
    ("set_up", "loss", "rest", "found"),
    [
        ("w = len(other) / len(loader)", "out.mean() + w * kl", LEARN, ["len(other)", "len(loader)"]),
        ("w = 1 / len(loader)", "(out - y).mean() + w * kl", LEARN, ["len(loader)"]),
        ("", "out.mean() + kl / float(len(loader))", LEARN, ["len(loader)"]),
        ("", "out.mean() + kl / (len(loader) * loader.batch_size)", LEARN, ["len(loader)"]),
        ("", "out.mean() + kl / n", LEARN, ["len(loader)"]),
        ("", "out.mean()", f"loss += kl / len(other); {LEARN}", ["len(other)"]),
        ("", "(args.weight * kl).mean()", LEARN, ["len(loader)"]),
        ("", "add(out.mean(), kl, 1 / len(other))", LEARN, ["len(other)"]),
        ("criterion = Weighted(1 / len(other))", "criterion(out, y)", LEARN, ["len(other)"]),
        ("", "out.mean() + kl / len(rows)", LEARN, []),
        ("", "out.mean() + kl / len(loader.dataset)", LEARN, []),
        ("", "out.mean() + kl / len(x)", LEARN, []),
        ("", "out.mean()", f"total += loss.item() / len(loader); {LEARN}; print(total / n)", []),
        ("", "out.mean() * (epoch * len(loader) / (2 * len(loader)))", LEARN, []),
        ("", "out.mean() + min(1, step / n) * kl", LEARN, []),
        ("", "out.mean()", f"{PROGRESS}; {LEARN}", []),
        ("", "betas[step] * kl + torch.zeros(len(other)).sum()", LEARN, []),
        ("", "kl if len(loader) > 3 else out.mean()", LEARN, []),
        ("", "out.mean() / len(loader)", "loss.backward()\n    optimizer.step(); optimizer.zero_grad()", []),
        ("w = len(other) / len(loader)", "out.mean() + w * kl", ONCE, ["len(other)", "len(loader)"]),
        ("", "out.mean() + kl / n", ONCE, ["len(loader)"]),
        ("", "(out.mean() + kl / len(other)) / n", ONCE, ["len(other)"]),
        ("", "add(out.mean(), kl, 1 / len(other))", f"loss = loss / n; {ONCE}", ["len(other)"]),
        ("", "len(other) * out.mean()", ONCE, ["len(other)"]),
        ("", "out.mean() / n + kl / n", ONCE, []),
        ("", "out.mean()", f"loss /= len(loader); {ONCE}", []),
        ("", "out.mean() / n", "loss.backward()\n        if i + 1 == len(loader): optimizer.step()", []),
        ("", "out.mean()", f"total = total + loss\n    loss = total / len(loader)\n    {AT_ONCE}", []),
    ],
)
def test_numbers_of_batches_that_weigh_a_loss(set_up: str, loss: str, rest: str, found: list[str]) -> None:
    text = script(before="rows = f()").partition("for epoch")[0]
    facts = Facts(text + WEIGHED.format(set_up=set_up, loss=loss, rest=rest))
    read = facts.script
    weights = LossWeights(read.step_counts)
    assert sorted(texts(weights.find(read.batch_sizes.loaders))) == sorted(found)
