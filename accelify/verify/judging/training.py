"""Losses, gradients, learning rates and parameters: bit for bit in one process, in meaning in several."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accelify.verify import compare
from accelify.verify.judging.evidence import (
    OWN_RANDOM_NUMBERS,
    Evidence,
    draws_batches,
    training_passes,
    why_by_nature,
)
from accelify.verify.judging.rounding import MARGIN, Rounding
from accelify.verify.judging.words import (
    DIFFERS,
    HOLDS,
    NATURE,
    NOTHING,
    counted,
    factor_of,
    make_row,
    named_ranks,
    one_has_none,
    parameter_name,
    share,
)
from accelify.verify.trace import Run, Sketch, Step, Trace
from accelify.verify.verdict import Row


def losses_of_one(original: Run, one: Run) -> Row:
    """Every loss the same, bit for bit."""
    theirs, ours = original.ranks[0].backwards, one.ranks[0].backwards
    for index, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if not compare.same_bits(a.loss, b.loss):
            words = f"backward pass {index + 1}: {a.loss:.9g} for {b.loss:.9g}{factor_of(a.loss, b.loss)}"
            return make_row("losses", one, DIFFERS, words, a.at, index + 1)
    if len(theirs) != len(ours):
        return make_row("losses", one, DIFFERS, f"{counted(len(ours), 'backward pass')} for {len(theirs)}")
    return make_row("losses", one, HOLDS, f"{counted(len(ours), 'backward pass')}, the same bit for bit")


def losses(evidence: Evidence) -> Row:
    """The mean over ranks of every loss, within the tolerance."""
    baseline, many = evidence.baseline, evidence.many
    theirs = baseline.ranks[0].backwards
    rows = list(zip(*(trace.backwards for trace in many.ranks), strict=False))
    nature = why_by_nature(evidence)
    size = sum(abs(each.loss) for each in theirs if math.isfinite(each.loss)) / max(len(theirs), 1)
    furthest = 0.0
    rounding = Rounding(evidence).of_losses()
    if problem := _first_loss_of_rank_0(evidence, nature):
        return problem
    for index, (ranks, other) in enumerate(zip(rows, theirs, strict=False)):
        mean = sum(each.loss for each in ranks) / len(ranks)
        scale = max(abs(other.loss), 0.1 * size)
        allowed = compare.tolerance(other.dtype) * scale + (rounding[: index + 1] or [0.0])[-1]
        if compare.is_close(mean, other.loss, allowed):
            furthest = max(furthest, abs(mean - other.loss) / scale if scale and math.isfinite(mean) else 0.0)
            continue
        zero = [rank for rank, each in enumerate(ranks) if each.loss == 0.0]
        if zero and len(zero) < len(ranks) and other.loss:
            words = f"backward pass {index + 1}: the loss of {named_ranks(zero)} is zero, so that its samples are lost"
            return make_row("losses", many, DIFFERS, words, ranks[zero[0]].at, index + 1)
        values = ", ".join(f"{each.loss:.6g}" for each in ranks)
        factor = factor_of(mean, other.loss)
        words = f"backward pass {index + 1}: {mean:.6g} (mean of {values}) for {other.loss:.6g}{factor}"
        if nature:
            return make_row("losses", many, NATURE, f"{nature}; {words}", ranks[0].at, index + 1)
        return make_row("losses", many, DIFFERS, words, ranks[0].at, index + 1)
    if not rows:
        return make_row("losses", many, NOTHING, "no backward pass on every rank")
    if len(rows) != len(theirs):
        status = NATURE if nature else DIFFERS
        return make_row(
            "losses", many, status, f"{nature or 'the count differs'}; {len(rows)} backward passes for {len(theirs)}"
        )
    dtype = theirs[0].dtype
    allowance = f"allowed for {dtype}: {compare.tolerance(dtype):.1g}"
    if rounding:
        allowance += f", and {MARGIN} times what the original moves when it is perturbed by rounding"
    words = f"{counted(len(rows), 'backward pass')}, the ranks' mean within {furthest:.1g} ({allowance})"
    return make_row("losses", many, HOLDS, words)


def _first_loss_of_rank_0(evidence: Evidence, nature: str | None) -> Row | None:
    """Where every rank has batches of its own, rank 0 has the original's first one, and so its first loss."""
    many, baseline = evidence.many, evidence.baseline.ranks[0]
    own_batches = many.ranks[0].shards or (nature or "").startswith(OWN_RANDOM_NUMBERS)
    if draws_batches(evidence) is None and (not own_batches or training_passes(baseline)):
        return None
    if not many.ranks[0].backwards:
        return None
    mine, other = many.ranks[0].backwards[0], baseline.backwards[0]
    if compare.is_close(mine.loss, other.loss, compare.tolerance(other.dtype) * abs(other.loss)):
        return None
    words = f"the first loss of rank 0 is {mine.loss:.6g} for {other.loss:.6g}{factor_of(mine.loss, other.loss)}"
    return make_row("losses", many, DIFFERS, words, mine.at, 1)


