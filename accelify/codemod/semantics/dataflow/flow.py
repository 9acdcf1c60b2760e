"""What may each expression hold? Values flow through calls, returns, parameters, attributes, containers and imports.

Flow-insensitive and without calling contexts: every assignment adds to what a variable may hold, until nothing grows.
A unit (a module or a function) is evaluated again only when something that it read has grown.

What a module does under its `__main__` guard is not run by those that import it. It comes last, so that its calls are
known, and adds nothing to what others hold by then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence, Set

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect, Row
from accelify.codemod.semantics.dataflow.attribute_dicts import is_attribute_dict
from accelify.codemod.semantics.dataflow.expressions import Expressions
from accelify.codemod.semantics.scopes import Scope, main_guard, returned
from accelify.codemod.semantics.values import (
    NOTHING,
    ClassValue,
    Collection,
    Constant,
    External,
    FunctionValue,
    Instance,
    Made,
    ModuleValue,
    Parameters,
    Value,
    Values,
)


class Flow(Expressions):
    """The values of all expressions of a program."""

    def __init__(
        self, files: Sequence[Parsed], project: Project, named: Sequence[Parsed], plain: Set[ast.AST] = frozenset()
    ) -> None:
        """`plain`: the functions of classes that get no instance, though no decorator says so."""
        super().__init__(files, project, named)
        for node in plain:
            self.made_by[node].is_called_on_class = True
        roots = (built.root for path, built in self.bindings.items() if path not in self.named)
        self._waiting = {guard: root for root in roots if (guard := main_guard(root)) is not None}
        self._run()

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
        self._try_out()
        self.lost.update(scope for node, scope in self.handed_on if not self._is_followed(node))
        self._list_calls()

    def _try_out(self) -> None:
        """Evaluate what imported modules do only when they are run themselves, for the calls in it."""
        self._closed = frozenset(key for key, cell in self._cells.items() if cell)
        waiting, self._waiting = self._waiting, {}
        for root in waiting.values():
            self._enqueue(root)
        self._visits.clear()
        self._drain()

    def _list_calls(self) -> None:
        """Who calls whom, in the order of the text: what is found first, and reported, is the same in every run."""
        self.callees, self.callers = self._listed(self._runs)
        self.run_inside, self.run_inside_by = self._listed(self._runs_inside - self._runs)

    def _listed(
        self, runs: Set[tuple[ast.Call, Scope]]
    ) -> tuple[dict[ast.Call, Set[Scope]], dict[Scope, Set[ast.Call]]]:
        callees: dict[ast.Call, dict[Scope, None]] = {}
        callers: dict[Scope, dict[ast.Call, None]] = {}
        for call, scope in sorted(runs, key=self._place_of_run):
            callees.setdefault(call, {})[scope] = None
            callers.setdefault(scope, {})[call] = None
        return (
            {call: found.keys() for call, found in callees.items()},
            {scope: found.keys() for scope, found in callers.items()},
        )

    def plain_methods(self) -> frozenset[ast.AST]:
        """What a class only groups: undecorated functions that are called on the class, with no instance of it.

        Within them, the first parameter was taken for an instance: what is called on it, or passed on, says nothing.
        """
        methods = [s for b in self.bindings.values() for s in b.root.walk() if s.is_method and s.parameters]
        found = {m for m in methods if any(self._is_on_class(c, m) for c in self.callers.get(m, ()))}
        while taking := {m for m in found if any(self._gives_instance(c, m, found) for c in self.callers[m])}:
            found -= taking
        return frozenset(m.node for m in found if not m.is_static)

    def _is_on_class(self, call: ast.Call, method: Scope) -> bool:
        """Whether a call names an undecorated method by its class: `Trainer.fit(data)`."""
        called = [v for v in self.values.get(call.func, NOTHING) if isinstance(v, FunctionValue) and v.scope is method]
        is_decorated = bool(getattr(method.node, "decorator_list", ()))
        return bool(called) and not is_decorated and all(v.owner is None for v in called)

    def _gives_instance(self, call: ast.Call, method: Scope, plain: Set[Scope]) -> bool:
        """Whether a call is on an instance, or passes one first; the first parameter of a plain method is none."""
        is_on_class, frame = self._is_on_class(call, method), self.scope_of[call].frame
        given = next(iter(call.args), None) if is_on_class else getattr(call.func, "value", None)
        if frame in plain and isinstance(given, ast.Name) and given.id == frame.parameters[0].arg:
            return False
        return not is_on_class or (given is not None and self._is_instance(given, method))

    def _is_instance(self, node: ast.expr, method: Scope) -> bool:
        """Whether an expression may be an instance of a method's class, or of one below it."""
        cls = method.parent
        assert cls is not None
        family = {cls, *self.descendants(cls)}
        return any(isinstance(v, Instance) and v.cls in family for v in self.values.get(node, NOTHING))

    def _place_of_run(self, run: tuple[ast.Call, Scope]) -> tuple[str, int, int, int, str, int, int]:
        call, scope = run
        at, end = (call.lineno, call.col_offset), call.end_col_offset or 0
        return (self.scope_of[call].module, *at, end, scope.module, *_start(scope.node))

    def _parents(self, node: ast.expr) -> dict[ast.AST, ast.AST]:
        return self.parsed_of[self.path_of_root[self.scope_of[node].root]].parents

    def _is_followed(self, node: ast.expr) -> bool:
        """Whether a function goes to a name, or to a function, whose calls are known; or nowhere: `if callback:`."""
        return self._goes_on(node, self._parents(node))

    def _goes_on(self, given: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
        parent, first = parents.get(given), given
        while isinstance(parent, (ast.IfExp, ast.BoolOp, ast.keyword)) and given is not getattr(parent, "test", None):
            given, parent = parent, parents.get(parent)
        if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert, ast.UnaryOp, ast.Compare, ast.Expr)):
            return True
        if isinstance(parent, (ast.Tuple, ast.List, ast.Dict)):
            return self._is_taken_out(parent, parents)
        if isinstance(parent, ast.Assign):
            return all(isinstance(t, (ast.Name, ast.Attribute)) for t in parent.targets)
        if isinstance(parent, ast.Call) and parent.func is not first:
            takers = self.values.get(parent.func, NOTHING)
            if takers == {External("functools.partial")} and parent.args[0] is first:
                return self._may_keep(parent.args[0]) and self._is_run(parent, parents)
            return bool(takers) and all(isinstance(t, (FunctionValue, ClassValue)) for t in takers)
        return False

    def _may_keep(self, function: ast.expr) -> bool:
        """Whether a `functools.partial` can be given more by name: what it keeps stands before all `*args`."""
        held = self.values.get(function, NOTHING)
        return all(v.scope.takes_by_name for v in held if isinstance(v, FunctionValue))

    def _is_taken_out(self, display: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
        """Whether functions in a display are only taken out of it again: `MODES[name](x)`; or it is `__all__`."""
        holder = parents.get(display)
        if isinstance(holder, ast.Subscript):
            return self._is_run(holder, parents)
        targets = holder.targets if isinstance(holder, ast.Assign) else []
        held = Collection(display)
        reads = [n for n, values in self.values.items() if held in values and isinstance(n, (ast.Name, ast.Attribute))]
        are_looked_up = (self._looks_up(n) for n in reads if isinstance(n.ctx, ast.Load))
        return bool(targets) and all(isinstance(t, (ast.Name, ast.Attribute)) for t in targets) and all(are_looked_up)

    def _looks_up(self, node: ast.Name | ast.Attribute) -> bool:
        """Whether a container is only asked for what it holds, or given another name."""
        parents = self._parents(node)
        parent = parents.get(node)
        if isinstance(parent, ast.Attribute):
            part, call = methods.passes(parent.attr), parents.get(parent)
            return part is not None and call is not None and (part != "element" or self._is_run(call, parents))
        taker = parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(taker, ast.Call):
            rows = list(self._rows(taker.func))
            return bool(rows) and all(r is not None and Effect.CALLS not in r.effects for r in rows)
        if isinstance(parent, ast.Subscript):
            return parent.value is node and self._is_run(parent, parents)
        return isinstance(parent, (ast.Compare, ast.Assign, ast.For, ast.comprehension))

    def _rows(self, function: ast.expr) -> Iterator[Row | None]:
        """What is known of a library's function, or of a method of a library's object."""
        yield from (table.function(v.name) for v in self.values.get(function, NOTHING) if isinstance(v, External))
        if isinstance(function, ast.Attribute):
            owners = (v for v in self.values.get(function.value, NOTHING) if isinstance(v, Made))
            yield from (table.member(self._kind_of(v) or "", function.attr) for v in owners)

    def _is_run(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
        """Whether what an expression gives is called, or goes where calls of it are known."""
        parent = parents.get(node)
        return (isinstance(parent, ast.Call) and parent.func is node) or self._goes_on(node, parents)

    def _unit_body(self, unit: Scope) -> None:
        if unit.is_method:
            self._bind_self(unit)
        self._defaults(unit)
        if unit.kind == "lambda":
            assert isinstance(unit.node, ast.Lambda)
            self._add(("return", unit), self.eval(unit.node.body))
            return
        for statement in unit.body:
            if statement in self._waiting:
                self._block(statement.orelse)
            else:
                self._statement(statement)

    def _defaults(self, unit: Scope) -> None:
        for name, default in unit.defaults.items():
            self._add(("var", unit, name), self._constants(default))

    def _constants(self, default: ast.expr) -> Values:
        return frozenset(v for v in self.eval(default) if v != Constant(None))

    def _bind_self(self, unit: Scope) -> None:
        cls = unit.parent
        assert cls is not None
        parameters = unit.parameters
        if not parameters or unit.is_static:
            return
        key = ("var", unit, parameters[0].arg)
        family = [cls, *self.descendants(cls)]
        if unit.has_decorator("classmethod"):
            self._add(key, frozenset(ClassValue(c) for c in family))
        else:
            self._add(key, frozenset(Instance(c) for c in family))

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

    # Definitions and imports.

    def _define_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        scope = self.made_by[node]
        value = FunctionValue(scope)
        for decorator in node.decorator_list:
            self._give_to_decorator(decorator, value)
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            held = self.values.get(function, NOTHING)
            is_kept = bool(held) and all(self._keeps_signature(v, isinstance(decorator, ast.Call)) for v in held)
            if not is_kept and (held or self._settled):
                self.escaped.add(scope)
                self.lost.add(scope)
        self._set_name(self.scope_of[node], node.name, frozenset({value}))

    @staticmethod
    def _keeps_signature(decorator: Value, is_called: bool) -> bool:
        """Whether a decorator, or what a call of it gives, leaves a function to be called as it is written."""
        if isinstance(decorator, External):
            return names.keeps_signature(decorator.name)
        if not isinstance(decorator, FunctionValue) or not is_called:
            return isinstance(decorator, FunctionValue) and _passes_all_on(decorator.scope)
        made = _functions_returned(decorator.scope)
        return bool(made) and all(inner is not None and _passes_all_on(inner) for inner in made)

    def _define_class(self, node: ast.ClassDef) -> None:
        scope = self.made_by[node]
        for base in node.bases:
            for value in self.eval(base):
                if isinstance(value, ClassValue) and value.scope is not scope:
                    self._inherit(scope, value.scope)
        for keyword in node.keywords:
            self.eval(keyword.value)
        for decorator in node.decorator_list:
            self._give_to_decorator(decorator, ClassValue(scope))
        is_dict = [self.eval(base) for base in node.bases] == [frozenset({External("dict")})]
        is_plain = is_dict and not node.keywords and not node.decorator_list and is_attribute_dict(node)
        value = External(names.ATTRIBUTE_DICT) if is_plain else ClassValue(scope)
        self._set_name(self.scope_of[node], node.name, frozenset({value}))
        self._block(node.body)

    def _give_to_decorator(self, decorator: ast.expr, decorated: ClassValue | FunctionValue) -> None:
        """Hand a class, or a function that stays what it is, to its decorator, which may keep it: `@add()`."""
        for held in self.eval(decorator):
            is_class = isinstance(decorated, ClassValue)
            if isinstance(held, FunctionValue) and (is_class or _gives_back(held)):
                first = held.scope.parameters[int(held.owner is not None) :][:1]
                self._wake(held.scope)
                for parameter in first:
                    self._add(("var", held.scope, parameter.arg), frozenset({decorated}))

    def keeps_class(self, decorator: ast.expr) -> bool:
        """Whether a decorator returns the class that it is given."""
        held = self.values.get(decorator, NOTHING)
        return bool(held) and all(isinstance(v, FunctionValue) and _gives_back(v) for v in held)

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

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        scope = self.scope_of[node]
        importer = self.path_of_root[scope.root]
        for alias in node.names:
            if isinstance(node, ast.Import):
                first = alias.name.split(".")[0]
                name = alias.name if alias.asname else first
                inner = self.module_named(importer, alias.name, 0)
                if inner is not None:
                    self._submodules[alias.name] = inner
                self._set_name(scope, alias.asname or first, self.module_or_external(importer, name))
            elif alias.name == "*":
                self._import_star(scope, importer, node)
            elif not _is_defined_again(scope, alias.asname or alias.name, node):
                self._set_name(scope, alias.asname or alias.name, self._imported_name(importer, node, alias.name))

    def _imported_name(self, importer: str, node: ast.ImportFrom, name: str) -> Values:
        root = self.module_named(importer, node.module or "", node.level)
        if root is not None:
            found = self._get(("var", root, name))
            if found:
                return found
        full = f"{node.module}.{name}" if node.module else name
        inner = self.module_named(importer, full, node.level)
        if inner is not None:
            return frozenset({ModuleValue(inner)})
        return NOTHING if root is not None or node.level else frozenset({External(full)})

    def _import_star(self, scope: Scope, importer: str, node: ast.ImportFrom) -> None:
        root = self.module_named(importer, node.module or "", node.level)
        if root is None:
            scope.root.star_imports.append(node.module or "")
            return
        for name in list(root.writes):
            if not name.startswith("_") and not _is_defined_again(scope, name, node):
                scope.writes.setdefault(name, [])
                scope.starred[name] = root
                self._set_name(scope, name, self._get(("var", root, name)))


def _functions_returned(function: Scope) -> list[Scope | None]:
    """The functions, defined in another, that it returns; None for anything else."""
    named = {child.name: child for child in function.children if child.kind == "function"}
    return [named.get(r.id) if isinstance(r, ast.Name) else None for r in returned([function])]


def _gives_back(decorator: FunctionValue) -> bool:
    """Whether a decorator returns what it is given."""
    first = decorator.scope.parameters[int(decorator.owner is not None) :][:1]
    given = returned([decorator.scope])
    return bool(first and given) and all(isinstance(r, ast.Name) and r.id == first[0].arg for r in given)


def _passes_all_on(decorator: Scope) -> bool:
    """Whether a decorator gives functions that hand all their arguments to the one that it is given."""
    given = decorator.parameters[0].arg if len(decorator.parameters) == 1 else ""
    wrappers = _functions_returned(decorator)
    return bool(wrappers) and all(w is not None and _hands_all_to(w, given) for w in wrappers)


def _hands_all_to(wrapper: Scope, function: str) -> bool:
    """Whether `def wrapper(*args, **kwargs)` uses its arguments for `function(*args, **kwargs)` alone."""
    node = wrapper.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    vararg, kwarg = node.args.vararg, node.args.kwarg
    if vararg is None or kwarg is None or wrapper.parameters:
        return False
    whole = f"{function}(*{vararg.arg}, **{kwarg.arg})"
    if any(whole in ast.unparse(n) for n in ast.walk(node) if isinstance(n, (ast.If, ast.IfExp, ast.While))):
        return False  # it may leave the function uncalled, as one does that runs in the main process only
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and ast.unparse(n) == whole]
    reads = [*wrapper.reads.get(vararg.arg, ()), *wrapper.reads.get(kwarg.arg, ())]
    return bool(calls) and len(reads) == 2 * len(calls)


def _is_defined_again(scope: Scope, name: str, imported: ast.stmt) -> bool:
    """Whether a function or a class further down in the same block takes over a name that is imported."""
    block = scope.body
    later = block[block.index(imported) + 1 :] if imported in block else []
    return any(isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and s.name == name for s in later)


def _start(node: ast.AST) -> tuple[int, int]:
    """Where a node starts; a module, at the top."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
