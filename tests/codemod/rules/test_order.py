"""The order of the rules is for the reader alone: no rule sees what another finds."""

from __future__ import annotations

import inspect
import json
import random
from pathlib import Path

import pytest

from accelify.codemod.planning import plan
from accelify.codemod.rules import LAUNCH_RULES, RULES, SETTING_RULES
from tests import scripts
from tests.scripts import FIXTURES, KNOWN_WRONG


def in_any_order(report: str) -> list[object]:
    """What a report says of each file, its changes and notes sorted."""
    files = json.loads(report)["files"]
    kinds = ("changes", "notes")
    return [{**file, **{kind: sorted(file[kind], key=json.dumps) for kind in kinds}} for file in files]


@pytest.mark.parametrize("name", [name for name in scripts.names("scripts") if name not in KNOWN_WRONG])
def test_the_order_of_the_rules_does_not_matter(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_fixtures` shows that the listed order gives the same."""
    folder = FIXTURES / "scripts" / name
    before, changed = (scripts.read(folder, which) for which in ("before", "after"))
    shuffled = list(RULES)
    random.Random(name).shuffle(shuffled)
    monkeypatch.setattr(plan, "RULES", tuple(shuffled))
    results, after = scripts.rewrite(tmp_path, before)
    assert after == before | changed
    assert in_any_order(scripts.report(results)) == in_any_order((folder / "report.json").read_text())


@pytest.mark.parametrize(("name", "find"), [*LAUNCH_RULES, *SETTING_RULES, *RULES])
def test_a_rule_sees_the_script_alone(name: str, find: object) -> None:
    assert callable(find)
    assert list(inspect.signature(find).parameters) == ["script"], name
