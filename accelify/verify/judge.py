"""From what the runs did to the rows of a verdict: pure functions, one for each row."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accelify.verify import compare
from accelify.verify.trace import Checkpoint, Pass, Run, Sketch, Step, Trace
from accelify.verify.verdict import Row, Status

HOLDS, NATURE, NOTHING, DIFFERS = Status.HOLDS, Status.NATURE, Status.NOTHING, Status.DIFFERS

OWN_RANDOM_NUMBERS = "each rank draws random numbers of its own"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one proof. `baseline` is the original as `many` is to be compared with."""

    original: Run
    one: Run
    baseline: Run
    many: Run
    notes: tuple[str, ...] = ()
    made_comparable: tuple[str, ...] = ()
    cannot_split: str | None = None  # what went wrong when each batch was divided among the ranks


def judge(evidence: Evidence) -> tuple[Row, ...]:
    """The rows, in the order in which they are best read: the cause before what follows from it."""
    single = [_one(evidence, row) for row in SINGLE]
    several = [row(evidence) for row in SEVERAL]
    return (*single, *several)


def _one(evidence: Evidence, row: Callable[[Run, Run], Row]) -> Row:
    return row(evidence.original, evidence.one)


def _row(name: str, run: Run, status: Status, words: str, at: str | None = None, step: int | None = None) -> Row:
    return Row(name, run.world, status, words, at, step)


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith(("s", "h")) else "s")
    return f"{number} {noun if number == 1 else plural}"


# -- how the runs ended


def ending(original: Run, run: Run) -> Row:
    """Whether all ranks came to the same end as the original."""
    theirs = original.ranks[0].end
    error = run.error
    if run.hang:
        standing = [stack.splitlines()[-1:] for stack in run.stacks]
        own = [_own_line(stack) for stack in run.stacks]
        parts = [
            f"rank {rank} {'has ended' if not stack else f'stands at {line or stack[0]}'}"
            for rank, (stack, line) in enumerate(zip(standing, own, strict=True))
        ]
        return _row("ending", run, DIFFERS, f"hangs, {run.hang}: {'; '.join(parts)}", next(filter(None, own), None))
    if error is not None:
        rank = next(trace.rank for trace in run.ranks if trace.end is error)
        which = f"rank {rank} fails" if run.world > 1 else "fails"
        message = error.message or f"exit status {error.code}"
        return _row("ending", run, DIFFERS, f"{which}: {message}", error.at)
    for trace in run.ranks:
        if trace.end.how != theirs.how:
            words = f"rank {trace.rank} {_ended(trace)}, the original {_ended(original.ranks[0])}"
            return _row("ending", run, DIFFERS, words)
    return _row("ending", run, HOLDS, f"{_ended(run.ranks[0])}, as the original")


def _ended(trace: Trace) -> str:
    words = {"steps": "was stopped after", "exit": "ended by itself after", "lost": "was lost after"}
    return f"{words.get(trace.end.how, 'failed after')} {_count(len(trace.steps), 'step')}"


def _own_line(stack: str) -> str | None:
    """The innermost line of the user's own code in a stack; those have relative paths."""
    lines = [line for line in stack.splitlines() if not line.startswith(("/", "torch/", "accelify/", "<"))]
    return lines[-1].partition(" in ")[0] if lines else None


# -- one process: bit for bit


def losses_of_one(original: Run, one: Run) -> Row:
    """Every loss the same, bit for bit."""
    theirs, ours = original.ranks[0].backwards, one.ranks[0].backwards
    for index, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if not compare.same_bits(a.loss, b.loss):
            words = f"backward pass {index + 1}: {a.loss:.9g} for {b.loss:.9g}{_factor(a.loss, b.loss)}"
            return _row("losses", one, DIFFERS, words, a.at, index + 1)
    if len(theirs) != len(ours):
        return _row("losses", one, DIFFERS, f"{_count(len(ours), 'backward pass')} for {len(theirs)}")
    return _row("losses", one, HOLDS, f"{_count(len(ours), 'backward pass')}, the same bit for bit")


