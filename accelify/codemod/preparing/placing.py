"""Where is the accelerator there, and where does new code go: the imports, and the line that creates it?"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from accelify.codemod.edits.values import Insert
from accelify.codemod.libraries import methods, names
from accelify.codemod.preparing.objects.preparation import Preparation
from accelify.codemod.preparing.reach import CURRENT, Reach, constructor, node_of
from accelify.codemod.preparing.settings import is_default_setting
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.set_by_text import setters
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, code, main_guard
from accelify.codemod.semantics.values import External, ModuleValue
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.randomness.draws import draws
from accelify.codemod.training.roles import Roles
from accelify.codemod.training.torchscript import compiled

_FIRST = -1  # before whatever else is inserted at the same place


@dataclass(frozen=True, slots=True)
class Access:
    """The accelerator, place by place.

    sites: what needs it. after: the statements after which it can be created, the last of each home that has any.
    created_below: the statement of each home below which it is created: an import, or what may set anything.
    run_before: the functions that a home's module calls before it is created, and what they call.
    shared_by: for homes that get it from another module, the import of that module in their file, and its name there.
    early: the code of a run that may come before it.
    """

    program: Program
    reach: Reach
    sites: tuple[ast.AST, ...]
    after: tuple[ast.stmt, ...] = ()
    created_below: dict[Scope, ast.stmt | None] = field(init=False, repr=False, compare=False)
    run_before: frozenset[Scope] = field(init=False, repr=False, compare=False)
    shared_by: dict[Scope, tuple[ast.stmt, str]] = field(init=False, repr=False, compare=False)
    early: EarlyCode = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "created_below", {root: self._creation(root) for root in self.reach.homes})
        object.__setattr__(self, "run_before", frozenset(self._run_before()))
        found = {home: self._shared(home.root) for home in self.reach.homes}
        object.__setattr__(self, "shared_by", {home: named for home, named in found.items() if named is not None})
        object.__setattr__(self, "early", EarlyCode(self.program, self))

    def at(self, node: ast.AST) -> str | None:
        """The expression for the accelerator at a node; None where it does not reach, as in TorchScript."""
        frame = self.program.frame(node)
        if frame in self.program.once(compiled):
            return None
        if frame.kind == "class":
            return self.at(frame.node)  # its body runs where it is defined
        found = self.reach.expression(frame)
        after = next((s for s in self.after if self.program.frame(s) is frame), None)
        if after is not None and not self._is_after(node, after):
            return None
        if found is None or frame.kind != "module":
            return None if found in (self.reach.name, CURRENT) and frame in self.run_before else found
        return found if self._is_after_home(node, frame) else None

    def _run_before(self) -> set[Scope]:
        early: set[Scope] = set()
        for root in self.reach.homes:
            if root.kind == "module" and root not in self.reach.guarded:
                last = self.known_after(root) or self.created_below[root]
                calls = (
                    c for c in self.program.calls_in(root) if last is not None and self.program.before_end(c, last)
                )
                early |= {f for call in calls for f in self.program.flow.callees.get(call, ())}
        return self.program.run_from(early) - set(self.reach.parameters)

    def known_after(self, home: Scope) -> ast.stmt | None:
        """The statement of a home after which its accelerator can be created; None where any will do."""
        frame = self.program.flow.method(home, "__init__") if home.kind == "class" else home
        return next((s for s in self.after if self.program.frame(s) is frame), None)

    def _is_after(self, node: ast.AST, statement: ast.stmt) -> bool:
        return not isinstance(node, ast.Module) and self.program.is_after(self.program.statement(node), statement)

    def _is_after_home(self, node: ast.AST, root: Scope) -> bool:
        if root not in self.reach.homes:
            return False
        if root in self.reach.guarded:
            return self.program.inside(node, self.reach.guarded[root])
        last = self.created_below[root]
        if last is None or isinstance(node, ast.Module):
            return last is None
        return self.program.before(last, self.program.statement(node))

    def import_block(self, root: Scope) -> list[ast.stmt]:
        """The run of imports nearest above the first place that needs the accelerator; in a notebook, torch's.

        Cells further down may be left out, as one that downloads.
        """
        return self._block_above(root, self._first_use(root))

    def _block_above(self, root: Scope, first: int) -> list[ast.stmt]:
        runs = self._import_runs(root, first)
        of_torch = (run for run in runs if any(_library(s).startswith("torch") for s in run))
        nearest = runs[-1] if runs else []
        return next(of_torch, nearest) if self._is_notebook(root) else nearest

    def _is_notebook(self, root: Scope) -> bool:
        return self.program.flow.parsed_of[root.module].decoded.notebook is not None

    def _creation(self, root: Scope) -> ast.stmt | None:
        above = root.body[: self._first_use(root)]
        calls = self.program.once(setters).get(root, ())
        before = [s for s in above if any(self.program.inside(c, s) for c in calls)]
        return max([*self.import_block(root)[-1:], *before], key=root.body.index, default=None)

    def _shared(self, root: Scope) -> tuple[ast.stmt, str] | None:
        """The import that runs another module which creates an accelerator: two would not know each other's loaders."""
        for statement in (s for run in self._import_runs(root, self._first_use(root)) for s in run):
            for module, name in _imported(self.program, root, statement):
                is_home = module in self.reach.homes and module not in self.reach.guarded and module is not root
                if is_home and root not in run_by(self.program, module):
                    return statement, name
        return None

    def _import_runs(self, root: Scope, first: int) -> list[list[ast.stmt]]:
        """The runs of imports above a place in a module's body."""
        runs: list[list[ast.stmt]] = []
        previous: ast.stmt | None = None
        for statement in root.body[:first]:
            if isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_future(statement):
                if previous is not None and runs and previous is runs[-1][-1]:
                    runs[-1].append(statement)
                else:
                    runs.append([statement])
            previous = statement
        return runs

    def _first_use(self, root: Scope) -> int:
        """The place in a module's body of the first statement that needs the accelerator."""
        nodes = [n.node for n in self.reach.nodes | set(self.reach.homes) if n.kind != "module"]
        needing = {self._top(n) for n in [*nodes, *self.sites] if self.program.path(n) == root.module}
        return next((index for index, s in enumerate(root.body) if s in needing), len(root.body))

    def _first_run(self, root: Scope) -> int:
        """The place in a module's body of the first statement that runs one of its functions, or writes a file."""
        callees, effects = self.program.flow.callees, self.program.once(Effects)
        calls = (
            c
            for c in self.program.calls_in(root)
            if any(f.root is root for f in callees.get(c, ())) or effects.of_call(c).files_written
        )
        return min((root.body.index(self._top(c)) for c in calls), default=len(root.body))

    def _top(self, node: ast.AST) -> ast.stmt:
        """The module-level statement that holds a node."""
        found = self.program.statement(node)
        for ancestor in self.program.ancestors(node):
            if isinstance(ancestor, ast.stmt):
                found = ancestor
        return found

    def import_edit(self, root: Scope, code: str) -> Insert:
        """An import of the runtime in a module, where an import sorter would put it; in a notebook, beside torch's.

        Functions use the module itself where no accelerator reaches, so it is imported before the first of them runs.
        """
        new = ast.parse(code).body[0]
        first = self._first_use(root)
        block = self._block_above(root, min(first, self._first_run(root)) if isinstance(new, ast.Import) else first)
        if not block:
            return Insert(body_start(root.body), "before", code, gap=1)
        statement, where = self._position(block, new)
        return Insert(statement, where, code)

    def creation_edit(self, home: Scope, code: str) -> Insert:
        """The line that creates the accelerator in one of its homes."""
        if (after := self.known_after(home)) is not None:
            return Insert(self._imported_by(home, after), "after", code)
        if home.kind == "class":
            init = constructor(self.program, home)
            if init is not None:
                return kept_edit(init, code)
            return _new_constructor(home, "self", code)
        if home.kind != "module":
            return Insert(body_start(home.body), "before", code, order=_FIRST)
        guard, last = self.reach.guarded.get(home), self.created_below.get(home)
        if guard is not None:
            return Insert(guard.body[0], "before", code, order=_FIRST)
        if last is not None:
            return Insert(last, "after", code, gap=1, order=2)
        return Insert(body_start(home.body), "before", code, gap=1, order=2)

    def keeping_edit(self, cls: Scope) -> Insert:
        """The constructor in which a class that has none keeps the accelerator."""
        name = self.reach.name
        return _new_constructor(cls, f"self, {name}", f"self.{name} = {name}")

    def _imported_by(self, home: Scope, after: ast.stmt) -> ast.stmt:
        """A statement or, where the runtime is imported only below it, the last import there."""
        imports = self.import_block(home.root) if home.kind == "module" else []
        block = self.program.block(after)
        is_above = bool(imports) and imports[-1] in block and block.index(after) < block.index(imports[-1])
        return imports[-1] if is_above else after

    def _position(self, block: list[ast.stmt], new: ast.stmt) -> tuple[ast.stmt, str]:
        """A statement of a block of imports, and whether a new one goes `before` or `after` it."""
        kinds = [(self._section(s), s) for s in block]
        third = [s for section, s in kinds if section == 1]
        listed = [s for s in third if type(s) is type(new)]
        for statement in listed:
            if _library(statement).lower() > _library(new):
                return statement, "before"
        if listed:
            return listed[-1], "after"
        if third:
            return (third[0], "before") if isinstance(new, ast.Import) else (third[-1], "after")
        standard = [s for section, s in kinds if section == 0]
        if standard:
            return standard[-1], "after"
        return block[0], "before"

    def _section(self, statement: ast.stmt) -> int:
        """0 for the standard library, 1 for other libraries, 2 for the project's own."""
        name, level = _library(statement), getattr(statement, "level", 0)
        if level or self.program.flow.project.resolve(self.program.path(statement), name, level) is not None:
            return 2
        return 0 if name.split(".")[0] in sys.stdlib_module_names else 1


