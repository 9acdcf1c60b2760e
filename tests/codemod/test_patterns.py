"""Patterns mean what they mean in a .gitignore."""

from __future__ import annotations

from pathlib import Path

from accelify.codemod.patterns import Patterns


def matched(*lines: str, root: str = "/project") -> list[str]:
    paths = ["a.py", "old/a.py", "src/old/b.py", "src/gen/c.py"]
    return [path for path in paths if Patterns(root, lines).match(f"{root}/{path}")]


def test_a_name_is_meant_anywhere_and_a_path_from_the_root() -> None:
    assert matched("old") == ["old/a.py", "src/old/b.py"]
    assert matched("/old", "src/gen/") == ["old/a.py", "src/gen/c.py"]
    assert matched("*.py") == ["a.py", "old/a.py", "src/old/b.py", "src/gen/c.py"]
    assert matched("a.py") == ["a.py", "old/a.py"]
    assert matched() == []


def test_a_pattern_with_an_exclamation_mark_means_all_but_that() -> None:
    assert matched("!src/*") == ["a.py", "old/a.py"]


def test_beyond_the_root_the_name_counts() -> None:
    assert Patterns("/project", ("a.py",)).match("/elsewhere/a.py")
    assert not Patterns("/project", ("elsewhere",)).match("/elsewhere/a.py")


def test_dots_in_a_path_are_no_folders() -> None:
    assert Patterns("/project", ("old",)).match("/project/src/../old/a.py")


def test_patterns_for_a_folder_that_was_named_do_not_count() -> None:
    kept = Patterns("/project", ("old", "gen")).without_those_for(Path("/project/src/old"))
    assert kept.lines == ("gen",)
