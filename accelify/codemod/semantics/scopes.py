"""Which scope does each name belong to, and where is it read and written?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property

from accelify.codemod.files.nodes import walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, and the names bound in it."""

    kind: str
    node: ast.AST
    parent: Scope | None
    module: str
    name: str
    reads: dict[str, list[ast.Name]] = field(default_factory=dict)
    writes: dict[str, list[ast.AST]] = field(default_factory=dict)
    declared_global: set[str] = field(default_factory=set)
    written_below: dict[str, list[Scope]] = field(default_factory=dict)  # of a module: by whom, with `global`
    declared_nonlocal: set[str] = field(default_factory=set)
    children: list[Scope] = field(default_factory=list)
    generates: bool = False
    is_called_on_class: bool = False  # of a method: as `Trainer.fit(data)` alone, with no instance
    star_imports: list[str] = field(default_factory=list)
    starred: dict[str, Scope] = field(default_factory=dict)  # the modules of the project that names come from by `*`
    root: Scope = field(init=False)  # the module's scope
    frame: Scope = field(init=False)  # the function, class or module that holds this scope's statements

    def __post_init__(self) -> None:
        self.root = self if self.parent is None else self.parent.root
        is_expression = self.kind in ("lambda", "comprehension")
        self.frame = self.parent.frame if self.parent is not None and is_expression else self

    def __repr__(self) -> str:
        return f"<{self.kind} {self.qualified_name}>"

    @property
    def qualified_name(self) -> str:
        """`Trainer.fit` for a method; the module's name for a module."""
        if self.parent is None or self.parent.kind == "module":
            return self.name
        return f"{self.parent.qualified_name}.{self.name}"

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of a module, class or function."""
        if isinstance(self.node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.node.body
        return []

    @property
    def is_function(self) -> bool:
        return self.kind == "function"

    @cached_property
    def is_method(self) -> bool:
        return self.kind == "function" and self.parent is not None and self.parent.kind == "class"

    @property
    def parameters(self) -> list[ast.arg]:
        """Positional and keyword parameters, in order, without `*args` and `**kwargs`."""
        if not isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return []
        arguments = self.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]

    @property
    def takes_by_name(self) -> bool:
        """Whether all that a function is given can be given by name."""
        arguments = getattr(self.node, "args", None)
        return isinstance(arguments, ast.arguments) and arguments.vararg is None and not arguments.posonlyargs

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """The values that parameters have when they are not given."""
        if not isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return {}
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        found = zip(reversed(positional), reversed(arguments.defaults), strict=False)
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {p.arg: value for p, value in [*found, *named] if value is not None}

    def accepts(self, call: ast.Call, bound: int, options: Set[str] | None = None) -> bool:
        """Whether a function can be called so, with its first `bound` parameters given; a decorator may change that.

        options: the names that `**options` may give, where they are known.
        """
        node = self.node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.decorator_list:
            return True
        arguments, named = node.args, {k.arg for k in call.keywords}
        positional = [p.arg for p in [*arguments.posonlyargs, *arguments.args]][bound:]
        known = {*positional, *(p.arg for p in arguments.kwonlyargs)}
        has_more = any(isinstance(a, ast.Starred) for a in call.args)
        is_open = has_more or (None in named and options is None)
        given = known if is_open else {*positional[: len(call.args)], *named, *(options or ())}
        has_room = has_more or arguments.vararg is not None or len(call.args) <= len(positional)
        has_names = arguments.kwarg is not None or named <= known | {None}
        return has_room and has_names and known <= given | set(self.defaults)

    def has_decorator(self, name: str) -> bool:
        """Whether a function carries `@name`."""
        decorators = getattr(self.node, "decorator_list", [])
        return any(isinstance(d, ast.Name) and d.id == name for d in decorators)

    @property
    def is_static(self) -> bool:
        """Whether a function of a class gets no instance: a `@staticmethod`, or called on the class alone."""
        return self.is_called_on_class or self.has_decorator("staticmethod")

    @cached_property
    def is_property(self) -> bool:
        """Whether a method is read like an attribute: `@property`, `@functools.cached_property`."""
        decorators = getattr(self.node, "decorator_list", [])
        return any(getattr(d, "attr", getattr(d, "id", "")) in ("property", "cached_property") for d in decorators)

    def method(self, name: str) -> Scope | None:
        """The function that a class defines under a name: the last one, but for what sets or deletes a property."""
        named = (c for c in reversed(self.children) if c.is_function and c.name == name)
        return next((c for c in named if not c.is_setter), None)

    @property
    def is_setter(self) -> bool:
        """Whether a method is run when a property is set or deleted: `@name.setter`."""
        decorators = getattr(self.node, "decorator_list", [])
        return any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter") for d in decorators)

    def binds(self, name: str) -> bool:
        return name in self.writes and name not in self.declared_global and name not in self.declared_nonlocal

    def owner(self, name: str) -> Scope | None:
        """The scope whose variable `name` is, seen from here; None for a builtin or an unknown name."""
        if name in self.declared_global:
            return self.root
        if self.binds(name):
            return self
        scope = self.parent
        while scope is not None:
            if scope.kind != "class" and scope.binds(name):
                return scope
            scope = scope.parent
        return None

    def writes_of(self, name: str) -> list[ast.AST]:
        """Where a name that is seen from here gets its value in this file; nowhere if a `*` brings it."""
        owner = self.owner(name)
        return owner.writes.get(name, []) if owner is not None else []

    def walk(self) -> Iterator[Scope]:
        """This scope and all inside it."""
        yield self
        for child in self.children:
            yield from child.walk()


class _Builder(ast.NodeVisitor):
    """Build the scopes of one module, and record the scope in which every node is evaluated."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.scope = Scope("module", tree, None, module, module)
        self.scope_of: dict[ast.AST, Scope] = {tree: self.scope}
        self.made_by: dict[ast.AST, Scope] = {tree: self.scope}
        for statement in tree.body:
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        self.scope_of[node] = self.scope
        super().visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scope.reads.setdefault(node.id, []).append(node)
        else:
            self.write(node.id, node)

    def write(self, name: str, node: ast.AST) -> None:
        target = self.scope
        while isinstance(node, ast.Name) and self.inside_walrus and target.kind == "comprehension":
            assert target.parent is not None
            target = target.parent
        target.writes.setdefault(name, []).append(node)

    inside_walrus = False

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.inside_walrus = True
        self.visit(node.target)
        self.inside_walrus = False

    def visit_Global(self, node: ast.Global) -> None:
        root = self.scope.root
        if self.scope is root:
            return  # says nothing that is not so without it
        for name in node.names:
            root.writes.setdefault(name, []).append(node)
            if name not in self.scope.declared_global:
                root.written_below.setdefault(name, []).append(self.scope)
        self.scope.declared_global.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.declared_nonlocal.update(node.names)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.scope_of[alias] = self.scope
            self.write(alias.asname or alias.name.split(".")[0], alias)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.scope_of[alias] = self.scope
            if alias.name != "*":
                self.write(alias.asname or alias.name, alias)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.write(node.name, node)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.write(node.name, node)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.write(node.name, node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.write(node.rest, node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node, node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node, node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]:
            self.visit(default)
        inner = self._enter("lambda", node, "<lambda>")
        self._arguments(node.args)
        self.visit(node.body)
        self._leave(inner)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.write(node.name, node)
        for expression in [*node.decorator_list, *node.bases, *[k.value for k in node.keywords]]:
            self.visit(expression)
        inner = self._enter("class", node, node.name)
        for statement in node.body:
            self.visit(statement)
        self._leave(inner)

    def _function(self, node: FunctionNode, name: str) -> None:
        self.write(name, node)
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        annotations = [a.annotation for a in every if a is not None and a.annotation is not None]
        defaults = [*arguments.defaults, *[d for d in arguments.kw_defaults if d is not None]]
        for expression in [*node.decorator_list, *defaults, *annotations, *([node.returns] if node.returns else [])]:
            self.visit(expression)
        inner = self._enter("function", node, name)
        self._arguments(arguments)
        for statement in node.body:
            self.visit(statement)
        self._leave(inner)

    def _arguments(self, arguments: ast.arguments) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in every:
            if argument is not None:
                self.scope_of[argument] = self.scope
                self.write(argument.arg, argument)

    def _enter(self, kind: str, node: ast.AST, name: str) -> Scope:
        outer = self.scope
        self.scope = Scope(kind, node, outer, outer.module, name)
        outer.children.append(self.scope)
        self.made_by[node] = self.scope
        return outer

    def _leave(self, outer: Scope) -> None:
        self.scope = outer

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)
        inner = self._enter("comprehension", node, "<comprehension>")
        for index, generator in enumerate(node.generators):
            self.scope_of[generator] = self.scope
            if index:
                self.visit(generator.iter)
            self.visit(generator.target)
            for condition in generator.ifs:
                self.visit(condition)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(part)
        self._leave(inner)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


