"""The order of the rules is for the reader alone: no rule sees what another finds."""

from __future__ import annotations

import inspect
import random
from pathlib import Path

import pytest

from accelify.codemod.planning import plan
from accelify.codemod.result import FileResult
from accelify.codemod.rules import LAUNCH_RULES, RULES, SETTING_RULES
from tests import scripts
from tests.scripts import FIXTURES


def facts(result: FileResult) -> tuple[object, ...]:
    notes = sorted((n.line, n.rule, n.message) for n in result.notes)
    return result.path, result.status, result.after, notes


@pytest.mark.parametrize("name", scripts.names("scripts"))
def test_the_order_of_the_rules_does_not_matter(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scripts.read(FIXTURES / "scripts" / name, "before")
    expected, _ = scripts.rewrite(tmp_path / "listed", before)
    shuffled = list(RULES)
    random.Random(name).shuffle(shuffled)
    monkeypatch.setattr(plan, "RULES", tuple(shuffled))
    found, _ = scripts.rewrite(tmp_path / "shuffled", before)
    assert list(map(facts, found)) == list(map(facts, expected))


@pytest.mark.parametrize(("name", "find"), [*LAUNCH_RULES, *SETTING_RULES, *RULES])
def test_a_rule_sees_the_script_alone(name: str, find: object) -> None:
    assert callable(find)
    assert list(inspect.signature(find).parameters) == ["script"], name
