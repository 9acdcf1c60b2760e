"""Calls that make tensors, and losses and models that take them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelify.codemod.libraries import methods, names
from accelify.codemod.preparing.prepared import Prepared, brings_to_cpu
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, Collection, Made, Value
from accelify.codemod.training.roles import Roles

_KEPT = ("Parameter", "Buffer")


class Tensors:
    """Tells what makes tensors, and what computes with them."""

    def __init__(self, program: Program, roles: Roles, prepared: Prepared) -> None:
        self.program = program
        self.roles = roles
        self.prepared = prepared
        self._early: dict[ast.Call, bool] = {}

    def is_creator(self, call: ast.Call) -> bool:
        """`torch.zeros(3)`"""
        return any(map(names.is_factory, self._torch(call)))

    def _torch(self, call: ast.Call) -> set[str]:
        return {n for n in self.program.called(call) if n.startswith("torch.")}

    def is_loss(self, call: ast.Call) -> bool:
        """Whether a call compares outputs with something."""
        functions = {_last(n) for n in self.program.called(call) if n.startswith("torch.nn.functional.")}
        is_function = any(n.endswith(("_loss", "entropy", "_logits")) for n in functions)
        return is_function or any(self.roles.is_loss(v) for v in self.program.values(call.func))

    def is_model_call(self, call: ast.Call) -> bool:
        """Whether a call runs a prepared model, or a part of one: `model.decoder(x)`."""
        if self.is_model(call.func):
            return True
        if not isinstance(call.func, ast.Attribute) or not self.is_model(call.func.value):
            return False
        return call.func.attr == "forward" or any(map(self.roles.is_module, self.program.values(call.func)))

    def runs_early(self, call: ast.Call) -> bool:
        """Whether a call runs a model that is prepared later or never, or a method of it: where the model was made."""
        is_own = isinstance(call.func, ast.Attribute) and bool(self.program.flow.callees.get(call))
        networks = [call.func, *([call.func.value] if isinstance(call.func, ast.Attribute) and is_own else [])]
        if any(map(self.prepared.is_another_model, networks)):
            return True
        is_method = is_own and self.is_model(call.func.value)  # type: ignore[attr-defined]  # checked
        return (is_method or self.is_model_call(call)) and self._is_early(call)

    def is_model(self, node: ast.expr) -> bool:
        held = {v for v in self.program.values(node) if not self.roles.learns_from_arrays(v)}
        is_made = bool(held) and held <= self._moved_along and not self._is_function(node)
        return self.prepared.is_model(node) or (is_made and not self.prepared.is_another_model(node))

    def _is_function(self, node: ast.expr) -> bool:
        """Whether a name is a function's where it is read, and a model's only below: `model` of a notebook's cells."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        writes = owner.writes.get(node.id, ()) if owner is not None and isinstance(node, ast.Name) else ()
        if not any(isinstance(w, ast.FunctionDef) for w in writes):
            return False
        return all(isinstance(w, ast.FunctionDef) for w in self.program.reaching(node, writes))

    def _is_early(self, call: ast.Call) -> bool:
        """Whether nothing that brings a model to a device can have run by the time of a call."""
        if call not in self._early:
            self._early[call] = not any(self.program.may_follow(call, place) for place in self._bringing)
        return self._early[call]

    @cached_property
    def _bringing(self) -> list[ast.AST]:
        """What may bring a model to a device: its preparation, moves, and unknown code that gets it."""
        preparation = self.prepared.preparation
        places = [g.anchor or g.frame.node for g in preparation.groups if any(i.kind == "model" for i in g.items)]
        places += [i.statement or i.frame.node for i in preparation.bare_models]
        places += [node for kind, node in preparation.wrapped if kind == "model"]
        places += [c for c in self.program.calls if self._may_bring_a_model(c)]
        given = (n for c in self.program.calls for n in (*c.args, *(k.value for k in c.keywords)))
        places += [n for n in given if self._holds_a_module(n) and self.prepared.may_move(n)]
        return places

    def _may_bring_a_model(self, call: ast.Call) -> bool:
        """Whether a call moves what may be a module, or says on which device it makes something."""
        is_placed = any(k.arg in ("device", "device_map") for k in call.keywords)
        if is_placed or any(n.rpartition(".")[2].startswith("set_default_") for n in self.program.called(call)):
            return True
        if "torch.device" in self.program.called(call):
            return isinstance(self.program.parent(call), ast.withitem)
        if not isinstance(call.func, ast.Attribute) or not methods.moves_to_device(call.func.attr):
            return False
        return not brings_to_cpu(call) and self.program.once(Kinds).of(call.func.value) != {"tensor"}

    def _holds_a_module(self, node: ast.expr) -> bool:
        held = self.program.values(node)
        inner = (i for v in held if isinstance(v, Collection) for i in self.roles.inside(v))
        return any(self.roles.is_module(v) and not self.roles.is_loss(v) for v in (*held, *inner))

    def is_part(self, node: ast.expr) -> bool:
        """Whether an expression is a module that a prepared model was made of, and that moves with it."""
        held = self.program.values(node)
        return bool(held) and held <= self._moved_along and held.isdisjoint(self.prepared.preparation.models)

    @cached_property
    def _moved_along(self) -> frozenset[Value]:
        """The prepared models, and the modules that they were made of: `nn.ModuleList([embed, head])`."""
        found = set(self.prepared.preparation.models)
        for call in self.program.calls:
            if self.program.values(call) & self.prepared.preparation.models and not self._hands_back(call):
                given = (v for a in [*call.args, *(k.value for k in call.keywords)] for v in self.program.values(a))
                inner = (i for v in given for i in ([v] if not isinstance(v, Collection) else self.roles.inside(v)))
                found |= {i for i in inner if self.roles.is_module(i) and not self.roles.is_loss(i)}
        return frozenset(found)

    def _hands_back(self, call: ast.Call) -> bool:
        """Whether a call makes no model of its own."""
        made = (v for v in self.program.values(call) if isinstance(v, Made))
        is_own = any(isinstance(v, ClassValue) for v in self.program.values(call.func))
        return not is_own and not any(v.node is call for v in made)

    def is_in_model(self, frame: Scope) -> bool:
        """Whether code is a method of an `nn.Module`'s."""
        scope: Scope | None = frame
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope is not None and self.program.flow.is_module_class(scope)

    def made_in_models(self) -> Iterator[ast.Call]:
        """Tensors that a model makes, and that do not move with it: a recurrent network's first state."""
        for call in self.program.calls:
            frame = self.program.frame(call)
            if frame not in self.program.reachable or not self.is_in_model(frame) or not self.is_creator(call):
                continue
            is_left = not self.is_kept(call) and (not self.sets_up(frame) or self._is_plain_attribute(call))
            if is_left and not self._says_where(call):
                yield call

    def _says_where(self, call: ast.Call) -> bool:
        """Whether a tensor is made on a named device, or is brought to one: `torch.zeros(3).to(x.device)`."""
        method = self.program.parent(call)
        is_moved = isinstance(method, ast.Attribute) and methods.moves_to_device(method.attr)
        return is_moved or any(keyword.arg == "device" for keyword in call.keywords)

    def sets_up(self, frame: Scope) -> bool:
        """Whether a method only runs while the model is built."""
        callers = {self.program.frame(c) for c in self.program.flow.callers.get(frame, ())}
        return frame.name == "__init__" or (bool(callers) and all(c.name == "__init__" for c in callers))

    def is_kept(self, call: ast.Call) -> bool:
        """Whether a tensor becomes a parameter or a buffer, which move with the model."""
        around = (a for a in self.program.ancestors(call) if isinstance(a, ast.Call))
        last = (_last(ast.unparse(a.func)) for a in around)
        return any(name in _KEPT or name.startswith("register_") for name in last)

    def _is_plain_attribute(self, call: ast.Call) -> bool:
        """`self.scale = torch.ones(1)`"""
        statement = self.program.statement(call)
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Attribute):
            return False
        value = statement.value
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value is not call:
            value = value.func.value
        return value is call and isinstance(statement.targets[0].value, ast.Name)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
