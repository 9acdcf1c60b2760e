"""One process goes first, and meets the others nowhere on its way: they wait for it at the end.

with accelerator.main_process_first():
    rows = load()              # no `wait_for_everyone()`, and nothing that is broadcast, in `load`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Edit, Found, Insert, Remark, Replace, Wrap
from accelify.codemod.result import Tier
from accelify.codemod.semantics.call_conditions import with_functions
from accelify.codemod.semantics.program import Program

_APART = "the processes come here one after the other, and each goes by what it finds itself: use one for all"
_TOGETHER = (
    "the processes wait for each other in this: let one process make its files first, or make them before the run"
)


def in_turn(program: Program, found: Sequence[Found]) -> list[Found]:
    """The findings without what processes would do together where one goes first; or without one that goes first.

    That gives way where it runs a function in which others wait elsewhere, too.
    """
    firsts = [f for f in found if isinstance(f, Change) and any(map(_goes_first, f.edits))]
    within = {
        id(f): {n for e in f.edits if isinstance(e, Wrap) for s in e.statements for n in ast.walk(s)} for f in firsts
    }
    alone = with_functions(program, set().union(*within.values()))
    run = {id(f): _run(program, within[id(f)]) for f in firsts}
    meeting = [e.node for f in found if isinstance(f, Change) for e in f.edits if _meets(e) and e.node not in alone]
    frames = set(map(program.frame, meeting))
    return [each for one in found for each in _settled(one, alone, bool(run.get(id(one), set()) & frames))]


def _settled(one: Found, alone: set[ast.AST], is_met: bool) -> Iterator[Found]:
    if is_met and isinstance(one, Change):
        yield Remark(one.rule, one.path, one.edits[0].node, _TOGETHER, Tier.REVIEW)
        return
    meets = [e for e in one.edits if _meets(e) and e.node in alone] if isinstance(one, Change) else []
    if not meets or not isinstance(one, Change):
        yield one
        return
    if isinstance(meets[0], Replace):
        yield Remark(one.rule, one.path, meets[0].node, _APART, Tier.REVIEW)
    left = tuple(e for e in one.edits if e not in meets)
    if not all(isinstance(e, Insert) and e.imports for e in left):
        yield replace(one, edits=left)


def _goes_first(edit: Edit) -> bool:
    return isinstance(edit, Wrap) and edit.header.endswith(".main_process_first():")


def _meets(edit: Edit) -> bool:
    """Whether all processes have to come to what an edit puts in."""
    if isinstance(edit, Insert):
        return edit.code.endswith(".wait_for_everyone()")
    return isinstance(edit, Replace) and isinstance(edit.make, partial) and edit.make.func is snippets.agreed


def _run(program: Program, nodes: set[ast.AST]) -> set[object]:
    return set(program.run_through([n for n in nodes if isinstance(n, ast.Call)]))
