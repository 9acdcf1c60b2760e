"""What the notes of this rule have in common."""

from __future__ import annotations

import ast

from accelify.codemod.edits.values import Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope, main_guard

NAME = "notes"


def review(script: Script, node: ast.AST, message: str) -> Remark:
    """A note at a node, for a person to decide on."""
    return Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def run_by_files(script: Script, node: ast.AST) -> list[ast.AST]:
    """A node of the files that change; for one of a function elsewhere that they call, these calls.

    Else the node itself, if what leads to the training runs it.
    """
    if script.path(node) in script.files:
        return [node]
    queue, found, seen = [script.program.frame(node)], list[ast.AST](), set[Scope]()
    while queue:
        frame = queue.pop()
        calls = script.program.flow.callers.get(frame, set()) if frame not in seen else set()
        seen.add(frame)
        found += [c for c in calls if script.path(c) in script.files]
        queue += [script.program.frame(c) for c in calls if script.path(c) not in script.files]
    frame, named = script.program.frame(node), {parsed.path for parsed in script.program.named}
    if frame.kind == "module":
        is_run = script.path(node) in named or main_guard(frame) not in list(script.program.ancestors(node))
    else:
        is_run = frame in script.run.trained
    return found or ([node] if is_run else [])
