"""Which samples did each rank see?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile

from accelify.verify.judging.evidence import (
    OWN_RANDOM_NUMBERS,
    Evidence,
    draws_batches,
    notes_on_same_data,
    training_passes,
    why_by_nature,
)
from accelify.verify.judging.words import (
    DIFFERS,
    HOLDS,
    NATURE,
    NOTHING,
    counted,
    make_row,
    named_ranks,
    some_of,
)
from accelify.verify.trace import Pass, Run
from accelify.verify.verdict import Row


def samples_of_one(original: Run, one: Run) -> Row:
    """The same indices of the same datasets in the same order."""
    theirs, ours = training_passes(original.ranks[0]), training_passes(one.ranks[0])
    batches = 0
    for key, passed in theirs.items():
        mine = ours.get(key)
        if mine is None:
            return make_row("samples", one, DIFFERS, f"the pass over {passed.name} did not happen", passed.at)
        for index, (a, b) in enumerate(zip(mine.batches, passed.batches, strict=False)):
            batches += 1
            if a != b:
                words = f"batch {index + 1} of {passed.name} {_other_batch(a or (), b or ())}"
                return make_row(
                    "samples", one, DIFFERS, words, mine.at, _passes_before(theirs.values(), passed, index) + 1
                )
        if mine.is_over and len(mine.batches) < len(passed.batches):
            taken, wanted = (sum(len(batch or ()) for batch in each.batches) for each in (mine, passed))
            counts = f"{counted(len(mine.batches), 'batch')} for {len(passed.batches)}, {taken} samples for {wanted}"
            words = f"pass {key[1] + 1} over {passed.name} has {counts}"
            step = _passes_before(theirs.values(), passed, len(mine.batches)) + 1
            return make_row("samples", one, DIFFERS, words, mine.at, step)
    if (short := _less_evaluated(original, one)) is not None:
        return short
    if not batches:
        return make_row("samples", one, NOTHING, "no DataLoader feeds the training")
    return make_row("samples", one, HOLDS, f"{counted(batches, 'batch')} of the same samples in the same order")


def _passes_before(passes: Iterable[Pass], passed: Pass, batch: int) -> int:
    """About how many backward passes the original took before a batch of a pass: as many for each of its batches."""
    before = sum(each.backwards for each in takewhile(lambda each: each is not passed, passes))
    return before + batch * passed.backwards // max(len(passed.batches), 1)


def _other_batch(ours: Sequence[object], theirs: Sequence[object]) -> str:
    if len(ours) != len(theirs):
        return f"has {counted(len(ours), 'sample')} for {len(theirs)}"
    first = next(index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    return f"is {some_of(ours[first:])} for {some_of(theirs[first:])}"


def _less_evaluated(original: Run, one: Run) -> Row | None:
    """A pass that only evaluates, and takes fewer samples than the original's, or more than one batch more."""
    ours = {(each.dataset, each.number): each for each in one.ranks[0].passes if not each.trains}
    for passed in original.ranks[0].passes:
        mine = ours.get((passed.dataset, passed.number))
        if passed.trains or mine is None or one.error is not None or None in (*passed.batches, *mine.batches):
            continue
        taken, wanted = (sum(len(batch or ()) for batch in each.batches) for each in (mine, passed))
        if taken < wanted or len(mine.batches) > len(passed.batches) + 1:  # a prepared loader may read one batch ahead
            words = (
                f"a pass over {passed.name} that nothing is learned from takes {counted(taken, 'sample')} for {wanted}"
            )
            return make_row("samples", one, DIFFERS, words, mine.at)
    return None


def _of_other_data(evidence: Evidence) -> Row | None:
    """A rank whose data set holds other samples than the original's, which rank 0's holds."""
    theirs = evidence.baseline.ranks[0].samples
    found = [
        [digests <= theirs[key] for key, digests in trace.samples.items() if key in theirs]
        for trace in evidence.many.ranks
    ]
    for rank, equal in enumerate(found):
        # A few samples may be the same by chance, where the data are split otherwise.
        if rank and equal and found[0] and all(found[0]) and sum(equal) * 2 <= len(equal):
            name = next(key[0] for key in evidence.many.ranks[rank].samples if key in theirs)
            words = (
                f"{name} holds other samples on rank {rank} than in the original, so that ranks do not share its data"
            )
            seeds = evidence.many.ranks[rank].seeds
            at = next((place for _, _, place in seeds if place), None)
            return make_row("samples", evidence.many, DIFFERS, words, at)
    return None


