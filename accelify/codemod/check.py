"""The checks of one file: bytes -> Program -> facts -> checks -> findings, or the file with what they can fix.

The file is read with those that it imports, as guards and collectives often stand in other files; what is found in
these is reported too, each in its own file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from accelify.codemod import rules
from accelify.codemod.checks import CHECKS, COMMENTS, pages
from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.edits.values import Change, Plan
from accelify.codemod.files.cells import placed
from accelify.codemod.files.disk import Disk
from accelify.codemod.files.exemptions import exemption
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.files.suppressions import unknown_rule
from accelify.codemod.libraries.vocabulary import may_share_processes
from accelify.codemod.options import Selection
from accelify.codemod.planning import records
from accelify.codemod.result import FileResult, Note, Status, Tier, notes_in_order
from accelify.codemod.rewrite import edited
from accelify.codemod.semantics.program import Program

_FIXABLE = " (`--fix` corrects it)"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check: which checks may report where, and whether imported files are read."""

    selection: Selection = field(default_factory=Selection)
    follow: bool = True


def check_file(path: str, options: CheckOptions, project: Project | None = None) -> tuple[FileResult, ...]:
    """The findings in a file and in those that it imports. Raises: CannotRead, CannotParse."""
    project = project or Project(disk=Disk())
    named = project.load(path)
    by_path: dict[str, list[Note]] = {path: []}
    for parsed, finding in _found(named, project, options):
        message = finding.message + (_FIXABLE if finding.fix else "")
        note = Note(records.line_of(finding.node) or 1, finding.rule, Tier.REVIEW, message)
        by_path.setdefault(parsed.path, []).append(note)
    by_path[path] += _of_comments(named, options.selection)
    results = [FileResult(file, Status.UNCHANGED, notes=notes_in_order(notes)) for file, notes in by_path.items()]
    known = {*pages()}
    found = placed(results, project.notebooks())
    return tuple(replace(r, notes=tuple(n for n in r.notes if n.rule in known)) for r in found)


def _of_comments(parsed: Parsed, selection: Selection) -> list[Note]:
    """Notes on comments for accelify that cannot be read, or that name no rule."""
    if parsed.suppressions.of_file is not None:
        return []
    said = list(parsed.suppressions.faults)
    known = {*rules.pages(), *pages()} if parsed.suppressions.all else set()
    for comment in parsed.suppressions.all:
        said += [
            (comment.line, unknown_rule(comment, name, known)) for name in sorted((comment.rules or set()) - known)
        ]
    kept = [(line, message) for line, message in said if exemption(parsed, COMMENTS, line, selection) is None]
    return [Note(line, COMMENTS, Tier.REVIEW, message) for line, message in kept]


def check_source(path: str, data: bytes, options: CheckOptions) -> FileResult:
    """The findings in a script given as bytes, alone; `path` only names it. Raises: CannotRead, CannotParse."""
    results = check_file(path, replace(options, follow=False), Project({path: data}))
    return next(result for result in results if result.path == path)


def fix_file(path: str, options: CheckOptions, project: Project | None = None) -> FileResult:
    """A file with what can be fixed in it without asking. Raises: CannotRead, CannotParse."""
    project = project or Project(disk=Disk())
    named = project.load(path)
    changes = [
        Change(finding.rule, path, records.line_of(finding.node) or 1, finding.message, finding.fix)
        for parsed, finding in _found(named, project, options)
        if finding.fix and parsed is named
    ]
    outcome = edited(named, Plan(changes=changes)) if changes else ""
    return FileResult(path, Status.UNCHANGED) if isinstance(outcome, str) else outcome[0]


def _found(named: Parsed, project: Project, options: CheckOptions) -> Iterator[tuple[Parsed, Finding]]:
    """The findings that neither a comment nor a setting leaves out, each with its file."""
    if named.suppressions.of_file is not None:
        return
    files = project.program([named], options.follow, lambda parsed: may_share_processes(parsed.data))
    processes = Processes(Program(files, project, [named]))
    for name, find in CHECKS:
        if options.selection.leaves_out(name, named.path) is not None and len(files) == 1:
            continue
        for finding in find(processes):
            parsed, line = processes.program.parsed(finding.node), records.line_of(finding.node)
            if exemption(parsed, finding.rule, line, options.selection) is None:
                yield parsed, finding
