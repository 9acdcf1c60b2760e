"""The control flow and the definition-use chains of a whole program, with what its calls change in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Effect, Row, Trait
from accelify.codemod.semantics.control_flow import ControlFlow
from accelify.codemod.semantics.definitions import Definition, Definitions, Variable, arguments
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import OWN, UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import FunctionValue, Instance

_WRITTEN_DOWN = frozenset({Effect.WRITES_FILES, Effect.LOGS, Effect.PRINTS})


class Chains:
    """The graphs and definitions of each file, built when they are first asked about."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tracer = program.once(Tracer)
        self.effects = program.once(Effects)
        self.kinds = self.effects.kinds
        self._definitions: dict[str, Definitions] = {}
        self._reaching: dict[ast.expr, frozenset[Definition]] = {}
        self._given: dict[tuple[ast.Call, Scope, str], ast.expr | None] = {}
        self._run: dict[frozenset[Scope], frozenset[Scope]] = {}
        self._changed: dict[ast.Call, list[ast.expr]] = {}
        self._kept_in: dict[Scope, list[tuple[str, str]]] = {}

    def flow(self, node: ast.AST) -> ControlFlow:
        """The control flow of a node's file."""
        return self.program.control_flow(node)

    def facts(self, node: ast.AST) -> Definitions:
        """The definitions of a node's file."""
        path = self.program.path(node)
        if path not in self._definitions:
            plain = self.program.definitions(node)
            self._definitions[path] = plain.changed_by_calls(
                self.changed_by, self._runs, self._held, self._owner_of_part
            )
        return self._definitions[path]

    def definitions(self, read: ast.expr) -> frozenset[Definition]:
        """The definitions that may have given a name, an attribute or an item its value."""
        if read not in self._reaching:
            self._reaching[read] = self._find_reaching(read)
        return self._reaching[read]

    def _find_reaching(self, read: ast.expr) -> frozenset[Definition]:
        found = self.facts(read).definitions(read)
        frame = self.program.frame(read)
        is_local = isinstance(read, ast.Name) and self.program.scope(read).owner(read.id) is frame  # of one call alone
        if is_local and len(found) > 1 and (asked := self._lasting_answers(read)):
            found = frozenset(d for d in found if not self._is_apart(d.node, read, asked))
        if isinstance(read, ast.Attribute) and self.variable(read) == Variable(None, read.attr, is_attribute=True):
            if methods.is_view(read.attr) and not self.program.attribute_writes.get(read.attr):
                return frozenset()  # a tensor's, which is what the tensor is
            if self._is_tensors_method(read):
                return frozenset()
            return frozenset(d for d in found if d.variable.scope is None or self._may_be_of(read.value, d))
        return found

    def _is_apart(self, node: ast.AST, read: ast.expr, asked: Mapping[str, bool]) -> bool:
        """Whether no run comes to two places, as each needs another answer to a question of what is never set anew."""
        if self.program.frame(node) is not self.program.frame(read):
            return False
        answers = self._lasting_answers(node)
        return any(answers.get(question, holds) is not holds for question, holds in asked.items())

    def _lasting_answers(self, node: ast.AST) -> dict[str, bool]:
        """The conditions round a node whose answers last for a call of its function, each with its answer."""
        found: dict[str, bool] = {}
        for branching, holds in self.program.branches_round(node):
            test = branching.test
            while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, holds = test.operand, not holds
            if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
                is_same: ast.cmpop = ast.Is() if isinstance(test.ops[0], ast.IsNot) else ast.Eq()
                test, holds = ast.Compare(test.left, [is_same], test.comparators), not holds
            if self._is_lasting(test, self.program.frame(node)):
                found[ast.unparse(test)] = holds
        return found

    def _is_lasting(self, test: ast.expr, frame: Scope) -> bool:
        """Whether a condition compares an argument that no one sets anew with a constant, or asks an option."""
        if isinstance(test, ast.Compare):
            is_plain = all(isinstance(c, ast.Constant) for c in test.comparators)
            return is_plain and self._is_kept(test.left, frame)
        is_plain = isinstance(test, ast.Attribute) or self.kinds.of(test) <= {"number", "string", "none"}
        return is_plain and self._is_kept(test, frame)

    def _is_kept(self, node: ast.expr, frame: Scope) -> bool:
        """Whether a name is an argument that no one sets anew, or an attribute is one of the command line's options."""
        if isinstance(node, ast.Attribute):
            return self.kinds.of(node.value) == {"namespace"} and not self.program.attribute_writes.get(node.attr)
        owner = frame.owner(node.id) if isinstance(node, ast.Name) else None
        written = self.tracer.writes(owner, node.id) if owner is frame and isinstance(node, ast.Name) else []
        return len(written) == 1 and isinstance(written[0], ast.arg)

    def _is_tensors_method(self, read: ast.Attribute) -> bool:
        """Whether `mean` of `x.mean(1)` is a tensor's, and not what `self.mean = x.mean(1)` sets in an object."""
        call, held = self.program.parent(read), self.program.values(read.value)
        is_called = isinstance(call, ast.Call) and call.func is read and methods.is_of("tensor", read.attr)
        return is_called and not any(isinstance(v, Instance) for v in held)

    def _may_be_of(self, owner: ast.expr, definition: Definition) -> bool:
        """Whether an object may be of the class to whose `self` a definition gives an attribute: no options are."""
        kinds, cls = self.kinds.of(owner), definition.variable.scope
        if UNKNOWN not in kinds and OWN not in kinds:
            return False
        held = self.program.values(owner)
        classes = [v.cls for v in held if isinstance(v, Instance)]
        if cls is None or not held or len(classes) < len(held):
            return True
        return any(self.are_relatives(c, cls) for c in classes)

    def are_relatives(self, cls: Scope, other: Scope) -> bool:
        """Whether an object of one class may have the attributes that methods of another set."""
        return not self._relatives(cls).isdisjoint(self._relatives(other))

    def _relatives(self, cls: Scope) -> set[Scope]:
        return {cls, *self.program.flow.ancestors(cls), *self.program.flow.descendants(cls)}

    def variable(self, node: ast.expr) -> Variable | None:
        """The variable that a name or an attribute refers to."""
        return self.facts(node).variable(node)

    # Changes by calls.

    def changed_by(self, call: ast.Call) -> list[ast.expr]:
        """The arguments, and the object of a method, that a call may change in place."""
        if call not in self._changed:
            changed = dict.fromkeys(map(self._holder, self.changes(call)))
            self._changed[call] = [node for node in changed if self.kinds.of(node) != {"number"}]
        return self._changed[call]

    def changes(self, call: ast.Call) -> Iterator[ast.expr]:
        """The same as they are written: `x.data` and not `x`."""
        callees = self.program.flow.callees.get(call, set())
        for callee in sorted(callees, key=lambda s: s.qualified_name):
            for name in self.filled_parameters(callee):
                given = self.given(call, callee, name)
                if given is not None and self.program.path(given) == self.program.path(call):  # no other file's default
                    yield given
        if callees:
            return
        owner = self._owner(call)
        if self.is_unknown(call):
            gives_nothing = isinstance(self.program.parent(call), ast.Expr)
            if owner is not None and gives_nothing and not methods.only_writes_down(_name(call)):
                yield owner  # what is a method for that is not known, and gives nothing, if not to change its object?
            return
        for row in self.kinds.called(call) or ():
            yield from self._by_row(row, call, owner)

    def is_unknown(self, call: ast.Call) -> bool:
        """Whether it is not known what a call changes: it may be one of an object of any kind."""
        if self.program.flow.callees.get(call):
            return False
        rows, owner = self.kinds.called(call), self._owner(call)
        is_one_of_many = owner is not None and UNKNOWN in self.kinds.of(owner)
        return rows is None or (is_one_of_many and not all("self" in r.mutates for r in rows))

    def _holder(self, node: ast.expr) -> ast.expr:
        """The object that owns the object a method has returned: `rows` of `rows.setdefault(k, [])`, `x.mul_(2)`.

        Also the tensor of its `data`.
        """
        while True:
            owner = self._owner_of_result(node) if isinstance(node, ast.Call) else self._viewed(node)
            if owner is None:
                return node
            node = owner

    def _owner_of_part(self, changed: ast.expr) -> ast.expr:
        """What owns a part that is changed, where a method gave it: `rows` of `rows.setdefault(k, {})["loss"] = x`."""
        part = changed
        while isinstance(part, (ast.Attribute, ast.Subscript, ast.Starred)):
            part = part.value
        return self._holder(part) if isinstance(part, ast.Call) else changed

    def _owner_of_result(self, call: ast.Call) -> ast.expr | None:
        rows = self.kinds.called(call) or ()
        is_other = any(r.returns not in (None, "self", "argument") and not r.has(Trait.VIEW) for r in rows)
        return None if is_other or self.program.flow.callees.get(call) else self._owner(call)

    def _viewed(self, node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Attribute) or not methods.is_view(node.attr):
            return None
        held = self.kinds.of(node.value)
        return node.value if held and held <= {"tensor", "parameter"} else None

    def _owner(self, call: ast.Call) -> ast.expr | None:
        """The object whose method a call runs."""
        function = call.func
        if not isinstance(function, ast.Attribute) or self.kinds.name_of(function):
            return None
        is_named = bool(self.program.externals(function.value))
        return None if is_named else function.value

    def _by_row(self, row: Row, call: ast.Call, owner: ast.expr | None) -> Iterator[ast.expr]:
        keywords = {k.arg: k.value for k in call.keywords}
        first = [owner] if owner is not None else call.args[:1]
        for which in row.mutates:
            if which == "self":
                yield from [owner] if owner is not None else []
            elif which.isdigit():
                yield from call.args[int(which) : int(which) + 1]
            elif which in keywords:
                yield keywords[which]
        if row.has(Trait.IN_PLACE_OPTION) and "inplace" in keywords and ast.unparse(keywords["inplace"]) != "False":
            yield from first
        if "out" in keywords and (row.has(Trait.OUT_OPTION) or row.returns in ("tensor", "ndarray")):
            yield keywords["out"]

    def filled_parameters(self, function: Scope) -> list[str]:
        """The parameters of a function whose objects it changes in place."""
        places = self.effects.of_function(function).writes
        return sorted({p.name for p in places if p.scope is function and p.path})

    def given(self, call: ast.Call, callee: Scope, name: str) -> ast.expr | None:
        """The argument of a call for a parameter; the object itself for that of a method."""
        key = (call, callee, name)
        if key not in self._given:
            self._given[key] = self._find_given(*key)
        return self._given[key]

    def _find_given(self, call: ast.Call, callee: Scope, name: str) -> ast.expr | None:
        first = callee.parameters[:1]
        is_bound = callee.is_method and not callee.is_static and not self._is_unbound(call)
        if is_bound and first and first[0].arg == name:
            if any(isinstance(v, Instance) for v in self.program.values(call.func)):
                return call.func  # `meter(x)`
            if isinstance(call.func, ast.Attribute):
                return call.func.value
        return self.tracer.given(call, callee, name)

    @staticmethod
    def unnamed(call: ast.Call) -> list[ast.expr]:
        """What a parameter that `given` does not know may hold: what `*values` and `**named` do, or any argument."""
        spread = [a.value for a in call.args if isinstance(a, ast.Starred)]
        spread += [k.value for k in call.keywords if k.arg is None]
        return spread or [*call.args, *(k.value for k in call.keywords)]

    def _is_unbound(self, call: ast.Call) -> bool:
        """Whether a method is called on its class, with the object as an argument."""
        values = [v for v in self.program.values(call.func) if isinstance(v, FunctionValue)]
        return bool(values) and all(v.owner is None for v in values)

    def _held(self, call: ast.Call, changed: ast.expr) -> list[ast.expr]:
        """The arguments that an object which a call changes may hold, and change later: no numbers.

        A file or a log has only written them down, a tensor has only taken their values.
        """
        callees, rows = self.program.flow.callees.get(call, ()), self.kinds.called(call)
        held = [node for callee in callees for node in self._kept_for(call, callee, changed)]
        if not callees:
            held = arguments(call) if rows is None else [node for row in rows for node in self._kept_by(row, call)]
        return [node for node in held if self.kinds.of(node) != {"number"}]

    def _kept_for(self, call: ast.Call, callee: Scope, changed: ast.expr) -> Iterator[ast.expr]:
        """The arguments of a call that a function keeps in the object that another of them gives; defaults are none."""
        for held, holder in self._kept(callee):
            outer, inner = self.given(call, callee, holder), self.given(call, callee, held)
            if outer is not None and inner in arguments(call) and self._holder(outer) is changed:
                yield inner

    def _kept(self, function: Scope) -> list[tuple[str, str]]:
        if function not in self._kept_in:
            self._kept_in[function] = []  # while it is looked at
            calls = [c for scope in function.walk() for c in self.program.calls_in(scope)]
            by_calls = (
                (held, changed) for c in calls for changed in self.changed_by(c) for held in self._held(c, changed)
            )
            self._kept_in[function] = sorted(self.program.definitions(function.node).kept(function, by_calls))
        return self._kept_in[function]

    @staticmethod
    def _kept_by(row: Row, call: ast.Call) -> list[ast.expr]:
        if not row.keeps or row.effects & _WRITTEN_DOWN or row.device is not None:
            return []
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return arguments(call)
        given = (call.args[int(n)] for n in row.keeps if n.isdigit() and int(n) < len(call.args))
        return [*given, *(k.value for k in call.keywords)]

    def _runs(self, call: ast.Call | None) -> frozenset[Scope]:
        """The functions that a call may run, and all that these may run; for None, what runs where no call names it."""
        if call is None:
            return self.program.run_unnamed
        run = set(self.program.flow.callees.get(call, set()))
        for given in [*call.args, *(k.value for k in call.keywords)]:
            run |= {v.scope for v in self.program.values(given) if isinstance(v, FunctionValue)}
        key = frozenset(run)
        if key not in self._run:
            self._run[key] = frozenset(self.program.run_from(key))
        return self._run[key]


def _name(call: ast.Call) -> str:
    """The name of the function or method that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
