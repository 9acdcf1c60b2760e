"""A verdict for a terminal: a line for each comparison, and a summary."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from accelify.report.colour import Paint, plain
from accelify.verify.verdict import Row, Status, Verdict

_COLOURS = {Status.HOLDS: "green", Status.NATURE: "yellow", Status.NOTHING: "dim", Status.DIFFERS: "bold red"}
_STYLES = ("bold green", "bold red", "bold red")


def render(verdict: Verdict, paint: Paint = plain, width: int | None = None) -> str:
    """The whole report, with a newline at its end."""
    return "\n".join(_lines(verdict, paint, width)) + "\n"


def _lines(verdict: Verdict, paint: Paint, width: int | None) -> Iterator[str]:
    name = paint("bold", verdict.script)
    if verdict.error is not None:
        yield f"{name}: {paint('bold red', 'could not run')}: {verdict.error}"
        return
    for _, heading, rows in verdict.parts:
        yield paint("bold", heading)
        for row in rows:
            yield from _row(row, paint, width)
    if verdict.made_comparable:
        made = "; ".join(verdict.made_comparable)
        yield f"to compare runs on {verdict.processes} processes with the original: {made}"
    if verdict.replaced:
        yield f"replaced by synthetic data: {'; '.join(verdict.replaced)}"
    yield from verdict.ways_on
    if str(verdict.circumstances):
        yield paint("dim", str(verdict.circumstances))
    yield f"{name}: {paint(_STYLES[verdict.status], verdict.conclusion)} in {verdict.seconds:.0f} s"


def _row(row: Row, paint: Paint, width: int | None) -> Iterator[str]:
    mark = row.status.value.upper() if row.status is Status.DIFFERS else row.status.value
    front = f"  {mark:<11}{row.name:<14} "
    words = row.words + (f" [{row.place}]" if row.place else "")
    lines = textwrap.wrap(words, max((width or 0) - len(front), 40), break_on_hyphens=False) if width else [words]
    yield paint(_COLOURS[row.status], front[: 2 + len(mark)]) + front[2 + len(mark) :] + lines[0]
    for line in lines[1:]:
        yield " " * len(front) + line
