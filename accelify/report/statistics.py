"""How often each rule changed something, said something, or stood in the way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from accelify.codemod.result import FileResult, Status

# The parts in which two scripts differ that are declined for one reason: names, places, numbers.
_OWN = re.compile(r"`[^`]*`|\S+\.(?:py|ipynb)\b(?::\d+)?|\b\d+\b")

_ALSO = re.compile(r"; also [^;]*$")

Key = TypeVar("Key", str, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts by rule of changes and of notes in migrated files, of reasons for declining, and of files that failed."""

    changes: Counter[str]
    notes: Counter[str]
    declined: Counter[tuple[str, str]]
    errors: int


def statistics(results: Sequence[FileResult]) -> Statistics:
    """The counts of a run; a reason counts once for each file."""
    declined = [result for result in results if result.status is Status.DECLINED]
    others = [result for result in results if result.status is not Status.DECLINED]
    return Statistics(
        changes=Counter(change.rule for result in results for change in result.changes),
        notes=Counter(note.rule for result in others for note in result.notes),
        declined=Counter(
            reason for result in declined for reason in {(note.rule, general(note.message)) for note in result.notes}
        ),
        errors=sum(result.error is not None for result in results),
    )


def general(message: str) -> str:
    """A reason without what is one script's own: `` `...` `` for its names and places; at how many is not counted."""
    return _OWN.sub(lambda match: "N" if match[0].isdigit() else "`...`", _ALSO.sub("", message))


def as_text(counts: Statistics, notes: str = "notes") -> str:
    """A table for people, the most frequent first; `notes` is what its notes are called."""
    return "\n".join(_lines(counts, notes)) + "\n"


def _lines(counts: Statistics, notes: str) -> Iterator[str]:
    rows: list[tuple[str, list[tuple[int, str]]]] = [
        ("changes", [(count, rule) for rule, count in _ordered(counts.changes)]),
        (notes, [(count, rule) for rule, count in _ordered(counts.notes)]),
        ("declined", [(count, f"{rule}: {reason}") for (rule, reason), count in _ordered(counts.declined)]),
        ("errors", [(counts.errors, "files failed")] if counts.errors else []),
    ]
    if not any(found for _, found in rows):
        yield "Nothing to count."
    for title, found in rows:
        if found:
            yield f"{title}:"
            yield from (f"{count:>7}  {what}" for count, what in found)


def _ordered(counter: Counter[Key]) -> list[tuple[Key, int]]:
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))


def as_json(counts: Statistics) -> dict[str, object]:
    """The same for other programs."""
    return {
        "changes": dict(_ordered(counts.changes)),
        "notes": dict(_ordered(counts.notes)),
        "declined": [
            {"rule": rule, "reason": reason, "files": count} for (rule, reason), count in _ordered(counts.declined)
        ],
        "errors": counts.errors,
    }
