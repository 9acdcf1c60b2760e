"""What is known of a line, each fact with the line it comes from: what changes there, and what its names hold."""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.edits import Obstacle, Remark
from accelify.codemod.options import Options
from accelify.codemod.plan import plan_for
from accelify.codemod.project import Project
from accelify.codemod.untangle import Untangled, untangle
from accelify.errors import CannotRead


def why(path: str, line: int, options: Options) -> Iterator[str]:
    """The facts behind a line of a file, one a string. Raises: FileError when the file cannot be read or parsed."""
    project = Project()
    named = [project.load(path)]
    last = len(named[0].text.splitlines())
    if not 1 <= line <= last:
        raise CannotRead(path, reason=f"there is no line {line}: it has {last} line{'s' * (last != 1)}")
    if named[0].is_migrated:
        yield "the file is migrated already, or written for another library that runs training loops"
        return
    files = project.program(named, options.follow)
    first = untangle(files, project, named, options)
    if isinstance(first, Untangled):
        yield from (f"{c.rule}: {c.reason}" for c in first.plan.of(path) if c.line == line)
        line = first.line_between(path)(line)
        project, named = first.project, list(first.named)
        files = project.program(named, options.follow)
    made = plan_for(files, project, named, options)
    if made is None:
        yield "there is no training loop in this file, so nothing changes"
        return
    for change in made.of(path):
        if change.line == line:
            yield f"{change.rule}: {change.reason}"
    said: list[Remark | Obstacle] = [*made.remarks, *made.obstacles]
    for found in said:
        if found.path == path and getattr(found.node, "lineno", None) == line:
            yield f"{found.rule}: {found.message}"
    yield from made.evidence(path, line)
