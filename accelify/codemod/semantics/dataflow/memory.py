"""The memory of the flow analysis: the values that each variable, attribute and item may have, and who has read it."""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

from accelify.codemod.files.nodes import walk
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project, absolute
from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.scopes import Bindings, Scope, bindings
from accelify.codemod.semantics.values import (
    NOTHING,
    Argument,
    ClassValue,
    External,
    ModuleValue,
    Value,
    Values,
)

Key = tuple[Any, ...]  # what a cell belongs to: ("var", scope, name), ("attr", owner, name), ("item", node, key), ...
Source = ast.expr | tuple[Any, ...]  # an expression, or the place of a container or an object that holds it
_MOST_VISITS = 40
_MOST_VALUES = 32  # a variable that may hold more than this is of no use


class Memory:
    """Cells of values, the units that read them, and the queue of units that have to be evaluated again."""

    def __init__(self, files: Sequence[Parsed], project: Project, named: Sequence[Parsed]) -> None:
        self.files = list(files)
        self.project = project
        self.named = {p.path for p in named}
        self.bindings: dict[str, Bindings] = {}
        self.parsed_of: dict[str, Parsed] = {}
        self.path_of_root: dict[Scope, str] = {}
        self._by_file: dict[str, Scope] = {}
        self._absolute: dict[str, str] = {}
        self._submodules: dict[str, Scope] = {}  # of packages that are none of the program's files
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
        self.callees: dict[ast.Call, Set[Scope]] = {}  # in the order of the text
        self.callers: dict[Scope, Set[ast.Call]] = {}  # likewise
        self._runs: set[tuple[ast.Call, Scope]] = set()
        self._runs_inside: set[tuple[ast.Call, Scope]] = set()
        self.run_inside: dict[ast.Call, Set[Scope]] = {}  # what containers of modules run that are called: `forward`
        self.run_inside_by: dict[Scope, Set[ast.Call]] = {}
        self._open_partials: list[ast.Call] = []  # whose functions are being called
        self.escaped: set[Scope] = set()  # functions that are passed on as values
        self.rebound: set[ast.Name] = set()  # reads of a module's name that has got another value by then
        self.lost: set[Scope] = set()  # those of them whose calls are not all known
        self.handed_on: set[tuple[ast.expr, Scope]] = set()
        self.subclasses: dict[Scope, set[Scope]] = defaultdict(set)
        self.put_by: dict[tuple[Any, ...], dict[Source, None]] = defaultdict(dict)  # what is at a place
        self.given_by: dict[tuple[ast.Call, Scope, str], dict[Source, None]] = defaultdict(dict)  # to parameters
        self._cells: dict[Key, set[Value]] = defaultdict(set)
        self._readers: dict[Key, dict[Scope, None]] = defaultdict(dict)  # in order: which values are cut depends on it
        self._queue: deque[Scope] = deque()
        self._queued: set[Scope] = set()
        self._awake: dict[Scope, None] = {}
        self._visits: dict[Scope, int] = defaultdict(int)
        self._settled = False
        self._closed: frozenset[Key] = frozenset()  # cells that have all their values
        self._training_files: dict[str, bool] = {}  # by path
        self._stateful_files: dict[str, bool] = {}  # by path
        self._unit: Scope = next(iter(self.bindings.values())).root

    def _unit_body(self, unit: Scope) -> None:
        """Evaluate a unit's own code."""
        raise NotImplementedError

    # Units.

    def _wake(self, unit: Scope) -> None:
        if unit not in self._awake and not self._is_arithmetic(unit):
            self._awake[unit] = None
            if self._settled:
                self._own_parameters(unit)
            self._enqueue(unit)

    def _is_arithmetic(self, unit: Scope) -> bool:
        """A network's `forward` in another file: nothing but tensors flows through it, and all live in one memory.

        Not where a network of the program keeps something of a pass in buffers, weights or attributes: a queue, a
        codebook, a hidden state; nor a loss, which is short, and may hand its tensors to functions of its own.
        """
        if unit.name != "forward" or not unit.is_method or unit.module in self.named:
            return False
        assert unit.parent is not None
        needs_host = names.needing_host().search(self.parsed_of[unit.module].text) is not None
        is_of_module = self.is_module_class(unit.parent) and not needs_host and not self._may_train(unit.module)
        is_network = is_of_module and _may_have_layers(unit.parent.node)
        return is_network and not any(map(self._keeps_state, self.parsed_of.values()))

    def _keeps_state(self, parsed: Parsed) -> bool:
        """Whether methods other than a constructor change buffers or weights, or what a network's passes read again."""
        if parsed.path not in self._stateful_files:
            may_keep = "register_buffer" in parsed.text or ".data" in parsed.text
            found = may_keep and any(_changed_parts(n) for f in _methods(parsed.nodes) for n in walk(f))
            networks = (n for n in parsed.nodes if isinstance(n, ast.ClassDef) and "forward" in _names(n))
            self._stateful_files[parsed.path] = found or any(map(_carries, networks))
        return self._stateful_files[parsed.path]

    def _may_train(self, path: str) -> bool:
        """Whether a file has a backward pass, or imports one that has: a loss may train a critic of its own."""
        if path not in self._training_files:
            text = self.parsed_of[path].text
            self._training_files[path] = ".backward" in text or self.project.leads_to_training(path)
        return self._training_files[path]

    def _own_parameters(self, unit: Scope) -> None:
        """Parameters that no call of the program fills hold an unknown value of their own."""
        if unit.kind != "function":
            return
        for position, parameter in enumerate(unit.parameters):
            if position == 0 and unit.is_method and not unit.is_static:
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

    # Cells.

    def _add(self, key: Key, values: Values) -> None:
        cell = self._cells[key]
        if values <= cell or len(cell) > _MOST_VALUES or key in self._closed:
            return
        cell |= values
        for reader in self._readers[key]:
            self._enqueue(reader)

    def _get(self, key: Key) -> Values:
        self._readers[key].setdefault(self._unit)
        return frozenset(self._cells[key])

    def is_cut(self, node: ast.AST) -> bool:
        """Whether an expression may have more values than are kept, so that some may be missing."""
        return len(self.values.get(node, NOTHING)) > _MOST_VALUES

    def variable(self, scope: Scope, name: str) -> Values:
        """The values that a variable of a scope may have."""
        return frozenset(self._cells[("var", scope, name)])

    def returned(self, scope: Scope) -> Values:
        """The values that a function may return."""
        return frozenset(self._cells[("return", scope)])

    # Classes.

    def ancestors(self, cls: Scope) -> list[Scope]:
        """The project classes that a class inherits from, nearest first."""
        found: list[Scope] = []
        waiting = self._bases(cls)
        while waiting:
            base = waiting.pop(0)
            if base is not cls and base not in found:
                found.append(base)
                waiting = [*self._bases(base), *waiting]
        return found

    def _bases(self, cls: Scope) -> list[Scope]:
        assert isinstance(cls.node, ast.ClassDef)
        values = (v for base in cls.node.bases for v in self.values.get(base, NOTHING))
        return [v.scope for v in values if isinstance(v, ClassValue)]

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
        return any(names.is_module(name) for name in self.external_bases(cls))

    def is_dataset_class(self, cls: Scope) -> bool:
        """Whether a class is a data set, by the name of a library's class that it inherits from."""
        return any("Dataset" in name for name in self.external_bases(cls))

    def method(self, cls: Scope, name: str) -> Scope | None:
        """The method that an instance of a class has under a name."""
        found = (each.method(name) for each in [cls, *self.ancestors(cls)])
        return next((method for method in found if method is not None), None)

    def _methods(self, cls: Scope) -> Iterator[Scope]:
        """The methods of a class, and of those that it inherits from."""
        yield from (m for each in (cls, *self.ancestors(cls)) for m in each.children if m.is_method)

    # Modules.

    def module_named(self, importer: str, name: str, level: int) -> Scope | None:
        """The project's module that a file imports under a name, if it is one of the program's."""
        path = self.project.resolve(importer, name, level)
        if path is not None and path not in self._absolute:
            self._absolute[path] = absolute(path)
        return None if path is None else self._by_file.get(self._absolute[path])

    def module_or_external(self, importer: str, name: str) -> Values:
        """The project's module of a full name, or a library's."""
        root = self.module_named(importer, name, 0)
        return frozenset({ModuleValue(root) if root is not None else External(name)})


