"""Printed output and written files, compared."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accelify.verify import compare
from accelify.verify.judging.evidence import Evidence, batch_sizes, note_on_line, why_by_nature
from accelify.verify.judging.rounding import MARGIN, Rounding
from accelify.verify.judging.words import DIFFERS, HOLDS, NATURE, NOTHING, counted, make_row, masked, named_ranks, share
from accelify.verify.trace import Checkpoint, Print, Run, Trace
from accelify.verify.verdict import Row

# By how much a mean over parts of a batch may be off where the parts are not equal.
UNEVEN = 0.2
# Of how many backward passes a step's losses may be: of a generator and a discriminator, say.
RECENT = 4
OF_ONE_STEP = "the loss of one step, on each rank that of its own batch"


def output_of_one(evidence: Evidence) -> Row:
    """The printed output, except for times and numbers that differ from run to run."""
    one, original = evidence.one, evidence.original
    theirs, ours = original.ranks[0].prints, one.ranks[0].prints
    unstable = _unstable(evidence)
    for index, line in enumerate(ours):
        if index >= len(theirs):
            return make_row("output", one, DIFFERS, f"prints {line.text.strip()!r}, the original does not", line.at)
        found = compare.numbers_differ(line.text, theirs[index].text, 0.0, unstable(index))
        if found is not None:
            return make_row("output", one, DIFFERS, f"prints {found[0]} for {found[1]}", line.at)
    if len(ours) < len(theirs):
        missing = theirs[len(ours)]
        return make_row("output", one, DIFFERS, f"does not print {missing.text.strip()!r}", missing.at)
    if not theirs:
        return make_row("output", one, NOTHING, "nothing was printed")
    return make_row("output", one, HOLDS, f"{counted(len(theirs), 'line')}, the same but for times")


def _unstable(evidence: Evidence) -> Callable[[int], frozenset[int] | None]:
    """Which numbers of a line that the original prints differ from run to run."""
    first = evidence.original.ranks[0].prints
    again = first if evidence.again is None else evidence.again.ranks[0].prints
    if len(first) != len(again):
        return lambda index: None
    return lambda index: compare.unstable_numbers(first[index].text, again[index].text) if index < len(first) else None


def evaluation(evidence: Evidence) -> Row:
    """The numbers printed after an evaluation, compared one by one."""
    return _printed("evaluation", evidence, True, "nothing was printed after evaluating")


def printed(evidence: Evidence) -> Row:
    """The numbers printed elsewhere, compared one by one."""
    return _printed("printed", evidence, False, "nothing was printed")


@dataclass(frozen=True, slots=True)
class Line:
    """A line that rank 0 printed beside what the original printed there; its place in the original's output."""

    ours: Print
    theirs: Print
    index: int
    ranks: tuple[str, ...]  # the same line of all ranks that print one


def _lines(evidence: Evidence) -> Iterator[tuple[str | None, list[Line], int, list[str]]]:
    """The output of each line of the script, beside the original's: the site, the pairs, our count, their lines.

    Which line of the original's a line of the rewritten script's is, the run in one process says: it prints the same.
    """
    sites = {b.at: a.at for a, b in zip(evidence.original.ranks[0].prints, evidence.one.ranks[0].prints, strict=False)}
    theirs: dict[str | None, list[tuple[int, Print]]] = defaultdict(list)
    for index, line in enumerate(evidence.baseline.ranks[0].prints):
        theirs[line.at].append((index, line))
    ranks = [by_site(trace.prints) for trace in evidence.many.ranks]
    for at, site in sites.items():
        wanted, found = theirs.get(site, []), ranks[0].get(at, [])
        pairs = zip(found, wanted, strict=False)
        yield (
            at,
            [
                Line(
                    mine, other, index, tuple(rank[at][number].text for rank in ranks if number < len(rank.get(at, ())))
                )
                for number, (mine, (index, other)) in enumerate(pairs)
            ],
            len(found),
            [line.text for _, line in wanted],
        )


def by_site(prints: Sequence[Print]) -> dict[str | None, list[Print]]:
    """The output of each line of a script."""
    found: dict[str | None, list[Print]] = defaultdict(list)
    for line in prints:
        found[line.at].append(line)
    return found


