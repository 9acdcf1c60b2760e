"""Where was this bound? From an expression back through names, parameters, attributes and calls to its origin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

from accelify.codemod.files.parse import beginning
from accelify.codemod.files.project import absolute
from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.batch_wrappers import taken
from accelify.codemod.semantics.dataflow.memory import Source
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, code, gone_over, method_of_call, names_in, own_statements, returned
from accelify.codemod.semantics.values import Collection, Constant, Element, Instance, Made, Member, ModuleValue, Value

_DEPTH = 12
_CLASS_BY_NAME = r"""['"]([\w.]+)\.([A-Z]\w*)['"]"""


@dataclass(frozen=True)
class Binding:
    """One place where an object gets a name.

    kind: `assign` (a name or an attribute, by a statement), `parameter` (of a function), `import`, `item` (a place in a
    container) or `inline` (an expression that never gets a name). call: the one that gives the parameter its argument.
    """

    kind: str
    scope: Scope
    node: ast.AST
    statement: ast.stmt | None
    value: ast.expr | None = None
    call: ast.Call | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The expression that names the object."""
        if isinstance(self.node, ast.arg):
            return self.node.arg
        if isinstance(self.node, ast.alias):
            return self.node.asname or self.node.name
        return code(self.node)

    @property
    def is_none(self) -> bool:
        """Whether the name gets None, to be given its object later."""
        return isinstance(self.value, ast.Constant) and self.value.value is None


Chain = tuple[Binding, ...]  # from the inside out: the last is where the object was first given a name


class Tracer:
    """Follow expressions back to where they were bound."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.flow = program.flow
        self._chains: dict[ast.expr, list[Chain]] = {}
        self._written: dict[tuple[ast.Call, Scope, str], ast.expr | None] = {}

    @cached_property
    def _options(self) -> dict[str, list[ast.keyword]]:
        """What is said of the options of a command line, by the attributes that get their values."""
        found: dict[str, list[ast.keyword]] = {}
        for call in self.program.calls:
            if method_of_call(call) == "add_argument":
                for text in (a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)):
                    found.setdefault(text.lstrip("-").replace("-", "_"), []).extend(call.keywords)
        return found

    def option_values(self, attribute: str, *others: str) -> list[ast.expr]:
        """The defaults of the options whose values an attribute gets; the values of other keywords, too: `choices`."""
        return [k.value for k in self._options.get(attribute, ()) if k.arg in ("default", *others)]

    def chains(self, node: ast.expr, seen: tuple[object, ...] = ()) -> list[Chain]:
        """The ways back from an expression; several where branches or callers differ."""
        if seen:
            return self._chains_back(node, seen)
        if node not in self._chains:
            self._chains[node] = self._chains_back(node, ())
        return [*self._chains[node]]

    def _chains_back(self, node: ast.expr, seen: tuple[object, ...]) -> list[Chain]:
        if len(seen) > _DEPTH:
            return []
        if isinstance(node, ast.Name):
            return self._name(node, seen)
        if isinstance(node, ast.Attribute):
            own = self._attribute(node, seen)
            is_same = node.attr in ("module", "data") and not own
            return self.chains(node.value, seen) if is_same else own
        if isinstance(node, ast.Subscript):
            return self._item(node, seen)
        if isinstance(node, ast.IfExp):
            return [*self.chains(node.body, seen), *self.chains(node.orelse, seen)]
        if isinstance(node, ast.BoolOp):
            return [c for v in node.values for c in self.chains(v, seen)]
        if isinstance(node, ast.NamedExpr):
            return self.chains(node.value, seen)
        if isinstance(node, ast.Call):
            return self._call(node, seen)
        return self.chains(node.generators[-1].iter, seen) if is_view(node) else []

    def _item(self, node: ast.Subscript, seen: tuple[object, ...]) -> list[Chain]:
        """The place in a container; where a literal was made of objects that have names, the names of the one there.

        One that has no name itself, `make()[0]`, is another container each time: its parts have no place in it.
        """
        found: list[Chain] = []
        for chain in self.chains(node.value, seen):
            listed = self.listed(self._literal(chain), node.slice)
            if not isinstance(listed, (ast.Name, ast.Attribute, ast.Call)) or not self.is_pass_through(listed):
                listed = None
            outer = self.chains(listed, (*seen, node)) if listed is not None else []
            place = Binding("item", self.program.frame(node), node, self.program.statement(node))
            unnamed = Binding("inline", place.scope, node, place.statement, node)
            found.extend(outer or [(place, *chain) if chain[0].kind != "inline" else (unnamed,)])
        return found

    def _literal(self, chain: Chain) -> ast.expr | None:
        """What a container was made as; one that another holds, as what stands at its place in the other's literal."""
        literal = chain[-1].value
        for place in (b.node for b in reversed(chain[:-1]) if b.kind == "item"):
            assert isinstance(place, ast.Subscript)
            literal = self.listed(literal, place.slice)
        return literal

    def listed(self, literal: ast.expr | None, key: ast.expr) -> ast.expr | None:
        """What stands at a literal key of a container's literal, or of `dict(model=model)`."""
        if not isinstance(key, ast.Constant):
            return None
        listed: list[ast.expr] = []
        if isinstance(literal, ast.Dict):
            pairs = zip(literal.keys, literal.values, strict=True)
            listed = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key.value]
        elif isinstance(literal, ast.Call) and "dict" in self.program.called(literal):
            listed = [k.value for k in literal.keywords if k.arg == key.value]
        elif isinstance(literal, (ast.Tuple, ast.List)) and isinstance(key.value, int):
            listed = literal.elts[key.value : key.value + 1]
        return listed[0] if len(listed) == 1 else None

    def _call(self, node: ast.Call, seen: tuple[object, ...]) -> list[Chain]:
        inner = self.handed_on(node)
        if inner is not None:
            return [c for a in inner for c in self.chains(a, (*seen, node))]
        return [(Binding("inline", self.program.frame(node), node, self.program.statement(node), node),)]

    def handed_on(self, node: ast.Call) -> list[ast.expr] | None:
        """The expressions whose objects a call passes on; None when it makes something of its own."""
        called = self.program.called(node)
        if any(names.iteration(n) for n in called) or self.is_progress(node):
            return self.gone_over(node)
        if any(names.returns_its_model(n) for n in called) and (model := wrapped_by(node)) is not None:
            return [model]
        callees = self.flow.callees.get(node, set())
        if callees and all(c.generates for c in callees):
            fed = [a for a in [*node.args, *[k.value for k in node.keywords]] if self._is_loader(a)]
            return fed or None
        if (inner := self.wrapped(node)) is not None:
            return [inner]
        if isinstance(node.func, ast.Attribute) and methods.passes_on(node.func.attr) and not callees:
            return [node.func.value]
        given = [self._given_back(node, c) for c in callees]
        return [g for g in given if g is not None] if given and None not in given else None

    def wrapped(self, node: ast.Call) -> ast.expr | None:
        """The loader whose batches an object of the project's own hands on: `DeviceDataLoader(loader, device)`."""
        given = [self.argument(node, init, name) for init, name in taken(self.program, node, self.assigned)]
        return given[0] if len(given) == 1 and given[0] is not None and self._is_loader(given[0]) else None

    def _given_back(self, call: ast.Call, function: Scope) -> ast.expr | None:
        """The argument that a function returns as it got it: `optimizer = adjust(optimizer, epoch)`."""
        names = {r.id if isinstance(r, ast.Name) else "" for r in returned([function])}
        name = names.pop() if len(names) == 1 and function.kind == "function" else ""
        is_kept = [type(w) for w in function.writes.get(name, ())] == [ast.arg]
        return self.argument(call, function, name) if is_kept else None

    def _is_loader(self, node: ast.expr) -> bool:
        values = self.program.values(node)
        bases = [b for v in values if isinstance(v, Instance) for b in self.flow.external_bases(v.cls)]
        return any(names.is_loader(n) for n in [*bases, *[v.name for v in values if isinstance(v, Made)]])

    @staticmethod
    def is_progress(node: ast.Call) -> bool:
        """Whether a call shows a progress bar over what it is given."""
        name = (
            node.func.id
            if isinstance(node.func, ast.Name)
            else node.func.attr
            if isinstance(node.func, ast.Attribute)
            else ""
        )
        return bool(gone_over(node)) and ("tqdm" in name.lower() or "progress" in name.lower() or name == "track")

    def gone_over(self, call: ast.Call) -> list[ast.expr]:
        """The iterables behind `tqdm(loader)`; `zip(range(n), loader)` only numbers the elements of the other."""
        called = self.program.called(call)
        if "itertools.chain" in called:
            return call.args
        if "iter" in called and len(call.args) > 1:
            return []  # `iter(file.readline, "")` calls a function
        if "zip" not in called:
            return gone_over(call)
        return [a for a in call.args if not self.is_counter(a)] or call.args

    def is_counter(self, node: ast.expr) -> bool:
        values = self.program.values(node)
        return bool(values) and all(isinstance(v, Made) and names.is_counter(v.name) for v in values)

    def numbers(self, source: ast.expr, path: tuple[int, ...]) -> bool:
        """Whether a part of what an expression yields numbers the rest: `enumerate(x)`, `zip(range(9), x)`, named."""
        while (value := self.value_at(source)) is not None:
            source = value
        parts = self.flow.parts((e for v in self.program.values(source) for e in self.flow.elements(v)), path)
        return bool(parts) and all(map(self._is_number, parts))

    def is_numbered(self, node: ast.expr) -> bool:
        """Whether a loop numbers its items by this: `i` of `for i, x in enumerate(xs)`, of `for i in range(9)`."""
        values = self.program.values(node)
        return bool(values) and all(map(self._is_number, values))

    def _is_number(self, value: Value) -> bool:
        if isinstance(value, Element):
            return isinstance(value.owner, Made) and names.is_counter(value.owner.name)
        made = value.node if isinstance(value, Made) and value.name == "int" else None
        return isinstance(made, ast.Call) and "enumerate" in self.program.called(made)

    def inside(self, node: ast.expr, *others: str) -> ast.expr:
        """The iterable of a loop, in `enumerate`, `iter`, progress bars, `zip` with a counter and functions named."""
        while isinstance(node, ast.Call) and (inner := self.gone_over(node)):
            called = self.program.called(node)
            is_numbered = "zip" in called and len(inner) == 1 < len(node.args)
            if not called & {"enumerate", "iter", *others} and not is_numbered and not self.is_progress(node):
                break
            node = inner[0]
        return node

    def is_pass_through(self, node: ast.expr) -> bool:
        """Whether an expression only passes on what another holds."""
        if isinstance(node, ast.Call):
            return self.handed_on(node) is not None
        return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.IfExp, ast.BoolOp)) or is_view(node)

    def _name(self, node: ast.Name, seen: tuple[object, ...]) -> list[Chain]:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return []
        return self._bound(owner, node.id, self.program.reaching(node, self.writes(owner, node.id)), seen)

    def variable(self, owner: Scope, name: str, seen: tuple[object, ...] = ()) -> list[Chain]:
        """The ways back from a variable, whoever reads it."""
        return self._bound(owner, name, self.writes(owner, name), seen)

    def _bound(self, owner: Scope, name: str, writes: list[ast.AST], seen: tuple[object, ...]) -> list[Chain]:
        key = (owner, name, *writes)
        if key in seen:
            return []
        if not writes and name in owner.starred:
            return self.variable(owner.starred[name], name, (*seen, key))
        return [chain for write in writes for chain in self._write(owner, name, write, (*seen, key))]

    def writes(self, owner: Scope, name: str) -> list[ast.AST]:
        """The places where a variable is bound, `global` ones of functions included; `del` binds nothing."""
        found = [w for w in owner.writes.get(name, ()) if not isinstance(w, ast.Global)]
        below = (scope.writes.get(name, ()) for scope in owner.written_below.get(name, ()))
        written = [*found, *(write for writes in below for write in writes)]
        return [w for w in written if not isinstance(getattr(w, "ctx", None), ast.Del)]

    def _write(self, owner: Scope, name: str, write: ast.AST, seen: tuple[object, ...]) -> list[Chain]:
        if isinstance(write, ast.arg):
            return self._parameter(owner, write, seen)
        if isinstance(write, ast.alias):
            return self._imported(owner, name, write, seen)
        if not isinstance(write, ast.Name):
            return []
        statement = self.program.statement(write)
        value = self.assigned(write)
        scope = self.program.frame(write)
        if isinstance(statement, (ast.For, ast.AsyncFor)) and self.program.inside(write, statement.target):
            return self._looped(statement, write, seen)
        binding = Binding("assign", scope, write, statement, value)
        if value is not None and self.is_pass_through(value):
            outer = self.chains(value, seen)
            if outer:
                return [(binding, *chain) for chain in outer]
            if isinstance(value, ast.Call) and self.flow.callees.get(value):
                return []  # the object itself, returned by a function that was given it
        return [(binding,)]

    def _looped(self, statement: ast.For | ast.AsyncFor, write: ast.Name, seen: tuple[object, ...]) -> list[Chain]:
        if isinstance(statement.iter, (ast.List, ast.Tuple)):
            given = self._at_position(statement, write, statement.iter.elts)
        else:
            given = list(filter(self._is_loader, self._at_position(statement, write, self._yielded(statement.iter))))
        return [c for e in given for c in self.chains(e, seen)]

    def _yielded(self, node: ast.expr) -> list[ast.expr]:
        """What a generator of the project's own yields, as one of loaders: `for loader in folds(data):`."""
        callees = self.flow.callees.get(node, ()) if isinstance(node, ast.Call) else ()
        generators = [c for c in callees if c.generates] if all(c.generates for c in callees) else []
        expressions = (s.value for c in generators for s in own_statements(c.body) if isinstance(s, ast.Expr))
        return [e.value for e in expressions if isinstance(e, ast.Yield) and e.value is not None]

    @staticmethod
    def _at_position(statement: ast.For | ast.AsyncFor, write: ast.Name, listed: list[ast.expr]) -> list[ast.expr]:
        """The values of a name in `for phase, loader in [("train", a), ("val", b)]`; of phases, the training one."""
        target = statement.target
        if target is write:
            return listed
        rows = [e for e in listed if isinstance(e, (ast.Tuple, ast.List))]
        if not isinstance(target, (ast.Tuple, ast.List)) or write not in target.elts or len(rows) != len(listed):
            return []
        named = [
            r for r in rows if any(isinstance(e, ast.Constant) and "train" in str(e.value).lower() for e in r.elts)
        ]
        return [r.elts[target.elts.index(write)] for r in named or rows if len(r.elts) == len(target.elts)]

    def assigned(self, target: ast.expr) -> ast.expr | None:
        """The expression that an assignment gives to one of its targets; None where it is a part of something."""
        holder = self.program.parent(target)
        if isinstance(holder, ast.withitem):
            return holder.context_expr
        statement = self.program.statement(target)
        if isinstance(statement, ast.AnnAssign):
            return statement.value
        if not isinstance(statement, ast.Assign):
            return None
        for each in statement.targets:
            if each is target:
                return statement.value
            if isinstance(each, (ast.Tuple, ast.List)) and target in each.elts:
                value = statement.value
                if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(each.elts):
                    return value.elts[each.elts.index(target)]
                if isinstance(value, ast.Call) and "apex.amp.initialize" in self.program.called(value):
                    return value.args[each.elts.index(target)] if len(value.args) == len(each.elts) else None
        return None

    def only_value(self, node: ast.expr) -> ast.expr | None:
        """The one value that is ever assigned to a name, or to an attribute of what is written so: to an option."""
        writes: list[ast.AST] = []
        if isinstance(node, ast.Name):
            owner = self.program.scope(node).owner(node.id)
            writes = list(self.writes(owner, node.id)) if owner is not None else []
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            named = [w for w in self.program.attribute_writes.get(node.attr, ()) if ast.unparse(w) == text]
            writes = [w for w in named if self._may_be_one(w.value, node.value)]
        parent = self.program.parent(writes[0]) if len(writes) == 1 else None
        return parent.value if isinstance(parent, ast.Assign) else None

    def _may_be_one(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two expressions may hold one object: `self` of two classes does not."""
        first, second = self.program.values(one), self.program.values(other)
        return not first or not second or bool(first & second)

    def value_at(self, read: ast.expr) -> ast.expr | None:
        """The one value that a variable can have where it is read, whatever it is given elsewhere."""
        owner = self.program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
        if owner is None or not isinstance(read, ast.Name):
            return None
        reaching = self.program.reaching(read, self.writes(owner, read.id))
        return self.assigned(reaching[0]) if len(reaching) == 1 and isinstance(reaching[0], ast.Name) else None

    def _parameter(self, function: Scope, parameter: ast.arg, seen: tuple[object, ...]) -> list[Chain]:
        found: list[Chain] = []
        for call in self.flow.callers.get(function, ()):
            for argument in self.arguments(call, function, parameter.arg):
                binding = Binding("parameter", function, parameter, None, call=call)
                outer = self.chains(argument, seen) or self._property(argument)
                found.extend((binding, *chain) for chain in outer)
        return found or [(Binding("parameter", function, parameter, None),)]

    def _property(self, node: ast.expr) -> list[Chain]:
        """A read of a property, which makes or finds its object, as a call does."""
        if not isinstance(node, ast.Attribute) or not self.getters(node):
            return []
        return [(Binding("inline", self.program.frame(node), node, self.program.statement(node), node),)]

    def getters(self, node: ast.Attribute) -> list[Scope]:
        """The functions that the read of a property runs."""
        classes = [v.cls for v in self.program.values(node.value) if isinstance(v, Instance)]
        methods = (self.flow.method(cls, node.attr) for cls in classes)
        return [m for m in methods if m is not None and m.is_property]

    def calls(self, chain: Chain, node: ast.expr) -> tuple[ast.Call, ...]:
        """The calls by which the object comes to the function of an expression that a way leads back from."""
        frame, found = self.program.frame(node), []
        for binding in chain:
            if binding.call is not None and binding.scope is frame:
                found.append(binding.call)
                frame = self.program.frame(binding.call)
        return tuple(found)

    def argument(self, call: ast.Call, function: Scope, name: str) -> ast.expr | None:
        """The one expression that a call gives to a parameter, whether the call has it or a star hands it over."""
        found = self.arguments(call, function, name)
        return found[0] if len(found) == 1 and not isinstance(found[0], ast.Starred) else None

    def arguments(self, call: ast.Call, function: Scope, name: str) -> list[ast.expr]:
        """The expressions of which a call gives one to a parameter; those that stars and `partial` hand over, too."""
        written = self.written(call, function, name)
        sources = self.flow.given_by.get((call, function, name), {}) if written is None else {written: None}
        return list(dict.fromkeys(e for source in sources for e in self._put_there(source, ())))

    def options(self, call: ast.Call, name: str) -> list[ast.expr]:
        """The expressions of which a call gives one under a name, in the call or in the dictionary of a `**options`."""
        written = [k.value for k in call.keywords if k.arg == name]
        held = (v for k in call.keywords if k.arg is None for v in self.program.values(k.value))
        places = ((v.node, name) for v in held if isinstance(v, Collection))
        return written or list(dict.fromkeys(e for place in places for e in self._put_there(place, ())))

    def _put_there(self, source: Source, seen: tuple[Source, ...]) -> Iterator[ast.expr]:
        """The expressions behind a place in a container; of a star whose items have no known places, itself."""
        if isinstance(source, ast.expr):
            yield source
        elif source not in seen:
            for inner in self.flow.put_by.get(source, ()):
                yield from self._put_there(inner, (*seen, source))

    def written(self, call: ast.Call, function: Scope, name: str) -> ast.expr | None:
        """The argument for a parameter as it stands in a call itself."""
        key = (call, function, name)
        if key not in self._written:
            self._written[key] = self._find_written(*key)
        return self._written[key]

    def _find_written(self, call: ast.Call, function: Scope, name: str) -> ast.expr | None:
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        listed = self._positional(call, function)
        if name not in listed:
            return None
        position = listed.index(name)
        before = call.args[: position + 1]
        if len(before) <= position or any(isinstance(a, ast.Starred) for a in before):
            return None
        return call.args[position]

    def _positional(self, call: ast.Call, function: Scope) -> list[str]:
        """The parameters that a call gives by position, without the `self` that it does not."""
        node = function.node
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        listed = [p.arg for p in [*node.args.posonlyargs, *node.args.args]]
        is_bound = function.is_method and not function.is_static
        listed = listed[1:] if is_bound and not self._is_unbound(call, function) else listed
        return listed[max(self._kept(call.func, ()), default=0) :]

    def _kept(self, called: ast.expr, seen: tuple[ast.AST, ...]) -> set[int]:
        """How many arguments by position the `functools.partial` that is called has in store."""
        kept = {0}
        for value in self.program.values(called):
            node = value.node if isinstance(value, Made) and value.name == "functools.partial" else None
            if isinstance(node, ast.Call) and node.args and node not in seen:
                kept |= {len(node.args) - 1 + inner for inner in self._kept(node.args[0], (*seen, node))}
        return kept

    def rest(self, call: ast.Call, function: Scope, name: str) -> list[ast.expr]:
        """The expressions that a call gives to `*name`; empty for another parameter."""
        node = function.node
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if node.args.vararg is None or node.args.vararg.arg != name:
            return []
        return call.args[len(self._positional(call, function)) :]

    def given(self, call: ast.Call, function: Scope, name: str) -> ast.expr | None:
        """The value of a parameter in a call: its argument, or the default; None where that is not known."""
        if self.arguments(call, function, name) or self._is_open(call):
            return self.argument(call, function, name)
        return function.defaults.get(name)

    def is_handed_over(self, call: ast.Call, function: Scope, name: str) -> bool:
        """Whether a parameter gets its value without an argument of its own: by a star, or by a `partial`."""
        is_given = self._is_open(call) or bool(self.flow.given_by.get((call, function, name)))
        return is_given and self.written(call, function, name) is None

    def _is_open(self, call: ast.Call) -> bool:
        """Whether a call has a star of which not all is known that it hands over."""
        if any(isinstance(a, ast.Starred) for a in call.args):
            return True
        options = [value for k in call.keywords if k.arg is None for value in self.program.values(k.value) or {None}]
        return any(not isinstance(o, Collection) or self.flow.has_open_keys(o) for o in options)

    def _is_unbound(self, call: ast.Call, function: Scope) -> bool:
        """Whether a method is called on its class, with `self` as the first argument."""
        values = self.program.values(call.func)
        owners = {
            getattr(v, "owner", None) for v in values if getattr(v, "scope", None) is function and hasattr(v, "owner")
        }
        return bool(owners) and owners == {None}

    def _imported(self, owner: Scope, name: str, alias: ast.alias, seen: tuple[object, ...]) -> list[Chain]:
        statement = self.program.statement(alias)
        binding = Binding("import", owner, alias, statement)
        if isinstance(statement, ast.ImportFrom):
            root = self.flow.module_named(self.program.path(alias), statement.module or "", statement.level)
            if root is not None and alias.name in root.writes:
                return [(binding, *chain) for chain in self.variable(root, alias.name, seen)]
        return [(binding,)]

    def _attribute(self, node: ast.Attribute, seen: tuple[object, ...]) -> list[Chain]:
        owners = self.program.values(node.value)
        classes = {v.cls for v in owners if isinstance(v, Instance)}
        gone = self._gone(node)
        writes = [w for w in self.program.attribute_writes.get(node.attr, ()) if w not in gone]
        key = (frozenset(classes), node.attr, *writes)
        if key in seen:
            return []
        found: list[Chain] = []
        for write in writes:
            holders = self.program.values(write.value)
            if not (holders & owners) and not classes & {v.cls for v in holders if isinstance(v, Instance)}:
                continue
            value = self.assigned(write)
            binding = Binding("assign", self.program.frame(write), write, self.program.statement(write), value)
            outer = self.chains(value, (*seen, key)) if value is not None and self.is_pass_through(value) else []
            found.extend([(binding, *chain) for chain in outer] or [(binding,)])
        kept = [e for source in self.flow.kept(owners, node.attr) for e in self._put_there(source, ())]
        found.extend(chain for e in dict.fromkeys(kept) for chain in self.chains(e, (*seen, key)))
        if found or not self._is_item(node, owners):
            return found
        place = Binding("item", self.program.frame(node), node, self.program.statement(node))
        return [(place, *chain) for chain in self.chains(node.value, (*seen, key))]

    def _is_item(self, node: ast.Attribute, owners: Iterable[Value]) -> bool:
        """Whether an attribute is an item that is known to have been put in: `optims[key] = Adam(...)`."""
        values = self.program.values(node)
        is_known = bool(values) and not any(isinstance(v, Member) for v in values)
        return is_known and any(isinstance(v, Made) and names.has_items_as_attributes(v.name) for v in owners)

    def _gone(self, read: ast.Attribute) -> set[ast.AST]:
        """The places where an attribute of `self` is bound that cannot have given it what is read."""
        definitions = self.program.definitions(read)
        variable = definitions.variable(read)
        if variable is None or variable.scope is None or not self.program.control_flow(read).is_reachable(read):
            return set()
        every = (d.node for d in definitions.all_of(variable))
        return set(every) - {d.node for d in definitions.definitions(read)}


def is_view(node: ast.expr) -> TypeGuard[ast.GeneratorExp]:
    """Whether an expression yields the items of another one by one: `(batch for _ in range(n) for batch in loader)`."""
    if not isinstance(node, ast.GeneratorExp) or node.generators[-1].ifs:
        return False
    return ast.unparse(node.elt) == ast.unparse(node.generators[-1].target)


def wrapped_by(call: ast.Call) -> ast.expr | None:
    """The model of `nn.DataParallel(model)` and of `nn.DataParallel(module=model)`."""
    named = (k.value for k in call.keywords if k.arg in ("module", "model"))
    return call.args[0] if call.args else next(named, None)


# Imports by names that are made at run time.


def imported_by_name(program: Program, word: str) -> Iterator[tuple[ast.Call, list[str]]]:
    """The imports by a name that is made at run time, each with those files that it may import that have a word.

    A file that another import reads is not followed from here either.

    import_module("models." + name)    import_module(RUNNERS[kind])    __import__(f"losses.{name}_loss")
    import_class("processors.Recognition"), of a library that nothing is known of
    """
    project, read = program.flow.project, {absolute(p.path) for p in program.files}
    for call in (c for c in program.calls if c.args):
        is_import = any(map(names.runs_code, program.called(call)))
        begins = set(_beginnings(program, call.args[0])) if is_import else set(_modules_of_classes(program, call))
        found = {p for begin in begins for p in project.named_like(program.path(call), begin, word)}
        is_followed = any(isinstance(v, ModuleValue) for v in program.values(call))
        listed = sorted(p for p in found if not is_followed or absolute(p) not in read)
        if listed and program.is_run(call):
            yield call, listed


def named_by_settings(program: Program, word: str) -> Iterator[tuple[ast.Call, list[str]]]:
    """The calls of what a configuration names, each with the other files of the repository that have a word.

    hydra.utils.instantiate(cfg.agent)    import_module(config["trainer"])
    """
    read = {absolute(p.path) for p in program.files}
    for call in program.calls:
        is_named = any(map(names.is_configured, program.called(call))) or _imports_what_is_unknown(program, call)
        if is_named and program.is_run(call):
            listed = program.flow.project.having(program.path(call), word)
            if others := [p for p in listed if absolute(p) not in read]:
                yield call, others


def picked_by_name(program: Program, node: ast.expr) -> list[ast.Call]:
    """The calls that pick an object, or its class, by a name that is known only at run time, from code not followed.

    getattr(import_module(name), kind)()    hydra.utils.instantiate(cfg.logger)
    """
    found: dict[ast.Call, None] = {}
    queue, seen = [node], set[ast.expr]()
    while queue:
        expression = queue.pop()
        if expression in seen:
            continue
        seen.add(expression)
        called = program.called(expression) if isinstance(expression, ast.Call) else ()
        if isinstance(expression, ast.Call) and _is_by_name(program, expression, called):
            found[expression] = None
        else:
            queue += _origins(program, expression)
    return sorted(found, key=program.position)


def _is_by_name(program: Program, call: ast.Call, called: Iterable[str]) -> bool:
    """Whether a call gives what a text of run time names, of which nothing is known."""
    is_asked = any(names.imports(name) or names.is_configured(name) for name in called)
    return is_asked and any(isinstance(v, Made) and v.node is call for v in program.values(call))


def _origins(program: Program, node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that an object of unknown code, or its class, comes from."""
    roots = [v.root if isinstance(v, Member) else v for v in program.values(node)]
    made = [v.owner if isinstance(v, Element) else v for v in roots]
    yield from (v.node for v in made if isinstance(v, Made) and isinstance(v.node, ast.Call) and v.node is not node)
    if isinstance(node, ast.Call) and (functions := program.flow.callees.get(node)):
        yield from (value for value in returned(functions) if value is not None)
    elif isinstance(node, ast.Call):
        called = program.called(node)
        yield from node.args[:1] if "getattr" in called else () if called else (node.func,)
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        yield node.value
    elif isinstance(node, ast.Name) and not roots:
        yield from (c[-1].value for c in program.once(Tracer).chains(node) if c[-1].value is not None)


def handed_in(program: Program, node: ast.expr) -> list[ast.arg]:
    """The parameters that an object, or the list it is in, comes from, of functions that the program never calls."""
    tracer = program.once(Tracer)
    if any(isinstance(value, Instance) for value in program.values(node)):
        return []
    loops = program.loops_round(node) if isinstance(node, ast.Name) else ()
    lists = [loop.iter for loop in loops if isinstance(loop, ast.For) and ast.unparse(node) in names_in(loop.target)]
    sources = [node, *(tracer.inside(each, "list", "reversed", "sorted") for each in lists)]
    first = [chain[-1] for source in sources for chain in tracer.chains(source)]
    return [b.node for b in first if b.kind == "parameter" and b.call is None and isinstance(b.node, ast.arg)]


def _imports_what_is_unknown(program: Program, call: ast.Call) -> bool:
    """Whether a call imports a module of whose name not even the beginning is known."""
    if not any(map(names.runs_code, program.called(call))) or not call.args or isinstance(call.args[0], ast.Constant):
        return False
    return not any(_beginnings(program, call.args[0]))


def chosen_among_variables(program: Program, word: str) -> Iterator[tuple[ast.Call, list[str]]]:
    """The calls of what is picked by its name, each with the other files of the program that have a word.

    eval(args.runner)(config), globals()[args.runner](config), REGISTRY[args.runner](config)
    Where more is registered than the flow keeps, as well.
    """
    tracer = program.once(Tracer)
    for call in program.calls:
        picked = (tracer.only_value(call.func) if isinstance(call.func, ast.Name) else None) or call.func
        others = [p.path for p in program.files if word in p.text and p.path != program.path(call)]
        if not others or not program.is_run(call):
            continue
        is_unknown = not program.flow.callees.get(call) and _is_picked_by_name(program, picked)
        if is_unknown or (program.flow.is_cut(call.func) and _may_be_defined(program, call.func, others)):
            yield call, others


def _may_be_defined(program: Program, called: ast.expr, paths: Iterable[str]) -> bool:
    """Whether some files may define what is called: for a method, one of that name."""
    name = called.attr if isinstance(called, ast.Attribute) else ""
    return any(f"def {name}" in program.flow.parsed_of[path].text for path in paths)


def _is_picked_by_name(program: Program, node: ast.expr) -> bool:
    """`eval(kind)`, `globals()[kind]`, `globals().get(kind)`; a name that is written out is known."""
    if isinstance(node, ast.Subscript):
        holder, name = node.value, node.slice
    elif isinstance(node, ast.Call) and node.args:
        holder = node.func.value if isinstance(node.func, ast.Attribute) else node
        name = node.args[0]
    else:
        return False
    called = program.called(holder) if isinstance(holder, ast.Call) else ()
    is_by_name = any(names.reads_variables(n) or names.reads_named(n) for n in called)
    is_registered = any(isinstance(v, Collection) for v in program.values(holder))
    return (is_by_name or is_registered) and not isinstance(name, ast.Constant)


def _modules_of_classes(program: Program, call: ast.Call) -> Iterator[str]:
    """The module in which a class is that a function of unknown code is given by its name."""
    text = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    named = re.fullmatch(_CLASS_BY_NAME, repr(text)) if not program.flow.callees.get(call) else None
    like = program.flow.project.named_like
    if named is not None and like(program.path(call), named[1], f"class {named[2]}"):
        yield named[1]


def _beginnings(program: Program, node: ast.expr) -> Iterator[str]:
    """The texts that a name begins with, or is: the items of a table that it is looked up in, an option's defaults."""
    tracer = program.once(Tracer)
    yield from (v.value for v in program.values(node) if isinstance(v, Constant) and isinstance(v.value, str))
    chains = tracer.chains(node) if isinstance(node, ast.Name) else []
    given = [value for chain in chains if (value := chain[-1].value) is not None]
    for value in given or [node]:
        listed = tracer.option_values(value.attr, "choices") if isinstance(value, ast.Attribute) else []
        yield from (
            t.value for n in listed for t in ast.walk(n) if isinstance(t, ast.Constant) and isinstance(t.value, str)
        )
        yield beginning(value)