def _new_constructor(cls: Scope, parameters: str, code: str) -> Insert:
    first = next(s for s in cls.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return Insert(first, "before", f"def __init__({parameters}):\n    {code}", gap=1, order=_FIRST)


def kept_edit(init: Scope, code: str) -> Insert:
    """A line at the start of a constructor, after the call of the base class's."""
    first = body_start(init.body)
    is_super = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and ast.unparse(first.value.func).endswith("__init__")
    )
    return Insert(first, "after" if is_super else "before", code, order=_FIRST)


def chosen_gpus(program: Program, homes: Collection[Scope]) -> Iterator[ast.stmt]:
    """The statements of some modules and functions that choose GPUs, which has to come before the first use of one."""
    for node in program.once(gpu_choices):
        frame = program.frame(node)
        if frame in homes:
            guard = main_guard(frame) if frame.kind == "module" else None
            body = guard.body if guard is not None and program.inside(node, guard) else frame.body
            yield from (s for s in body if program.inside(node, s))


def gpu_choices(program: Program) -> list[ast.AST]:
    """The nodes of a program that choose GPUs."""
    return [n for parsed in program.files for n in parsed.nodes if _chooses_gpus(n)]


def trained_modules(program: Program, training: Training) -> frozenset[Scope]:
    """The modules of the runs that train, with all that these import.

    A function whose caller is not known may be called in any run that imports its module. One that nothing names is
    never called, and counts only where no other function trains.
    """
    queue, leading, uncalled = [program.frame(b) for b in training.backwards], set[Scope](), set[Scope]()
    while queue:
        scope = queue.pop()
        if scope not in leading:
            leading.add(scope)
            calls = [*calling(program, scope)]
            if scope.kind == "function" and not calls:
                uncalled.add(scope)
            queue += [scope.parent] if scope.kind == "class" and scope.parent is not None else map(program.frame, calls)
    started = {scope for scope in leading if scope.kind == "module"}
    started |= {scope.root for scope in uncalled if not program.is_unused(scope)}
    started = started or {scope.root for scope in uncalled}
    every = (built.root for built in program.flow.bindings.values())
    runs = (imported for imported in (run_by(program, root) for root in every) if not started.isdisjoint(imported))
    return frozenset().union(*runs)


