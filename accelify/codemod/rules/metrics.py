"""Combine across processes what a sharded loop counts.

    for x, y in train_loader:
        ...
        predicted = model(x).argmax(1)
        loss = accelerator.mean_for_metrics(loss, criterion, output, y)    # added
        predicted, y = accelerator.trim_for_metrics((predicted, y))    # added
        correct += (predicted == y).sum().item()
        total += len(y)
    correct, total = accelerator.reduce((correct, total), "sum")    # added
    print(correct / total)

    for x, y in accelerator.shard(valid_loader, even=False):    # was: valid_loader
        losses.append(criterion(model(x), y).item())
    losses = accelerator.gather_for_metrics(losses, per="batch")    # added
    print(np.mean(losses))

Why: each process adds up its own shard; what is printed, returned or decided from the sums is meant for all data.
What the script divides by `len(train_loader)`, or by the number of batches after which its loop ends, which count
the batches of one process, is reduced by its mean. The rows that a prepared loader adds to even out the last step of
an epoch are trimmed off before rows are counted, where nothing else in the loop needs them. They may be all rows that
a process has: what cannot be computed of none comes under `if len(y):`.
The meters of a loop, objects one of whose methods adds what it is given to sums (`meter.update(x)`, `meter.add(x, n)`,
`meter(x)`), are combined where they are read after it. So are lists
that get a number, an array or a detached tensor from each batch, where their mean is read, and lists of the rows of
its batches, predictions and labels say, from which a metric is computed.
A loop that trains in one phase and evaluates in another, as `phase == "train"` or a flag says, is sharded like the
latter where it evaluates: `for x, y in loader if training else accelerator.shard(loader, even=False)`.
A loop that evaluates, where all that leaves it is added up or collected, has its batches sharded as they are, and
sums, meters and lists are combined after the loop: the numbers are those of one process. A number of batches that is
read off the index of the last, `i + 1`, becomes `len(loader)`. Any other evaluation is not
sharded: every process evaluates all of it, which is right but no faster.
Where a pass in training mode after a step changes the statistics of batch normalisation, and the same round evaluates
all data in every process, `wait_for_everyone()` before that makes the statistics agree.
Rows that a comprehension counts, as `n = sum(len(x) for x, _ in train_loader)` does, are counted by all processes
together; a note names what any other comprehension collects from a prepared loader.
Left alone: a sum that does not begin at zero just outside its loop, or that is read nowhere after it; one whose use
after the loop cannot be followed. A note names each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Edit, Insert, Remark, Replace, Wrap
from accelify.codemod.metrics.batch_evaluations import ShardedEvaluation
from accelify.codemod.metrics.counted_passes import CountedPass
from accelify.codemod.metrics.decisions import decided_apart, is_met_by_all
from accelify.codemod.metrics.forward_state import late_evaluations
from accelify.codemod.metrics.meters import Metered
from accelify.codemod.metrics.rows.lists import Collected
from accelify.codemod.metrics.rows.recomputation import Recomputation
from accelify.codemod.metrics.rows.trims import Trim
from accelify.codemod.metrics.sums.meter_classes import Meter
from accelify.codemod.metrics.sums.reductions import Reduction
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.phases import Phase

NAME = "metrics"
_AFTER_SUMS = 100  # in the order of what is inserted after a loop


def find(script: Script) -> Iterator[Change | Remark]:
    """A statement after a loop for the sums that are reduced alike; evaluation loops whose batches are shared out."""
    for evaluation in script.metrics.sharded:
        yield _sharded(script, evaluation)
    for metered in script.metrics.metered:
        yield from _metered(script, metered)
    for counted in script.metrics.counted:
        yield _counted(script, counted)
    for name, divisor in script.metrics.divided_by_steps:
        message = (
            f"`{ast.unparse(divisor)}` counts the batches of one process, on N processes 1/N of them all, and `{name}` "
            "is of all data: divide by the number of batches that its own loop takes"
        )
        yield Remark(NAME, script.path(divisor), divisor, message, Tier.REVIEW)
    yield from _with_one_statistics(script)
    for order, reduction in enumerate(script.metrics.reductions):
        accelerator = script.accelerator(reduction.loop)
        assert accelerator is not None
        trim, source = script.metrics.trim(reduction), script.program.parsed(reduction.loop).text
        edits: list[Edit] = [_once_over(script, reduction.anchor, _statement(reduction, accelerator, source), order)]
        if trim is not None:
            edits.extend(_trimming(trim, accelerator, source))
        parts = trim.parts if trim is not None else ()
        edits.extend(_trimmed(part, accelerator) for part in parts)
        variables = "`, `".join(reduction.names)
        yield Change(
            rule=NAME,
            path=script.path(reduction.loop),
            line=reduction.anchor.end_lineno or reduction.anchor.lineno,
            reason=f"`{variables}`: now the {reduction.how} over {_of_whom(script, reduction, trim)}",
            edits=tuple(edits),
            tier=Tier.REVIEW,
        )
        for whole in reduction.wholes:
            message = _miscounted(script, reduction, trim, whole)
            if message:
                yield Remark(NAME, script.path(whole), whole, message, Tier.REVIEW)
                break


def _with_one_statistics(script: Script) -> Iterator[Change]:
    """A wait before an evaluation that is not sharded: a pass since the last step has changed what it computes with."""
    found = [] if script.is_by_hand or script.run.ends_apart else list(late_evaluations(script.metrics))
    apart = list(decided_apart(script.metrics)) if found else []
    for statement, call in dict(found).items():
        accelerator = script.accelerator(statement)
        if accelerator is not None and is_met_by_all(script.metrics, statement, apart, ()):
            wait = Insert(statement, "before", f"{accelerator}.wait_for_everyone()")
            reason = (
                f"`{ast.unparse(call)}` changes the statistics of batch normalisation after the backward pass: waiting "
                "gives all processes the same before they evaluate"
            )
            yield Change(NAME, script.path(statement), statement.lineno, reason, (wait,), Tier.SAFE)


def _once_over(script: Script, loop: ast.stmt, code: str, order: int) -> Insert:
    """Code that runs when the rounds of a loop are over: after it, or first in an `else` that always runs."""
    last = script.program.after_rounds(loop)
    return Insert(last[0], "before", code, order=order) if last else Insert(loop, "after", code, order=order)


def _counted(script: Script, counted: CountedPass) -> Change:
    """`accelerator.reduce(sum(len(x) for x, _ in accelerator.shard(loader, even=False)), "sum")`."""
    accelerator = script.accelerator(counted.call)
    assert accelerator is not None
    shared = partial(_loader_shard, function=f"{accelerator}.shard", phase=None, source="")
    reduced = partial(snippets.reduced, accelerator=accelerator, how="sum")
    reads = (accelerator.split(".")[0],)
    return Change(
        rule=NAME,
        path=script.path(counted.call),
        line=counted.call.lineno,
        reason="each process counts the rows of its batches, and their sum is the number of all rows",
        edits=(
            Replace(counted.source, shared, keeps=(counted.source,), reads=reads),
            Replace(counted.call, reduced, keeps=(counted.call,), reads=reads),
        ),
    )


def _miscounted(script: Script, reduction: Reduction, trim: Trim | None, whole: ast.expr) -> str:
    """Why a sum is not of just those rows or batches that it is divided by; nothing where it is."""
    is_sequence = script.prepared.is_sharded_sequence(reduction.loop)
    is_length = sizes.measured(whole) is not None  # of a data set, in rows
    if reduction.adds_means and not is_sequence and not is_length:
        return (
            f"`{reduction.names[0]}` adds up a mean for each batch, and N processes may take up to N - 1 batches "
            "more or fewer than one process does: divide by the number of batches that the loop has counted"
        )
    if reduction.leaves_out_its_end and is_sequence:
        return (
            "this counts all batches, but on N processes the loop leaves out up to N - 1 at its end, because "
            "the ranks take equal numbers of them: divide by what the loop has counted"
        )
    if reduction.leaves_out_its_end:
        return (
            "this counts the rows that `drop_last` leaves out, on N processes those of up to N - 1 batches more: "
            "divide by the rows that the loop has counted"
        )
    if trim is None and not is_sequence and not isinstance(whole, ast.Constant):
        return (
            f"this counts each row once, but `{reduction.names[0]}` on N processes also has those that are repeated to "
            "fill the last step of an epoch: divide by the rows that the loop has counted"
        )
    return ""


def _sharded(script: Script, evaluation: ShardedEvaluation) -> Change:
    """A loader that is sharded batch by batch, and what makes its sums and lists those of all batches."""
    accelerator = script.accelerator(evaluation.loop)
    assert accelerator is not None
    indent, source = evaluation.loop.col_offset, script.program.parsed(evaluation.loop).text
    sums = [evaluation.sums] if evaluation.sums and evaluation.phase is None else []
    code = [_summed(names, accelerator, '"sum"', indent) for names in sums]
    code.extend(_together(evaluation.meters, accelerator, indent, source))
    code.extend(_gathered(each, accelerator, indent, source) for each in evaluation.lists)
    start = _AFTER_SUMS if evaluation.phase is not None else 0
    inserted = (_once_over(script, evaluation.loop, line, order) for order, line in enumerate(code, start))
    sharded = Replace(
        evaluation.source,
        partial(_loader_shard, function=f"{accelerator}.shard", phase=evaluation.phase, source=source),
        keeps=(evaluation.source,),
        reads=(accelerator.split(".")[0],),
    )
    return Change(
        rule=NAME,
        path=script.path(evaluation.loop),
        line=evaluation.loop.lineno,
        reason="each batch is evaluated by one process; sums and lists are combined across processes after the loop",
        edits=(sharded, *inserted, *_lengths(script, evaluation)),
    )


def _lengths(script: Script, evaluation: ShardedEvaluation) -> Iterator[Replace]:
    """`len(loader)`, where the number of a process's last batch is read."""
    text = script.program.parsed(evaluation.loop).text
    length = snippets.expression(snippets.quoted_as(text, f"len({ast.unparse(evaluation.source)})"))
    for node in evaluation.lengths:
        yield Replace(node, lambda _: length, reads=tuple(sorted(names_in(evaluation.source))))


