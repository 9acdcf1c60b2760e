"""Run the rules over a script and decide on the whole: one plan, or the reasons why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

from accelify.codemod import leftovers
from accelify.codemod.edits.inserted import Inserted
from accelify.codemod.edits.values import (
    AddParameter,
    Attempt,
    Change,
    DropParameter,
    Edit,
    Found,
    Obstacle,
    Plan,
    Remark,
)
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.files.source import is_notebook
from accelify.codemod.leftovers import Uses, edits_of, settle
from accelify.codemod.libraries import names
from accelify.codemod.options import Options
from accelify.codemod.planning.evidence import Evidence
from accelify.codemod.planning.imports import in_one_form
from accelify.codemod.planning.left_out import LeftOut
from accelify.codemod.planning.outside_callers import users_of_parameter
from accelify.codemod.planning.turns import in_turn
from accelify.codemod.result import Tier
from accelify.codemod.rules import RULES
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.understand import Verdict, understand

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
        made.waits = verdict.script.run.waits
        made.stands_alone = _stands_alone(verdict.script, made)
        made.is_trial = verdict.script.run.is_trial
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

    Mixed precision that cannot be taken over whole stays.
    """
    script = verdict.script
    assert script is not None
    made = _settled(verdict, script)
    precision = script.precision
    troubles: list[Obstacle | Remark] = [*made.obstacles, *made.left_over]
    if troubles and precision is not None and precision.is_taken_over and not precision.library:
        return plan(understand(script.program, script.options, (troubles[0].node, troubles[0].message)))
    return made


def _file_by_file(script: Script, found: Found) -> Iterator[Found]:
    """A change once for each file that its edits are in: what a callee writes, its callers may have to wait for."""
    edits: dict[str, list[Edit]] = {}
    for edit in found.edits if isinstance(found, Change) else ():
        edits.setdefault(script.path(edit.node), []).append(edit)
    if not isinstance(found, Change) or set(edits) <= {found.path}:
        yield found
        return
    for path, own in edits.items():
        line = found.line if path == found.path else script.program.line(own[0].node)
        yield replace(found, path=path, line=line, edits=tuple(own))


def _path(found: Found) -> str:
    """The file that a finding is about."""
    return _path(found.found[0]) if isinstance(found, Attempt) else found.path


def _started_by_hand(script: Script) -> Iterator[Obstacle]:
    """Where a script, names of which nothing would use any more, starts the group of its processes itself."""
    program, found = script.program, script.distribution
    calls = program.calls if found is not None and found.is_understood else ()
    for call in sorted(calls, key=program.position):
        started = sorted(n for n in program.called(call) if names.starts_group(n))
        if started and program.may_run(program.frame(call)):
            message = (
                f"already distributed: `{started[0]}` starts the processes' group here, and what was written by hand "
                "for it cannot all be replaced"
            )
            yield Obstacle("distributed", script.path(call), call, message)
            return


def _with_sentences(remarks: Sequence[Remark]) -> list[Remark]:
    """The notes, where one that may be a sentence of another rule's note is one."""
    found = [r for r in remarks if not r.within]
    for remark in (r for r in remarks if r.within):
        hosts = sorted((r for r in found if r.rule in remark.within), key=lambda r: r.path != remark.path)
        host = next(iter(hosts), None)
        if host is None or (host.path != remark.path and is_notebook(remark.path)):  # which says what its cells need
            found.append(remark)
            continue
        message = f"{host.message}. {remark.message[0].upper()}{remark.message[1:]}"
        alike = (host.rule, host.tier, host.message)  # which become one note
        tier = Tier.REVIEW if Tier.REVIEW in (host.tier, remark.tier) else host.tier
        found = [replace(r, message=message, tier=tier) if (r.rule, r.tier, r.message) == alike else r for r in found]
    return found


def _settled(verdict: Verdict, script: Script) -> Plan:
    """The plan of all findings, and of the code that becomes unused by them."""
    found: list[Found] = [Obstacle(rule, script.path(n), n, message) for n, rule, message in verdict.obstacles]
    found.extend(each for _, find in RULES for one in find(script) for each in _file_by_file(script, one))
    found = [one for one in found if _path(one) not in script.migrated]
    program, left_out = script.program, LeftOut(script.program, script.options)
    found = in_turn(program, found)
    given_in = cache(lambda function, name: tuple(users_of_parameter(program, function, name)))
    stays = partial(left_out.stays, leftovers.NAME)
    uses = Uses(program, script.tracer, script.handed, script.changes_nothing, given_in, stays)
    made = settle(left_out.without(found), uses)
    made.obstacles = [*(_started_by_hand(script) if made.left_over else ()), *made.obstacles]
    made.obstacles += left_out.needed(made)
    made.obstacles += [] if made.obstacles else list(program.once(Inserted).obstacles(made.changes))
    made.remarks += left_out.notes(made, script.effects)
    made.remarks = _with_sentences(made.remarks)
    asking = {node.module for node in script.reach.asking}
    made.changes = in_one_form(made.changes, script.options.runtime.module, asking)
    return made
