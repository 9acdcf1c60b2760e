"""Are modules and optimizers set alike: dropout, train or eval, weight decay, and all else? Do buffers agree?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.words import DIFFERS, HOLDS, NOTHING, counted, make_row
from accelify.verify.trace import Run, Trace
from accelify.verify.verdict import Row


def settings_of_one(original: Run, one: Run) -> Row:
    """The same settings at every backward pass."""
    return _settings(original.ranks[0], one)


def settings(evidence: Evidence) -> Row:
    """The same settings on all ranks at every backward pass."""
    return _settings(evidence.baseline.ranks[0], evidence.many)


def settings_of_ranks(evidence: Evidence) -> Row:
    """The same settings on all ranks as on the first: passes are not the original's where launched."""
    return _settings(evidence.many.ranks[0], evidence.many)


def _settings(theirs: Trace, run: Run) -> Row:
    wanted = list(_by_pass(theirs))
    varying = _varying(theirs).union(*map(_varying, run.ranks))
    compared: set[str] = set()
    for rank, trace in enumerate(run.ranks):
        for number, (mine, other) in enumerate(zip(_by_pass(trace), wanted, strict=False)):
            names = (mine.keys() & other.keys()) - varying
            compared |= names
            for name in sorted(names, key=lambda name: (name.count("."), name)):  # a model before its parts
                if mine[name] != other[name]:
                    words = _in_words(name, mine[name], other[name], rank if run.world > 1 else None)
                    at = trace.backwards[number].at
                    return make_row("settings", run, DIFFERS, f"{words}, at backward pass {number + 1}", at, number + 1)
    if not compared:
        return make_row("settings", run, NOTHING, "no module and no optimizer has any")
    return make_row("settings", run, HOLDS, f"{counted(len(compared), 'setting')} of modules and optimizers alike")


def _in_words(name: str, mine: str, other: str, rank: int | None) -> str:
    where = "" if rank is None else f" on rank {rank}"
    path, _, last = name.rpartition(".")
    if last == "training":
        return f"{path} is in {'train' if mine == 'True' else 'eval'}(){where}, not in {_mode(other)}"
    if last == "class":
        return f"{path} is a {mine} for a {other}{where}"
    return f"{name} is {mine} for {other}{where}"


def _mode(training: str) -> str:
    return "train()" if training == "True" else "eval()"


def _by_pass(trace: Trace) -> Iterator[dict[str, str]]:
    """All settings as they are at each backward pass."""
    now: dict[str, str] = {}
    changes = list(trace.settings)
    for number in range(len(trace.backwards)):
        while changes and changes[0][0] <= number:
            now = {**now, **changes.pop(0)[1]}
        yield now


def _varying(trace: Trace) -> set[str]:
    """The values that are no settings but change in training, such as a module's own counter."""
    counts = Counter(name for _, values in trace.settings for name in values)
    return {name for name, count in counts.items() if count > 1 and not name.endswith(".training")}


def buffers(evidence: Evidence) -> Row:
    """Whether buffers, a BatchNorm's running statistics say, are the same on all ranks after each step."""
    many = evidence.many
    steps = list(zip(*(trace.buffers for trace in many.ranks), strict=False))
    is_ours = any(nature.kind == "accelerator" for trace in many.ranks for nature in trace.natures)
    for number, ranks in enumerate(steps):
        at, first = ranks[0]
        for rank, (_, others) in enumerate(ranks):
            name = next((name for name, value in first.items() if others.get(name, value) != value), None)
            if name is not None and is_ours:
                words = f"the buffer {name} differs between ranks 0 and {rank} after step {number + 1}"
                return make_row("buffers", many, DIFFERS, words, at, number + 1)
    if not steps:
        return make_row("buffers", many, NOTHING, "no module has any")
    count = counted(len(steps[0][0][1]), "buffer")
    if not is_ours:
        return make_row("buffers", many, NOTHING, f"{count}, which the script synchronises by itself")
    return make_row("buffers", many, HOLDS, f"{count}, equal on all ranks after each of {counted(len(steps), 'step')}")
