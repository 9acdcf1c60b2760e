"""What does a program take from Hugging Face Accelerate: which names, and what of the objects that it makes of them?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.libraries import accelerate, vocabulary
from accelify.codemod.libraries.accelerate import counterpart
from accelify.codemod.semantics.conditions import Conditions, Process
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Argument, Made, Member, Value

ACCELERATOR = "accelerate.Accelerator"
_STATE = "accelerate.state.AcceleratorState"
_DISTRIBUTES = ("DistributedDataParallel", "init_process_group")


@dataclass(frozen=True, slots=True)
class Imported:
    """One part of an import statement; `name` is what it stands for: `accelerate.utils.set_seed`, or a module."""

    statement: ast.Import | ast.ImportFrom
    alias: ast.alias
    name: str
    is_read: bool

    @property
    def is_module(self) -> bool:
        """Whether it is a module of Accelerate's, of which names are read as attributes."""
        return isinstance(self.statement, ast.Import) or self.name in accelerate.PLACES

    @property
    def bound(self) -> str:
        """The name that the file has for it."""
        return self.alias.asname or self.alias.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Read:
    """`accelerate.utils.set_seed`, by way of a module that was imported; a module's own name if no more is asked."""

    node: ast.expr
    name: str
    by: Imported


@dataclass(frozen=True, slots=True)
class Asked:
    """`accelerator.prepare`: an attribute of an object that Accelerate made; `of` is the class it belongs to.

    is_sure: whether the object can be nothing else.
    """

    node: ast.Attribute
    of: str
    is_sure: bool

    @property
    def name(self) -> str:
        """The attribute's qualified name."""
        return f"{self.of}.{self.node.attr}"


