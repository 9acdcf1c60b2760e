"""Which calls make weights, or draw those of a model anew?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect, Role
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Made, Parameters, Value


def draws_weights(program: Program, statement: ast.AST) -> bool:
    """Whether running a statement draws the weights of a model: of one that it makes, or anew."""
    if not program.once(Effects).of(statement).draws:
        return False
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    called = [f for c in calls for f in program.flow.callees.get(c, ())]
    handed_on = (f for node, f in program.flow.handed_on if program.inside(node, statement))
    run = program.run_from([*called, *handed_on])
    run -= program.run_from(f for f in run if _is_pass(program, f))  # which draws noise, if anything
    return any(_draws_weights(program, c) for c in (*calls, *(c for f in run for c in program.calls_in(f))))


def _is_pass(program: Program, function: Scope) -> bool:
    """Whether a function is the forward pass of a module."""
    cls = function.parent if function.is_method and function.name == "forward" else None
    return cls is not None and program.flow.is_module_class(cls)


def _draws_weights(program: Program, call: ast.Call) -> bool:
    """`nn.Linear(4, 2)`, `nn.init.normal_(w)`, `layer.reset_parameters()`, `layer.weight.data.normal_()`"""
    rows = [row for row in program.once(Kinds).called(call) or () if row.has(Effect.DRAWS_TORCH)]
    changed = program.once(Chains).changed_by(call) if any(row.mutates for row in rows) else ()
    return any(row.role is Role.MODEL for row in rows) or any(_may_be_weight(program, node) for node in changed)


def _may_be_weight(program: Program, node: ast.expr) -> bool:
    """Whether an expression is a model or a part of one, for all that is known."""
    if isinstance(node, ast.Attribute) and _is_buffer(program, node):
        return False
    kinds = program.once(Kinds)
    parts = [node]
    while isinstance(parts[-1], (ast.Attribute, ast.Subscript)):
        parts.append(parts[-1].value)
    return kinds.of(node) == {UNKNOWN} or any(
        table.is_kind(kind, each) for part in parts for kind in kinds.of(part) for each in ("module", "parameter")
    )


def _is_buffer(program: Program, node: ast.Attribute) -> bool:
    """Whether an attribute of a module is registered as its buffer: what is drawn into it is noise."""
    while node.attr == "data" and isinstance(node.value, ast.Attribute):
        node = node.value
    owners = [v.cls for v in program.values(node.value) if isinstance(v, Instance)]
    classes = {cls for owner in owners for cls in (owner, *program.flow.ancestors(owner))}
    calls = (c for cls in classes for scope in cls.walk() for c in program.calls_in(scope) if c.args)
    return any(
        getattr(call.func, "attr", "") == "register_buffer" and ast.unparse(call.args[0]) == repr(node.attr)
        for call in calls
    )


def written_by_hand(program: Program, run: Set[Scope]) -> Iterator[tuple[set[Value], list[ast.expr]]]:
    """The models whose weights functions set without an optimizer, and what they put there: `p.data.copy_(new)`."""
    written: list[tuple[ast.expr, list[ast.expr]]] = []
    for node in (n for parsed in program.files for n in parsed.nodes if isinstance(n, (ast.Attribute, ast.Name))):
        if isinstance(node.ctx, ast.Store) and program.frame(node) in run:
            statement = program.parent(node)
            value = getattr(statement, "value", None)
            is_set = isinstance(node, ast.Attribute) and not _is_beside_a_weight(program, node)
            if is_set or isinstance(statement, ast.AugAssign):
                written.append((node, [value] if isinstance(value, ast.expr) else []))
    calls = (c for f in run for c in program.calls_in(f) if changes_in_place(c))
    written += [(c.func.value, [*c.args, *(k.value for k in c.keywords)]) for c in calls]  # type: ignore[attr-defined]  # checked
    for target, given in written:
        owners = {v.owner for v in program.values(viewed(target)) if isinstance(v, Parameters)}
        if owners:
            yield owners, given


def _is_beside_a_weight(program: Program, target: ast.Attribute) -> bool:
    """`w.fast = w - lr * g` of a weight `w`: what it computes with for a while, beside itself."""
    is_of_weight = any(isinstance(v, Parameters) for v in program.values(target.value))
    return is_of_weight and table.member("tensor", target.attr) is None


def changes_in_place(call: ast.Call) -> bool:
    """Whether a call is one of a tensor's methods that change it."""
    row = table.member("tensor", call.func.attr) if isinstance(call.func, ast.Attribute) else None
    return row is not None and "self" in row.mutates


def viewed(tensor: ast.expr) -> ast.expr:
    """`p` of `p.data`."""
    while isinstance(tensor, ast.Attribute) and methods.is_view(tensor.attr):
        tensor = tensor.value
    return tensor


def late_parameters(program: Program) -> Iterator[ast.Call]:
    """The calls that make parameters, or layers, which a forward pass puts into its model."""
    scopes = [s for parsed in program.files for s in program.flow.bindings[parsed.path].root.walk()]
    classes = [s for s in scopes if s.kind == "class" and program.flow.is_module_class(s)]
    forwards = [method for cls in classes if (method := program.flow.method(cls, "forward")) is not None]
    run = program.run_from(forwards) & program.run_from(s for s in scopes if program.may_run(s))
    for method in (s for s in scopes if s.is_method and s in run and s.name != "__init__"):
        yield from (c for c in program.calls_in(method) if _makes_weights(program, c) and _is_kept(program, method, c))


def _makes_weights(program: Program, call: ast.Call) -> bool:
    rows = program.once(Kinds).called(call) or ()
    return any(row.returns == "parameter" for row in rows) or any(map(names.is_module, program.called(call)))


def _is_kept(program: Program, method: Scope, call: ast.Call) -> bool:
    """Whether a method puts what a call makes into a model: `self.w = p`, `self.register_parameter("w", p)`."""
    for node in ast.walk(method.node):
        places: list[ast.expr] = []
        given: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            places, given = [t.value for t in node.targets if isinstance(t, ast.Attribute)], [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            places, given = [node.func.value], node.args
        owners = [v for place in places for v in program.values(place) if isinstance(v, Instance)]
        if any(program.flow.is_module_class(owner.cls) for owner in owners):
            values = (value for each in given for value in program.values(each))
            if any(isinstance(value, Made) and value.node is call for value in values):
                return True
    return False
