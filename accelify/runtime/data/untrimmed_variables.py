"""Which variables of a script keep the rows that others have just lost, and are computed with them further down?

`trim_for_metrics` returns shorter rows of what it is given. A variable that it was not given, an output say, still has
all rows: in the last step of an epoch they do not fit together, or a single row is compared with all.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any  # variables hold anything

from accelify.runtime.data.streams import loops_of


def untrimmed_beside(frame: FrameType, trimmed: list[Any], rows: int) -> tuple[str, int] | None:
    """The first variable with so many rows that a line below reads beside a trimmed one, and that line."""
    known = {**frame.f_globals, **frame.f_locals}
    given = {name for name, value in known.items() if any(value is one for one in trimmed)}
    for line, names in _reads_below(frame.f_code, frame.f_lasti, given):
        if names & given:
            whole = (name for name in sorted(names - given) if _rows_of(known.get(name)) == rows)
            if (name := next(whole, None)) is not None:
                return name, line
    return None


def _rows_of(value: Any) -> int | None:
    return len(value) if getattr(value, "ndim", 0) and hasattr(value, "shape") else None


def _reads_below(code: CodeType, at: int, given: set[str]) -> Iterator[tuple[int, set[str]]]:
    """The variables that each line reads from there to the end of the round, except those bound anew before.

    given: the variables that the statement itself binds to what it has trimmed.
    """
    ends = [last for first, last in loops_of(code) if first <= at <= last]
    reads: dict[int, set[str]] = {}
    bound: set[str] = set()
    awaited = set(given)
    for step in dis.get_instructions(code):
        if not at < step.offset <= min(ends, default=len(code.co_code)):
            continue
        parts = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        names = {part for part in parts if isinstance(part, str)}
        line = _line_of(code, step.offset)
        if step.opname.startswith("STORE_"):
            bound |= names - awaited
            awaited -= names
        elif step.opname.startswith("LOAD_") and not step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_CONST")):
            reads.setdefault(line, set()).update(names - bound)
    yield from sorted(reads.items())


def _line_of(code: CodeType, offset: int) -> int:
    return next((line for start, end, line in code.co_lines() if start <= offset < end and line is not None), 0)
