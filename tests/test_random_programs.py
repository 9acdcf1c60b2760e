"""Random valid Python around, inside and instead of a training loop: nothing crashes, and no check of a result fails.

`make soak` tries many more programs; ACCELIFY_TEST_EXAMPLES says how many.
"""

from __future__ import annotations

import os
import warnings
from textwrap import indent

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from accelify.codemod.result import FileResult, Status
from tests.codemod.pairs import run

hypothesmith = pytest.importorskip("hypothesmith", reason="random programs need hypothesmith")

EXAMPLES = int(os.environ.get("ACCELIFY_TEST_EXAMPLES", "20"))
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
SET_UP = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
EPOCHS = "for epoch in range(2):\n"
BATCHES = "for (x,) in loader:\n"
STEP = """\
optimizer.zero_grad()
loss = model(x.to(device)).square().mean()
loss.backward()
optimizer.step()
"""


def deeper(text: str, by: int = 1) -> str:
    return indent(text, "    " * by)


def epochs(batch: str = STEP, before: str = "", after: str = "") -> str:
    return EPOCHS + deeper(before + BATCHES + deeper(batch) + after)


# Where the random program stands.
PLACES = {
    "alone": lambda text: "import torch\n" + text,
    "above": lambda text: text + HEAD + SET_UP + epochs(),
    "between": lambda text: HEAD + SET_UP + text + epochs(),
    "below": lambda text: HEAD + SET_UP + epochs() + text,
    "in a batch": lambda text: HEAD + SET_UP + epochs(batch=STEP + text),
    "before a step": lambda text: HEAD + SET_UP + epochs(batch=text + STEP),
    "in an epoch": lambda text: HEAD + SET_UP + epochs(before=text),
    "after an epoch": lambda text: HEAD + SET_UP + epochs(after=text),
    "in a function": lambda text: HEAD + "def main():\n" + deeper(SET_UP + text + epochs() + text) + "main()\n",
    "in another function": lambda text: HEAD + "def other(model, x):\n" + deeper(text) + SET_UP + epochs(),
    "in a class": lambda text: HEAD + "class Other(nn.Module):\n" + deeper(text) + SET_UP + epochs(),
    "as a condition's branch": lambda text: HEAD + SET_UP + epochs(batch="if epoch:\n" + deeper(text) + STEP),
}
# Deferred: a grammar takes seconds, and every worker collects this file.
PROGRAMS = st.deferred(lambda: st.one_of(hypothesmith.from_node(), hypothesmith.from_grammar()))


def is_valid(text: str) -> bool:
    """Whether Python compiles it, whatever it warns of."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.encode(), "train.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def check(result: FileResult) -> None:
    assert result.status is not Status.ERROR, result.error
    assert not [note for note in result.notes if note.rule == "gate"], result.notes
    assert is_valid(result.after.decode())


@given(PROGRAMS, st.sampled_from(list(PLACES)))
@settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES < 100, suppress_health_check=list(HealthCheck))
def test_a_random_program_breaks_nothing(program: str, place: str) -> None:
    text = PLACES[place](program if program.endswith("\n") else program + "\n")
    assume(is_valid(text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a random program says
        check(run(text))
