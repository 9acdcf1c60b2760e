"""Where did the tensors of a part of something come to be: of a batch, of what a function hands back, of a sequence?"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accelify.codemod.devices.origins import NONE, THERE, UNKNOWN, Known, Origin, Origins, Places
from accelify.codemod.libraries import names
from accelify.codemod.semantics.scopes import gone_over, returned
from accelify.codemod.semantics.values import Instance


class Portions(Origins):
    """What is unpacked, gone over, or taken out by a key; a batch on the CPU came to be where it is taken apart."""

    def _part(self, node: ast.expr | None, path: tuple[int, ...], write: ast.Name) -> Places:
        """What a part of a value holds, that `write` gets."""
        if isinstance(node, (ast.Tuple, ast.List)) and path and len(node.elts) > path[0]:
            return self._part(node.elts[path[0]], path[1:], write)
        if isinstance(node, ast.IfExp):
            return self._part(node.body, path, write) | self._part(node.orelse, path, write)
        if isinstance(node, ast.Call):
            following = self.following(node)
            if following is not None:
                return self._dealt(following, path, write)
            callees = self.program.flow.callees.get(node)
            if callees and path and not any(c.generates for c in callees):
                return self._parts(returned(callees), path, write)
            if "map" in self.program.called(node) and path:
                return frozenset(write if isinstance(p, ast.Call) else p for p in self.of(node))
        whole = self.of(node)
        return frozenset(write if path and self.is_batch(p) else p for p in whole)

    def _parts(self, nodes: Iterable[ast.expr | None], path: tuple[int, ...], write: ast.Name) -> Places:
        found = NONE
        for node in nodes:
            found |= self._part(node, path, write)
        return found

    def following(self, call: ast.Call) -> ast.expr | None:
        """The iterator of `next(iterator)` and of `iterator.next()`."""
        if "next" in self.program.called(call) and call.args:
            return call.args[0]
        is_next = isinstance(call.func, ast.Attribute) and call.func.attr in ("next", "__next__")
        return call.func.value if is_next else None  # type: ignore[attr-defined]  # checked

    def is_batch(self, place: Known | Origin) -> bool:
        """Whether something is all of what a loader yields at a time."""
        if not isinstance(place, ast.Name):
            return False
        path, holder = self.position(place)
        if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
            is_numbered = isinstance(holder.iter, ast.Call) and "enumerate" in self.program.called(holder.iter)
            return len(path) == int(is_numbered)
        value = holder.value if isinstance(holder, ast.Assign) else None
        return not path and isinstance(value, ast.Call) and self.following(value) is not None

    def _dealt(self, node: ast.expr, path: tuple[int, ...], write: ast.Name) -> Places:
        """What going over something yields, at a place of each item."""
        if isinstance(node, ast.Call):
            called = self.program.called(node)
            if "enumerate" in called and node.args:
                return self._dealt(node.args[0], path[1:], write) if not path or path[0] else NONE
            if "zip" in called and path and path[0] < len(node.args) and not is_open(node):
                return self._dealt(node.args[path[0]], path[1:], write)
            if "range" in called:
                return NONE
            if gone_over(node) and (any(names.iteration(n) == "same" for n in called) or self.tracer.is_progress(node)):
                return self._dealt(gone_over(node)[0], path, write)
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys") and not node.args:
                is_key = node.func.attr == "keys" or (path and not path[0])
                return NONE if is_key else self.of(node.func.value)
        if any(self.roles.is_loader(v) for v in self.program.values(node)):
            return THERE if self.prepared.is_loader(node) else frozenset({write})
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._parts(node.elts, path, write)
        if isinstance(node, ast.Name):
            value = self._only_value(node)
            if isinstance(value, ast.Call) and any(names.iteration(n) for n in self.program.called(value)):
                return self._dealt(value, path, write)
        callees = self.program.flow.callees.get(node) if isinstance(node, ast.Call) else None
        if callees and all(c.generates for c in callees):
            yields = [n.value for c in callees for n in ast.walk(c.node) if isinstance(n, ast.Yield)]
            return self._parts(yields, path, write)
        return self._part(node, path, write)

    def _only_value(self, node: ast.Name) -> ast.expr | None:
        owner = self.program.scope(node).owner(node.id)
        writes = [] if owner is None else self.program.reaching(node, self.tracer.writes(owner, node.id))
        return self.tracer.assigned(writes[0]) if len(writes) == 1 and isinstance(writes[0], ast.Name) else None

    def _item(self, node: ast.Subscript) -> Places:
        """A part of a batch came to be where it is taken out."""
        whole = self.of(node.value)
        held = [v.cls for v in self.program.values(node.value) if isinstance(v, Instance)]
        if any(self.program.flow.method(cls, "__getitem__") is not None for cls in held):
            return UNKNOWN
        return frozenset(node if self.is_batch(p) and isinstance(node.slice, ast.Constant) else p for p in whole)


def is_open(call: ast.Call) -> bool:
    """Whether a call is given what is in a container, `f(*items)`."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
