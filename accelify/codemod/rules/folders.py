"""Let several processes make the same folder.

    if not os.path.exists(path):        if not os.path.exists(path):
        os.makedirs(path)         ->        os.makedirs(path, exist_ok=True)

Why: two processes may both find that the folder is missing; the second to make it would fail.
Left alone: folders that are made unasked, where a script may want to fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.edits import Change, Plan, Replace
from accelify.codemod.script import Script

NAME = "folders"


def find(script: Script, plan: Plan) -> Iterator[Change]:
    """A change for each folder that is made under a check that it is missing."""
    for call in script.program.calls:
        called = script.program.called(call)
        if not called & {"os.makedirs", "os.mkdir"} or script.path(call) not in script.files:
            continue
        if len(call.args) != 1 or call.keywords or not _is_checked(script, call):
            continue
        make = made_anyway if "os.makedirs" in called else made_deep
        keeps = (call.func, *call.args)
        yield Change(
            NAME,
            script.path(call),
            call.lineno,
            "another process may have made it meanwhile",
            (Replace(call, make, keeps=keeps),),
        )


def _is_checked(script: Script, call: ast.Call) -> bool:
    for ancestor in script.program.ancestors(call):
        if isinstance(ancestor, ast.If) and any(word in ast.unparse(ancestor.test) for word in ("exists", "isdir")):
            return True
        if isinstance(ancestor, (ast.FunctionDef, ast.ClassDef)):
            return False
    return False


def made_anyway(call: cst.CSTNode) -> cst.BaseExpression:
    """`os.makedirs(path, exist_ok=True)`."""
    assert isinstance(call, cst.Call)
    bare = cst.SimpleWhitespace("")
    first = call.args[0].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    flag = cst.Arg(cst.Name("True"), keyword=cst.Name("exist_ok"), equal=cst.AssignEqual(bare, bare))
    return call.with_changes(args=[first, flag])


def made_deep(call: cst.CSTNode) -> cst.BaseExpression:
    """`os.makedirs(path, exist_ok=True)` for `os.mkdir(path)`."""
    assert isinstance(call, cst.Call)
    function = call.func.with_changes(attr=cst.Name("makedirs")) if isinstance(call.func, cst.Attribute) else call.func
    if not isinstance(call.func, cst.Attribute):
        return call
    return made_anyway(call.with_changes(func=function))