def run_by(program: Program, root: Scope) -> set[Scope]:
    """A module, the modules that it imports, and those that they import."""
    found, queue = {root}, [root]
    while queue:
        new = program.once(_imports)(queue.pop()) - found
        found |= new
        queue += new
    return found


def calling(program: Program, scope: Scope) -> Iterator[ast.AST]:
    """The calls of a function, and the places that pass it to others, which may call it."""
    yield from program.flow.callers.get(scope, ())
    yield from (node for node, function in program.flow.handed_on if function is scope)


def _imports(program: Program) -> Callable[[Scope], frozenset[Scope]]:
    """The project's modules that each of its modules imports."""

    def of(root: Scope) -> frozenset[Scope]:
        nodes = program.parsed(root.node).nodes
        statements = (n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)))
        return frozenset(module for s in statements for module, _ in _imported(program, root, s)) | by_calls[root]

    by_calls = _imported_by_calls(program)
    return cache(of)


def _imported_by_calls(program: Program) -> defaultdict[Scope, frozenset[Scope]]:
    """The project's modules that calls of each module import, `import_module(name)`: any, where the name is unknown."""
    every = frozenset(built.root for built in program.flow.bindings.values())
    found = defaultdict[Scope, frozenset[Scope]](frozenset)
    for call in program.calls:
        called, values, root = program.called(call), program.values(call), program.frame(call).root
        is_known = bool(values) and all(isinstance(v, (ModuleValue, External)) for v in values)
        if any(map(names.is_configured, called)) or (any(map(names.imports, called)) and not is_known):
            found[root] = every
        elif any(map(names.imports, called)):
            found[root] |= {v.root for v in values if isinstance(v, ModuleValue)}
    return found


