"""Results as SARIF 2.1.0, for code scanning.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; GitHub's "SARIF support for code scanning".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from accelify import __version__
from accelify.codemod.result import FileResult
from accelify.report.findings import ERROR, Finding, findings

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ERROR_PAGE = "Report a file that failed.\n\nIt could not be read, parsed or written, and is unchanged."


def render(results: Sequence[FileResult], pages: Mapping[str, str], *, tentative: bool) -> str:
    """One SARIF log with one run, and a newline at its end; `pages` describe the rules by their names."""
    found = list(findings(results, tentative=tentative))
    rules = sorted({finding.rule for finding in found})
    driver = {
        "name": "accelify",
        "version": __version__,
        "rules": [_rule(name, _ERROR_PAGE if name == ERROR else pages.get(name, name)) for name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules.index(finding.rule)) for finding in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str, page: str) -> dict[str, object]:
    first = page.partition("\n")[0]
    return {
        "id": name,
        "shortDescription": {"text": first},
        "fullDescription": {"text": first},
        "help": {"text": page},
    }


def _result(finding: Finding, index: int) -> dict[str, object]:
    region = {"startLine": finding.line}
    if finding.column is not None:
        region["startColumn"] = finding.column
    location = {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: str) -> str:
    """A path as a URI: relative to the current folder where it is below it, as code scanning wants it."""
    absolute = Path.cwd() / path
    try:
        return quote(absolute.relative_to(Path.cwd()).as_posix())
    except ValueError:
        return absolute.as_uri()
