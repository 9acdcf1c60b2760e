"""Every spelling of a running value, by every way in which it may leave the training, is reduced or noted."""

from __future__ import annotations

import re

import pytest

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_source
from tests.codemod.running_values import ALIKE, NOTED, REDUCED, SINKS, names, script

VALUES = {**REDUCED, **NOTED, **ALIKE}
_MADE_EVERYONES = re.compile(r"^.*accelerator\.(?:reduce|gather_for_metrics)\((?:[^()]|\([^()]*\))*\)", re.MULTILINE)


def outcomes(sink: str) -> dict[str, str]:
    """What becomes of each value: `reduced`, `noted` or nothing."""
    result = rewrite_source("train.py", script(VALUES, SINKS[sink]).encode(), Options())
    assert result.status is Status.MIGRATED, result.notes
    return {key: _outcome(result, name, sink) for key, name in names(VALUES).items()}


def _outcome(result: FileResult, name: str, sink: str) -> str:
    mentions = re.compile(rf"\b{name}")
    if any(mentions.search(call) for call in _MADE_EVERYONES.findall(result.after.decode())):
        return "reduced"
    named = {text for note in result.notes if note.rule == "notes" for text in re.findall("`([^`]*)`", note.message)}
    is_of_all = sink == "next loss" and "factor" in named  # all are multiplied into one
    return "noted" if is_of_all or any(map(mentions.search, named)) else "nothing"


@pytest.mark.parametrize("sink", [s for s in SINKS if s != "next loss"])
def test_what_leaves_the_training_is_reduced_or_noted(sink: str) -> None:
    assert outcomes(sink) == {
        **dict.fromkeys(REDUCED, "reduced"),
        **dict.fromkeys(NOTED, "noted"),
        **dict.fromkeys(ALIKE, "nothing"),
    }


def test_what_the_next_loss_is_computed_from_is_reduced_or_noted() -> None:
    assert not [key for key, found in outcomes("next loss").items() if found == "nothing"]
