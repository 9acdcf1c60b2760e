"""What was printed, and what was written."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from accelify.verify import compare
from accelify.verify.judging.evidence import Evidence, why_by_nature
from accelify.verify.judging.words import DIFFERS, HOLDS, NATURE, NOTHING, counted, make_row, named_ranks, share
from accelify.verify.trace import Checkpoint, Run, Trace
from accelify.verify.verdict import Row


def output_of_one(original: Run, one: Run) -> Row:
    """What was printed, but for times."""
    theirs = [compare.mask_times(line.text) for line in original.ranks[0].prints]
    ours = one.ranks[0].prints
    for index, line in enumerate(ours):
        if index >= len(theirs):
            return make_row("output", one, DIFFERS, f"prints {line.text.strip()!r}, the original does not", line.at)
        if compare.mask_times(line.text) != theirs[index]:
            found = compare.numbers_differ(line.text, original.ranks[0].prints[index].text, 0.0)
            if found is not None:
                return make_row("output", one, DIFFERS, f"prints {found[0]} for {found[1]}", line.at)
    if len(ours) < len(theirs):
        missing = original.ranks[0].prints[len(ours)]
        return make_row("output", one, DIFFERS, f"does not print {missing.text.strip()!r}", missing.at)
    if not theirs:
        return make_row("output", one, NOTHING, "nothing was printed")
    return make_row("output", one, HOLDS, f"{counted(len(theirs), 'line')}, the same but for times")


def evaluation(evidence: Evidence) -> Row:
    """What rank 0 printed after evaluating, number by number."""
    many = evidence.many
    theirs = [line for line in evidence.baseline.ranks[0].prints if line.evaluation]
    ours = [line for line in many.ranks[0].prints if line.evaluation]
    nature = why_by_nature(evidence)
    steps = len(evidence.baseline.ranks[0].steps)
    if not theirs:
        return make_row("evaluation", many, NOTHING, "nothing was printed after evaluating")
    for index, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        found = compare.numbers_differ(a.text, b.text, compare.tolerance("float32", steps))
        if found is None:
            continue
        words = f"prints {found[0]} for {found[1]}{_of_the_ranks(many, index, found)}"
        if nature:
            return make_row("evaluation", many, NATURE, f"{nature}; {words}", a.at)
        return make_row("evaluation", many, DIFFERS, words, a.at)
    if len(ours) != len(theirs):
        status = NATURE if nature and (many.ranks[0].shards or evidence.cannot_split) else DIFFERS
        return make_row(
            "evaluation", many, status, f"{counted(len(ours), 'line')} after evaluating for {len(theirs)}", theirs[0].at
        )
    return make_row("evaluation", many, HOLDS, f"{counted(len(ours), 'line')} with the same numbers")


def _of_the_ranks(many: Run, index: int, found: tuple[str, str]) -> str:
    """Whether a number is one rank's own: the others printed another."""
    lines = [[line for line in trace.prints if line.evaluation] for trace in many.ranks]
    texts = {each[index].text for each in lines if index < len(each)}
    return ": each rank prints a number of its own share, so it is not gathered" if len(texts) > 1 else ""


def checkpoints_of_one(original: Run, one: Run) -> Row:
    """Every checkpoint the same, bit for bit."""
    return _checkpoints(original, one, 0.0)


def checkpoints(evidence: Evidence) -> Row:
    """The same keys, kinds and, within the tolerance, values."""
    steps = len(evidence.baseline.ranks[0].steps)
    row = _checkpoints(evidence.baseline, evidence.many, 10 * compare.tolerance("float32", steps))
    nature = why_by_nature(evidence)
    if row.status is DIFFERS and nature and "value" in row.words:
        return make_row("checkpoints", evidence.many, NATURE, f"{nature}; {row.words}", row.at)
    return row


def _checkpoints(theirs: Run, ours: Run, relative: float) -> Row:
    wanted = _by_path(theirs.ranks[0])
    found: dict[tuple[str, int], Checkpoint] = {}
    for trace in reversed(ours.ranks):
        found.update(_by_path(trace))
    if not wanted:
        return make_row("checkpoints", ours, NOTHING, "none was written")
    for key, checkpoint in wanted.items():
        mine = found.get(key)
        if mine is None:
            return make_row(
                "checkpoints", ours, DIFFERS, f"{checkpoint.path or 'a checkpoint'} is not written", checkpoint.at
            )
        problem = _compare_leaves(mine, checkpoint, relative)
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
        return f"the values differ by {share(math.sqrt(apart), math.sqrt(size))} of their size"
    return ""


def files(evidence: Evidence) -> Row:
    """Whether two ranks wrote one file, and whether all of the original's were written."""
    row = written_once(evidence)
    if row.status is DIFFERS:
        return row
    many = evidence.many
    wanted = dict(_written(evidence.baseline.ranks[0]))
    present = {_masked(path) for trace in many.ranks for path, _ in _written(trace)}
    missing = [path for path in wanted if _masked(path) not in present]
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
