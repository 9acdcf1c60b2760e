"""Let all processes decide alike when the training goes on, and when it ends.

    if loss.item() < 0.01:      ->    if accelerator.broadcast_object_list([loss.item() < 0.01])[0]:
        break                             break
    if warm or d_loss > 1:      ->    if accelerator.broadcast_object_list([bool(warm or d_loss > 1)])[0]:
        d_loss.backward()                 accelerator.backward(d_loss)
    if torch.isnan(loss):       ->    if accelerator.reduce(torch.isnan(loss), "max"):
        continue                          continue
    if len(x) > 1:              ->    if accelerator.reduce(len(x) > 1, "min"):
        loss.backward()                   accelerator.backward(loss)
    while time.time() < end:    ->    while accelerator.broadcast_object_list([time.time() < end])[0]:
    lr = find(loss.item())      ->    lr = accelerator.broadcast_object_list([find(loss.item())])[0]
    if lr < 0:                        if lr < 0:
        break                             break
    group["lr"] = lr                  group["lr"] = lr
    n = int(input())           ->    n = int(accelerator.broadcast_object_list(
                                          [input() if accelerator.is_main_process else None])[0])

Why: what a process measures on its shard of the data, and its clock, are its own. One that stops, or leaves out a step,
while the others go on keeps them waiting. So all decide as process 0 does, where all come to the decision equally
often, and it is one about going on, goes by how high losses are, or is drawn at random. A step that one process has to
leave out, as its own batch is empty or its loss is NaN, is left out by all. A number that is used after its test is
process 0's, too, and so is what is drawn to choose a loader or an optimizer by. Only process 0 has a terminal: it asks
the user, and gives the answer to all.
Left alone: a step that is left out because of earlier batches of a process; one that has something else in its place; a
decision that not all processes come to; a loop of backward passes, as many as the process's own batch is long; and
agents, whose processes may take different numbers of steps. A note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import partial

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Edit, Remark, Replace
from accelify.codemod.libraries import names
from accelify.codemod.metrics.comparisons import Answer, NumberChecks
from accelify.codemod.metrics.decisions import (
    FileQuestions,
    decided_apart,
    decided_together,
    drawn_keys,
    follows,
    is_asked_together,
    number_read_on,
    repeated_apart,
    repeated_by_length,
)
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.control_flow import Choice

NAME = "decisions"
_OWN_DATA = "this is decided from one process's own data: "
_ALL = "all processes decide as process 0 does here"
_LEFT_OUT = (
    "all processes leave out a step where the batch of one of them calls for it, and with it the other batches of the "
    "step: if that is often, take such samples out of the data set instead"
)
_WHERE = {Answer.ANY: "any of them", Answer.ALL: "all of them"}


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each decision that one process may take for all; else a note."""
    yield from _repeated(script)
    apart = list(decided_apart(script.metrics))
    together = decided_together(script.metrics, apart) if script.can_agree else {}
    if not script.is_by_hand:
        yield from _questions(script, apart, together)
    given: set[ast.expr] = set()
    checks = NumberChecks(script.metrics)
    for key in drawn_keys(script.metrics, apart, together) if script.can_agree else ():
        accelerator = script.accelerator(key)
        if key not in given and accelerator is not None:
            given.add(key)
            edit = Replace(key, partial(snippets.agreed, speaker=accelerator), (key,), (accelerator.split(".")[0],))
            yield Change(NAME, script.path(key), key.lineno, "process 0 draws for all", (edit,), Tier.SAFE)
    for choice in apart:
        path, test, accelerator = script.path(choice.node), choice.test, script.accelerator(choice.test)
        if follows(script.metrics, test, together.keys() - {choice}):
            continue
        if choice not in together or accelerator is None:
            yield Remark(NAME, path, choice.node, _told(script, test), Tier.REVIEW)
            continue
        value = (number_read_on(script.metrics, choice) if together[choice] is Answer.FIRST else None) or test
        if value not in given:
            given.add(value)
            yield _made_one(script, choice, value, together[choice], accelerator)
        if together[choice] is not Answer.FIRST and checks.answer(test) is None:
            yield Remark(NAME, path, choice.node, _LEFT_OUT, Tier.REVIEW)


def _made_one(script: Script, choice: Choice, value: ast.expr, how: Answer, accelerator: str) -> Change:
    """One answer for all: the first process's, or what those of all come to."""
    # A tensor of another process's GPU is none of this one's.
    kinds = script.effects.kinds.of(value)
    said = partial(snippets.agreed, speaker=accelerator, template="{value}" if kinds <= {"number"} else "bool({value})")
    tier, reason = Tier.SAFE, _ALL
    if how is not Answer.FIRST:
        is_number = kinds <= {"number", "tensor"}
        said = partial(snippets.reduced, accelerator=accelerator, how=how.value, is_number=is_number)
        reason = f"all processes go by the same answer here: true where it is on {_WHERE[how]}"
    elif _why_apart(script, choice.test) == _OWN_DATA:
        tier, reason = Tier.REVIEW, f"{_ALL}, from its own data: reduce the value if it should cover all data"
    edit = Replace(value, said, keeps=(value,), reads=(accelerator.split(".")[0],))
    return Change(NAME, script.path(choice.node), value.lineno, reason, (edit,), tier)


