"""Which names does the user's code no longer use once changes are made, and which does the new code read?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.edits.values import Change, DropArgument, Edit, Insert, Remove, Replace, Unwrap, Wrap
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, names_read_in


def vanished(changes: Iterable[Change]) -> set[ast.AST]:
    """The names that the user's code no longer reads or writes once some changes are made."""
    gone: set[ast.AST] = set()
    for edit in edits_of(changes):
        if isinstance(edit, Remove):
            gone.update(_names(edit.node))
        elif isinstance(edit, DropArgument):
            gone.update(_names(edit.argument))
        elif isinstance(edit, Unwrap):
            gone.update(n for part in edit.gone for n in _names(part))
        elif isinstance(edit, Replace):
            kept = {n for k in edit.keeps for n in _names(k)}
            gone.update(n for n in _names(edit.node) if n not in kept)
    return gone


def added_reads(program: Program, changes: Iterable[Change]) -> set[tuple[Scope | None, str]]:
    """The names that new code reads, each with the scope whose it is there."""
    found: set[tuple[Scope | None, str]] = set()
    for edit in edits_of(changes):
        if isinstance(edit, Replace):
            node, read = edit.node, frozenset(edit.reads)
        elif isinstance(edit, Insert):
            node, read = edit.node, names_read_in(ast.parse(edit.code))
        elif isinstance(edit, Wrap):
            node, read = edit.statements[0], names_read_in(ast.parse(f"{edit.header}\n    pass"))
        else:
            continue
        found.update((program.scope(node).owner(name), name) for name in read)
    return found


def edits_of(changes: Iterable[Change]) -> Iterator[Edit]:
    """All edits of some changes."""
    for change in changes:
        yield from change.edits


def _names(node: ast.AST) -> list[ast.AST]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]