def _may_have_layers(cls: ast.AST) -> bool:
    """Whether a class builds other objects than losses, errors and modules that have no weights: `nn.Linear(3, 4)`."""
    nodes = list(ast.walk(cls))
    raised = {n.exc for n in nodes if isinstance(n, ast.Raise)}
    called = (ast.unparse(n.func).rpartition(".")[2] for n in nodes if isinstance(n, ast.Call) and n not in raised)
    return any(name[:1].isupper() and name not in names.without_weights() for name in called)


def _methods(nodes: Iterable[ast.AST]) -> Iterator[ast.FunctionDef]:
    """The functions among some nodes, but for constructors."""
    return (n for n in nodes if isinstance(n, ast.FunctionDef) and n.name != "__init__")


def _names(cls: ast.ClassDef) -> set[str]:
    """The names of a class's own methods."""
    return {method.name for method in _methods(cls.body)}


def _carries(network: ast.ClassDef) -> bool:
    """Whether methods set an attribute that they read, too: `y, self.hidden = self.rnn(x, self.hidden)`."""
    nodes = [n for method in _methods(network.body) for n in walk(method)]
    changed = {name for n in nodes for name in _changed_parts(n)}
    read = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load))
    return any(n.attr in changed and isinstance(n.value, ast.Name) and n.value.id == "self" for n in read)


def _changed_parts(node: ast.AST) -> set[str]:
    """The attributes of `self.queue[a:b] = keys`, `self.mean.mul_(0.9)`, `self.codes.weight.data = w`."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        changed = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changed = [node.func.value] if methods.changes_in_place(node.func.attr) else []
    else:
        return set()
    found: set[str] = set()
    for each in changed:
        while isinstance(each, (ast.Attribute, ast.Subscript)):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
                found.add(each.attr)
            each = each.value
    return found
