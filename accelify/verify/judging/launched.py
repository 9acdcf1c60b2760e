"""Several processes as `accelify launch` starts them: with the script's own batches, dropout, noise and augmentation.

Nothing is made comparable here, so numbers are not compared with the original's, but what must hold of any such run is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelify.verify import compare
from accelify.verify.judging import data, endings
from accelify.verify.judging.evidence import Evidence, notes_on_same_data, training_passes
from accelify.verify.judging.outputs import OF_ONE_STEP, by_site, is_of_one_step, own_number
from accelify.verify.judging.words import DIFFERS, HOLDS, NATURE, NOTHING, counted, make_row
from accelify.verify.trace import Pass, Print, Run, Step
from accelify.verify.verdict import Row

# How the notes of the rewrite say that a step learns from more than it did.
LEARNS_FROM_MORE = ("a step learns from", "learn from N", "1/N of the steps", "N times")


def ending(evidence: Evidence) -> Row:
    """Whether all ranks come to an end, and to the same."""
    many, original = evidence.many, evidence.baseline
    if many.hang or many.error is not None or {trace.end.how for trace in many.ranks} == {"exit"}:
        return endings.ending(original if original.ranks[0].end.how == "exit" else many, many)
    steps = [len(trace.steps) for trace in many.ranks]
    if original.ranks[0].end.how != "exit" and len({trace.end.how for trace in many.ranks}) == 1:
        return make_row("ending", many, HOLDS, f"every rank takes {counted(steps[0], 'step')} without an error")
    return endings.ending(original, many)


@dataclass(frozen=True, slots=True)
class Batches:
    """How many samples the steps of a pass learn from together, and how many batches the pass has if it ended."""

    samples: int
    count: int | None
    is_prepared: bool  # by Hugging Face Accelerate


def _batches(parts: Sequence[Pass]) -> Batches | None:
    firsts = [part.batches[0] if part.batches else None for part in parts]
    if not parts or any(first is None for first in firsts):
        return None
    is_over, is_prepared = all(part.is_over for part in parts), all(part.prepared for part in parts)
    count = len(parts[0].batches) if is_over else None
    return Batches(sum(len(first or ()) for first in firsts), count, is_prepared)


def times(original: Run, many: Run) -> float | None:
    """How many times the original's samples a step learns from; None where no DataLoader says."""
    for theirs, ours, parts in _passes_of_all(original, many):
        return 1.0 if any(part.by_batch for part in parts) else ours.samples / theirs.samples
    return None


def _passes_of_all(original: Run, many: Run) -> Iterator[tuple[Batches, Batches, list[Pass]]]:
    """The batches of the passes that the original and all ranks learn from, where their samples are known."""
    ranks = [training_passes(trace) for trace in many.ranks]
    for key, passed in training_passes(original.ranks[0]).items():
        parts = [passes[key] for passes in ranks if key in passes]
        theirs, ours = _batches([passed]), _batches(parts)
        if len(parts) == len(ranks) and theirs is not None and ours is not None and theirs.samples:
            yield theirs, ours, parts


def samples(evidence: Evidence) -> Row:
    """Whether each pass sees every sample as often as the original, if in another order from the second pass on.

    What is drawn inside loops moves the stream on in one process; over several it is each rank's own.
    """
    row = data.samples(evidence)
    if row.status is not DIFFERS:
        return row
    for key, passed in training_passes(evidence.baseline.ranks[0]).items():
        parts = [trace.get(key) for trace in map(training_passes, evidence.many.ranks)]
        if not data.sees_each(passed, [part for part in parts if part is not None]):
            return row
    drawn = [passed for passed in training_passes(evidence.baseline.ranks[0]).values() if data.repeats(passed)]
    words = "each pass sees every sample as often, in another order"
    if drawn:
        words = f"{drawn[0].name} is drawn from with replacement: each pass takes as many samples"
    return make_row("samples", evidence.many, HOLDS, words)


def batches(evidence: Evidence) -> Row:
    """Whether a step learns from as many samples as the notes of the rewrite say."""
    original, many = evidence.baseline, evidence.many
    factor = times(original, many)
    if factor is None:
        return make_row("batches", many, NOTHING, "no DataLoader with indices feeds the training")
    first, mine, parts = next(_passes_of_all(original, many))
    at = parts[0].at
    if factor == 1.0:
        return make_row("batches", many, HOLDS, f"a step learns from {counted(first.samples, 'sample')}, as before")
    words = f"a step learns from {counted(mine.samples, 'sample')} for {first.samples}"
    if mine.count is not None and first.count is not None:
        words += f", so that an epoch has {counted(mine.count, 'step')} for {first.count}"
    if first.is_prepared:
        return make_row("batches", many, HOLDS, f"{words}, as the original does on {many.world} processes")
    told = [note for note in evidence.notes if any(words in note for words in LEARNS_FROM_MORE)]
    if told:
        return make_row("batches", many, HOLDS, f"{words}, as the rewrite says")
    status = DIFFERS if evidence.notes else NATURE
    return make_row("batches", many, status, f"{words}; no note says so" if evidence.notes else words, at)


