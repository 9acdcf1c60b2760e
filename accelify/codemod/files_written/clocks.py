"""What reads the time, or what else differs between processes, into a path?

f"run-{time.time()}"    f"run-{len(os.listdir(folder))}"    tempfile.mkdtemp()    f"run-{random.randint(0, 99)}"
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, code, returned
from accelify.codemod.semantics.values import ClassValue, Instance, ModuleValue, Value

_DEPTH = 5  # calls that a path is followed through
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_DRAWS = frozenset({Effect.DRAWS_PYTHON, Effect.DRAWS_NUMPY, Effect.DRAWS_TORCH})
_LOOPS = (ast.For, ast.AsyncFor)


class Clocks:
    """Follow a path back to the calls of which each process gets an answer of its own."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer
        self.kinds = program.once(Kinds)
        self._seen: set[ast.AST] = set()
        self._shuffled: list[ast.expr] = []
        self._path: ast.expr = ast.Constant(None)  # what is asked about
        self._found = cache(self._follow)

    def behind(self, path: ast.expr) -> list[ast.expr]:
        """Those calls, with all of the chain round each: `datetime.now().isoformat().split(".")[0]`."""
        return self._outermost(self._joined(self._chain(c)) for c in self._found(path)[0] if self._differs(c))

    def is_temporary(self, node: ast.expr) -> bool:
        """Whether a call makes a temporary file or folder, another one in each process."""
        return isinstance(node, ast.Call) and any(map(names.makes_temporary, self.program.called(node)))

    def is_own(self, path: ast.expr) -> bool:
        """Whether a path is that of a temporary file, which each process has made for itself."""
        return any(map(self.is_temporary, self.behind(path)))

    def counted(self, path: ast.expr) -> dict[ast.Call, ast.expr]:
        """The calls that ask which files there are, each with all that is worked out from its answer at once."""
        found = {c: self._worked_out(c) for c in self._found(path)[0] if self._asks(c)}
        return {c: o for c, o in found.items() if isinstance(self.program.parent(o), _LOOPS) or not self.is_iterator(o)}

    def drawn(self, path: ast.expr) -> list[ast.expr]:
        """What is drawn at random: `"".join(random.choices(letters, k=4))`, or `letters` that were shuffled."""
        found, shuffled = self._found(path)
        return list(dict.fromkeys([*(self._joined(c) for c in found if self._draws(c)), *shuffled]))

    def is_iterator(self, node: ast.expr) -> bool:
        """Whether an expression gives what cannot be sent to other processes."""
        return "iterator" in self.kinds.of(node)

    def _follow(self, path: ast.expr) -> tuple[list[ast.Call], list[ast.expr]]:
        self._seen.clear()
        self._shuffled.clear()
        self._path = path
        return list(self._in(path, _DEPTH)), self._shuffled.copy()

    def _outermost(self, calls: Iterable[ast.expr]) -> list[ast.expr]:
        found = dict.fromkeys(calls)
        return [c for c in found if not any(c is not o and self.program.inside(c, o) for o in found)]

    def _differs(self, call: ast.Call) -> bool:
        return any(map(names.differs, self.program.called(call)))

    def _draws(self, call: ast.Call) -> bool:
        """Whether a call draws from what all of a process draws from, and not from a generator of the script's own."""
        return any(not row.effects.isdisjoint(_DRAWS) for row in self.kinds.called(call) or ())

    def _asks(self, call: ast.Call) -> bool:
        """Whether a call asks which files there are, or whether one is."""
        return any(row.has(Trait.LOOKS) or row.has(Trait.LISTS) for row in self.kinds.called(call) or ())

    def _worked_out(self, call: ast.expr) -> ast.expr:
        """The outermost of the calls and lists round one that only give a value: `len(list(path.iterdir()))`."""
        node: ast.AST = call
        while True:
            around = self.program.parent(node)
            if isinstance(around, ast.comprehension) and around.iter is node:
                node = self.program.parent(around) or around
                if isinstance(node, ast.ListComp) and self.is_iterator(call):
                    call = node  # an iterator cannot be sent
            elif isinstance(around, ast.Call) and node in around.args and self._is_pure(around):
                node, call = around, call if self.is_iterator(around) else around
            else:
                return call

    def _is_pure(self, call: ast.Call) -> bool:
        rows = self.kinds.called(call)
        return bool(rows) and all(row.is_pure for row in rows or ()) and not _is_join(self.program.called(call))

    def _joined(self, call: ast.expr) -> ast.expr:
        """The text that is joined of many draws: `"".join(random.choice(letters) for _ in range(4))`; else the draw."""
        around = self.program.parent(call)
        node = around if isinstance(around, (ast.GeneratorExp, ast.ListComp)) and around.elt is call else call
        join = self.program.parent(node)
        if isinstance(join, ast.Call) and isinstance(join.func, ast.Attribute) and join.func.attr == "join":
            return join if self._is_pure(join) else call
        return call

    def _chain(self, call: ast.Call) -> ast.expr:
        node: ast.expr = call
        while True:
            method = self.program.parent(node)
            around = self.program.parent(method) if isinstance(method, ast.Attribute) else method
            is_method = isinstance(around, ast.Call) and around.func is method
            is_part = isinstance(around, ast.Subscript) and around.value is node and _is_of_a_result(node)
            if not isinstance(around, ast.expr) or not (is_method or is_part):
                return node
            node = around

    def _in(self, node: ast.AST, depth: int) -> Iterator[ast.Call]:
        parts = [node]
        for part in parts:
            if part in self._seen:
                continue
            self._seen.add(part)
            given = self._returned(part) if depth else []
            for value in given:
                yield from self._in(value, depth - 1)
            if not given:  # else what it is given counts where it returns that
                parts += ast.iter_child_nodes(part)
            if isinstance(part, ast.Call):
                if self._differs(part) or self._asks(part) or self._draws(part):
                    yield part
            elif isinstance(part, ast.Name):
                yield from self._of_name(part, depth)
            elif isinstance(part, ast.Attribute):
                for value in self._put_into(part):
                    yield from self._in(value, depth)
                for owner in filter(None, map(_variables_of, self.program.values(part.value))):
                    yield from self._of_variable(owner, part.attr, depth)

    def _returned(self, node: ast.AST) -> list[ast.expr]:
        """What functions of the script give where they are called, or read as a property."""
        called: Iterable[Scope] = self.program.flow.callees.get(node, ()) if isinstance(node, ast.Call) else ()
        called = self.tracer.getters(node) if isinstance(node, ast.Attribute) else called
        return [value for value in returned(called) if value is not None]

    def _of_name(self, name: ast.Name, depth: int) -> Iterator[ast.Call]:
        owner = self.program.scope(name).owner(name.id)
        if owner is not None:
            calls = (self.program.parent(read) for read in self.program.reads_of(owner, name.id))
            if any(isinstance(c, ast.Call) and self._draws(c) and self._changes(c, name.id) for c in calls):
                self._shuffled.append(name)
            yield from self._of_variable(owner, name.id, depth)

    def _changes(self, call: ast.Call, name: str) -> bool:
        """`random.shuffle(letters)`"""
        return any(isinstance(n, ast.Name) and n.id == name for n in self.program.once(Chains).changed_by(call))

    def _of_variable(self, owner: Scope, name: str, depth: int) -> Iterator[ast.Call]:
        """What is behind a variable of a function, a module or a class; an imported one is another module's."""
        writes = owner.writes.get(name, ())
        if depth and all(isinstance(write, ast.alias) for write in writes):
            for value in _bound(self.tracer.variable(owner, name)):
                yield from self._in(value, depth - 1)
        for value in self._put_in_loops(owner, name):
            yield from self._in(value, depth)
        for write in writes:
            if isinstance(write, ast.arg) and depth:
                calls = self.program.flow.callers.get(owner, ())
                given: list[ast.expr | None] = [self.tracer.argument(call, owner, name) for call in calls]
                given += [g for call in calls if _is_rest(owner, name) for g in call.args]
                for value in filter(None, (*given, owner.defaults.get(name))):
                    yield from self._in(value, depth - 1)
            elif isinstance(write, ast.Name):
                statement = self.program.statement(write)
                if isinstance(statement, _ASSIGNMENTS) and statement.value is not None:
                    for value in self._unpacked(write, statement.value) if depth else ():
                        yield from self._in(value, depth - (value is not statement.value))
                elif isinstance(statement, _LOOPS):
                    is_round = self.program.inside(self._path, statement)  # one of all that are there is no free name
                    yield from (c for c in self._in(statement.iter, depth) if not (is_round and self._asks(c)))

    def _unpacked(self, write: ast.Name, value: ast.expr) -> list[ast.expr]:
        """What a name gets of a value: of `path, took = run()`, only what `run` returns at its place, if known."""
        target = self.program.parent(write)
        if not isinstance(target, ast.Tuple):
            return [value]
        called: Iterable[Scope] = self.program.flow.callees.get(value, ()) if isinstance(value, ast.Call) else ()
        given = [value] if isinstance(value, ast.Tuple) else returned(called)
        parts = [_at_place(target, write, each) for each in given]
        found = [part for part in parts if part is not None]
        return found if found and len(found) == len(parts) else [value]

    def _put_in_loops(self, owner: Scope, name: str) -> Iterator[ast.expr]:
        """What loops put into a list: `n` of `for n in os.listdir(out): numbers.append(n)`."""
        for read in self.program.reads_of(owner, name):
            method = self.program.parent(read)
            call = self.program.parent(method) if isinstance(method, ast.Attribute) else None
            if isinstance(call, ast.Call) and call.func is method and self.program.loops_round(call):
                yield from call.args if methods.puts_in(code(method).rpartition(".")[2]) else ()

    def _put_into(self, node: ast.Attribute) -> Iterator[ast.expr]:
        """The values of an attribute; `self._dir` and its property `self.dir` are one, an option has its default."""
        yield from _bound(self.tracer.chains(node))
        owner = ast.unparse(node.value)
        for attribute in (node.attr, f"_{node.attr}"):
            for write in self.program.attribute_writes.get(attribute, ()):
                statement = self.program.statement(write)
                value = statement.value if isinstance(statement, _ASSIGNMENTS) else None
                if value is not None and ast.unparse(write.value) == owner:
                    yield value
        yield from self.tracer.option_values(node.attr)


