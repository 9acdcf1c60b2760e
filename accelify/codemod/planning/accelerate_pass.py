"""A script that uses Hugging Face Accelerate becomes one that uses accelify: its plan.

Such a script is prepared already, so the model of a plain script is not asked for: what it trains, and on which data,
is as its author wrote it. Only the names of Accelerate, and what differs between the two, change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from accelify.codemod import leftovers
from accelify.codemod.accelerate.uses import AccelerateUses
from accelify.codemod.edits.values import Plan
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.leftovers import Uses, settle
from accelify.codemod.options import Options
from accelify.codemod.planning.left_out import LeftOut
from accelify.codemod.rules import ACCELERATE_RULES
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer


def plan_from_accelerate(files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options) -> Plan:
    """The plan for a program of these files, one of which uses Accelerate; an empty one where it is to go on so."""
    if options.runtime.name == "accelerate":
        return Plan()
    program = Program(files, project, named)
    uses, effects, left_out = program.once(AccelerateUses), program.once(Effects), LeftOut(program, options)
    found = [one for _, find in ACCELERATE_RULES for one in find(uses)]
    stays = partial(left_out.stays, leftovers.NAME)
    unused = Uses(program, program.once(Tracer), frozenset(), effects.changes_nothing, stays=stays)
    made = settle(left_out.without(found), unused)
    made.obstacles += left_out.needed(made)
    made.remarks += left_out.notes(made, effects)
    return made
