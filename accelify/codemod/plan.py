"""Run the rules over a script and decide on the whole: one plan, or the reasons why there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelify.codemod.edits.values import (
    AddParameter,
    Change,
    DropNames,
    DropParameter,
    Obstacle,
    Plan,
    Remark,
    Remove,
    Unwrap,
)
from accelify.codemod.evidence import Evidence
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.options import Options
from accelify.codemod.rules import RULES
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.understand import Verdict, understand
from accelify.codemod.used_names import added_reads, edits_of, vanished

_ROUNDS = 6
_MORE_ROOTS = 3


def plan_for(files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options) -> Plan | None:
    """The plan for a program of these files; None when the named ones do not train.

    A file that changes is migrated whole: the plan is made anew with the training code in it that was not asked for.
    """
    roots = list(named)
    for _ in range(_MORE_ROOTS):
        program = Program(files, project, roots)
        verdict = understand(program, options)
        if verdict.script is None:
            return None
        made = plan(verdict)
        made.waits = verdict.script.waits
        made.stands_alone = _stands_alone(verdict.script, made)
        made.is_trial = verdict.script.is_trial
        made.evidence = Evidence(program, verdict.script).at
        changed = {c.path for c in made.changes} - {p.path for p in roots}
        more = [p for p in files if p.path in changed and ".backward" in p.text]
        if not more:
            break
        roots.extend(more)
    return made


def _stands_alone(script: Script, made: Plan) -> bool:
    """Whether a class trains what it is handed, keeps the accelerator, and can be used as before."""
    if made.obstacles or any(home.kind != "class" for home in script.reach.homes):
        return False
    return not any(isinstance(e, (AddParameter, DropParameter)) for e in edits_of(made.changes))


def plan(verdict: Verdict) -> Plan:
    """The plan for a program that has a training loop.

    A move that could go, but was the last to read a name that cannot go, stays: then the rules run again. Mixed
    precision that cannot be taken over whole stays, too.
    """
    script = verdict.script
    assert script is not None
    made = _settle(verdict, script)
    precision = script.precision
    if made.obstacles and precision is not None and precision.is_taken_over and not precision.library:
        trouble = made.obstacles[0]
        precision.stays = (trouble.node, trouble.message)
        script.kept_moves.clear()
        script.unread.clear()
        made = _settle(verdict, script)
    return made


def _settle(verdict: Verdict, script: Script) -> Plan:
    """Run the rules until what must stay is known."""
    for _ in range(_ROUNDS):
        made = _run(verdict, script)
        left = set(_stuck(script, made))
        stuck = {statement for statement, _ in left}
        unread = {variable for _, variable in left}
        if not stuck <= script.kept_moves:
            script.kept_moves |= stuck
        elif not unread <= script.unread:  # it is no move that could stay
            script.unread |= unread
        else:
            break
    for statement, (_, name) in sorted(left, key=lambda one: (script.program.line(one[0]), one[1][1])):
        message = f"`{name}` would be left over, as nothing but this line reads it: take it out by hand first"
        made.obstacles.append(Obstacle("unused", script.path(statement), statement, message))
    return made


def _run(verdict: Verdict, script: Script) -> Plan:
    made = Plan()
    made.obstacles.extend(Obstacle(rule, script.path(node), node, message) for node, rule, message in verdict.obstacles)
    for _, find in RULES:
        collect(made, find(script, made))
    return made


def collect(made: Plan, found: Iterable[Change | Remark | Obstacle]) -> None:
    """Add to a plan what a rule finds, as it is found."""
    for one in found:
        if isinstance(one, Change):
            made.changes.append(one)
        elif isinstance(one, Remark):
            made.remarks.append(one)
        else:
            made.obstacles.append(one)


def _stuck(script: Script, made: Plan) -> Iterator[tuple[ast.AST, tuple[Scope, str]]]:
    """The statements whose removed parts leave a local variable or a parameter that nothing reads, with it."""
    gone = vanished(made.changes)
    added = added_reads(script.program, made.changes)
    edits = list(edits_of(made.changes))
    removed = {n for e in edits if isinstance(e, Remove) for n in ast.walk(e.node)}
    removed |= {n for e in edits if isinstance(e, Unwrap) for part in e.gone for n in ast.walk(part)}
    dropped = {(e.node, n) for e in edits if isinstance(e, DropNames) for n in e.names}
    renamed = {(e.node, e.instead_of) for e in edits if isinstance(e, AddParameter)}
    renamed |= {(e.node, e.name) for e in edits if isinstance(e, DropParameter)}
    for path in sorted(script.files | {c.path for c in made.changes}):
        for scope in script.program.flow.bindings[path].root.walk():
            if scope.kind != "function":
                continue
            for name, writes in scope.writes.items():
                reads = list(script.program.reads_of(scope, name))
                if not scope.binds(name) or not reads or any(n not in gone for n in reads) or (scope, name) in added:
                    continue
                left = [w for w in writes if w not in removed and (scope.node, name) not in renamed]
                left = [w for w in left if not _is_counter(script, w) and not _is_instance(scope, w)]
                left = [
                    w for w in left if not (isinstance(w, ast.alias) and (script.program.parent(w), name) in dropped)
                ]
                if left:
                    yield from ((script.program.statement(n), (scope, name)) for n in reads)


def _is_instance(function: Scope, write: ast.AST) -> bool:
    """Whether a name is a method's first parameter, which every call of it fills."""
    return function.is_method and bool(function.parameters) and write is function.parameters[0]


def _is_counter(script: Script, write: ast.AST) -> bool:
    """Whether a name is bound by a loop, which may well count for nothing else."""
    loop = script.program.parent(write)
    return isinstance(loop, (ast.For, ast.AsyncFor)) and loop.target is write
