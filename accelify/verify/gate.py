"""For `rewrite --verify`: of what was rewritten, only what is proven stays rewritten."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from accelify.codemod.result import FileResult, Note, Status, Tier
from accelify.verify.experiment import Request
from accelify.verify.forking import Server
from accelify.verify.prove import prove
from accelify.verify.runs import DRIVEN, Progress
from accelify.verify.scratch import CannotVerify, Project, Rewritten, as_rewritten
from accelify.verify.verdict import Status as RowStatus
from accelify.verify.verdict import Verdict

Program = tuple[FileResult, ...]


def keep_proven(programs: Sequence[Program], progress: Progress, server: Server | None = None) -> tuple[Program, ...]:
    """The programs, those that were migrated and are not proven declined: their files are as before, with the reasons.

    A program is run by its first file, without arguments.
    """
    if server is not None:
        return tuple(_checked(program, progress, server) for program in programs)
    if not any(result.status is Status.MIGRATED for program in programs for result in program):
        return tuple(programs)
    progress("importing torch")
    with Server() as own:
        return keep_proven(programs, progress, own)


def _checked(program: Program, progress: Progress, server: Server) -> Program:
    migrated = [result for result in program if result.status is Status.MIGRATED]
    if not migrated:
        return program
    script = Path(program[0].path)
    request = Request(script, folder=Path.cwd(), limits=DRIVEN)
    try:
        request = replace(request, rewritten=_as_rewritten(script, program))
    except CannotVerify as error:
        verdict = Verdict(str(script), request.processes, error=str(error))
    else:
        verdict = prove(request, lambda words: progress(f"{script}, {words}"), server)
    if verdict.status == 0:
        return program
    notes = tuple(_reasons(verdict))
    return tuple(
        replace(result, status=Status.DECLINED, after=result.before, changes=(), notes=notes)
        if result.status is Status.MIGRATED
        else replace(result, notes=(), because="")
        for result in program
    )


def _as_rewritten(script: Path, program: Program) -> Rewritten:
    project = Project.around(script, Path.cwd())
    files = []
    for result in program:
        path = Path(os.path.realpath(result.path))
        if project.root not in path.parents:
            if result.status is not Status.MIGRATED:
                continue
            raise CannotVerify(f"{result.path} is not in the project of {script}, {project.root}")
        files.append((path.relative_to(project.root), result))
    return as_rewritten(project, files)


def _reasons(verdict: Verdict) -> list[Note]:
    if verdict.error is not None:
        return [Note(1, "verify", Tier.ADVICE, f"it could not be proven: {verdict.error}")]
    # A fault where runs are compared often shows in the plain run, too: it is reported once.
    wrong = {(row.name, row.processes): row for row in reversed(verdict.rows) if row.status is RowStatus.DIFFERS}
    return [
        Note(
            1,
            "verify",
            Tier.ADVICE,
            f"it is not proven: {row.name} on {row.processes}: {row.words} (new file, {row.at})",
        )
        for row in reversed(wrong.values())
    ]
