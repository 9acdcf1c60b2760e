"""Loaders that a container holds: `loaders["train"]`. Which of them trains, and which statements have put it there?"""

from __future__ import annotations

import ast

from accelify.codemod.edits.inserted import Inserted
from accelify.codemod.edits.values import Insert
from accelify.codemod.preparing.grouping import any_trains
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant
from accelify.codemod.training.loops.training import Training

Place = tuple[Scope, ast.stmt | None]  # a statement that fills a place in a container, and its function


class Containers:
    """Find the statements after which a place in a container is filled."""

    def __init__(self, program: Program, training: Training) -> None:
        self.program = program
        self.training = training

    def training_keys(self, node: ast.Subscript, loop: ast.AST | None) -> list[object] | None:
        """The literal keys under which a loop takes its training loader."""
        if isinstance(node.slice, ast.Constant):
            return [node.slice.value]
        phase = self.training.phases.get(loop) if loop is not None else None
        if phase is not None and phase.key is not None:
            return [phase.key]
        keys = [v.value for v in self.program.values(node.slice) if isinstance(v, Constant)]
        guarded = [k for k in keys if isinstance(k, str) and "train" in k.lower()]
        return list(guarded) or (keys if len(keys) == 1 else None)

    def places(self, container: Binding, key: object, read: ast.Subscript) -> list[Place]:
        """The statements that put into a container what a loop takes from it, each with its function.

        They make it, or name the place, `loaders["train"] = ...`, or are a loop: `for phase in phases:
        loaders[phase] = ...`.
        """
        first: Place = (container.scope, None if container.kind == "parameter" else container.statement)
        nodes = [n for n in self.program.parsed(container.node).parents if isinstance(n, (ast.Subscript, ast.Call))]
        held = ((n, _filled_in(n)) for n in nodes)
        filled = [n for n, owner in held if owner is not None and ast.unparse(owner) == container.text]
        filled = [n for n in filled if self._is_of_one_object(self.program.frame(n), container)]
        named = [n for n in filled if key in _keys_filled(n) and self._may_be_read(n, read)]
        may_hold = self._may_hold(container.value, key)
        looped = [n for n in filled if isinstance(n, ast.Subscript) and not isinstance(n.slice, ast.Constant)]
        places: list[Place] = [
            (self.program.frame(n), self._filling(n, container)) for n in named or ([] if may_hold else looped)
        ]
        places = [first, *places] if may_hold or not places else places
        return [p for p in places if not any(self._is_replaced(p, other, container) for other in places)]

    def is_filled_after(self, text: str, statement: ast.stmt | None) -> bool:
        """Whether a place in a container is filled once a statement is done, whichever way the script went."""
        return statement is None or self.program.once(Inserted).is_bound(text, Insert(statement, "after", ""))

    def _may_be_read(self, place: ast.AST, read: ast.Subscript) -> bool:
        """Whether what is put somewhere may be what is read there; not after the training, nor None."""
        value = self.program.assigned(place)[0] if isinstance(place, ast.Subscript) else None
        is_none = isinstance(value, ast.Constant) and value.value is None
        is_apart = self.program.frame(place) is not self.program.frame(read)
        return not is_none and (is_apart or self.program.reaches(place, read))

    def _may_hold(self, value: ast.expr | None, key: object) -> bool:
        """Whether a container may have something at a key since it was made."""
        if isinstance(value, ast.DictComp):
            keys = self.program.values(value.key)
            return not keys or any(not isinstance(k, Constant) or k.value == key for k in keys)
        is_own = isinstance(value, ast.Call) and bool(self.program.flow.callees.get(value))
        return is_own or not isinstance(value, (ast.Dict, ast.Call)) or _is_listed(value, key)

    def _is_replaced(self, one: Place, other: Place, container: Binding) -> bool:
        """Whether what one statement puts into a container has gone by another, and nothing has read it before."""
        if one[0] is not other[0] or one[1] is None or other[1] is None:
            return False
        block = self.program.block(other[1])
        outer = next((s for s in (one[1], *self.program.ancestors(one[1])) if s in block), None)
        if not isinstance(outer, ast.stmt) or outer is other[1] or block.index(outer) > block.index(other[1]):
            return False
        between = block[block.index(outer) + 1 : block.index(other[1])]
        inside = [n for statement in between for n in ast.walk(statement)]
        owners = [n for n in inside if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == container.text]
        parents = [self.program.parent(n) for n in owners]
        places = [self.program.parent(p) if isinstance(p, ast.Attribute) else p for p in parents]  # `d.update(...)`
        is_read = any(p is None or _filled_in(p) is None for p in places)
        return not is_read and not any_trains(self.program, self.training, between)

    def _filling(self, place: ast.Subscript | ast.Call, container: Binding) -> ast.stmt:
        """The statement, or the loop of such, after which a container is filled."""
        loops = [a for a in self.program.loops_round(place) if not self.program.inside(container.node, a)]
        is_named = bool(_keys_filled(place))
        return self.program.statement(place) if is_named or not loops else loops[-1]

    def _is_of_one_object(self, frame: Scope, container: Binding) -> bool:
        """Whether what is written so in a function is what a binding names: the same variable, or `self.x`."""
        is_attribute = isinstance(container.node, ast.Attribute) and container.scope.is_method and frame.is_method
        return frame is container.scope or (is_attribute and frame.parent is container.scope.parent)


def _filled_in(node: ast.AST) -> ast.expr | None:
    """The container that an assignment to a place in it, or `loaders.update(...)`, puts something into."""
    if isinstance(node, ast.Subscript):
        return node.value if isinstance(node.ctx, ast.Store) else None
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr == "update" else None


def _keys_filled(node: ast.AST) -> list[object]:
    """The literal keys at which something is put into a container."""
    if isinstance(node, ast.Subscript):
        return [node.slice.value] if isinstance(node.slice, ast.Constant) else []
    if not isinstance(node, ast.Call):
        return []
    listed = [k for a in node.args if isinstance(a, ast.Dict) for k in a.keys]
    return [*(k.value for k in listed if isinstance(k, ast.Constant)), *(k.arg for k in node.keywords if k.arg)]


def _is_listed(value: ast.Dict | ast.Call, key: object) -> bool:
    """Whether a container has something at a key since it was made: `{"train": loader}`, `dict(train=loader)`."""
    if isinstance(value, ast.Call):
        held = [k.value for k in value.keywords if k.arg == key]
    else:
        pairs = zip(value.keys, value.values, strict=True)
        held = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key]
    return any(not (isinstance(v, ast.Constant) and v.value is None) for v in held)