def _imported(program: Program, root: Scope, statement: ast.stmt) -> Iterator[tuple[Scope, str]]:
    """The project's modules that an import names, each with the text that names it there."""
    assert isinstance(statement, (ast.Import, ast.ImportFrom))
    if isinstance(statement, ast.Import):
        named = [(alias.name, 0) for alias in statement.names]
    else:
        start, level = statement.module or "", statement.level
        inner = [f"{start}.{alias.name}" if start else alias.name for alias in statement.names]
        named = [(name, level) for name in (start, *inner)]
    for name, level in named:
        module = program.flow.module_named(root.module, name, level)
        if module is not None and name:
            yield module, "." * level + name


def _chooses_gpus(node: ast.AST) -> bool:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = gpu`, `os.environ.update(CUDA_VISIBLE_DEVICES=gpu)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_set = code(node.func.value) == "os.environ" and methods.puts_in(node.func.attr)
    else:
        is_set = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return is_set and "CUDA_VISIBLE_DEVICES" in ast.unparse(node)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _library(statement: ast.stmt) -> str:
    """The module that an import statement imports, or imports from."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module or ""
    assert isinstance(statement, ast.Import)
    return statement.names[0].name


def body_start(body: list[ast.stmt]) -> ast.stmt:
    """The first statement after the docstring, `from __future__` imports and `global` names; or the last of those."""
    for index, statement in enumerate(body):
        is_text = (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
        is_said_first = (is_text and index == 0) or isinstance(statement, (ast.Global, ast.Nonlocal))
        if not is_said_first and not _is_future(statement):
            return statement
    return body[-1]


def comes_before_selection(access: Access, node: ast.AST) -> bool:
    """Whether GPUs may be chosen after a node, which is too late once the library has been asked for the processes.

    Neither counts where the accelerator is there already: what chooses GPUs then has no effect.
    """
    program, early = access.program, access.early
    later = [n for n in program.once(gpu_choices) if program.may_follow(n, node)]
    return bool(later) and early.holds(node) and any(map(early.holds, later))


class EarlyCode:
    """The code of a run that may come before the accelerator: until then, the GPU of every process is the first one."""

    def __init__(self, program: Program, access: Access) -> None:
        self.program = program
        self.access = access

    def holds(self, node: ast.AST) -> bool:
        """Whether a node may run before the accelerator is there, in the first round of any loop."""
        frame = self.program.frame(node)
        is_early = frame in self.scopes and self._is_early(frame, node)
        return is_early and not any(map(self._is_run_later, self.program.lambdas(node)))

    def _is_run_later(self, function: Scope) -> bool:
        """Whether all calls of a lambda are known, and come later: `layers = {"head": lambda: nn.Linear(4, 2)}`."""
        is_known = function not in self.program.flow.escaped and any(calling(self.program, function))
        return is_known and function not in self.scopes

    @cached_property
    def scopes(self) -> frozenset[Scope]:
        """The modules and functions that may begin to run before the accelerator is there, in a run that creates it."""
        on_the_way = self.program.reachable.intersection([*self._created, *self._leading])
        queue = list(on_the_way)
        queue += {module for root in {s.root for s in on_the_way} for module in run_by(self.program, root)}
        found: set[Scope] = set()
        while queue:
            scope = queue.pop()
            if scope not in found:
                found.add(scope)
                early = (c for c in self.program.calls_in(scope) if self._is_early(scope, c))
                queue.extend(f for call in early for f in self.program.flow.callees.get(call, ()))
        return frozenset(found)

    def _is_early(self, frame: Scope, node: ast.AST) -> bool:
        """Whether a node of a scope that begins early may run early."""
        shared = self._shared_in.get(frame.root)
        if shared is not None:
            return frame.kind == "module" and not self.program.is_after(self.program.statement(node), shared)
        created = self._created.get(frame)
        if created is not None:
            return self._comes_before(node, created)
        leading = self._leading.get(frame)
        if not leading:
            guard = main_guard(frame) if frame.kind == "module" else None
            return guard is None or not self.program.inside(node, guard)  # this file is only imported
        is_before = any(self.program.before_end(node, call) for call in leading if call is not node)
        return is_before and not any(self.program.is_after(node, self.program.statement(call)) for call in leading)

    @cached_property
    def _shared_in(self) -> dict[Scope, ast.stmt]:
        """The modules that get the accelerator from another one, and the import that runs that."""
        return {home.root: statement for home, (statement, _) in self.access.shared_by.items()}

    def _comes_before(self, node: ast.AST, created: Insert) -> bool:
        if created.where == "after":
            return self.program.before_end(node, created.node)
        return not self.program.inside(node, created.node) and self.program.before(node, created.node)

    @cached_property
    def _created(self) -> dict[Scope, Insert]:
        """The functions and modules that create the accelerator, and where."""
        homes = ((home, self._frame(home)) for home in self.access.reach.homes)
        return {frame: self.access.creation_edit(home, "") for home, frame in homes if frame is not None}

    def _frame(self, home: Scope) -> Scope | None:
        if home.kind != "class":
            return home
        after = self.access.known_after(home)
        return constructor(self.program, home) if after is None else self.program.frame(after)

    @cached_property
    def _leading(self) -> dict[Scope, list[ast.AST]]:
        """The places of each function or module that may lead to the creation."""
        found: dict[Scope, list[ast.AST]] = {}
        done: set[Scope] = set()
        queue = list(self._created)
        while queue:
            scope = queue.pop()
            if scope in done:
                continue
            done.add(scope)
            for place in calling(self.program, scope):
                frame = self.program.frame(place)
                found.setdefault(frame, []).append(place)
                queue.append(frame)
        return found


class Start:
    """The effects of a script before a statement after which the accelerator would be created."""

    def __init__(
        self, program: Program, roles: Roles, training: Training, preparation: Preparation, reach: Reach
    ) -> None:
        self.program = program
        self.roles = roles
        self.training = training
        self.preparation = preparation
        self.reach = reach

    def draws_before(self, statement: ast.stmt) -> bool:
        """Whether the accelerator's home draws random numbers, or makes a model, before a statement is through."""
        frame = self.program.frame(statement)
        before = [c for c in self.program.calls_in(frame) if self.program.before_end(c, statement)]
        return any(
            draws(self.program, c) or any(self.roles.is_module(v) for v in self.program.values(c)) for c in before
        )

    def is_needed_before(self, statement: ast.stmt) -> bool:
        """Whether the accelerator's home needs it, or chooses a device, before a statement is through."""
        frame = self.program.frame(statement)
        used: list[ast.AST] = [*self.training.backwards, *(n for _, n in self.preparation.wrapped)]
        used.extend(source for _, source in self.preparation.sharded)
        used.extend(c for f in self.reach.parameters for c in self.program.flow.callers.get(f, ()))
        used.extend(c for c in self.program.calls_in(frame) if self._asks(c))
        for group in self.preparation.groups:
            if group.frame is frame and group.anchor is None:
                return True
            used.extend([group.anchor] if group.anchor is not None else [])
        used.extend(
            node
            for node in self.program.parsed(statement).parents
            if isinstance(node, ast.Assign) and any(self.roles.is_device(v) for v in self.program.values(node.value))
            if not is_default_setting(self.program, node.targets[0], node.value)
            if not self.program.inside(node, statement)
        )
        return any(
            self.program.frame(n) is frame and self.program.before_end(n, statement) for n in used if n is not statement
        )

    def _asks(self, call: ast.Call) -> bool:
        """Whether a call runs code that asks for the accelerator."""
        return any(node_of(f) in self.reach.asking for f in self.program.run_through([call]))
