"""Where did the tensors of an expression come to be: on the process's device, or where in the text on the CPU?"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from enum import Enum

from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.contents import Kept
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.purity import tells_about
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, ModuleValue
from accelify.codemod.training.roles import Roles


class Known(Enum):
    """THERE: on the device. UNKNOWN: nobody knows."""

    THERE = "there"
    UNKNOWN = "unknown"


Origin = ast.expr  # the call that makes a tensor on the CPU, or what gets (a part of) a batch that is there
Places = frozenset[Known | Origin]  # what tensors an expression may hold; empty: it holds none
THERE: Places = frozenset({Known.THERE})
UNKNOWN: Places = frozenset({Known.UNKNOWN})
NONE: Places = frozenset()
_MOST = 20_000  # expressions that are looked at for one question, half as many after each that they did not answer
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
        self._most = _MOST

    def bring(self, node: ast.AST) -> None:
        """Have an expression, or what a name gets there, be on the device, wherever its tensors came to be."""
        self._brought.add(node)
        self._known.clear()

    def of(self, node: ast.expr | None) -> Places:
        """The tensors of an expression."""
        if node is None:
            return NONE
        if not self._open:
            self._most -= self._most // 2 * (self._asked > self._most)
            self._asked = 0
        self._asked += 1
        if node in self._known:
            return self._known[node]
        if node in self._open:
            self._cut.add(node)
            return NONE
        if len(self._open) > _DEPTH or self._asked > self._most:
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
            return NONE if hasattr(builtins, node.id) else UNKNOWN
        writes = self.program.reaching(node, self.tracer.writes(owner, node.id))
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
        path, holder = self.position(write)
        if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self._dealt(holder.iter, path, write)
        if isinstance(holder, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            return self._part(holder.value, path, write)
        return NONE

    def position(self, write: ast.Name) -> tuple[tuple[int, ...], ast.AST | None]:
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
        calls = self.program.calls_of(owner)
        given = [self.tracer.argument(c, owner, parameter.arg) or owner.defaults.get(parameter.arg) for c in calls]
        return self.all_of(given) if given and None not in given else UNKNOWN

    def _imported(self, alias: ast.alias) -> Places:
        statement = self.program.statement(alias)
        if isinstance(statement, ast.ImportFrom):
            path = self.program.path(alias)
            root = self.program.flow.module_named(path, statement.module or "", statement.level)
            return self._variable(root, alias.name) if root is not None else NONE
        return NONE

    def _variable(self, root: Scope, name: str) -> Places:
        """What a module's variable may hold."""
        found = self.all_of(self.kept.in_name(root, name))
        for write in self.tracer.writes(root, name):
            found |= self.written(root, write)
        return found

    def _attribute(self, node: ast.Attribute) -> Places:
        if self.program.externals(node):
            return NONE
        held = self.program.values(node.value)
        modules = [v.root for v in held if isinstance(v, ModuleValue)]
        if modules:
            return frozenset(p for root in modules for p in self._variable(root, node.attr))
        if node.attr in ("weight", "bias") and any(map(self.roles.is_module, held)):
            return THERE
        written = [w for w in self.program.attribute_writes.get(node.attr, ()) if w is not node]
        found = self.of(node.value) | self.all_of(self.kept.in_attribute(node.attr))
        for write in written if isinstance(node.value, (ast.Name, ast.Attribute)) else ():
            value = self.tracer.assigned(write)
            statement = self.program.statement(write)
            found |= self.of(value) if value is not None else self.of(getattr(statement, "value", None))
        classes = [c for v in held if isinstance(v, Instance) for c in (v.cls, *self.program.flow.ancestors(v.cls))]
        own = [(c, w) for c in classes for w in c.writes.get(node.attr, ())]
        for cls, variable in own:
            found |= self.written(cls, variable)
        is_known = bool(found or written or own) or self.tensors.is_in_model(self.program.frame(node))
        return found if is_known or any(map(self.roles.is_module, held)) else self.or_unknown(found)

    def _call(self, node: ast.Call) -> Places:
        """What a call makes."""
        raise NotImplementedError

    def _item(self, node: ast.Subscript) -> Places:
        """What is taken out of something."""
        raise NotImplementedError

    def _part(self, node: ast.expr | None, path: tuple[int, ...], write: ast.Name) -> Places:
        """What a part of a value holds, that `write` gets."""
        raise NotImplementedError

    def _dealt(self, node: ast.expr, path: tuple[int, ...], write: ast.Name) -> Places:
        """What going over something yields, at a place of each item."""
        raise NotImplementedError
