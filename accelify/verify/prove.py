"""The proof: run original and rewritten, compare what they did, conclude. Read this first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelify.verify import compare
from accelify.verify.forking import Server
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.judge import judge
from accelify.verify.runs import Limits, Order, Progress, Runner
from accelify.verify.scratch import (
    CannotVerify,
    Project,
    Rewritten,
    copy_project,
    rewrite_copy,
    scratch_folder,
    take_new,
)
from accelify.verify.trace import Backward, Run
from accelify.verify.verdict import Verdict

# What can be taken away in all runs alike, so that runs over several processes can be compared.
REMOVABLE = {
    "dropout": "dropout off",
    "BatchNorm": "BatchNorm with its running statistics",
    "augmentation": "augmentation seeded by sample",
    "draw": "noise drawn for the whole batch, of which each rank takes its rows",
}
# With these, ranks get into each other's way; it is not the size of the batch.
FILE_ERRORS = ("EOFError", "OSError", "File", "PermissionError", "_pickle.UnpicklingError", "NotADirectoryError")
NO_GPU = ("not compiled with CUDA", "No CUDA GPUs", "no NVIDIA driver")
ALIKE = "random numbers that each rank draws for itself in loops over its data drawn alike by all"
ADDED_UP = "losses that are sums over the batch added up over the ranks"


@dataclass(frozen=True, slots=True)
class Request:
    """What to prove, and how far.

    The migrated script is `against`, a file; or `rewritten`, what a rewrite has made; else the rewrite is done here.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    against: Path | None = None
    rewritten: Rewritten | None = None
    also: tuple[Path, ...] = ()
    processes: int = 2
    limits: Limits = field(default_factory=Limits)
    synthetic: int = 0
    folder: Path = Path()


def prove(request: Request, progress: Progress, server: Server | None = None) -> Verdict:
    """The verdict on one script; a server that is given is used and left running."""
    begun = time.monotonic()
    try:
        with scratch_folder() as folder:
            if server is not None:
                return _prove(request, progress, server, folder, begun)
            progress("importing torch")
            with Server() as own:
                return _prove(request, progress, own, folder, begun)
    except CannotVerify as error:
        seconds = time.monotonic() - begun
        return Verdict(str(request.script), request.processes, error=str(error), seconds=seconds)


def _prove(request: Request, progress: Progress, server: Server, folder: Path, begun: float) -> Verdict:
    project = Project.around(request.script, request.folder.absolute())
    progress("rewriting")
    rewritten = _rewritten(request, project, folder / "rewritten")
    runner = Runner(server, folder, progress, protected=_roots(project, rewritten))
    evidence = gather(request, runner, project, rewritten)
    original = evidence.original
    return Verdict(
        script=str(request.script),
        processes=request.processes,
        rows=judge(evidence),
        steps=len(original.ranks[0].steps),
        is_whole=original.ranks[0].end.how == "exit",
        made_comparable=evidence.made_comparable,
        replaced=tuple(dict.fromkeys(original.ranks[0].replaced)),
        notes=rewritten.notes,
        diff=_diff(rewritten),
        curves=_curves(evidence),
        seconds=time.monotonic() - begun,
    )


def _roots(project: Project, rewritten: Rewritten) -> Sequence[Path]:
    return tuple(dict.fromkeys((project.root, rewritten.project.root)))


def _rewritten(request: Request, project: Project, copy: Path) -> Rewritten:
    if request.rewritten is not None:
        return request.rewritten
    if request.against is not None:
        return take_new(project, request.against)
    copy_project(project, copy)
    also = [Project.around(path, request.folder.absolute()).script for path in request.also]
    return rewrite_copy(project, copy, also)


def gather(request: Request, runner: Runner, project: Project, rewritten: Rewritten) -> Evidence:
    """All runs. Raises: CannotVerify when the original itself does not run."""
    limits, processes = request.limits, request.processes

    def change(root: Path) -> None:
        for name, _, after in rewritten.files:
            (root / name).unlink(missing_ok=True)  # it might be a link
            (root / name).write_bytes(after)

    def ordered(label: str, of: Project, **more: object) -> Order:
        return Order(label, of, request.arguments, synthetic=request.synthetic, **more)  # type: ignore[arg-type]  # fields of Order

    first = runner.run(ordered("original", project), limits)
    _check_original(first, runner.log())
    one = runner.run(ordered("rewritten, 1 process", rewritten.project, split=True), limits, change)
    if one.ranks and _first_difference(first, one) is not None:
        _check_repeats(first, runner.run(ordered("original, again", project), limits))
    made = _made_comparable(first)
    baseline = first
    if made:
        baseline = runner.run(ordered("original, made comparable", project, comparable=True), limits)
        _check_original(baseline, runner.log())
    label = f"rewritten, {processes} processes"
    order = ordered(label, rewritten.project, processes=processes, split=True, comparable=bool(made))
    many = runner.run(order, limits, change)
    cannot_split = None
    trouble = many.error
    if trouble is not None and one.error is None and not trouble.message.startswith(FILE_ERRORS):
        # A script that counts on its batch size, in a reshape say, cannot share a batch, but may take whole ones.
        whole = runner.run(replace(order, label=f"{label}, whole batches", split=False), limits, change)
        if whole.error is None and not whole.hang:
            many, cannot_split = whole, f"{trouble.message} at {trouble.at}"
    elif one.error is None and _is_a_share(baseline, many):
        # A rank with a part of the batch has a part of a loss that is a sum over it; with all of the batch it has all.
        undivided = replace(order, label=f"{label}, on the same batch", split=False, undivided=True)
        whole = runner.run(undivided, replace(limits, steps=1), change)
        if _begins_as(baseline, whole):
            many = runner.run(replace(order, summed=True), limits, change)
            made = (*made, f"{ADDED_UP} ({many.ranks[0].backwards[0].at})")
    if any(nature.kind == "draw" for nature in many.ranks[0].natures):  # some are not one draw for each row
        made = tuple(words for words in made if not words.startswith(REMOVABLE["draw"]))
    alike = [nature.at for nature in many.ranks[0].natures if nature.kind == "alike"]
    if alike and not any(words.startswith(REMOVABLE["draw"]) for words in made):
        made = (*made, f"{ALIKE} ({alike[0]})")
    return Evidence(first, one, baseline, many, rewritten.notes, made, cannot_split)


