"""Did every run come to the same end, and every rank to work?"""

from __future__ import annotations

from accelify.verify.judging.evidence import Evidence, training_passes
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


def _fewer(evidence: Evidence) -> Row | None:
    """A whole pass over data that is learned from in fewer backward passes than the original's."""
    many, launched = evidence.many, evidence.many is evidence.launched
    if many.ranks[0].shards or evidence.cannot_split:
        return None
    for key, passed in training_passes(evidence.baseline.ranks[0]).items():
        parts = [part for part in (training_passes(trace).get(key) for trace in many.ranks) if part is not None]
        if len(parts) < many.world or not passed.is_over or not all(part.is_over for part in parts):
            continue
        if launched:  # batches that do not make up a round for all ranks may be left out
            mine = sum(part.backwards for part in parts)
            slack = many.world * -(-passed.backwards // max(len(passed.batches), 1)) - 1
        else:
            mine, slack = parts[0].backwards, 0
        if mine < passed.backwards - slack:
            who = "all ranks together take" if launched else "every rank takes"
            words = f"pass {key[1] + 1} over {passed.name}: {who} {counted(mine, 'backward pass')} for"
            words += f" {passed.backwards}, so that samples are lost"
            words += ", as where data are sharded twice" if mine * many.world <= passed.backwards + slack else ""
            return make_row("work", many, DIFFERS, words, parts[0].at)
    return None


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
    if (lost := _fewer(evidence)) is not None:
        return lost
    passes = [len(trace.backwards) for trace in many.ranks]
    return make_row(
        "work", many, HOLDS, f"every rank took {counted(steps[0], 'step')} and {counted(passes[0], 'backward pass')}"
    )
