"""What do the script's own operations, `torch.autograd.Function`, change of what they are given?

    class Lookup(Function):
        @staticmethod
        def forward(ctx, x, memory):
            ctx.save_for_backward(x, memory)
        @staticmethod
        def backward(ctx, gradient):
            x, memory = ctx.saved_tensors
            memory[0] = x[0]

torch runs both methods: `Lookup.apply(x, self.memory)`, and `backward` in the backward pass after it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.libraries import names
from accelify.codemod.semantics.in_place import InPlace
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue


def changed_arguments(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of `Lookup.apply(x, memory)` that the operation changes in its forward or its backward pass."""
    is_apply = isinstance(call.func, ast.Attribute) and call.func.attr == "apply"
    for value in program.values(call.func.value) if is_apply else ():  # type: ignore[attr-defined]  # checked
        if isinstance(value, ClassValue) and any(map(names.is_operation, program.flow.external_bases(value.scope))):
            changed = set(_changed_parameters(program, value.scope))
            yield from (
                a for a, name in zip(call.args, _taken(value.scope, "forward"), strict=False) if name in changed
            )


def _changed_parameters(program: Program, operation: Scope) -> Iterator[str]:
    """The parameters of an operation's forward pass that its methods change, by their names there."""
    forward, backward = operation.method("forward"), operation.method("backward")
    if forward is None:
        return
    yield from (name for name in _taken(operation, "forward") if _is_changed(program, forward, [name]))
    saved = [a for c in _calls(forward) if getattr(c.func, "attr", "") == "save_for_backward" for a in c.args]
    if backward is not None:
        named = ((place, a.id) for place, a in enumerate(saved) if isinstance(a, ast.Name))
        yield from (name for place, name in named if _is_changed(program, backward, _unpacked(backward, place)))


def _taken(operation: Scope, name: str) -> list[str]:
    """The parameters of a method after its context, `ctx`."""
    method = operation.method(name)
    taken = [p.arg for p in method.parameters] if method is not None else []
    return taken[2 if method is not None and method.has_decorator("classmethod") else 1 :]


def _unpacked(backward: Scope, place: int) -> Iterator[str]:
    """The names that a backward pass gives to what was saved at a place: `x, memory = ctx.saved_tensors`."""
    for node in (n for s in backward.body for n in ast.walk(s) if isinstance(n, ast.Assign)):
        is_saved = isinstance(node.value, ast.Attribute) and node.value.attr in ("saved_tensors", "saved_variables")
        for target in node.targets if is_saved else ():
            listed = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
            yield from (t.id for t in listed[place : place + 1] if isinstance(t, ast.Name))


def _is_changed(program: Program, method: Scope, variables: Iterable[str]) -> bool:
    """Whether a method changes what some of its variables hold, in place."""
    in_place = program.once(InPlace)
    reads = (r for name in variables for r in program.reads_of(method, name))
    return any(any(in_place.changes(read)) for read in reads)


def _calls(method: Scope) -> Iterator[ast.Call]:
    return (n for s in method.body for n in ast.walk(s) if isinstance(n, ast.Call))