def _length_of(name: str, counted: ast.expr) -> Replace:
    """`len(losses)`, where the list holds one number for each batch of all processes."""
    length = snippets.expression(f"len({name})")
    return Replace(counted, lambda _: length, reads=(name,))


def _gathered(collected: Collected, accelerator: str, indent: int, source: str) -> str:
    """`losses = accelerator.gather_for_metrics(losses, per="batch")`."""
    name, how = (
        snippets.quoted_as(source, collected.name),
        "" if collected.is_of_numbers else ", use_gather_object=True",
    )
    if collected.per is not None:
        how = f', per="{collected.per}"'
    return snippets.call_statement(name, f"{accelerator}.gather_for_metrics", f"{name}{how}", indent)


def _together(meters: Sequence[tuple[str, Meter]], accelerator: str, indent: int, source: str) -> Iterator[str]:
    """The statements that combine meters over all processes."""
    for place, meter in meters:
        name = snippets.quoted_as(source, place)
        sums = [f"{name}.{part}" for part in meter.sums]
        yield from [_summed(sums, accelerator, '"sum"', indent)] if sums else []
        yield from (f"{name}.{mean} = {value.format(*[name] * value.count('{}'))}" for mean, value in meter.means)
        lists = (f"{name}.{part}" for part in meter.lists)
        yield from (
            snippets.call_statement(each, f"{accelerator}.gather_for_metrics", f'{each}, per="batch"', indent)
            for each in lists
        )


