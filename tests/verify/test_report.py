"""A verdict as text, JSON and a page."""

from __future__ import annotations

import json as standard_json
import re
import xml.etree.ElementTree
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accelify.verify import judging
from accelify.verify.report import html, json, text
from accelify.verify.verdict import Row, Status, Verdict

ROWS = (
    Row("losses", 1, Status.HOLDS, "20 backward passes, the same bit for bit"),
    Row("losses", 2, Status.NATURE, "noise <drawn>", "vae.py:3", 1),
    Row("gradients", 2, Status.DIFFERS, "the gradient of fc.weight is half the original's at step 1", "train.py:9", 1),
    Row("files", 2, Status.NOTHING, "none was written"),
)
CURVES = {
    "original": (2.0, 1.0, float("nan"), 0.5),
    "rewritten, 1 process": (2.0, 1.0, float("inf"), 0.5),
    "rewritten, 2 processes": (1.0, 0.5, 0.25, 0.2),
}
DIFFERS = Verdict("train.py", 2, ROWS, steps=4, curves=CURVES, diff="--- a\n+++ b\n-loss < 1\n+ok\n", seconds=3.21)
SHORT = Verdict("train.py", 2, ROWS[:1], steps=20, not_reached=("evaluation", "checkpoints"))
PROVEN = Verdict("train.py", 2, ROWS[:2], steps=4, is_whole=True, made_comparable=("dropout off (a.py:3)",))
FAILED = Verdict("train.py", 2, error="the original itself fails:\nValueError: <x>")
ALL = [DIFFERS, PROVEN, FAILED, SHORT]


def test_the_status_follows_from_the_rows() -> None:
    assert [verdict.status for verdict in ALL] == [1, 0, 2, 0]
    assert [verdict.word for verdict in ALL] == ["differs", "proven", "could not run", "proven"]


def schema() -> Any:
    return standard_json.loads(files("accelify.verify.report").joinpath("schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("verdict", ALL)
def test_the_document_is_what_the_schema_says(verdict: Verdict) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    document = standard_json.loads(json.render(verdict), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    jsonschema.validate(document, schema())
    assert document["verdict"] == verdict.word


def test_the_schema_knows_the_name_of_every_row() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(judging.__file__).parent.glob("*.py")]
    named = {name for text in sources for name in re.findall(r'(?:make_row|_printed)\(\s*"([a-z ]+)"', text)}
    known = schema()["properties"]["rows"]["items"]["properties"]["name"]["enum"]
    assert named == set(known)
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`([a-z ]+)`", " ".join(re.findall(r"^\| (`.+?) \|", page, re.MULTILINE))))
    assert named == explained


@pytest.mark.parametrize("verdict", ALL)
def test_the_document_and_the_page_say_all_that_the_text_says_in_its_words(verdict: Verdict) -> None:
    document = json.render(verdict)
    page = unescape(html.render(verdict))
    for row in verdict.rows if verdict.error is None else ():
        for word in (row.name, row.words, row.status.value):
            assert word.lower() in text.render(verdict).lower()
            assert standard_json.dumps(word) in document
            assert word in page
    for word in (verdict.conclusion, *verdict.made_comparable):
        assert standard_json.dumps(word)[1:-1] in document


def test_losses_that_are_no_numbers_are_words() -> None:
    document = standard_json.loads(json.render(DIFFERS))
    assert document["losses"]["original"] == [2.0, 1.0, "nan", 0.5]


def test_text_says_what_differs_and_where() -> None:
    said = text.render(DIFFERS)
    assert (
        "  DIFFERS    gradients      the gradient of fc.weight is half the original's at step 1 [train.py:9]\n" in said
    )
    assert said.endswith("train.py: differs (gradients) in 3 s\n")
    assert "train.py: proven, but for what differs by nature (losses) in 0 s" in text.render(PROVEN)
    assert "could not run: the original itself fails:" in text.render(FAILED)
    assert "to compare runs on 2 processes with the original: dropout off (a.py:3)" in text.render(PROVEN)


class Page(HTMLParser):
    """Checks that tags are closed, and collects what a page would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in ("meta", "line", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("verdict", ALL)
def test_the_page_is_whole_and_loads_nothing(verdict: Verdict) -> None:
    page = html.render(verdict)
    parsed = Page(page)
    assert (parsed.open, parsed.loads) == ([], [])
    assert "url(" not in page
    assert "<x>" not in page


def test_the_page_draws_every_run_and_breaks_where_a_loss_is_no_number() -> None:
    page = html.render(DIFFERS)
    svg = xml.etree.ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    curves = [element.attrib for element in svg.iter("path")]
    assert [curve["d"].count("M") for curve in curves] == [1] * 5
    assert len({curve["style"] for curve in curves}) == 3
    assert all(name in page for name in CURVES)
    assert '<span class="del">-loss &lt; 1' in page
    numbers = [float(word.lstrip("ML")) for curve in curves for word in curve["d"].split()]
    assert all(0 <= number <= html.WIDTH for number in numbers)


def test_every_report_says_how_far_the_proof_goes() -> None:
    words = "proven for 20 steps; not reached: evaluation, checkpoints"
    assert SHORT.conclusion == words
    assert f"train.py: {words} in 0 s\n" in text.render(SHORT)
    assert words in html.render(SHORT)
    assert standard_json.loads(json.render(SHORT))["conclusion"] == words
    resumable = replace(SHORT, not_reached=("a resume",), is_whole=True)
    assert resumable.conclusion == "proven; not reached: a resume"
    for report in (text.render(resumable), html.render(resumable)):
        assert "a resume is reached by giving the script a checkpoint" in report.replace("A resume", "a resume")
        assert "--full" not in report
