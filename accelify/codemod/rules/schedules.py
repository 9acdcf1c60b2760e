"""Keep learning rates equal on all processes.

    scheduler.step(loss)    ->    scheduler.step(accelerator.reduce(loss, "mean"))

    group["lr"] = base * min(1, step / 1000)    follows a count of steps, of which an epoch has 1/N
    loss = error + min(1, step / 1000) * kl     so does a weight, a temperature, a chance of teacher forcing
    if step > 1000: critic_optimizer.step()     and what is trained from some step on
    if step > 1000: loss = loss + penalty       or becomes a part of the loss then
    epochs = steps // len(loader)               N times as many, as each process has 1/N of the batches
    loss = error + kl / len(loader)             has a weight that comes from the number of batches

Why: a scheduler that waits for a plateau compares losses, and each process has its own: their learning rates would
diverge, and the copies of the model with them. A schedule that counts steps takes N times as many epochs, and so does
one that counts samples where each batch is divided between the processes: a note says so.
Left alone: values that all processes share already: a sum that is reduced, an evaluation that is not sharded or is
gathered; and schedules that count epochs, or parts of one, as `step / len(loader)` does, or go on by the size of all
data with each epoch, as `epoch * (len(rows) // size) + i` does. What follows the number of epochs alone, as
`epoch / epochs`, is right once that is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Remark, Replace
from accelify.codemod.metrics.comparisons import Answer
from accelify.codemod.metrics.decisions import decided_apart, decided_together, goes_by_size, number_read_on
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.steps.annealing import Annealing
from accelify.codemod.metrics.steps.intervals import Intervals
from accelify.codemod.metrics.steps.loss_weights import LossWeights
from accelify.codemod.metrics.steps.rates import Rates
from accelify.codemod.metrics.steps.samples import Samples
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.control_flow import Choice
from accelify.codemod.semantics.definitions import Kind, Variable

NAME = "schedules"
_DEPTH = 3
_OF_ROWS = (Mark.ROWS, Mark.RUNNING)
_FEWER = "the learning rate depends on the number of steps taken, and on N processes an epoch has 1/N of the steps"


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each step of a scheduler that takes what one process alone has seen; else a note."""
    yield from _counted(script)
    yield from _weighed(script)
    yield from _set_apart(script)
    for call in script.program.calls:
        given = _given(script, call)
        if given is None or not script.metrics.ranks.is_own(given):
            continue
        path, text, accelerator = script.path(call), ast.unparse(given), script.accelerator(call)
        if accelerator is None or script.is_by_hand or not script.options.runtime.has("reduce"):
            message = f"each process has its own `{text}`, so their learning rates may diverge: reduce it first"
            yield Remark(NAME, path, call, message, Tier.REVIEW)
            continue
        reduced = partial(snippets.reduced, accelerator=accelerator, how="mean")
        yield Change(
            NAME,
            path,
            call.lineno,
            f"`{text}` is reduced across processes, whose learning rates would diverge otherwise",
            (Replace(given, reduced, (given,), (accelerator.split(".")[0],)),),
            tier=Tier.REVIEW,
        )


def _set_apart(script: Script) -> Iterator[Remark]:
    """Learning rates that each process sets from its own data, unless one process gives its number to all."""
    metrics, rates = script.metrics, Rates(script.limits)
    found = [n for n in rates.rates_set() if metrics.ranks.sets_own(n) or goes_by_size(metrics, n.value)]
    apart = list(decided_apart(script.metrics)) if found else []
    together = decided_together(script.metrics, apart) if script.can_agree else {}
    decided = (c for c, how in together.items() if how is Answer.FIRST and script.accelerator(c.test) is not None)
    given = [v for v in (number_read_on(script.metrics, choice) for choice in decided) if v is not None]
    for node in found:
        if not given or _values(script, node.value).isdisjoint(given):
            message = (
                "each process sets this learning rate from its own data, so that they diverge, and with them the "
                "copies of the model: reduce first what it follows"
            )
            ends = [c.node for c in apart if c not in together and _ends_by(script, c, node)]
            at_once = ", and end the loop in {0} by the same number, or processes that leave it earlier stop the others"
            message += at_once if ends else ""
            if script.path(node) in script.files:
                lines = (tuple((script.path(end), end) for end in ends[:1]),) if ends else ()
                yield Remark(NAME, script.path(node), node, message, Tier.REVIEW, lines=lines)


