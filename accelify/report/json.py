"""Results as JSON, for other programs; `schema.json` beside this file says exactly what they get."""

from __future__ import annotations

import json
from collections.abc import Sequence

from accelify.codemod.result import ChangeRecord, FileResult, Note, Problem

VERSION = 1


def render(results: Sequence[FileResult]) -> str:
    """One document for the whole run, with a newline at its end."""
    return json.dumps({"version": VERSION, "files": [_file(result) for result in results]}, indent=2) + "\n"


def _file(result: FileResult) -> dict[str, object]:
    return {
        "path": result.path,
        "status": result.status.value,
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
                **_place(note),
                "rule": note.rule,
                "tier": note.tier.value,
                "message": note.message,
                "evidence": list(note.evidence),
            }
            for note in result.notes
        ],
        "error": result.error
        and {**_place(result.error), "column": result.error.column, "message": result.error.message},
    }


def _place(found: ChangeRecord | Note | Problem) -> dict[str, object]:
    return {"line": found.line} if found.cell is None else {"cell": found.cell, "line": found.line}
