"""Values through calls: arguments into parameters, returns out, and what the libraries' functions do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.semantics.dataflow.containers import PASSED, Containers, device_of, only
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
_RUN_UNASKED = ("__enter__", "__exit__", "__del__")  # methods that no call names


class Calls(Containers):
    """The values that calls return, and those that they put into the parameters of the called function."""

    def eval(self, node: ast.expr) -> Values:
        """The values that an expression may have."""
        raise NotImplementedError

    def _call(self, node: ast.Call) -> Values:
        callees = self.meant(node, self.eval(node.func))
        arguments = [self.eval(a) for a in node.args]
        keywords = [(k.arg, self.eval(k.value)) for k in node.keywords]
        found: set[Value] = set()
        for callee in callees:
            found |= self._called(node, callee, arguments, keywords)
        if not callees and self._settled:
            found.add(Made(node, None))
        if isinstance(node.func, ast.Attribute):
            self._mutated(node, node.func, arguments)
            known = device_of(node.func.value) if node.func.attr == "format" else self._method_result(node, node.func)
            if known:
                found.discard(Made(node, None))
                found |= known
        return frozenset(found)

    def meant(self, node: ast.Call, callees: Values) -> Values:
        """The callees, without those that cannot be called with these arguments if others can."""
        return frozenset(c for c in callees if self._accepts(c, node)) or callees

    def _accepts(self, callee: Value, node: ast.Call) -> bool:
        if isinstance(callee, FunctionValue):
            return callee.scope.accepts(node, bound=int(callee.owner is not None))
        init = self.method(callee.scope, "__init__") if isinstance(callee, ClassValue) else None
        return init is None or init.accepts(node, bound=1)

    def _called(self, node: ast.Call, callee: Value, arguments: list[Values], keywords: Keywords) -> Values:
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
        keywords: Keywords,
    ) -> Values:
        self._runs.add((node, scope))
        self._wake(scope)
        self._bind(scope, owner, node, arguments, keywords)
        if scope.generates:
            return frozenset({Generated(scope)})
        return self._get(("return", scope)) or (frozenset({Made(node, None)}) if self._settled else NOTHING)

    def _bind(
        self,
        scope: Scope,
        owner: Value | None,
        node: ast.Call,
        arguments: list[Values],
        keywords: Keywords,
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

    def _construct(self, node: ast.Call, cls: Scope, arguments: list[Values], keywords: Keywords) -> Values:
        instance = Instance(cls)
        init = self.method(cls, "__init__")
        if init is not None:
            self._enter(node, init, instance, arguments, keywords)
        for name in _RUN_UNASKED:
            method = self.method(cls, name)
            if method is not None:
                self._wake(method)
        return frozenset({instance})

    # Libraries.

    def _library(self, node: ast.Call, name: str, arguments: list[Values], keywords: Keywords) -> Values:
        own = _BUILTINS.get(name)
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
        if names.same_values(name):
            return only(arguments[0], Element) if arguments else NOTHING
        return frozenset({Made(node, name)})

    def _setattr(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> None:
        if len(arguments) == 3:
            for owner in arguments[0]:
                for attribute in arguments[1]:
                    if isinstance(attribute, Constant) and isinstance(attribute.value, str):
                        self._add(self._attribute_key(owner, attribute.value), arguments[2])

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
        for keyword, values in keywords:
            self._put(node, keyword or "*", values)
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
            if attributes:
                for attribute in attributes:
                    found |= self._member(owner, attribute)
            elif isinstance(owner, External):
                found.add(External(f"{owner.name}.?"))
            elif isinstance(owner, ModuleValue):
                found |= self._made_in(owner)
        return frozenset(found)

    def _vars(self, node: ast.Call, arguments: list[Values], keywords: Keywords) -> Values | None:
        """`vars(models)`, whose items are what the module holds."""
        return only(frozenset(v for given in arguments for v in given), ModuleValue) or None

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
            elif methods.returns_itself(function.attr, self._kind_of(owner)):
                found.add(owner)
        return frozenset(found)

    def _kind_of(self, value: Value) -> str | None:
        if isinstance(value, Instance) and self.is_module_class(value.cls):
            return "module"
        return table.kind_made_by(value.name) if isinstance(value, Made) else None


# The values that they return; None where they are called like any other function.
_BUILTINS: dict[str, Callable[[Calls, ast.Call, list[Values], Keywords], Values | None]] = {
    "super": Calls._super,
    "getattr": Calls._getattr,
    "vars": Calls._vars,
    "setattr": Calls._setattr,
    "next": Calls._next,
    "map": Calls._mapped,
    "dict": Calls._dict_made,
}