def samples(evidence: Evidence) -> Row:
    """Every index as often as in the original, and on one rank only."""
    baseline, many = evidence.baseline, evidence.many
    if (other := _of_other_data(evidence.compared or evidence)) is not None:
        own = why_by_nature(evidence.compared or evidence) or ""
        if own.startswith(OWN_RANDOM_NUMBERS) and _learns_from_all(evidence):
            words = f"{own}, makes samples of them, and learns from all of its samples"
            return make_row("samples", many, NATURE, words, other.at)
        return other
    theirs = training_passes(baseline.ranks[0])
    if (drawn := draws_batches(evidence)) is not None:
        words = f"{drawn}, and with them batches from a loader of which the script ends no pass"
        return make_row("samples", many, NATURE, words, many.ranks[0].passes[0].at)
    seen = batches = filled = 0
    for key, passed in theirs.items():
        parts = [trace.get(key) for trace in map(training_passes, many.ranks)]
        if any(part is not None and part.by_batch for part in parts) or None in passed.batches[:1]:
            continue
        if any(part is None for part in parts):
            missing = [rank for rank, part in enumerate(parts) if part is None]
            if key == next(iter(theirs)):
                return make_row(
                    "samples", many, DIFFERS, f"{named_ranks(missing)} did not pass over {passed.name}", passed.at
                )
            continue  # stopped by then
        present = [part for part in parts if part is not None]
        problem, sharded, added = _sharded(passed, present)
        if problem and notes_on_same_data(evidence) and "seen by" in problem:
            return make_row("samples", many, NATURE, f"{problem}, as the rewrite says", present[0].at)
        if problem and _is_reordered(evidence, key) and sees_each(passed, present):
            seen, batches = seen + sum(len(batch or ()) for batch in passed.batches), batches + len(passed.batches)
            continue
        if problem:
            return make_row("samples", many, DIFFERS, problem, present[0].at)
        seen, batches, filled = seen + sharded, batches + len(passed.batches), filled + added
    if not seen:
        return make_row("samples", many, NOTHING, "no DataLoader with indices feeds the training")
    more = f"; {counted(filled, 'row')} repeated to fill up, without weight" if filled else ""
    return make_row(
        "samples", many, HOLDS, f"{counted(seen, 'sample')}, each as often as in the original and on one rank{more}"
    )


def _learns_from_all(evidence: Evidence) -> bool:
    """Whether each rank takes whole passes for itself, so that none of its data are left for another rank to see."""
    whole = 0
    for key, passed in training_passes(evidence.baseline.ranks[0]).items():
        parts = [trace.get(key) for trace in map(training_passes, evidence.many.ranks)]
        if passed.is_over and any(part is None or (part.is_over and _seen(part) != _seen(passed)) for part in parts):
            return False
        whole += passed.is_over
    return whole > 0


def _seen(*parts: Pass) -> Counter[object]:
    return Counter(index for part in parts for batch in part.batches for index in batch or ())


def repeats(passed: Pass) -> bool:
    """Whether a pass draws with replacement: its own order has an index twice."""
    return max(_seen(passed).values(), default=1) > 1


def _is_reordered(evidence: Evidence, key: tuple[int, int]) -> bool:
    """Whether a pass may have another order: numbers that are drawn for parts of batches move the stream otherwise."""
    return key[1] > 0 and any(nature.kind == "draw" for nature in evidence.many.ranks[0].natures)