def _metered(script: Script, metered: Metered) -> Iterator[Change]:
    """Meters and lists of a shared loop that are read once it is over."""
    loop, path = metered.loop, script.path(metered.loop)
    accelerator, indent = script.accelerator(loop), metered.loop.col_offset
    assert accelerator is not None
    source = script.program.parsed(loop).text
    code = list(_together(metered.together, accelerator, indent, source))
    code.extend(_gathered(each, accelerator, indent, source) for each in metered.lists)
    edits: list[Edit] = [_once_over(script, loop, line, order) for order, line in enumerate(code, _AFTER_SUMS)]
    edits.extend(_trimmed(each.trimmed, accelerator) for each in metered.lists if each.trimmed is not None)
    edits.extend(_length_of(each.name, length) for each in metered.lists for length in each.lengths)
    if edits:
        names = "`, `".join([*(name for name, _ in metered.together), *(each.name for each in metered.lists)])
        is_trimmed = not metered.together and all(c.per == "row" or c.trimmed is not None for c in metered.lists)
        whole = _of_rows_once() if is_trimmed else _of_all(script, loop)
        yield Change(NAME, path, loop.end_lineno or loop.lineno, f"`{names}`: of {whole}", tuple(edits), Tier.REVIEW)


def _loader_shard(node: cst.CSTNode, function: str, phase: Phase | None, source: str) -> cst.CSTNode:
    """`accelerator.shard(loader, even=False)`, in a loop that also trains where it does not."""
    assert isinstance(node, cst.BaseExpression)
    share = f"{function}({{loader}}, even=False)"
    if phase is None:
        return snippets.expression(share, loader=node)
    branches = ("{loader}", share) if phase.trains else (share, "{loader}")
    test = snippets.quoted_as(source, ast.unparse(phase.test))
    return snippets.expression(f"{branches[0]} if {test} else {branches[1]}", loader=node)