def gradients(evidence: Evidence) -> Row:
    """The gradients that every step uses, within the tolerance."""
    baseline, many = evidence.baseline.ranks[0], evidence.many.ranks[0]
    furthest, compared = 0.0, 0
    rounding = Rounding(evidence).of_gradients()
    nature = why_by_nature(evidence)
    for index, (a, b) in enumerate(zip(many.steps, baseline.steps, strict=False)):
        whole = compare.norm(b.gradients)
        for number, (mine, other) in enumerate(zip(a.gradients, b.gradients, strict=False)):
            if mine is None and other is None:
                continue
            name = parameter_name(many, a, number)
            words = ""
            compared += 1
            if mine is None or other is None:
                words = one_has_none(name, mine)
                if (mine or other or (0.0,))[0] == 0.0:
                    words = ""
            else:
                size = max(other[0], compare.FLOOR * whole)
                apart = compare.distance(mine, other)
                allowed = compare.tolerance(_dtype(many, a, number)) * size + rounding[index][number]
                if compare.is_close(apart, 0.0, allowed) or mine == other or not math.isfinite(other[0]):
                    furthest = max(furthest, apart / size if size and math.isfinite(apart) else 0.0)
                else:
                    words = _how_far(name, mine, other)
            if words:
                status, front = (NATURE, f"{nature}; ") if nature else (DIFFERS, "")
                return make_row(
                    "gradients", evidence.many, status, f"{front}{words} at step {index + 1}", a.at, index + 1
                )
    if not compared:
        return make_row("gradients", evidence.many, NOTHING, "no optimizer step has any")
    return make_row("gradients", evidence.many, HOLDS, f"those of every step within {furthest:.1g} of the original's")


def _gradient_words(trace: Trace, ours: Step, theirs: Step) -> str:
    for number, (a, b) in enumerate(zip(ours.gradients, theirs.gradients, strict=False)):
        if a == b or (a is None and b is None):
            continue
        name = parameter_name(trace, ours, number)
        if a is None or b is None:
            return one_has_none(name, a)
        factor = compare.ratio(a, b)
        if factor is not None and abs(factor - 1) > 1e-4:
            return f"the gradient of {name} is {compare.in_words(factor)} the original's"
        return f"the gradient of {name} differs by {share(compare.distance(a, b), b[0])} of its size"
    return ""


def _how_far(name: str, mine: Sketch, other: Sketch) -> str:
    factor = compare.ratio(mine, other)
    if factor is not None and abs(factor - 1) > 1e-3:
        return f"the gradient of {name} is {compare.in_words(factor)} the original's"
    return f"the gradient of {name} differs by {share(compare.distance(mine, other), other[0])} of its size"


def _dtype(trace: Trace, step: Step, number: int) -> str:
    known = trace.optimizers.get(step.optimizer)
    return known.dtypes[number] if known and number < len(known.dtypes) else "float32"