def _sharded(passed: Pass, parts: Sequence[Pass]) -> tuple[str, int, int]:
    """The fault in how a pass was sharded, how many samples were sharded, and how many were repeated to fill up."""
    common = min(len(part.batches) for part in parts)
    if not common or not passed.batches:
        return "", 0, 0
    rounds = [[part.batches[position] or () for part in parts] for position in range(common)]
    share = -(-len(passed.batches[0] or ()) // len(parts))
    world = len(parts)
    first = {index for batch in rounds[0] for index in batch}
    is_split = all(len(batch) <= max(share, 1) for batch in rounds[0]) and len(first) <= len(passed.batches[0] or ())
    seen = added = 0
    originals = [batch or () for batch in passed.batches]
    for position, batches in enumerate(rounds):
        expected = originals[position : position + 1]
        is_sharded = not is_split and not all(Counter(batch) == Counter(expected[0]) for batch in batches if expected)
        if is_sharded:
            expected = originals[position * world : position * world + world]
        if not expected:
            break
        union = Counter(index for batch in batches for index in batch)
        wanted = Counter(index for batch in expected for index in batch)
        lost, extra = wanted - union, union - wanted
        twice = [index for index in extra if sum(index in batch for batch in batches) > 1]
        many = sum(extra.values())
        fills = many < world if is_split else is_sharded and position == common - 1 and len(expected) < world
        if lost:
            return f"batch {position + 1} of {passed.name}: no rank sees {some_of(list(lost))}", seen, added
        if twice and not fills:
            words = f"batch {position + 1} of {passed.name}: {some_of(twice)} are seen by {len(batches)} ranks"
            return words + (f", all of {len(wanted)}" if len(twice) == len(wanted) else ""), seen, added
        if extra and not fills:
            return (
                f"batch {position + 1} of {passed.name}: {some_of(list(extra))} are not in the original's",
                seen,
                added,
            )
        seen, added = seen + sum(wanted.values()), added + many
    total = sum(map(len, originals))
    left = len(originals) - common * world
    # With drop_last every rank gets full batches, and those that do not make up a round are left out.
    is_dropped = not is_split and 0 < left < world and len({len(batch) for batch in originals}) == 1
    if passed.is_over and all(part.is_over for part in parts) and seen < total and not is_dropped:
        return f"{total - seen} of the {total} samples of {passed.name} are seen by no rank", seen, added
    return "", seen, added


def sees_each(passed: Pass, parts: Sequence[Pass]) -> bool:
    """Whether the ranks together see what the original sees, but for rows that fill up the last round."""
    theirs, ours = _seen(passed), _seen(*parts)
    round_of_all = sum(len(part.batches[0] or ()) for part in parts if part.batches)
    lost, extra = theirs - ours, ours - theirs
    is_over = passed.is_over and all(part.is_over for part in parts)
    if repeats(passed):  # how many are seen is known, and that ranks do not see the same ones
        taken, wanted = ours.total(), theirs.total()
        is_alike = all(part.batches == parts[0].batches for part in parts) and len(parts) > 1
        return not is_alike and (not is_over or abs(taken - wanted) < max(round_of_all, 1))
    if not passed.is_over:  # the original was stopped in it: what it would have seen is not known, but that it is once
        extra = ours - Counter(dict.fromkeys(ours, 1))
    # With drop_last, full batches that do not make up a round are left out, and another order leaves out other samples.
    is_full = len({len(batch or ()) for batch in passed.batches}) == 1
    left_out = max((passed.length or 0) - theirs.total(), 0)
    is_once = max(ours.values(), default=1) == 1 or not extra
    is_dropped = is_full and is_once and extra.total() <= left_out and lost.total() - extra.total() < round_of_all
    return extra.total() < max(round_of_all, 1) and (not is_over or not lost or is_dropped)


def data(evidence: Evidence) -> Row:
    """Whether the ranks compute on data of their own."""
    many = evidence.many
    losses = [trace.losses for trace in many.ranks]
    least = min(map(len, losses))
    if not least or many.world == 1:
        return make_row("data", many, NOTHING, "nothing to compare")
    theirs = evidence.baseline.ranks[0].losses
    if len(set(theirs)) == 1 and len(theirs) > 1:
        return make_row("data", many, NOTHING, "the loss never changes")
    for rank, others in enumerate(losses[1:], 1):
        if others[:least] == losses[0][:least]:
            at = many.ranks[0].backwards[0].at
            told = notes_on_same_data(evidence)
            if told:
                return make_row(
                    "data", many, NATURE, f"all ranks compute on the same data, as the rewrite says: {told[0]}", at
                )
            words = f"ranks 0 and {rank} compute on the same data: all {counted(least, 'loss')} are identical"
            return make_row("data", many, DIFFERS, words, at)
    return make_row("data", many, HOLDS, "every rank computes on data of its own")
