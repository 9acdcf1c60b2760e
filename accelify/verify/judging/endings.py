"""Did every run come to the same end, and every rank to work?"""

from __future__ import annotations

from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.words import DIFFERS, HOLDS, counted, make_row, named_ranks
from accelify.verify.trace import Run, Trace
from accelify.verify.verdict import Row


def ending(original: Run, run: Run) -> Row:
    """Whether all ranks came to the same end as the original."""
    theirs = original.ranks[0].end
    error = run.error
    if run.hang:
        own = [_own_line(stack or "") for stack in run.stacks]
        parts = [
            f"rank {rank} {_standing(stack, line)}"
            for rank, (stack, line) in enumerate(zip(run.stacks, own, strict=True))
        ]
        return make_row("ending", run, DIFFERS, f"hangs, {run.hang}: {'; '.join(parts)}", next(filter(None, own), None))
    if error is not None:
        rank = next(trace.rank for trace in run.ranks if trace.end is error)
        which = f"rank {rank} fails" if run.world > 1 else "fails"
        message = error.message or f"exit status {error.code}"
        return make_row("ending", run, DIFFERS, f"{which}: {message}", error.at)
    for trace in run.ranks:
        if trace.end.how != theirs.how:
            words = f"rank {trace.rank} {_ended(trace)}, the original {_ended(original.ranks[0])}"
            return make_row("ending", run, DIFFERS, words)
    return make_row("ending", run, HOLDS, f"{_ended(run.ranks[0])}, as the original")


def _ended(trace: Trace) -> str:
    words = {"steps": "was stopped after", "exit": "ended by itself after", "lost": "was lost after"}
    return f"{words.get(trace.end.how, 'failed after')} {counted(len(trace.steps), 'step')}"


def _standing(stack: str | None, own: str | None) -> str:
    if stack is None:
        return "has ended"
    return f"stands at {own or stack.splitlines()[-1]}" if stack else "does not say where it stands"


def _own_line(stack: str) -> str | None:
    """The innermost line of the user's own code in a stack; those have relative paths."""
    lines = [line for line in stack.splitlines() if not line.startswith(("/", "torch/", "accelify/", "<"))]
    return lines[-1].partition(" in ")[0] if lines else None


def ending_of_many(evidence: Evidence) -> Row:
    """Whether all of several ranks came to the same end as the original."""
    return ending(evidence.baseline, evidence.many)


def work(evidence: Evidence) -> Row:
    """Whether every rank trains, in step with the others."""
    many = evidence.many
    idle = [trace.rank for trace in many.ranks if not trace.backwards]
    if idle:
        return make_row("work", many, DIFFERS, f"{named_ranks(idle)} did nothing: no backward pass")
    steps = [len(trace.steps) for trace in many.ranks]
    if len(set(steps)) > 1:
        words = ", ".join(f"rank {rank} took {counted(count, 'step')}" for rank, count in enumerate(steps))
        return make_row("work", many, DIFFERS, words)
    passes = [len(trace.backwards) for trace in many.ranks]
    return make_row(
        "work", many, HOLDS, f"every rank took {counted(steps[0], 'step')} and {counted(passes[0], 'backward pass')}"
    )