def parameters_of_one(original: Run, one: Run) -> Row:
    """Every parameter the same after every step, bit for bit."""
    theirs, ours = original.ranks[0], one.ranks[0]
    for index, (a, b) in enumerate(zip(ours.steps, theirs.steps, strict=False)):
        for number, (mine, other) in enumerate(zip(a.digests, b.digests, strict=False)):
            if mine != other:
                name = parameter_name(ours, a, number)
                cause = _gradient_words(ours, a, b)
                words = f"{name} diverges at step {index + 1}" + (f": {cause}" if cause else "")
                return make_row("parameters", one, DIFFERS, words, a.at, index + 1)
    if len(theirs.steps) != len(ours.steps):
        return make_row("parameters", one, DIFFERS, f"{counted(len(ours.steps), 'step')} for {len(theirs.steps)}")
    if not any(step.digests for step in ours.steps):
        return make_row("parameters", one, NOTHING, "no parameter that an optimizer or a module holds was stepped")
    count = sum(len(known.names) for known in ours.optimizers.values())
    words = f"{counted(count, 'parameter')} after each of {counted(len(ours.steps), 'step')}, the same bit for bit"
    return make_row("parameters", one, HOLDS, words)


def start_of_one(original: Run, one: Run) -> Row:
    """The same parameters in each optimizer, with the same values before its first step."""
    theirs, ours = original.ranks[0].optimizers, one.ranks[0].optimizers
    for number, known in theirs.items():
        mine = ours.get(number)
        if mine is None:
            continue
        words = f"optimizer {number + 1} steps {counted(len(mine.names), 'parameter')} for {len(known.names)}"
        if len(mine.names) != len(known.names):
            missing = [name for name in known.names if name not in mine.names]
            words += f": not {', '.join(missing[:3])}" if missing else ""
            return make_row("start", one, DIFFERS, words, _first_step(one, number))
        for name, a, b in zip(mine.names, mine.start, known.start, strict=False):
            if a != b:
                words = f"{name} begins with other values than in the original"
                return make_row("start", one, DIFFERS, words, _first_step(one, number))
    if not theirs:
        return make_row("start", one, NOTHING, "no optimizer steps")
    count = counted(sum(len(known.names) for known in theirs.values()), "parameter")
    return make_row("start", one, HOLDS, f"{count} with the same values before the first step")


def _first_step(run: Run, optimizer: int) -> str | None:
    return next((step.at for step in run.ranks[0].steps if step.optimizer == optimizer), None)


def parameters(evidence: Evidence) -> Row:
    """The parameters after the last step: how far apart, as a fraction of how far they moved."""
    baseline, many = evidence.baseline.ranks[0], evidence.many.ranks[0]
    last: dict[int, tuple[Step, Step, int]] = {}
    for index, (a, b) in enumerate(zip(many.steps, baseline.steps, strict=False)):
        last[a.optimizer] = a, b, index + 1
    furthest, compared = 0.0, 0
    nature, perturbed = why_by_nature(evidence), Rounding(evidence)
    for number, (a, b, step) in last.items():
        known = baseline.optimizers.get(number)
        if known is None or not a.sketches:
            continue
        compared += len(a.sketches)
        triples = list(zip(a.sketches, b.sketches, known.start, strict=False))
        noise = _noise(many, baseline, number)
        apart = [
            0.0 if index in noise else compare.distance(mine, other) for index, (mine, other, _) in enumerate(triples)
        ]
        moved = math.sqrt(sum(compare.distance(other, start) ** 2 for _, other, start in triples))
        rounding = 32 * compare.EPSILON.get(known.dtypes[0], 1e-7) * compare.norm(b.sketches)
        whole = math.sqrt(sum(value**2 for value in apart))
        rounding += perturbed.of_parameters(number, [index for index in range(len(triples)) if index not in noise])
        if math.isfinite(moved) and not whole <= compare.tolerance(known.dtypes[0]) * moved + rounding:
            worst = max(range(len(apart)), key=lambda index: apart[index])
            words = f"{known.names[worst]} differs by {share(whole, moved)} of the way it moved, after step {step}"
            status, front = (NATURE, f"{nature}; ") if nature else (DIFFERS, "")
            return make_row("parameters", evidence.many, status, front + words, a.at, step)
        furthest = max(furthest, whole / moved if moved else 0.0)
    if not compared:
        return make_row("parameters", evidence.many, NOTHING, "no parameter was stepped")
    words = f"{counted(compared, 'parameter')} after the last step, apart by {furthest:.1g} of the way they moved"
    return make_row("parameters", evidence.many, HOLDS, words)