def _made_comparable(original: Run) -> tuple[str, ...]:
    """What has to be taken away, with the lines."""
    found: dict[str, list[str]] = {}
    for nature in original.ranks[0].natures:
        what = REMOVABLE.get(nature.kind)
        if what is not None:
            found.setdefault(what, []).append(nature.at or nature.what)
    return tuple(f"{what} ({', '.join(sorted(set(places)))})" for what, places in found.items())


def _is_a_share(baseline: Run, many: Run) -> bool:
    """Whether the ranks' first losses add up to the original's, so that their mean is not it."""
    firsts = [trace.backwards[0].loss for trace in many.ranks if trace.backwards]
    if len(firsts) < many.world or many.ranks[0].shards:
        return False
    other = baseline.ranks[0].backwards[0]
    allowed = compare.tolerance(other.dtype) * abs(other.loss)
    return bool(other.loss) and compare.is_close(sum(firsts), other.loss, allowed)


def _begins_as(baseline: Run, many: Run) -> bool:
    """Whether rank 0's first loss is the original's."""
    mine, other = many.ranks[0].backwards[:1], baseline.ranks[0].backwards[0]
    return bool(mine) and compare.is_close(mine[0].loss, other.loss, compare.tolerance(other.dtype) * abs(other.loss))


def _check_original(run: Run, log: str) -> None:
    trace = run.ranks[0]
    if run.hang:
        raise CannotVerify(f"the original does not end: {run.hang}; it stands at\n{run.stacks[0]}")
    if trace.end.how == "error":
        hint = "(of a notebook, magics and !commands are not run)" if ".ipynb:cell " in trace.end.traceback else ""
        if any(words in trace.end.traceback for words in NO_GPU):
            hint = "(all runs are on the CPU: let the script ask `torch.cuda.is_available()`, or tell it by an option)"
        raise CannotVerify(f"the original itself fails:\n{trace.end.traceback}{hint}")
    if trace.end.how == "lost" or trace.end.code:
        status = "without a word" if trace.end.how == "lost" else f"with status {trace.end.code}"
        raise CannotVerify(f"the original itself ends {status}; its last output:\n{log[-2000:]}")
    if not trace.backwards:
        raise CannotVerify("the original ends without a backward pass: there is no training to compare")


def _first_difference(run: Run, other: Run) -> tuple[Backward, Backward] | None:
    """The first backward passes of two runs in one process that start from different losses."""
    pairs = zip(run.ranks[0].backwards, other.ranks[0].backwards, strict=False)
    return next(((a, b) for a, b in pairs if repr(a.loss) != repr(b.loss)), None)


def _check_repeats(original: Run, again: Run) -> None:
    found = _first_difference(original, again)
    if found is not None:
        losses = f"{found[0].at}: a loss of {found[0].loss:.9g}, and of {found[1].loss:.9g} in a second run"
        raise CannotVerify(
            f"the original does not do the same twice, so nothing can be compared with it:\n{losses}\n"
            "Seed what it draws: `np.random.RandomState()`, say, begins anew in each run, whatever seed was set."
        )


def _diff(rewritten: Rewritten) -> str:
    from accelify.codemod.files.diff import unified_diff

    return "".join(unified_diff(str(name), *pair).decode("utf-8", "replace") for name, *pair in rewritten.files)


def _curves(evidence: Evidence) -> dict[str, tuple[float, ...]]:
    """Losses by run; of several processes their mean."""
    curves = {run.label: tuple(run.ranks[0].losses) for run in (evidence.original, evidence.one)}
    if evidence.baseline is not evidence.original:
        curves[evidence.baseline.label] = tuple(evidence.baseline.ranks[0].losses)
    many = zip(*(trace.losses for trace in evidence.many.ranks), strict=False)
    curves[evidence.many.label] = tuple(sum(losses) / len(losses) for losses in many)
    return curves
