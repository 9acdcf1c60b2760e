"""The facts known of a line, each with the line it comes from: changes there, and the values of its names."""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.edits.values import Obstacle, Place, Plan, Remark
from accelify.codemod.files.cells import with_places
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.options import Options
from accelify.codemod.planning.accelerate_pass import plan_from_accelerate
from accelify.codemod.planning.launcher_pass import LauncherPass, hand_start_to_launcher
from accelify.codemod.planning.plan import plan_for
from accelify.errors import CannotRead


def why(path: str, line: int, options: Options, cell: int | None = None) -> Iterator[str]:
    """The facts behind a line of a file, or of a notebook's cell, one a string.

    Raises: FileError when the file cannot be read or parsed, or has no such line.
    """
    project = Project()
    parsed = project.load(path)
    notebook = parsed.decoded.notebook
    if notebook is None and cell is not None:
        raise CannotRead(path, reason="only a notebook has cells: write FILE:LINE")
    if notebook is None:
        last = len(parsed.text.splitlines())
        if not 1 <= line <= last:
            raise CannotRead(path, reason=f"there is no line {line}: it has {last} line{'s' * (last != 1)}")
        yield from _why(project, parsed, line, options)
        return
    found = notebook.line(cell or 0, line)
    if found is None:
        raise CannotRead(path, reason=f"there is no line {line} of Python in cell {cell}: write FILE:CELL:LINE")
    for fact in _why(project, parsed, found, options):
        yield with_places(fact, project.notebooks(), notebook)


def _why(project: Project, parsed: Parsed, line: int, options: Options) -> Iterator[str]:
    path, named = parsed.path, [parsed]
    files = project.program(named, options.follow)
    if named[0].is_migrated:
        if named[0].run_by != "accelerate" or options.runtime.name == "accelerate":
            yield f"nothing changes: this file is {parsed.next_step}"
            return
        yield from _found(plan_from_accelerate(files, project, named, options), path, line)
        return
    first = hand_start_to_launcher(files, project, named, options)
    if isinstance(first, LauncherPass):
        yield from (f"{c.rule}: {c.reason}" for c in first.plan.of(path) if c.line == line)
        line = first.line_between(path)(line)
        project, named = first.project, list(first.named)
        files = project.program(named, options.follow)
    made = plan_for(files, project, named, options)
    if made is None:
        yield "there is no training loop in this file, so nothing would change"
        return
    yield from _found(made, path, line)
    yield from made.evidence(path, line)


def _found(made: Plan, path: str, line: int) -> Iterator[str]:
    """The findings of the rules at a line."""
    for change in made.of(path):
        if change.line == line:
            yield f"{change.rule}: {change.reason}"
    said: list[Remark | Obstacle] = [*made.remarks, *made.obstacles]
    for found in said:
        if found.path == path and getattr(found.node, "lineno", None) == line:
            text = found.text(_named) if isinstance(found, Remark) else found.message
            yield f"{found.rule}: {text}"


def _named(place: Place) -> str:
    path, node = place
    return f"{path}:{getattr(node, 'lineno', 1)}"
