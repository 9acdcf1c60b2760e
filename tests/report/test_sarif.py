"""The log is SARIF 2.1.0 and has what code scanning asks for.

The schema here is the part of the standard's that our logs use, written from its text: required properties, kinds and
ranges, and no property that the standard does not know. Real logs were checked once against the whole schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accelify.codemod.result import FileResult
from accelify.codemod.rules import pages
from accelify.report import sarif
from tests.report.test_json import RESULTS


def thing(required: str, **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


TEXT = thing("text", text={"type": "string", "minLength": 1})
NATURAL = {"type": "integer", "minimum": 1}
RULE = thing(  # all four are asked for by code scanning
    "id shortDescription fullDescription help",
    id={"type": "string"},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
)
REGION = thing("startLine", startLine=NATURAL, startColumn=NATURAL)
FILE = thing("uri", uri={"type": "string", "format": "uri-reference", "pattern": r"^[!-~]+$"})
PHYSICAL = thing("artifactLocation region", artifactLocation=FILE, region=REGION)
PLACE = thing("physicalLocation", physicalLocation=PHYSICAL)
RESULT = thing(
    "ruleId ruleIndex level message locations",
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": 0},
    level={"enum": ["none", "note", "warning", "error"]},
    message=TEXT,
    locations={"type": "array", "items": PLACE, "minItems": 1},
)
DRIVER = thing(
    "name version rules",
    name={"type": "string"},
    version={"type": "string"},
    rules={"type": "array", "items": RULE, "uniqueItems": True},
)
RUN = thing(
    "tool results",
    tool=thing("driver", driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results={"type": "array", "items": RESULT},
)
LOG = thing(
    "version runs",
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={"type": "array", "items": RUN},
)


def log(*results: FileResult, tentative: bool = True) -> Any:
    return json.loads(sarif.render(results, pages(), tentative=tentative))


@pytest.mark.parametrize("tentative", [True, False])
def test_a_log_fits_the_standard(tentative: bool) -> None:
    jsonschema.Draft202012Validator(LOG).validate(log(*RESULTS, tentative=tentative))
    jsonschema.Draft202012Validator(LOG).validate(log())
    assert sarif.render(RESULTS, pages(), tentative=tentative).isascii()


def test_each_result_names_its_rule_which_has_a_page() -> None:
    (run,) = log(*RESULTS)["runs"]
    rules = run["tool"]["driver"]["rules"]
    for found in run["results"]:
        assert rules[found["ruleIndex"]]["id"] == found["ruleId"]
    page = next(rule for rule in rules if rule["id"] == "backward")
    assert page["shortDescription"]["text"] == pages()["backward"].splitlines()[0]
    assert page["help"]["text"] == pages()["backward"]


def test_paths_are_relative_to_the_folder_and_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sarif._uri("sub/with space.py") == "sub/with%20space.py"
    assert sarif._uri(str(tmp_path / "sub" / "a.py")) == "sub/a.py"
    assert sarif._uri("/elsewhere/a.py") == "file:///elsewhere/a.py"
