"""Let several processes make the same folder.

    os.makedirs(path)    ->    os.makedirs(path, exist_ok=True)

Why: two processes may both find that the folder is missing; the second to make it would fail.
Left alone: calls that say themselves what to do. Where the script did not check first, the change is marked for review.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.edits import Change, Plan, Replace
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "folders"


def find(script: Script, plan: Plan) -> Iterator[Change]:
    """A change for each folder that is made."""
    for call in script.program.calls:
        if not script.program.called(call) & {"os.makedirs", "os.mkdir"} or script.path(call) not in script.files:
            continue
        if len(call.args) != 1 or call.keywords or not isinstance(call.func, ast.Attribute):
            continue
        tier = Tier.SAFE if _is_checked(script, call) else Tier.REVIEW
        edit = Replace(call, made_anyway, keeps=(call.func, *call.args))
        yield Change(NAME, script.path(call), call.lineno, "another process may have made it", (edit,), tier)


def _is_checked(script: Script, call: ast.Call) -> bool:
    """Whether a folder is made only where it was found missing."""
    for ancestor in script.program.ancestors(call):
        if isinstance(ancestor, ast.If) and any(word in ast.unparse(ancestor.test) for word in ("exists", "isdir")):
            return True
        if isinstance(ancestor, (ast.FunctionDef, ast.ClassDef)):
            return False
    return False


def made_anyway(call: cst.CSTNode) -> cst.BaseExpression:
    """`os.makedirs(path, exist_ok=True)`."""
    assert isinstance(call, cst.Call)
    assert isinstance(call.func, cst.Attribute)
    bare = cst.SimpleWhitespace("")
    first = call.args[0].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    flag = cst.Arg(cst.Name("True"), keyword=cst.Name("exist_ok"), equal=cst.AssignEqual(bare, bare))
    return call.with_changes(func=call.func.with_changes(attr=cst.Name("makedirs")), args=[first, flag])