def _factor(ours: float, theirs: float) -> str:
    if not theirs or not math.isfinite(ours / theirs):
        return ""
    words = compare.in_words(ours / theirs)
    return f" ({words} the original's)" if " of" not in words else ""


def parameters_of_one(original: Run, one: Run) -> Row:
    """Every parameter the same after every step, bit for bit."""
    theirs, ours = original.ranks[0], one.ranks[0]
    for index, (a, b) in enumerate(zip(ours.steps, theirs.steps, strict=False)):
        for number, (mine, other) in enumerate(zip(a.digests, b.digests, strict=False)):
            if mine != other:
                name = _parameter(ours, a, number)
                cause = _gradient_words(ours, a, b)
                words = f"{name} parts at step {index + 1}" + (f": {cause}" if cause else "")
                return _row("parameters", one, DIFFERS, words, a.at, index + 1)
    if len(theirs.steps) != len(ours.steps):
        return _row("parameters", one, DIFFERS, f"{_count(len(ours.steps), 'step')} for {len(theirs.steps)}")
    if not any(step.digests for step in ours.steps):
        return _row("parameters", one, NOTHING, "no parameter that an optimizer or a module holds was stepped")
    count = sum(len(known.names) for known in ours.optimizers.values())
    words = f"{_count(count, 'parameter')} after each of {_count(len(ours.steps), 'step')}, the same bit for bit"
    return _row("parameters", one, HOLDS, words)


def _parameter(trace: Trace, step: Step, number: int) -> str:
    known = trace.optimizers.get(step.optimizer)
    return known.names[number] if known and number < len(known.names) else f"parameter {number}"


def _gradient_words(trace: Trace, ours: Step, theirs: Step) -> str:
    for number, (a, b) in enumerate(zip(ours.gradients, theirs.gradients, strict=False)):
        if a == b or (a is None and b is None):
            continue
        name = _parameter(trace, ours, number)
        if a is None or b is None:
            return _one_has_none(name, a)
        factor = compare.ratio(a, b)
        if factor is not None and abs(factor - 1) > 1e-4:
            return f"the gradient of {name} is {compare.in_words(factor)} the original's"
        return f"the gradient of {name} differs by {_share(compare.distance(a, b), b[0])} of its size"
    return ""


def _one_has_none(name: str, mine: Sketch | None) -> str:
    ours, theirs = ("no", "one") if mine is None else ("a", "none")
    return f"{name} has {ours} gradient, in the original it has {theirs}"


def _share(distance: float, size: float) -> str:
    return f"{distance / size:.2g}" if size else "all"


def samples_of_one(original: Run, one: Run) -> Row:
    """The same indices of the same datasets in the same order."""
    theirs, ours = _training(original.ranks[0]), _training(one.ranks[0])
    batches = 0
    for key, passed in theirs.items():
        mine = ours.get(key)
        if mine is None:
            return _row("samples", one, DIFFERS, f"the pass over {passed.name} did not happen", passed.at)
        for index, (a, b) in enumerate(zip(mine.batches, passed.batches, strict=False)):
            batches += 1
            if a != b:
                words = f"batch {index + 1} of {passed.name} is {_some(a or ())} for {_some(b or ())}"
                return _row("samples", one, DIFFERS, words, mine.at)
    if not batches:
        return _row("samples", one, NOTHING, "no DataLoader feeds the training")
    return _row("samples", one, HOLDS, f"{_count(batches, 'batch')} of the same samples in the same order")


def _training(trace: Trace) -> dict[tuple[int, int], Pass]:
    return {(each.dataset, each.number): each for each in trace.passes if each.trains}


def _some(indices: Sequence[object], count: int = 6) -> str:
    shown = ", ".join(map(str, indices[:count]))
    return f"[{shown}{', ...' if len(indices) > count else ''}]"


def learning_rate_of_one(original: Run, one: Run) -> Row:
    """The same learning rates at every step."""
    return _learning_rate(original, one)


