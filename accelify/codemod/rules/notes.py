"""List what a person should look at: right as it stands, or not ours to decide.

    total += loss.item()                  a sum over one process's shard
    output, hidden = model(x, hidden)     a state carried from one batch of a shard to the next

Why: what a migrated script still holds is never hidden; "0 notes" means it.
Left alone: everything; the rule only reports.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from accelify.codemod.devices.destinations import makes_current
from accelify.codemod.distributed.findings import Guards
from accelify.codemod.edits.values import Remark, When
from accelify.codemod.files.nodes import walk
from accelify.codemod.files.parse import remedy
from accelify.codemod.libraries import names, table
from accelify.codemod.libraries.row import DRAWS, Effect, Role, Trait
from accelify.codemod.metrics.batch_numbers import counted_off
from accelify.codemod.metrics.decisions import skipped_apart
from accelify.codemod.metrics.forward_state import (
    agree_by_broadcast,
    carried_states,
    forward_states,
    hook_states,
    hook_totals,
    is_by_operation,
    refreshing_passes,
    rescaled_rows,
)
from accelify.codemod.metrics.kept_states import loader_states, pass_states
from accelify.codemod.metrics.own_seeds import own_seeds
from accelify.codemod.metrics.ranks.own_weights import OwnWeights
from accelify.codemod.metrics.reports import About, Report
from accelify.codemod.metrics.rows.pooling import Pooling
from accelify.codemod.metrics.steps.bars import overstated_bars, overstated_samples
from accelify.codemod.metrics.steps.ends import Ends
from accelify.codemod.metrics.steps.places import goes_over_all
from accelify.codemod.metrics.steps.ranges import overlong_rounds
from accelify.codemod.metrics.steps.rates import Rates
from accelify.codemod.metrics.steps.samples import Samples
from accelify.codemod.metrics.sums.differentiated import Differentiated
from accelify.codemod.metrics.sums.reductions import bound_in
from accelify.codemod.preparing.batch_sizes import is_same_size
from accelify.codemod.preparing.objects.parted_batches import parted_batches
from accelify.codemod.preparing.parallel_wrappers import divided_batches, is_plain_call
from accelify.codemod.preparing.placing import gpu_choices
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.provenance import imported_by_name
from accelify.codemod.semantics.scopes import Scope, code, main_guard, names_in
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.item_numbers import ItemNumbers
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.losses import DividedMeans, Losses, MeanLosses, is_for_inputs, losses_of
from accelify.codemod.training.weights import draws_weights, late_parameters

NAME = "notes"
_COMMON = DRAWS - {Effect.DRAWS_GIVEN}  # drawn from the random states that all code shares
_STEPS = (
    "this is the length for all processes together, and each process takes only its shard of the steps: use `len` of "
    "the prepared loader, or divide by `accelerator.num_processes`"
)
_ROUNDS = (
    "each process has only its shard of the loader's batches, and `next` fails after them: use `len` of the prepared "
    "loader, or begin a new iterator there"
)
_SAMPLES = (
    "this bar ends at 1/N of its length: each of N processes counts only the samples of its shard. Divide this number "
    "by `accelerator.num_processes`"
)
_FEWER = (
    "this schedule steps once per epoch, but its length is `len` of a prepared loader, which shrinks with more "
    "processes: give it a length that does not depend on their number"
)
_OF_SHARDS = (About.SUM, About.LIST, About.GIVEN, About.RUNNING)
_STATES = (About.STATE, About.CARRIED)
_OWN_BATCHES = "{} is computed from this process's own batches only: reduce it if it should cover all data"
_OWN_SHARD = "{} covers this process's shard only: reduce or gather it across processes if it should cover all data"
_OWN_PLACES = (
    "{} is set for this process's shard only: all other places keep what the array began with, and count in a mean "
    "over it. Use only the places that were set, and reduce or gather these across processes"
)
_WITH_GRAPH = (
    "{} covers this process's shard only, and so do the gradients that are taken of it: average these "
    '(`{}.reduce(gradients, "mean")`), as what `reduce` gives of {} itself has no gradients'
)
_OF_SYSTEM = (
    "each process draws something else here, from the operating system, which no seed repeats: where all processes "
    "need the same, draw it from a generator with a seed"
)
_LONGEST = 80  # characters of code in a message
_OWN = {
    About.SUM: (_OWN_SHARD, Tier.REVIEW),
    About.LIST: (_OWN_SHARD, Tier.REVIEW),
    About.GIVEN: (_OWN_SHARD, Tier.REVIEW),
    About.RUNNING: (_OWN_SHARD, Tier.REVIEW),
    About.BATCH: (_OWN_BATCHES, Tier.ADVICE),
    About.STATE: (
        "later steps use {}, which holds values of this process's shard only: gather it first",
        Tier.REVIEW,
    ),
    About.CARRIED: (
        "{} is carried from one batch to the next, but each process gets only every N-th batch: check that it does not "
        "need consecutive ones",
        Tier.REVIEW,
    ),
    About.LAST: (_OWN_SHARD, Tier.REVIEW),
    About.SAVED_BY: (
        "{} decides here what is saved, and is computed from the main process's own batch only: reduce it first if the "
        "other processes' batches should count",
        Tier.REVIEW,
    ),
}
_POOLED = (
    "later losses are computed with {}, which each process computes from its own batch: average it over the processes "
    '(`{}.reduce(..., "mean")`{}) before it is used, or compute it from the gathered batches'
)
_SHARD = "{}, called with a prepared loader, sees this process's shard only, and so do its sums"


def find(script: Script) -> Iterator[Remark]:
    """The notes of the changed files."""
    shared = script.metrics.shared_loops
    states = list(forward_states(script.metrics)) if not script.is_by_hand else []
    yield from _own_values(script, {node for node, _ in states})
    guards = Guards(script.program, script.distribution) if script.distribution is not None else None
    for path in sorted(script.files):
        for node in script.program.flow.parsed_of[path].parents:
            is_known = node in shared or node in script.metrics.evaluations
            if isinstance(node, ast.For) and guards is not None and guards.only_main_runs(node):
                continue
            if isinstance(node, (ast.For, ast.AsyncFor)) and not is_known and not script.program.frame(node).generates:
                yield from _evaluation(script, node)
    yield from _elsewhere(script)
    yield from _gone_over(script)
    yield from _failing(script)
    yield from _stopped_by_hand(script)
    yield from _overstated(script)
    yield from _sizes_of_shards(script)
    yield from _ends(script)
    for counter, picked in counted_off(script.metrics):
        message = f"`{counter}` counts this process's batches: " if counter else ""
        message += (
            "every process takes the same {} here, beside its own batch: let a prepared loader yield it, or count the "
            "batches of all processes (batch i of process r is number i * num_processes + r)"
        )
        yield Remark(NAME, script.path(picked), picked, message, Tier.REVIEW, about=f"`{ast.unparse(picked)}`")
    for call in late_parameters(script.program) if not script.is_by_hand else ():
        message = (
            "this is made in the first forward pass, from random numbers of each process's own: call the model once "
            "before `prepare`, which makes all processes' weights equal"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    yield from _seeded_apart(script)
    yield from _drawn_early(script)
    yield from _changed_in_forward(script, states)
    if not script.is_by_hand:
        yield from _carried(script)
        yield from _kept_by_hooks(script)
        yield from _kept_by_loaders(script)
        yield from _set_by_hand(script)
        yield from _refreshed(script)
        yield from _rescaled(script)
        yield from _parted(script)
    yield from _summed(script)
    yield from _kept_batches(script)
    yield from _particular_devices(script)
    yield from _not_parsed(script)
    yield from _imported_by_name(script)


def _ends(script: Script) -> Iterator[Remark]:
    """Where a round is measured by the number of all processes' rounds: by a condition, or by a bar."""
    for end in Ends(script.metrics).find():
        message = (
            f"`{ast.unparse(end.number)}` counts this process's rounds and never reaches `{ast.unparse(end.length)}`, "
            "the number of all processes' rounds: move this code to after the loop"
        )
        place, tier = (end.length, Tier.ADVICE) if end.is_bar else (end.number, Tier.REVIEW)
        yield Remark(NAME, script.path(place), place, _STEPS if end.is_bar else message, tier)