def _ends_by(script: Script, choice: Choice, rate: ast.Assign | ast.AugAssign) -> bool:
    """Whether a condition ends a loop round a learning rate by a number that this follows: `while steps < 9`."""
    program, around = script.program, script.program.loops_round(rate)
    leaves = any(isinstance(n, (ast.Break, ast.Return)) for n in choice.nodes())
    is_end = choice.node in around or (leaves and any(program.inside(choice.node, loop) for loop in around))
    followed = (_variables(script, value) for value in (rate.value, *_values(script, rate.value)))
    return is_end and not _variables(script, choice.test).isdisjoint(set[Variable]().union(*followed))


def _variables(script: Script, node: ast.expr) -> set[Variable]:
    """The variables and attributes that an expression reads."""
    read = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load))
    return {v for n in read if (v := script.metrics.measured.chains.variable(n)) is not None}


def _values(script: Script, node: ast.expr, depth: int = _DEPTH) -> set[ast.expr]:
    """What the variables of an expression are given, for a parameter by the calls of its function."""
    program, chains, found = script.program, script.metrics.measured.chains, set[ast.expr]()
    reads = [n for n in ast.walk(node) if isinstance(n, ast.Name)] if depth else []
    for definition in (d for read in reads for d in chains.definitions(read)):
        scope, name = definition.variable.scope, definition.variable.name
        if definition.kind is Kind.PARAMETER and scope is not None:
            passed = (chains.given(call, scope, name) for call in program.calls_of(scope))
            found |= {v for p in passed if p is not None for v in _values(script, p, depth - 1)}
        value = script.tracer.assigned(definition.node) if isinstance(definition.node, ast.expr) else None
        found |= {value} if value is not None else set()
    return found


def _counted(script: Script) -> Iterator[Remark]:
    """Schedules that count steps, where an epoch has fewer of them than in one process."""
    if script.is_by_hand:
        return
    if script.divides_batches:
        yield from _counted_in_rows(script)
        return
    keep = "".join(f" (`{text}` is 1/N already)" for text in _lengths(script)[:1])
    keep += "" if script.preparation.sharded else ", or rewrite with `--keep-global-batch`"
    message = f"{_FEWER}: divide its numbers of steps by `{script.reach.name}.num_processes`{keep}"
    yield from _counted_by_size(script)
    if script.limits.rounds():
        return  # the training has as many steps as in one process
    yield from _multiplied_epochs(script)
    for node in Rates(script.limits).learning_rates():
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)
    annealed = [*_annealed(script)]
    for first in annealed[:1]:
        others = annealed[1:]
        message = (
            f"this follows the number of steps taken{' (also {0})' if others else ''}, and on N processes an epoch has "
            f"1/N of the steps: divide its numbers of steps by `{script.reach.name}.num_processes`{keep}"
        )
        lines = (tuple((script.path(node), node) for node in others),)
        yield Remark(NAME, script.path(first), first, message, Tier.REVIEW, lines=lines)


def _multiplied_epochs(script: Script) -> Iterator[Remark]:
    """Numbers of epochs by a number of steps and the length of a loader, which is 1/N once that is prepared."""
    is_as_before = script.options.keep_global_batch or script.distribution is not None
    for divided, quotient in script.limits.multiplied_epochs() if not is_as_before else ():
        message = (
            f"on N processes this gives N times as many epochs, as `{ast.unparse(quotient.right)}` is 1/N: divide "
            f"`{ast.unparse(divided)}` by `{script.reach.name}.num_processes` to go over the data as often as before"
        )
        if script.path(quotient) in script.files:
            yield Remark(NAME, script.path(quotient), quotient, message, Tier.REVIEW)


