"""Where new code goes: the imports, and the line that creates the accelerator."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from accelify.codemod.edits.values import Insert
from accelify.codemod.preparing.reach import constructor
from accelify.codemod.semantics.scopes import Scope

if TYPE_CHECKING:
    from accelify.codemod.script import Script

_FIRST = -1  # before whatever else is inserted at the same place


def import_block(script: Script, root: Scope) -> list[ast.stmt]:
    """The run of imports nearest above the first place in a module that needs the accelerator."""
    runs = _import_runs(script, root)
    return runs[-1] if runs else []


def _import_runs(script: Script, root: Scope) -> list[list[ast.stmt]]:
    """The runs of imports above the first place in a module that needs the accelerator."""
    first = first_use(script, root)
    runs: list[list[ast.stmt]] = []
    previous: ast.stmt | None = None
    for statement in root.body:
        if statement.lineno >= first:
            break
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_future(statement):
            if previous is not None and runs and previous is runs[-1][-1]:
                runs[-1].append(statement)
            else:
                runs.append([statement])
        previous = statement
    return runs


def first_use(script: Script, root: Scope) -> int:
    """The first line of a module at which the accelerator is needed."""
    lines = [10**9]
    lines.extend(
        getattr(node.node, "lineno", 1)
        for node in script.reach.nodes | set(script.reach.homes)
        if node.module == root.module and node.kind != "module"
    )
    lines.extend(
        _top(script, group.anchor).lineno
        for group in script.preparation.groups
        if group.frame.module == root.module and group.anchor is not None
    )
    lines.extend(
        _top(script, backward).lineno for backward in script.training.backwards if script.path(backward) == root.module
    )
    for _, wrapped in script.preparation.wrapped:
        if script.path(wrapped) == root.module:
            lines.append(_top(script, wrapped).lineno)
    lines.extend(_top(script, node).lineno for node in script.reached if script.path(node) == root.module)
    by_hand = script.distribution.replaced if script.distribution is not None else []
    lines.extend(_top(script, node).lineno for node in by_hand if script.path(node) == root.module)
    return min(lines)


def _top(script: Script, node: ast.AST) -> ast.stmt:
    """The module-level statement that holds a node."""
    found = script.program.statement(node)
    for ancestor in script.program.ancestors(node):
        if isinstance(ancestor, ast.stmt):
            found = ancestor
    return found


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def import_edit(script: Script, root: Scope, code: str) -> Insert:
    """An import of the runtime in a module, where an import sorter would put it; in a notebook, beside torch's."""
    runs = _import_runs(script, root)
    block = runs[-1] if runs else []
    if script.program.flow.parsed_of[root.module].decoded.notebook is not None:
        block = next((run for run in runs if any(_library(s).startswith("torch") for s in run)), block)
    if not block:
        return Insert(body_start(root.body), "before", code, gap=1)
    statement, where = _position(script, block, ast.parse(code).body[0])
    return Insert(statement, where, code)


def creation_edit(script: Script, home: Scope, code: str) -> Insert:
    """The line that creates the accelerator in one of its homes."""
    after = script.created_after
    if after is not None:
        return Insert(after, "after", code)
    if home.kind == "class":
        init = constructor(script.program, home)
        assert init is not None
        return kept_edit(init, code)
    if home.kind != "module":
        return Insert(body_start(home.body), "before", code, order=_FIRST)
    guard, block = script.reach.guarded.get(home), import_block(script, home)
    if guard is not None:
        return Insert(guard.body[0], "before", code, order=_FIRST)
    if block:
        return Insert(block[-1], "after", code, gap=1, order=2)
    return Insert(body_start(home.body), "before", code, gap=1, order=2)


def kept_edit(init: Scope, code: str) -> Insert:
    """A line at the start of a constructor, after the call of the base class's."""
    first = body_start(init.body)
    is_super = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and ast.unparse(first.value.func).endswith("__init__")
    )
    return Insert(first, "after" if is_super else "before", code, order=_FIRST)


def _position(script: Script, block: list[ast.stmt], new: ast.stmt) -> tuple[ast.stmt, str]:
    """A statement of a block of imports, and whether a new one goes `before` or `after` it."""
    kinds = [(_section(script, s), s) for s in block]
    third = [s for section, s in kinds if section == 1]
    listed = [s for s in third if type(s) is type(new)]
    for statement in listed:
        if _library(statement).lower() > _library(new):
            return statement, "before"
    if listed:
        return listed[-1], "after"
    if third:
        return (third[0], "before") if isinstance(new, ast.Import) else (third[-1], "after")
    standard = [s for section, s in kinds if section == 0]
    if standard:
        return standard[-1], "after"
    return block[0], "before"


def _library(statement: ast.stmt) -> str:
    """What an import statement imports, or imports from."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module or ""
    assert isinstance(statement, ast.Import)
    return statement.names[0].name


def _section(script: Script, statement: ast.stmt) -> int:
    """0 for the standard library, 1 for other libraries, 2 for the project's own."""
    name, level = _library(statement), getattr(statement, "level", 0)
    if level or script.program.flow.project.resolve(script.path(statement), name, level) is not None:
        return 2
    return 0 if name.split(".")[0] in sys.stdlib_module_names else 1


def body_start(body: list[ast.stmt]) -> ast.stmt:
    """The first statement after the docstring and `from __future__` imports; the last of those if there is no other."""
    for index, statement in enumerate(body):
        is_text = (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
        if not (is_text and index == 0) and not _is_future(statement):
            return statement
    return body[-1]
