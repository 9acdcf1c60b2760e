"""Notes on values of one process alone that leave the training."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.reports import About, Report
from accelify.codemod.metrics.steps.places import goes_over_all
from accelify.codemod.metrics.sums.differentiated import Differentiated
from accelify.codemod.preparing.batch_sizes import is_same_size
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes.remarks import NAME
from accelify.codemod.rules.notes.states import CARRIED, pooled
from accelify.codemod.script import Script
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.item_numbers import ItemNumbers
from accelify.codemod.training.losses import Totals

_OF_SHARDS = (About.SUM, About.LIST, About.GIVEN, About.RUNNING)
_STATES = (About.STATE, About.CARRIED)
_OWN_BATCHES = "{} is computed from this process's own batches only: reduce it if it should cover all data"
_OWN_SHARD = "{} covers this process's shard only: reduce or gather it across processes if it should cover all data"
_OWN_PLACES = (
    "{} is set for this process's shard only: all other places keep what the array began with, and count in a mean "
    "over it. Use only the places that were set, and reduce or gather these across processes"
)
_OWN_SLICES = (
    "{} takes as many rows as a full batch has, and on N processes the last batches of an epoch may be smaller, which "
    "fails here unless the loader has `drop_last=True`; places of other processes keep what the array began with. "
    "Append the rows of each batch to a list, and gather these"
)
_WITH_GRAPH = (
    "{} covers this process's shard only, and so do the gradients that are taken of it: average these "
    '(`{}.reduce(gradients, "mean")`), as what `reduce` gives of {} itself has no gradients'
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
    About.CARRIED: CARRIED,
    About.LAST: (_OWN_SHARD, Tier.REVIEW),
    About.SAVED_BY: (
        "{} decides here what is saved, and is computed from the main process's own batch only: reduce it first if the "
        "other processes' batches should count",
        Tier.REVIEW,
    ),
}


def left(script: Script, noted: Collection[ast.AST]) -> Iterator[Remark]:
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
        if report.about is About.CARRIED and not report.is_pooled and script.divides_batches:
            continue  # each process has its rows of every batch
        if script.is_by_hand and report.about not in _OF_SHARDS:
            continue  # the script has had these of one process before, and meant to
        is_of_shard = report.about in (*_OF_SHARDS, About.LAST)
        if is_of_shard and goes_over_all(script.metrics, report.node, report.loop):
            continue
        if report.about is About.SAVED_BY and _is_of_item_number(script, report.node):
            continue  # said of the counter
        message, tier = _OWN[About.BATCH if report.is_of_some_batches else report.about]
        if message is _OWN_SHARD and _fills_an_array(script, report):
            message = _OWN_SLICES if _is_for_full_batches(script, report.node) else _OWN_PLACES
        message = pooled(script, report.node) if report.is_pooled else message
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


def _is_for_full_batches(script: Script, place: ast.AST) -> bool:
    """Whether a place is a slice for the rows of a full batch: `found[i * size : (i + 1) * size] = y`."""
    parts = [place.slice] if isinstance(place, ast.Subscript) else []
    parts = [e for p in parts for e in (p.elts if isinstance(p, ast.Tuple) else [p])]
    ends = [p.upper for p in parts if isinstance(p, ast.Slice) and p.upper is not None]
    ends = [end for end in ends if not script.metrics.ranks.of(end).of(Mark.ROWS)]  # not of as many rows as there are
    put = getattr(script.program.statement(place), "value", None)
    if isinstance(put, ast.expr) and script.program.once(Totals).is_one_number(put):
        return False
    names = [n for end in ends for n in walk(end) if isinstance(n, ast.Name)]
    given = [d.node for n in names for d in script.metrics.measured.chains.definitions(n)]
    values = (getattr(script.program.statement(node), "value", None) for node in given if isinstance(node, ast.Name))
    made = [*ends, *(v for v in values if isinstance(v, ast.expr))]
    factors = [n for v in made for n in walk(v) if isinstance(n, ast.expr)]
    return any(is_same_size(script.tracer, size, n, "batch") for size in script.batch_sizes.loaders for n in factors)


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
