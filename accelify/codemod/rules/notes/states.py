"""Notes on what a model, a hook or a loader keeps from batch to batch, of which each process has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import takewhile

from accelify.codemod.edits.values import Remark
from accelify.codemod.metrics.forward_state import (
    agree_by_broadcast,
    carried_states,
    hook_states,
    hook_totals,
    is_by_operation,
    refreshing_passes,
    rescaled_rows,
)
from accelify.codemod.metrics.kept_states import loader_states, pass_states
from accelify.codemod.metrics.ranks.own_weights import OwnWeights
from accelify.codemod.metrics.rows.pooling import Pooling
from accelify.codemod.metrics.steps.rates import Rates
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes.remarks import NAME, review
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope

# The message and the tier of what is carried from one batch to the next.
CARRIED = (
    "{} is carried from one batch to the next, but each process gets only every N-th batch: check that it does not "
    "need consecutive ones",
    Tier.REVIEW,
)
_POOLED = (
    "later losses are computed with {}, which each process computes from its own batch: average it over the processes "
    '(`{}.reduce(..., "mean")`{}) before it is used, or compute it from the gathered batches'
)


def rescaled(script: Script) -> Iterator[Remark]:
    """Weights that each forward pass changes for the rows of its own batch."""
    for call in rescaled_rows(script.metrics):
        message = (
            "with `max_norm`, a forward pass rescales the rows that this process's own batch looks up, and all "
            "processes go on with the main process's weights: leave it out, and rescale all rows on every process "
            "before each forward pass (`with torch.no_grad(): module.weight.renorm_(2, 0, max_norm)`)"
        )
        yield review(script, call, message)


def changed_in_forward(script: Script, states: Iterable[tuple[ast.AST, str]]) -> Iterator[Remark]:
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
        yield review(script, node, message)


def carried(script: Script) -> Iterator[Remark]:
    """What a forward pass keeps in plain attributes for the next one: a hidden state, or a value of its whole batch."""
    pooling = Pooling(script.metrics.ranks)
    for node, name in carried_states(script.metrics):
        is_pooled = pooling.sets_pooled(node)
        message, tier = CARRIED
        message = pooled(script, node) if is_pooled else message
        if is_pooled or not script.divides_batches:
            yield Remark(NAME, script.path(node), node, message, tier, about=f"`self.{name}`")


def pooled(script: Script, node: ast.AST) -> str:
    """The message on a state that is computed from all rows of a batch; `{}` stands for its name."""
    rounds, ranks = script.metrics.ranks.rounds, script.metrics.ranks
    inner = takewhile(lambda loop: loop not in rounds, script.program.loops_round(node))
    is_apart = any(inner) or any(ranks.is_own(b.test) for b, _ in script.program.branches_round(node))
    where = ", where all of them come to" if is_apart else ""
    return _POOLED.format("{}", script.accelerator(node) or script.reach.name, where)


def kept_by_hooks(script: Script) -> Iterator[Remark]:
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


def set_by_hand(script: Script) -> Iterator[Remark]:
    """Weights, buffers and settings that the script sets from each process's own values, a note for each."""
    found: dict[str, tuple[ast.AST, ast.expr]] = {}
    weights, rates = OwnWeights(script.metrics), {*Rates(script.limits).rates_set()}  # which have a note of their own
    for node, tensor in (each for each in weights.find() if script.program.statement(each[0]) not in rates):
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
        yield review(script, node, message)


def kept_by_loaders(script: Script) -> Iterator[Remark]:
    """What the code that makes batches keeps of the rows before, a note for each name."""
    for name, node in {name: node for node, name in reversed([*loader_states(script.metrics)])}.items():
        message = (
            f"later rows are made with `{name}`, which each process computes from its own shard: compute it from all "
            "the data before the training, or the processes train on rows that are made differently"
        )
        yield review(script, node, message)


def refreshed(script: Script) -> Iterator[Remark]:
    """Passes that only refresh a model's statistics, over a loader of which each process has a shard."""
    for call in refreshing_passes(script.metrics, buffers_agree=not script.options.runtime.wraps_models):
        message = (
            f"nothing reads the result of `{ast.unparse(call)}`: where the pass is for what it changes itself (the "
            "statistics of batch normalisation, what hooks collect), each process has that of its own shard; iterate "
            "over a loader that is not prepared"
        )
        yield review(script, call, message)