def _counted_by_size(script: Script) -> Iterator[Remark]:
    """Where samples are counted by the size of one process's batches: to average weights, to end the training."""
    samples = Samples(script.step_counts).samples(script.batch_sizes.loaders)
    found = [node for node in samples if script.path(node) in script.files]
    said: list[ast.AST] = []
    if found:
        said = [*Rates(script.limits).learning_rates(), *Annealing(script.step_counts).in_losses()]
    found = [node for node in found if not any(script.program.inside(node, place) for place in said)]
    for first, *others in [sorted(found, key=script.program.position)] if found else []:
        message = (
            f"`{ast.unparse(first)}` counts the samples of one process's batches{' (also {0})' if others else ''}, and "
            f"a step learns from N times as many: multiply the size by `{script.reach.name}.num_processes`"
        )
        lines = (tuple((script.path(node), node) for node in others),)
        yield Remark(NAME, script.path(first), first, message, Tier.REVIEW, lines=lines)


def _weighed(script: Script) -> Iterator[Remark]:
    """What weighs a loss by numbers of batches, of which each process has its own."""
    if script.is_by_hand or script.options.keep_global_batch:
        return
    found: dict[ast.stmt, list[ast.expr]] = {}
    for node in LossWeights(script.step_counts).find(script.batch_sizes.loaders):
        if script.path(node) in script.files:
            found.setdefault(script.program.statement(node), []).append(node)
    for statement, lengths in found.items():
        first = min(lengths, key=script.program.position)
        weight = statement.targets[0] if isinstance(statement, ast.Assign) and _is_number(script, statement) else None
        text, is_given = ast.unparse(weight or first), "comes from numbers of batches, which are"
        message = (
            f"`{text}` weighs the loss and {is_given if weight else 'is'} 1/N on N processes (rounded up): compute it "
            "above `prepare`"
        )
        yield Remark(NAME, script.path(first), first, message, Tier.REVIEW)


def _is_number(script: Script, statement: ast.Assign) -> bool:
    """Whether a variable or an attribute is assigned a number."""
    is_named = isinstance(statement.targets[0], (ast.Name, ast.Attribute))
    return is_named and script.metrics.measured.chains.kinds.of(statement.value) == {"number"}


def _lengths(script: Script) -> list[str]:
    """The numbers of a process's own steps that the script reads other than to divide by: `len(loader)`."""
    if script.options.keep_global_batch:
        return []
    counts = ((c, sizes.measured(c)) for c in script.program.calls)
    found = [c for c, loader in counts if loader is not None and script.prepared.is_loader(loader)]
    return sorted({ast.unparse(c) for c in found if not _is_divisor(script.program.parent(c), c)})


def _is_divisor(parent: ast.AST | None, node: ast.expr) -> bool:
    return isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.FloorDiv)) and parent.right is node


def _annealed(script: Script) -> Iterator[ast.expr]:
    """The values in a loss, and phases, that follow a count of steps, unless the training is as long as they assume."""
    is_limited = any(True for _ in script.limits.conditions())
    phases = Intervals(script.limits).phases()
    said = dict.fromkeys((*Annealing(script.step_counts).in_losses(), *phases))
    found = (n for n in said if script.path(n) in script.files)
    yield from () if is_limited else sorted(found, key=script.program.position)


def _counted_in_rows(script: Script) -> Iterator[Remark]:
    """Schedules that count samples, of which each step has fewer than in one process where batches are divided."""
    for call in script.program.calls:
        given = _given(script, call)
        if given is None or script.metrics.ranks.is_own(given):
            continue  # which is reduced
        if not any(o.is_count and o.mark in _OF_ROWS for o in script.metrics.ranks.of(given).origins):
            continue
        message = (
            f"`{ast.unparse(given)}` counts the samples that one process has seen, 1/N of each batch, so this schedule "
            f"takes N times as long: count those of all processes, with `{script.reach.name}.reduce(n)` for `n`"
        )
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _given(script: Script, call: ast.Call) -> ast.expr | None:
    """The argument of `scheduler.step(loss)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "step" or script.path(call) not in script.files:
        return None
    if not any(script.roles.is_scheduler(v) for v in script.program.values(call.func.value)):
        return None
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "metrics")]
    return given[0] if given and not isinstance(given[0], ast.Starred) else None