def _learning_rate(theirs: Run, ours: Run) -> Row:
    pairs = list(zip(ours.ranks[0].steps, theirs.ranks[0].steps, strict=False))
    rates: list[float] = []
    for index, (a, b) in enumerate(pairs):
        rates += a.rates
        if len(a.rates) != len(b.rates) or any(
            not compare.is_close(x, y, 1e-9 * abs(y)) for x, y in zip(a.rates, b.rates, strict=False)
        ):
            words = f"step {index + 1}: {_rates(a.rates)} for {_rates(b.rates)}"
            return _row("learning rate", ours, DIFFERS, words, a.at, index + 1)
    if not rates:
        return _row("learning rate", ours, NOTHING, "no optimizer has one")
    spread = f"{rates[0]:g}" if len(set(rates)) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
    return _row("learning rate", ours, HOLDS, f"{spread} over {_count(len(pairs), 'step')}, as the original")


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:.6g}" for rate in rates)


def output_of_one(original: Run, one: Run) -> Row:
    """What was printed, but for times."""
    theirs = [compare.mask_times(line.text) for line in original.ranks[0].prints]
    ours = one.ranks[0].prints
    for index, line in enumerate(ours):
        if index >= len(theirs):
            return _row("output", one, DIFFERS, f"prints {line.text.strip()!r}, the original does not", line.at)
        if compare.mask_times(line.text) != theirs[index]:
            found = compare.numbers_differ(line.text, original.ranks[0].prints[index].text, 0.0)
            if found is not None:
                return _row("output", one, DIFFERS, f"prints {found[0]} for {found[1]}", line.at)
    if len(ours) < len(theirs):
        missing = original.ranks[0].prints[len(ours)]
        return _row("output", one, DIFFERS, f"does not print {missing.text.strip()!r}", missing.at)
    if not theirs:
        return _row("output", one, NOTHING, "nothing was printed")
    return _row("output", one, HOLDS, f"{_count(len(theirs), 'line')}, the same but for times")


def checkpoints_of_one(original: Run, one: Run) -> Row:
    """Every checkpoint the same, bit for bit."""
    return _checkpoints(original, one, 0.0)


# -- several processes: the same meaning


def work(evidence: Evidence) -> Row:
    """Whether every rank trains, in step with the others."""
    many = evidence.many
    idle = [trace.rank for trace in many.ranks if not trace.backwards]
    if idle:
        return _row("work", many, DIFFERS, f"{_ranks(idle)} did nothing: no backward pass")
    steps = [len(trace.steps) for trace in many.ranks]
    if len(set(steps)) > 1:
        words = ", ".join(f"rank {rank} took {_count(count, 'step')}" for rank, count in enumerate(steps))
        return _row("work", many, DIFFERS, words)
    passes = [len(trace.backwards) for trace in many.ranks]
    return _row(
        "work", many, HOLDS, f"every rank took {_count(steps[0], 'step')} and {_count(passes[0], 'backward pass')}"
    )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def samples(evidence: Evidence) -> Row:
    """Every index as often as in the original, and on one rank only."""
    baseline, many = evidence.baseline, evidence.many
    theirs = _training(baseline.ranks[0])
    seen = batches = filled = 0
    for key, passed in theirs.items():
        parts = [trace.get(key) for trace in map(_training, many.ranks)]
        if any(part is not None and part.by_batch for part in parts) or None in passed.batches[:1]:
            continue
        if any(part is None for part in parts):
            missing = [rank for rank, part in enumerate(parts) if part is None]
            if key == next(iter(theirs)):
                return _row("samples", many, DIFFERS, f"{_ranks(missing)} did not pass over {passed.name}", passed.at)
            continue  # stopped by then
        present = [part for part in parts if part is not None]
        problem, counted, added = _dealt(passed, present)
        if problem and _told_same_data(evidence) and "seen by" in problem:
            return _row("samples", many, NATURE, f"{problem}, as the rewrite says", present[0].at)
        if problem:
            return _row("samples", many, DIFFERS, problem, present[0].at)
        seen, batches, filled = seen + counted, batches + len(passed.batches), filled + added
    if not seen:
        return _row("samples", many, NOTHING, "no DataLoader with indices feeds the training")
    more = f"; {_count(filled, 'row')} repeated to fill up, without weight" if filled else ""
    return _row(
        "samples", many, HOLDS, f"{_count(seen, 'sample')}, each as often as in the original and on one rank{more}"
    )


