"""Prepare models, optimizers and loaders.

    train_loader, model, optimizer = accelerator.prepare(train_loader, model, optimizer)

Why: a prepared loader gives each process its own batches on its own device; a prepared model starts equal everywhere.
It comes before `len(train_loader)` is read, so that a schedule counts the steps that one process really takes.
In `Accelerator(device_placement=False)`, it moves nothing: the script does.
A model that the script moves to and fro, and of which it remembers where it is, stays where it is: `device_placement`.
Left alone: loaders that only evaluate, so that every process evaluates on everything; frozen models.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Insert, Obstacle, Remark, Replace
from accelify.codemod.libraries import names, table
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.preparing.grouping import Group, Item
from accelify.codemod.preparing.placing import body_start
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import ClassValue, Constant, Element, Instance, Made, Member

NAME = "prepare"


def find(script: Script) -> Iterator[Change | Obstacle | Remark]:
    """A statement for each group, and a call round each object that has no name."""
    for group in script.preparation.groups:
        yield from _statement(script, group)
    for item in script.preparation.bare_models:
        yield from _bare(script, item)
    for kind, node in script.preparation.wrapped:
        yield from _wrap(script, kind, node)
    yield from _of_batches(script)


def _statement(script: Script, group: Group) -> Iterator[Change | Obstacle]:
    anchor = group.anchor
    first = anchor or body_start(group.frame.body)
    accelerator = script.reach.expression(group.frame)
    path = script.path(first)
    names = ", ".join(i.text for i in group.items)
    if accelerator is None:
        yield Obstacle(NAME, path, first, f"the accelerator cannot be passed to where {names} would be prepared")
        return
    code = snippets.call_statement(names, f"{accelerator}.prepare", names, first.col_offset)
    where = "after" if anchor is not None else "before"
    yield Change(
        rule=NAME,
        path=path,
        line=(anchor.end_lineno or anchor.lineno) if anchor is not None else first.lineno,
        reason="prepared: " + ", ".join(f"{i.text} ({i.kind}, line {i.line})" for i in group.items),
        edits=(Insert(first, where, code, order=5),),
    )


def _bare(script: Script, item: Item) -> Iterator[Change | Obstacle]:
    """A model that is not this function's to assign is prepared in place."""
    statement = item.statement or body_start(item.frame.body)
    accelerator = script.reach.expression(item.frame)
    if accelerator is None:
        yield Obstacle(
            NAME,
            script.path(statement),
            statement,
            f"the accelerator cannot be passed to where {item.text} would be prepared",
        )
        return
    yield Change(
        rule=NAME,
        path=script.path(statement),
        line=statement.end_lineno or statement.lineno,
        reason=f"prepared in place: {item.text} ({item.kind})",
        edits=(
            Insert(
                statement,
                "after" if item.statement is not None else "before",
                f"{accelerator}.prepare({item.text})",
                order=4 if item.kind == "model" else 5,
            ),
        ),
    )


def _wrap(script: Script, kind: str, node: ast.expr) -> Iterator[Change | Obstacle]:
    accelerator = script.accelerator(node)
    path = script.path(node)
    if accelerator is None:
        yield Obstacle(NAME, path, node, f"the accelerator cannot be passed to where this {kind} is built")
        return
    yield Change(
        rule=NAME,
        path=path,
        line=node.lineno,
        reason=f"prepared where it is created, because it has no name of its own: {kind}",
        edits=(
            Replace(
                node,
                partial(snippets.passed_to, function=f"{accelerator}.prepare"),
                keeps=(node,),
                reads=(accelerator.split(".")[0],),
            ),
        ),
    )


def _of_batches(script: Script) -> Iterator[Remark]:
    """Models made of what a pass over a prepared loader has found: its largest label, the mean of its first batch."""
    made = [c for c in script.program.calls if not script.is_by_hand and _makes_a_model(script, c)]
    found = [c for c in made if script.program.frame(c) in script.program.reachable and _is_of_batches(script, c)]
    places = [(script.path(c), c) for c in found]
    message = (
        "this model is made with values of the batches that a process has seen{also}: `prepare` takes over those of "
        "process 0, and stops where its sizes differ. Take sizes from the whole data set, or from a loader that no "
        "training loop uses"
    ).replace("{also}", " (also {0})" if places[1:] else "")
    if places:
        yield Remark(NAME, *places[0], message, Tier.REVIEW, lines=(tuple(places[1:]),))


def _is_of_batches(script: Script, call: ast.Call) -> bool:
    """Whether what a call is given comes from batches seen before, and not from what the steps of a model change."""
    program = script.program
    given = [a for a in [*call.args, *(k.value for k in call.keywords)] if not _is_of_no_data(program, a)]
    found = [o for a in given for o in script.metrics.ranks.of(a).of(Mark.BATCH, Mark.RUNNING) if o.differs]
    seen = [o.node for o in found if not program.inside(call, o.node) and program.may_follow(call, o.node)]
    steps = [loops[0] for loops in script.training.loops.values() if loops]
    return any(
        not (isinstance(node, ast.Call) and _runs_a_model(script, node))
        and not any(node is not loop and program.inside(node, loop) for loop in steps)
        for node in seen
    )


def _runs_a_model(script: Script, call: ast.Call) -> bool:
    return not script.program.values(call.func).isdisjoint(script.preparation.models)


def _is_of_no_data(program: Program, node: ast.expr) -> bool:
    """Whether an expression holds parts of what a file has, `config["layers"]`, and else only literals; or a device."""
    held = set(program.values(node))
    while any(isinstance(v, (Member, Element)) for v in held):
        held = {v.owner if isinstance(v, (Member, Element)) else v for v in held}
    made = {v.name for v in held if isinstance(v, Made)}
    are_known = all(names.reads_files(n) or table.kind_made_by(n) == "device" for n in made)
    return bool(made) and are_known and all(isinstance(v, (Made, Constant)) for v in held)


def _makes_a_model(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a model that is prepared: by a class of the script's own, or one of a library's."""
    function, made = script.program.values(call.func), script.program.values(call) & script.preparation.models
    if any(isinstance(v, Made) and v.node is call and names.is_module(v.name) for v in made):
        return True
    is_of_class = bool(function) and all(isinstance(v, ClassValue) for v in function)
    return is_of_class and any(isinstance(v, Instance) for v in made)
