"""`accelify explain` prints the pages of the rules."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from accelify.codemod import checks, rules
from accelify.commands.explain import command


def pages() -> dict[str, str]:
    return {**rules.pages(), **checks.pages()}


def test_every_rule_has_a_page_that_says_why_and_what_is_left_alone():
    for name in pages():
        page = CliRunner().invoke(command, [name])
        assert page.exit_code == 0
        assert page.output.startswith(f"{name}: ")
        assert "\nWhy:" in page.output, name
        assert "\nLeft alone:" in page.output, name


def test_the_list_names_every_rule():
    listed = CliRunner().invoke(command, []).output
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert names == list(pages())
    assert list(filter(None, re.findall(r"^Rules of `accelify (\w+)`:$", listed, re.MULTILINE))) == ["rewrite", "check"]


def test_every_name_that_a_report_may_print_has_a_page():
    """Names are constants called `NAME`, or texts where a note, a change or an obstacle is made."""
    printed = set()
    for path in (Path(__file__).parents[1] / "accelify").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        printed.update(re.findall(r'^NAME = "([a-z_]+)"', text, re.MULTILINE))
        printed.update(re.findall(r'(?:Obstacle|Note|ChangeRecord|Remark)\(\s*(?:1,\s*)?"([a-z_]+)"', text))
        if path.name == "obstacles.py":
            printed.update(re.findall(r'yield .*, "([a-z]+)", ', text))
    assert {"callers", "gate", "prepare", "notes", "distributed"} <= printed
    assert printed - set(pages()) == set()


def test_an_unknown_rule_gets_the_nearest_known_one():
    answer = CliRunner().invoke(command, ["backwards"])
    assert answer.exit_code == 2
    assert "did you mean 'backward'?" in answer.output
