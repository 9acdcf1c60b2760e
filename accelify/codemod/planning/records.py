"""The changes and notes of a plan for a file, as results report them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from accelify.codemod.edits.values import Facts, Obstacle, Place, Plan, Remark
from accelify.codemod.result import ChangeRecord, FileResult, Note, Status, Tier, notes_in_order

_NAME = re.compile(r"`[^`]*`(?!.*\{)")

Lines = Mapping[str, Callable[[int], int]]
"""For each file that changes, what gives the line that one of the user's file has become."""


def changes_of(made: Plan, path: str, lost: Sequence[str]) -> list[ChangeRecord]:
    """The changes of a file; `lost` are the comments that went with them."""
    records = [ChangeRecord(c.line, c.rule, c.tier, c.reason, made.evidence(c.path, c.line)) for c in made.of(path)]
    if lost:
        message = "comments deleted with removed lines: " + "  ".join(lost)
        records.append(ChangeRecord(1, "comments", Tier.SAFE, message))
    return records


def notes_of(made: Plan, path: str, lines: Lines) -> list[Note]:
    """The notes of a file; those that say the same of several places are one, at the first of these."""
    remarks = [r for r in made.remarks if r.path == path]
    return [
        Note(line, first.rule, first.tier, message, made.evidence(path, line_of(first.node)), shows=shows, also=also)
        for first, line, message, shows, also in _numbered_notes(remarks, lines, path)
    ]


def noted(made: Plan, changed: Collection[str], data: Mapping[str, bytes], lines: Lines) -> list[FileResult]:
    """The results of files that do not change and have notes."""
    paths = sorted({r.path for r in made.remarks}.difference(changed))
    return [
        FileResult(path, Status.UNCHANGED, data[path], data[path], notes=notes_in_order(notes_of(made, path, lines)))
        for path in paths
    ]


def reasons(obstacles: Iterable[Obstacle], here: str, evidence: Facts, line_to: Callable[[str], int]) -> Iterator[Note]:
    """Why a file is declined; reasons that are the same for several places are one, at the first of these.

    Those of other files name their places themselves, and stand where the file imports these: `line_to` says where.
    """
    by_path: dict[str, list[Remark]] = {}
    for obstacle in obstacles:
        by_path.setdefault(obstacle.path, []).append(_as_remark(obstacle))
    for path, remarks in by_path.items():
        for first, line, message, _, also in _numbered_notes(remarks, {}, here):
            known = evidence(path, line) if line_of(first.node) else ()
            if path == here:
                yield Note(line, first.rule, first.tier, message, known, also=also)
            else:
                yield Note(line_to(path), first.rule, first.tier, f"{path}:{line}: {message}", known)


def _as_remark(obstacle: Obstacle) -> Remark:
    """A reason as a note is made: what it begins with, as in `` `name`: why ``, may differ between places."""
    name = _NAME.match(obstacle.message)
    if name is None:
        return Remark(obstacle.rule, obstacle.path, obstacle.node, obstacle.message)
    message = f"{{}}{obstacle.message[name.end() :]}"
    return Remark(obstacle.rule, obstacle.path, obstacle.node, message, about=name[0])


def _numbered_notes(
    remarks: Iterable[Remark], lines: Lines, here: str
) -> Iterator[tuple[Remark, int, str, tuple[str, ...], tuple[tuple[int, str], ...]]]:
    """The notes: line, words (`...; also `n` (line 12), line 20`), what shows values of one process, and the others."""
    alike: dict[tuple[str, Tier, str], list[Remark]] = {}
    for remark in remarks:
        alike.setdefault((remark.rule, remark.tier, remark.message), []).append(remark)
    for same in alike.values():
        first, *others = sorted(same, key=lambda r: line_of(r.node))
        path, line = first.path, _line(first.path, first.node, lines)

        def named(place: Place, about: str = "") -> str:
            found = f"line {_line(*place, lines)}" if place[0] == here else f"{place[0]}:{_line(*place, lines)}"
            return f"{about} ({found})" if about else found

        listed = dict.fromkeys(named((r.path, r.node), r.about) for r in others)
        also = [place for place in listed if place != named((path, first.node), first.about)]
        shows = dict.fromkeys(f"{at}:{_line(at, node, lines)}" for r in same for at, node in r.shows)
        words = first.text(named) + (f"; also {', '.join(also)}" if also else "")
        each = dict.fromkeys((_line(path, r.node, lines), r.text(named)) for r in others)
        yield first, line, words, tuple(shows), tuple(e for e in each if e[0] != line)


def _line(path: str, node: ast.AST, lines: Lines) -> int:
    """The line that a node has in the end."""
    line = line_of(node) or 1
    return lines[path](line) if path in lines else line


def changes_in_order(records: Iterable[ChangeRecord]) -> tuple[ChangeRecord, ...]:
    """Changes by line, each once."""
    return tuple(dict.fromkeys(sorted(records, key=lambda r: (r.line, r.rule))))


def fault(trouble: str) -> str:
    """The reason for leaving a file alone whose result did not pass a gate."""
    return f"a check of the result failed, which is a fault of accelify: {trouble}"


def line_of(node: ast.AST) -> int:
    """A node's line; 0 where the whole file is meant."""
    return int(getattr(node, "lineno", 0))