def _noise(many: Trace, baseline: Trace, optimizer: int) -> frozenset[int]:
    """The parameters whose gradient is zero in exact arithmetic, at every step of both runs.

    A bias before a normalisation, or of an attention's keys: optimizers that divide by a gradient's size step these
    anywhere, and nothing depends on them.
    """
    found: frozenset[int] | None = None
    for trace in (many, baseline):
        known = trace.optimizers[optimizer]
        for step in trace.steps:
            if step.optimizer == optimizer:
                whole = compare.norm(step.gradients)
                small = frozenset(
                    index
                    for index, (each, dtype) in enumerate(zip(step.gradients, known.dtypes, strict=False))
                    if each is not None and each[0] and compare.is_noise(each, whole, dtype)
                )
                found = small if found is None else found & small
    return found or frozenset()


def agreement(evidence: Evidence) -> Row:
    """Whether every rank holds the same parameters after every step."""
    many = evidence.many
    first = many.ranks[0]
    compared = 0
    for index, steps in enumerate(zip(*(trace.steps for trace in many.ranks), strict=False)):
        for rank, step in enumerate(steps):
            for number, (mine, other) in enumerate(zip(steps[0].digests, step.digests, strict=False)):
                if mine != other:
                    name = parameter_name(first, steps[0], number)
                    words = f"{name} differs between ranks 0 and {rank} after step {index + 1}"
                    return make_row("ranks agree", many, DIFFERS, words, step.at, index + 1)
        compared += bool(steps[0].digests)
    if not compared:
        return make_row("ranks agree", many, NOTHING, "no step to compare")
    return make_row(
        "ranks agree",
        many,
        HOLDS,
        f"all parameters equal on {many.world} ranks after each of {counted(compared, 'step')}",
    )


def learning_rate_of_one(original: Run, one: Run) -> Row:
    """The same learning rates at every step."""
    return _learning_rate(original, one)


def learning_rate(evidence: Evidence) -> Row:
    """The same learning rates at every step."""
    row = _learning_rate(evidence.baseline, evidence.many)
    if row.status is DIFFERS and (evidence.many.ranks[0].shards or evidence.cannot_split):
        why = why_by_nature(evidence)
        return make_row("learning rate", evidence.many, NATURE, f"{why}; {row.words}", row.at, row.step)
    return row


def _learning_rate(theirs: Run, ours: Run) -> Row:
    pairs = list(zip(ours.ranks[0].steps, theirs.ranks[0].steps, strict=False))
    rates: list[float] = []
    for index, (a, b) in enumerate(pairs):
        rates += a.rates
        if len(a.rates) != len(b.rates) or any(
            not compare.is_close(x, y, 1e-9 * abs(y)) for x, y in zip(a.rates, b.rates, strict=False)
        ):
            words = f"step {index + 1}: {_rates(a.rates)} for {_rates(b.rates)}"
            return make_row("learning rate", ours, DIFFERS, words, a.at, index + 1)
    if not rates:
        return make_row("learning rate", ours, NOTHING, "no optimizer has one")
    spread = f"{rates[0]:g}" if len(set(rates)) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
    return make_row("learning rate", ours, HOLDS, f"{spread} over {counted(len(pairs), 'step')}, as the original")


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:.6g}" for rate in rates)
