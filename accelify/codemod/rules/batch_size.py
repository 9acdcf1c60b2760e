"""Say what the batch size means on N processes, and which models take no other size.

    loader = DataLoader(data, batch_size=64)    each of N processes takes 64 samples for a step: 64 * N together

Why: a learning rate is chosen for a batch size. On N processes a step learns from N batches, and an epoch has 1/N of
the steps; a loop that asks for as many batches as a number says takes as many steps, with N times the data.
`--keep-global-batch` writes `Accelerator(split_batches=True)`: the processes divide each batch between them, and the
learning rate, the steps of an epoch and all schedules stay as they are. So it is done where `nn.DataParallel` goes,
which divided each batch between the GPUs, unless `device_ids` names one alone.
A batch of all samples, `batch_size=len(data)`, is divided anyway: the only step of an epoch stays as it is.
Where one step learns from all rounds of a sharded loop, as in meta learning, its gradients are the mean of sums, one
from each process: 1/N of what one process has. Where a number says how many rounds, each process takes as many.
Left alone: everything; the rule only reports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.metrics.rows.coupled_rows import coupled, taken_by_place
from accelify.codemod.metrics.steps.intervals import Intervals
from accelify.codemod.metrics.steps.loss_weights import LossWeights
from accelify.codemod.metrics.steps.samples import Samples
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.scopes import main_guard
from accelify.codemod.semantics.values import Instance
from accelify.codemod.training.loops.bodies import nodes_in
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.losses import Losses, MeanLosses, is_for_inputs, losses_of
from accelify.codemod.training.roles import stepped

NAME = "batch_size"
_PARALLEL = "`DataParallel` divided each batch between the GPUs"
_PARALLEL_AT_TIMES = "`DataParallel`, where the script used it, divided each batch between the GPUs"
_ITEMS = {True: "batches of this size", False: "items of this loop"}
_WHOLE = "Give each process whole batches, by `Accelerator()` without `{sharing}`"
_PAIRS = (
    "this relates the rows of a batch to each other{also}, but each process now has only its part of the batch: the "
    f"loss is another one. {_WHOLE}, or accept it"
)
_APART = (
    "this relates the rows of a batch to each other{also}, and on N processes only those of each process's own batch: "
    "if it should see the rows of all N batches, gather them here, with their gradients "
    "(`torch.distributed.nn.functional.all_gather`)"
)
_CHOSEN = (
    "this chooses what is in a batch{also}, but each process now gets only a part of it, the rows of some places, "
    f"and may lack what the step needs. {_WHOLE}, unless any rows will do"
)
_PLACES = (
    "this takes rows of a batch by their places{also}, but each process now has only its part of the batch, in which "
    f"other rows have these places. {_WHOLE}, or divide the numbers by `accelerator.num_processes` if any rows will do"
)
_ALL_AT_ONCE = (
    "one batch has all samples here, and N processes divide it between them: a step learns from as many samples as "
    "before, and the learning rate needs no change"
)
_RATE = "consider a larger learning rate (often N times, with a warm-up)"


def find(script: Script) -> Iterator[Remark]:
    """One note, in a file that the user named: where a size is, else where its batches are iterated over."""
    sizes = script.batch_sizes
    if not sizes.loaders and not sizes.loops:
        return
    summed = dict(_summed(script)) if not script.is_by_hand else {}
    yield from summed.values()
    if summed and all(data.loop in summed for data in script.training.data if data.sharded_loop is not None):
        yield from _fixed(script)
        return
    places: list[tuple[str, ast.AST]] = [(script.path(p), p) for p in (*sizes.loaders, *sizes.loops)]
    first = _in_named_file(script, places)
    others = [place for place in places if place != first]
    asked = Intervals(script.limits)
    limits: list[ast.AST] = [*script.limits.conditions(), *script.limits.caps()] if not script.is_by_hand else []
    ends = tuple((script.path(node), node) for node in limits)
    lengths = [n for n in Samples(script.step_counts).shown() if script.path(n) in script.files]
    counted = tuple(place for n in (*asked.intervals(), *lengths) if (place := (script.path(n), n)) not in ends)
    checked = tuple((script.path(node), node) for node in asked.checks() if not script.is_by_hand)
    batches = [r for r in script.metrics.reports if r.is_of_some_batches]
    evaluated = [node for evaluation in script.metrics.sharded for node in evaluation.shown]
    read = {*(node for r in batches for node in r.leaves or (r.node,)), *evaluated}
    shown = tuple((script.path(node), node) for node in sorted(read, key=script.program.position))
    taken = _ITEMS[first[1] not in sizes.loops] if first in places else "batches of this loop"
    elsewhere = "" if not others else " (and of {0})" if first in places else " (batch size set in {0})"
    learned = f"on N processes a step learns from N {taken}{elsewhere}"
    learned += ", one from each process"
    rounds = tuple((script.path(loop), loop) for loop in script.limits.rounds())
    if rounds:
        learned += ", and the same number of steps ({5}) learns from N times the data"
    else:
        epoch = "an epoch that no limit ends" if ends else "an epoch"
        learned += f", and {epoch} has 1/N of the steps{' (they are counted in {1})' if counted else ''}"
    message, tier = _of_loaders(script, learned) if sizes.loaders else (_of_loops(script, learned), Tier.REVIEW)
    if ends and "1/N" in message:
        message += ". A limit ({3}) counts the steps of one process: N processes see N times the data before it"
    if any(script.prepared.has_no_length(data.loop) for data, _ in script.preparation.sharded):
        message += ". An iterable without a length drops its incomplete last round"
    if checked and "1/N" in message:
        message += ". A check of the number of batches ({4}) may fail on N processes although it holds in one"
    if script.batch_sizes.parallel and _keeps_weights(script):
        message += ". Checkpoints no longer have its prefix `module.`: take it off older ones before loading them"
    if shown and not script.is_by_hand:
        message += ". Values shown for some batches ({2}) come from one process's own batches"
    sums, of_sums = _of_sums(script)
    message += of_sums
    leaves = [*(node for r in batches for node in r.leaves), *map(script.program.statement, evaluated)]
    shows = tuple((script.path(node), node) for node in leaves if not script.is_by_hand)
    lines = (tuple(others), counted, shown, ends, checked, rounds, sums)
    yield Remark(NAME, *first, message, tier, lines=lines, shows=shows)
    yield from _fixed(script)
    if sizes.loaders and not script.is_by_hand:
        yield from _coupled(script)


def _of_sums(script: Script) -> tuple[tuple[tuple[str, ast.AST], ...], str]:
    """The backward passes of losses whose gradients grow with the batch, and what the note says of them."""
    sums = () if script.is_by_hand or script.options.keep_global_batch else tuple(_sums(script))
    message = (
        ". The loss in {6} is a sum over the batch, and gradients are averaged over the processes: a step stays as "
        "large as for one batch; for that of the sum over all, multiply the rate or the loss by "
        f"`{script.reach.name}.num_processes`"
    )
    return sums, message if sums else ""


def _sums(script: Script) -> Iterator[tuple[str, ast.AST]]:
    """The backward passes of losses whose gradients grow with the batch, apart from those that have means beside."""

    def is_alike(node: ast.expr) -> bool:
        return not script.metrics.ranks.is_own(node)

    losses, means = Losses(script.program, script.roles, is_alike=is_alike), MeanLosses(script.program, script.roles)
    for backward in script.training.backwards:
        of_step = losses_of(script.program, backward)
        is_of_inputs = is_for_inputs(script.program, backward, script.training.steps, is_alike)
        if not is_of_inputs and any(map(losses.is_sum, of_step)) and not any(map(means.has, of_step)):
            yield script.path(backward), backward


def _keeps_weights(script: Script) -> bool:
    """Whether something saves or loads the weights of a model, other than by `model.module.state_dict()`."""
    called = [c.func for c in script.program.calls if isinstance(c.func, ast.Attribute)]
    is_inner = any(ast.unparse(f).endswith(".module.state_dict") for f in called)
    return not is_inner and any(f.attr.endswith("state_dict") for f in called)


def _summed(script: Script) -> Iterator[tuple[ast.AST, Remark]]:
    """The sharded loops all of whose rounds one step learns from, each with its note."""
    nesting, fixed = Nesting(script.program, script.roles, script.tracer), script.limits.fixed_rounds
    sharded = {data.sharded_loop for data in script.training.data}
    weighing = set(LossWeights(script.step_counts).find(script.batch_sizes.loaders))  # which divide no sum
    for loop in (data.sharded_loop for data in script.training.data if data.loop not in fixed):
        inside = [step for step in script.training.steps if loop in nesting.stack(step)]
        if loop is None or not all(_is_of_round(script, nesting, step, loop) for step in inside):
            continue
        frame = script.program.frame(loop)
        others = sharded - set(script.program.loops_round(loop)) | {loop}  # a step in one of these is of its rounds
        after = [s for s in script.training.steps if not others.intersection(script.program.loops_round(s))]
        steps = (s for s in after if script.program.frame(s) is frame and script.program.reaches(loop, s))
        step = next(steps, None)
        counted = (of for n in nodes_in(loop) if n not in weighing and (of := sizes.measured(n)))
        if step is not None and not any(map(script.prepared.is_loader, counted)):
            message = (
                "this step learns from all rounds of the loop in {0}, each process adds up the gradients of its "
                "shard alone, and their mean is taken: it is 1/N of the sum of one process. Multiply the loss by "
                f"`{script.reach.name}.num_processes`, unless it is divided by the number of a process's own rounds"
            )
            lines = (((script.path(loop), loop),),)
            yield loop, Remark(NAME, script.path(step), step, message, Tier.REVIEW, lines=lines)


def _is_of_round(script: Script, nesting: Nesting, step: ast.Call, loop: ast.AST) -> bool:
    """Whether each round of a loop makes the optimizer that a step is taken with."""
    ends = [chain[-1].node for chain in script.tracer.chains(stepped(step))]
    return bool(ends) and all(loop in nesting.stack(end) for end in ends)


def _coupled(script: Script) -> Iterator[Remark]:
    """Code that needs whole batches, of which each process has a part; or that sees one of several whole ones."""
    program = script.program
    wrapped = (v for call in script.wrappers for v in (program.values(call.args[0]) if call.args else ()))
    forwards = [program.flow.method(v.cls, "forward") for v in wrapped if isinstance(v, Instance)]
    divided = program.run_from([f for f in forwards if f is not None])  # `DataParallel` gave these parts as well
    sizes = script.batch_sizes
    found: tuple[tuple[Iterable[ast.expr], str], ...] = (
        (sizes.chosen, _CHOSEN),
        (coupled(script.metrics), _PAIRS),
        (taken_by_place(script.metrics) if not sizes.chosen else (), _PLACES),
    )
    if not script.options.keep_global_batch:  # who chooses what is in a batch, relates the rows of that one
        found = () if sizes.chosen or sizes.single else ((coupled(script.metrics), _APART),)
    for nodes, message in found:
        places = tuple((script.path(node), node) for node in nodes if program.frame(node) not in divided)
        if places:
            said = message.replace("{also}", " (also {0})" if len(places) > 1 else "")
            said = said.replace("{sharing}", script.options.runtime.sharing)
            yield Remark(NAME, *places[0], said, Tier.REVIEW, lines=(places[1:],))


def _in_named_file(script: Script, places: list[tuple[str, ast.AST]]) -> tuple[str, ast.AST]:
    """The first place in a file that the user named, or a loop there over the loader of another file."""
    loops = [(script.path(d.loop), d.loop) for d in script.training.data if d.loop is not None]
    asked = script.options.selection.named  # and not the scripts beside it that have to change, too
    followed = {parsed.path for parsed in script.program.named}
    return next((place for named in (asked, followed) for place in [*places, *loops] if place[0] in named), places[0])


def _is_of_all(script: Script, node: ast.expr) -> bool:
    """Whether code is in a loop over a loader of which each process takes all batches."""
    loops = script.metrics.measured.loops_over_all(script.files, script.prepared.loops)
    whole = {loop for loop in loops if not script.prepared.may_be_loader(loop.iter)}
    return not whole.isdisjoint(script.program.loops_round(node))


def _fixed(script: Script) -> Iterator[Remark]:
    """Code that takes batches of one size only, where processes may get smaller ones."""
    fixed = tuple((script.path(node), node) for node in script.batch_sizes.fixed if not _is_of_all(script, node))
    if not fixed or script.is_by_hand:
        return
    first, *others = fixed
    size = ast.unparse(first[1])
    if script.options.keep_global_batch:
        message = (
            f"this is built for batches of `{size}` samples, but each process gets only a part of each batch: "
            f"divide by `{script.reach.name}.num_processes`"
        )
    else:
        message = (
            f"this is built for batches of `{size}` samples, and on N processes the last batches of an epoch "
            "may be smaller, even if a single process gets full ones only: pass `drop_last=True` to the loader"
        )
    yield Remark(NAME, *first, message + (" (also {0})" if others else ""), Tier.REVIEW, lines=(tuple(others),))


def _of_loaders(script: Script, learned: str) -> tuple[str, Tier]:
    split = script.options.runtime.sharing
    if script.distribution is not None:
        return f"{learned}, as before", Tier.ADVICE
    if script.batch_sizes.parallel and script.options.keep_global_batch:
        message = (
            f"{_parallel(script)}, and `{split}` divides it between the processes: the learning rate needs no change. "
        )
        return f"{message}A batch needs {script.options.runtime.shared_size}", Tier.REVIEW
    if script.options.keep_global_batch:
        return f"`{split}` divides each batch between the processes: the learning rate needs no change", Tier.ADVICE
    if set(script.batch_sizes.whole) >= set(script.batch_sizes.loaders):
        return _ALL_AT_ONCE, Tier.REVIEW
    keep = "rewrite with `--keep-global-batch` to divide each batch between the processes"
    if script.batch_sizes.fixed:
        keep = f"divide the batch size by `{script.reach.name}.num_processes`"
    if script.batch_sizes.chosen:
        keep = "let the batch sampler make smaller batches; it chooses what is in one, so do not divide them"
    if script.batch_sizes.single:
        keep = "make the elements smaller where they are batches themselves: a batch of one element cannot be divided"
    before = f"{_parallel(script)}; now, " if script.batch_sizes.parallel else ""
    return f"{before}{learned}: {_RATE}, or {keep}", Tier.REVIEW


def _parallel(script: Script) -> str:
    """The sentence about the wrapper, which may come under a condition other than how many GPUs there are."""
    program, is_test = script.program, script.roles.is_cuda_test
    choices = (b for call in script.batch_sizes.parallel for b, _ in program.branches_round(call))
    tests = (choice.test for choice in choices if choice is not main_guard(program.scope(choice).root))
    asked = ([v for n in ast.walk(t) if isinstance(n, ast.expr) for v in program.values(n)] for t in tests)
    return _PARALLEL if all(any(map(is_test, values)) for values in asked) else _PARALLEL_AT_TIMES


def _of_loops(script: Script, learned: str) -> str:
    before = f"{_parallel(script)}; now, " if script.batch_sizes.parallel else ""
    return f"{before}{learned}: {_RATE}, or divide the batch size by `{script.reach.name}.num_processes`"
