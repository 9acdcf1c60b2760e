"""Which lists does a loop over shared data fill, so that they can be gathered after it?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Rows
from accelify.codemod.metrics.ranks.expressions import is_self
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.reports import updated_text
from accelify.codemod.metrics.rows.elements import Elements
from accelify.codemod.metrics.rows.places import holder_of, made_at, reads_at
from accelify.codemod.metrics.sums.reductions import Sums
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.training.harmless import Harmless

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True)
class Collected:
    """A list that is gathered after its loop.

    per: what each element stands for, None where that may vary. trimmed: what is put into it of a batch's rows, from
    which those have to be left out that are repeated to fill a step. lengths: the numbers of one process's batches that
    divide its sum.
    """

    name: str
    per: str | None
    is_of_numbers: bool
    trimmed: ast.expr | None = None
    lengths: tuple[ast.expr, ...] = ()


@dataclass(frozen=True, slots=True)
class _Addition:
    """What puts a value at the end of a list or array: `rows.append(x)`, `a = a + [x]`, `a = np.append(a, x)`.

    name: the list, `self.rows` or `logs["loss"]`. holder: the variable or attribute that it is, or that holds it.
    of_rows: whether what the value holds is put there one by one: `rows.extend(y.tolist())`.
    """

    statement: ast.stmt
    holder: ast.Name | ast.Attribute
    name: str
    value: ast.expr
    of_rows: bool = False


class Lists:
    """Find lists of what differs between processes that can be gathered after their loop, to be as in one process.

    They get a number or an array for each batch, of which the mean is read; or each row of a batch, for a metric.
    """

    def __init__(self, program: Program, tracer: Tracer, harmless: Harmless, sums: Sums) -> None:
        self.program = program
        self.tracer = tracer
        self.harmless = harmless
        self.sums = sums
        self.chains = program.once(Chains)

    def of(self, loop: Loop, before: list[ast.stmt]) -> tuple[Collected, ...]:
        """The lists of a loop; `before` are the statements that are run once before it."""
        if self._ends(loop) or self._is_over_several(loop):
            return ()
        additions = {each[0].name: each for each in self._added(loop.body)}
        every = [one for each in additions.values() for one in each]
        begins = [each for each in additions.values() if self._begins(each[0], every, loop, before)]
        found = {each[0].name: c for each in begins if (c := self._collected_by_all(each, loop)) is not None}
        rows = {name: additions[name] for name, each in found.items() if not self._is_of_means(each)}
        gathered = [one.statement for name in found for one in additions[name]]
        apart = rows.keys() - self._together(rows, gathered, loop) if rows else set()
        return tuple(each for name, each in found.items() if name not in apart)

    def _added(self, body: list[ast.stmt]) -> Iterator[tuple[_Addition, ...]]:
        """What each round puts at the end of lists: one addition, or one of those in the branches of an `if`."""
        for statement in statements_of_each_round(body):
            if isinstance(statement, ast.If):
                first, other = ({a[0].name: a for a in self._added(b)} for b in (statement.body, statement.orelse))
                yield from ((*first[name], *other[name]) for name in first if name in other)
            elif (one := self._addition(statement)) is not None:
                yield (one,)

    def elements(self, loop: Loop) -> Elements:
        """What the values of a loop are."""
        return Elements(self.program, self.tracer, self.harmless, loop)

    def _is_over_several(self, loop: Loop) -> bool:
        """Whether a loop goes over no one loader or sharded sequence: `zip(these, those)`, a call that is unknown."""
        if self.sums.prepared.is_sharded_sequence(loop):
            return self.sums.only_if(loop) is not None
        source = self.tracer.inside(loop.iter)
        values = self.program.values(source)
        return isinstance(source, ast.Call) and not (values and all(map(self.harmless.roles.is_loader, values)))

    def _addition(self, statement: ast.stmt) -> _Addition | None:
        """What a statement puts at the end of a variable's list or array, if it does."""
        value = getattr(statement, "value", None)
        place: ast.expr | None
        one: ast.expr | None
        of_rows = not isinstance(statement, ast.Expr)
        if isinstance(statement, ast.AugAssign):
            place, one = statement.target, value if isinstance(statement.op, ast.Add) else None
        elif isinstance(statement, ast.Assign):
            place, one = self._joined(value)
            if [ast.unparse(target) for target in statement.targets] != [place and ast.unparse(place)]:
                return None
        elif not isinstance(value, ast.Call):
            return None
        else:
            is_put_in = isinstance(value.func, ast.Attribute) and methods.extends(value.func.attr)
            of_rows = is_put_in and isinstance(value.func, ast.Attribute) and value.func.attr != "append"
            place, one = (
                getattr(value.func, "value", None),
                value.args[0] if is_put_in and len(value.args) == 1 else None,
            )
        if of_rows and isinstance(one, ast.List):
            one, of_rows = one.elts[0] if len(one.elts) == 1 else None, False
        holder = holder_of(place)
        is_whole = isinstance(statement, ast.Assign) and place is not holder
        if holder is None or place is None or one is None or is_whole:
            return None
        return _Addition(statement, holder, ast.unparse(place), one, of_rows)

    def _joined(self, call: ast.expr | None) -> tuple[ast.expr, ast.expr] | tuple[None, None]:
        """The two parts of `rows + y.tolist()`, of `np.append(losses, x)` and of `np.hstack((losses, x))`."""
        if isinstance(call, ast.BinOp) and isinstance(call.op, ast.Add):
            return call.left, call.right
        if not isinstance(call, ast.Call):
            return None, None
        rows = self.chains.kinds.called(call)
        if not rows or any(row.rows is not Rows.CONCATENATES for row in rows) or call.keywords:
            return None, None
        first = call.args[0] if len(call.args) == 1 else None
        parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else call.args
        return (parts[0], parts[1]) if len(parts) == 2 else (None, None)

    def _ends(self, loop: Loop) -> bool:
        """Whether a round may be the last, or may end early."""
        for node in walk(loop):
            if isinstance(node, (ast.Return, ast.Raise)):
                return True
            if isinstance(node, (ast.Break, ast.Continue)) and self.program.loops_round(node)[0] is loop:
                return True
        return False

    def _begins(self, each: _Addition, additions: Iterable[_Addition], loop: Loop, before: list[ast.stmt]) -> bool:
        """Whether a list is empty just before a loop, and nothing else changes it in its rounds."""
        facts, frame, variable = self.chains.facts(loop), self.program.frame(loop), self.chains.variable(each.holder)
        is_own = isinstance(each.holder, ast.Name) or is_self(self.program, each.holder.value)
        if variable is None or not is_own or variable.scope not in (frame, variable.is_attribute and frame.parent):
            return False
        every = facts.all_of(variable)
        inside = {d for d in every if self.program.in_rounds(d.node, loop)}
        beside = [a.statement for a in additions if self.chains.variable(a.holder) == variable]
        begun = self.sums.given_here(variable, set(facts.definitions(each.holder)) - inside, loop)
        first = self.sums.first_of(begun, inside, loop, lambda d: self._is_begun(d, each))
        changing = [s for d in inside if not _goes_back(s := self.program.statement(d.node))]
        if first is None or any(statement not in beside for statement in changing):
            return False
        is_again = self.program.frame(first.node) is frame and self.program.is_after(first.node, loop)
        if self.program.statement(first.node) not in before and not is_again:
            return False
        reads = self.sums.uses.reads_of(variable)
        others = [d.node for d in every if variable.is_attribute and isinstance(d.node, ast.expr)]
        return not any(self.sums.may_be_during(r, loop) for r in (*reads, *others))

    def _is_begun(self, definition: Definition, each: _Addition) -> bool:
        made = made_at(self.program, assigned_to(self.program, definition.node), each.name)
        return definition.kind is Kind.ASSIGNMENT and self._is_empty(made)

    def _collected_by_all(self, each: tuple[_Addition, ...], loop: Loop) -> Collected | None:
        """A list that gets the same kind of element in each round, whichever addition that runs."""
        found = {self._collected(one, [a.statement for a in each], loop) for one in each}
        return found.pop() if len(found) == 1 else None

    def _collected(self, each: _Addition, adding: Sequence[ast.stmt], loop: Loop) -> Collected | None:
        """A list that gets something in each round, by one of some statements, and is read after its loop."""
        facts, variable, ranks = self.chains.facts(loop), self.chains.variable(each.holder), self.sums.ranks
        every = facts.all_of(variable) if variable is not None else ()
        given = {*facts.definitions(each.holder), *(d for d in every if self.program.in_rounds(d.node, loop))}
        reads = {r for d in given for use in facts.uses(d) for r in reads_at(self.program, use, each.name)}
        others = [r for r in reads if not any(self.program.inside(r, s) for s in adding)]
        within = [r for r in others if self.program.in_rounds(r, loop)]
        outside = [r for r in reads if not self.program.in_rounds(r, loop)]
        if loop in ranks.rounds and not ranks.is_own(each.value):
            return None  # the gradients' norm
        return self._unit(each, outside, loop) if outside and all(map(self._is_shown, within)) else None

    def _unit(self, each: _Addition, outside: Sequence[ast.expr], loop: Loop) -> Collected | None:
        """A list with what its elements stand for, where the reads after its loop may have all that is gathered."""
        elements, name = self.elements(loop), each.name
        is_number = elements.is_number(each.value)
        is_sequence = self.sums.prepared.is_sharded_sequence(loop)
        if elements.has_rows(each.value) and not is_sequence:
            if each.of_rows:
                return Collected(name, "row", elements.is_number(ast.Starred(each.value, ast.Load())))
            return Collected(name, "batch", False, each.value) if elements.has_no_graph(each.value) else None
        is_free = not isinstance(each.statement, ast.Assign) and self._is_free(each.value, outside, elements)
        is_value = is_number or is_free
        lengths = {r: n for r in outside if is_number and (n := self._number_of_batches(r, loop)) is not None}
        is_mean = all(r in lengths or self.is_meant(r) for r in outside)
        if not is_value or not is_mean or (each.of_rows and not is_number):
            return None
        if is_sequence and not is_number:
            return None
        return Collected(name, None if is_sequence else "batch", is_number, lengths=tuple(lengths.values()))

    def _number_of_batches(self, read: ast.expr, loop: Loop) -> ast.expr | None:
        """`len(loader)` of `sum(losses) / len(loader)`, which `len(losses)` is, too."""
        total = self.program.parent(read)
        mean = self.program.parent(total) if total is not None else None
        is_sum = isinstance(total, ast.Call) and any(map(names.sums_up, self.program.called(total)))
        is_mean = isinstance(mean, ast.BinOp) and isinstance(mean.op, ast.Div) and mean.left is total
        if not is_sum or not isinstance(total, ast.Call) or len(total.args) > 1 or not is_mean:
            return None
        length = f"len({ast.unparse(self.tracer.inside(loop.iter))})"
        return mean.right if isinstance(mean, ast.BinOp) and ast.unparse(mean.right) == length else None

    def _is_of_means(self, each: Collected) -> bool:
        return each.per != "row" and each.trimmed is None

    def _together(
        self, rows: Mapping[str, tuple[_Addition, ...]], gathered: Collection[ast.stmt], loop: Loop
    ) -> set[str]:
        """The lists of rows that nothing sets beside what stays one process's own, or a count of its steps."""
        names_at = {one.statement: name for name, each in rows.items() for one in each}
        reduced = {name for r in self.sums.of(loop) for name in r.names}
        kept = set(rows)
        for node in self._computed(loop):
            used = self._updates_behind(node, loop)
            if lists := {names_at[s] for s in used if s in names_at}:
                others = {updated_text(self.chains, o) for s, o in used.items() if s not in gathered}
                is_alone = others <= reduced and not self._is_by_steps(node)
                kept -= set() if is_alone else lists
        return kept

    def _updates_behind(self, node: ast.expr, loop: Loop) -> dict[ast.stmt, ast.AST]:
        """The statements of a loop that update what a value is computed from."""
        origins = self.sums.ranks.of(node).of(Mark.RUNNING)
        return {self.program.statement(o.node): o.node for o in origins if self.program.in_rounds(o.node, loop)}

    def _computed(self, loop: Loop) -> Iterator[ast.expr]:
        """What is computed after a loop, in its function, and all quotients."""
        for node in (n for parsed in self.program.files for n in parsed.parents):
            if isinstance(node, ast.BinOp):
                yield node
            elif isinstance(node, (ast.Call, ast.Compare)) and self.program.is_after(node, loop):
                is_said = isinstance(node, ast.Call) and self.harmless.shows(node)
                is_text = self.chains.kinds.of(node) == {"text"}
                yield from [node] if not is_said and not is_text else []

    def _is_by_steps(self, node: ast.expr) -> bool:
        is_quotient = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mult))
        return is_quotient and isinstance(node, ast.BinOp) and self.sums.ranks.of(node.right).steps

    def _is_free(self, value: ast.expr, reads: Sequence[ast.expr], elements: Elements) -> bool:
        """Whether a value is an array, or a tensor that nothing is learned from: `loss.detach()`, `loss.cpu().data`.

        So is one of which only numbers are read after the loop: `torch.stack(losses).mean().item()`.
        """
        if self.chains.kinds.of(value) not in ({"ndarray"}, {"tensor"}):
            return False
        return elements.has_no_graph(value) or all(self._leaves_the_graph(read, elements) for read in reads)

    def _leaves_the_graph(self, read: ast.expr, elements: Elements) -> bool:
        """Whether nothing can be learned from what a read becomes in its own statement."""
        statement = self.program.statement(read)
        within = (a for a in self.program.ancestors(read) if self.program.inside(a, statement))
        return any(isinstance(a, ast.Call) and elements.has_no_graph(a) for a in within)

    def _is_empty(self, value: ast.expr | None) -> bool:
        """`[]`, `list()`, `np.array([])`."""
        if isinstance(value, ast.Call):
            called, given = self.program.called(value), value.args
            if "list" in called:
                return not given
            return any(map(names.makes_of_values, called)) and len(given) == 1 and self._is_empty(given[0])
        return isinstance(value, ast.List) and not value.elts

    def is_meant(self, read: ast.expr) -> bool:
        """Whether a list is read for what it says of all batches alike: `np.mean(losses)`, `losses.mean()`."""
        call = self.program.parent(read)
        if isinstance(call, ast.Attribute):
            return methods.summarizes(call.attr)
        if not isinstance(call, ast.Call) or call.args[:1] != [read]:
            return False
        called, taken = self.program.called(call), self.program.parent(call)
        if not all(isinstance(n, ast.Constant) for n in (*call.args[1:], *(k.value for k in call.keywords))):
            return False
        if any(map(names.summarizes, called)):
            return True
        if any(map(names.sums_up, called)):
            if not isinstance(taken, ast.BinOp) or not isinstance(taken.op, ast.Div) or taken.left is not call:
                return False
            return ast.unparse(taken.right) == f"len({ast.unparse(read)})"
        rows = self.chains.kinds.called(call)
        is_array = any(map(names.makes_of_values, called))
        is_array = is_array or bool(
            rows and all(row.rows is Rows.CONCATENATES for row in rows)
        )  # `torch.stack(losses)`
        return is_array and self.is_meant(call)

    def _is_shown(self, read: ast.expr, depth: int = 3) -> bool:
        """Whether a value is only shown, itself or by way of variables: `recent = sum(losses[-9:]); print(recent)`."""
        statement = self.program.statement(read)
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Call) and self.harmless.shows(statement.value)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        variable = self.chains.variable(target) if isinstance(target, ast.Name) else None
        if variable is None or not depth or variable.scope is not self.program.frame(read):
            return False
        reads = self.program.reads_of(self.program.frame(read), variable.name)
        return all(self._is_shown(r, depth - 1) for r in reads)


def _goes_back(statement: ast.stmt) -> bool:
    """Whether a statement only changes gradients: `loss.backward()`, of a loss that is in a list already."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return method_of_call(call) == "backward"


def statements_of_each_round(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that each round runs."""
    found: list[ast.stmt] = []
    for statement in body:
        found.extend(statements_of_each_round(statement.body) if isinstance(statement, ast.With) else [statement])
    return found
