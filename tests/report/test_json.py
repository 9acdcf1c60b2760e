"""The document says what the results say, and the schema in the package describes it."""

from __future__ import annotations

import json as standard_json
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from accelify.codemod.result import ChangeRecord, FileResult, Note, Problem, Status, Tier
from accelify.report import json
from accelify.report.statistics import as_json, statistics
from accelify.report.text import Style, render, render_error

LOSS = "loss: torch.nn.functional.mse_loss at train.py:2"
CHANGE = ChangeRecord(3, "backward", Tier.SAFE, "the accelerator scales and divides the loss", (LOSS,))
NOTE = Note(9, "files", Tier.ADVICE, "every process writes log.txt")
RESULTS = [
    FileResult("train.py", Status.MIGRATED, b"a", b"b", changes=(CHANGE,), notes=(NOTE,)),
    FileResult("other.py", Status.DECLINED, b"a", b"a", notes=(NOTE,)),
    FileResult("plain.py", Status.UNCHANGED),
    FileResult("broken.py", Status.ERROR, error=Problem(3, 0, "Python 2")),
    FileResult("gone.py", Status.ERROR, error=Problem(None, None, "no such file")),
    FileResult("odd-\udcff.py", Status.UNCHANGED),
]


def schema() -> Any:
    return standard_json.loads(files("accelify.report").joinpath("schema.json").read_text(encoding="utf-8"))


def document(*results: FileResult) -> Any:
    return standard_json.loads(json.render(results, written=True))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_every_kind_of_result_is_valid_and_plain_ascii() -> None:
    jsonschema.validate(document(*RESULTS), schema())
    assert json.render(RESULTS, written=True).isascii()
    summary = {"migrated": 0, "declined": 0, "unchanged": 0, "error": 0, "notes": 0}
    assert document() == {"version": 1, "written": True, "summary": summary, "files": []}


def test_a_note_about_several_lines_is_there_for_each_and_counts_once() -> None:
    note = replace(NOTE, message="stays; also line 12", also=((12, "stays"),))
    found = document(replace(RESULTS[0], notes=(note,)))
    said = [(n["line"], n["message"]) for n in found["files"][0]["notes"]]
    assert said == [(9, "stays; also line 12"), (12, "stays")]
    assert found["summary"]["notes"] == 1
    jsonschema.validate(found, schema())


def test_what_stays_is_among_the_notes_and_not_counted() -> None:
    kept = Note(
        4, "device_moves", Tier.INFO, "stays: it goes to the CPU; also line 12", also=((12, "stays: it goes ..."),)
    )
    found = document(replace(RESULTS[0], kept=(kept,)))
    assert [(n["line"], n["tier"]) for n in found["files"][0]["notes"]] == [(4, "info"), (12, "info"), (9, "advice")]
    assert found["summary"]["notes"] == 1
    jsonschema.validate(found, schema())


def test_it_has_counts_and_diffs_where_asked_for() -> None:
    assert document(*RESULTS)["summary"] == {"migrated": 1, "declined": 1, "unchanged": 2, "error": 2, "notes": 1}
    text = json.render(RESULTS, written=False, diffs={"train.py": "-a\n+b\n"}, statistics=as_json(statistics(RESULTS)))
    found = standard_json.loads(text)
    jsonschema.validate(found, schema())
    assert [file["diff"] for file in found["files"]][:2] == ["-a\n+b\n", ""]
    assert found["statistics"]["changes"] == {"backward": 1}
    assert not found["written"]


def test_the_document_says_what_the_results_say() -> None:
    assert document(*RESULTS[:1], RESULTS[3])["files"] == [
        {
            "path": "train.py",
            "status": "migrated",
            "because": None,
            "changes": [
                {
                    "line": 3,
                    "rule": "backward",
                    "tier": "safe",
                    "reason": "the accelerator scales and divides the loss",
                    "evidence": [LOSS],
                }
            ],
            "notes": [
                {
                    "line": 9,
                    "rule": "files",
                    "tier": "advice",
                    "message": "every process writes log.txt",
                    "evidence": [],
                }
            ],
            "error": None,
        },
        {
            "path": "broken.py",
            "status": "error",
            "because": None,
            "changes": [],
            "notes": [],
            "error": {"line": 3, "column": 0, "message": "Python 2"},
        },
    ]


def test_it_has_all_that_the_text_has() -> None:
    """Every field is another word or number here: what of these the text shows, the document has."""
    change = ChangeRecord(101, "rule1", Tier.REVIEW, "words1", (LOSS,), cell=102)
    note = Note(103, "rule2", Tier.REVIEW, "words2", cell=104)
    results = [
        FileResult("path1", Status.MIGRATED, b"a", b"b", changes=(change,), notes=(note,)),
        FileResult("path2", Status.DECLINED, b"a", b"a", notes=(replace(note, message="words3", line=105),)),
        FileResult("path3", Status.UNCHANGED, because="words4"),
        FileResult("path4", Status.ERROR, error=Problem(106, 107, "words5", 109)),
    ]
    shown = "".join(render_error(r, Style()) if r.error else render(r, Style()) for r in results)
    marks = set(re.findall(r"[a-z]+\d|\d\d\d", shown)) - {"108"}  # columns count from 1 there, from 0 here
    assert len(marks) == 4 + 2 + 5 + 7
    assert marks <= set(re.findall(r"\w+", json.render(results, written=True)))
    assert shown.count("review:") == json.render(results, written=True).count('"review"')


@pytest.mark.parametrize(
    "wrong",
    [
        FileResult("a.py", Status.DECLINED),
        FileResult("a.py", Status.MIGRATED),
        FileResult("a.py", Status.ERROR),
        FileResult("a.py", Status.UNCHANGED, changes=(CHANGE,)),
        FileResult("a.py", Status.UNCHANGED, error=Problem(1, 0, "x")),
        FileResult("a.py", Status.DECLINED, notes=(Note(0, "files", Tier.ADVICE, "line 0"),)),
        FileResult("a.py", Status.DECLINED, notes=(Note(1, "", Tier.ADVICE, "no rule"),)),
    ],
)
def test_the_schema_refuses_what_must_not_be(wrong: FileResult) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document(wrong), schema())
