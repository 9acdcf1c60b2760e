"""Loops over prepared loaders, and what is asked of them."""

from __future__ import annotations

import ast

from accelify.codemod.metrics.sums.reductions import Sums
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training

EVALUATION = """\
model.eval()
with torch.no_grad():
    for x, y in loader:
{body}
"""


def in_loop(body: str, end: str = "", before: str = "") -> tuple[Facts, ast.For]:
    """A loop over the loader after the training, with what comes before and after it."""
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    facts = training(end=f"{before}\nfor x, y in loader:  # second\n{lines}\n{end}")
    loops = [n for n in facts.files[0].nodes if isinstance(n, ast.For) and ast.unparse(n.iter) == "loader"]
    return facts, max(loops, key=lambda n: n.lineno)


def evaluation(body: str, before: str = "", end: str = "") -> Facts:
    """A script that evaluates after its training."""
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    return training(end=before + EVALUATION.format(body=lines) + end)


def sums_of(facts: Facts) -> Sums:
    """The sums that the loops of a script make."""
    metrics = facts.script.metrics
    return metrics.measured.sums(metrics.shared_loops)
