"""What a plan did to a file, and what is to be looked at there, as results tell it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Sequence

from accelify.codemod.edits.values import Plan
from accelify.codemod.result import ChangeRecord, Note, Tier


def changes_of(made: Plan, path: str, lost: Sequence[str]) -> list[ChangeRecord]:
    """The changes of a file; `lost` are the comments that went with them."""
    records = [ChangeRecord(c.line, c.rule, c.tier, c.reason, made.evidence(c.path, c.line)) for c in made.of(path)]
    if lost:
        message = "comments that went with removed lines: " + "  ".join(lost)
        records.append(ChangeRecord(1, "comments", Tier.SAFE, message))
    return records


def notes_of(made: Plan, path: str, after: Callable[[int], int]) -> list[Note]:
    """The notes of a file; `after` gives the line that one of the user's file has become."""
    return [
        Note(after(line_of(r.node) or 1), r.rule, r.tier, r.message, made.evidence(r.path, line_of(r.node)))
        for r in made.remarks
        if r.path == path
    ]


def notes_elsewhere(made: Plan, changed: Collection[str]) -> tuple[Note, ...]:
    """The notes of files that do not change, which name their places themselves."""
    found = []
    for remark in sorted(made.remarks, key=lambda r: (r.path, line_of(r.node), r.rule, r.message)):
        if remark.path not in changed:
            line = line_of(remark.node)
            message = f"{remark.path}:{line or 1}: {remark.message}"
            found.append(Note(1, remark.rule, remark.tier, message, made.evidence(remark.path, line)))
    return tuple(dict.fromkeys(found))


def changes_in_order(records: Iterable[ChangeRecord]) -> tuple[ChangeRecord, ...]:
    """Changes by line, each told once."""
    return tuple(dict.fromkeys(sorted(records, key=lambda r: (r.line, r.rule))))


def notes_in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes by line, each told once."""
    return tuple(dict.fromkeys(sorted(notes, key=lambda n: (n.line, n.rule, n.message))))


def fault(trouble: str) -> str:
    """The reason for leaving a file alone whose result did not pass a gate."""
    return f"a check of the result failed, which is a fault of accelify: {trouble}"


def line_of(node: ast.AST) -> int:
    """A node's line; 0 where the whole file is meant."""
    return int(getattr(node, "lineno", 0))
