"""Where did the tensors of an expression come to be: on the process's device, or where in the text on the CPU?"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum

from accelify.codemod import names
from accelify.codemod.analysis.bindings import Scope, gone_over
from accelify.codemod.analysis.kept import Kept
from accelify.codemod.analysis.on_device import tells_about
from accelify.codemod.analysis.prepared import Prepared
from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.reaching import reaching
from accelify.codemod.analysis.roles import Roles
from accelify.codemod.analysis.tensors import Tensors
from accelify.codemod.analysis.trace import Tracer


class Known(Enum):
    """THERE: on the device. UNKNOWN: nobody knows."""

    THERE = "there"
    UNKNOWN = "unknown"


Origin = ast.expr  # the call that makes a tensor on the CPU, or what gets (a part of) a batch that is there
Places = frozenset[Known | Origin]  # what tensors an expression may hold; empty: it holds none
THERE: Places = frozenset({Known.THERE})
UNKNOWN: Places = frozenset({Known.UNKNOWN})
NONE: Places = frozenset()
_MOST = 20_000  # expressions that are looked at for one question
_DEPTH = 60


class Origins:
    """Follow expressions back to the places where their tensors came to be."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, prepared: Prepared, tensors: Tensors) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.prepared = prepared
        self.tensors = tensors
        self.kept = Kept(program)
        self._brought: set[ast.AST] = set()
        self._known: dict[ast.AST, Places] = {}
        self._open: list[ast.AST] = []
        self._cut: set[ast.AST] = set()
        self._asked = 0

    def bring(self, node: ast.AST) -> None:
        """Have an expression, or what a name gets there, be on the device, wherever its tensors came to be."""
        self._brought.add(node)
        self._known.clear()

    def of(self, node: ast.expr | None) -> Places:
        """The tensors of an expression."""
        if node is None:
            return NONE
        if not self._open:
            self._asked = 0
        self._asked += 1
        if node in self._known:
            return self._known[node]
        if node in self._open:
            self._cut.add(node)
            return NONE
        if len(self._open) > _DEPTH or self._asked > _MOST:
            return UNKNOWN
        self._open.append(node)
        found = self._of(node)
        self._open.pop()
        self._cut.discard(node)
        if not self._cut:
            self._known[node] = found
        return found

    def or_unknown(self, found: Places) -> Places:
        """What was found, if it was, or would have been but for a loop in which a value is made of its last one."""
        return found if found or self._cut else UNKNOWN

    def all_of(self, nodes: Iterable[ast.expr | None]) -> Places:
        """The tensors of several expressions."""
        found = NONE
        for node in nodes:
            found |= self.of(node)
        return found

    def _of(self, node: ast.expr) -> Places:
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Lambda)) or tells_about(node):
            return NONE
        if node in self._brought or self.prepared.is_batch(node):
            return THERE
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.of(node.elt)
        if isinstance(node, ast.DictComp):
            return self.of(node.value)
        if isinstance(node, ast.IfExp):
            return self.all_of((node.body, node.orelse))
        if isinstance(node, ast.Dict):
            return self.all_of(node.values)
        return self.all_of(n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    # Names.

    def _name(self, node: ast.Name) -> Places:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return NONE
        writes = reaching(self.program, node, self.tracer.writes(owner, node.id))
        found = self.all_of(self.kept.in_name(owner, node.id))
        for write in writes:
            found |= self.written(owner, write)
        return found

    def before(self, statement: ast.AugAssign) -> Places:
        """What the target of `total += x` holds until then."""
        target = statement.target
        if not isinstance(target, ast.Name):
            return self.of(target)
        owner = self.program.scope(target).owner(target.id)
        found = NONE
        for write in self.tracer.writes(owner, target.id) if owner is not None else ():
            found |= self.written(owner, write) if write is not target and owner is not None else NONE
        return found

    def written(self, owner: Scope, write: ast.AST) -> Places:
        """What a binding of a name gives it."""
        if write in self._brought:
            return THERE
        if isinstance(write, ast.arg):
            return self._parameter(owner, write)
        if isinstance(write, ast.alias):
            return self._imported(write)
        if not isinstance(write, ast.Name):
            return NONE
        path, holder = self._position(write)
        if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self._dealt(holder.iter, path, write)
        if isinstance(holder, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            return self._part(holder.value, path, write)
        return NONE

    def _position(self, write: ast.Name) -> tuple[tuple[int, ...], ast.AST | None]:
        """Where in the target of what a name stands: `(1, 0)` for `x` of `for i, (x, y) in ...`."""
        path: list[int] = []
        node: ast.AST = write
        parent = self.program.parent(node)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
            if not isinstance(parent, ast.Starred):
                path.insert(0, parent.elts.index(node))  # type: ignore[arg-type]  # an element is an expression
            node, parent = parent, self.program.parent(parent)
        return tuple(path), parent

    def _parameter(self, owner: Scope, parameter: ast.arg) -> Places:
        if owner.is_method and owner.parameters and parameter is owner.parameters[0]:
            return NONE
        if owner.kind == "lambda":
            return UNKNOWN
        calls = [c for c in self.program.flow.callers.get(owner, ()) if self.program.frame(c) in self.program.reachable]
        given = [self.tracer.argument(c, owner, parameter.arg) or owner.defaults.get(parameter.arg) for c in calls]
        return self.all_of(given) if given and None not in given else UNKNOWN

    def _imported(self, alias: ast.alias) -> Places:
        statement = self.program.statement(alias)
        if isinstance(statement, ast.ImportFrom):
            path = self.program.path(alias)
            root = self.program.flow.module_named(path, statement.module or "", statement.level)
            if root is not None and alias.name in root.writes:
                found = self.all_of(self.kept.in_name(root, alias.name))
                for write in self.tracer.writes(root, alias.name):
                    found |= self.written(root, write)
                return found
        return NONE

    # Parts of things.

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
        path, holder = self._position(place)
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
        writes = [] if owner is None else reaching(self.program, node, self.tracer.writes(owner, node.id))
        return self.tracer.assigned(writes[0]) if len(writes) == 1 and isinstance(writes[0], ast.Name) else None

    def _item(self, node: ast.Subscript) -> Places:
        """A part of a batch came to be where it is taken out."""
        whole = self.of(node.value)
        return frozenset(node if self.is_batch(p) and isinstance(node.slice, ast.Constant) else p for p in whole)

    def _attribute(self, node: ast.Attribute) -> Places:
        if self.program.externals(node):
            return NONE
        written = [w for w in self.program.attribute_writes.get(node.attr, ()) if w is not node]
        found = self.of(node.value) | self.all_of(self.kept.in_attribute(node.attr))
        for write in written if isinstance(node.value, (ast.Name, ast.Attribute)) else ():
            value = self.tracer.assigned(write)
            statement = self.program.statement(write)
            found |= self.of(value) if value is not None else self.of(getattr(statement, "value", None))
        is_known = bool(found) or bool(written) or bool(self.program.values(node))
        return found if is_known else UNKNOWN

    def _call(self, node: ast.Call) -> Places:
        raise NotImplementedError


def returned(callees: Iterable[Scope]) -> list[ast.expr | None]:
    """What some functions return."""
    return [n.value for c in callees for s in c.body for n in ast.walk(s) if isinstance(n, ast.Return)] + [
        c.node.body for c in callees if isinstance(c.node, ast.Lambda)
    ]


def is_open(call: ast.Call) -> bool:
    """Whether a call is given what is in a container, `f(*items)`."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
