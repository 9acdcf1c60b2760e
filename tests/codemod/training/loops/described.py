"""What was found, in words."""

from __future__ import annotations

from tests.codemod.facts import Facts


def kinds(facts: Facts) -> list[str]:
    """The kinds of data that the training learns from."""
    return [data.kind for data in facts.training.data]
