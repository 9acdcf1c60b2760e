"""Which runs are made for a proof, and what is done where one of them fails."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from accelify.codemod.options import Options
from accelify.verify import compare
from accelify.verify.judging import contents, outputs, rounding, training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.launched import times
from accelify.verify.judging.parts import MIXES_ROWS, agree_on_parts, agree_undivided
from accelify.verify.resuming import STEPS, find_resume
from accelify.verify.runs import Limits, Order, Runner
from accelify.verify.scratch import CannotVerify, Project, Rewritten
from accelify.verify.trace import Backward, Run, Trace
from accelify.verify.verdict import RESUME, Status

# What rounding moves, and training amplifies.
MOVED_BY_ROUNDING = (
    *(training.losses, training.gradients, training.parameters, outputs.printed, outputs.evaluation),
    *(outputs.checkpoints, contents.contents),
)
# Sources of randomness that can be taken away in all runs alike, so that runs over several processes are comparable.
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
DIVIDED = "each batch divided between the processes (as launched, each takes whole ones)"
IN_FLOAT64 = "computed in float64"


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a user: what to prove, and how far.

    module: the script's name where it is run as `python -m` runs it.
    launched: whether to run the processes also as `accelify launch` starts them.
    on_gpus: whether to run them also on pretend GPUs, as far as the original went: to its evaluation and its end.
    gpus: how many GPUs of this machine's to run them on in the place of pretend ones.
    The migrated script is `against`, a file; or `rewritten`, what a rewrite has made; else the rewrite is done here,
    with `options`.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    module: str | None = None
    against: Path | None = None
    rewritten: Rewritten | None = None
    also: tuple[Path, ...] = ()
    options: Options = field(default_factory=Options)
    processes: int = 2
    limits: Limits = field(default_factory=Limits)
    synthetic: int = 0
    launched: bool = True
    on_gpus: bool = True
    gpus: int = 0
    folder: Path = Path()


@dataclass(frozen=True, slots=True)
class Compared:
    """The original and the run over several processes, made comparable alike; and how."""

    baseline: Run
    many: Run
    made: tuple[str, ...]
    cannot_split: str | None = None  # what went wrong when each batch was divided among the ranks


class Experiment:
    """All runs of one proof."""

    def __init__(self, request: Request, runner: Runner, project: Project, rewritten: Rewritten) -> None:
        self._request = request
        self._runner = runner
        self._project = project
        self._rewritten = rewritten
        self._limits = replace(request.limits, reach=0.0)
        self._evaluated: tuple[int, ...] = ()  # data sets, by number

    def evidence(self) -> Evidence:
        """The evidence of the runs. Raises: CannotVerify when the original itself does not run, or verify fails."""
        first = self._first()
        one = self._run(self._of_rewritten("rewritten, 1 process"))
        again = self._again(first, one)
        compared = self._in_float64(first, one) or self._in_its_own_precision(first, one)
        launched = self._launched() if self._request.launched else None
        made = _as_it_was_made(compared)
        is_divided = launched is not None and (times(first, launched) or 1) > (times(first, compared.many) or 1)
        if is_divided and not compared.cannot_split:
            made = tuple(each for words in made for each in ((DIVIDED, words) if words == IN_FLOAT64 else (words,)))
            made = made if DIVIDED in made else (*made, DIVIDED)
        notes = self._rewritten.notes
        baseline, many, cannot_split = compared.baseline, compared.many, compared.cannot_split
        own = self._rewritten.own_values
        evidence = Evidence(
            first, one, baseline, many, notes, made, cannot_split, launched, again=again, own_values=own
        )
        evidence = self._with_parts(self._with_batches_as_launched(self._with_perturbations(evidence)))
        evidence = self._with_operations(evidence)
        evidence = self._with_resume(evidence)
        return self._with_gpus(evidence) if self._request.on_gpus else evidence

    def _with_perturbations(self, evidence: Evidence) -> Evidence:
        """The evidence with runs of the original that are moved by rounding, where only numbers of several differ."""
        many = evidence.many
        if many.hang or many.error is not None or _first_difference(evidence.original, evidence.one) is not None:
            return evidence
        if not any(row(evidence).status is Status.DIFFERS for row in MOVED_BY_ROUNDING):
            return evidence
        is_comparable, is_double = self._how_compared(evidence)
        runs = []
        for seed in range(rounding.RUNS):
            label = f"original, perturbed by rounding, {seed + 1} of {rounding.RUNS}"
            order = self._of_original(label, comparable=is_comparable, float64=is_double)
            runs.append(self._start(replace(order, perturbed=seed)))
        return replace(evidence, perturbed=tuple(run for run in runs if run.error is None and not run.hang))

    def _with_batches_as_launched(self, evidence: Evidence) -> Evidence:
        """The evidence with undivided batches, where a script divides its batch size by the processes itself."""
        launched, many = evidence.launched, evidence.many
        if launched is None or many.hang or many.error is not None or times(evidence.original, launched) != 1:
            return evidence
        if training.losses(evidence).status is not Status.DIFFERS:
            return evidence
        order = replace(self._many(*self._how_compared(evidence)), split=False)
        found = replace(evidence, many=self._start(replace(order, label=f"{order.label}, batches as launched")))
        return found if training.losses(found).status is Status.HOLDS else evidence

    @staticmethod
    def _how_compared(evidence: Evidence) -> tuple[bool, bool]:
        """Whether runs were made comparable, and whether they computed in float64."""
        is_double = IN_FLOAT64 in evidence.made_comparable
        return is_double or bool(_made_comparable(evidence.original)), is_double

    def _with_parts(self, evidence: Evidence) -> Evidence:
        """The evidence, where losses differ, with why parts of a batch may give other ones than the whole of it."""
        many = evidence.many
        differs = training.losses(evidence).status is Status.DIFFERS
        if not differs or evidence.cannot_split or many.hang or many.error is not None:
            return evidence
        is_comparable, is_double = self._how_compared(evidence)
        parts = []
        for rank in range(many.world):
            label = f"original, on rank {rank}'s rows"
            order = self._of_original(label, comparable=is_comparable, float64=is_double)
            order = replace(order, part=(rank, many.world), whole=self._evaluated)
            parts.append(self._start(order, steps=1))
        if not agree_on_parts(evidence, parts):
            return evidence
        order = replace(self._many(is_comparable, is_double), split=False, undivided=True)
        undivided = self._start(replace(order, label=f"{order.label}, on the same batches"))
        return replace(evidence, mixes_rows=MIXES_ROWS) if agree_undivided(evidence, undivided) else evidence

    def _with_resume(self, evidence: Evidence) -> Evidence:
        """The evidence with runs from a checkpoint on, where the script can go on from one and nothing differs yet."""
        first, project = evidence.original, self._rewritten.project
        is_known = first.ranks[0].end.how == evidence.one.ranks[0].end.how and project.root == self._project.root
        if RESUME not in first.ranks[0].unreached or not is_known or _first_difference(first, evidence.one) is not None:
            return evidence
        found = find_resume(self._runner.run, self._of_original("original"), self._limits)
        if found is None:
            return evidence
        original, one = self._of_original("original, resumed"), self._of_rewritten("rewritten, 1 process, resumed")
        runs = [self._start(found.of(order), STEPS) for order in (original, one)]
        resumed = replace(evidence, original=runs[0], one=runs[1], perturbed=(), operations=None, again=None)
        has_many = not (evidence.cannot_split or evidence.mixes_rows or _is_summed(evidence) or evidence.many.error)
        if has_many:
            is_comparable, is_double = self._how_compared(evidence)
            original = self._of_original("original, resumed to compare", comparable=is_comparable, float64=is_double)
            several = self._many(is_comparable, is_double)
            several = replace(several, label=f"{several.label}, resumed")
            baseline, many = (self._start(found.of(order), STEPS) for order in (original, several))
            has_many = baseline.error is None and not baseline.hang
            resumed = replace(resumed, baseline=baseline, many=many)
        return replace(evidence, resumed=replace(resumed, has_many=has_many), resumed_by=found.words)

    def _with_operations(self, evidence: Evidence) -> Evidence:
        """The evidence with the operations of the first step, where losses differ and these may say why."""
        if _first_difference(evidence.original, evidence.one) is not None:
            orders = self._of_original("original, its operations"), self._of_rewritten("rewritten, its operations")
            theirs, ours = (self._start(replace(order, operations=True), steps=1) for order in orders)
            return replace(evidence, operations=(theirs, ours))
        if training.losses(evidence).status is not Status.DIFFERS:
            return evidence
        order = replace(self._many(comparable=False), label="rewritten, operations of each rank", operations=True)
        return replace(evidence, operations_of_ranks=self._start(order, steps=1))

    def _with_gpus(self, evidence: Evidence) -> Evidence:
        """The evidence with a run on GPUs, and where that fails with the original's own."""
        gpus, processes = self._request.gpus, self._request.processes
        kind = "GPUs" if gpus else "pretend GPUs"
        run = self._on_gpus(self._of_rewritten(f"rewritten, on {kind}"), min(gpus or processes, processes))
        evidence = replace(evidence, on_gpus=run, are_real=bool(gpus))
        if run.error is None:
            return evidence
        return replace(evidence, original_on_gpu=self._on_gpus(self._of_original(f"original, on {kind}"), 1))

    def _on_gpus(self, order: Order, processes: int) -> Run:
        device = "cuda" if self._request.gpus else "pretend"
        return self._start(replace(order, processes=processes, split=False, launched=True, bare=True, device=device))

    def _in_float64(self, first: Run, one: Run) -> Compared | None:
        """Both runs in float64, whose rounding no training amplifies; None where the script does not allow it."""
        label = f"original, {IN_FLOAT64}"
        baseline = self._start(self._of_original(label, comparable=True, float64=True))
        trace = baseline.ranks[0]
        if baseline.hang or baseline.error is not None or len(trace.backwards) != len(first.ranks[0].backwards):
            return None
        compared = self._over_several(baseline, one, (*_made_comparable(first), IN_FLOAT64), float64=True)
        return compared if compared.many.error is None else None

    def _in_its_own_precision(self, first: Run, one: Run) -> Compared:
        made = _made_comparable(first)
        baseline = self._original("original, made comparable", comparable=True) if made else first
        compared = self._over_several(baseline, one, made, float64=False)
        self._answer_for(compared.many, self._many(bool(made)), "the rewritten script")
        return compared

    def _launched(self) -> Run:
        """The processes as `accelify launch` starts them, for as many steps, and so for more of the samples."""
        processes = self._request.processes
        order = self._of_rewritten(f"rewritten, {processes} processes as launched", launched=True)
        order = replace(order, processes=processes, split=False)
        run = self._start(order)
        self._answer_for(run, order, "the rewritten script")
        return run

    def _many(self, comparable: bool, float64: bool = False) -> Order:
        processes = self._request.processes
        order = self._of_rewritten(f"rewritten, {processes} processes", comparable=comparable, float64=float64)
        return replace(order, processes=processes, whole=self._evaluated)

    def _over_several(self, baseline: Run, one: Run, made: tuple[str, ...], float64: bool) -> Compared:
        order = self._many(bool(made), float64)
        many = self._start(order)
        trouble = many.error
        if trouble is not None and one.error is None and not trouble.message.startswith(FILE_ERRORS):
            # A script that counts on its batch size, in a reshape say, cannot share a batch, but may take whole ones.
            whole = self._start(replace(order, label=f"{order.label}, whole batches", split=False))
            if whole.error is None and not whole.hang:
                return Compared(baseline, whole, made, f"{trouble.message} at {trouble.at}")
        elif one.error is None and _is_a_share(baseline, many):
            # A rank with a part of the batch has a part of a loss that is a sum over it; with all of it it has all.
            label = f"{order.label}, on the same batch"
            whole = self._start(replace(order, label=label, split=False, undivided=True), steps=1)
            if _begins_as(baseline, whole):
                many = self._start(replace(order, summed=True))
                made = (*made, f"{ADDED_UP} ({many.ranks[0].backwards[0].at})")
        return Compared(baseline, many, made)

    def _of_original(self, label: str, **how: bool) -> Order:
        request = self._request
        order = Order(label, self._project, (), request.arguments, synthetic=request.synthetic, module=request.module)
        return replace(order, **how)  # type: ignore[arg-type]  # fields of Order

    def _of_rewritten(self, label: str, **how: bool) -> Order:
        rewritten = self._rewritten
        files = tuple((name, after) for name, _, after in rewritten.files)
        return replace(self._of_original(label, split=True, **how), project=rewritten.project, changed=files)

    def _start(self, order: Order, steps: int | None = None) -> Run:
        return self._runner.run(order, self._limits if steps is None else replace(self._limits, steps=steps))

    def _run(self, order: Order) -> Run:
        """A run of the rewritten script, whose failure is its own."""
        run = self._start(order)
        self._answer_for(run, order, "the rewritten script")
        return run

    def _first(self) -> Run:
        """The original as it is, which says how many steps all other runs take."""
        exactly, self._limits = self._limits, self._request.limits
        try:
            run = self._original("original")
        finally:
            self._limits = exactly
        trace = run.ranks[0]
        self._evaluated = _evaluated(trace)
        if trace.stopped_after is not None:
            self._limits = replace(exactly, steps=trace.stopped_after)
        elif exactly.steps is not None:  # it ended by itself: more than its steps are too many
            self._limits = replace(exactly, steps=max(exactly.steps, len(trace.steps) + 1))
        return run

    def _original(self, label: str, comparable: bool = False) -> Run:
        order = self._of_original(label, comparable=comparable)
        run = self._start(order)
        log = self._runner.log()
        self._answer_for(run, order, "the original")
        _check_original(run, log)
        return run

    def _answer_for(self, run: Run, order: Order, script: str) -> None:
        """See whether a failure is the script's own: it then fails also where nothing is watched.

        Raises: CannotVerify where it does not.
        """
        if run.error is None:
            return
        bare = self._start(replace(order, label=f"{order.label}, unwatched", bare=True))
        if bare.error is None and not bare.hang:
            raise CannotVerify(
                f"verify itself fails, not {script}, which runs where nothing is watched; please report this:\n"
                f"{run.error.traceback or run.error.message}"
            )

    def _again(self, original: Run, one: Run) -> Run | None:
        """The original once more, where it is to be known whether it does the same twice."""
        differs = _first_difference(original, one) is not None
        if not differs and _shown(original) == _shown(one) and _kept(original) == _kept(one):
            return None
        again = self._start(self._of_original("original, again"))
        if differs:
            self._check_repeats(original, again)
        return again

    @staticmethod
    def _check_repeats(original: Run, again: Run) -> None:
        found = _first_difference(original, again)
        if found is not None:
            losses = f"{found[0].at}: a loss of {found[0].loss:.9g}, and of {found[1].loss:.9g} in a second run"
            raise CannotVerify(
                f"the original does not do the same twice, so nothing can be compared with it:\n{losses}\n"
                "Seed what it draws: `np.random.RandomState()`, say, begins anew in each run, whatever seed was set."
            )


