"""A verdict for a terminal: a line for each thing that was compared, and one that sums up."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from accelify.report.colour import Paint, plain
from accelify.verify.verdict import Row, Status, Verdict

_MARKS = {Status.HOLDS: ("ok", "green"), Status.NATURE: ("~", "yellow"), Status.NOTHING: ("-", "dim")}
_DIFFERS = ("DIFFERS", "bold red")


def render(verdict: Verdict, paint: Paint = plain, width: int | None = None) -> str:
    """The whole report, with a newline at its end."""
    return "\n".join(_lines(verdict, paint, width)) + "\n"


def _lines(verdict: Verdict, paint: Paint, width: int | None) -> Iterator[str]:
    name = paint("bold", verdict.script)
    if verdict.error is not None:
        yield f"{name}: {paint('bold red', 'could not run')}: {verdict.error}"
        return
    how = "run to their end" if verdict.is_whole else f"stopped after {verdict.steps} steps"
    for processes in sorted({row.processes for row in verdict.rows}):
        which = "one process" if processes == 1 else f"{processes} processes"
        yield paint("bold", f"{which} against the original ({how})")
        for row in verdict.rows:
            if row.processes == processes:
                yield from _row(row, paint, width)
    if verdict.made_comparable:
        made = "; ".join(verdict.made_comparable)
        yield f"made comparable in the runs compared with {verdict.processes} processes: {made}"
    if verdict.replaced:
        yield f"replaced by synthetic data: {'; '.join(verdict.replaced)}"
    if not verdict.is_whole:
        unseen = [row.name for row in verdict.rows if row.status is Status.NOTHING and row.name in _LATE]
        if unseen:
            yield f"not reached in {verdict.steps} steps: {', '.join(dict.fromkeys(unseen))} (--steps, --full)"
    yield f"{name}: {_conclusion(verdict, paint)} in {verdict.seconds:.0f} s"


_LATE = ("evaluation", "checkpoints")


def _row(row: Row, paint: Paint, width: int | None) -> Iterator[str]:
    mark, style = _MARKS.get(row.status, _DIFFERS)
    front = f"  {mark:<8}{row.name:<14} "
    words = row.words + (f" [{row.place}]" if row.place else "")
    lines = textwrap.wrap(words, max((width or 0) - len(front), 40), break_on_hyphens=False) if width else [words]
    yield paint(style, front[: 2 + len(mark)]) + front[2 + len(mark) :] + lines[0]
    for line in lines[1:]:
        yield " " * len(front) + line


def _conclusion(verdict: Verdict, paint: Paint) -> str:
    if verdict.status == 0:
        natural = [row.name for row in verdict.rows if row.status is Status.NATURE]
        but = f", but for what differs by nature ({', '.join(dict.fromkeys(natural))})" if natural else ""
        return paint("bold green", "proven") + but
    wrong = [row for row in verdict.rows if row.status is Status.DIFFERS]
    names = ", ".join(dict.fromkeys(row.name for row in wrong))
    return f"{paint('bold red', 'differs')} ({names})"
