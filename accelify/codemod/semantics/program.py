"""A program's files and values, and how to find one's way about in them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import TypeVar, cast

from accelify.codemod.files.nodes import walk
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.control_flow import ControlFlow, Position, position
from accelify.codemod.semantics.dataflow.flow import Flow
from accelify.codemod.semantics.definitions import Definitions
from accelify.codemod.semantics.scopes import Scope, begun_by_method, main_guard
from accelify.codemod.semantics.values import (
    NOTHING,
    Argument,
    Element,
    External,
    Instance,
    Made,
    Member,
    Value,
    Values,
)

T = TypeVar("T")
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FRAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


class Program:
    """The files that belong together, with the flow of values through them."""

    def __init__(self, files: Sequence[Parsed], project: Project, named: Sequence[Parsed]) -> None:
        self.flow = Flow(files, project, named)
        if plain := self.flow.plain_methods():
            self.flow = Flow(files, project, named, plain)
        self.files = list(files)
        self.named = list(named)
        self._scope_of, self._values = self.flow.scope_of, self.flow.values
        self._parents = files[0].parents if len(files) == 1 else _united([f.parents for f in files])
        self._once: dict[Callable[[Program], object], object] = {}

    def once(self, make: Callable[[Program], T]) -> T:
        """A value that is costly to make from a program, made when it is first asked for: `program.once(Effects)`."""
        if make not in self._once:
            self._once[make] = make(self)
        return cast(T, self._once[make])

    def parsed(self, node: ast.AST) -> Parsed:
        """The file of a node."""
        return self.flow.parsed_of[self.path(node)]

    def path(self, node: ast.AST) -> str:
        """The path of a node's file."""
        return self.flow.path_of_root[self.scope(node).root]

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        found = self._scope_of.get(node)
        while found is None:
            node = self._parents[node]
            found = self._scope_of.get(node)
        return found

    def frame(self, node: ast.AST) -> Scope:
        """The function, class or module that a node's statement belongs to."""
        return self.scope(node).frame

    def lambdas(self, node: ast.AST) -> list[Scope]:
        """The lambdas of a node's frame that hold it, from the inside out: it runs where they are called."""
        scope, found = self.scope(node), []
        while scope is not scope.frame and scope.parent is not None:
            found += [scope] if scope.kind == "lambda" else []
            scope = scope.parent
        return found

    def values(self, node: ast.AST | None) -> Values:
        """The values that an expression may have."""
        return NOTHING if node is None else self._values.get(node, NOTHING)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds a node."""
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes round a node, from the inside out."""
        parents = self._parents
        current = parents.get(node)
        while current is not None:
            yield current
            current = parents.get(current)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that holds a node."""
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node is (in) another."""
        current: ast.AST | None = node
        while current is not None and current is not outer:
            current = self._parents.get(current)
        return current is not None

    def in_rounds(self, node: ast.AST, loop: ast.AST) -> bool:
        """Whether a node is in a loop, but not in an `else` that always runs once its rounds are over."""
        return self.inside(node, loop) and not any(self.inside(node, s) for s in self.after_rounds(loop))

    def after_rounds(self, loop: ast.AST) -> list[ast.stmt]:
        """The `else` of a loop that nothing breaks out of."""
        orelse = loop.orelse if isinstance(loop, LOOPS) else []
        breaks = (n for n in walk(loop) if isinstance(n, ast.Break)) if orelse else ()
        return [] if any(self.loops_round(n)[0] is loop for n in breaks) else orelse

    def binding(self, target: ast.AST) -> tuple[tuple[int, ...], ast.AST | None]:
        """Where in all that is bound a target stands, and what binds it: `(1, 0)` for `x` of `for i, (x, y) in ...`."""
        path: list[int] = []
        parent = self.parent(target)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
            if not isinstance(parent, ast.Starred):
                path.insert(0, parent.elts.index(target))  # type: ignore[arg-type]  # an element is an expression
            target, parent = parent, self.parent(parent)
        return tuple(path), parent

    def assigned(self, target: ast.AST) -> tuple[ast.expr | None, tuple[int, ...]]:
        """The expression that a target gets its value from, and which part of that."""
        path, parent = self.binding(target)
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
            return parent.value, path
        return None, ()

    def loops_round(self, node: ast.AST) -> list[ast.For | ast.AsyncFor | ast.While]:
        """The loops of its own function that hold a node, from the inside out."""
        found: list[ast.For | ast.AsyncFor | ast.While] = []
        child = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, _FRAMES):
                break
            if isinstance(ancestor, LOOPS) and child in ancestor.body:
                found.append(ancestor)
            child = ancestor
        return found

    def branches_round(self, node: ast.AST) -> Iterator[tuple[ast.If | ast.IfExp, bool]]:
        """The conditions of its function that a node stands under, from the inside out, and if each has to hold."""
        child = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, _FRAMES):
                break
            if isinstance(ancestor, (ast.If, ast.IfExp)) and child is not ancestor.test:
                yield ancestor, child is ancestor.body or (isinstance(ancestor, ast.If) and child in ancestor.body)
            child = ancestor

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that a statement stands in."""
        parent = self.parent(statement)
        assert parent is not None
        for name in ("body", "orelse", "finalbody", "handlers"):
            listed = getattr(parent, name, None)
            if isinstance(listed, list) and statement in listed:
                return listed
        if isinstance(parent, ast.ExceptHandler):
            return parent.body
        raise LookupError(statement)

    def reads_of(self, scope: Scope, name: str) -> list[ast.Name]:
        """Where a scope's variable is read, in the scopes inside it too."""
        found = list(scope.reads.get(name, ()))
        for inner in self._readers.get((scope, name), ()):
            if inner is not scope:
                found.extend(inner.reads[name])
        return found

    @cached_property
    def _readers(self) -> dict[tuple[Scope | None, str], list[Scope]]:
        """The scopes that read each variable, by the scope whose it is."""
        found: dict[tuple[Scope | None, str], list[Scope]] = {}
        for built in self.flow.bindings.values():
            for scope in built.root.walk():
                for name in scope.reads:
                    found.setdefault((scope.owner(name), name), []).append(scope)
        return found

    @cached_property
    def imported_from(self) -> dict[Scope, set[str]]:
        """The names that the program's files import from each of its modules; after a `*`, those that they read."""
        found: dict[Scope, set[str]] = {}
        starred: dict[Scope, list[Scope]] = {}
        for built in self.flow.bindings.values():
            for node in built.scope_of:
                if isinstance(node, ast.ImportFrom):
                    root = self.flow.module_named(built.root.module, node.module or "", node.level)
                    if root is not None and node.names[0].name == "*":
                        starred.setdefault(root, []).append(built.root)
                    elif root is not None:
                        found.setdefault(root, set()).update(a.name for a in node.names)
        for root, importers in starred.items():
            read = {n for importer in importers for s in importer.walk() for n in s.reads if not s.writes_of(n)}
            is_handed_on = any(importer in starred for importer in importers)
            found.setdefault(root, set()).update(root.writes if is_handed_on else read)
        return found

    # The order in which code runs.

    def control_flow(self, node: ast.AST) -> ControlFlow:
        """The control flow of a node's file."""
        path = self.path(node)
        if path not in self._control_flows:
            parsed = self.flow.parsed_of[path]
            self._control_flows[path] = ControlFlow(parsed.tree, parsed.parents, ends=self.exits)
        return self._control_flows[path]

    @cached_property
    def _control_flows(self) -> dict[str, ControlFlow]:
        return {}

    def exits(self, call: ast.Call) -> bool:
        """Whether a call ends the process."""
        return any(row is not None and row.has(Effect.EXITS) for row in map(table.function, self.called(call)))

    def leaves(self, block: Sequence[ast.stmt]) -> bool:
        """Whether nothing is run behind a block: it returns, raises, ends the round of a loop, or the process."""
        last = block[-1] if block else None
        call = last.value if isinstance(last, ast.Expr) else None
        return isinstance(last, LEAVING) or (isinstance(call, ast.Call) and self.exits(call))

    def before(self, a: ast.AST, b: ast.AST) -> bool:
        """Whether `b` can run after `a` without another round of a loop that holds both; in one file."""
        return self.path(a) == self.path(b) and self.control_flow(a).before(a, b)

    def reaches(self, a: ast.AST, b: ast.AST, *, without: ast.AST | None = None) -> bool:
        """Whether `b` can run after `a`, in this round of a loop or another, on a path without a third; in one file."""
        closed = () if without is None else (without,)
        return self.path(a) == self.path(b) and self.control_flow(a).reaches(a, b, without=closed)

    def may_follow(self, b: ast.AST, a: ast.AST) -> bool:
        """Whether `b` can run after `a`, in whatever functions; one that nothing seen calls may run at any time."""
        frame, seen = self.frame(a), set[Scope]()
        queue = [b]
        while queue:
            node = queue.pop()
            own = self.frame(node)
            if own is frame and self.reaches(a, node):
                return True
            is_known = frame in self._run_by_libraries and frame in self._known_before(node)
            calls = self.calls_in(own) if is_known else self._calls_running(own, frame)
            if any(self.reaches(c, node) for c in calls):
                return True
            callers = self.flow.callers.get(own, ())
            if own in self._run_by_libraries or (own.kind != "module" and not callers):
                return True
            queue += callers if own not in seen else ()
            seen.add(own)
        return False

    def before_end(self, node: ast.AST, statement: ast.AST) -> bool:
        """Whether a node can have run by the time that a statement is through."""
        return self.inside(node, statement) or self.before(node, statement)

    def last(self, statements: Collection[ast.stmt]) -> ast.stmt:
        """Of some statements of one function, the one that runs after the others."""
        found = next(iter(statements))
        for statement in statements:
            if self.before(found, statement):
                found = statement
        return found

    def is_after(self, node: ast.AST, statement: ast.AST) -> bool:
        """Whether a node can run once a whole statement is done, without another round of a loop that holds both."""
        return self.path(node) == self.path(statement) and self.control_flow(node).is_after(node, statement)

    def position(self, node: ast.AST) -> Position:
        """Where a node stands in the text: for sorting and for messages."""
        return position(node, self.path(node))

    def definitions(self, node: ast.AST) -> Definitions:
        """The definitions and uses of a node's file."""
        path = self.path(node)
        if path not in self._definitions:
            bindings = self.flow.bindings[path]
            self._definitions[path] = Definitions(self.control_flow(node), bindings, runs=self._runs)
        return self._definitions[path]

    @cached_property
    def _definitions(self) -> dict[str, Definitions]:
        return {}

    def reaching(self, read: ast.expr, writes: Collection[ast.AST]) -> list[ast.AST]:
        """Of the places where a name is bound, those that may have given it what is read; all in unreachable code."""
        if not self.control_flow(read).is_reachable(read):
            return list(writes)
        found = {definition.node for definition in self.definitions(read).definitions(read)}
        return [write for write in writes if write in found]

    def _runs(self, call: ast.Call | None) -> frozenset[Scope]:
        """The functions that a call may run: those it names, and any that libraries were given.

        None stands for what runs where no call names it, as the `__exit__` of a `with` does.
        """
        if call is None:
            return self.run_unnamed
        callees = frozenset(self.flow.callees.get(call, ()))
        if callees not in self._run_by_callees:
            self._run_by_callees[callees] = self._run_by_libraries | self._run_by(callees)
        return self._run_by_callees[callees]

    @cached_property
    def _calls_running(self) -> Callable[[Scope, Scope], list[ast.Call]]:
        """The calls of a function that may run another, without what only libraries know."""

        def running(own: Scope, frame: Scope) -> list[ast.Call]:
            return [c for c in self.calls_in(own) if frame in self._run_by(frozenset(self.flow.callees.get(c, ())))]

        return cache(running)

    @cached_property
    def _run_by(self) -> Callable[[frozenset[Scope]], frozenset[Scope]]:
        return cache(lambda scopes: frozenset(self.run_from(scopes)))

    @cached_property
    def _run_by_callees(self) -> dict[frozenset[Scope], frozenset[Scope]]:
        return {}

    @cached_property
    def _given_to_libraries(self) -> dict[Scope, list[ast.Call | None]]:
        """The functions passed on, and the methods of objects passed to libraries: with the calls that pass those."""
        found: dict[Scope, list[ast.Call | None]] = {function: [None] for function in self.flow.escaped}
        for call in self.calls:
            if not self.flow.callees.get(call):
                for given in [*call.args, *(k.value for k in call.keywords)]:
                    for cls in {v.cls for v in self.values(given) if isinstance(v, Instance)}:
                        for method in (m for c in [cls, *self.flow.ancestors(cls)] for m in c.children if m.is_method):
                            found.setdefault(method, []).append(call)
        return {function: calls for function, calls in found.items() if function.name != "__init__" or None in calls}

    @cached_property
    def _run_by_libraries(self) -> frozenset[Scope]:
        """The functions that libraries may run."""
        return self._run_by(frozenset(self._given_to_libraries))

    @cached_property
    def run_unnamed(self) -> frozenset[Scope]:
        """The functions that may run where no call names any: generators, `__exit__`, and those that these run."""
        functions = (s for bound in self.flow.bindings.values() for s in bound.root.walk() if s.is_function)
        unnamed = (f for f in functions if f.generates or (f.name.startswith("__") and f.name != "__init__"))
        return self._run_by_libraries | self._run_by(frozenset(unnamed))

    @cached_property
    def _known_before(self) -> Callable[[ast.AST], frozenset[Scope]]:
        """The functions that libraries may run before a node, by what they have been given until then."""

        def is_given(call: ast.Call | None, node: ast.AST) -> bool:
            return call is None or self.frame(call) in self._run_by_libraries or self.may_follow(node, call)

        def known(node: ast.AST) -> frozenset[Scope]:
            given = self._given_to_libraries.items()
            return self._run_by(frozenset(f for f, calls in given if any(is_given(c, node) for c in calls)))

        return cache(known)

    def externals(self, node: ast.AST | None) -> frozenset[str]:
        """The library names that an expression may stand for."""
        if node not in self._externals:
            self._externals[node] = frozenset(v.name for v in self.values(node) if isinstance(v, External))
        return self._externals[node]

    @cached_property
    def _externals(self) -> dict[ast.AST | None, frozenset[str]]:
        return {}

    def called(self, call: ast.Call) -> frozenset[str]:
        """The library names that a call may go to."""
        return self.externals(call.func)

    def names_only(self, node: ast.expr, name: str) -> bool:
        """Whether an expression is spelled for one library function alone: no argument or item that may be another."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or self.values(node) != {External(name)}:
            return False
        owner = self.scope(root).owner(root.id)
        return owner is None or not any(isinstance(w, ast.arg) for w in owner.writes.get(root.id, ()))

    def ends(self, call: ast.Call, *, failed: bool) -> bool:
        """Whether a call ends the process: as `sys.exit()` does, or, `failed`, as `exit(1)` or `exit("no")` do."""
        given = call.args[0] if call.args else None
        is_success = given is None or (isinstance(given, ast.Constant) and given.value in (None, 0))
        return is_success is not failed and any(map(names.exits, self.called(call)))

    def iterator(self, node: ast.AST | None) -> ast.expr | None:
        """The iterator that `next(batches)`, `batches.__next__()` or `batches.next()` takes an item of."""
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute) and not node.args and methods.takes_the_next(node.func.attr):
            return node.func.value
        return node.args[0] if node.args and "next" in self.called(node) else None

    def begun(self, node: ast.AST | None) -> ast.expr | None:
        """What `iter(batches)`, `batches.__iter__()` or `enumerate(batches)` begins to go over."""
        if not isinstance(node, ast.Call):
            return None
        is_begun = bool(node.args) and not self.called(node).isdisjoint({"iter", "enumerate"})
        return node.args[0] if is_begun else begun_by_method(node)

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call that the flow has reached."""
        return [n for n in self.flow.values if isinstance(n, ast.Call)]

    def calls_of(self, function: Scope) -> list[ast.Call]:
        """The calls of a function that are run."""
        return [c for c in self.flow.callers.get(function, ()) if self.frame(c) in self.reachable]

    def calls_in(self, frame: Scope) -> list[ast.Call]:
        """The calls that a function, or a module's own code, makes."""
        return self._calls_by_frame.get(frame, [])

    @cached_property
    def _calls_by_frame(self) -> dict[Scope, list[ast.Call]]:
        found: dict[Scope, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(self.frame(call), []).append(call)
        return found

    @cached_property
    def attribute_writes(self) -> dict[str, list[ast.Attribute]]:
        """The attributes that are assigned to, by their names."""
        return self._attributes(ast.Store)

    @cached_property
    def item_writes(self) -> dict[object, list[ast.Subscript]]:
        """The items that are assigned to, `config["gpu"]`, by their keys."""
        found: dict[object, list[ast.Subscript]] = {}
        subscripts = (n for parsed in self.files for n in parsed.nodes if isinstance(n, ast.Subscript))
        for node in subscripts:
            if isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant):
                found.setdefault(node.slice.value, []).append(node)
        return found

    def may_be_same(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two expressions may hold the same object, or objects of one class, as far as is known of them."""
        held, also = self.values(one), self.values(other)
        if not held or not also or held & also or any(map(_is_given, held | also)):
            return True
        return not self._classes(held).isdisjoint(self._classes(also))

    def _classes(self, values: Values) -> set[Scope]:
        """The project's classes that values are of, with those that these inherit from."""
        own = {v.cls for v in values if isinstance(v, Instance)}
        return own.union(*map(self.flow.ancestors, own))

    @cached_property
    def attribute_reads(self) -> dict[str, list[ast.Attribute]]:
        """The attributes that are read, by their names."""
        return self._attributes(ast.Load)

    def _attributes(self, context: type[ast.expr_context]) -> dict[str, list[ast.Attribute]]:
        found: dict[str, list[ast.Attribute]] = {}
        for parsed in self.files:
            for node in parsed.parents:
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, context):
                    found.setdefault(node.attr, []).append(node)
        return found

    def text(self, node: ast.AST) -> str:
        """An expression as the user wrote it, on one line."""
        return ast.unparse(node)

    def line(self, node: ast.AST) -> int:
        """A node's line, from 1."""
        return int(getattr(node, "lineno", 1))

    @cached_property
    def reachable(self) -> set[Scope]:
        """The functions that code of the named files may run, and those files' own."""
        return self.run_by({p.path for p in self.named})

    def is_run(self, node: ast.AST) -> bool:
        """Whether the named files run a node, themselves or by importing its file, or one that runs it."""
        return self.frame(node) in self._run_or_imported or self._is_on_import(node)

    @cached_property
    def _run_or_imported(self) -> set[Scope]:
        """The functions that code of the named files may run, also by importing the project's other files."""
        return self.reachable | self.run_on_import

    @cached_property
    def run_on_import(self) -> set[Scope]:
        """The functions that are run when the project's files are imported, with all that they may run."""
        modules = (self.flow.bindings[p.path].root for p in self.files)
        calls = (c for module in modules for s in module.walk() if s.kind != "function" for c in self.calls_in(s))
        return self.run_through(filter(self._is_on_import, calls))

    def _is_on_import(self, node: ast.AST) -> bool:
        """Whether a node is run when its file is imported."""
        frame = self.frame(node)
        while frame.kind == "class" and frame.parent is not None:
            frame = frame.parent
        guard = main_guard(frame.root)
        return frame.kind == "module" and (guard is None or not self.inside(node, guard))

    def may_run(self, frame: Scope) -> bool:
        """Whether the named files may run a function: any method of another file's networks and data sets in use.

        Their libraries call the methods, where no call is to be seen.
        """
        cls = frame.parent if frame.is_method else None
        if frame in self.reachable or cls is None:
            return frame in self.reachable
        is_called = self.flow.is_module_class(cls) or self.flow.is_dataset_class(cls)
        return is_called and self.flow.method(cls, "__init__") in self.reachable

    def is_unused(self, frame: Scope) -> bool:
        """Whether nothing in the program names the function of a module that a frame is, or stands in."""
        while frame.parent is not None and frame.parent.kind != "module":
            frame = frame.parent
        node = frame.node
        if frame.parent is None or not isinstance(node, ast.FunctionDef) or node.decorator_list:
            return False
        aliases = (n for parsed in self.files for n in parsed.nodes if isinstance(n, ast.alias))
        is_named = bool(self.reads_of(frame.parent, node.name) or self.calls_of(frame))
        return not is_named and not any(alias.name in (node.name, "*") for alias in aliases)

    def run_by(self, paths: Collection[str]) -> set[Scope]:
        """The functions that code of some files may run, and those files' own."""
        own = (s for path in paths for s in self.flow.bindings[path].root.walk())
        return self.run_from(s for s in own if s.kind in ("module", "class", "function"))

    def question_round(self, node: ast.AST) -> ast.Call | None:
        """The call that only asks for a class: `isinstance(model, (DataParallel, DistributedDataParallel))`."""
        parent = self.parent(node)
        asked = self.parent(parent) if isinstance(parent, ast.Tuple) else parent
        if isinstance(asked, ast.Call) and asked.func is not node and ast.unparse(asked.func) == "isinstance":
            return asked
        return None

    def run_from(self, scopes: Iterable[Scope]) -> set[Scope]:
        """Some functions and modules, the functions inside those functions, and all that they may run."""
        found: set[Scope] = set()
        queue = list(scopes)
        while queue:
            scope = queue.pop()
            if scope in found:
                continue
            found.add(scope)
            if scope.kind == "function":
                queue.extend(s for s in scope.walk() if s.kind in ("class", "function"))
            for call in self.calls_in(scope):
                queue.extend(self.flow.callees.get(call, ()))
            queue.extend(self._handed_on.get(scope, ()))
        return found

    def run_through(self, calls: Iterable[ast.Call]) -> set[Scope]:
        """The project's functions that calls name, the functions inside these, and all that they may run."""
        relations = (self.flow.callees, self.flow.run_inside)
        return self.run_from(function for call in calls for runs in relations for function in runs.get(call, ()))

    @cached_property
    def _handed_on(self) -> dict[Scope, list[Scope]]:
        """The functions that each function or module hands to others, which may call them: `Process(target=train)`."""
        found: dict[Scope, list[Scope]] = {}
        for node, function in self.flow.handed_on:
            found.setdefault(self.frame(node), []).append(function)
        for call, run in self.flow.run_inside.items():
            found.setdefault(self.frame(call), []).extend(run)
        return found


def _united(parents: Sequence[dict[ast.AST, ast.AST]]) -> dict[ast.AST, ast.AST]:
    """What holds each node of several files."""
    found: dict[ast.AST, ast.AST] = {}
    for each in parents:
        found.update(each)
    return found


def _is_given(value: Value) -> bool:
    """Whether a value, or what it is a part of, comes from code that nothing is known of."""
    while isinstance(value, (Member, Element)):
        value = value.owner
    return isinstance(value, Argument) or (isinstance(value, Made) and value.name is None)
