"""Does the rewritten script draw what the original draws: dropout, augmentation, noise; and evaluate as it does?"""

from __future__ import annotations

from collections import Counter, defaultdict

from accelify.verify.judging.words import DIFFERS, HOLDS, NOTHING, counted, make_row
from accelify.verify.trace import Run, Trace
from accelify.verify.verdict import Row

# The messages for a source of randomness that only one of two runs has; `{}` is the source.
WORDS = {
    "dropout": "dropout",
    "augmentation": "random augmentation by {}",
    "draw": "draw by {} in the training step",
    "autocast": "autocast to {}",
    "dropout in evaluation": "dropout in an evaluation, as where `model.eval()` is missing",
    "BatchNorm in evaluation": "BatchNorm with an evaluation's own batches, as where `model.eval()` is missing",
}

Found = dict[tuple[str, str], list[str | None]]


def random_numbers_of_one(original: Run, one: Run) -> Row:
    """Random numbers drawn by the same means, where losses differ, and modules that evaluate in the same mode."""
    if one.error is not None or one.hang:
        return make_row("random numbers", one, NOTHING, "the run failed")
    theirs, ours = _found(original.ranks[0]), _found(one.ranks[0])
    is_same = original.ranks[0].losses == one.ranks[0].losses
    for (kind, what), places in theirs.items():
        mine = ours.get((kind, what), [])
        if len(mine) != len(places) and not (is_same and (mine or "evaluation" not in kind)):
            where = f" at {places[0]}" if places[0] else ""
            words = f"no {WORDS[kind].format(what)}, which the original has{where}"
            if mine:
                words = f"{WORDS[kind].format(what)} at {counted(len(mine), 'line')} for {len(places)}"
            return make_row("random numbers", one, DIFFERS, words, mine[0] if mine else None)
    for (kind, what), places in ours.items():
        if (kind, what) not in theirs and not (is_same and "evaluation" not in kind):
            words = f"{WORDS[kind].format(what)}, which the original has not"
            return make_row("random numbers", one, DIFFERS, words, places[0])
    if not is_same and (row := _seeded(original, one)) is not None:
        return row
    if not theirs:
        return make_row("random numbers", one, NOTHING, "nothing is drawn in training")
    return make_row("random numbers", one, HOLDS, "drawn by the same means as in the original")


def _seeded(original: Run, one: Run) -> Row | None:
    """That a seed is set more or less often than in the original."""
    theirs, ours = (Counter(seed[:2] for seed in run.ranks[0].seeds) for run in (original, one))
    for stream, value in {**ours, **theirs}:
        often, wanted = ours[stream, value], theirs[stream, value]
        if often != wanted:
            at = next((seed[2] for seed in one.ranks[0].seeds[::-1] if seed[:2] == (stream, value)), None)
            words = f"{stream} is seeded with {value} {counted(often, 'time')} for {wanted}"
            return make_row("random numbers", one, DIFFERS, words, at)
    return None


def _found(trace: Trace) -> Found:
    """The sources of random numbers, and at which lines they are."""
    found: Found = defaultdict(list)
    for nature in trace.natures:
        if nature.kind in WORDS:
            found[nature.kind, nature.what if "{}" in WORDS[nature.kind] else ""].append(nature.at)
    return found
