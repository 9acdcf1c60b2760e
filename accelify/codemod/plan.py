"""Run the rules over a script and decide on the whole: one plan, or the reasons why there is none."""

from __future__ import annotations

from accelify.codemod.edits import Change, Obstacle, Plan, Remark
from accelify.codemod.rules import RULES
from accelify.codemod.script import Verdict


def plan(verdict: Verdict) -> Plan:
    """The plan for a program that has a training loop."""
    made = Plan()
    script = verdict.script
    assert script is not None
    made.obstacles.extend(Obstacle(rule, script.path(node), node, message) for node, rule, message in verdict.obstacles)
    for _, find in RULES:
        for found in find(script, made):
            if isinstance(found, Change):
                made.changes.append(found)
            elif isinstance(found, Remark):
                made.remarks.append(found)
            else:
                made.obstacles.append(found)
    return made
