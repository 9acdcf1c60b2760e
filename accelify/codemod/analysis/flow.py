"""What may each expression hold? Values flow through calls, returns, parameters, attributes, containers and imports.

Flow-insensitive and without calling contexts: every assignment adds to what a variable may hold, until nothing grows.
A unit (a module or a function) is evaluated again only when something that it read has grown.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from accelify.codemod import names
from accelify.codemod.analysis.bindings import Bindings, Scope, bindings
from accelify.codemod.analysis.values import (
    NOTHING,
    Argument,
    ClassValue,
    Collection,
    Constant,
    Element,
    External,
    FunctionValue,
    Generated,
    Instance,
    Made,
    Member,
    ModuleValue,
    Parameters,
    SuperOf,
    Value,
    Values,
    View,
)
from accelify.codemod.parse import Parsed
from accelify.codemod.project import Project, absolute

Key = tuple[Any, ...]  # what a cell belongs to: ("var", scope, name), ("attr", owner, name), ("item", node, key), ...
# A method of a library's object that returns the object itself, or a tensor on the same device.
_SAME = frozenset(
    "to cuda cpu float double half long int bool type type_as train eval requires_grad_ share_memory apply "
    "detach detach_ clone contiguous view view_as reshape permute transpose squeeze unsqueeze flatten t "
    "expand expand_as repeat mean sum pin_memory byte clamp clamp_ add sub mul div add_ sub_ mul_ div_ items "
    "values keys copy copy_ zero_ xpu mps compile index_select gather narrow chunk split unbind max min "
    "argmax topk resize_ resize_as_ data_ptr bfloat16 unfold masked_fill".split()
)
_SIGNATURE_KEPT = (
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.compile",
    "torch.autocast",
    "staticmethod",
)
_MOST_VISITS = 40
_MOST_VALUES = 32  # a variable that may hold more than this tells nobody anything


class Flow:
    """The values of all expressions of a program."""

    def __init__(self, files: Sequence[Parsed], project: Project, named: Sequence[Parsed]) -> None:
        self.files = list(files)
        self.project = project
        self.named = {p.path for p in named}
        self.bindings: dict[str, Bindings] = {}
        self.parsed_of: dict[str, Parsed] = {}
        self.path_of_root: dict[Scope, str] = {}
        self._by_file: dict[str, Scope] = {}
        for parsed in self.files:
            built = bindings(parsed.path, parsed.tree)
            self.bindings[parsed.path] = built
            self.parsed_of[parsed.path] = parsed
            self.path_of_root[built.root] = parsed.path
            self._by_file[absolute(parsed.path)] = built.root
        self.scope_of: dict[ast.AST, Scope] = {}
        self.made_by: dict[ast.AST, Scope] = {}
        for built in self.bindings.values():
            self.scope_of.update(built.scope_of)
            self.made_by.update(built.made_by)
        self.values: dict[ast.AST, Values] = {}
        self.callees: dict[ast.Call, set[Scope]] = defaultdict(set)
        self.callers: dict[Scope, set[ast.Call]] = defaultdict(set)
        self.escaped: set[Scope] = set()
        self.subclasses: dict[Scope, set[Scope]] = defaultdict(set)
        self._cells: dict[Key, set[Value]] = defaultdict(set)
        self._readers: dict[Key, set[Scope]] = defaultdict(set)
        self._queue: deque[Scope] = deque()
        self._queued: set[Scope] = set()
        self._awake: dict[Scope, None] = {}
        self._visits: dict[Scope, int] = defaultdict(int)
        self._settled = False
        self._unit: Scope = next(iter(self.bindings.values())).root
        self._run()

    # Running to a fixed point.

    def _run(self) -> None:
        """Modules and the named files' functions run; functions of other files run once something calls them."""
        for path, built in self.bindings.items():
            for scope in built.root.walk():
                if scope.kind == "module" or (scope.kind in ("function", "lambda") and path in self.named):
                    self._wake(scope)
        self._drain()
        self._settled = True  # what is unknown now stays unknown, and gets values of its own
        self._visits.clear()
        for unit in list(self._awake):
            self._own_parameters(unit)
            self._enqueue(unit)
        self._drain()

    def _wake(self, unit: Scope) -> None:
        if unit not in self._awake and not self._is_arithmetic(unit):
            self._awake[unit] = None
            if self._settled:
                self._own_parameters(unit)
            self._enqueue(unit)

    def _is_arithmetic(self, unit: Scope) -> bool:
        """A network's `forward` in another file: nothing but tensors flows through it."""
        if unit.name != "forward" or not unit.is_method or unit.module in self.named:
            return False
        assert unit.parent is not None
        return self.is_module_class(unit.parent) and ".backward" not in self.parsed_of[unit.module].text

    def _own_parameters(self, unit: Scope) -> None:
        """Parameters that no call of the program fills hold an unknown value of their own."""
        if unit.kind != "function":
            return
        for position, parameter in enumerate(unit.parameters):
            if position == 0 and unit.is_method and not unit.has_decorator("staticmethod"):
                continue
            self._fill(unit, parameter.arg)
        assert isinstance(unit.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for rest in (unit.node.args.vararg, unit.node.args.kwarg):
            if rest is not None:
                self._fill(unit, rest.arg)

    def _fill(self, unit: Scope, name: str) -> None:
        key = ("var", unit, name)
        if not self._cells[key]:
            self._add(key, frozenset({Argument(unit, name)}))

    def _enqueue(self, unit: Scope) -> None:
        if unit not in self._queued:
            self._queued.add(unit)
            self._queue.append(unit)

    def _drain(self) -> None:
        while self._queue:
            unit = self._queue.popleft()
            self._queued.discard(unit)
            self._visits[unit] += 1
            if self._visits[unit] > _MOST_VISITS:
                continue
            self._unit = unit
            self._unit_body(unit)

    def _unit_body(self, unit: Scope) -> None:
        if unit.is_method:
            self._bind_self(unit)
        if unit.kind == "lambda":
            assert isinstance(unit.node, ast.Lambda)
            self._defaults(unit, unit.node.args)
            self._add(("return", unit), self.eval(unit.node.body))
            return
        if unit.kind == "function":
            assert isinstance(unit.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            self._defaults(unit, unit.node.args)
        for statement in unit.body:
            self._statement(statement)

    def _defaults(self, unit: Scope, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        for parameter, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
            self._add(("var", unit, parameter.arg), self._constants(default))
        for keyword, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if value is not None:
                self._add(("var", unit, keyword.arg), self._constants(value))

    def _constants(self, default: ast.expr) -> Values:
        return frozenset(v for v in self.eval(default) if v != Constant(None))

    def _bind_self(self, unit: Scope) -> None:
        cls = unit.parent
        assert cls is not None
        parameters = unit.parameters
        if not parameters or unit.has_decorator("staticmethod"):
            return
        key = ("var", unit, parameters[0].arg)
        family = [cls, *self.descendants(cls)]
        if unit.has_decorator("classmethod"):
            self._add(key, frozenset(ClassValue(c) for c in family))
        else:
            self._add(key, frozenset(Instance(c) for c in family))

    # Cells.

    def _add(self, key: Key, values: Values) -> None:
        cell = self._cells[key]
        if values <= cell or len(cell) > _MOST_VALUES:
            return
        cell |= values
        for reader in self._readers[key]:
            self._enqueue(reader)

    def _get(self, key: Key) -> Values:
        self._readers[key].add(self._unit)
        return frozenset(self._cells[key])

    def variable(self, scope: Scope, name: str) -> Values:
        """What a variable of a scope may hold."""
        return frozenset(self._cells[("var", scope, name)])

    def returned(self, scope: Scope) -> Values:
        """What a function may return."""
        return frozenset(self._cells[("return", scope)])

    # Statements.

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._define_function(node)
        elif isinstance(node, ast.ClassDef):
            self._define_class(node)
        elif isinstance(node, ast.Assign):
            values = self.eval(node.value)
            for target in node.targets:
                self._assign(target, values, node.value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, self.eval(node.value), node.value)
        elif isinstance(node, ast.AugAssign):
            values = self.eval(node.value)
            kept = frozenset(v for v in values if isinstance(v, (Parameters, Collection, Constant)))
            self._assign(node.target, kept, None)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            values = self.eval(node.iter)
            self._assign_elements(node.target, values)
            self._block(node.body)
            self._block(node.orelse)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                values = self.eval(item.context_expr)
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, values, None)
            self._block(node.body)
        elif isinstance(node, ast.Return):
            if node.value is not None:
                self._add(("return", self._frame(node)), self.eval(node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        else:
            self._rest(node)

    def _frame(self, node: ast.AST) -> Scope:
        return self.scope_of[node].frame

    def _block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _rest(self, node: ast.AST) -> None:
        """Evaluate the expressions of a statement and go into its blocks."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.expr):
                self.eval(child)
            else:
                self._rest(child)

    def _define_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        scope = self.made_by[node]
        value: Values = frozenset({FunctionValue(scope)})
        harmless = ("staticmethod", "classmethod", "property")
        for decorator in node.decorator_list:
            self.eval(decorator)
            text = ast.unparse(decorator)
            if text not in harmless and not text.startswith(_SIGNATURE_KEPT):
                self.escaped.add(scope)
        self._set_name(self.scope_of[node], node.name, value)

    def _define_class(self, node: ast.ClassDef) -> None:
        scope = self.made_by[node]
        for base in node.bases:
            for value in self.eval(base):
                if isinstance(value, ClassValue) and value.scope is not scope:
                    self._inherit(scope, value.scope)
        for keyword in node.keywords:
            self.eval(keyword.value)
        for decorator in node.decorator_list:
            self.eval(decorator)
        self._set_name(self.scope_of[node], node.name, frozenset({ClassValue(scope)}))
        self._block(node.body)

    def _inherit(self, cls: Scope, base: Scope) -> None:
        if cls in self.subclasses[base]:
            return
        self.subclasses[base].add(cls)
        if cls.module in self.named:
            for each in [base, *self.ancestors(base)]:
                for method in each.children:
                    if method.is_function:
                        self._wake(method)
        for each in [base, *self.ancestors(base)]:
            for method in each.children:
                if method.is_function and method in self._awake:
                    self._enqueue(method)

    def ancestors(self, cls: Scope) -> list[Scope]:
        """The project classes that a class inherits from, nearest first."""
        found: list[Scope] = []
        assert isinstance(cls.node, ast.ClassDef)
        for base in cls.node.bases:
            for value in self.values.get(base, NOTHING):
                if isinstance(value, ClassValue) and value.scope is not cls and value.scope not in found:
                    found.append(value.scope)
                    found.extend(c for c in self.ancestors(value.scope) if c not in found and c is not cls)
        return found

    def descendants(self, cls: Scope) -> list[Scope]:
        """The project classes that inherit from a class."""
        found: list[Scope] = []
        stack = [cls]
        while stack:
            for each in self.subclasses[stack.pop()]:
                if each not in found and each is not cls:
                    found.append(each)
                    stack.append(each)
        return found

    def external_bases(self, cls: Scope) -> list[str]:
        """The qualified names of the library classes that a class inherits from."""
        found: list[str] = []
        for each in [cls, *self.ancestors(cls)]:
            assert isinstance(each.node, ast.ClassDef)
            for base in each.node.bases:
                found.extend(v.name for v in self.values.get(base, NOTHING) if isinstance(v, External))
        return found

    def is_module_class(self, cls: Scope) -> bool:
        """Whether a class is an `nn.Module`."""
        return any(names.is_module_base(name) for name in self.external_bases(cls))

    def method(self, cls: Scope, name: str) -> Scope | None:
        """The method that an instance of a class has under a name."""
        for each in [cls, *self.ancestors(cls)]:
            for child in each.children:
                if child.is_function and child.name == name:
                    return child
        return None

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        scope = self.scope_of[node]
        importer = self.path_of_root[scope.root]
        for alias in node.names:
            if isinstance(node, ast.Import):
                first = alias.name.split(".")[0]
                name = alias.name if alias.asname else first
                self._set_name(scope, alias.asname or first, self._module_or_external(importer, name, 0))
            elif alias.name == "*":
                self._import_star(scope, importer, node)
            else:
                self._set_name(scope, alias.asname or alias.name, self._imported_name(importer, node, alias.name))

    def _imported_name(self, importer: str, node: ast.ImportFrom, name: str) -> Values:
        root = self._root_of(importer, node.module or "", node.level)
        if root is not None:
            found = self._get(("var", root, name))
            if found:
                return found
        full = f"{node.module}.{name}" if node.module else name
        inner = self._root_of(importer, full, node.level)
        if inner is not None:
            return frozenset({ModuleValue(inner)})
        return NOTHING if root is not None or node.level else frozenset({External(full)})

    def _import_star(self, scope: Scope, importer: str, node: ast.ImportFrom) -> None:
        root = self._root_of(importer, node.module or "", node.level)
        if root is None:
            scope.root.star_imports.append(node.module or "")
            return
        for name in list(root.writes):
            if not name.startswith("_"):
                scope.writes.setdefault(name, [])
                self._set_name(scope, name, self._get(("var", root, name)))

    def _module_or_external(self, importer: str, name: str, level: int) -> Values:
        root = self._root_of(importer, name, level)
        return frozenset({ModuleValue(root) if root is not None else External(name)})

    def _root_of(self, importer: str, name: str, level: int) -> Scope | None:
        path = self.project.resolve(importer, name, level)
        return None if path is None else self._by_file.get(absolute(path))

    # Assignment.

    def _set_name(self, scope: Scope, name: str, values: Values) -> None:
        owner = scope.owner(name) or scope
        self._add(("var", owner, name), values)

    def _assign(self, target: ast.expr, values: Values, source: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._set_name(self.scope_of[target], target.id, values)
            self.values[target] = self.values.get(target, NOTHING) | values
        elif isinstance(target, ast.Starred):
            self._assign(target.value, values, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, values, source)
        elif isinstance(target, ast.Attribute):
            for owner in self.eval(target.value):
                self._add(self._attribute_key(owner, target.attr), values)
            self.values[target] = self.values.get(target, NOTHING) | values
        elif isinstance(target, ast.Subscript):
            key = self._literal(target.slice)
            self.eval(target.slice)
            for owner in self.eval(target.value):
                if isinstance(owner, Collection):
                    self._add(("item", owner.node, key), values)
                else:
                    self._add(("item", owner, key), values)

    def _unpack(self, target: ast.Tuple | ast.List, values: Values, source: ast.expr | None) -> None:
        if isinstance(source, (ast.Tuple, ast.List)) and len(source.elts) == len(target.elts):
            for part, expression in zip(target.elts, source.elts, strict=True):
                self._assign(part, self.eval(expression), expression)
            return
        for index, part in enumerate(target.elts):
            found: set[Value] = set()
            for value in values:
                found |= self._item(value, index)
            self._assign(part, frozenset(found), None)

    def _assign_elements(self, target: ast.expr, values: Values) -> None:
        found: set[Value] = set()
        for value in values:
            found |= self.elements(value)
        self._assign(target, frozenset(found), None)

    def _attribute_key(self, owner: Value, name: str) -> Key:
        if isinstance(owner, Instance):
            return ("attr", owner.cls, name)
        if isinstance(owner, ClassValue):
            return ("var", owner.scope, name)
        if isinstance(owner, ModuleValue):
            return ("var", owner.root, name)
        return ("attr", owner, name)

    # Containers.

    @staticmethod
    def _literal(node: ast.expr) -> object:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return ("-", node.operand.value)
        return "*"

    def _items(self, node: ast.AST, key: object) -> Values:
        if key == "*":
            found: set[Value] = set()
            for each in self._get(("keys", node)):
                assert isinstance(each, Constant)
                found |= self._get(("item", node, each.value))
            return frozenset(found) | self._get(("item", node, "*"))
        return self._get(("item", node, key)) | self._get(("item", node, "*"))

    def _put(self, node: ast.AST, key: object, values: Values) -> None:
        self._add(("item", node, key), values)
        if key != "*":
            self._add(("keys", node), frozenset({Constant(key)}))

    def _item(self, value: Value, key: object) -> Values:
        """`value[key]`, or the part of `value` at a position when it is unpacked."""
        if isinstance(value, Collection):
            return self._items(value.node, key)
        if isinstance(value, View) and value.kind == "pair":
            return self._items(value.node, key)
        if isinstance(value, (Element, Generated)):
            return frozenset({value})
        if isinstance(value, View):
            return self.elements(value)
        if isinstance(value, Made) and value.name and names.iteration(value.name) == "same":
            return self.elements(value)
        stored = self._get(("item", value, key)) | (self._get(("item", value, "*")) if key != "*" else NOTHING)
        if stored:
            return stored
        if isinstance(value, Instance):
            getter = self.method(value.cls, "__getitem__")
            if getter is not None and not self.is_module_class(value.cls):
                self._wake(getter)
                return self._get(("return", getter)) | {Element(value)}
        if isinstance(value, Parameters):
            return frozenset({value})
        if isinstance(value, (Made, Member, Argument)):
            return frozenset({Member(value, f"[{key!r}]")} if _depth(value) < 3 else ())
        return NOTHING

    def elements(self, value: Value) -> Values:
        """What iterating over a value yields."""
        if isinstance(value, Collection):
            return self._items(value.node, "*") if not isinstance(value.node, ast.Dict) else self._keys(value.node)
        if isinstance(value, View):
            if value.kind in ("pair", "parts"):
                return self._items(value.node, "*")
            return self._get(("item", value.node, "elements"))
        if isinstance(value, Generated):
            return self._get(("yield", value.scope)) or frozenset({Element(value)})
        if isinstance(value, (Parameters, Element)):
            return frozenset({value})
        if isinstance(value, Instance):
            return self._iterated(value)
        if isinstance(value, (Made, Argument, Member)):
            stored = self._get(("item", value, "*"))
            return stored | {Element(value)}
        return NOTHING

    def _keys(self, node: ast.AST) -> Values:
        return self._get(("keys", node))

    def _iterated(self, value: Instance) -> Values:
        iterator = self.method(value.cls, "__iter__")
        if iterator is None:
            return frozenset({Element(value)})
        self._wake(iterator)
        found: set[Value] = set(self._get(("yield", iterator)))
        for result in self._get(("return", iterator)):
            if result != value and not isinstance(result, Instance):
                found |= self.elements(result)
        following = self.method(value.cls, "__next__")
        if following is not None:
            self._wake(following)
            found |= self._get(("return", following))
        return frozenset(found) or frozenset({Element(value)})

    # Expressions.

    def eval(self, node: ast.expr) -> Values:
        """What an expression may hold; remembered for the rules."""
        handler = _EVALUATORS.get(type(node))
        values = handler(self, node) if handler is not None else self._children(node)
        known = self.values.get(node)
        if known is None:
            self.values[node] = values
        elif not values <= known:
            self.values[node] = known | values
        return values

    def _children(self, node: ast.AST) -> Values:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child)
            elif not isinstance(child, (ast.operator, ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop)):
                self._children(child)
        return NOTHING

    def _constant(self, node: ast.Constant) -> Values:
        return (
            frozenset({Constant(node.value)})
            if isinstance(node.value, (str, int, bool)) or node.value is None
            else NOTHING
        )

    def _name(self, node: ast.Name) -> Values:
        scope = self.scope_of[node]
        owner = scope.owner(node.id)
        if owner is None:
            for module in scope.root.star_imports:
                if module.startswith(("torch", "transformers", "torchvision")):
                    return frozenset({External(f"{module}.{node.id}")})
            return frozenset({External(node.id)})
        values = self._get(("var", owner, node.id))
        self._note_escape(node, values)
        return values

    def _note_escape(self, node: ast.expr, values: Values) -> None:
        for value in values:
            if isinstance(value, FunctionValue):
                parsed = self.parsed_of[self.path_of_root[self.scope_of[node].root]]
                parent = parsed.parents.get(node)
                called = isinstance(parent, ast.Call) and parent.func is node
                if not called:
                    self.escaped.add(value.scope)
                    self._wake(value.scope)

    def _attribute(self, node: ast.Attribute) -> Values:
        found: set[Value] = set()
        for owner in self.eval(node.value):
            found |= self._member(owner, node.attr)
        values = frozenset(found)
        self._note_escape(node, values)
        return values

    def _member(self, owner: Value, name: str) -> Values:
        if isinstance(owner, External):
            return frozenset({External(f"{owner.name}.{name}")})
        if isinstance(owner, ModuleValue):
            found = self._get(("var", owner.root, name))
            if found:
                return found
            inner = self._root_of(self.path_of_root[owner.root], name, 1)
            return frozenset({ModuleValue(inner)}) if inner is not None else NOTHING
        if isinstance(owner, Instance):
            return self._instance_member(owner, name)
        if isinstance(owner, SuperOf):
            for each in self.ancestors(owner.cls):
                for child in each.children:
                    if child.is_function and child.name == name:
                        return frozenset({FunctionValue(child, Instance(owner.owner))})
            return NOTHING
        if isinstance(owner, ClassValue):
            method = self.method(owner.scope, name)
            if method is not None:
                bound = method.has_decorator("classmethod")
                return frozenset({FunctionValue(method, ClassValue(owner.scope) if bound else None)})
            return self._get(("var", owner.scope, name))
        return self._opaque_member(owner, name)

    def _instance_member(self, owner: Instance, name: str) -> Values:
        method = self.method(owner.cls, name)
        if method is not None:
            if method.has_decorator("property"):
                self._wake(method)
                self._add(("var", method, _first(method)), frozenset({owner}))
                return self._get(("return", method))
            bound = None if method.has_decorator("staticmethod") else owner
            return frozenset({FunctionValue(method, bound)})
        found: set[Value] = set(self._get(("attr", owner.cls, name)))
        for each in [owner.cls, *self.ancestors(owner.cls)]:
            found |= self._get(("var", each, name))
        if found:
            return frozenset(found)
        return frozenset({Member(owner, name)})

    def _opaque_member(self, owner: Value, name: str) -> Values:
        stored = self._get(("attr", owner, name))
        if stored:
            return stored
        if isinstance(owner, Element):
            return frozenset({owner})
        if name in ("module", "data", "T") and not isinstance(owner, (Constant, Collection)):
            return frozenset({owner})
        if isinstance(owner, (Made, Member, Argument)) and _depth(owner) < 3:
            return frozenset({Member(owner, name)})
        return NOTHING

    def _subscript(self, node: ast.Subscript) -> Values:
        self.eval(node.slice)
        owners = self.eval(node.value)
        if isinstance(node.slice, ast.Slice):
            return owners
        found: set[Value] = set()
        key = self._literal(node.slice)
        keys: list[object] = [key]
        if key == "*":
            chosen = [v.value for v in self.values.get(node.slice, NOTHING) if isinstance(v, Constant)]
            keys = list(chosen) or ["*"]
        for owner in owners:
            for each in keys:
                found |= self._item(owner, each)
        return frozenset(found)

    def _collection(self, node: ast.List | ast.Tuple | ast.Set) -> Values:
        for index, element in enumerate(node.elts):
            values = self.eval(element)
            if isinstance(element, ast.Starred):
                for value in values:
                    self._put(node, "*", self.elements(value))
            else:
                self._put(node, index, values)
        return frozenset({Collection(node)})

    def _dict(self, node: ast.Dict) -> Values:
        for key, value in zip(node.keys, node.values, strict=True):
            values = self.eval(value)
            if key is None:
                continue
            self.eval(key)
            self._put(node, self._literal(key), values)
        return frozenset({Collection(node)})

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Values:
        for generator in node.generators:
            self._assign_elements(generator.target, self.eval(generator.iter))
            for condition in generator.ifs:
                self.eval(condition)
        if isinstance(node, ast.DictComp):
            keys = self.eval(node.key)
            values = self.eval(node.value)
            constants = [v.value for v in keys if isinstance(v, Constant)]
            for key in constants or ["*"]:
                self._put(node, key, values)
            return frozenset({Collection(node)}) | _only(values, Element)
        values = self.eval(node.elt)
        self._put(node, "*", values)
        return frozenset({Collection(node)}) | _only(values, (Parameters, Element))

    def _binary(self, node: ast.BinOp) -> Values:
        both = self.eval(node.left) | self.eval(node.right)
        return _only(both, (Parameters, Collection, Element))

    def _unary(self, node: ast.UnaryOp) -> Values:
        return _only(self.eval(node.operand), Element)

    def _compare(self, node: ast.Compare) -> Values:
        found: set[Value] = set()
        for part in [node.left, *node.comparators]:
            found |= self.eval(part)
        return _only(frozenset(found), Element)

    def _boolean(self, node: ast.BoolOp) -> Values:
        found: set[Value] = set()
        for part in node.values:
            found |= self.eval(part)
        return frozenset(found)

    def _conditional(self, node: ast.IfExp) -> Values:
        self.eval(node.test)
        return self.eval(node.body) | self.eval(node.orelse)

    def _walrus(self, node: ast.NamedExpr) -> Values:
        values = self.eval(node.value)
        self._assign(node.target, values, node.value)
        return values

    def _starred(self, node: ast.Starred) -> Values:
        return self.eval(node.value)

    def _lambda(self, node: ast.Lambda) -> Values:
        return frozenset({FunctionValue(self.made_by[node])})

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Values:
        scope = self._frame(node)
        scope.generates = True
        if node.value is not None:
            values = self.eval(node.value)
            if isinstance(node, ast.YieldFrom):
                for value in values:
                    self._add(("yield", scope), self.elements(value))
            else:
                self._add(("yield", scope), values)
        return NOTHING

    def _await(self, node: ast.Await) -> Values:
        return self.eval(node.value)

    # Calls.

    def _call(self, node: ast.Call) -> Values:
        callees = self.eval(node.func)
        arguments = [self.eval(a) for a in node.args]
        keywords = [(k.arg, self.eval(k.value)) for k in node.keywords]
        found: set[Value] = set()
        for callee in callees:
            found |= self._called(node, callee, arguments, keywords)
        if not callees and self._settled:
            found.add(Made(node, None))
        if isinstance(node.func, ast.Attribute):
            self._mutated(node, node.func, arguments)
            known = self._method_result(node, node.func)
            if known:
                found.discard(Made(node, None))
                found |= known
        return frozenset(found)

    def _called(
        self, node: ast.Call, callee: Value, arguments: list[Values], keywords: list[tuple[str | None, Values]]
    ) -> Values:
        if isinstance(callee, FunctionValue):
            return self._enter(node, callee.scope, callee.owner, arguments, keywords)
        if isinstance(callee, ClassValue):
            return self._construct(node, callee.scope, arguments, keywords)
        if isinstance(callee, Instance):
            name = "forward" if self.is_module_class(callee.cls) else "__call__"
            method = self.method(callee.cls, name)
            if method is not None:
                return self._enter(node, method, callee, arguments, keywords)
            return frozenset({Made(node, None)})
        if isinstance(callee, External):
            return self._library(node, callee.name, arguments, keywords)
        if isinstance(callee, Constant):
            return NOTHING
        return frozenset({Made(node, None)})

    def _enter(
        self,
        node: ast.Call,
        scope: Scope,
        owner: Value | None,
        arguments: list[Values],
        keywords: list[tuple[str | None, Values]],
    ) -> Values:
        self.callees[node].add(scope)
        self.callers[scope].add(node)
        self._wake(scope)
        self._bind(scope, owner, node, arguments, keywords)
        if scope.generates:
            return frozenset({Generated(scope)})
        return self._get(("return", scope)) or frozenset({Made(node, None)})

    def _bind(
        self,
        scope: Scope,
        owner: Value | None,
        node: ast.Call,
        arguments: list[Values],
        keywords: list[tuple[str | None, Values]],
    ) -> None:
        assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        parameters = [*scope.node.args.posonlyargs, *scope.node.args.args]
        if owner is not None and parameters:
            self._add(("var", scope, parameters[0].arg), frozenset({owner}))
            parameters = parameters[1:]
        position = 0
        for expression, values in zip(node.args, arguments, strict=True):
            if isinstance(expression, ast.Starred):
                spread: set[Value] = set()
                for value in values:
                    spread |= self.elements(value)
                for parameter in parameters[position:]:
                    self._add(("var", scope, parameter.arg), frozenset(spread))
                continue
            if position < len(parameters):
                self._add(("var", scope, parameters[position].arg), values)
            elif scope.node.args.vararg is not None:
                vararg = scope.node.args.vararg
                self._put(vararg, "*", values)
                self._add(("var", scope, vararg.arg), frozenset({Collection(vararg)}))
            position += 1
        known = {p.arg for p in scope.parameters}
        for name, values in keywords:
            if name in known:
                self._add(("var", scope, name), values)
            elif name is not None and scope.node.args.kwarg is not None:
                kwarg = scope.node.args.kwarg
                self._put(kwarg, name, values)
                self._add(("var", scope, kwarg.arg), frozenset({Collection(kwarg)}))

    def _construct(
        self, node: ast.Call, cls: Scope, arguments: list[Values], keywords: list[tuple[str | None, Values]]
    ) -> Values:
        instance = Instance(cls)
        init = self.method(cls, "__init__")
        if init is not None:
            self._enter(node, init, instance, arguments, keywords)
        return frozenset({instance})

    def _library(
        self, node: ast.Call, name: str, arguments: list[Values], keywords: list[tuple[str | None, Values]]
    ) -> Values:
        if name == "super":
            return self._super(node)
        if name == "getattr" and len(arguments) >= 2:
            return self._getattr(arguments)
        if name == "setattr" and len(arguments) == 3:
            for owner in arguments[0]:
                for attribute in arguments[1]:
                    if isinstance(attribute, Constant) and isinstance(attribute.value, str):
                        self._add(self._attribute_key(owner, attribute.value), arguments[2])
        if name == "next" and arguments:
            found: set[Value] = set()
            for value in arguments[0]:
                found |= self.elements(value)
            return frozenset(found)
        kind = names.iteration(name)
        if kind is not None and arguments:
            return self._view(node, kind, name, arguments)
        if names.returns_its_model(name) and arguments:
            return arguments[0]
        if name in ("map",) and len(arguments) == 2:
            return self._mapped(node, arguments)
        if name == "dict":
            for keyword, values in keywords:
                self._put(node, keyword or "*", values)
            return frozenset({Collection(node)})
        if name in ("torch.autograd.Variable", "torch.autograd.variable.Variable", "torch.tensor", "torch.as_tensor"):
            return _only(arguments[0], Element) if arguments else NOTHING
        return frozenset({Made(node, name)})

    def _mapped(self, node: ast.Call, arguments: list[Values]) -> Values:
        found: set[Value] = set()
        for value in arguments[1]:
            found |= self.elements(value)
        for function in arguments[0]:
            if isinstance(function, FunctionValue) and function.scope.parameters:
                self._add(("var", function.scope, function.scope.parameters[0].arg), frozenset(found))
                self._put(node, "*", self._get(("return", function.scope)))
        return frozenset({Collection(node)})

    def _super(self, node: ast.Call) -> Values:
        scope = self.scope_of[node].frame
        while scope.parent is not None and not scope.is_method:
            scope = scope.parent
        cls = scope.parent
        if cls is None or cls.kind != "class":
            return NOTHING
        owners = [cls, *self.descendants(cls)]
        return frozenset(SuperOf(cls, owner) for owner in owners)

    def _getattr(self, arguments: list[Values]) -> Values:
        found: set[Value] = set()
        for owner in arguments[0]:
            attributes = [v.value for v in arguments[1] if isinstance(v, Constant) and isinstance(v.value, str)]
            if attributes:
                for attribute in attributes:
                    found |= self._member(owner, attribute)
            elif isinstance(owner, External):
                found.add(External(f"{owner.name}.?"))
            elif isinstance(owner, ModuleValue):
                for name in owner.root.writes:
                    found |= {
                        v for v in self._get(("var", owner.root, name)) if isinstance(v, (ClassValue, FunctionValue))
                    }
        return frozenset(found)

    def _view(self, node: ast.Call, kind: str, name: str, arguments: list[Values]) -> Values:
        parts = [frozenset(e for v in values for e in self.elements(v)) for values in arguments]
        passed = frozenset(p for values in arguments for p in _only(values, Parameters))
        if kind == "enumerate":
            self._put(node, 0, frozenset({Made(node, "int")}))
            self._put(node, 1, parts[0])
            self._add(("item", node, "elements"), frozenset({View("pair", node)}))
        elif kind == "zip":
            for index, part in enumerate(parts):
                self._put(node, index, part)
            self._add(("item", node, "elements"), frozenset({View("pair", node)}))
        elif kind == "chain":
            for part in parts:
                self._add(("item", node, "elements"), part)
                for inner in part:
                    if isinstance(inner, (Collection, View)):
                        self._add(("item", node, "elements"), self.elements(inner))
        elif kind == "filter":
            self._add(("item", node, "elements"), parts[-1])
        else:
            self._add(("item", node, "elements"), parts[0])
            if name in ("list", "tuple") or name.split(".")[0] in ("tqdm", "progressbar", "rich"):
                self._add(("item", node, "source"), arguments[0])
        return frozenset({View(kind, node)}) | passed

    def view_source(self, view: View) -> Values:
        """What a view goes over: the values of its arguments."""
        assert isinstance(view.node, ast.Call)
        return frozenset(v for a in view.node.args for v in self.values.get(a, NOTHING))

    def _mutated(self, node: ast.Call, function: ast.Attribute, arguments: list[Values]) -> None:
        """`items.append(x)` and its like fill a collection."""
        if function.attr not in (
            "append",
            "add",
            "extend",
            "insert",
            "update",
            "add_module",
            "add_param_group",
            "setdefault",
        ):
            return
        for owner in self.values.get(function.value, NOTHING):
            if not arguments:
                continue
            values = arguments[-1]
            if function.attr == "extend":
                values = frozenset(e for v in values for e in self.elements(v)) | _only(values, Parameters)
            if isinstance(owner, Collection):
                self._put(owner.node, "*", values)
            elif isinstance(owner, (Made, Instance, Member)):
                self._add(("item", owner, "*"), values)

    def _method_result(self, node: ast.Call, function: ast.Attribute) -> Values:
        """What a library's method returns, as far as it matters here."""
        found: set[Value] = set()
        owners = self.values.get(function.value, NOTHING)
        if any(isinstance(c, FunctionValue) for c in self.values.get(function, NOTHING)):
            return NOTHING
        for owner in owners:
            if isinstance(owner, (External, ModuleValue, ClassValue)):
                continue
            if function.attr in ("parameters", "named_parameters", "trainable_parameters"):
                found.add(Parameters(owner))
            elif isinstance(owner, Parameters):
                found.add(owner)
            elif isinstance(owner, Collection) and function.attr in ("values", "items", "copy", "get", "pop"):
                found |= self._collection_method(node, owner, function.attr)
            elif function.attr in ("next", "__next__"):
                found |= self.elements(owner)
            elif function.attr in _SAME:
                found.add(owner)
        return frozenset(found)

    def _collection_method(self, node: ast.Call, owner: Collection, name: str) -> Values:
        everything = self._items(owner.node, "*")
        if name == "copy":
            return frozenset({owner})
        if name in ("get", "pop"):
            return everything
        if name == "values":
            self._put(node, "*", everything)
            return frozenset({View("parts", node)})
        self._put(node, 0, self._keys(owner.node))
        self._put(node, 1, everything)
        self._add(("item", node, "elements"), frozenset({View("pair", node)}))
        return frozenset({View("items", node)})


def _only(values: Values, kinds: type | tuple[type, ...]) -> Values:
    return frozenset(v for v in values if isinstance(v, kinds))


def _depth(value: Value) -> int:
    depth = 0
    while isinstance(value, Member):
        value = value.owner
        depth += 1
    return depth


def _first(scope: Scope) -> str:
    parameters = scope.parameters
    return parameters[0].arg if parameters else ""


_EVALUATORS: dict[type, Callable[[Flow, Any], Values]] = {
    ast.Constant: Flow._constant,
    ast.Name: Flow._name,
    ast.Attribute: Flow._attribute,
    ast.Subscript: Flow._subscript,
    ast.List: Flow._collection,
    ast.Tuple: Flow._collection,
    ast.Set: Flow._collection,
    ast.Dict: Flow._dict,
    ast.ListComp: Flow._comprehension,
    ast.SetComp: Flow._comprehension,
    ast.GeneratorExp: Flow._comprehension,
    ast.DictComp: Flow._comprehension,
    ast.BinOp: Flow._binary,
    ast.UnaryOp: Flow._unary,
    ast.Compare: Flow._compare,
    ast.BoolOp: Flow._boolean,
    ast.IfExp: Flow._conditional,
    ast.NamedExpr: Flow._walrus,
    ast.Starred: Flow._starred,
    ast.Lambda: Flow._lambda,
    ast.Yield: Flow._yield,
    ast.YieldFrom: Flow._yield,
    ast.Await: Flow._await,
    ast.Call: Flow._call,
}
