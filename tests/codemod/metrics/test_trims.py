"""Facts about rows that only even out the last step, and where they can be left out."""

from __future__ import annotations

from accelify.codemod.metrics.trims import trim_of
from tests.codemod.training_scripts import STEP, training


def trimmed(added: str) -> tuple[str, ...] | None:
    facts = training(
        epoch="correct, n = 0, 0", step=f"out = model(x)\n{STEP}{added}\n", end_of_epoch="print(correct / n)"
    )
    loop = facts.script.metrics.shared_loops[0]
    found = trim_of(facts.program, loop, ["correct", "n"])
    return None if found is None else found.names


def test_names_that_keep_only_the_rows_that_count() -> None:
    names = trimmed("correct += (out.argmax(1) == y).sum().item()\nn += y.size(0)")
    assert names is not None
    assert set(names) == {"out", "y"}


def test_what_is_read_after_that_is_not_trimmed() -> None:
    assert trimmed("correct += (out.argmax(1) == y).sum().item()\nuse(out)") is None


def test_numbers_of_batches_are_not_trimmed() -> None:
    assert trimmed("correct += 1\nn += 1") is None