class AccelerateUses:
    """All of it, for the files of a program: `program.once(AccelerateUses)`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.imported: tuple[Imported, ...] = tuple(self._imports())
        self.read: tuple[Read, ...] = tuple(r for i in self.imported if i.is_module for r in self._reads(i))
        self.asked: tuple[Asked, ...] = tuple(self._members())

    def _imports(self) -> Iterator[Imported]:
        for parsed in self.program.files:
            for node in parsed.nodes:
                if isinstance(node, ast.Import):
                    names = [(alias, alias.name) for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [(alias, f"{node.module}.{alias.name}") for alias in node.names]
                else:
                    continue
                for alias, name in names:
                    if name == "accelerate" or name.startswith("accelerate."):
                        yield Imported(node, alias, name, self._is_read(node, alias))

    def _is_read(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        """Whether anything reads a name that an import binds, in its file or in one that imports it from there."""
        scope, bound = self.program.scope(node), alias.asname or alias.name.partition(".")[0]
        owner = scope.owner(bound) or scope
        return bool(self.program.reads_of(owner, bound)) or bound in self.program.imported_from.get(owner, ())

    def _reads(self, imported: Imported) -> Iterator[Read]:
        scope = self.program.scope(imported.statement)
        owner = scope.owner(imported.bound) or scope
        named = (
            imported.name if imported.alias.asname or isinstance(imported.statement, ast.ImportFrom) else "accelerate"
        )
        for node in self.program.reads_of(owner, imported.bound):
            found: ast.expr = node
            name = named
            while counterpart(name) is None and isinstance(outer := self.program.parent(found), ast.Attribute):
                found, name = outer, f"{name}.{outer.attr}"
            yield Read(found, name, imported)

    def _members(self) -> Iterator[Asked]:
        for parsed in self.program.files:
            for node in parsed.nodes:
                if isinstance(node, ast.Attribute):
                    yield from (Asked(node, of, self._is_sure(node)) for of in sorted(self.classes(node.value)))

    def classes(self, node: ast.expr) -> set[str]:
        """The classes of Accelerate, those whose members we know, of which an expression may hold an object."""
        return {name for value in self.program.values(node) if (name := self._class_of(value)) is not None}

    def _is_sure(self, node: ast.Attribute) -> bool:
        return all(self._class_of(value) is not None for value in self.program.values(node.value))

    def _class_of(self, value: Value) -> str | None:
        if isinstance(value, Member) and value.name == "state" and self._class_of(value.owner) == ACCELERATOR:
            return _STATE
        if self._is_handed_accelerator(value):
            return ACCELERATOR
        name = (value.name or "") if isinstance(value, Made) else ""
        return accelerate.class_named(name) if name.startswith("accelerate.") else None

    @staticmethod
    def _is_handed_accelerator(value: Value) -> bool:
        """A parameter of a function that nothing in the program calls, and whose name says what it is for."""
        return isinstance(value, Argument) and value.name == "accelerator"

    @property
    def options(self) -> Iterator[tuple[ast.keyword, str]]:
        """The keyword arguments of Accelerate's classes and their methods: `accelerate.Accelerator(cpu)`."""
        methods: dict[ast.AST, str] = {asked.node: asked.name for asked in self.asked}
        for call in self.program.calls:
            made = (accelerate.class_named(n) for n in self.program.called(call) if n.startswith("accelerate."))
            for owner in {name for name in (*made, methods.get(call.func)) if name is not None}:
                yield from ((k, f"{owner}({k.arg})") for k in call.keywords if k.arg is not None)

    def calls_of(self, *methods: str) -> Iterator[ast.Call]:
        """The calls of some methods of an accelerator."""
        for asked in self.asked:
            parent = self.program.parent(asked.node)
            is_one = asked.of == ACCELERATOR and asked.node.attr in methods
            if is_one and isinstance(parent, ast.Call) and parent.func is asked.node:
                yield parent

    def is_prepared(self, node: ast.expr) -> bool:
        """Whether an expression may hold what `prepare` gave back."""
        prepared = set(self.calls_of(*accelerate.PREPARES))
        owners = (v.root if isinstance(v, Member) else v for v in self.program.values(node))
        return any(isinstance(v, Made) and v.node in prepared for v in owners)

    @property
    def idle(self) -> ast.Call | None:
        """The call that makes an accelerator by which nothing is trained, though the program trains by itself."""
        texts = [parsed.text for parsed in self.program.files]
        helpers = (*(f".{name}(" for name in accelerate.PREPARES), *_DISTRIBUTES)
        if any(word in text for text in texts for word in helpers):
            return None
        nodes = (n for parsed in self.program.files for n in parsed.nodes)
        calls = (n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
        backwards = [c for c in calls if c.func.attr == "backward"]  # type: ignore[attr-defined]  # a method
        made = [c for c in self.program.calls if self.classes(c) == {ACCELERATOR}]
        return made[0] if made and backwards and not any(b.args for b in backwards) else None

    @property
    def trainers(self) -> Iterator[ast.Call]:
        """The calls that make something which trains on Accelerate by itself: `transformers.Trainer`."""
        for call in self.program.calls:
            for name in self.program.called(call):
                library, last = vocabulary.training_library(name), name.rpartition(".")[2]
                if library is not None and vocabulary.is_trainer(library, last):
                    yield call
                    break

    @property
    def unwrapping(self) -> Iterator[ast.Attribute]:
        """The ways into a wrapper of Accelerate's: `model.module`, `optimizer.optimizer`."""
        for parsed in self.program.files:
            for node in parsed.nodes:
                if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                    continue
                if node.attr in accelerate.WRAPPED and self.is_prepared(node.value) and not self._is_asked_for(node):
                    yield node

    def _is_asked_for(self, node: ast.Attribute) -> bool:
        """Whether a condition round an attribute asks whether it is there, or whether its object is wrapped."""
        tests = (branch.test for branch, _ in self.program.branches_round(node))
        return any(isinstance(n, ast.Name) and n.id in accelerate.ASK_WHAT_IS_THERE for t in tests for n in ast.walk(t))

    @property
    def unsynchronised(self) -> Iterator[tuple[ast.Attribute, str]]:
        """The wrapper's `no_sync`, called or not, each with the expression for an accelerator of its function."""
        for node in (n for parsed in self.program.files for n in parsed.nodes):
            if not isinstance(node, ast.Attribute) or node.attr != "no_sync" or not self.is_prepared(node.value):
                continue
            frame = self.program.frame(node)
            here = (a.node.value for a in self.asked if a.of == ACCELERATOR and self.program.frame(a.node) is frame)
            if (nearest := next(here, None)) is not None:
                yield node, ast.unparse(nearest)

    def is_on_main_alone(self, node: ast.AST) -> bool:
        """Whether, of several processes, the main one alone comes to a place."""
        return Process.OTHER not in {w.process for w in self.program.once(Conditions).worlds(node)}
