"""Which loader is behind an iterator that a function hands back? `loader, batches = make()`, for `iter(loader)`."""

from __future__ import annotations

import ast

from accelify.codemod.analysis.bindings import returned
from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.trace import Chain, Tracer


def handed_back(program: Program, tracer: Tracer, chain: Chain) -> list[Chain]:
    """The ways back inside a function that hands an iterator back, beside its loader or not; the chain for others.

    Such a loader is prepared where it is made: an iterator goes over what the loader was when it began.
    """
    last = chain[-1]
    call = last.statement.value if isinstance(last.statement, ast.Assign) else None
    if last.kind != "assign" or not isinstance(call, ast.Call):
        return [chain]
    assert isinstance(last.statement, ast.Assign)
    targets = _parts(last.statement.targets[0])
    place = next((k for k, target in enumerate(targets) if ast.unparse(target) == last.text), None)
    given = [_parts(r) for r in returned(program.flow.callees.get(call, ())) if r is not None]
    if place is None or not any(_is_iterator(program, tracer, part) for parts in given for part in parts):
        return [chain]
    found = [way for parts in given if len(parts) == len(targets) for way in tracer.chains(parts[place])]
    return found or [chain]


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _is_iterator(program: Program, tracer: Tracer, node: ast.expr) -> bool:
    values = [node, *(b.value for chain in tracer.chains(node) for b in chain)]
    return any(isinstance(v, ast.Call) and "iter" in program.called(v) for v in values)
