"""What does a function return among other values: the loader behind an iterator, an argument of its own?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer, is_view
from accelify.codemod.semantics.scopes import Scope, returned


def goes_over(program: Program, tracer: Tracer, value: ast.expr) -> bool:
    """Whether an expression may be an iterator or a generator over something: `iter(loader)`, `endless(loader)`."""
    if isinstance(value, (ast.IfExp, ast.BoolOp)):
        parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else value.values
        return any(goes_over(program, tracer, part) for part in parts)
    if not isinstance(value, ast.Call):
        return is_view(value)
    callees = program.flow.callees.get(value, ())
    is_passed = any(names.iteration(n) for n in program.called(value)) or tracer.is_progress(value)
    return is_passed or tracer.wrapped(value) is not None or (bool(callees) and all(c.generates for c in callees))


def handed_back(program: Program, tracer: Tracer, chain: Chain, seen: tuple[ast.AST, ...] = ()) -> list[Chain]:
    """The ways back inside a function that returns an iterator, `loader, iter(loader)`; the chain for others.

    Such a loader is prepared where it is made: an iterator iterates over what the loader was when it began. Where the
    function was given the iterator, the ways go on: `batch, batches = draw(loader, batches)`.
    """
    call, path = _unpacked(chain[-1])
    if call is None:
        return [chain]
    if chain[-1].node in seen:
        return []
    made = [r for r in returned(program.flow.callees.get(call, ())) if r is not None]
    taken = next((b.node for b in reversed(chain[:-1]) if isinstance(b.node, ast.Subscript)), None)
    if taken is not None:
        key = taken.slice
        listed = [tracer.listed(literal, key) for r in made for literal in _literals(tracer, r)]
        parts = [part for part in listed if part is not None and _is_iterator(program, tracer, part)]
        return [way for part in parts for way in tracer.chains(part)] or [chain]
    if not any(_is_iterator(program, tracer, leaf) for r in made for leaf in _leaves(tracer, r)):
        return [chain]
    found = [way for r in made for part in _parts_at(tracer, r, path) for way in tracer.chains(part)]
    inner = [way for each in found for way in handed_back(program, tracer, each, (*seen, chain[-1].node))]
    return inner or found or [chain]


def _literals(tracer: Tracer, node: ast.expr) -> list[ast.expr]:
    """A container's literal, or those that a name was given."""
    given = [chain[-1].value for chain in tracer.chains(node)]
    return [v for v in given if v is not None] or [node]


def is_handed_through(program: Program, tracer: Tracer, binding: Binding) -> bool:
    """Whether a function returns what it was given: `model, optimizer = train(model, optimizer, loader)`."""
    call, path = _unpacked(binding)
    callees = program.flow.callees.get(call, set()) if call is not None else set()
    given = [(c, _parts_at(tracer, r, path)) for c in callees for r in returned([c]) if r is not None]
    return bool(given) and all(
        len(parts) == 1 and isinstance(part := parts[0], ast.Name) and _is_parameter(c, part.id) for c, parts in given
    )


def _is_parameter(function: Scope, name: str) -> bool:
    """Whether a name of a function's is a parameter that nothing else is ever assigned to."""
    return any(p.arg == name for p in function.parameters) and len(function.writes.get(name, ())) == 1


_Path = tuple[tuple[int, int], ...]  # the place among so many parts, then the one inside that part


def _unpacked(binding: Binding) -> tuple[ast.Call | None, _Path]:
    """The call whose parts a statement assigns, and which of them a binding gets: `(a, b), (c, d) = make()`."""
    statement = binding.statement
    if binding.kind != "assign" or not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None, ()
    path = next(_paths(statement.targets[0], binding.text), None)
    return (None, ()) if path is None else (statement.value, path)


def _paths(target: ast.expr, text: str) -> Iterator[_Path]:
    """The ways through the parts of an assignment's target to what is written so."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield from ((),) if ast.unparse(target) == text else ()
        return
    for place, part in enumerate(target.elts):
        yield from (((place, len(target.elts)), *path) for path in _paths(part, text))


def _parts_at(tracer: Tracer, node: ast.expr, path: _Path) -> list[ast.expr]:
    """The part of a tuple, or of one inside it, in each of the literals that may stand there."""
    found = [node]
    for place, size in path:
        literals = [n for each in found for n in _literals(tracer, each) if isinstance(n, (ast.Tuple, ast.List))]
        found = [n.elts[place] for n in literals if len(n.elts) == size]
    return found


def _leaves(tracer: Tracer, node: ast.expr, depth: int = 3) -> list[ast.expr]:
    """All that a tuple holds, and the tuples in it."""
    literals = [n for n in _literals(tracer, node) if isinstance(n, (ast.Tuple, ast.List))] if depth else []
    return [leaf for n in literals for part in n.elts for leaf in _leaves(tracer, part, depth - 1)] or [node]


def _is_iterator(program: Program, tracer: Tracer, node: ast.expr) -> bool:
    values = [node, *(b.value for chain in tracer.chains(node) for b in chain)]
    return any(v is not None and goes_over(program, tracer, v) for v in values)
