"""What leaves a rule out on a line, and how a report calls it."""

from __future__ import annotations

from accelify.codemod.files.exemptions import exemption
from accelify.codemod.files.parse import parse
from accelify.codemod.options import Selection
from accelify.codemod.patterns import Patterns


def said(text: str, rule: str, selection: Selection) -> str | None:
    found = exemption(parse("/project/train.py", text.encode()), rule, 1, selection)
    return found.text(1) if found is not None else None


def test_a_comment_counts_before_the_settings() -> None:
    ignored = Selection(ignore=frozenset({"writes"}))
    assert said("a = 1\n", "writes", Selection()) is None
    assert said("a = 1\n", "writes", ignored) == "`ignore` in the settings"
    assert said("a = 1  # accelify: ignore[writes]\n", "writes", ignored) == "`# accelify: ignore[writes]`"
    assert said("a = 1\n# accelify: skip-file\n", "writes", ignored) == "`# accelify: skip-file` (line 2)"


def test_each_setting_is_called_by_its_name() -> None:
    here = Patterns("/project", ("train.py",))
    assert said("", "writes", Selection(select=frozenset({"backward"}))) == "`select` in the settings"
    assert said("", "backward", Selection(select=frozenset({"backward"}))) is None
    per_file = Selection(per_file_ignores=((here, frozenset({"writes"})),))
    assert said("", "writes", per_file) == "`per-file-ignores` in the settings"
    assert said("", "backward", per_file) is None
    assert said("", "backward", Selection(excluded=(here,))) == "`exclude` in the settings"
    named = Selection(excluded=(here,), named=frozenset({"/project/train.py"}))
    assert said("", "backward", named) is None