def _printed(name: str, evidence: Evidence, evaluates: bool, nothing: str) -> Row:
    many, nature = evidence.many, why_by_nature(evidence)
    unstable, rounding = _unstable(evidence), Rounding(evidence)
    count, natural = 0, None
    for at, lines, found, wanted in _lines(evidence):
        chosen = [line for line in lines if line.theirs.evaluation is evaluates]
        for line in chosen:
            allowed, moved = compare.tolerance(evidence.dtype), rounding.of_line(line.index)
            differ = compare.numbers_differ(line.ours.text, line.theirs.text, allowed, unstable(line.index), moved)
            if differ is not None:
                row = _other_number(name, evidence, line, differ, nature)
                if row.status is DIFFERS:
                    return row
                natural = natural or row
        count += len(chosen)
        if found != len(wanted) and (chosen or not evaluates) and _is_even(evidence):
            words = f"{counted(found, 'line')} for {len(wanted)}"
            if not any(map(compare.values, wanted)):  # what the script says of one process, say
                natural = natural or make_row(name, many, NATURE, f"{words}, without a number", at)
                continue
            status = NATURE if nature and (many.ranks[0].shards or evidence.cannot_split) else DIFFERS
            return make_row(name, many, status, words, at)
    if natural is not None:
        return natural
    if not count:
        return make_row(name, many, NOTHING, nothing)
    return make_row(name, many, HOLDS, f"{counted(count, 'line')} with the same numbers")


def _is_even(evidence: Evidence) -> bool:
    """Whether both runs came equally far."""
    return {trace.end.how for trace in evidence.many.ranks} == {evidence.baseline.ranks[0].end.how}


def _other_number(name: str, evidence: Evidence, line: Line, differ: tuple[str, str], nature: str | None) -> Row:
    many = evidence.many
    words = f"prints {differ[0]} for {differ[1]}{compare.in_numbers(differ)}"
    if nature:
        return make_row(name, many, NATURE, f"{nature}; {words}", line.ours.at)
    if is_of_one_step(evidence, line.ours.at, line.theirs.at, beside_original=True):
        return make_row(name, many, NATURE, f"{words}, {OF_ONE_STEP}", line.ours.at)
    if len(set(line.ranks)) > 1:
        words += ": each rank prints a number of its own shard, so it is not gathered"
        return own_number(name, evidence, words, line.ours)
    if not line.theirs.evaluation and _is_sum_over_ranks(evidence, line, differ):
        words = f"a sum over the ranks, each of which here has parts of all batches and not batches of its own; {words}"
        return make_row(name, many, NATURE, words, line.ours.at)
    uneven = next((size for size in batch_sizes(evidence.baseline.ranks[0]) if size % many.world), None)
    is_mean = uneven is not None and _is_near(differ)
    if is_mean and (not line.theirs.evaluation or _adds_up_losses(evidence.baseline.ranks[0], line, differ[1])):
        words = f"a batch of {uneven} is divided unevenly, so that the ranks' means are not of equal parts; {words}"
        return make_row(name, many, NATURE, words, line.ours.at)
    return make_row(name, many, DIFFERS, words, line.ours.at)


def own_number(name: str, evidence: Evidence, words: str, line: Print) -> Row:
    """That a line shows a number of one rank's own: right only where a note of the rewrite names the line."""
    note = note_on_line(evidence, line)
    words += f", as the rewrite says: {note}" if note else ""
    return make_row(name, evidence.many, NATURE if note else DIFFERS, words, line.at)


def is_of_one_step(evidence: Evidence, ours: str | None, theirs: str | None, *, beside_original: bool) -> bool:
    """Whether what differs in a line is the loss of one of the last backward passes, on each rank of its own batch.

    Such a number is one rank's own in any run over several processes, and no metric of the training.
    beside_original: whether a line of the original's shows the same step, so that it may be what a number differs from.
    """
    original = _beside_losses(evidence.baseline.ranks[0], theirs)
    ranks = [lines for lines in (_beside_losses(trace, ours) for trace in evidence.many.ranks) if lines]
    shown = [line for lines in (original, *ranks) for line in lines]
    if not ranks or not original or len({len(numbers) for numbers, _ in shown}) > 1:
        return False
    differing = {
        column
        for lines in zip(*((original, *ranks) if beside_original else ranks), strict=False)
        for column, texts in enumerate(zip(*(numbers for numbers, _ in lines), strict=True))
        if any(compare.are_apart(text, texts[0]) for text in texts[1:])
    }
    known = set.intersection(*(set(losses) for _, losses in shown))
    return bool(differing) and all(
        any(compare.are_multiples([(numbers[column], losses[each]) for numbers, losses in shown]) for each in known)
        for column in differing
    )


# The last of some backward passes counted back from a line, and how many they are.
Span = tuple[int, int]


def _beside_losses(trace: Trace, at: str | None) -> list[tuple[list[str], dict[Span, float]]]:
    """The numbers that a line printed, each time with the losses of the last backward passes, and sums of a step's."""
    steps = list(_steps_before(trace))
    return [
        (compare.values(line.text), dict(_losses_before(trace.losses[: line.passes], steps)))
        for line in trace.prints
        if line.at == at
    ]