def random_numbers(evidence: Evidence) -> Row:
    """Whether each rank draws its own dropout, noise and augmentation for its own samples."""
    many = evidence.many
    found: list[dict[str | None, list[str]]] = []
    what: dict[str | None, str] = {}
    for trace in many.ranks:
        found.append(defaultdict(list))
        for draw in trace.draws:
            found[-1][draw.at].append(draw.state)
            what.setdefault(draw.at, draw.what)
    told = notes_on_same_data(evidence)
    for at, states in found[0].items():
        for rank, others in enumerate(found[1:], 1):
            if others.get(at) and others[at][0] == states[0]:
                words = f"{what[at]} is drawn alike by ranks 0 and {rank}, though each has samples of its own"
                return make_row("random numbers", many, NATURE if told else DIFFERS, words, at)
    if not what:
        return make_row("random numbers", many, NOTHING, "nothing is drawn in loops over the data")
    kinds = ", ".join(f"{name} ({at})" if at != name else name for at, name in what.items())
    return make_row("random numbers", many, HOLDS, f"each rank draws its own: {kinds}")


def learning_rate(evidence: Evidence) -> Row:
    """Whether the learning rate is the original's at the same sample, or at least at the same step."""
    many = evidence.many
    theirs, ours = evidence.baseline.ranks[0].steps, many.ranks[0].steps
    if not any(step.rates for step in ours):
        return make_row("learning rate", many, NOTHING, "no optimizer has one")
    factor = times(evidence.baseline, many) or 1.0
    slack = round(factor) * (1 + len(training_passes(many.ranks[0])))
    is_by_sample = is_by_step = True
    is_whole = evidence.baseline.ranks[0].end.how == "exit"
    for number in {step.optimizer for step in ours}:
        mine, other = [[step for step in steps if step.optimizer == number] for steps in (ours, theirs)]
        for index, step in enumerate(mine):
            position = round(index * factor)
            window = other[max(position - slack, 0) : position + slack + 1]
            # The original may have been stopped before it came to these samples.
            is_known = position + (0 if is_whole else slack) < len(other)
            if index >= len(other) or not (is_known or is_by_step):
                break
            is_by_step = is_by_step and _is_between(step, other[index : index + 1])
            is_by_sample = is_by_sample and (not is_known or _is_between(step, window))
            if not is_by_step and not is_by_sample:
                return _other_rate(many, step, other[index], index)
    if is_by_sample:
        return make_row("learning rate", many, HOLDS, "at each sample about what it is in the original")
    words = f"the original's at the same step, so that a schedule is {1 / factor:.2g} of the way at the end of an epoch"
    return make_row("learning rate", many, NATURE, words, ours[0].at)


def _is_between(step: Step, window: Sequence[Step]) -> bool:
    """Whether the rates are within those of a part of the original."""
    for index, rate in enumerate(step.rates):
        known = [each.rates[index] for each in window if index < len(each.rates)]
        if not known or not min(known) * (1 - 1e-9) <= rate <= max(known) * (1 + 1e-9):
            return False
    return True


def _other_rate(many: Run, step: Step, other: Step, index: int) -> Row:
    ours, theirs = (", ".join(f"{rate:.6g}" for rate in each.rates) for each in (step, other))
    words = f"step {index + 1}: {ours} for {theirs}, and never that of the same samples"
    if any(nature.kind == "plateau" for nature in many.ranks[0].natures):
        return make_row("learning rate", many, NATURE, f"the schedule follows a metric; {words}", step.at, index + 1)
    return make_row("learning rate", many, DIFFERS, words, step.at, index + 1)


def printed(evidence: Evidence) -> Row:
    """Whether every number that is shown is the same on all ranks, and no rank's own."""
    many = evidence.many
    ranks = [by_site(trace.prints) for trace in many.ranks]
    shown, natural = 0, None
    for at, lines in ranks[0].items():
        for index, line in enumerate(lines):
            shown += 1
            for rank, others in enumerate(ranks[1:], 1):
                theirs = others.get(at, [])
                found = compare.numbers_differ(line.text, theirs[index].text, 0.0) if index < len(theirs) else None
                if found is None or found == ("0", str(rank)):
                    continue
                words = f"rank 0 prints {found[0]}, rank {rank} {found[1]}: a number of one rank's own, not everyone's"
                row = _own_number(evidence, words, line)
                if row.status is DIFFERS:
                    return row
                natural = natural or row
    if natural is not None:
        return natural
    if not shown:
        return make_row("printed", many, NOTHING, "nothing was printed")
    return make_row("printed", many, HOLDS, f"{counted(shown, 'line')}, no number of which is one rank's own")


def _own_number(evidence: Evidence, words: str, line: Print) -> Row:
    """That a line shows one rank's own number, and whether it may."""
    pairs = zip(evidence.original.ranks[0].prints, evidence.one.ranks[0].prints, strict=False)
    theirs = next((a.at for a, b in pairs if b.at == line.at), None)
    if is_of_one_step(evidence, line.at, theirs, beside_original=False):
        return make_row("printed", evidence.many, NATURE, f"{words}, but {OF_ONE_STEP}", line.at)
    return own_number("printed", evidence, words, line)
