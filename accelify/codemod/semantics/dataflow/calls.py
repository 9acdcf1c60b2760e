"""Values through calls: arguments into parameters, returns out, and what the libraries' functions do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile

from accelify.codemod.files.parse import beginning
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.semantics.dataflow.containers import PASSED, Containers, device_of, only
from accelify.codemod.semantics.dataflow.memory import Source
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    NOTHING,
    ClassValue,
    Collection,
    Constant,
    Element,
    External,
    FunctionValue,
    Generated,
    Instance,
    Made,
    ModuleValue,
    Parameters,
    SuperOf,
    Value,
    Values,
)

Keywords = list[tuple[str | None, Values]]
Part = tuple[Values, Sequence[Source]]  # what an argument gives to a parameter, and where that is written
_ANY = 1_000_000  # a place among `*args` that is not known


@dataclass(frozen=True)
class Given:
    """The arguments of a call, those of the `functools.partial` that it calls among them."""

    positional: Sequence[tuple[ast.expr, Values]]
    named: Sequence[tuple[ast.keyword, Values]]

    @property
    def arguments(self) -> list[Values]:
        return [values for _, values in self.positional]

    @property
    def keywords(self) -> Keywords:
        return [(keyword.arg, values) for keyword, values in self.named]


class _Taker:
    """The parameters of a function that a call fills."""

    def __init__(self, call: ast.Call, scope: Scope, is_bound: bool) -> None:
        assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        self.arguments = scope.node.args
        listed = [p.arg for p in [*self.arguments.posonlyargs, *self.arguments.args]]
        self.call, self.scope = call, scope
        self.own = listed[0] if is_bound and listed else None
        self.positional = listed[1:] if is_bound else listed
        self.known = {p.arg for p in scope.parameters}

    def rest(self, place: int | str) -> ast.arg | None:
        return self.arguments.vararg if isinstance(place, int) else self.arguments.kwarg

    def end_of_positional(self, named: Sequence[str]) -> int:
        """How many parameters can be filled by position, where those of some names are not."""
        return next((place for place, name in enumerate(self.positional) if name in named), len(self.positional))

    def required(self, given: Given) -> int:
        """How many arguments have to come by position."""
        named = {keyword.arg for keyword, _ in given.named}
        return 0 if None in named else sum(n not in self.scope.defaults and n not in named for n in self.positional)


class Calls(Containers):
    """The values that calls return, and those that they put into the parameters of the called function."""

    def eval(self, node: ast.expr) -> Values:
        """The values that an expression may have."""
        raise NotImplementedError

    def _call(self, node: ast.Call) -> Values:
        callees = self.meant(node, self.eval(node.func))
        given = Given([(a, self.eval(a)) for a in node.args], [(k, self.eval(k.value)) for k in node.keywords])
        for expression, values in given.positional if _is_kept_for_a_library(node, callees) else ():
            self._run_by_library(expression, values)
        found: set[Value] = set()
        for callee in callees:
            found |= self._called(node, callee, given)
        if not callees and self._settled:
            found.add(Made(node, None))
        if isinstance(node.func, ast.Attribute):
            self._mutated(node, node.func, given.arguments)
            known = device_of(node.func.value) if node.func.attr == "format" else self._method_result(node, node.func)
            if known:
                found.discard(Made(node, None))
                found |= known
        return frozenset(found)

    def meant(self, node: ast.Call, callees: Values) -> Values:
        """The callees, without those that cannot be called with these arguments if others can."""
        options = self._options(node) if len(callees) > 1 else None
        if options is not None and not options and not self._settled:  # `**options`, of which nothing has come yet
            return NOTHING
        return frozenset(c for c in callees if self._accepts(c, node, options)) or callees

    def _accepts(self, callee: Value, node: ast.Call, options: Set[str] | None) -> bool:
        if isinstance(callee, FunctionValue):
            return callee.scope.accepts(node, bound=int(callee.owner is not None), options=options)
        init = self.method(callee.scope, "__init__") if isinstance(callee, ClassValue) else None
        if init is not None:
            return init.accepts(node, bound=1, options=options)
        bases = self.external_bases(callee.scope) if isinstance(callee, ClassValue) else []
        gives = bool(node.args or options or any(k.arg for k in node.keywords))
        return not (gives and bases and all(map(names.takes_no_arguments, bases)))

    def _options(self, node: ast.Call) -> set[str] | None:
        """The names that `**options` may give in a call; None where there is none, or where they are not all known."""
        found: set[str] = set()
        spread = [k.value for k in node.keywords if k.arg is None]
        for value in (v for each in spread for v in self.eval(each)):
            keys = self._keys(value.node) if isinstance(value, Collection) else NOTHING
            known = {k.value for k in keys if isinstance(k, Constant) and isinstance(k.value, str)}
            if not isinstance(value, Collection) or len(known) < len(keys) or self._get(("item", value.node, "*")):
                return None
            found |= known
        return found if spread else None

    def _called(self, node: ast.Call, callee: Value, given: Given) -> Values:
        if isinstance(callee, FunctionValue):
            return self._enter(node, callee.scope, callee.owner, given)
        if isinstance(callee, ClassValue):
            return self._construct(node, callee.scope, given)
        if isinstance(callee, Instance):
            name = "forward" if self.is_module_class(callee.cls) else "__call__"
            method = self.method(callee.cls, name)
            found = self._enter(node, method, callee, given) if method is not None else frozenset({Made(node, None)})
            if method is None:
                self._run_parts(node, callee)
            return found | self._run_instead(node, callee, name, given)
        if isinstance(callee, External):
            return self._library(node, callee.name, given.arguments, given.keywords)
        if isinstance(callee, Constant):
            return NOTHING
        if isinstance(callee, Made) and isinstance(callee.node, ast.Call):
            if callee.name == "functools.partial":
                return self._call_of_partial(node, callee.node, given)
            if callee.name == "collections.namedtuple":
                return self._named_tuple(node, _fields_named(callee.node), given)
        self._run_parts(node, callee)
        found = frozenset({Made(node, None)})
        return found | self._run_instead(node, callee, "forward", given) if isinstance(callee, Made) else found

    def _run_parts(self, call: ast.Call, called: Value) -> None:
        """Run the modules that a library's container calls, or that stand in one: `nn.Sequential(Scale(), head)`.

        What they are called with is not known, but that it comes of what the container is called with.
        """
        for part in self.modules_inside(called):
            forward = self.method(part.cls, "forward")
            if forward is not None:
                self._runs_inside.add((call, forward))
                self._wake(forward)

    def _run_instead(self, node: ast.Call, called: Instance | Made, name: str, given: Given) -> Values:
        """What functions return that replace a method: `Net.forward = f`, `net.forward = MethodType(f, net)`."""
        if isinstance(called, Instance):
            classes: list[Value] = [ClassValue(c) for c in (called.cls, *self.ancestors(called.cls))]
            method = self.method(called.cls, name)
        else:
            classes, method = [External(called.name)] if called.name else [], None
        of_class = (v for each in classes for v in self._get(self._attribute_key(each, name)))
        own = self._get(self._attribute_key(called, name))
        run: list[Value] = [FunctionValue(v.scope, called) for v in of_class if isinstance(v, FunctionValue)]
        run += [v for v in own if isinstance(v, FunctionValue) or self._is_partial(v)]
        others = (v for v in run if not isinstance(v, FunctionValue) or v.scope is not method)
        return frozenset[Value]().union(*(self._called(node, v, given) for v in others))

    def _is_partial(self, value: Value) -> bool:
        """Whether a value is a `partial(f, x)` of which no call is followed yet."""
        is_open = isinstance(value, Made) and value.node in self._open_partials
        return isinstance(value, Made) and value.name == "functools.partial" and not is_open

    def _call_of_partial(self, node: ast.Call, partial: ast.Call, given: Given) -> Values:
        """`train(model, loader)`, for a call of `train = partial(train_model, args)`."""
        parts = [*partial.args[1:], *partial.keywords]
        held = [(part, self._get(("item", partial, place))) for place, part in enumerate(parts, 1)]
        first = [(part, values) for part, values in held if isinstance(part, ast.expr)]
        replaced = {keyword.arg for keyword, _ in given.named}
        named = [(k, values) for k, values in held if isinstance(k, ast.keyword) and k.arg not in replaced]
        both = Given([*first, *given.positional], [*named, *given.named])
        found: set[Value] = set()
        self._open_partials.append(partial)
        for callee in self._get(("item", partial, 0)):
            if not (isinstance(callee, Made) and callee.node in self._open_partials):  # `f = partial(f, x)` in a loop
                found |= self._called(node, callee, both)
        self._open_partials.pop()
        return frozenset(found)

    def _enter(self, node: ast.Call, scope: Scope, owner: Value | None, given: Given) -> Values:
        self._runs.add((node, scope))
        self._wake(scope)
        self._bind(scope, owner, node, given)
        if scope.generates:
            return frozenset({Generated(scope)})
        return self._get(("return", scope)) or (frozenset({Made(node, None)}) if self._settled else NOTHING)

    def _bind(self, scope: Scope, owner: Value | None, node: ast.Call, given: Given) -> None:
        """Hand the arguments to the parameters: each to those that it may reach, which stars leave open."""
        taker = _Taker(node, scope, owner is not None)
        if owner is not None and taker.own is not None:
            self._add(("var", scope, taker.own), frozenset({owner}))
        named = [(name, part) for k, values in given.named for name, part in self._named(k, values, taker.known)]
        last = taker.end_of_positional([name for name, (values, sources) in named if values or sources])
        low = high = 0  # the first and the last place that the next argument may have
        known = takewhile(lambda one: self._is_settled(*one), given.positional)
        spread = [segment for expression, values in known for segment in self._spread(expression, values)]
        for index, (parts, is_open) in enumerate(spread):
            after = sum(len(others) for others, others_are_open in spread[index + 1 :] if not others_are_open)
            end = max(last - after, high)
            for offset, part in enumerate(parts):
                for place in range(low + offset, end if is_open else high + offset + 1):
                    self._hand_over(taker, place, part)
                if (is_open or low < high) and taker.arguments.vararg is not None:
                    self._hand_over(taker, _ANY, part)
            least = max(0, taker.required(given) - low - after) if is_open else len(parts)
            low, high = low + least, end if is_open else high + len(parts)
        for name, part in named:
            self._hand_over(taker, name, part)

    def _is_settled(self, argument: ast.expr, values: Values) -> bool:
        """Whether values have come to a star yet, without which nothing can be said of what follows it."""
        return bool(values) or self._settled or not isinstance(argument, ast.Starred)

    def _spread(self, argument: ast.expr, values: Values) -> Iterator[tuple[list[Part], bool]]:
        """What an argument gives to one place after the other; and if it is open, to each of any number of places."""
        if not isinstance(argument, ast.Starred):
            yield [(values, (argument,))], False
            return
        lengths = {self._length(value.node) if isinstance(value, Collection) else None for value in values}
        length = lengths.pop() if len(lengths) == 1 else None
        more = frozenset(e for v in values if isinstance(v, Collection) for e in self._get(("item", v.node, "*")))
        if length is not None:
            yield [self._part(values, place, has_more=False) for place in range(length)], False
        if length is None or more:  # `parts = [model]; parts.append(optimizer)`
            rest = more if length is not None else frozenset(e for v in values for e in self.elements(v))
            yield [(rest, (argument,))], True

    def _length(self, node: ast.AST) -> int | None:
        """How many items a tuple, a list or `*args` has at known places, before any others."""
        if isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in node.elts):
            return len(node.elts)
        return len(self._keys(node)) if isinstance(node, ast.arg) else None

    def _part(self, values: Values, key: object, has_more: bool = True) -> Part:
        """What containers hold at a key; `has_more`: or may hold there, as it has items at unknown keys."""
        keys = (key, "*") if has_more else (key,)
        places = [(value.node, at) for value in values if isinstance(value, Collection) for at in keys]
        held = [place for place in places if place in self.put_by]
        if not has_more:
            return frozenset(v for place in places for v in self._get(("item", *place))), held
        return frozenset(v for value in values for v in self._item(value, key)), held

    def _named(self, keyword: ast.keyword, values: Values, known: Iterable[str]) -> Iterator[tuple[str, Part]]:
        """What a keyword argument gives to which parameters: `**options`, all that the dictionary may hold."""
        if keyword.arg is not None:
            yield keyword.arg, (values, (keyword.value,))
            return
        for value in values:
            held = self._keys(value.node) if isinstance(value, Collection) else NOTHING
            keys = [key.value for key in held if isinstance(key, Constant) and isinstance(key.value, str)]
            for name in dict.fromkeys([*keys, *known]):
                yield name, self._part(frozenset({value}), name)

    def _hand_over(self, taker: _Taker, place: int | str, part: Part) -> None:
        """Give values to the parameter of a name or at a place, or else to `*args` or `**kwargs`."""
        scope, rest = taker.scope, taker.rest(place)
        values, sources = part
        name = taker.positional[place] if isinstance(place, int) and place < len(taker.positional) else place
        if isinstance(name, str) and name in taker.known:
            self._add(("var", scope, name), values)
            self.given_by[(taker.call, scope, name)].update(dict.fromkeys(sources))
        elif rest is not None:
            at = "*" if place == _ANY else place - len(taker.positional) if isinstance(place, int) else place
            self._put(rest, at, values, sources)
            self._add(("var", scope, rest.arg), frozenset({Collection(rest)}))

    def _construct(self, node: ast.Call, cls: Scope, given: Given) -> Values:
        instance = Instance(cls)
        init = self.method(cls, "__init__")
        if init is not None:
            self._enter(node, init, instance, given)
        else:
            for _, name, part in self._fields(self._annotated(cls), given):
                self._keep(instance, name, *part)
        if any(table.kind_made_by(base) == "dict" for base in self.external_bases(cls)):
            self._keep_given(node, instance, given.arguments)
        if init is None and self._is_container(instance):
            self._add(("part", instance), frozenset[Value]().union(*given.arguments))
        for method in self._methods(cls):
            if is_run_unasked(method):
                self._wake(method)
        run = self.method(cls, "run") if any(map(names.runs_beside, self.external_bases(cls))) else None
        if run is not None:  # `start` runs it: `class Worker(Process)`
            self.handed_on.add((node, run))
            self._bind(run, instance, node, Given([], []))
            self._wake(run)
        return frozenset({instance})

    # Records: what they are called with are their attributes.

    def _annotated(self, cls: Scope) -> list[str]:
        """The fields of a data class, or of a subclass of `NamedTuple`."""
        bodies = [each.body for each in [*reversed(self.ancestors(cls)), cls]]
        targets = [s.target for body in bodies for s in body if isinstance(s, ast.AnnAssign)]
        return list(dict.fromkeys(t.id for t in targets if isinstance(t, ast.Name)))

    def _fields(self, fields: Sequence[str], given: Given) -> Iterator[tuple[int, str, Part]]:
        """What each field of a record is given, as far as stars tell."""
        spread = (segment for argument, values in given.positional for segment in self._spread(argument, values))
        parts = [part for parts, is_open in spread if not is_open for part in parts]
        for place, (name, part) in enumerate(zip(fields, parts, strict=False)):
            yield place, name, part
        for keyword, values in given.named:
            for name, part in self._named(keyword, values, fields):
                if name in fields:
                    yield fields.index(name), name, part

    def _named_tuple(self, node: ast.Call, fields: Sequence[str], given: Given) -> Values:
        made = Collection(node)
        for place, name, part in self._fields(fields, given):
            self._put(node, place, *part)
            self._keep(made, name, *part)
        return frozenset({made})

    # Libraries.

    def _bound_method(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`types.MethodType(function, owner)`"""
        given = arguments[0] if len(arguments) == 2 else ()
        functions = [v.scope for v in given if isinstance(v, FunctionValue)]
        return frozenset(FunctionValue(f, owner) for f in functions for owner in arguments[1]) or None

    def _partial(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`partial(train, model)`: the function that it calls, and the arguments that it keeps for it."""
        for place, values in enumerate([*arguments, *(values for _, values in keywords)]):
            self._add(("item", node, place), values)
        return None

    def _library(self, node: ast.Call, name: str, arguments: list[Values], keywords: Keywords) -> Values:
        own = Calls._partial if name == "functools.partial" else _BUILTINS.get(name)
        own = Calls._import_module if names.imports(name) else Calls._dict_made if names.makes_items(name) else own
        own = Calls._bound_method if names.binds_method(name) else own
        found = own(self, node, arguments, keywords) if own is not None else None
        if found is not None:
            return found
        kind = names.iteration(name)
        gone_over = arguments or [values for keyword, values in keywords if keyword == "iterable"]
        if kind is not None and gone_over:
            return self._view(node, kind, name, gone_over)
        wrapped = [*arguments[:1], *(values for keyword, values in keywords if keyword in ("module", "model"))]
        if names.returns_its_model(name) and wrapped:
            return wrapped[0]
        if names.is_torch_loader(name):
            self._hand_out(value for given in [*arguments, *(v for _, v in keywords)] for value in given)
        if names.gives_its_argument(name) and arguments:
            return arguments[0]
        if names.same_values(name):
            items = only(arguments[0], Element) if arguments else NOTHING
            return items or (frozenset({Made(node, name)}) if names.shares_memory(name) else NOTHING)
        if table.kind_made_by(name) == "dict":
            self._keep_given(node, Made(node, name), arguments)
        if table.kind_made_by(name) == "container":
            self._add(("part", Made(node, name)), frozenset[Value]().union(*arguments, *(v for _, v in keywords)))
        if table.kind_made_by(name) == "defaultdict":
            for factory in (value for values in arguments[:1] for value in values):
                self._add(("item", Made(node, name), "*"), self._made_unasked(node, factory))
        return frozenset({Made(node, name)})

    def _made_unasked(self, node: ast.Call, factory: Value) -> Values:
        """What a `defaultdict` puts in where it has nothing: it calls its factory without arguments."""
        if isinstance(factory, FunctionValue):
            self._wake(factory.scope)
            return self._get(("return", factory.scope))
        if not isinstance(factory, ClassValue):
            return NOTHING
        init, instance = self.method(factory.scope, "__init__"), Instance(factory.scope)
        if init is not None:
            self.handed_on.add((node, init))
            self._bind(init, instance, node, Given([], []))
            self._wake(init)
        return frozenset({instance})

    def _setattr(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> None:
        listed = self._items_gone_over(node) if len(arguments) == 3 else None
        for owner in arguments[0] if len(arguments) == 3 else ():
            for value in self.eval(listed) if listed is not None else ():
                self._keep_all(owner, value)
            for attribute in arguments[1] if listed is None else ():
                if isinstance(attribute, Constant) and isinstance(attribute.value, str):
                    self._keep(owner, attribute.value, arguments[2], node.args[2:])
            if isinstance(owner, Instance) and not arguments[1] and self.is_module_class(owner.cls):
                self._put_into(owner, "*", arguments[2])

    def _items_gone_over(self, node: ast.Call) -> ast.expr | None:
        """`options`, of `for name, value in options.items(): setattr(self, name, value)`."""
        parents = self.parsed_of[self.scope_of[node].module].parents
        loop: ast.AST | None = node
        while loop is not None and not isinstance(loop, ast.For):
            loop = parents.get(loop)
        asked = loop.iter.func if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else None
        if loop is None or not isinstance(asked, ast.Attribute) or asked.attr != "items":
            return None
        pair = loop.target.elts if isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple) else []
        return asked.value if list(map(ast.unparse, pair)) == list(map(ast.unparse, node.args[1:])) else None

    def _next(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        if not arguments:
            return None
        found: set[Value] = set()
        for value in arguments[0]:
            following = self.method(value.cls, "__next__") if isinstance(value, Instance) else None
            if following is not None:
                self._runs.add((node, following))
            found |= self.elements(value)
        return frozenset(found)

    def _dict_made(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values:
        self._put_given(node, node)
        for value in arguments[0] if arguments else ():
            self._put_all(node, value)
            self._put_pairs(node, value)
        return frozenset({Collection(node)}).union(*(only(values, Parameters) for values in arguments[:1]))

    def _hand_out(self, given: Iterable[Value]) -> None:
        """Code that is given to a loader runs: a data set, a sampler, a function that collates."""
        for value in given:
            if isinstance(value, FunctionValue):
                self._wake(value.scope)
            elif isinstance(value, Instance):
                methods = (self.method(value.cls, name) for name in ("__getitem__", "__iter__", "__next__", "__call__"))
                for method in filter(None, methods):
                    self._wake(method)

    def _mapped(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        if len(arguments) != 2:
            return None
        found: set[Value] = set()
        for value in arguments[1]:
            found |= self.elements(value)
        for function in arguments[0]:
            if isinstance(function, FunctionValue) and function.scope.parameters:
                self._add(("var", function.scope, function.scope.parameters[0].arg), frozenset(found))
                self._put(node, "*", self._get(("return", function.scope)))
        return frozenset({Collection(node)})

    def _super(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values:
        scope = self.scope_of[node].frame
        while scope.parent is not None and not scope.is_method:
            scope = scope.parent
        cls = scope.parent
        if cls is None or cls.kind != "class":
            return NOTHING
        owners = [cls, *self.descendants(cls)]
        named = [v.scope for given in arguments[:1] for v in given if isinstance(v, ClassValue)] or [cls]
        return frozenset(SuperOf(each, owner) for each in named for owner in owners)

    def _getattr(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        if len(arguments) < 2:
            return None
        found: set[Value] = set()
        for owner in arguments[0]:
            attributes = [v.value for v in arguments[1] if isinstance(v, Constant) and isinstance(v.value, str)]
            if not attributes and isinstance(owner, Instance):
                attributes = self._methods_called(owner, beginning(node.args[1]))
            if attributes:
                for attribute in attributes:
                    found |= self._member(owner, attribute)
            elif isinstance(owner, Instance) and self.is_module_class(owner.cls):
                found |= self._get(("item", owner, "*"))  # `self.add_module(f"block{i}", block)`
            elif isinstance(owner, External):
                found.add(External(f"{owner.name}.?"))
            elif isinstance(owner, ModuleValue):
                found |= self._made_in(owner)
        return frozenset(found)

    def _methods_called(self, owner: Instance, start: str) -> list[str]:
        """The methods whose names begin with a text: those that `getattr(callback, "on_" + event)` may mean."""
        return [m.name for m in self._methods(owner.cls) if start and m.name.startswith(start)]

    def _import_module(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`import_module("tensorboardX")` is that module, `__import__("torch.optim")` the package that holds it.

        Of a name that is made at run time it is the modules that it may mean: of the files that the user has named, or
        else of those that are read for it.
        """
        parsed = self.parsed_of[self.scope_of[node].module]
        told = [v.value for given in arguments[:1] for v in given if isinstance(v, Constant)]
        told += [text for argument in node.args[:1] if (text := parsed.spelled_out(argument)) is not None]
        if relative := [name for name in told if isinstance(name, str) and name.startswith(".")]:
            found = (self.module_named(parsed.path, n.lstrip("."), len(n) - len(n.lstrip("."))) for n in relative)
            return frozenset(ModuleValue(root) for root in found if root is not None) or None
        modules = [name for name in told if isinstance(name, str)]
        if not modules:
            named = self.named.intersection(self.project.meant_at_run_time(parsed, node))
            read = named or self.bindings.keys() & self.project.read_at_run_time(parsed, node)
            return frozenset(ModuleValue(self.bindings[path].root) for path in read) or None
        if isinstance(node.func, ast.Name) and node.func.id == "__import__" and not arguments[3:] and not keywords:
            modules = [name.partition(".")[0] for name in modules]
        importer = self.path_of_root[self.scope_of[node].root]
        return frozenset(v for name in modules for v in self.module_or_external(importer, name)) or None

    def _vars(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`vars(models)`, whose items are what the module holds, as those of `vars(args)` are the attributes."""
        return frozenset(m for given in arguments for v in given for m in self._member(v, "__dict__")) or None

    def _globals(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`globals()`, whose items are what the module holds: the classes and functions that one of any name may be."""
        return frozenset({ModuleValue(self.scope_of[node].root)})

    def _eval(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`eval(KINDS[key])`, which gives what the module holds under one of the names in a table."""
        told = [v.value for v in arguments[0] if isinstance(v, Constant)] if len(arguments) == 1 else []
        module = ModuleValue(self.scope_of[node].root)
        named = [name for name in told if isinstance(name, str) and name.isidentifier()]
        return frozenset(v for name in named for v in self._member(module, name)) or None

    def _method_result(self, node: ast.Call, function: ast.Attribute) -> Values:
        """The values that a library's method returns, as far as they matter here."""
        found: set[Value] = set()
        owners = self.values.get(function.value, NOTHING)
        if any(isinstance(c, FunctionValue) for c in self.values.get(function, NOTHING)):
            return NOTHING
        for owner in owners:
            if isinstance(owner, (External, ModuleValue, ClassValue)):
                continue
            if methods.gives_parameters(function.attr):
                found.add(Parameters(owner))
            elif isinstance(owner, Parameters):
                found.add(owner)
            elif isinstance(owner, Collection) and (passed := methods.passes(function.attr)) in PASSED:
                found |= self._collection_method(node, owner, passed)
            elif methods.takes_the_next(function.attr):
                found |= self.elements(owner)
            elif function.attr == "__iter__":
                found |= self._view(node, "same", "iter", [frozenset({owner})])
            elif methods.gives_part(function.attr):
                found |= self._part_at(owner, self._literal(node.args[0]) if node.args else None)
            elif methods.returns_itself(function.attr, self._kind_of(owner)):
                found.add(owner)
        return frozenset(found)

    def _part_at(self, owner: Value, path: object) -> Values:
        """The part of a module at a path: `net.head[0]` for `net.get_submodule("head.0")`."""
        held = frozenset({owner})
        for name in path.split(".") if isinstance(path, str) and path not in ("", "*") else ():
            number = int(name) if name.isdecimal() else None
            parts = (self._item(v, number) if number is not None else self._member(v, name) for v in held)
            held = frozenset(p for each in parts for p in each)
        return held

    def _kind_of(self, value: Value) -> str | None:
        if isinstance(value, Instance) and self.is_module_class(value.cls):
            return "module"
        return table.kind_made_by(value.name) if isinstance(value, Made) else None


def is_run_unasked(method: Scope) -> bool:
    """Whether Python runs a method where no call names it: `__exit__`, `__setitem__`, `__getattr__`."""
    name = method.name
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__new__", "__call__")


def _is_kept_for_a_library(call: ast.Call, callees: Values) -> bool:
    """Whether a library calls the methods of what it is given later on: `logger.addHandler(handler)`."""
    rows = [table.function(v.name) for v in callees if isinstance(v, External)]
    is_own = any(isinstance(v, (FunctionValue, ClassValue, Instance)) for v in callees)
    if isinstance(call.func, ast.Attribute) and not rows and not is_own:
        rows += table.members(call.func.attr)
    changes = (row for row in rows if row is not None and row.keeps)
    return any(row.has(Trait.SETS_UP_LOG) or row.has(Effect.CHANGES_LIBRARY) for row in changes)


def _fields_named(call: ast.Call) -> list[str]:
    """The fields of `namedtuple("State", "model optimizer")`, `namedtuple("State", ["model", "optimizer"])`."""
    listed = call.args[1] if len(call.args) > 1 else None
    if isinstance(listed, ast.Constant) and isinstance(listed.value, str):
        return listed.value.replace(",", " ").split()
    elements = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
    return [str(e.value) if isinstance(e, ast.Constant) else "" for e in elements]


# The values that they return; None where they are called like any other function.
_BUILTINS: dict[str, Callable[[Calls, ast.Call, list[Values], Keywords], Values | None]] = {
    "super": Calls._super,
    "getattr": Calls._getattr,
    "vars": Calls._vars,
    "globals": Calls._globals,
    "eval": Calls._eval,
    "setattr": Calls._setattr,
    "next": Calls._next,
    "map": Calls._mapped,
}
