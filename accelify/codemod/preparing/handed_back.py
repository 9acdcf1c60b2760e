"""What does a function return among other values: the loader behind an iterator, an argument of its own?"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer, is_view
from accelify.codemod.semantics.scopes import Scope, returned


def goes_over(program: Program, tracer: Tracer, value: ast.expr) -> bool:
    """Whether an expression is an iterator or a generator over something: `iter(loader)`, `endless(loader)`."""
    if not isinstance(value, ast.Call):
        return is_view(value)
    callees = program.flow.callees.get(value, ())
    is_passed = any(names.iteration(n) for n in program.called(value)) or tracer.is_progress(value)
    return is_passed or (bool(callees) and all(c.generates for c in callees))


def handed_back(program: Program, tracer: Tracer, chain: Chain) -> list[Chain]:
    """The ways back inside a function that returns an iterator, `loader, iter(loader)`; the chain for others.

    Such a loader is prepared where it is made: an iterator iterates over what the loader was when it began.
    """
    call, place, size = _unpacked(chain[-1])
    if call is None:
        return [chain]
    made = [r for r in returned(program.flow.callees.get(call, ())) if r is not None]
    taken = next((b.node for b in reversed(chain[:-1]) if isinstance(b.node, ast.Subscript)), None)
    if taken is not None:
        key = taken.slice
        listed = [tracer.listed(literal, key) for r in made for literal in _literals(tracer, r)]
        parts = [part for part in listed if part is not None and _is_iterator(program, tracer, part)]
        return [way for part in parts for way in tracer.chains(part)] or [chain]
    given = [_parts(r) for r in made]
    if not any(_is_iterator(program, tracer, part) for parts in given for part in parts):
        return [chain]
    found = [way for parts in given if len(parts) == size for way in tracer.chains(parts[place])]
    return found or [chain]


def _literals(tracer: Tracer, node: ast.expr) -> list[ast.expr]:
    """A container's literal, or those that a name was given."""
    given = [chain[-1].value for chain in tracer.chains(node)]
    return [v for v in given if v is not None] or [node]


def is_handed_through(program: Program, binding: Binding) -> bool:
    """Whether a function returns what it was given: `model, optimizer = train(model, optimizer, loader)`."""
    call, place, size = _unpacked(binding)
    callees = program.flow.callees.get(call, set()) if call is not None else set()
    given = [(c, _parts(r)) for c in callees for r in returned([c]) if r is not None]
    return bool(given) and all(
        len(parts) == size and isinstance(part := parts[place], ast.Name) and _is_parameter(c, part.id)
        for c, parts in given
    )


def _is_parameter(function: Scope, name: str) -> bool:
    """Whether a name of a function's is a parameter that nothing else is ever assigned to."""
    return any(p.arg == name for p in function.parameters) and len(function.writes.get(name, ())) == 1


def _unpacked(binding: Binding) -> tuple[ast.Call | None, int, int]:
    """The call whose parts a statement assigns, and which of how many parts a binding gets."""
    statement = binding.statement
    if binding.kind != "assign" or not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None, 0, 0
    targets = _parts(statement.targets[0])
    place = next((k for k, target in enumerate(targets) if ast.unparse(target) == binding.text), None)
    return (None, 0, 0) if place is None else (statement.value, place, len(targets))


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _is_iterator(program: Program, tracer: Tracer, node: ast.expr) -> bool:
    values = [node, *(b.value for chain in tracer.chains(node) for b in chain)]
    return any(v is not None and goes_over(program, tracer, v) for v in values)