def _variables_of(place: Value) -> Scope | None:
    """The scope of a module's or class's own variables, which its instances have, too."""
    if isinstance(place, ModuleValue):
        return place.root
    return place.scope if isinstance(place, ClassValue) else place.cls if isinstance(place, Instance) else None


def _bound(chains: Iterable[Chain]) -> Iterator[ast.expr]:
    """The values that are given names on the way."""
    yield from (binding.value for chain in chains for binding in chain if binding.value is not None)


def _at_place(target: ast.Tuple, name: ast.Name, value: ast.expr | None) -> ast.expr | None:
    """The part of a tuple that a name of another gets; None where both are not written out alike."""
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
        return None
    is_known = not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    return value.elts[target.elts.index(name)] if is_known else None


def _is_rest(function: Scope, name: str) -> bool:
    """Whether a parameter gets all further arguments: `*folders`."""
    rest = function.node.args.vararg if isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    return rest is not None and rest.arg == name


def _is_of_a_result(node: ast.expr) -> bool:
    """`now().isoformat().split(".")`, and not `mkstemp()`, of which one part alone is a name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)


def _is_join(called: Iterable[str]) -> bool:
    """Whether a call puts a path together, of which no more than the name is to be agreed on."""
    return any(map(names.ends_like_last, called))
