"""Results as JSON, for other programs; `schema.json` beside this file says exactly what they get."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelify.codemod.result import ChangeRecord, FileResult, Note, Problem, Status, notes_in_order

VERSION = 1


def render(
    results: Sequence[FileResult],
    *,
    written: bool,
    diffs: Mapping[str, str] | None = None,
    statistics: Mapping[str, object] | None = None,
) -> str:
    """One document for the whole run, with a newline at its end; with diffs by path and with counts where asked for."""
    document: dict[str, object] = {
        "version": VERSION,
        "written": written,
        "summary": _summary(results),
        "files": [
            {**_file(result), **({"diff": diffs.get(result.path, "")} if diffs is not None else {})}
            for result in results
        ],
    }
    if statistics is not None:
        document["statistics"] = statistics
    return json.dumps(document, indent=2) + "\n"


def _summary(results: Sequence[FileResult]) -> dict[str, int]:
    counts = {status.value: sum(result.status is status for result in results) for status in Status}
    notes = sum(len(result.notes) for result in results if result.status is not Status.DECLINED)
    return {**counts, "notes": notes}


def _file(result: FileResult) -> dict[str, object]:
    return {
        "path": result.path,
        "status": result.status.value,
        "because": result.because or None,
        "changes": [
            {
                **_place(change),
                "rule": change.rule,
                "tier": change.tier.value,
                "reason": change.reason,
                "evidence": list(change.evidence),
            }
            for change in result.changes
        ],
        "notes": [
            {
                **_place(each),
                "rule": each.rule,
                "tier": each.tier.value,
                "message": each.message,
                "evidence": list(each.evidence),
            }
            for note in notes_in_order([*result.notes, *result.kept])
            for each in (note, *(replace(note, line=line, message=message) for line, message in note.also))
        ],
        "error": result.error
        and {**_place(result.error), "column": result.error.column, "message": result.error.message},
    }


def _place(found: ChangeRecord | Note | Problem) -> dict[str, object]:
    return {"line": found.line} if found.cell is None else {"cell": found.cell, "line": found.line}