def _rescaled(script: Script) -> Iterator[Remark]:
    """Weights that each forward pass changes for the rows of its own batch."""
    for call in rescaled_rows(script.metrics):
        message = (
            "with `max_norm`, a forward pass rescales the rows that this process's own batch looks up, and all "
            "processes go on with the main process's weights: leave it out, and rescale all rows on every process "
            "before each forward pass (`with torch.no_grad(): module.weight.renorm_(2, 0, max_norm)`)"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _parted(script: Script) -> Iterator[Remark]:
    """Loaders that yield several parts of each batch, at which the processes take turns."""
    for node in parted_batches(script.program, script.roles, script.preparation.loaders):
        name = script.reach.name
        message = (
            "this yields several parts of each batch, and each process gets only every N-th part: where one needs the "
            "part before it (a hidden state, a reset), do not prepare this loader, and give it "
            f"`sampler=DistributedSampler(data, {name}.num_processes, {name}.process_index)`, with its `set_epoch`"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _overstated(script: Script) -> Iterator[Remark]:
    """Lengths that are for all processes where each counts its own, and the reverse."""
    if _divides(script):
        return
    found = (
        (overstated_bars(script.metrics), _STEPS, Tier.ADVICE),
        (overstated_samples(script.metrics), _SAMPLES, Tier.ADVICE),
        (overlong_rounds(script.metrics), _ROUNDS, Tier.REVIEW),
        (Rates(script.limits).shrunken_schedules(), _FEWER, Tier.REVIEW),
    )
    for lengths, message, tier in found:
        yield from (Remark(NAME, script.path(length), length, message, tier) for length in lengths)


def _sizes_of_shards(script: Script) -> Iterator[Remark]:
    """Sizes of the data that are worked out from the length of a loader, which is that of a shard once prepared."""
    sizes = Samples(script.step_counts).shard_sizes(script.batch_sizes.loaders) if not script.is_by_hand else ()
    for node in (n for n in sizes if not _divides(script) and script.path(n) in script.files):
        message = (
            f"`{ast.unparse(node)}` is the size of this process's shard, as the loader is prepared: take the length of "
            "its data set for that of all data"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _divides(script: Script) -> bool:
    """Whether the processes divide all batches, so that each has some rows of every one."""
    return script.options.keep_global_batch and not script.preparation.sharded


def _seeded_apart(script: Script) -> Iterator[Remark]:
    """Seeds of the clock or the system, of which each process has another."""
    seeds = own_seeds(script.metrics) if not script.is_by_hand and not script.seeds.is_by_rank else ()
    for seed in seeds:
        is_global = any(map(names.is_seed, script.program.called(seed.call)))
        if is_global and script.accelerator(seed.call) is None and not (seed.orders or seed.is_again):
            continue  # whose creation makes the processes' random states equal
        message = (
            "each process takes another seed here, so what is drawn by it before the training (a split, an order, a "
            "setting) differs between processes: give all of them one seed"
        )
        if seed.is_again:
            message = (
                "each process takes another seed here, so what is drawn by it for an epoch (rows, an order, a split) "
                "differs between processes, and each takes its shard of its own: give all of them one seed"
            )
        if seed.orders:
            message = (
                "each process takes another seed here, so each draws another order of the data and takes its shard of "
                "that: some items come several times in an epoch, and others not at all: give all of them one seed"
            )
        rows = script.effects.kinds.called(seed.call) or ()
        message = _OF_SYSTEM if any(row.has(Trait.NO_SEED) for row in rows) else message
        yield Remark(NAME, script.path(seed.call), seed.call, message, Tier.REVIEW)


def _draws_of_system(script: Script, call: ast.Call) -> bool:
    """Whether a call draws from the operating system itself, which seeds do not change: `secrets.token_hex(4)`."""
    return any(Effect.DRAWS_SYSTEM in row.effects for row in script.effects.kinds.called(call) or ())


def _makes_text(script: Script, call: ast.Call) -> bool:
    """Whether a statement only makes a text of what a call draws, a name that does not decide what is trained."""
    value = getattr(script.program.statement(call), "value", None)
    return isinstance(value, ast.expr) and script.effects.kinds.of(value) == {"string"}


def _drawn_early(script: Script) -> Iterator[Remark]:
    """What is drawn without a seed before the accelerator: only our launcher has processes begin with equal states."""
    program, early = script.program, script.access.early
    seeds = [c for c in program.calls if any(map(names.is_seed, program.called(c)))]
    found: dict[Scope, ast.Call] = {}
    for call in (c for c in program.calls if not script.is_by_hand and early.holds(c)):
        frame = program.frame(call)
        rows = script.effects.kinds.called(call) or ()
        is_generator = any(row.role is Role.GENERATOR for row in rows)  # said of its seed, where it has none
        draws = bool(rows) and not is_generator and not script.effects.of_call(call).effects.isdisjoint(_COMMON)
        makes_weights = draws_weights(program, program.statement(call))
        is_of_items = frame.is_method or frame in script.written.meetings.items or frame in script.run.beside
        is_name = draws and _draws_of_system(script, call) and _makes_text(script, call)
        if (
            draws
            and not (makes_weights or is_of_items or is_name)
            and not any(program.may_follow(call, seed) for seed in seeds)
        ):
            found[frame] = min(call, found.get(frame, call), key=program.position)
    for call in found.values():
        launch = script.options.runtime.launch
        message = "this is drawn without a seed, so each process draws something else: seed all of them alike first"
        if script.options.runtime.has("seed_by_rank"):  # of which the launcher has all processes begin alike
            message = (
                f"this is drawn without a seed before `{script.reach.name}` is created: `{launch}` seeds all processes "
                f"alike, but under `torchrun` each draws something else. Use `{launch}`, or seed them all alike first"
            )
        message = _OF_SYSTEM if _draws_of_system(script, call) else message
        yield Remark(NAME, script.path(call), call, message, Tier.ADVICE)


def _changed_in_forward(script: Script, states: Iterable[tuple[ast.AST, str]]) -> Iterator[Remark]:
    """Buffers and weights that each process learns from its own batches, a note for each method."""
    found: dict[Scope, list[tuple[ast.AST, str]]] = {}
    for node, name in states:
        found.setdefault(script.program.frame(node), []).append((node, name))
    for listed in found.values():
        changed = " and ".join(f"`{name}`" for name in dict.fromkeys(name for _, name in listed))
        is_broadcast = agree_by_broadcast(
            script.metrics, [node for node, _ in listed], weights=not script.options.runtime.wraps_models
        )
        is_operation = all(is_by_operation(script.program, node) for node, _ in listed)
        subject = "this operation" if is_operation else "the forward pass"
        message = f"{subject} changes {changed} from each process's own batch, " + (
            "and all processes go on with the main process's: all-reduce or gather what it is computed from, or only "
            "the main process's batches count"
            if is_broadcast
            else "and only gradients are averaged across processes: all-reduce or gather what it is computed from, or "
            "the processes train different models"
        )
        node = listed[0][0]
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _carried(script: Script) -> Iterator[Remark]:
    """What a forward pass keeps in plain attributes for the next one: a hidden state, or a value of its whole batch."""
    pooling = Pooling(script.metrics.ranks)
    for node, name in carried_states(script.metrics):
        is_pooled = pooling.sets_pooled(node)
        message, tier = _OWN[About.CARRIED]
        message = _pooled(script, node) if is_pooled else message
        if is_pooled or not _divides(script):
            yield Remark(NAME, script.path(node), node, message, tier, about=f"`self.{name}`")


def _pooled(script: Script, node: ast.AST) -> str:
    """The message on a state that is computed from all rows of a batch; `{}` stands for its name."""
    rounds, ranks = script.metrics.ranks.rounds, script.metrics.ranks
    inner = takewhile(lambda loop: loop not in rounds, script.program.loops_round(node))
    is_apart = any(inner) or any(ranks.is_own(b.test) for b, _ in script.program.branches_round(node))
    where = ", where all of them come to" if is_apart else ""
    return _POOLED.format("{}", script.accelerator(node) or script.reach.name, where)


def _kept_by_hooks(script: Script) -> Iterator[Remark]:
    """What hooks and operations keep for the steps of an optimizer or later passes, or add up, a note for each."""
    for states, message in (
        (
            hook_totals,
            "a hook adds up `{}` over each process's own batches: reduce it across processes before it is used, or "
            "they go on with different values",
        ),
        (
            pass_states,
            "`{}` is kept for later passes, each process's from its own batches: average what it is computed from over "
            'the processes (`accelerator.reduce(..., "mean")`), or they go on with different values',
        ),
        (
            hook_states,
            "a hook keeps `{}` from each process's own batch, for a step that uses it, and only gradients are averaged "
            'across processes: average what it keeps, too (`accelerator.reduce(..., "mean")`), or the processes train '
            "different models",
        ),
    ):
        for name, node in {name: node for node, name in reversed([*states(script.metrics)])}.items():
            yield Remark(NAME, script.path(node), node, message.format(name), Tier.REVIEW)


def _set_by_hand(script: Script) -> Iterator[Remark]:
    """Weights and buffers that the script sets from each process's own values, a note for each."""
    found: dict[str, tuple[ast.AST, ast.expr]] = {}
    weights = OwnWeights(script.metrics)
    for node, tensor in weights.find():
        found.setdefault(ast.unparse(tensor), (node, tensor))
    for text, (node, tensor) in found.items():
        agrees = weights.is_broadcast(tensor, weights=not script.options.runtime.wraps_models)
        if agrees and weights.is_drawn(node):
            continue
        message = (
            f"each process sets `{text}` from values of its own, and "
            + ("all go on with the main process's" if agrees else "only gradients are averaged across processes")
            + ': reduce first what it is set from (`accelerator.reduce(..., "mean")`), or '
            + ("only the main process's count" if agrees else "the processes train different models")
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _kept_by_loaders(script: Script) -> Iterator[Remark]:
    """What the code that makes batches keeps of the rows before, a note for each name."""
    for name, node in {name: node for node, name in reversed([*loader_states(script.metrics)])}.items():
        message = (
            f"later rows are made with `{name}`, which each process computes from its own shard: compute it from all "
            "the data before the training, or the processes train on rows that are made differently"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _refreshed(script: Script) -> Iterator[Remark]:
    """Passes that only refresh a model's statistics, over a loader of which each process has a shard."""
    for call in refreshing_passes(script.metrics, buffers_agree=not script.options.runtime.wraps_models):
        message = (
            f"nothing reads the result of `{ast.unparse(call)}`: where the pass is for what it changes itself (the "
            "statistics of batch normalisation, what hooks collect), each process has that of its own shard; iterate "
            "over a loader that is not prepared"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _not_parsed(script: Script) -> Iterator[Remark]:
    """Files of the project that no Python of today can import, and so no script that imports them runs."""
    for path in sorted(script.files) if script.options.follow else ():
        for node, error in script.program.flow.project.unreadable(script.program.flow.parsed_of[path]):
            message = f"this imports a file that cannot be parsed ({error}), so it was not read: {remedy(error)}"
            yield Remark(NAME, path, node, message, Tier.REVIEW)


def _imported_by_name(script: Script) -> Iterator[Remark]:
    """Files that train, and that are imported by a name that the script builds: `import_module("models." + name)`."""
    for call, trained in imported_by_name(script.program, ".backward("):
        listed = ", ".join(f"`{Path(p).name}`" for p in trained[:3]) + ("" if len(trained) < 4 else ", ...")
        message = (
            f"this may import {listed}, which also train; the import is decided only at run time, so none was "
            "read: migrate the file that you use as well"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _elsewhere(script: Script) -> Iterator[Remark]:
    """Loops of files that do not change, over loaders: each is said where a changed file calls what holds it."""
    others = (parsed for parsed in script.program.files if parsed.path not in script.files)
    for node in (n for parsed in others for n in parsed.nodes if isinstance(n, (ast.For, ast.AsyncFor))):
        frame = script.program.frame(node)
        if frame not in script.run.run or frame.generates:
            continue
        calls = _run_by_files(script, node)
        for remark in _evaluation(script, node, "the loop in {0}"):
            lines = (((script.path(node), node),),)
            for call in (c for c in calls if c is not node):
                yield replace(remark, path=script.path(call), node=call, lines=lines, once=True)
        if not calls or node in calls:
            yield from _evaluation(script, node)


def _gone_over(script: Script) -> Iterator[Remark]:
    """Functions of libraries that iterate over a prepared loader: each process has a result of its own."""
    kinds = script.program.once(Kinds)
    for call in script.program.calls:
        rows = kinds.called(call) if script.path(call) in script.files and not script.is_by_hand else None
        given = [*call.args, *(k.value for k in call.keywords)]
        is_gone_over = rows and all(row.has(Trait.GOES_OVER) for row in rows)
        loader = next(filter(script.prepared.is_loader, given if is_gone_over else ()), None)
        # The statistics of a prepared model become means over the processes where the loop over its loader ends.
        if loader is not None and not any(map(script.prepared.is_model, given)):
            message = (
                f"this goes over the shard of each process, and `{ast.unparse(loader)}` is prepared: what it computes "
                "differs between the processes; give it a loader that is not prepared"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _own_values(script: Script, noted: Collection[ast.AST]) -> Iterator[Remark]:
    """Values of one process alone that are shown, saved, returned or decided by; `noted` has other notes."""
    is_drawn = any(data.kind == "random" for data in script.training.data)
    differentiated = Differentiated(script.metrics.measured.chains)
    for report in script.metrics.reports:
        if report.is_of_some_batches and (is_drawn or script.batch_sizes.loaders or script.batch_sizes.loops):
            continue  # said with the batch size, or of what each process draws
        if report.about is About.LAST and is_drawn and script.run.experience.asks:
            continue  # of its own episodes
        if report.about in _STATES and _is_noted(script, report.node, noted):
            continue
        if report.about is About.CARRIED and not report.is_pooled and _divides(script):
            continue  # each process has its rows of every batch
        if script.is_by_hand and report.about not in _OF_SHARDS:
            continue  # the script has had these of one process before, and meant to
        is_of_shard = report.about in (*_OF_SHARDS, About.LAST)
        if is_of_shard and goes_over_all(script.metrics, report.node, report.loop):
            continue
        if report.about is About.SAVED_BY and _is_of_item_number(script, report.node):
            continue  # said of the counter
        message, tier = _OWN[About.BATCH if report.is_of_some_batches else report.about]
        message = _OWN_PLACES if message is _OWN_SHARD and _fills_an_array(script, report) else message
        message = _pooled(script, report.node) if report.is_pooled else message
        if report.about is About.SUM and differentiated.is_added_at(report.node):
            accelerator = script.accelerator(report.node) or "accelerator"
            message = _WITH_GRAPH.format("{}", accelerator, "{}")
        shows = tuple((script.path(node), node) for node in report.leaves)
        about = _quoted(report.text)
        yield Remark(NAME, script.path(report.node), report.node, message, tier, about=about, shows=shows)


def _is_noted(script: Script, node: ast.AST, noted: Collection[ast.AST]) -> bool:
    """Whether a change of a state, or of the module that has it, is one of those that a forward pass makes."""
    program = script.program
    is_one = program.statement(node) in set(map(program.statement, noted))
    run = program.run_through([node]) if isinstance(node, ast.Call) else frozenset()
    return is_one or not run.isdisjoint(map(program.frame, noted))


def _fills_an_array(script: Script, report: Report) -> bool:
    """Whether each round of a sharded loop sets one place of an array: `losses[i] = loss.item()`."""
    node = report.node
    is_place = isinstance(node, ast.Subscript) and isinstance(script.program.parent(node), ast.Assign)
    if not isinstance(node, ast.Subscript) or not is_place or not script.program.in_rounds(node, report.loop):
        return False
    kinds = script.effects.kinds.of(node.value)
    is_array = bool(kinds) and kinds <= {"ndarray", "tensor"}
    return is_array and not _is_as_long(script, node.value, report.loop)


def _is_as_long(script: Script, array: ast.expr, loop: ast.AST) -> bool:
    """Whether an array has a place for each batch of the prepared loader of a loop: `np.zeros(len(loader))`."""
    program = script.program
    source = script.tracer.inside(loop.iter) if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    gone_over = program.values(source) if source is not None else frozenset()
    made = [v.node for v in program.values(array) if isinstance(v, Made)]
    for call in made:
        numbers = [call, *(v for n in walk(call) if isinstance(n, ast.Name) and (v := script.tracer.only_value(n)))]
        counted = [of for number in numbers for of in sizes.measured_in(number)]
        if not any(script.prepared.is_loader(of) and program.values(of) == gone_over for of in counted):
            return False
    return bool(made) and bool(gone_over)


def _is_of_item_number(script: Script, test: ast.AST) -> bool:
    """Whether a condition asks for the number of an item of a sharded loop, of which each process has its own."""
    numbers = ItemNumbers(script.program, script.roles, script.tracer, script.training)
    loops = [loop for loop in script.program.loops_round(test) if script.prepared.is_sharded_sequence(loop)]
    asked = (node for loop in loops for node, _ in numbers.asked(loop))
    return any(isinstance(node, ast.If) and node.test is test for node in asked)


def _quoted(code: str) -> str:
    return f"`{code}`" if len(code) <= _LONGEST else f"`{code[: _LONGEST - 3]}...`"


def _failing(script: Script) -> Iterator[Remark]:
    """Errors that one process alone may have in its training, and gets over."""
    found = skipped_apart(script.metrics) if not script.is_by_hand else {}
    for node, is_step in found.items():
        message = (
            "a process that fails here leaves out its step and goes on, while the others wait for its gradients: let "
            "the error end the run, or find bad batches before the step, in all processes"
            if is_step
            else "a process that fails here leaves its training and begins anew, while the others wait for its "
            "gradients: let the error end the run, and start it again"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _stopped_by_hand(script: Script) -> Iterator[Remark]:
    """What saves after Ctrl-C, where a process may still wait for the others."""
    tried = (n for path in sorted(script.files) for n in script.program.flow.parsed_of[path].parents)
    for node in (n for n in tried if isinstance(n, ast.Try) and any(map(script.seeds.trains, n.body))):
        for handler in node.handlers:
            if handler.type is None or "KeyboardInterrupt" not in code(handler.type):
                continue
            if _saves_after(script, node, handler):
                message = (
                    "Ctrl-C stops each process at another place, and the launcher ends them a few seconds later: the "
                    "main process may wait for another's gradients until then, and not come to save anything here. "
                    "Save at fixed steps of the training, too"
                )
                yield Remark(NAME, script.path(handler), handler, message, Tier.REVIEW)


def _saves_after(script: Script, tried: ast.Try, handler: ast.ExceptHandler) -> bool:
    """Whether a handler writes a file, or a checkpoint is saved once it is through."""
    program, frame = script.program, script.program.frame(tried)
    if script.effects.of(*handler.body).files_written:
        return True
    later = (s.call for s in script.written.saves if program.frame(s.call) is frame and program.is_after(s.call, tried))
    return program.control_flow(handler).completes(handler.body[-1]) and next(later, None) is not None


def _summed(script: Script) -> Iterator[Remark]:
    """Losses whose gradients grow with the batch, while those of the processes are averaged."""
    kinds = {d.kind for d in script.training.data}
    if kinds <= {"full"} or (kinds <= {"full", "sequence"} and not script.preparation.sharded):
        return  # all compute on the same data, and that is said
    ranks = script.metrics.ranks

    def is_alike(node: ast.expr) -> bool:
        return not ranks.is_own(node)

    losses = Losses(script.program, script.roles, partial(_is_whole_size, script), is_alike)
    divided = DividedMeans(script.program, script.roles)
    means = MeanLosses(script.program, script.roles)
    for backward in script.training.backwards:
        if is_for_inputs(script.program, backward, script.training.steps, is_alike):
            continue
        of_step = losses_of(script.program, backward)
        if script.options.keep_global_batch and any(map(divided.has, of_step)):
            message = (
                "this loss is a mean that is divided by the number of its rows once more: each of N processes has "
                "1/N of the rows of a batch, which gives N times the gradient of the whole batch: divide by "
                "`accelerator.num_processes`, too"
            )
        elif not any(map(losses.is_sum, of_step)):
            continue
        elif any(map(means.has, of_step)):
            if not script.options.keep_global_batch:
                continue  # each process weighs the terms as one process does, and the mean of its gradients is right
            terms = ", ".join(f"`{ast.unparse(t)}`" for loss in of_step for t in losses.summed(loss))
            message = (
                f"a sum over the batch is added to means here ({terms}): each of N processes adds up its part of the "
                "batch, and gradients are averaged, which leaves 1/N of the sum: multiply it by "
                "`accelerator.num_processes`, and not the means"
            )
        elif script.options.keep_global_batch:
            message = (
                "this loss is a sum over the batch: each of N processes adds up its part of it, and gradients are "
                "averaged, which gives 1/N of the gradient of the whole batch: multiply by `accelerator.num_processes`"
            )
        elif not script.is_by_hand and (script.batch_sizes.loaders or script.batch_sizes.loops):
            continue  # said with the batch size
        else:
            message = (
                "this loss is a sum over the batch: gradients are averaged over the processes, so a step stays as "
                "large as for one process's batch, although N batches went into it: multiply the loss by "
                "`accelerator.num_processes` for a step as large as their sum"
            )
        yield Remark(NAME, script.path(backward), backward, message, Tier.REVIEW)


def _kept_batches(script: Script) -> Iterator[Remark]:
    """All batches of a loader that is prepared, held at a time."""
    for call in script.program.calls:
        rows = map(table.function, sorted(script.program.called(call)))
        is_kept = any(row is not None and row.has(Trait.KEEPS_ITEMS) for row in rows)
        if is_kept and len(call.args) == 1 and script.prepared.is_loader(call.args[0]):
            message = (
                f"`{ast.unparse(call.func)}` keeps all batches, and those of a prepared loader are on the device: if "
                "they do not fit into a GPU's memory, go over the loader again and again instead, as "
                "`while True: yield from loader` does, which draws a new order each time"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _is_whole_size(script: Script, node: ast.expr) -> bool:
    """Whether a number is the size of the batches that the processes divide, and so no process's own."""
    divided = script.batch_sizes.loaders if script.options.keep_global_batch else ()
    return any(is_same_size(script.tracer, size, node, "batch") for size in divided)


def _divided_batches(script: Script) -> Iterator[Remark]:
    """The functions that compute on several GPUs of one process, each by the first call that says so."""
    found: dict[Scope, ast.Call] = {}
    for call in divided_batches(script.program):
        frame = script.program.frame(call)
        if not is_plain_call(script.program, call):
            found[frame] = min(call, found.get(frame, call), key=script.program.position)
    message = "this divides a batch between GPUs, and each process has one of its own: call the module itself"
    for frame, call in found.items():
        if script.program.may_run(frame):
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _particular_devices(script: Script) -> Iterator[Remark]:
    """One GPU by its number, chosen before the processes have theirs."""
    for call in script.program.calls:
        is_changed = script.path(call) in script.files
        if "torch.cuda.set_device" in script.program.called(call) and (is_changed or not script.is_by_hand):
            yield from (_selected_gpu(script, call, place) for place in _run_by_files(script, call))
        elif _concerns(script, call) and makes_current(script.program, call):
            message = (
                f"inside this block `{ast.unparse(call.args[0])}` is the current GPU of every process: remove "
                "this `with`, `Accelerator()` selects a GPU for each process, and choose GPUs with "
                f"`{script.options.runtime.launch} --gpu-ids`"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, When.KEPT)
    yield from _divided_batches(script)
    for node in script.program.once(gpu_choices):
        for place in _run_by_files(script, node):
            yield from _chosen_gpus(script, node, place)


def _concerns(script: Script, node: ast.AST) -> bool:
    """Whether a node is in a changed file, or one that runs where only the runtime says which process it is."""
    runs = not script.is_by_hand and script.program.may_run(script.program.frame(node))
    return script.path(node) in script.files or runs


def _selected_gpu(script: Script, call: ast.Call, place: ast.AST) -> Remark:
    """A call of `set_device`: noted where it is made, or where a changed file calls code that makes it."""
    if place is call:
        message = (
            "every process would use this one GPU: remove this call, `Accelerator()` selects a GPU for each process"
        )
        return Remark(NAME, script.path(call), call, message, Tier.REVIEW, When.KEPT)
    message = (
        "`Accelerator()` selects a GPU for each process, and not the one that {0} selects: remove that, and "
        f"choose GPUs with `{script.options.runtime.launch} --gpu-ids`"
    )
    lines = (((script.path(call), call),),)
    return Remark(NAME, script.path(place), place, message, Tier.REVIEW, When.KEPT, call, lines=lines)


def _chosen_gpus(script: Script, node: ast.AST, place: ast.AST) -> Iterator[Remark]:
    """The fate of `CUDA_VISIBLE_DEVICES`: noted where it is set, or where a changed file calls code that sets it.

    Not of `"-1"`, for the CPU, where what chooses that keeps the accelerator there, too.
    """
    choice = f"`{script.options.runtime.launch} --gpu-ids`"
    is_above = script.program.frame(place) in script.reach.homes  # of the line that creates it
    is_late = script.accelerator(place) is not None or not (is_above or script.devices.is_early(place))
    if is_late:
        setting = "this" if place is node else "the `CUDA_VISIBLE_DEVICES` that {0} sets"
        if _hides_gpus(script, node):
            if script.devices.cpu is not None:
                return
            choice = f"`{script.options.runtime.launch} --cpu` or `Accelerator(cpu=True)`"
        effect = f"{setting} has no effect, because `Accelerator()` has already selected the GPU: use {choice} instead"
    else:
        removed = "this" if place is node else "{0}, which sets `CUDA_VISIBLE_DEVICES`"
        effect = f"every process sees only these GPUs: remove {removed}, and use {choice} instead"
    lines = () if place is node else (((script.path(node), node),),)
    yield Remark(NAME, script.path(place), place, effect, Tier.REVIEW, When.KEPT, node, lines=lines)


def _hides_gpus(script: Script, node: ast.AST) -> bool:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = "-1"`"""
    value = script.tracer.assigned(node) if isinstance(node, ast.Subscript) else None
    return isinstance(value, ast.Constant) and value.value in ("", "-1")


def _run_by_files(script: Script, node: ast.AST) -> list[ast.AST]:
    """A node of the files that change; for one of a function elsewhere that they call, these calls.

    Else the node itself, if what leads to the training runs it.
    """
    if script.path(node) in script.files:
        return [node]
    queue, found, seen = [script.program.frame(node)], list[ast.AST](), set[Scope]()
    while queue:
        frame = queue.pop()
        calls = script.program.flow.callers.get(frame, set()) if frame not in seen else set()
        seen.add(frame)
        found += [c for c in calls if script.path(c) in script.files]
        queue += [script.program.frame(c) for c in calls if script.path(c) not in script.files]
    frame, named = script.program.frame(node), {parsed.path for parsed in script.program.named}
    if frame.kind == "module":
        is_run = script.path(node) in named or main_guard(frame) not in list(script.program.ancestors(node))
    else:
        is_run = frame in script.run.trained
    return found or ([node] if is_run else [])


def _evaluation(script: Script, loop: ast.For | ast.AsyncFor, named: str = "this loop") -> Iterator[Remark]:
    if not _iterates_a_loader(script, loop) or _goes_over_parts(script, loop) or script.run.experience.holds(loop.iter):
        return
    if not script.program.control_flow(loop).repeats(loop):
        return  # it takes one batch
    if any(script.program.inside(nested.backward, loop) for nested in script.training.nested):
        return  # it trains for this process alone
    if any(script.program.inside(shared, loop) for shared in script.metrics.shared_loops):
        return  # what each of its rounds goes over is sharded
    if script.prepared.is_loader_for_some(loop.iter):
        if any(report.loop is loop for report in script.metrics.reports):
            return  # which name what it adds up
        yield Remark(NAME, script.path(loop), loop, _SHARD.format(named), Tier.REVIEW)
    elif metrics := sorted(_metrics_in(script, loop)):
        message = (
            f"{named} is not sharded, but {', '.join(metrics)} sums across processes by itself: sums and counts "
            "come out N times as large, means are unchanged"
        )
        yield Remark(NAME, script.path(loop), loop, message, Tier.REVIEW)
    elif script.metrics.ranks.draws.draws_batches(loop):
        message = (
            f"{named} is not sharded, but it is run within a loop over sharded data, where each process draws random "
            "numbers of its own: if it draws in evaluation, too, processes evaluate different batches, and what the "
            "main process shows or saves is its own value"
        )
        yield Remark(NAME, script.path(loop), loop, message, Tier.ADVICE)


def _iterates_a_loader(script: Script, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop iterates over a loader of batches."""
    return Iterables(script.program, script.roles, script.tracer).is_loader_loop(loop)


def _metrics_in(script: Script, loop: ast.For | ast.AsyncFor) -> set[str]:
    """The metrics that get something in a loop and add up over the processes by themselves: `acc(x, y)`."""
    calls = [n.func for n in ast.walk(loop) if isinstance(n, ast.Call)]
    given = [f.value if isinstance(f, ast.Attribute) and f.attr == "update" else f for f in calls]
    return {f"`{ast.unparse(g)}`" for g in given if script.roles.adds_up_itself(g)}


def _goes_over_parts(script: Script, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop iterates over parts of a batch, or of what was collected: `zip(shown, labels)`, `preds[:5]`."""
    if any(isinstance(n, ast.Slice) for n in ast.walk(loop.iter)):
        return True
    round_it = [n for n in script.program.loops_round(loop) if isinstance(n, ast.For) and n is not loop]
    return any(_iterates_a_loader(script, n) and names_in(loop.iter) & bound_in(n) for n in round_it)
