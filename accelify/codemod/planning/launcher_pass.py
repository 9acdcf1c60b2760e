"""The first pass: a script that starts its processes itself becomes one that a launcher starts.

It is rewritten twice. The first time nothing is migrated: what starts the processes goes, and of each choice between
one process and several what is done for several stays. What comes out is never shown nor run. It is a script as others
write them for torchrun, and is migrated as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accelify.codemod import leftovers
from accelify.codemod.distributed.branches import Branches
from accelify.codemod.distributed.launched import Launched
from accelify.codemod.distributed.launcher_changes import LauncherChanges
from accelify.codemod.distributed.launching import Launching
from accelify.codemod.edits import gates
from accelify.codemod.edits.apply import Applied, apply
from accelify.codemod.edits.values import Change, Obstacle, Plan
from accelify.codemod.files.lines import line_after
from accelify.codemod.files.parse import Parsed, encoded, parse
from accelify.codemod.files.project import Project
from accelify.codemod.leftovers import Uses, tidied
from accelify.codemod.options import Options
from accelify.codemod.planning import records
from accelify.codemod.planning.evidence import Evidence
from accelify.codemod.planning.left_out import LeftOut
from accelify.codemod.result import FileResult, Note, Status, Tier, joined, notes_in_order
from accelify.codemod.rules import LAUNCH_RULES, SETTING_RULES
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.roles import Roles
from accelify.codemod.understand import modelled
from accelify.errors import CannotParse


@dataclass(frozen=True)
class LauncherPass:
    """A program as a launcher would start it: its files as they are, what is done to them, and what they become."""

    named: Sequence[Parsed]
    project: Project
    originals: dict[str, Parsed]
    plan: Plan
    applied: dict[str, Applied]

    def line(self, path: str) -> Callable[[int], int]:
        """The line of the user's file for one of the text in between."""
        if path not in self.applied:
            return lambda line: line
        return line_after(self.applied[path].text, self.originals[path].text)

    def line_between(self, path: str) -> Callable[[int], int]:
        """The line of the text in between for one of the user's file."""
        if path not in self.applied:
            return lambda line: line
        return line_after(self.originals[path].text, self.applied[path].text)

    def results(self, found: Sequence[FileResult]) -> list[FileResult]:
        """The results for the user's files, from those of the files in between; all of it, or nothing."""
        statuses = {r.status for r in found}
        if Status.DECLINED in statuses or Status.MIGRATED not in statuses:
            return [self._declined(r) for r in found]
        there = {r.path: r for r in found}
        for path in self.applied:
            if path not in there:
                data = self.project.load(path).data
                there[path] = FileResult(path, Status.UNCHANGED, data, data)
        results = [self._migrated(r) if r.path in self.applied else r for r in there.values()]
        before = {path: original.data for path, original in self.originals.items()}
        lines = {r.path: self._line_after(r) for r in results if r.status is Status.MIGRATED}
        noted = {r.path: r for r in records.noted(self.plan, self.applied, before, lines)}
        results = [joined(r, noted.pop(r.path)) if r.path in noted else r for r in results]
        return [*results, *noted.values()]

    def _line_after(self, result: FileResult) -> Callable[[int], int]:
        """The line in the new file for one of the user's."""
        return line_after(self.originals[result.path].text, parse(result.path, result.after).text)

    def _declined(self, result: FileResult) -> FileResult:
        if result.path not in self.originals:
            return result
        line, data = self.line(result.path), self.originals[result.path].data

        def said(text: str) -> str:
            text = re.sub(r"\bline (\d+)", lambda m: f"line {line(int(m[1]))}", text)
            return self._with_own_lines(text)

        notes = [
            replace(
                n,
                line=line(n.line),
                message=said(n.message),
                evidence=tuple(map(self._with_own_lines, n.evidence)),
                also=tuple((line(at), said(words)) for at, words in n.also),
            )
            for n in result.notes
        ]
        return replace(result, before=data, after=data, notes=notes_in_order(notes))

    def _with_own_lines(self, text: str) -> str:
        """A text with the lines that the places in it have in the user's files."""
        paths = "|".join(map(re.escape, self.applied))
        return re.sub(rf"(?<![\w/])({paths}):(\d+)", lambda m: f"{m[1]}:{self.line(m[1])(int(m[2]))}", text)

    def _migrated(self, result: FileResult) -> FileResult:
        original, applied, line = self.originals[result.path], self.applied[result.path], self.line(result.path)
        text = parse(result.path, result.after).text
        left = gates.name_troubles(original, applied.text, self.plan.kept) & gates.name_troubles(original, text)
        if left:
            note = Note(1, "gate", Tier.ADVICE, records.fault(next(iter(left))))
            return FileResult(result.path, Status.DECLINED, original.data, original.data, notes=(note,))
        changes = records.changes_of(self.plan, result.path, applied.dropped)
        changes += [
            replace(c, line=line(c.line), evidence=tuple(map(self._with_own_lines, c.evidence))) for c in result.changes
        ]
        notes = records.notes_of(self.plan, result.path, {result.path: self._line_after(result)})
        notes += [replace(n, evidence=tuple(map(self._with_own_lines, n.evidence))) for n in result.notes]
        return replace(
            result,
            status=Status.MIGRATED,
            because="",
            before=original.data,
            changes=records.changes_in_order(changes),
            notes=notes_in_order(notes),
        )


def hand_start_to_launcher(
    files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options
) -> LauncherPass | Plan | None:
    """The program as a launcher would start it, or what stands in the way; None where there is nothing to do."""
    if options.runtime.wraps_models:
        return None
    program = Program(files, project, named)
    roles, tracer = program.once(Roles), program.once(Tracer)
    launching = Launching(program, tracer)
    if not launching.starts:
        return None
    edits = LauncherChanges(launching, Branches(launching, roles)).find()
    launched = Launched(program, tracer, launching, edits)
    found = [one for _, find in LAUNCH_RULES for one in find(launched)]
    launched = replace(launched, changes=tuple(one for one in found if isinstance(one, Change)))
    found += [one for _, find in SETTING_RULES for one in find(launched)]
    left_out = LeftOut(program, options)
    found = left_out.without(found)
    if any(isinstance(one, Obstacle) for one in found):
        return Plan(obstacles=[one for one in found if isinstance(one, Obstacle)])
    if not any(isinstance(one, Change) for one in found) or not (
        edits.branches or edits.removed or edits.choices or edits.tests or launching.spawns
    ):
        return None
    script = modelled(program, options)
    stays = partial(left_out.stays, leftovers.NAME)
    plan = tidied(found, Uses(program, tracer, script.handed, script.changes_nothing, stays=stays))
    plan.obstacles += left_out.needed(plan)
    if plan.obstacles:
        return plan
    plan.evidence = Evidence(program, script).at
    originals = {f.path: f for f in files}
    try:
        applied = {path: apply(originals[path], plan.of(path)) for path in sorted({c.path for c in plan.changes})}
    except CannotParse:
        return None
    between = {p: encoded(originals[p], a.text) for p, a in applied.items()}
    changed = project.with_changes(between)
    return LauncherPass([changed.load(p.path) for p in named], changed, originals, plan, applied)
