"""The proof: run original and rewritten, compare what they did, conclude. Read this first."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from accelify import __version__
from accelify.codemod.files.parse import parse
from accelify.errors import FileError
from accelify.verify.experiment import Experiment, Request
from accelify.verify.forking import Server
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.judge import judge
from accelify.verify.runs import Progress, Runner
from accelify.verify.scratch import (
    CannotVerify,
    Project,
    Rewritten,
    copy_project,
    rewrite_copy,
    scratch_folder,
    take_new,
)
from accelify.verify.verdict import RESUME, Circumstances, Verdict


def prove(request: Request, progress: Progress, server: Server | None = None) -> Verdict:
    """The verdict on one script; a server that is given is used and left running."""
    begun = time.monotonic()
    try:
        project = _project(request)
        with scratch_folder() as folder:
            if server is not None:
                return _prove(request, project, progress, server, folder, begun)
            progress("importing torch")
            with Server() as own:
                return _prove(request, project, progress, own, folder, begun)
    except CannotVerify as error:
        seconds = time.monotonic() - begun
        return Verdict(str(request.script), request.processes, error=str(error), seconds=seconds)


def _project(request: Request) -> Project:
    """The project of the script. Raises: CannotVerify for a named file that is not there, or no Python."""
    for path in (request.script, *request.also, *filter(None, [request.against])):
        project = Project.around(path, request.folder.absolute())
        try:
            parse(str(path), (project.root / project.script).read_bytes())
        except FileError as error:
            raise CannotVerify(f"it cannot be parsed: {error}") from None
    return Project.around(request.script, request.folder.absolute())


def _prove(
    request: Request, project: Project, progress: Progress, server: Server, folder: Path, begun: float
) -> Verdict:
    progress("rewriting")
    rewritten = _rewritten(request, project, folder / "rewritten")
    runner = Runner(server, folder, progress, protected=_roots(project, rewritten))
    evidence = Experiment(request, runner, project, rewritten).evidence()
    original = evidence.original
    return Verdict(
        script=str(request.script),
        processes=request.processes,
        rows=judge(evidence),
        steps=len(original.ranks[0].steps),
        is_whole=original.ranks[0].end.how == "exit",
        not_reached=tuple(w for w in original.ranks[0].unreached if w != RESUME or evidence.resumed is None),
        resumed_by=evidence.resumed_by,
        made_comparable=evidence.made_comparable,
        replaced=tuple(dict.fromkeys(original.ranks[0].replaced)),
        notes=rewritten.notes,
        diff=_diff(rewritten),
        curves=_curves(evidence),
        seconds=time.monotonic() - begun,
        circumstances=_circumstances(),
    )


def _circumstances() -> Circumstances:
    names = ("torch", "numpy")
    versions = [f"accelify {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {metadata.version(name)}" for name in names]
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.platform()}, {os.cpu_count()} CPUs"
    return Circumstances(date, _command(), ", ".join(versions), machine)


def _command() -> str:
    program = Path(sys.argv[0])
    return shlex.join(["accelify" if program.name == "__main__.py" else program.name, *sys.argv[1:]])


def _roots(project: Project, rewritten: Rewritten) -> Sequence[Path]:
    return tuple(dict.fromkeys((project.root, rewritten.project.root)))


def _rewritten(request: Request, project: Project, copy: Path) -> Rewritten:
    if request.rewritten is not None:
        return request.rewritten
    if request.against is not None:
        return take_new(project, request.against, request.folder.absolute())
    copy_project(project, copy)
    also = [Project.around(path, request.folder.absolute()).script for path in request.also]
    return rewrite_copy(project, copy, also, request.options)


def _diff(rewritten: Rewritten) -> str:
    from accelify.codemod.files.diff import unified_diff

    return "".join(unified_diff(str(name), *pair).decode("utf-8", "replace") for name, *pair in rewritten.files)


def _curves(evidence: Evidence) -> dict[str, tuple[float, ...]]:
    """Losses by run; of several processes their mean."""
    curves = {run.label: tuple(run.ranks[0].losses) for run in (evidence.original, evidence.one)}
    if evidence.baseline is not evidence.original:
        curves[evidence.baseline.label] = tuple(evidence.baseline.ranks[0].losses)
    many = zip(*(trace.losses for trace in evidence.many.ranks), strict=False)
    curves[evidence.many.label] = tuple(sum(losses) / len(losses) for losses in many)
    return curves