def _dealt(passed: Pass, parts: Sequence[Pass]) -> tuple[str, int, int]:
    """What is wrong with how a pass was dealt out, how many samples were, and how many were repeated to fill up."""
    common = min(len(part.batches) for part in parts)
    if not common or not passed.batches:
        return "", 0, 0
    rounds = [[part.batches[position] or () for part in parts] for position in range(common)]
    share = -(-len(passed.batches[0] or ()) // len(parts))
    is_split = all(len(batch) <= max(share, 1) for batch in rounds[0])
    world = len(parts)
    seen = added = 0
    originals = [batch or () for batch in passed.batches]
    for position, batches in enumerate(rounds):
        expected = originals[position : position + 1]
        is_dealt = not is_split and not all(Counter(batch) == Counter(expected[0]) for batch in batches if expected)
        if is_dealt:
            expected = originals[position * world : position * world + world]
        if not expected:
            break
        union = Counter(index for batch in batches for index in batch)
        wanted = Counter(index for batch in expected for index in batch)
        lost, extra = wanted - union, union - wanted
        twice = [index for index in extra if sum(index in batch for batch in batches) > 1]
        many = sum(extra.values())
        fills = many < world if is_split else is_dealt and position == common - 1 and len(expected) < world
        if lost:
            return f"batch {position + 1} of {passed.name}: no rank sees {_some(list(lost))}", seen, added
        if twice and not fills:
            words = f"batch {position + 1} of {passed.name}: {_some(twice)} are seen by {len(batches)} ranks"
            return words + (f", all of {len(wanted)}" if len(twice) == len(wanted) else ""), seen, added
        if extra and not fills:
            return f"batch {position + 1} of {passed.name}: {_some(list(extra))} are not in the original's", seen, added
        seen, added = seen + sum(wanted.values()), added + many
    total = sum(map(len, originals))
    if passed.is_over and all(part.is_over for part in parts) and seen < total:
        return f"{total - seen} of the {total} samples of {passed.name} are seen by no rank", seen, added
    return "", seen, added


def data(evidence: Evidence) -> Row:
    """Whether the ranks compute on data of their own."""
    many = evidence.many
    losses = [trace.losses for trace in many.ranks]
    least = min(map(len, losses))
    if not least or many.world == 1:
        return _row("data", many, NOTHING, "nothing to compare")
    theirs = evidence.baseline.ranks[0].losses
    if len(set(theirs)) == 1 and len(theirs) > 1:
        return _row("data", many, NOTHING, "the loss never changes")
    for rank, others in enumerate(losses[1:], 1):
        if others[:least] == losses[0][:least]:
            at = many.ranks[0].backwards[0].at
            told = _told_same_data(evidence)
            if told:
                return _row(
                    "data", many, NATURE, f"all ranks compute on the same data, as the rewrite says: {told[0]}", at
                )
            words = f"ranks 0 and {rank} compute on the same data: all {_count(least, 'loss')} are identical"
            return _row("data", many, DIFFERS, words, at)
    return _row("data", many, HOLDS, "every rank computes on data of its own")


def _told_same_data(evidence: Evidence) -> list[str]:
    return [note for note in evidence.notes if "same data" in note]


def agreement(evidence: Evidence) -> Row:
    """Whether every rank holds the same parameters after every step."""
    many = evidence.many
    first = many.ranks[0]
    compared = 0
    for index, steps in enumerate(zip(*(trace.steps for trace in many.ranks), strict=False)):
        for rank, step in enumerate(steps):
            for number, (mine, other) in enumerate(zip(steps[0].digests, step.digests, strict=False)):
                if mine != other:
                    name = _parameter(first, steps[0], number)
                    words = f"{name} differs between ranks 0 and {rank} after step {index + 1}"
                    return _row("ranks agree", many, DIFFERS, words, step.at, index + 1)
        compared += bool(steps[0].digests)
    if not compared:
        return _row("ranks agree", many, NOTHING, "no step to compare")
    return _row(
        "ranks agree",
        many,
        HOLDS,
        f"all parameters equal on {many.world} ranks after each of {_count(compared, 'step')}",
    )


def _why_by_nature(evidence: Evidence) -> str | None:
    """What makes the losses over several processes differ although nothing is wrong."""
    many = evidence.many
    if evidence.cannot_split:
        return (
            f"the script does not run on parts of a batch ({evidence.cannot_split}), so that a step's batch is larger"
        )
    seeds = [sorted({(stream, value) for stream, value, _ in trace.seeds}) for trace in many.ranks]
    # Rank 0 keeps the original's stream, so the others tell whether anything was drawn from one of their own.
    draws = any(nature.kind == "own draw" for trace in many.ranks[1:] for nature in trace.natures)
    if draws and any(seed != seeds[0] for seed in seeds[1:]):
        where = next((at for _, _, at in many.ranks[-1].seeds[::-1] if at), None)
        return f"{OWN_RANDOM_NUMBERS} ({where or 'seeded by rank'})"
    if many.ranks[0].shards:
        times = f"so a step's batch is {many.world} times the original's"
        return f"each rank takes whole elements of its own, {times} ({many.ranks[0].shards[0]})"
    drawn = [nature for nature in many.ranks[0].natures if nature.kind == "draw"]
    if drawn:
        return f"random numbers are drawn in the training step ({drawn[0].what} at {drawn[0].at})"
    bare = [each for each in many.ranks[0].natures if each.kind == "BatchNorm" and each.what]
    return f"BatchNorm {bare[0].what} ({bare[0].at})" if bare else None


def losses(evidence: Evidence) -> Row:
    """The mean over ranks of every loss, within the tolerance."""
    baseline, many = evidence.baseline, evidence.many
    theirs = baseline.ranks[0].backwards
    rows = list(zip(*(trace.backwards for trace in many.ranks), strict=False))
    nature = _why_by_nature(evidence)
    size = sum(abs(each.loss) for each in theirs if math.isfinite(each.loss)) / max(len(theirs), 1)
    furthest = 0.0
    kinds = [known.kind for known in many.ranks[0].optimizers.values()]
    if problem := _first_loss_of_rank_0(evidence, nature):
        return problem
    for index, (ranks, other) in enumerate(zip(rows, theirs, strict=False)):
        mean = sum(each.loss for each in ranks) / len(ranks)
        scale = max(abs(other.loss), 0.1 * size)
        more = compare.amplification(kinds, len(many.ranks[0].steps) and index + 1)
        allowed = compare.tolerance(other.dtype, index + 1) * more * scale
        if compare.is_close(mean, other.loss, allowed):
            furthest = max(furthest, abs(mean - other.loss) / scale if scale and math.isfinite(mean) else 0.0)
            continue
        values = ", ".join(f"{each.loss:.6g}" for each in ranks)
        words = (
            f"backward pass {index + 1}: {mean:.6g} (mean of {values}) for {other.loss:.6g}{_factor(mean, other.loss)}"
        )
        if nature:
            return _row("losses", many, NATURE, f"{nature}; {words}", ranks[0].at, index + 1)
        return _row("losses", many, DIFFERS, words, ranks[0].at, index + 1)
    if not rows:
        return _row("losses", many, NOTHING, "no backward pass on every rank")
    if len(rows) != len(theirs):
        status = NATURE if nature else DIFFERS
        return _row(
            "losses", many, status, f"{nature or 'the count differs'}; {len(rows)} backward passes for {len(theirs)}"
        )
    dtype = theirs[0].dtype
    allowance = f"allowed for {dtype}: {compare.tolerance(dtype):.1g} times the step"
    words = f"{_count(len(rows), 'backward pass')}, the ranks' mean within {furthest:.1g} ({allowance})"
    return _row("losses", many, HOLDS, words)


def _first_loss_of_rank_0(evidence: Evidence, nature: str | None) -> Row | None:
    """Where every rank has batches of its own, rank 0 has the original's first one, and so its first loss."""
    many, baseline = evidence.many, evidence.baseline.ranks[0]
    own_batches = many.ranks[0].shards or (nature or "").startswith(OWN_RANDOM_NUMBERS)
    if not own_batches or _training(baseline) or not many.ranks[0].backwards:
        return None
    mine, other = many.ranks[0].backwards[0], baseline.backwards[0]
    if compare.is_close(mine.loss, other.loss, compare.tolerance(other.dtype) * abs(other.loss)):
        return None
    words = f"the first loss of rank 0 is {mine.loss:.6g} for {other.loss:.6g}{_factor(mine.loss, other.loss)}"
    return _row("losses", many, DIFFERS, words, mine.at, 1)


def gradients(evidence: Evidence) -> Row:
    """The gradients that every step uses, within the tolerance."""
    baseline, many = evidence.baseline.ranks[0], evidence.many.ranks[0]
    furthest, compared = 0.0, 0
    kinds = [known.kind for known in many.optimizers.values()]
    nature = _why_by_nature(evidence)
    for index, (a, b) in enumerate(zip(many.steps, baseline.steps, strict=False)):
        whole = compare.norm(b.gradients)
        for number, (mine, other) in enumerate(zip(a.gradients, b.gradients, strict=False)):
            if mine is None and other is None:
                continue
            name = _parameter(many, a, number)
            words = ""
            compared += 1
            if mine is None or other is None:
                words = _one_has_none(name, mine)
                if (mine or other or (0.0,))[0] == 0.0:
                    words = ""
            else:
                size = max(other[0], compare.FLOOR * whole)
                apart = compare.distance(mine, other)
                more = compare.amplification(kinds, index + 1)
                allowed = compare.tolerance(_dtype(many, a, number), index + 1) * more * size
                if compare.is_close(apart, 0.0, allowed) or mine == other or not math.isfinite(other[0]):
                    furthest = max(furthest, apart / size if size and math.isfinite(apart) else 0.0)
                else:
                    words = _how_far(name, mine, other)
            if words:
                status, front = (NATURE, f"{nature}; ") if nature else (DIFFERS, "")
                return _row("gradients", evidence.many, status, f"{front}{words} at step {index + 1}", a.at, index + 1)
    if not compared:
        return _row("gradients", evidence.many, NOTHING, "no optimizer step has any")
    return _row("gradients", evidence.many, HOLDS, f"those of every step within {furthest:.1g} of the original's")


def _how_far(name: str, mine: Sketch, other: Sketch) -> str:
    factor = compare.ratio(mine, other)
    if factor is not None and abs(factor - 1) > 1e-3:
        return f"the gradient of {name} is {compare.in_words(factor)} the original's"
    return f"the gradient of {name} differs by {_share(compare.distance(mine, other), other[0])} of its size"


def _dtype(trace: Trace, step: Step, number: int) -> str:
    known = trace.optimizers.get(step.optimizer)
    return known.dtypes[number] if known and number < len(known.dtypes) else "float32"


def parameters(evidence: Evidence) -> Row:
    """The parameters after the last step: how far apart, as a share of how far they moved."""
    baseline, many = evidence.baseline.ranks[0], evidence.many.ranks[0]
    last: dict[int, tuple[Step, Step, int]] = {}
    for index, (a, b) in enumerate(zip(many.steps, baseline.steps, strict=False)):
        last[a.optimizer] = a, b, index + 1
    furthest, compared = 0.0, 0
    nature = _why_by_nature(evidence)
    for number, (a, b, step) in last.items():
        known = baseline.optimizers.get(number)
        if known is None or not a.sketches:
            continue
        compared += len(a.sketches)
        triples = list(zip(a.sketches, b.sketches, known.start, strict=False))
        apart = [compare.distance(mine, other) for mine, other, _ in triples]
        moved = math.sqrt(sum(compare.distance(other, start) ** 2 for _, other, start in triples))
        rounding = 32 * compare.EPSILON.get(known.dtypes[0], 1e-7) * compare.norm(b.sketches)
        whole = math.sqrt(sum(value**2 for value in apart))
        if math.isfinite(moved) and not whole <= compare.APART * moved + rounding:
            worst = max(range(len(apart)), key=lambda index: apart[index])
            words = f"{known.names[worst]} is apart by {_share(whole, moved)} of the way it moved, after step {step}"
            status, front = (NATURE, f"{nature}; ") if nature else (DIFFERS, "")
            return _row("parameters", evidence.many, status, front + words, a.at, step)
        furthest = max(furthest, whole / moved if moved else 0.0)
    if not compared:
        return _row("parameters", evidence.many, NOTHING, "no parameter was stepped")
    words = f"{_count(compared, 'parameter')} after the last step, apart by {furthest:.1g} of the way they moved"
    return _row("parameters", evidence.many, HOLDS, words)


def learning_rate(evidence: Evidence) -> Row:
    """The same learning rates at every step."""
    row = _learning_rate(evidence.baseline, evidence.many)
    if row.status is DIFFERS and (evidence.many.ranks[0].shards or evidence.cannot_split):
        why = _why_by_nature(evidence)
        return _row("learning rate", evidence.many, NATURE, f"{why}; {row.words}", row.at, row.step)
    return row


def evaluation(evidence: Evidence) -> Row:
    """What rank 0 printed after evaluating, number by number."""
    many = evidence.many
    theirs = [line for line in evidence.baseline.ranks[0].prints if line.evaluation]
    ours = [line for line in many.ranks[0].prints if line.evaluation]
    nature = _why_by_nature(evidence)
    steps = len(evidence.baseline.ranks[0].steps)
    if not theirs:
        return _row("evaluation", many, NOTHING, "nothing was printed after evaluating")
    for index, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        found = compare.numbers_differ(a.text, b.text, compare.tolerance("float32", steps))
        if found is None:
            continue
        words = f"prints {found[0]} for {found[1]}{_of_the_ranks(many, index, found)}"
        if nature:
            return _row("evaluation", many, NATURE, f"{nature}; {words}", a.at)
        return _row("evaluation", many, DIFFERS, words, a.at)
    if len(ours) != len(theirs):
        status = NATURE if nature and (many.ranks[0].shards or evidence.cannot_split) else DIFFERS
        return _row(
            "evaluation", many, status, f"{_count(len(ours), 'line')} after evaluating for {len(theirs)}", theirs[0].at
        )
    return _row("evaluation", many, HOLDS, f"{_count(len(ours), 'line')} with the same numbers")


def _of_the_ranks(many: Run, index: int, found: tuple[str, str]) -> str:
    """Whether a number is one rank's own: the others printed another."""
    lines = [[line for line in trace.prints if line.evaluation] for trace in many.ranks]
    texts = {each[index].text for each in lines if index < len(each)}
    return ": each rank prints a number of its own share, so it is not gathered" if len(texts) > 1 else ""


def checkpoints(evidence: Evidence) -> Row:
    """The same keys, kinds and, within the tolerance, values."""
    steps = len(evidence.baseline.ranks[0].steps)
    row = _checkpoints(evidence.baseline, evidence.many, 10 * compare.tolerance("float32", steps))
    nature = _why_by_nature(evidence)
    if row.status is DIFFERS and nature and "value" in row.words:
        return _row("checkpoints", evidence.many, NATURE, f"{nature}; {row.words}", row.at)
    return row


def _checkpoints(theirs: Run, ours: Run, relative: float) -> Row:
    wanted = _by_path(theirs.ranks[0])
    found: dict[tuple[str, int], Checkpoint] = {}
    for trace in reversed(ours.ranks):
        found.update(_by_path(trace))
    if not wanted:
        return _row("checkpoints", ours, NOTHING, "none was written")
    for key, checkpoint in wanted.items():
        mine = found.get(key)
        if mine is None:
            return _row(
                "checkpoints", ours, DIFFERS, f"{checkpoint.path or 'a checkpoint'} is not written", checkpoint.at
            )
        problem = _compare_leaves(mine, checkpoint, relative)
        if problem:
            return _row("checkpoints", ours, DIFFERS, f"{checkpoint.path or 'a checkpoint'}: {problem}", mine.at)
    how = "same keys and shapes, values within the tolerance" if relative else "the same bit for bit"
    return _row("checkpoints", ours, HOLDS, f"{_count(len(wanted), 'checkpoint')}, {how}")


def _by_path(trace: Trace) -> dict[tuple[str, int], Checkpoint]:
    """Checkpoints by their final path, digits masked (dates, steps), and which of that path they are."""
    renamed = {write.source: write.path for write in trace.writes if write.source}
    counts: Counter[str] = Counter()
    found = {}
    for each in trace.checkpoints:
        path = renamed.get(each.path, each.path) if each.path else None
        name = _masked(path or "in memory")
        found[name, counts[name]] = Checkpoint(path, each.at, each.leaves)
        counts[name] += 1
    return found


def _masked(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _compare_leaves(mine: Checkpoint, theirs: Checkpoint, relative: float) -> str:
    ours, others = {leaf.key: leaf for leaf in mine.leaves}, {leaf.key: leaf for leaf in theirs.leaves}
    if missing := others.keys() - ours.keys():
        return f"the key {min(missing)} is missing"
    if more := ours.keys() - others.keys():
        return f"the key {min(more)} is new"
    apart = size = 0.0
    for key, other in others.items():
        leaf = ours[key]
        if leaf.kind != other.kind:
            return f"{key} is {leaf.kind} for {other.kind}"
        if leaf.value == other.value:
            continue
        if not relative or not leaf.sketch or leaf.kind.startswith(("int", "bool")):
            return f"the value of {key} is not the original's"
        if len(leaf.sketch) == 1:
            if not compare.is_close(leaf.sketch[0], other.sketch[0], relative * abs(other.sketch[0])):
                return f"the value of {key} is {leaf.value} for {other.value}"
            continue
        apart += compare.distance(leaf.sketch, other.sketch) ** 2
        size += other.sketch[0] ** 2
    if math.sqrt(apart) > relative * math.sqrt(size) and apart:
        return f"the values are apart by {_share(math.sqrt(apart), math.sqrt(size))} of their size"
    return ""


def files(evidence: Evidence) -> Row:
    """Whether two ranks wrote one file, and whether all of the original's were written."""
    many = evidence.many
    writers: dict[str, dict[int, str | None]] = {}
    for trace in many.ranks:
        for path, at in _written(trace):
            writers.setdefault(path, {}).setdefault(trace.rank, at)
    for path, ranks in writers.items():
        if len(ranks) > 1:
            lines = sorted({at for at in ranks.values() if at})
            words = f"{path} is written by {_ranks(sorted(ranks))} (at {', '.join(lines)})"
            return _row("files", many, DIFFERS, words, lines[0] if lines else None)
    wanted = dict(_written(evidence.baseline.ranks[0]))
    present = {_masked(path) for path in writers}
    missing = [path for path in wanted if _masked(path) not in present]
    is_even = {trace.end.how for trace in (*many.ranks, evidence.baseline.ranks[0])}
    if missing and len(is_even) == 1:
        return _row("files", many, DIFFERS, f"{missing[0]} is not written", wanted[missing[0]])
    if not wanted:
        return _row("files", many, NOTHING, "none was written")
    return _row("files", many, HOLDS, f"{_count(len(writers), 'file')}, each written by one rank")


def _written(trace: Trace) -> Iterator[tuple[str, str | None]]:
    """Files in the project that a rank wrote, without those that it renamed away."""
    gone = {write.source for write in trace.writes if write.source}
    for write in trace.writes:
        is_inside = not write.path.startswith("/")
        if write.how != "mkdir" and is_inside and write.path not in gone:
            yield write.path, write.at


def _ending_of_many(evidence: Evidence) -> Row:
    return ending(evidence.baseline, evidence.many)


SINGLE: tuple[Callable[[Run, Run], Row], ...] = (
    ending,
    samples_of_one,
    learning_rate_of_one,
    losses_of_one,
    parameters_of_one,
    output_of_one,
    checkpoints_of_one,
)
SEVERAL: tuple[Callable[[Evidence], Row], ...] = (
    _ending_of_many,
    work,
    samples,
    data,
    agreement,
    learning_rate,
    losses,
    gradients,
    parameters,
    evaluation,
    checkpoints,
    files,
)
