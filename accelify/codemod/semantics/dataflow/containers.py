"""The values inside a value: its attributes, its items, and the elements that iterating over it yields."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.semantics.dataflow.memory import Key, Memory, Source
from accelify.codemod.semantics.scopes import Scope, begun_by_method, gone_over
from accelify.codemod.semantics.values import (
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

PASSED = frozenset({"element", "items", "same", "values"})
_LISTS = (ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.SetComp, ast.GeneratorExp)


class Containers(Memory):
    """Attributes, items and elements of values."""

    # Attributes.

    def _attribute_key(self, owner: Value, name: str) -> Key:
        if isinstance(owner, Instance):
            return ("attr", owner.cls, name)
        if isinstance(owner, ClassValue):
            return ("var", owner.scope, name)
        if isinstance(owner, ModuleValue):
            return ("var", owner.root, name)
        return ("attr", owner, name)

    def _keep(self, owner: Value, name: str, values: Values, by: Iterable[Source]) -> None:
        """Give an object an attribute that no assignment names."""
        key = self._attribute_key(owner, name)
        self._set_attribute(owner, name, values)
        if isinstance(owner, Made) and names.has_items_as_attributes(owner.name):
            self._add(("item", owner, name), values)
            self._add(("item", owner, "values"), values)
        self.put_by[key].update(dict.fromkeys(by))

    def _set_attribute(self, owner: Value, name: str, values: Values) -> None:
        """Add to what an attribute may hold; the modules that a module has are its parts."""
        self._add(self._attribute_key(owner, name), values)
        if isinstance(owner, Instance) and self.is_module_class(owner.cls):
            self._add(("part", owner), frozenset(filter(self._may_hold_module, values)))

    def _may_hold_module(self, value: Value) -> bool:
        """Whether a value is a module of the project's own, or a library's container or copy, which may hold some."""
        if isinstance(value, Instance):
            return self.is_module_class(value.cls)
        return self._is_container(value) or (isinstance(value, Made) and names.copies(value.name))

    def _keep_all(self, owner: Value, value: Value) -> None:
        """Give an object all that a dictionary holds, under the names of its keys."""
        held = self._keys(value.node) if isinstance(value, Collection) else NOTHING
        for key in held:
            if isinstance(value, Collection) and isinstance(key, Constant) and isinstance(key.value, str):
                self._keep(owner, key.value, self._items(value.node, key.value), ((value.node, key.value),))

    def kept(self, owners: Values, name: str) -> list[Source]:
        """What the attribute of some objects was given without an assignment."""
        keys = [self._attribute_key(owner, name) for owner in owners]
        return [source for key in keys if key in self.put_by for source in self.put_by[key]]

    def _member(self, owner: Value, name: str) -> Values:
        if isinstance(owner, External):
            full = f"{owner.name}.{name}"
            module = self._submodules.get(full)
            return frozenset({External(full) if module is None else ModuleValue(module)})
        if isinstance(owner, ModuleValue):
            if name == "__dict__":
                return frozenset({owner})  # its names and what they hold are those of the module itself
            found = self._get(("var", owner.root, name))
            if found:
                return found
            inner = self.module_named(self.path_of_root[owner.root], name, 1)
            return frozenset({ModuleValue(inner)}) if inner is not None else NOTHING
        if isinstance(owner, Instance):
            return self._instance_member(owner, name)
        if isinstance(owner, SuperOf):
            methods = (each.method(name) for each in self.ancestors(owner.cls))
            first = next((method for method in methods if method is not None), None)
            return NOTHING if first is None else frozenset({FunctionValue(first, Instance(owner.owner))})
        if isinstance(owner, ClassValue):
            method = self.method(owner.scope, name)
            if method is not None:
                bound = method.has_decorator("classmethod")
                return frozenset({FunctionValue(method, ClassValue(owner.scope) if bound else None)})
            return self._get(("var", owner.scope, name))
        return self._opaque_member(owner, name)

    def _instance_member(self, owner: Instance, name: str) -> Values:
        if name == "__dict__":
            return frozenset({Member(owner, name)})
        method = self.method(owner.cls, name)
        if method is not None:
            if method.is_property:
                self._wake(method)
                self._add(("var", method, _first(method)), frozenset({owner}))
                return self._get(("return", method))
            bound = None if method.is_static else owner
            return frozenset({FunctionValue(method, bound)})
        found: set[Value] = set(self._get(("attr", owner.cls, name)))
        for each in [owner.cls, *self.ancestors(owner.cls)]:
            found |= self._get(("var", each, name))
        if found:
            return frozenset(found)
        if name == "module" and self.is_module_class(owner.cls):
            return frozenset({owner})  # what `nn.DataParallel` was put round
        return frozenset({Member(owner, name)}) if self._settled else NOTHING

    def _made_in(self, owner: ModuleValue) -> Values:
        """The functions and classes that a module holds under any name: `getattr(models, args.model)`."""
        held = frozenset(v for name in owner.root.writes for v in self._get(("var", owner.root, name)))
        return only(held, (ClassValue, FunctionValue))

    def _opaque_member(self, owner: Value, name: str) -> Values:
        stored = self._get(("attr", owner, name))
        if not stored and isinstance(owner, Made) and names.has_items_as_attributes(owner.name):
            stored = self._get(("item", owner, name)) | self._get(("item", owner, "*"))
        if stored:
            return stored
        if isinstance(owner, Element):
            return frozenset({owner})
        if (name == "module" or methods.is_view(name)) and not isinstance(owner, (Constant, Collection)):
            return frozenset({owner})
        if isinstance(owner, (Made, Member, Argument)) and _depth(owner) < 3:
            return frozenset({Member(owner, name)})
        return NOTHING

    def _run_by_library(self, node: ast.expr, values: Values) -> None:
        """A library calls the methods of the objects that it is given to keep: `sys.stdout = Tee("log.txt")`."""
        for method in (m for v in values if isinstance(v, Instance) for m in self._methods(v.cls)):
            if method.name != "__init__":
                self.handed_on.add((node, method))
                self._wake(method)

    # Items and elements.

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
        if isinstance(key, tuple) and isinstance(node, (ast.List, ast.Tuple)):
            position = self._from_the_end(node, key)
            if position is not None:
                key = position
        return self._get(("item", node, key)) | self._get(("item", node, "*"))

    @staticmethod
    def _from_the_end(node: ast.List | ast.Tuple, key: tuple[object, ...]) -> int | None:
        """The position of `x[-1]` in a literal of a known length."""
        if any(isinstance(e, ast.Starred) for e in node.elts) or not isinstance(key[1], int):
            return None
        return len(node.elts) - key[1]

    def _put(self, node: ast.AST, key: object, values: Values, by: Iterable[Source] = ()) -> None:
        self._add(("item", node, key), values)
        self.put_by[(node, key)].update(dict.fromkeys(by))
        if key != "*":
            self._add(("keys", node), frozenset({Constant(key)}))

    def _put_into(self, owner: Value, key: object, values: Values, by: Iterable[Source] = ()) -> None:
        """Put a value at a key of a container, or give an object an attribute: `vars(args)["model"] = model`."""
        if isinstance(owner, Collection):
            self._put(owner.node, key, values, by)
        elif isinstance(owner, Member) and owner.name == "__dict__" and isinstance(key, str) and key != "*":
            self._keep(owner.owner, key, values, by)
        else:
            self._add(("item", owner, key), values)

    def has_open_keys(self, value: Collection) -> bool:
        """Whether a dictionary holds items whose keys are not known."""
        return (value.node, "*") in self.put_by or bool(self._cells.get(("item", value.node, "*")))

    def _put_named(self, node: ast.AST, name: str | None, values: Values, by: ast.expr) -> None:
        """Put a value in under a name, or all of another dictionary: `dict(model=model)`, `dict(**options)`."""
        if name is not None:
            self._put(node, name, values, (by,))
        for value in values if name is None else ():
            self._put_all(node, value)

    def _put_all(self, node: ast.AST, value: Value) -> None:
        """Put all that a dictionary holds into another: `{**options}`, `dict(options)`, `options.update(others)`."""
        if isinstance(value, Collection) and value.node is not node:
            for key in [*(k.value for k in self._keys(value.node) if isinstance(k, Constant)), "*"]:
                self._put(node, key, self._get(("item", value.node, key)), ((value.node, key),))

    def _put_pairs(self, node: ast.AST, value: Value) -> None:
        """Put the values of pairs into a dictionary: `dict(zip(names, meters))`, `dict([("loss", meter)])`."""
        is_listed = isinstance(value, Collection) and isinstance(value.node, _LISTS)
        if is_listed or isinstance(value, (View, Generated)):
            for pair in self.elements(value):
                self._put(node, "*", self._item(pair, 1))

    def _item(self, value: Value, key: object) -> Values:
        """`value[key]`, or the part of `value` at a position when it is unpacked."""
        if isinstance(value, ModuleValue):
            return self._member(value, key) if isinstance(key, str) and key != "*" else self._made_in(value)
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
        if isinstance(value, Member) and value.name == "__dict__" and isinstance(key, str):
            return self._member(value.owner, key)
        stored = self._get(("item", value, key)) | self._get(("item", value, "*" if key != "*" else "values"))
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

    def parts(self, values: Iterable[Value], path: Sequence[object]) -> Values:
        """What stands at a place inside values: at `(1, 0)` of an item for `x` of `for i, (x, y) in items`."""
        for position in path:
            values = [part for value in values for part in self._item(value, position)]
        return frozenset(values)

    def elements(self, value: Value) -> Values:
        """The elements that iterating over a value yields."""
        if isinstance(value, Collection):
            return self._items(value.node, "*") if not isinstance(value.node, ast.Dict) else self._keys(value.node)
        if isinstance(value, View):
            if value.kind in ("pair", "parts"):
                return self._items(value.node, "*")
            return self._get(("item", value.node, "elements"))
        if isinstance(value, Generated):
            return self._get(("yield", value.scope)) or (frozenset({Element(value)}) if self._settled else NOTHING)
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
        found: set[Value] = set()
        iterator = self.method(value.cls, "__iter__")
        if iterator is not None:
            self._wake(iterator)
            found |= self._get(("yield", iterator))
            for result in self._get(("return", iterator)):
                if result != value and not isinstance(result, Instance):
                    found |= self.elements(result)
        following = self.method(value.cls, "__next__")
        if following is not None:
            self._wake(following)
            found |= self._get(("return", following))
        getter = self.method(value.cls, "__getitem__") if iterator is None and following is None else None
        if getter is not None:  # as Python does: by numbers, until there is no such item
            self._wake(getter)
            found |= self._get(("return", getter))
        return frozenset(found) | {Element(value)}

    # Modules in containers.

    def _is_container(self, value: Value) -> bool:
        """Whether a value is a library's container of modules, or of a class that inherits from one."""
        made_by = self.external_bases(value.cls) if isinstance(value, Instance) else [getattr(value, "name", None)]
        return any(table.kind_made_by(name) == "container" for name in made_by if name)

    def modules_inside(self, whole: Value) -> Iterator[Instance]:
        """The modules of the project's own that a container of a library holds, or others inside of it."""
        queue, seen = [whole], {whole}
        while queue:
            value = queue.pop()
            if isinstance(value, Instance) and value is not whole and not self._is_container(value):
                if self.is_module_class(value.cls):
                    yield value
                continue
            new = set(self._held_inside(value)) - seen
            seen |= new
            queue += new

    def _held_inside(self, value: Value) -> Values:
        if isinstance(value, Element) or (isinstance(value, Member) and value.name.startswith("[")):
            return frozenset({value.owner})
        if isinstance(value, Collection):
            return self._items(value.node, "*")
        if isinstance(value, View):
            return self.elements(value)
        if isinstance(value, Member) and value.name == "_modules":
            return self._parts_of([value.owner])
        if (
            isinstance(value, Made)
            and isinstance(value.node, ast.Call)
            and (given := self._given_on(value, value.node))
        ):
            return given
        is_container = isinstance(value, (Instance, Made)) and self._is_container(value)
        return self._get(("part", value)) | self._get(("item", value, "*")) if is_container else NOTHING

    def _given_on(self, made: Made, call: ast.Call) -> Values:
        """What holds the modules that a call gives: `copy.deepcopy(net)`, `net.children()`, `net._modules.values()`."""
        if names.copies(made.name):
            return frozenset(v for given in call.args[:1] for v in self.values.get(given, NOTHING))
        if not isinstance(call.func, ast.Attribute):
            return NOTHING
        holding = self.values.get(call.func.value, NOTHING)
        if methods.gives_parts(call.func.attr):
            return self._parts_of(holding)
        return only(holding, Member) if methods.passes(call.func.attr) is not None else NOTHING

    def _parts_of(self, wholes: Iterable[Value]) -> Values:
        """The modules inside modules, and those inside these in turn."""
        queue, found = list(wholes), set[Value]()
        while queue:
            whole = queue.pop()
            new = (self._get(("part", whole)) | self._get(("item", whole, "*"))) - found
            found |= new
            queue += new
        return frozenset(found)

    # Views.

    def _view(self, node: ast.Call, kind: str, name: str, arguments: list[Values]) -> Values:
        parts = [frozenset(e for v in values for e in self.elements(v)) for values in arguments]
        passed = frozenset(p for values in arguments for p in only(values, Parameters))
        if kind == "enumerate":
            self._put(node, 0, frozenset({Made(node, "int")}))
            self._put(node, 1, parts[0])
            self._add(("item", node, "elements"), frozenset({View("pair", node)}))
        elif kind == "zip":
            for index, part in enumerate(parts):
                self._put(node, index, part)
            self._add(("item", node, "elements"), frozenset({View("pair", node)}))
        elif kind == "chain":
            for argument, part in zip(node.args, parts, strict=False):
                holds_many = isinstance(argument, ast.Starred) or name.endswith("from_iterable")
                inner = frozenset(e for v in part for e in self.elements(v))
                self._add(("item", node, "elements"), inner if holds_many else part)
        elif kind == "filter":
            self._add(("item", node, "elements"), parts[-1])
        else:
            self._add(("item", node, "elements"), parts[0])
            if names.is_copy(name) or names.is_progress(name):
                self._add(("item", node, "source"), arguments[0])
        return frozenset({View(kind, node)}) | passed

    def view_source(self, view: View) -> Values:
        """The values that a view iterates over: those of its arguments, or of `x` of `x.__iter__()`."""
        assert isinstance(view.node, ast.Call)
        begun = begun_by_method(view.node)
        sources = view.node.args or gone_over(view.node) or ([begun] if begun is not None else [])
        return frozenset(v for a in sources for v in self.values.get(a, NOTHING))

    def _mutated(self, node: ast.Call, function: ast.Attribute, arguments: list[Values]) -> None:
        """`items.append(x)` and its like fill a collection, `super().__init__(x, y)` a container of modules."""
        if function.attr == "__init__":
            made = (Instance(v.owner) for v in self.values.get(function.value, NOTHING) if isinstance(v, SuperOf))
            for container in filter(self._is_container, made):
                self._add(("part", container), frozenset[Value]().union(*arguments))
        if not methods.puts_in(function.attr):
            return
        for owner in self.values.get(function.value, NOTHING):
            if isinstance(owner, Collection) and function.attr == "update":
                self._updated(node, owner, arguments)
                continue
            if isinstance(owner, Member) and owner.name == "__dict__" and function.attr == "update":
                self._keep_given(node, owner.owner, arguments)
                continue
            if not arguments:
                continue
            values = arguments[-1]
            if function.attr == "extend":
                values = frozenset(e for v in values for e in self.elements(v)) | only(values, Parameters)
            if methods.registers(function.attr) and isinstance(named := self._literal(node.args[0]), str):
                self._set_attribute(owner, named, frozenset(filter(self._may_hold_module, values)))
            key = self._literal(node.args[0]) if function.attr == "setdefault" and len(node.args) == 2 else "*"
            if isinstance(owner, (Collection, Made, Instance, Member)):
                self._put_into(owner, key, values, node.args[-1:])

    def _updated(self, node: ast.Call, owner: Collection, arguments: list[Values]) -> None:
        """`options.update(others, model=model)`; of a set, `seen.update(items)`."""
        self._put_given(node, owner.node)
        for value in arguments[-1] if arguments else ():
            if isinstance(value, Collection) and not isinstance(value.node, (ast.List, ast.Tuple, ast.Set)):
                self._put_all(owner.node, value)
            else:
                self._put(owner.node, "*", frozenset({value}))

    def _put_given(self, call: ast.Call, node: ast.AST) -> None:
        """Put what a call is given by name into a dictionary: `dict(model=model)`, `options.update(**others)`."""
        for keyword in call.keywords:
            self._put_named(node, keyword.arg, self.values.get(keyword.value, NOTHING), keyword.value)

    def _keep_given(self, call: ast.Call, owner: Value, arguments: list[Values]) -> None:
        """Give an object attributes: `SimpleNamespace(model=model)`, `self.__dict__.update(options, model=model)`."""
        for keyword in call.keywords:
            values = self.values.get(keyword.value, NOTHING)
            if keyword.arg is not None:
                self._keep(owner, keyword.arg, values, (keyword.value,))
            for value in values if keyword.arg is None else ():
                self._keep_all(owner, value)
        for value in arguments[-1] if arguments else ():
            self._keep_all(owner, value)

    def _collection_method(self, node: ast.Call, owner: Collection, passed: str) -> Values:
        everything = self._items(owner.node, "*")
        if passed == "same":
            return frozenset({owner})
        if passed == "element":
            return everything
        if passed == "values":
            self._put(node, "*", everything)
            return frozenset({View("parts", node)})
        self._put(node, 0, self._keys(owner.node))
        self._put(node, 1, everything)
        self._add(("item", node, "elements"), frozenset({View("pair", node)}))
        return frozenset({View("items", node)})


def device_of(text: ast.expr) -> Values:
    """The text before the number of a GPU, `"cuda:"`, as the device that it names."""
    start = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
    return frozenset({Constant(start)}) if start in ("cuda:", "cuda:%d", "cuda:%s", "cuda:{}") else NOTHING


def only(values: Values, kinds: type | tuple[type, ...]) -> Values:
    """The values of some kinds."""
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
