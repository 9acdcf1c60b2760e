"""Results as annotations of a GitHub workflow: one command a line, which GitHub shows beside the code.

Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelify.codemod.result import FileResult, Status
from accelify.errors import place
from accelify.report.findings import Finding, findings

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(results: Sequence[FileResult], *, tentative: bool) -> str:
    """The annotations: one for the changes of each file, one for each other finding."""
    return "".join(f"{_annotation(finding)}\n" for finding in _found(results, tentative=tentative))


def _found(results: Sequence[FileResult], *, tentative: bool) -> Iterator[Finding]:
    """GitHub shows ten annotations of a kind in a step, so that the changes of a file are one."""
    for result in results:
        if tentative and result.status is Status.MIGRATED:
            line = next((change.line for change in result.changes if change.cell is None), 1)
            count = len(result.changes)
            message = f"would be migrated ({count} change{'s' * (count != 1)}): run `accelify rewrite` on it"
            yield Finding(result.path, line, None, "rewrite", "warning", message)
    yield from findings(results, tentative=tentative, changes=False)


def _annotation(finding: Finding) -> str:
    where = f"file={_property(finding.path)},line={finding.line}"
    column = f",col={finding.column}" if finding.column is not None else ""
    title = _property(f"accelify ({finding.rule})")
    said = f"{place(finding.path, finding.line)}: {finding.message}"
    return f"::{_COMMANDS[finding.level]} title={title},{where}{column}::{_data(said)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