def _steps_before(trace: Trace) -> Iterator[int]:
    """How many optimizer steps there were before each backward pass."""
    steps = 0
    for call in trace.calls:
        steps += call.kind == "step"
        if call.kind == "backward":
            yield steps


def _losses_before(losses: Sequence[float], steps: Sequence[int]) -> Iterator[tuple[Span, float]]:
    """The losses of the last passes, and the sums of those that one step learns from: of real and made-up rows, say."""
    for last in range(len(losses) - 1, max(len(losses) - 1 - RECENT, -1), -1):
        total = 0.0
        for first in range(last, max(last - RECENT, -1), -1):
            if first < last and steps[first : first + 1] != steps[last : last + 1]:
                break
            total += losses[first]
            yield (len(losses) - 1 - last, last - first), total


def _is_sum_over_ranks(evidence: Evidence, line: Line, differ: tuple[str, str]) -> bool:
    """Whether a number is the original's once for each rank, and as launched, with whole batches, is not."""
    launched = evidence.launched
    if launched is None or not launched.ranks[0].prints:
        return False
    site = [each for each in evidence.many.ranks[0].prints if each.at == line.ours.at]
    there = [each for each in launched.ranks[0].prints if each.at == line.ours.at]
    number = next(index for index, each in enumerate(site) if each is line.ours)
    if number >= len(there):
        return False
    try:
        ours, theirs = map(float, differ)
    except ValueError:
        return False
    whole = theirs * evidence.many.world
    if not compare.is_close(ours, whole, 1e-3 * abs(whole)):
        return False
    return any(
        abs(each - theirs) < abs(each - whole) for each in compare.numbers(there[number].text, line.ours.text, ours)
    )


def _is_near(differ: tuple[str, str]) -> bool:
    """Whether two numbers are apart by no more than what uneven parts of a batch can do to a mean of them."""
    try:
        return compare.is_close(float(differ[0]), float(differ[1]), UNEVEN * abs(float(differ[1])))
    except ValueError:
        return False


def _adds_up_losses(trace: Trace, line: Line, number: str) -> bool:
    """Whether a number is the sum or the mean of the losses since its line was last printed."""
    before = [each.passes for each in trace.prints[: line.index] if each.at == line.theirs.at]
    losses = trace.losses[before[-1] if before else 0 : line.theirs.passes]
    whole = math.fsum(losses)
    return bool(losses) and any(
        compare.is_close(float(number), value, 1.01 * compare.last_digit(number) + 1e-6 * abs(value))
        for value in (whole, whole / len(losses))
    )


def checkpoints_of_one(original: Run, one: Run) -> Row:
    """Every checkpoint the same, bit for bit."""
    return _checkpoints(original, one, 0.0)


def checkpoints(evidence: Evidence) -> Row:
    """The same keys, kinds and, within the tolerance, values."""
    row = _checkpoints(evidence.baseline, evidence.many, compare.tolerance(evidence.dtype), evidence.perturbed)
    nature = why_by_nature(evidence)
    if row.status is DIFFERS and nature and "value" in row.words:
        return make_row("checkpoints", evidence.many, NATURE, f"{nature}; {row.words}", row.at)
    return row


def _checkpoints(theirs: Run, ours: Run, relative: float, perturbed: Sequence[Run] = ()) -> Row:
    wanted = _by_path(theirs.ranks[0])
    moved = [_by_path(run.ranks[0]) for run in perturbed]
    found: dict[tuple[str, int], Checkpoint] = {}
    for trace in reversed(ours.ranks):
        found.update(_by_path(trace))
    states, saved = theirs.ranks[0].states, ours.ranks[0].states
    if len(saved) < len(states):
        words = f"`save_state` is called {counted(len(saved), 'time')} for {len(states)}"
        return make_row("checkpoints", ours, DIFFERS, words, states[len(saved)])
    if not wanted and states:
        words = f"{counted(len(states), 'state')} saved by `save_state`, in files of the library's own"
        return make_row("checkpoints", ours, HOLDS, words)
    if not wanted:
        return make_row("checkpoints", ours, NOTHING, "none was written")
    for key, checkpoint in wanted.items():
        mine = found.get(key)
        if mine is None:
            return make_row(
                "checkpoints", ours, DIFFERS, f"{checkpoint.path or 'a checkpoint'} is not written", checkpoint.at
            )
        problem = _compare_leaves(mine, checkpoint, relative, [paths[key] for paths in moved if key in paths])
        if problem:
            return make_row("checkpoints", ours, DIFFERS, f"{checkpoint.path or 'a checkpoint'}: {problem}", mine.at)
    how = "same keys and shapes, values within the tolerance" if relative else "the same bit for bit"
    return make_row("checkpoints", ours, HOLDS, f"{counted(len(wanted), 'checkpoint')}, {how}")


