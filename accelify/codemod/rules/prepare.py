"""Prepare models, optimizers and loaders.

    train_loader, model, optimizer = accelerator.prepare(train_loader, model, optimizer)

Why: a prepared loader gives each process its own batches on its own device; a prepared model starts equal everywhere.
It comes before `len(train_loader)` is read, so that a schedule counts the steps that one process really takes.
A model that the script moves to and fro, and of which it remembers where it is, stays where it is: `device_placement`.
Left alone: loaders that only evaluate, so that every process evaluates on everything; frozen models.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Insert, Obstacle, Replace
from accelify.codemod.preparing.grouping import Group, Item
from accelify.codemod.preparing.placing import body_start
from accelify.codemod.script import Script

NAME = "prepare"


def find(script: Script) -> Iterator[Change | Obstacle]:
    """A statement for each group, and a call round each object that has no name."""
    for group in script.preparation.groups:
        yield from _statement(script, group)
    for item in script.preparation.bare_models:
        yield from _bare(script, item)
    for kind, node in script.preparation.wrapped:
        yield from _wrap(script, kind, node)


def _statement(script: Script, group: Group) -> Iterator[Change | Obstacle]:
    anchor = group.anchor
    first = anchor or body_start(group.frame.body)
    accelerator = script.reach.expression(group.frame)
    path = script.path(first)
    names = ", ".join(i.text for i in group.items)
    if accelerator is None:
        yield Obstacle(NAME, path, first, f"the accelerator cannot be passed to where {names} would be prepared")
        return
    places = [None if not script.devices.is_placed_by_script(i) else False for i in group.items]
    given = f"{names}, device_placement={places}" if False in places else names
    code = snippets.call_statement(names, f"{accelerator}.prepare", given, first.col_offset)
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
                order=4,
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
