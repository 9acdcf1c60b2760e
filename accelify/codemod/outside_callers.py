"""Which files of the project, beside the program, call functions whose parameters change?"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelify.codemod.edits.values import AddParameter, DropParameter, Plan
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project, absolute


def outside_callers(made: Plan, files: Sequence[Parsed], project: Project) -> list[tuple[Parsed, frozenset[str]]]:
    """The files, each with the functions that it calls by the parameters that they had."""
    known = {absolute(f.path) for f in files}
    found: dict[str, tuple[Parsed, frozenset[str]]] = {}
    for parsed in files:
        changed = _changed_functions(made, parsed)
        for other in project.importers([parsed]) if changed else ():
            called = _called(other) & changed
            if called and absolute(other.path) not in known:
                before = found[other.path][1] if other.path in found else frozenset()
                found[other.path] = (other, called | before)
    return list(found.values())


def _changed_functions(made: Plan, parsed: Parsed) -> frozenset[str]:
    """The functions and classes of a file that are to be called otherwise."""
    nodes = [e.node for c in made.of(parsed.path) for e in c.edits if isinstance(e, (AddParameter, DropParameter))]
    holders = [(node, parsed.parents.get(node)) for node in nodes]
    return frozenset(
        holder.name if node.name == "__init__" and isinstance(holder, ast.ClassDef) else node.name
        for node, holder in holders
    )


def _called(parsed: Parsed) -> frozenset[str]:
    """The last names of what a file calls, as they are where it imports them from."""
    aliases = [a for n in parsed.parents if isinstance(n, ast.ImportFrom) for a in n.names]
    names = {a.asname: a.name for a in aliases if a.asname is not None}
    found = [_last_name(n.func) for n in parsed.parents if isinstance(n, ast.Call)]
    return frozenset(names.get(name, name) for name in found)


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