def _as_it_was_made(compared: Compared) -> tuple[str, ...]:
    """How the runs were made comparable, as far as the run over several processes shows that it was done."""
    made, natures = compared.made, compared.many.ranks[0].natures
    if any(nature.kind == "draw" for nature in natures):  # some are not one draw for each row
        made = tuple(words for words in made if not words.startswith(REMOVABLE["draw"]))
    alike = [nature.at for nature in natures if nature.kind == "alike"]
    if alike and not any(words.startswith(REMOVABLE["draw"]) for words in made):
        made = (*made, f"{ALIKE} ({alike[0]})")
    return made


def _is_summed(evidence: Evidence) -> bool:
    return any(words.startswith(ADDED_UP) for words in evidence.made_comparable)


def _made_comparable(original: Run) -> tuple[str, ...]:
    """The sources of randomness that have to be taken away, with their lines."""
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


def _evaluated(trace: Trace) -> tuple[int, ...]:
    """The data sets that the script only evaluates, drawing no random numbers: each rank would draw others."""
    trained = {each.dataset for each in trace.passes if each.trains or each.draws or not each.is_over}
    return tuple(sorted({each.dataset for each in trace.passes} - trained))


def _shown(run: Run) -> list[str]:
    return [compare.mask_times(line.text) for line in run.ranks[0].prints]


def _kept(run: Run) -> dict[str, bytes]:
    return {name: content for name, content in run.contents.items() if not name.endswith(contents.CHECKPOINTS)}


def _first_difference(run: Run, other: Run) -> tuple[Backward, Backward] | None:
    """The first backward passes of two runs in one process that start from different losses."""
    pairs = zip(run.ranks[0].backwards, other.ranks[0].backwards, strict=False)
    return next(((a, b) for a, b in pairs if repr(a.loss) != repr(b.loss)), None)