@dataclass(frozen=True)
class Bindings:
    """The scopes of one module.

    scope_of: the scope in which a node is evaluated; made_by: the scope that a function, class or lambda node opens.
    """

    root: Scope
    scope_of: dict[ast.AST, Scope]
    made_by: dict[ast.AST, Scope]


def bindings(module: str, tree: ast.Module) -> Bindings:
    """Find the scopes and names of a module."""
    built = _Builder(module, tree)
    return Bindings(built.scope, built.scope_of, built.made_by)


def code(node: ast.AST) -> str:
    """An expression as `ast.unparse` spells it; names and attributes, which are asked for often, without it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return f"{code(node.value)}.{node.attr}"
    return ast.unparse(node)


def method_of_call(node: ast.AST | None) -> str:
    """`step` for `scaler.step(optimizer)`; empty for what calls no method."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def names_in(*nodes: ast.AST) -> frozenset[str]:
    """The names in expressions or statements, read or written."""
    return frozenset(n.id for node in nodes for n in walk(node) if isinstance(n, ast.Name))


def names_read_in(*nodes: ast.AST) -> frozenset[str]:
    """The names whose values expressions or statements use."""
    return frozenset(
        n.id for node in nodes for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def names_written_in(*nodes: ast.AST) -> frozenset[str]:
    """The names that statements give a value to."""
    return frozenset(
        n.id for node in nodes for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def gone_over(call: ast.Call) -> list[ast.expr]:
    """The iterables behind `tqdm(loader)` or `tqdm(iterable=loader)`."""
    return call.args[:1] or [k.value for k in call.keywords if k.arg == "iterable"]


def begun_by_method(call: ast.Call) -> ast.expr | None:
    """`x` of `x.__iter__()`."""
    is_begun = method_of_call(call) == "__iter__" and not call.args
    return call.func.value if isinstance(call.func, ast.Attribute) and is_begun else None


def returned(callees: Iterable[Scope]) -> list[ast.expr | None]:
    """The expressions that some functions return; not those of functions inside them."""
    found: list[ast.expr | None] = []
    for callee in callees:
        if isinstance(callee.node, ast.Lambda):
            found.append(callee.node.body)
        found.extend(n.value for n in own_statements(callee.body) if isinstance(n, ast.Return))
    return found


def own_statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Some statements and those inside them, apart from those of functions and classes."""
    for node in nodes:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            yield node
            yield from own_statements(ast.iter_child_nodes(node))


def parts(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that an expression is directly made of: `f`, `x` and `y` of `f(x, k=y)`."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, (ast.expr, ast.keyword)):
            yield part.value if isinstance(part, ast.keyword) else part


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment of a value to one target: `x = 1`, `x: int = 1`, `(x := 1)`."""

    node: ast.Assign | ast.AnnAssign | ast.NamedExpr
    target: ast.expr
    value: ast.expr


def assignment(node: ast.AST) -> Assignment | None:
    """A node as the assignment that it is; None for one to several targets, `x = y = 1`, or of no value, `x: int`."""
    if isinstance(node, ast.Assign):
        return Assignment(node, node.targets[0], node.value) if len(node.targets) == 1 else None
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return Assignment(node, node.target, node.value)
    return None


def assigned_targets(statement: ast.stmt) -> list[ast.expr]:
    """The targets that a statement gives one value to: `x` and `y` of `x = y = 1`."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) and statement.value is not None else []


def main_guard(root: Scope) -> ast.If | None:
    """`if __name__ == "__main__":` of a module."""
    for statement in root.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in (
            "__name__ == '__main__'",
            "'__main__' == __name__",
        ):
            return statement
    return None
