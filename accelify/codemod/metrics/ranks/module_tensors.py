"""Which expressions are weights or buffers of a module, and of which?

    for p in net.parameters(): p.data      net[0].running_mean      net.state_dict()["weight"]      b of net.buffers()

A tensor that was made from them is none: `[p.clone() for p in net.parameters()]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.forward_state import kept_names
from accelify.codemod.metrics.ranks.settings import Settings
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    Collection,
    Constant,
    Element,
    FunctionValue,
    Instance,
    Made,
    Member,
    Parameters,
    Value,
    View,
)
from accelify.codemod.training.roles import Roles

_SAME = frozenset({Trait.SAME_VALUES, Trait.VIEW})  # the results may be the tensor itself


class ModuleTensors:
    """Follow tensors back to the modules that own them."""

    def __init__(self, chains: Chains, roles: Roles) -> None:
        self.chains, self.roles = chains, roles
        self.program = chains.program
        self.settings = Settings(chains, roles)
        self._kept: dict[Scope, set[str]] = {}

    def find(self, changed: ast.expr) -> ast.expr | None:
        """The weight or buffer of a module of which an expression is a part, or a view: `net.bias` of `net.bias[0]`."""
        node: ast.expr | None = changed
        while node is not None and not self._is_tensor(node):
            node = self._seen_in(node)
        return node

    def owners(self, tensor: ast.expr) -> Iterator[Value]:
        """The modules that a tensor may be one of."""
        if self.is_module(tensor):
            yield from (v for v in self.program.values(tensor) if v != Constant(None))
        elif isinstance(tensor, ast.Attribute):
            yield from self._modules(tensor.value)
        else:
            yield from (owner for v in self._held(tensor) for owner in self._owners(v))
            yield from (owner for v in self._steppers(tensor) for owner in self.roles.stepped_by(v))

    def is_module(self, node: ast.expr) -> bool:
        held = [v for v in self.program.values(node) if v != Constant(None)]
        return bool(held) and all(map(self.roles.is_module, held))

    def _seen_in(self, node: ast.expr) -> ast.expr | None:
        """The tensor of which an expression gives a part or a view: `p` of `p.data`, `p[0]`, `p.mul_(2)`."""
        if isinstance(node, ast.Call):
            member = node.func if isinstance(node.func, ast.Attribute) else None
            name = member.attr if member is not None else ""
            is_same = methods.changes_in_place(name) or methods.gives_view(name)
            return member.value if member is not None and is_same else None
        if isinstance(node, ast.Attribute) and not methods.is_view(node.attr):
            return None
        return node.value if isinstance(node, (ast.Attribute, ast.Subscript)) else None

    def _is_tensor(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return not methods.is_view(node.attr) and any(self._has(v, node.attr) for v in self._parts(node.value))
        if isinstance(node, ast.Call) and self._seen_in(node) is not None:
            return False
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and self._holds_several(node.value):
            return False  # another tensor is put there
        values = self._held(node) if isinstance(node, (ast.Name, ast.Subscript, ast.Call)) else ()
        return bool(self._steppers(node)) or (any(map(self._owners, values)) and not self._is_made(node))

    def _steppers(self, node: ast.expr) -> list[Value]:
        """The optimizers that step a tensor of theirs: `p` of `for p in group["params"]`."""
        listed = [node.value] if isinstance(node, ast.Subscript) else []
        listed = list(self._given(node)) if isinstance(node, ast.Name) else listed
        groups = (g.value for g in listed if isinstance(g, ast.Subscript) and _is_key(g.slice, "params"))
        return [o for group in groups for v in self.program.values(group) for o in self.settings.of_optimizer(v)]

    def _holds_several(self, node: ast.expr) -> bool:
        """Whether an expression is a list of tensors, or a dictionary: `net.state_dict()`."""
        several = (Collection, View)
        return any(isinstance(v, several) or self._given_by_module(v) for v in self.program.values(node))

    def _held(self, node: ast.expr) -> Iterable[Value]:
        """The values of an expression, also of a name that `p -= x` reads; those of a list's items are not its own."""
        values = self.program.values(node)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            owner = self.program.scope(node).owner(node.id)
            values = self.program.flow.variable(owner, node.id) if owner is not None else values
        return [] if any(isinstance(v, (Collection, View)) for v in values) else values

    def _owners(self, value: Value) -> list[Value]:
        """The modules of which a value may be a tensor."""
        if isinstance(value, Parameters):
            return [value.owner]
        if isinstance(value, Member) and self._has(value.owner, value.name):
            return [value.owner]
        if isinstance(value, Element) or (isinstance(value, Member) and value.name.startswith("[")):
            return self._given_by_module(value.owner)
        return self._given_by_module(value, is_one=True)

    def _given_by_module(self, value: Value, *, is_one: bool = False) -> list[Value]:
        """The modules whose tensors a call gives: `net.buffers()`, `net.state_dict()`; `net.get_buffer("m")`: one."""
        function = value.node.func if isinstance(value, Made) and isinstance(value.node, ast.Call) else None
        is_asked = methods.gives_tensor if is_one else methods.gives_state
        is_given = isinstance(function, ast.Attribute) and is_asked(function.attr)
        return self._modules(function.value) if is_given else []  # type: ignore[union-attr]  # an attribute

    # Modules.

    def _modules(self, node: ast.expr) -> list[Value]:
        return [v for v in self._parts(node) if not isinstance(v, Constant)]

    def _parts(self, node: ast.expr) -> list[Value]:
        """The modules, and the parts of modules, that an expression may be."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        applied = self._applied.get(owner, []) if owner is not None else []
        return [*applied, *(part for v in self.program.values(node) for part in self._part(v))]

    def _part(self, value: Value) -> list[Value]:
        whole = self.roles.container(value)
        if self.roles.is_module(whole):
            return [value]
        return [*self.roles.asked_for_parts(whole.owner)] if isinstance(whole, (Element, Member)) else []

    @cached_property
    def _applied(self) -> dict[Scope, list[Value]]:
        """The functions that modules run on their parts, each with the modules: `net.apply(reset)`."""
        found: dict[Scope, list[Value]] = {}
        for call in self.program.calls:
            owner = call.func.value if isinstance(call.func, ast.Attribute) and call.args else None
            if owner is not None and call.func.attr == "apply" and self.is_module(owner):  # type: ignore[attr-defined]
                for scope in (v.scope for v in self.program.values(call.args[0]) if isinstance(v, FunctionValue)):
                    found.setdefault(scope, []).extend(self.program.values(owner))
        return found

    def _has(self, owner: Value, name: str) -> bool:
        """Whether a module has a weight or a buffer of a name."""
        if not self.roles.is_module(owner) or not isinstance(owner, Instance):
            return self.roles.is_module(self.roles.container(owner)) and methods.is_module_tensor(name)
        family = (owner.cls, *self.program.flow.ancestors(owner.cls))
        return any(name in self._names_kept(cls) for cls in family)

    def _names_kept(self, cls: Scope) -> set[str]:
        if cls not in self._kept:
            self._kept[cls] = kept_names(self.program, cls)
        return self._kept[cls]

    # Copies.

    def _is_made(self, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether an expression surely gives other tensors, that were made from those of a module."""
        if node in seen or isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return node not in seen
        seen |= {node}
        if isinstance(node, (ast.Subscript, ast.Starred)) or (
            isinstance(node, ast.Attribute) and methods.is_view(node.attr)
        ):
            return self._is_made(node.value, seen)
        if isinstance(node, (ast.Name, ast.Attribute)):
            given = list(self._given(node))
            return bool(given) and all(self._is_made(g, seen) for g in given)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return self._is_made(node.elt, seen)
        if isinstance(node, ast.DictComp):
            return self._is_made(node.value, seen)
        return isinstance(node, ast.Call) and self._is_made_by(node, seen)

    def _is_made_by(self, call: ast.Call, seen: frozenset[ast.AST]) -> bool:
        rows = self.chains.kinds.called(call) or ()
        if any(row.has(Trait.COPIES) or (row.returns == "tensor" and row.traits.isdisjoint(_SAME)) for row in rows):
            return True
        method = self.chains.kinds.method(call)
        inner = [method.value] if method is not None else call.args
        return bool(inner) and any(self._is_made(i, seen) for i in inner)

    def _given(self, node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        """What gave a name or an attribute its value, or what was gone over."""
        for definition in self.chains.definitions(node) if isinstance(node.ctx, ast.Load) else ():
            if definition.kind is Kind.ASSIGNMENT:
                value = self.program.assigned(definition.node)[0]
            else:
                value = self._gone_over(definition.node) if definition.kind is Kind.LOOP else None
            if value is not None:
                yield value

    def _gone_over(self, target: ast.AST) -> ast.expr | None:
        """What a target of a loop is an element of: `ours` for `p` of `for p, q in zip(ours, others)`."""
        path, loop = self.program.binding(target)
        iterated: ast.expr | None = getattr(loop, "iter", None)
        if isinstance(iterated, ast.Call) and "zip" in self.program.called(iterated) and path:
            return iterated.args[path[0]] if path[0] < len(iterated.args) else None
        return iterated


def _is_key(node: ast.expr, key: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == key