def _trimming(trim: Trim, accelerator: str, source: str) -> Iterator[Edit]:
    """The edits that leave out the repeated rows before the first sum."""
    yield from (_mean_again(name, again, accelerator, source) for name, again in trim.batch_means)
    lines = [] if trim.mean is None else [_taken_again(trim.mean, accelerator, trim.first.col_offset, source)]
    if trim.names:
        names = ", ".join(trim.names)
        value = f"({names})" if len(trim.names) > 1 else names
        called = f"{accelerator}.trim_for_metrics"
        lines.append(snippets.call_statement(names, called, value, trim.first.col_offset))
    if lines:
        yield Insert(trim.first, "before", "\n".join(lines))
    yield from (Wrap(statements, f"if len({trim.rows}):") for statements in trim.skipped)


def _trimmed(part: ast.expr, accelerator: str) -> Replace:
    """`accelerator.trim_for_metrics(found == y)`, where it is summed."""
    trimmed = partial(snippets.passed_to, function=f"{accelerator}.trim_for_metrics")
    return Replace(part, trimmed, keeps=(part,), reads=(accelerator.split(".")[0],))


def _mean_again(loss: ast.Name, again: Recomputation, accelerator: str, source: str) -> Replace:
    """`accelerator.mean_for_metrics(loss, criterion, output, target)`, where the loss is added."""
    code = f"{accelerator}.mean_for_metrics({_said(again, source)})"
    made = partial(snippets.coded, code=code)
    return Replace(loss, made, keeps=(loss,), reads=(accelerator.split(".")[0], *sorted(again.reads)))


def _taken_again(again: Recomputation, accelerator: str, indent: int, source: str) -> str:
    """`loss = accelerator.mean_for_metrics(loss, criterion, output, target)`."""
    return snippets.call_statement(again.name, f"{accelerator}.mean_for_metrics", _said(again, source), indent)


def _said(again: Recomputation, source: str) -> str:
    """`loss, criterion, output, target`."""
    return snippets.quoted_as(source, ", ".join((again.name, again.function, *again.given)))


def _of_whom(script: Script, reduction: Reduction, trim: Trim | None) -> str:
    if script.prepared.has_no_length(reduction.loop):
        return "all processes, but for an incomplete last round, which the loop leaves out"
    if reduction.how.startswith("m") and reduction.how != "mean":
        return "all processes"
    if reduction.how == "mean":
        whole = "the processes, which all take the same number of steps"
        is_even = script.metrics.has_full_steps(reduction.loop)
        return whole if is_even else f"{whole}; a smaller last batch counts as much as a full one"
    if trim is not None:
        return _of_rows_once() + ("; a mean within that step includes them" if trim.holds_means else "")
    return _of_all(script, reduction.loop)


def _of_rows_once() -> str:
    return "all processes, without the samples that are repeated to fill the last step of an epoch"


def _of_all(script: Script, loop: ast.For | ast.AsyncFor) -> str:
    if script.metrics.has_full_steps(loop):
        return "all processes; `drop_last` leaves out the batches that do not make a step of all processes"
    return "all processes; samples that are repeated to fill the last step of an epoch count twice"


def _statement(reduction: Reduction, accelerator: str, source: str) -> str:
    indent, how = reduction.anchor.col_offset, f'"{reduction.how}"'
    if reduction.how == "mean" and reduction.training is not None:
        how = f'{how} if {snippets.quoted_as(source, reduction.training)} else "sum"'
    if reduction.condition is None:
        return _summed(reduction.names, accelerator, how, indent)
    inner = _summed(reduction.names, accelerator, how, indent + 4)
    lines = "\n".join(f"    {line}" for line in inner.split("\n"))
    return f"if {reduction.condition}:\n{lines}"


def _summed(variables: Sequence[str], accelerator: str, how: str, indent: int) -> str:
    """`a, b = accelerator.reduce((a, b), "sum")`."""
    names = ", ".join(variables)
    value = f"({names})" if len(variables) > 1 else names
    return snippets.call_statement(names, f"{accelerator}.reduce", f"{value}, {how}", indent)
