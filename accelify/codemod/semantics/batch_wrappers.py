"""Which iterable do objects of the project's own hand on, item by item? That of `DeviceDataLoader(loader, device)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, assignment, own_statements, returned
from accelify.codemod.semantics.values import ClassValue, Instance


def iterated(program: Program, cls: Scope) -> ast.Attribute | None:
    """The attribute for each of whose items an object yields one of its own: `self.loader`; None for other objects."""
    method = program.flow.method(cls, "__iter__")
    if method is None or not method.parameters:
        return None
    source = _yielded(method) if method.generates else _mapped(program, method)
    if isinstance(source, ast.Name):  # `batches = iter(self.loader)`
        source = _only_given(method, source.id)
    source = program.begun(source) or source
    if not isinstance(source, ast.Attribute) or not isinstance(source.value, ast.Name):
        return None
    return source if source.value.id == method.parameters[0].arg else None


def taken(
    program: Program, call: ast.Call, assigned: Callable[[ast.expr], ast.expr | None]
) -> Iterator[tuple[Scope, str]]:
    """The constructor that a call runs, with the parameter that it keeps for the object to go over."""
    for cls in {v.cls for v in program.values(call) if isinstance(v, Instance)}:
        init, source = program.flow.method(cls, "__init__"), iterated(program, cls)
        if init is None or source is None or ClassValue(cls) not in program.values(call.func):
            continue
        family = {cls, *program.flow.ancestors(cls)}
        writes = [w for w in program.attribute_writes.get(source.attr, ()) if program.frame(w).parent in family]
        given = {v.id if isinstance(v := assigned(w), ast.Name) else None for w in writes}
        name = given.pop() if len(given) == 1 else None
        is_only_given = name is not None and all(isinstance(w, ast.arg) for w in init.writes.get(name, ()))
        if name is not None and is_only_given and {program.frame(w) for w in writes} == {init}:
            yield init, name


def _yielded(generator: Scope) -> ast.expr | None:
    """What a generator function goes over with one `yield` in each round, and no other."""
    yields = [n for n in ast.walk(generator.node) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    loops = [n for n in own_statements(generator.body) if isinstance(n, (ast.For, ast.While))]
    if len(loops) != 1 or len(yields) != 1 or not isinstance(loops[0], ast.For):
        return None
    leaves = any(isinstance(n, (ast.Break, ast.Continue, ast.Return, ast.Raise)) for n in own_statements(loops[0].body))
    is_each = any(isinstance(s, ast.Expr) and s.value is yields[0] for s in loops[0].body)
    return loops[0].iter if is_each and isinstance(yields[0], ast.Yield) and not leaves else None


def _mapped(program: Program, method: Scope) -> ast.expr | None:
    """What is gone over by `map(f, self.loader)`, `(f(b) for b in self.loader)`, `iter(self.loader)`, if returned."""
    listed = returned([method])
    node = listed[0] if len(listed) == 1 else None
    if isinstance(node, ast.GeneratorExp):
        return node.generators[0].iter if len(node.generators) == 1 and not node.generators[0].ifs else None
    if isinstance(node, ast.Call) and "map" in program.called(node) and len(node.args) == 2:
        return node.args[1]
    return program.begun(node)


def _only_given(function: Scope, name: str) -> ast.expr | None:
    """The one value that a function gives a variable."""
    found = [a for n in own_statements(function.body) if (a := assignment(n)) is not None]
    given = [a.value for a in found if isinstance(a.target, ast.Name) and a.target.id == name]
    return given[0] if len(given) == len(function.writes.get(name, ())) == 1 else None
