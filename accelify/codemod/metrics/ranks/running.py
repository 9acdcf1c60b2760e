"""Which values change from round to round of a sharded loop: each rank has then a value of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.metrics.ranks.shards import Loop, Shards
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, worlds_where
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import Generated, Instance

_OF_CONTEXTS = ("__enter__", "__exit__")


class Running:
    """Find out of definitions whether they change a running value, and in which loop."""

    def __init__(self, chains: Chains, shards: Shards) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.shards = shards
        self.rounds = {*shards.loops, *shards.rounds}
        self._running: dict[Definition, Loop | None] = {}
        self._run_by: dict[ast.AST, set[Scope]] = {}

    def is_of_others(self, definition: Definition) -> bool:
        """Whether the variable belongs to no function, or to another than the one that defines it."""
        variable = definition.variable
        if variable.is_attribute or variable.scope is None:
            return not self._is_self(variable, definition.node)
        return variable.scope.frame is not self.program.frame(definition.node)

    def _is_self(self, variable: Variable, node: ast.AST) -> bool:
        """Whether an attribute is one of the object whose method holds a node."""
        return variable.scope is not None and self.program.frame(node).is_method

    def is_of_a_number(self, definition: Definition) -> bool:
        """Whether `x += 1` would change an object that another variable has, too, but binds `x` to another number."""
        node = definition.node
        is_augmented = isinstance(self.program.parent(node), ast.AugAssign)
        if definition.kind is not Kind.IN_PLACE or not is_augmented or not isinstance(node, ast.Name):
            return False
        made = (d for d in self.chains.definitions(node) if d.kind is Kind.ASSIGNMENT)
        values = [v for d in made if (v := self.program.assigned(d.node)[0]) is not None]
        parts = (p for v in values for p in ([v.body, v.orelse] if isinstance(v, ast.IfExp) else [v]))
        return any(self.chains.kinds.of(part) == {"number"} or self._is_option(part) for part in parts)

    def _is_option(self, node: ast.expr) -> bool:
        """`args.steps`, which the command line gives: a number, or a text."""
        return isinstance(node, ast.Attribute) and self.is_options(node.value)

    def _find_running(self, definition: Definition) -> Loop | None:
        if definition.kind not in (Kind.ASSIGNMENT, Kind.AUGMENTED, Kind.IN_PLACE) or self.is_of_a_number(definition):
            return None
        node = definition.node
        if definition.kind is Kind.ASSIGNMENT and not self._reads_itself(definition):
            return None
        if definition.kind is Kind.IN_PLACE and self._moves_on(node):
            return None
        if definition.kind is Kind.IN_PLACE and (self._is_replaced(node) or self._is_of_a_batch(definition)):
            return None
        if definition.kind is Kind.IN_PLACE and self.keeps_values(node, definition.variable):
            return None
        if definition.kind is Kind.IN_PLACE and self._sets_anew(node, definition.variable):
            return None
        around = [loop for loop in self.program.loops_round(node) if loop in self.rounds]
        if around:
            return None if self._begins_anew(definition, around[0]) else around[0]
        loop = self.loop_that_runs(self.program.frame(node)) if self._outlives_its_function(definition) else None
        if loop is None or self._is_replaced_before(definition, loop):
            return None
        return None if self._begins_anew(definition, self.program.frame(node).node) else loop

    def _moves_on(self, node: ast.AST) -> bool:
        """Whether `next(batches)` asks what reads a loader (a generator, a prefetcher): its place in that changes."""
        asked = self.program.values(self.program.iterator(node))
        made = [v.scope if isinstance(v, Generated) else v.cls for v in asked if isinstance(v, (Generated, Instance))]
        read = (n for each in made for n in walk(each.node) if isinstance(n, (ast.Name, ast.Attribute)))
        return any(map(self.shards.is_loader, read))

    def _is_replaced_before(self, definition: Definition, loop: Loop) -> bool:
        """Whether each round of a loop gives an attribute another value, before it calls what changes that."""
        frame, flow = self.program.frame(definition.node), self.program.flow
        calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
        changing = [c for c in calls if frame in self.program.run_through([c])]
        givers = {c: flow.callees.get(c, ()) for c in calls if self.program.statement(c) in loop.body}
        begins: list[ast.AST] = [c for c, run in givers.items() if any(self._gives(f, definition) for f in run)]
        begins += [d.node for d in self.chains.facts(loop).all_of(definition.variable) if self._begins(d, definition)]
        begins = [n for n in begins if self.program.inside(n, loop)]
        return bool(begins and changing) and all(self.chains.flow(loop).is_covered(begins, c) for c in changing)

    def _gives(self, function: Scope, changed: Definition) -> bool:
        """Whether a function always gives an attribute another value: `self.hidden = zeros()`."""
        every = self.chains.facts(function.node).all_of(changed.variable)
        begins = (d.node for d in every if self._begins(d, changed))
        return any(self.program.statement(n) in function.body for n in begins)

    def _begins(self, definition: Definition, changed: Definition) -> bool:
        is_another = definition.kind is Kind.ASSIGNMENT and definition != changed
        return is_another and not self._reads_itself(definition)

    def _is_of_a_batch(self, definition: Definition) -> bool:
        """Whether a call changes what each round of its loop begins anew, and another object only if that holds it."""
        node = definition.node
        around = next((n for n in self.program.loops_round(node) if n in self.rounds), None)
        if not isinstance(node, ast.Call) or around is None:
            return False
        roots = {self.root(changed) for changed in self.chains.changed_by(node)}
        if definition.variable in roots:
            return False
        others = (d for d in self.chains.facts(node).at(node) if d.variable in roots)
        return any(self._begins_anew(other, around) for other in others)

    def root(self, node: ast.expr) -> Variable | None:
        """The variable, or the attribute, whose object an expression is a part of."""
        while isinstance(node, (ast.Subscript, ast.Attribute)) and self.chains.variable(node) is None:
            node = node.value
        return self.variable_of(node)

    def _outlives_its_function(self, definition: Definition) -> bool:
        """Whether the variable is an attribute that the definition names, or of an enclosing scope."""
        variable = definition.variable
        if not variable.is_attribute:
            return self.is_of_others(definition) or self._is_of_default(definition)
        is_named = any(isinstance(n, ast.Attribute) and n.attr == variable.name for n in walk(definition.node))
        return is_named and (variable.scope is not None or not self._is_of_parameter(definition.node))

    def _is_of_default(self, definition: Definition) -> bool:
        """Whether the object that is changed may be a parameter's default, one for all calls: `def f(x, seen=[])`."""
        function, name = definition.variable.scope, definition.variable.name
        default = function.defaults.get(name) if function is not None and definition.kind is Kind.IN_PLACE else None
        if function is None or default is None or isinstance(default, ast.Constant):
            return False
        return any(self.chains.given(call, function, name) is default for call in self.program.calls_of(function))

    def _is_of_parameter(self, node: ast.AST) -> bool:
        """Whether a place is in what a function is given: then its callers know whether that outlives the batch."""
        target = node
        while isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred, ast.Call)):
            target = target.func if isinstance(target, ast.Call) else target.value
        owner = self.program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        return owner is not None and owner.kind != "module" and owner.kind != "class"

    def loop_of(self, node: ast.AST) -> Loop | None:
        """The sharded loop in which a definition at a node changes a value from round to round."""
        found = (self.loop_in(d) for d in self.chains.facts(node).at(node))
        return next((loop for loop in found if loop is not None), None)

    def replaces_values(self, definition: Definition) -> bool:
        """Whether a variable's object gets other values in place: `x.data = y`, `x.copy_(y)`, `x[0] = y`.

        Not one that only holds the object that does.
        """
        node = definition.node
        if definition.kind is not Kind.IN_PLACE or not self._is_replaced(node):
            return False
        if isinstance(node, ast.Call):
            return definition.variable in map(self.root, self.chains.changed_by(node))
        is_of_it = isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and methods.is_view(node.attr))
        return is_of_it and self.root(node.value) == definition.variable  # type: ignore[attr-defined]  # has an owner

    def _is_replaced(self, node: ast.AST) -> bool:
        """Whether a change of an object gives all or one part of it other values: `x.copy_(y)`, `log["x"] = x`.

        So does one that only shapes it for them: `x.resize_(n)`.
        """
        parent = self.program.parent(node)
        if isinstance(node, ast.Call):
            rows = self.chains.kinds.called(node) or ()
            return bool(rows) and all(row.has(Trait.REPLACES) or row.has(Trait.SAME_VALUES) for row in rows)
        if isinstance(parent, ast.AugAssign) or not isinstance(node, (ast.Attribute, ast.Subscript)):
            return False
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant) and not self._is_filled(node):
            return False
        if self._is_in_another_part(node):
            return False
        value, text, holder = self.program.assigned(node)[0], ast.unparse(node), ast.unparse(node.value)
        parts = [n for n in walk(value) if isinstance(n, ast.expr)] if value is not None else []
        asked = [n.func.value for n in parts if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        return all(ast.unparse(n) != text for n in parts) and all(ast.unparse(n) != holder for n in asked)

    def _is_in_another_part(self, node: ast.Attribute | ast.Subscript) -> bool:
        """Whether each round has another object for a place: `rows[n]["x"] = y`, where the loop counts `n`."""
        around = next((n for n in self.program.loops_round(node) if n in self.rounds), None)
        return around is not None and any(
            not self._is_one_choice(part.slice, around) and not self._is_filled(part)
            for part in _parts_above(node.value)
        )

    def _is_filled(self, node: ast.Subscript) -> bool:
        """Whether each round begins to fill a buffer anew: `x[:n] = y`, or `x[j] = y` in a loop over `range(n)`."""
        if _from_start(node.slice) or not isinstance(node.slice, ast.Name):
            return _from_start(node.slice)
        loop = self.program.parent(self.program.statement(node))
        if not isinstance(loop, ast.For) or loop in self.rounds or not isinstance(loop.iter, ast.Call):
            return False
        first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
        counter = "enumerate" if first is not loop.target else "range"
        is_from_start = len(loop.iter.args) == 1 and not loop.iter.keywords
        is_number = isinstance(first, ast.Name) and first.id == node.slice.id
        return is_number and is_from_start and counter in self.program.called(loop.iter)

    def keeps_values(self, node: ast.AST, variable: Variable | None, depth: int = 3) -> bool:
        """Whether a call only moves the object of a variable, switches its mode or has it draw: `to_gpu(x)`."""
        if not isinstance(node, ast.Call) or not depth:
            return False
        callees = self.program.flow.callees.get(node, ())
        if not callees:
            rows = self.chains.kinds.called(node) or ()
            is_draw = bool(rows) and all(Effect.DRAWS_GIVEN in r.effects and r.mutates == ("self",) for r in rows)
            return is_draw or bool(_set_by(node))
        filled = self._filled(node, variable)
        return bool(filled) and all(self._keeps_parameter(f, name, depth - 1) for f, name in filled)

    def _filled(self, call: ast.Call, variable: Variable | None) -> list[tuple[Scope, str]]:
        """The functions that a call runs to change the object of a variable, with the parameter that it is there."""
        callees = self.program.flow.callees.get(call, ())
        given = (
            (f, name, self.chains.given(call, f, name)) for f in callees for name in self.chains.filled_parameters(f)
        )
        return [(f, name) for f, name, node in given if node is not None and self.root(node) == variable]

    def _sets_anew(self, node: ast.AST, variable: Variable | None) -> bool:
        """Whether a call only gives attributes of an object other values, and nothing reads what they had before."""
        filled = self._filled(node, variable) if isinstance(node, ast.Call) else []
        return bool(filled) and all(self._replaces_attributes(f, name, node) for f, name in filled)

    def _replaces_attributes(self, function: Scope, name: str, call: ast.AST) -> bool:
        """Whether a function changes an argument by `self.loss = x` alone, and `self.loss` is read after that only."""
        calls = self.program.calls_in(function)
        by_calls = (_first_name(n) for c in calls for n in (*self.chains.changed_by(c), *_set_by(c)))
        parts = [n for n in walk(function.node) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == name]
        stores = [
            n for n in parts if isinstance(n.ctx, ast.Store) and isinstance(self.program.statement(n), ast.Assign)
        ]
        other = (n for n in _stored_or_renamed(function.node) if n not in stores and _first_name(n) == name)
        if name in by_calls or any(other):
            return False
        flow, replaced = self.chains.flow(function.node), {n.attr for n in stores}
        reads = (n for n in parts if n.attr in replaced and n not in stores)
        is_first = all(flow.is_covered(self._before(n, stores), n) for n in reads)
        return is_first and all(self._is_read_after(call, store, function) for store in stores)

    def _is_read_after(self, call: ast.AST, store: ast.Attribute, function: Scope) -> bool:
        """Whether other functions read an attribute only where a call of this round has set it."""
        around: ast.AST | None = next((n for n in self.program.loops_round(call) if n in self.rounds), None)
        run, variable = around or self.program.frame(call).node, self.chains.variable(store)
        if variable is None:
            return False
        named = (n for n in self.program.attribute_reads.get(store.attr, ()) if self.program.frame(n) is not function)
        reads = [n for n in named if (read := self.chains.variable(n)) is None or read.scope in (None, variable.scope)]
        return all(self.program.inside(n, run) and self.chains.flow(run).is_covered([call], n) for n in reads)

    def _before(self, read: ast.Attribute, stores: Iterable[ast.Attribute]) -> list[ast.AST]:
        """The places that give an attribute a value in other statements than that of a read."""
        here = self.program.statement(read)
        return [n for n in stores if n.attr == read.attr and self.program.statement(n) is not here]

    def _keeps_parameter(self, function: Scope, name: str, depth: int) -> bool:
        """Whether a function changes an argument by such calls alone, or by `self.w = self.w.to(x)`."""
        calls = self.program.calls_in(function)
        changed = ((c, node) for c in calls for node in (*self.chains.changed_by(c), *_set_by(c)))
        changes = [(c, node) for c, node in changed if _first_name(node) == name]
        stored = [node for node in _stored_or_renamed(function.node) if _first_name(node) == name]
        if not (changes or stored) or not all(map(self._is_moved, stored)):
            return False
        return all(self.keeps_values(c, self.root(node), depth) for c, node in changes)

    def _is_moved(self, target: ast.expr) -> bool:
        """Whether an assignment gives a place its own values in another type, or on another device."""
        value = self.program.assigned(target)[0] if isinstance(target, ast.Attribute) else None
        if value is None or value is target:
            return False
        return ast.unparse(target) == ast.unparse(self._without_moves(value))

    def loop_that_runs(self, frame: Scope) -> Loop | None:
        """A sharded loop whose rounds call a function, themselves or through others."""
        for loop in (*self.shards.loops, *self.shards.rounds):
            if loop not in self._run_by:
                calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
                self._run_by[loop] = self.program.run_through(calls) | self.program.run_from(self._contexts(loop))
            if frame in self._run_by[loop]:
                return loop
        return None

    def _contexts(self, loop: Loop) -> Iterator[Scope]:
        """The methods that the `with` statements of a loop's rounds run: `__enter__`, `__exit__`."""
        items = [n for s in loop.body for n in walk(s) if isinstance(n, ast.withitem)]
        held = {v.cls for i in items for v in self.program.values(i.context_expr) if isinstance(v, Instance)}
        yield from (
            m for cls in held for name in _OF_CONTEXTS if (m := self.program.flow.method(cls, name)) is not None
        )

    def _reads_itself(self, definition: Definition) -> bool:
        """Whether an assignment gives a variable a value that is made from its last one."""
        value = self.program.assigned(definition.node)[0]
        value = self._without_moves(value) if value is not None else None  # `x = x.to(device)` is what it was
        if value is None or self._names_variable(value, definition.variable):
            return False
        return self._is_made_from(value, definition, set())

    def _without_moves(self, value: ast.expr) -> ast.expr:
        """`x` of `x.to(device)`, of `x.float().cpu()` and of `torch.from_numpy(x).type(dtype)`."""
        while isinstance(value, ast.Call):
            rows = self.chains.kinds.called(value) or ()
            of_a_function = self.chains.kinds.method(value) is None and bool(value.args)
            if of_a_function and rows and all(row.has(Trait.SAME_VALUES) for row in rows):
                value = value.args[0]
            elif isinstance(value.func, ast.Attribute) and _only_moves(value.func.attr):
                value = value.func.value
            else:
                break
        return value

    def _is_made_from(self, value: ast.expr, definition: Definition, seen: set[Definition]) -> bool:
        """Whether a value is made from what a definition gives; what an attribute keeps, by local variables, too.

        So is `hidden` of `out, hidden = self.rnn(x, self.hidden)`, of which `self.hidden = hidden.detach()` is made.
        """
        frame, is_kept = self.program.frame(definition.node), definition.variable.is_attribute
        for read in walk(value):
            found = self.chains.definitions(read) if _is_read(read) else ()
            if definition in found:
                if not self._is_set_in_call(read, found):
                    return True
                continue
            local = [d for d in found if is_kept and d.kind is Kind.ASSIGNMENT and d not in seen]
            seen.update(local)
            for each in local:
                made = self.program.assigned(each.node)[0] if self.program.frame(each.node) is frame else None
                if made is not None and self._is_made_from(made, definition, seen):
                    return True
        return False

    def _is_set_in_call(self, read: ast.AST, found: Iterable[Definition]) -> bool:
        """Whether a function, all in one round, sets an attribute before it reads it: no earlier call's value is read.

        Not by the statement of the read itself, but by one that came before.
        """
        frame = self.program.frame(read)
        if not frame.is_function or any(n in self.rounds for n in self.program.loops_round(read)):
            return False
        here = self.program.statement(read)
        kept = [d.node for d in found if d.variable.is_attribute and d.kind is Kind.ASSIGNMENT]
        before = [n for n in kept if self.program.frame(n) is frame and self.program.statement(n) is not here]
        return bool(before) and self.chains.flow(frame.node).is_covered(before, read)

    def _names_variable(self, node: ast.expr, variable: Variable) -> bool:
        return isinstance(node, (ast.Name, ast.Attribute)) and self.chains.variable(node) == variable

    def _begins_anew(self, definition: Definition, run: ast.AST) -> bool:
        """Whether each round of a loop, or call of a function, gives a variable a new value before it is changed."""
        begins = [
            other.node
            for other in self.chains.facts(run).all_of(definition.variable)
            if other.kind not in (Kind.IN_PLACE, Kind.AUGMENTED, Kind.PARAMETER)
            and other != definition
            and self.program.inside(other.node, run)
            and not self._reads_itself(other)
        ]
        if bool(begins) and self.chains.flow(run).is_covered(begins, definition.node):
            return True
        every = [d.node for d in self.chains.facts(run).all_of(definition.variable)]
        return isinstance(run, LOOPS) and self.is_set_in_each_round(definition.node, begins, every, run)

    def is_set_in_each_round(
        self, read: ast.AST, begins: Sequence[ast.AST], every: Iterable[ast.AST], loop: Loop | ast.While
    ) -> bool:
        """Whether a variable has a value of this round, as the first round, which has no other, sets it as all do.

        `if args.kind == "a": loss = f(x)`, or another branch does, in a loop before which there is no `loss`. Branches
        in that one which all set it may be taken by anything.
        """
        around = [b for n in begins for b, _ in self.program.branches_round(n) if self.program.inside(b, loop)]
        if not begins or any(self.program.inside(b, loop) for b, _ in self.program.branches_round(read)):
            return False
        passed = [*begins, loop.test if isinstance(loop, ast.While) else loop.target]
        return all(self.program.inside(node, loop) for node in every) and all(
            self._is_one_choice(b.test, loop) or not self.chains.flow(loop).reaches(b.test, read, without=passed)
            for b in dict.fromkeys(around)
        )

    def _is_one_choice(self, test: ast.expr, loop: ast.AST) -> bool:
        """Whether a condition is of options, the machine and names that a loop does not set: one for all rounds."""
        conditions = self.program.once(Conditions)
        if all(conditions.truth_in(test, worlds_where(has_gpu=each)) is not None for each in (False, True)):
            return True
        nodes, bound = list(walk(test)), {n.id for n in walk(loop) if isinstance(n, ast.Name) and _is_store(n)}
        attributes = (n for n in nodes if isinstance(n, ast.Attribute) and not self.is_options(n.value))
        is_known = not any(self.program.attribute_writes.get(n.attr) for n in attributes)
        return is_known and not names_in(test) & bound and not any(isinstance(n, ast.Call) for n in nodes)

    def loop_in(self, definition: Definition) -> Loop | None:
        """The sharded loop in which a definition changes a value from round to round, if it does."""
        if definition not in self._running:
            self._running[definition] = self._find_running(definition)
        return self._running[definition]

    def is_options(self, node: ast.expr) -> bool:
        """Whether an expression is an object that has the attributes that were put into it, and no more."""
        return self.chains.kinds.of(node) == {"namespace"}

    def variable_of(self, node: ast.expr) -> Variable | None:
        return self.chains.variable(node) if isinstance(node, (ast.Name, ast.Attribute)) else None


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _set_by(call: ast.Call) -> list[ast.expr]:
    """What a call moves, or puts into another mode: `x.cuda()`, `model.eval()`."""
    if not isinstance(call.func, ast.Attribute):
        return []
    is_one = methods.moves(call.func.attr) or methods.switches_mode(call.func.attr)
    return [call.func.value] if is_one else []


def _stored_or_renamed(function: ast.AST) -> Iterator[ast.expr]:
    """What a function stores something in, or gives another name."""
    for node in walk(function):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            yield node
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
            yield node.value


def _only_moves(method: str) -> bool:
    return methods.keeps_values(method) or methods.moves(method)


def _is_read(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    return isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)


def _first_name(node: ast.expr) -> str:
    """`x` of `x.data[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _parts_above(node: ast.expr) -> Iterator[ast.Subscript]:
    """The subscripts that an expression is made of, the last first: `a[i][j]` and `a[i]` of `a[i][j].x`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript):
            yield node
        node = node.value


def _from_start(node: ast.expr) -> bool:
    """`:` and `:n`, of a buffer that is filled anew; not `i:i + n`, of one that is filled bit by bit."""
    return isinstance(node, ast.Slice) and node.lower is None and node.step is None