def _by_path(trace: Trace) -> dict[tuple[str, int], Checkpoint]:
    """Checkpoints by their final path, digits masked (dates, steps), and which of that path they are."""
    renamed = {write.source: write.path for write in trace.writes if write.source}
    counts: Counter[str] = Counter()
    found = {}
    for each in trace.checkpoints:
        path = renamed.get(each.path, each.path) if each.path else None
        name = masked(path or "in memory")
        found[name, counts[name]] = Checkpoint(path, each.at, each.leaves)
        counts[name] += 1
    return found


def _compare_leaves(mine: Checkpoint, theirs: Checkpoint, relative: float, perturbed: Sequence[Checkpoint] = ()) -> str:
    ours, others = ({leaf.key: leaf for leaf in each.leaves} for each in (mine, theirs))
    moved = _moved(theirs, perturbed)
    if missing := others.keys() - ours.keys():
        return f"the key {min(missing)} is missing"
    if more := ours.keys() - others.keys():
        return f"the key {min(more)} is new"
    apart = size = furthest = 0.0
    worst = ""
    for key, other in others.items():
        leaf = ours[key]
        if leaf.kind != other.kind:
            return f"{key} is {leaf.kind} for {other.kind}"
        if leaf.value == other.value:
            continue
        if not relative or not leaf.sketch or leaf.kind.startswith(("int", "bool")):
            return f"the value of {key} is not the original's"
        if len(leaf.sketch) == 1:
            if not compare.is_close(leaf.sketch[0], other.sketch[0], relative * abs(other.sketch[0]) + moved[key]):
                return f"the value of {key} is {leaf.value} for {other.value}"
            continue
        distance = compare.distance(leaf.sketch, other.sketch)
        furthest, worst = max((furthest, worst), (distance, key))
        apart += distance**2
        size += other.sketch[0] ** 2
    rounding = math.sqrt(sum(value**2 for value in moved.values()))
    if math.sqrt(apart) > relative * math.sqrt(size) + rounding and apart:
        return f"the values differ by {share(math.sqrt(apart), math.sqrt(size))} of their size, most {worst}"
    return ""


def _moved(theirs: Checkpoint, perturbed: Sequence[Checkpoint]) -> dict[str, float]:
    """By how much each tensor and number of a checkpoint may differ, from those of perturbed runs."""
    moved = {leaf.key: 0.0 for leaf in theirs.leaves}
    for checkpoint in perturbed:
        known = {leaf.key: leaf.sketch for leaf in checkpoint.leaves}
        for leaf in theirs.leaves:
            sketch = known.get(leaf.key, ())
            if sketch and len(sketch) == len(leaf.sketch):
                apart = compare.distance(leaf.sketch, sketch)
                moved[leaf.key] = max(moved[leaf.key], MARGIN * apart if math.isfinite(apart) else 0.0)
    return moved


def files(evidence: Evidence) -> Row:
    """Whether two ranks wrote one file, and whether all of the original's were written."""
    row = written_once(evidence)
    if row.status is DIFFERS:
        return row
    many = evidence.many
    wanted = dict(_written(evidence.baseline.ranks[0]))
    present = {masked(path) for trace in many.ranks for path, _ in _written(trace)}
    missing = [path for path in wanted if masked(path) not in present]
    is_even = {trace.end.how for trace in (*many.ranks, evidence.baseline.ranks[0])}
    if missing and len(is_even) == 1:
        return make_row("files", many, DIFFERS, f"{missing[0]} is not written", wanted[missing[0]])
    return row if wanted else make_row("files", many, NOTHING, "none was written")


def written_once(evidence: Evidence) -> Row:
    """Whether two ranks wrote one file."""
    many = evidence.many
    writers: dict[str, dict[int, str | None]] = {}
    for trace in many.ranks:
        for path, at in _written(trace):
            writers.setdefault(path, {}).setdefault(trace.rank, at)
    for path, ranks in writers.items():
        if len(ranks) > 1:
            lines = sorted({at for at in ranks.values() if at})
            words = f"{path} is written by {named_ranks(sorted(ranks))} (at {', '.join(lines)})"
            return make_row("files", many, DIFFERS, words, lines[0] if lines else None)
    if not writers:
        return make_row("files", many, NOTHING, "none was written")
    return make_row("files", many, HOLDS, f"{counted(len(writers), 'file')}, each written by one rank")


def _written(trace: Trace) -> Iterator[tuple[str, str | None]]:
    """Files in the project that a rank wrote, without those that it renamed away."""
    gone = {write.source for write in trace.writes if write.source}
    for write in trace.writes:
        is_inside = not write.path.startswith("/")
        if write.how != "mkdir" and is_inside and write.path not in gone:
            yield write.path, write.at