def _questions(script: Script, apart: Collection[Choice], together: Collection[Choice]) -> Iterator[Change | Remark]:
    """Questions to the user: only process 0 has a terminal, and the others end where they ask."""
    for call in script.program.calls:
        asking = [n for n in script.program.called(call) if names.asks_the_user(n)]
        is_alone = call in script.written.guarding.covered
        if not asking or is_alone or not script.program.is_run(call):
            continue
        path, speaker = script.path(call), _speaker(script, call)
        if any(map(names.runs_code, asking)):
            message = (
                "every process stops in the debugger here, but only process 0 has a terminal, so the others end "
                "with an error: remove this before training on several processes"
            )
            yield Remark(NAME, path, call, message, Tier.REVIEW)
        elif script.can_agree and speaker is not None and is_asked_together(script.metrics, call, {*apart}, together):
            template = f"{{value}} if {script.state(call)}.is_main_process else None"
            asked = partial(snippets.agreed, speaker=speaker, template=template)
            edit = Replace(call, asked, keeps=(call,), reads=(speaker.split(".")[0],))
            edits: tuple[Edit, ...] = (edit, *script.library_import(call, speaker))
            yield Change(NAME, path, call.lineno, "process 0 asks the user, for all", edits, Tier.SAFE)
        else:
            message = (
                "every process waits for input here, but only process 0 has a terminal: ask under "
                "`if accelerator.is_main_process:`, and broadcast the answer if it is used"
            )
            yield Remark(NAME, path, call, message, Tier.REVIEW)


def _speaker(script: Script, call: ast.Call) -> str | None:
    """What sends process 0's answer: the accelerator, or the library where that does not reach; None for neither."""
    is_library = script.written.guarding.asking.holds(call)
    return script.accelerator(call) or (script.options.runtime.functions if is_library else None)


def _repeated(script: Script) -> Iterator[Remark]:
    """Loops of backward passes that have as many rounds as the item, or the batch, of one process says."""
    if script.is_by_hand:
        return
    by_item = list(repeated_apart(script.metrics))
    for loop in by_item:
        if script.run.ends_apart:
            message = f"this loop takes as many steps as the process's own episode has: {_joining(script)}"
            yield Remark(NAME, script.path(loop), loop, message, Tier.REVIEW)
            continue
        message = (
            "this loop has as many backward passes as the process's own item has parts, and processes with different "
            "numbers of them wait for each other and hang: add up the losses, and go backward once for each item"
        )
        yield Remark(NAME, script.path(loop), loop, message, Tier.REVIEW)
    for loop in repeated_by_length(script.metrics, by_item):
        message = (
            "this loop has a backward pass for each step of a length that may be the process's own, as each batch is "
            "padded by itself. The passes of processes with different numbers of them do not fit together: the run "
            "hangs or stops with an error. Add up the losses, and go backward once for each batch, or pad all batches "
            "to one length"
        )
        yield Remark(NAME, script.path(loop), loop, message, Tier.REVIEW)


def _told(script: Script, test: ast.expr) -> str:
    """A note on a condition that may hold on one process and not on another."""
    message = _why_apart(script, test)
    if script.run.ends_apart:
        return message + _joining(script)
    return message + (
        "processes that decide differently wait for each other and hang; decide from a value that is reduced "
        "across processes"
    )


def _joining(script: Script) -> str:
    """What becomes of a process that has finished before the others."""
    return (
        "processes may take different numbers of steps. One that has finished joins the others' steps without data "
        f"in `{script.reach.name}.wait_for_everyone()`, so call that right after the training: before it, the "
        "script must not do anything else that needs all processes"
    )


def _why_apart(script: Script, test: ast.expr) -> str:
    marks = {o.mark for o in script.metrics.ranks.of(test).origins if o.differs}
    if Mark.SIGNAL in marks:
        return "a signal may come to one process alone, while only the main process saves: "
    if marks and marks <= {Mark.DRAW, Mark.PICKED}:
        return "each process draws this for itself: "
    if marks == {Mark.CLOCK}:
        return "this is decided by each process's own clock: "
    if not marks and FileQuestions(script.metrics.measured.chains).are_in(test):
        return "this is decided by a file that one process may find and another not yet: "
    return _OWN_DATA
