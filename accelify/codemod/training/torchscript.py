"""Which functions does TorchScript compile? Its language has tensors and numbers, but no accelerator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, External, FunctionValue, Instance, Value


def compiled(program: Program) -> frozenset[Scope]:
    """The functions that TorchScript compiles: those that it is given, and all that they call."""
    found: set[Scope] = set()
    queue = [*_decorated(program), *_given(program)]
    while queue:
        function = queue.pop()
        if function not in found and not _is_left_to_python(program, function):
            found.add(function)
            queue += (f for call in program.calls_in(function) for f in program.flow.callees.get(call, ()))
    return frozenset(found)


def _decorated(program: Program) -> Iterator[Scope]:
    """The functions under `@torch.jit.script` and its like, and the methods of classes under it."""
    for scope in (s for built in program.flow.bindings.values() for s in built.made_by.values()):
        decorators = getattr(scope.node, "decorator_list", ())
        if any(_is(names.compiles, program, decorator) for decorator in decorators):
            yield from (scope,) if scope.is_function else (c for c in scope.children if c.is_function)


def _given(program: Program) -> Iterator[Scope]:
    """What calls compile: `torch.jit.script(f)`, and the forward pass of `torch.jit.script(Net())`."""
    for call in program.calls:
        if call.args and _is(names.compiles, program, call.func):
            for value in program.values(call.args[0]):
                yield from _run_as(value)


def _run_as(value: Value) -> Iterator[Scope]:
    if isinstance(value, FunctionValue):
        yield value.scope
    elif isinstance(value, (Instance, ClassValue)):
        cls = value.cls if isinstance(value, Instance) else value.scope
        methods = [cls.method("forward")] if isinstance(value, Instance) else cls.children
        yield from (m for m in methods if m is not None and m.is_function)


def _is_left_to_python(program: Program, function: Scope) -> bool:
    """Whether a function is under `@torch.jit.ignore` or its like."""
    return any(_is(names.is_left_to_python, program, d) for d in getattr(function.node, "decorator_list", ()))


def _is(asked: Callable[[str | None], bool], program: Program, function: ast.expr) -> bool:
    function = function.func if isinstance(function, ast.Call) else function
    return any(isinstance(v, External) and asked(v.name) for v in program.values(function))
