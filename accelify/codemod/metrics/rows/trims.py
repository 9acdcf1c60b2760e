"""Is what a round adds to a sum one over the batch's rows, and which rows are left out so that each counts once?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import Role, Row, Rows, Trait
from accelify.codemod.metrics.rows.empty_batches import takes_no_rows
from accelify.codemod.metrics.rows.recomputation import Recomputation, recomputation_of
from accelify.codemod.metrics.updates import added_in, additions_in
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import names_in, names_written_in
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.losses import Totals

_DEPTH = 4


def _is_same(value: ast.expr, name: str) -> bool:
    """`loss.item()`, which is what `loss` was."""
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and methods.keeps_values(value.func.attr)
    ):
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == name


class Summand:
    """The contribution of one batch to a sum that a loop makes."""

    def __init__(self, program: Program, around: ast.AST) -> None:
        self.program = program
        self.around = around  # a loop over batches, or a function

    def is_of_rows(self, value: ast.expr, depth: int = _DEPTH) -> bool | None:
        """Whether it is a sum over the batch's rows; False for a mean or a count of batches, None where unclear."""
        if isinstance(value, ast.Constant):
            return False
        if isinstance(value, ast.Name):
            return self._given(value.id, depth)
        if isinstance(value, ast.Subscript):
            return self.is_of_rows(value.value, depth)
        if isinstance(value, ast.Attribute):
            return True if methods.is_about(value.attr) else self.is_of_rows(value.value, depth)
        if isinstance(value, ast.UnaryOp):
            return self.is_of_rows(value.operand, depth)
        if isinstance(value, ast.BinOp):
            return self._calculated(value, depth)
        return self._called(value, depth) if isinstance(value, ast.Call) else None

    def _given(self, name: str, depth: int) -> bool | None:
        """Whether a variable that the loop or function gives a value is as long as the batch; None where not known."""
        values = [
            node.value
            for node in walk(self.around)
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]
        others = [value for value in values if not _is_same(value, name)]
        kinds = {self.is_of_rows(value, depth - 1) for value in others} if depth else set()
        return kinds.pop() if len(kinds) == 1 else None

    def _calculated(self, value: ast.BinOp, depth: int) -> bool | None:
        left, right = self.is_of_rows(value.left, depth), self.is_of_rows(value.right, depth)
        if isinstance(value.op, ast.Mult):
            return True if True in (left, right) else None if None in (left, right) else False
        if isinstance(value.op, ast.Div):
            return False if right else left
        return left if left == right else None

    def _called(self, call: ast.Call, depth: int) -> bool | None:
        rows = rows_of(self.program, call)
        if rows and all(row.rows in (Rows.SUM, Rows.COUNT) for row in rows):
            summed = object_of(self.program, call) or next(iter(call.args), None)
            parts = self._listed(summed)
            if summed is not None and self.program.once(Totals).is_one_number(summed):
                return self.is_of_rows(summed, depth)
            return not (parts and depth) or any(self.is_of_rows(part, depth - 1) is not False for part in parts)
        if rows and all(row.has(Trait.SAME_VALUES) or row.has(Trait.SCALAR) for row in rows):
            inner = object_of(self.program, call) or next(iter(call.args), None)
            return None if inner is None else self.is_of_rows(inner, depth)
        reduction = _Reduction.of(self.program, call)
        if reduction.is_said:
            return reduction.sums
        if self._returns_sum(call, depth):
            return True
        is_mean = bool(rows) and all(row.rows is Rows.MEAN or row.role is Role.LOSS for row in rows)
        if is_mean and _keeps_rows(call):
            return None
        return False if is_mean or vocabulary.is_name_of_a_loss(_last_name(call.func)) else None

    def _listed(self, node: ast.expr | None) -> list[ast.expr]:
        """The numbers that a list holds, where they are written out or appended: `sum([a.mean(), b.mean()])`."""
        if isinstance(node, ast.Call) and node.args:
            rows = rows_of(self.program, node)
            is_joined = bool(rows) and all(row.rows is Rows.CONCATENATES for row in rows)
            return self._listed(node.args[0]) if is_joined else []
        if isinstance(node, ast.Name):
            assigned = (n for n in walk(self.around) if isinstance(n, ast.Assign))
            values = [n.value for n in assigned if node.id in map(ast.unparse, n.targets)]
            return [*self._listed(values[0]), *self._appended(node.id)] if len(values) == 1 else []
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return [node.elt]
        return node.elts if isinstance(node, (ast.List, ast.Tuple)) else []

    def _appended(self, name: str) -> Iterator[ast.expr]:
        for call in walk(self.around):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{name}.append":
                yield from call.args

    def _returns_sum(self, call: ast.Call, depth: int) -> bool:
        """Whether a function of the project's own surely returns a sum over rows."""
        callees = self.program.flow.callees.get(call, ()) if depth else ()
        returned = [(c, n.value) for c in callees for n in walk(c.node) if isinstance(n, ast.Return)]
        sums = [v is not None and Summand(self.program, c.node).is_of_rows(v, depth - 1) for c, v in returned]
        return bool(sums) and all(sums)


def _keeps_rows(call: ast.Call) -> bool:
    """`x.mean(1)`, `torch.mean(x, dim=-1)`: a number for each row."""
    along = [k.value for k in call.keywords if k.arg in ("dim", "axis")] or call.args[-1:]
    numbers = [ast.unparse(n) for a in along for n in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
    return bool(numbers) and all(n.lstrip("-").isdigit() and n != "0" for n in numbers)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """How a loss reduces the rows' losses, as its call or the making of its object says; sums: None where unclear."""

    is_said: bool
    sums: bool | None = None

    @classmethod
    def of(cls, program: Program, call: ast.Call) -> _Reduction:
        built = [v.node for v in program.values(call.func) if isinstance(v, Made) and isinstance(v.node, ast.Call)]
        told = {k.arg: k.value for c in [*built, call] for k in c.keywords if isinstance(k, ast.keyword)}
        reduction, average = told.get("reduction"), told.get("size_average")
        if isinstance(reduction, ast.Constant):
            return cls(True, {"sum": True, "mean": False}.get(str(reduction.value)))
        if isinstance(average, ast.Constant):
            return cls(True, not average.value)
        return cls(reduction is not None or average is not None or "reduce" in told)


def rows_of(program: Program, call: ast.Call) -> tuple[Row, ...]:
    """The rows of the table for a call: those of a tensor's method where the object may be of any kind."""
    rows = program.once(Kinds).called(call) or ()
    if isinstance(call.func, ast.Attribute) and object_of(program, call) is not None:
        of_tensor = table.member("tensor", call.func.attr)
        return rows if of_tensor is None else (of_tensor,)
    return rows


def object_of(program: Program, call: ast.Call) -> ast.expr | None:
    """The object whose method is called; None for a function."""
    is_method = isinstance(call.func, ast.Attribute) and not program.once(Kinds).name_of(call.func)
    return call.func.value if is_method and isinstance(call.func, ast.Attribute) else None


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)


@dataclass(frozen=True)
class Trim:
    """Before `first`, a statement that adds up, `names` keep only the rows that count.

    mean: a loss that is added, a mean for each row or a sum: it is taken again without the others.
    holds_means: whether a mean is added that was taken with them.
    skipped: runs of statements that fail where no row is left. rows: an expression that has these rows.
    parts: what is trimmed where it is summed, instead of the names, which other code needs whole.
    batch_means: batches' means and sums that are added, and that count without those rows, each with how.
    """

    first: ast.stmt
    names: tuple[str, ...]
    mean: Recomputation | None = None
    holds_means: bool = False
    skipped: tuple[tuple[ast.stmt, ...], ...] = ()
    rows: str = ""
    parts: tuple[ast.expr, ...] = ()
    batch_means: tuple[tuple[ast.Name, Recomputation], ...] = ()


def trim_of(
    program: Program, loop: ast.For | ast.AsyncFor, sums: Collection[str], updates: Collection[ast.Call] = ()
) -> Trim | None:
    """The values to trim so that sums count each row once; None where that would change other values, too.

    updates: those of meters, which are then of each row once, too.
    """
    trim = _trim_of_variables(program, loop, sums, updates)
    parts = tuple(_parts_of_tables(program, loop, sums))
    if not parts or (trim is None and added_in(loop).keys() & set(sums)):
        return trim
    trim = trim or Trim(program.statement(parts[0]), ())
    adding = list(dict.fromkeys(map(program.statement, parts)))
    holds_means = trim.holds_means or bool(_means(Summand(program, loop), adding))
    return replace(trim, parts=(*trim.parts, *parts), holds_means=holds_means)


def _parts_of_tables(program: Program, loop: ast.For | ast.AsyncFor, sums: Collection[str]) -> Iterator[ast.expr]:
    """The rows that are summed in what is added to places of tables: `x` of `sums[name] += score * len(x)`."""
    for each in additions_in(program.once(Chains), loop):
        table = each.target
        while isinstance(table, ast.Subscript):
            table = table.value
        if isinstance(each.target, ast.Subscript) and isinstance(table, ast.Name) and table.id in sums:
            listed = [_summed_parts(program, part) for part in each.parts]
            found = [part for parts in listed if parts is not None for part in parts]
            yield from found if None not in listed and all(_keeps_every_row(program, part) for part in found) else ()


def _trim_of_variables(
    program: Program, loop: ast.For | ast.AsyncFor, sums: Collection[str], updates: Collection[ast.Call]
) -> Trim | None:
    """The values to trim for the sums that are variables."""
    summand = Summand(program, loop)
    every = [s for name, listed in added_in(loop).items() if name in sums for s in listed]
    if any(_counts_row_by_row(program, loop, s) for s in every):
        return None  # the rows that are repeated among them: no other sum leaves those out alone
    made = {s: parts for s in every if (parts := _parts_where_made(summand, s, every))}
    rest = [s for s in every if s not in made]
    trim = Trim(every[0], ()) if made and all(isinstance(_added(s), ast.Constant) for s in rest) else None
    trim = trim or (_trim_of(summand, rest, updates) if made else None)
    if trim is not None:
        return replace(trim, parts=(*trim.parts, *(part for parts in made.values() for part in parts)))
    return _trim_of(summand, every, updates)


def _counts_row_by_row(program: Program, loop: ast.AST, statement: ast.AugAssign | ast.Assign) -> bool:
    """`for i in range(len(out)): if out[i] > y[i]: hits += 1`, by a loop over what a batch has, or over its places."""
    around = itertools.takewhile(lambda node: node is not loop, program.ancestors(statement))
    found = {name for node in around for name in _gone_through(node)}
    writes = program.frame(loop).writes
    is_one = isinstance(_added(statement), ast.Constant)
    return is_one and any(program.inside(w, loop) for name in found for w in writes.get(name, ()))


def _gone_through(node: ast.AST) -> frozenset[str]:
    """The variables that a loop goes through, as its head or the places that it takes say."""
    if isinstance(node, ast.While):
        return names_in(node.test)
    if not isinstance(node, (ast.For, ast.AsyncFor)):
        return frozenset()
    taken = [n for s in node.body for n in walk(s) if isinstance(n, ast.Subscript)]
    chosen = [n.value for n in taken if names_in(n.slice) & names_in(node.target)]
    return names_in(node.iter, *chosen)


def _parts_where_made(
    summand: Summand, statement: ast.AugAssign | ast.Assign, every: Collection[ast.stmt]
) -> list[ast.expr]:
    """The rows that a variable sums where it is made, for sums alone: `hits = (found == y).sum()`."""
    program, name = summand.program, _variable_of(_added(statement)) or ""
    frame = program.frame(summand.around)
    writes = [w for w in frame.writes.get(name, ()) if program.inside(w, summand.around)]
    made = program.statement(writes[0]) if len(writes) == 1 else None
    if not _is_batch_sum(summand, statement) or not isinstance(made, ast.Assign) or made.targets != writes:
        return []
    is_before = made in program.block(statement) and program.before(made, statement)
    is_for_sums = all(program.statement(read) in every for read in program.reads_of(frame, name))
    parts = _summed_parts(program, made.value) if is_before and is_for_sums else None
    return parts if parts and all(_keeps_every_row(program, part) for part in parts) else []


def _trim_of(
    summand: Summand, every: Sequence[ast.AugAssign | ast.Assign], updates: Collection[ast.Call]
) -> Trim | None:
    """The values to trim for sums, as the statements that add to them say it."""
    trim = _trim_of_rows(summand, every, updates)
    means = [s for s in every if _is_batch_mean(summand, s)]
    losses = [s for s in every if _is_batch_sum(summand, s)] if trim is None else []
    if losses:  # which other code needs as they are
        trim = _trim_of_rows(summand, [s for s in every if s not in losses], updates)
    if means and any(isinstance(_added(s), ast.Constant) for s in every):  # are divided by the batches counted
        return trim if not losses else None
    apart = [*means, *losses]
    found = {s: _said_again(summand, s, trim) for s in apart}
    taken = tuple(each for each in found.values() if each is not None)
    if any(found[s] is None for s in losses):
        return None
    if trim is None:
        return Trim(apart[0], (), batch_means=taken) if taken and len(taken) == len(every) else None
    return replace(trim, batch_means=taken, holds_means=trim.holds_means or None in found.values())


def _is_batch_sum(summand: Summand, statement: ast.AugAssign | ast.Assign) -> bool:
    """Whether a batch's loss is added that is a sum over the rows: `loss.item()`."""
    value = _added(statement)
    is_loss = not _holds_rows(summand.program, value) and _variable_of(value) is not None
    return is_loss and summand.is_of_rows(value) is True


def _is_batch_mean(summand: Summand, statement: ast.AugAssign | ast.Assign) -> bool:
    return summand.is_of_rows(_added(statement)) is False and not isinstance(_added(statement), ast.Constant)


def _said_again(
    summand: Summand, statement: ast.AugAssign | ast.Assign, trim: Trim | None
) -> tuple[ast.Name, Recomputation] | None:
    """The loss in what is added, and how it is computed of fewer rows, where the call can be repeated."""
    name = _variable_of(_added(statement))
    again = _again(summand, name or "", statement)
    is_whole = trim is None or not trim.names or summand.program.before(statement, trim.first)
    loss = next((n for n in walk(_added(statement)) if isinstance(n, ast.Name) and n.id == name), None)
    return (loss, again) if again is not None and is_whole and loss is not None else None


def _trim_of_rows(
    summand: Summand, every: Sequence[ast.AugAssign | ast.Assign], updates: Collection[ast.Call]
) -> Trim | None:
    """The values to trim for the sums over rows alone."""
    program = summand.program
    adding = [s for s in every if summand.is_of_rows(_added(s)) is not False]
    losses = [s for s in adding if not _holds_rows(program, _added(s))]
    if not adding or not all(summand.is_of_rows(_added(s)) and _variable_of(_added(s)) for s in losses):
        return None
    trim = _trim_of_names(summand, every, adding, updates)
    return trim if trim is not None or losses else _trim_of_parts(summand, adding)


def _trim_of_names(
    summand: Summand,
    every: Sequence[ast.AugAssign | ast.Assign],
    adding: Sequence[ast.AugAssign | ast.Assign],
    updates: Collection[ast.Call],
) -> Trim | None:
    """The variables to trim before the first sum; None where other code needs them whole."""
    program, loop = summand.program, summand.around
    first = next(s for s in adding if not any(program.before(other, s) for other in adding if other is not s))
    updates = [u for u in updates if program.before(first, u)]
    rows = _Rows(program, loop, first)
    losses = [_added(s) for s in adding if not _holds_rows(program, _added(s))]
    others = (value for s in adding if (value := _added(s)) not in losses)
    if any(s not in program.block(first) for s in adding) or not all(map(rows.take, others)):
        return None
    counted_in = [*adding, *updates, *rows.derived]
    if any(_averages(program, n) for s in counted_in for n in walk(s)):
        return None  # a process may have no row that counts, and of none there is no mean
    is_safe = all(takes_no_rows(program, s) for s in counted_in)
    if not is_safe and any(isinstance(_added(s), ast.Constant) for s in every):
        return None  # what is computed of no rows is left out, and would be counted nevertheless
    # Other uses of these names from there on would see fewer rows.
    counted = {n for s in counted_in for n in walk(s)}
    frame = program.frame(loop)
    for name in {*rows.names, *names_written_in(*rows.derived)}:
        reads = [r for r in frame.reads.get(name, ()) if r not in counted]
        if any(program.inside(r, loop) and program.before(first, r) for r in reads):
            return None
        if name in rows.names and _is_kept_for_another_round(program, loop, first, name):
            return None
        if any(inner.owner(name) is frame and inner.reads.get(name) for inner in frame.walk() if inner is not frame):
            return None
    means = [*_means(summand, adding), *losses]
    taken = {_variable_of(side) for side in means}
    mean = _taken_again(summand, taken.pop() or "", first, counted) if len(taken) == 1 else None
    if losses and mean is None:
        return None
    skipped = () if is_safe else tuple(_runs(program.block(first), {program.statement(s) for s in counted_in}))
    text = rows.text() if rows.names else ""
    if skipped and not text:
        return None  # nothing says whether a row is left
    return Trim(first, tuple(rows.names), mean, bool(means) and mean is None, skipped, text)


def _is_kept_for_another_round(program: Program, loop: ast.AST, first: ast.stmt, name: str) -> bool:
    """Whether a variable is read again, without a new value, in another round of a loop: one over models, say."""
    frame, flow = program.frame(loop), program.control_flow(first)
    read = [r for r in frame.reads.get(name, ()) if program.inside(r, loop) and not program.before(first, r)]
    return any(flow.reaches(first, r, without=frame.writes.get(name, ())) for r in (first, *read))


def _trim_of_parts(summand: Summand, adding: Sequence[ast.AugAssign | ast.Assign]) -> Trim | None:
    """The expressions to trim where they are summed: `(found == y)` of `(found == y).sum().item()`."""
    parts = [_summed_parts(summand.program, _added(s)) for s in adding]
    found = [part for listed in parts if listed is not None for part in listed]
    if None in parts or not all(_keeps_every_row(summand.program, part) for part in found):
        return None
    return Trim(adding[0], (), holds_means=bool(_means(summand, adding)), parts=tuple(found))


def _summed_parts(program: Program, value: ast.expr) -> list[ast.expr] | None:
    """The expressions whose rows a summand sums or counts; None where they are not clear."""
    if not _holds_rows(program, value):
        return []
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Mult)):
        left, right = _summed_parts(program, value.left), _summed_parts(program, value.right)
        return None if left is None or right is None else [*left, *right]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return None if _holds_rows(program, value.right) else _summed_parts(program, value.left)
    if isinstance(value, ast.Attribute):
        return [value.value] if methods.is_about(value.attr) else _summed_parts(program, value.value)
    if isinstance(value, ast.Subscript):
        return _summed_parts(program, value.value)
    rows = rows_of(program, value) if isinstance(value, ast.Call) else ()
    if not isinstance(value, ast.Call) or not rows:
        return None
    inner = object_of(program, value) or next(iter(value.args), None)
    if inner is not None and all(row.has(Trait.SAME_VALUES) or row.has(Trait.SCALAR) for row in rows):
        return _summed_parts(program, inner)
    return [inner] if inner is not None and all(row.rows in (Rows.SUM, Rows.COUNT) for row in rows) else None


def _keeps_every_row(program: Program, part: ast.expr) -> bool:
    """Whether each row of the batch is one of an expression, in the same order, as far as its calls are known."""
    calls = [n for n in walk(part) if isinstance(n, ast.Call)]
    return _keeps_rows_first(part) and all(is_of_each_row(program, call) for call in calls)


def is_of_each_row(program: Program, call: ast.Call) -> bool:
    """`x.view_as(y)`, `out.argmax(1)`, `out.max(dim=1)`."""
    rows = rows_of(program, call)
    is_method = object_of(program, call) is not None
    said = [*call.args[0 if is_method else 1 :], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
    is_along_others = bool(said) and not (isinstance(said[0], ast.Constant) and said[0].value == 0)
    return bool(rows) and all(
        row.has(Trait.SAME_VALUES)
        or row.rows is Rows.EACH
        or (row.rows in (Rows.ALONG, Rows.EXTREME, Rows.SUM) and is_along_others)
        for row in rows
    )


def _means(summand: Summand, adding: Sequence[ast.stmt]) -> list[ast.expr]:
    """The factors in what is added that were taken of all rows before: `loss.item()` of `loss.item() * len(y)`."""
    nodes = [n for s in adding for n in walk(s) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
    factors = [side for n in nodes for side in (n.left, n.right)]
    return [
        f
        for f in factors
        if not isinstance(f, (ast.Constant, ast.BinOp))
        and not summand.is_of_rows(f)
        and not _holds_rows(summand.program, f)
    ]


class _Rows:
    """The variables that hold a batch's rows where the first sum is made, and what is computed from them later.

    names: those to trim. derived: the assignments between the sums that compute from them what is summed, too: of the
    rows that are left, as all that they take is trimmed.
    """

    def __init__(self, program: Program, loop: ast.AST, first: ast.stmt) -> None:
        self.program = program
        self.loop = loop
        self.first = first
        self.summand = Summand(program, loop)
        self.names: dict[str, None] = {}
        self.derived: list[ast.Assign] = []

    def take(self, value: ast.expr) -> bool:
        """Take in what an expression is computed from; False where it is not known which of it has rows."""
        names = [n for n in walk(value) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        rows = [n for n in names if _has_rows(self.program, n)]
        is_clear = not any(self._may_have_rows(n) for n in names if n not in rows)
        return is_clear and _keeps_rows_first(value) and all(map(self._take_name, rows))

    def text(self) -> str:
        """An expression that has the rows: of what is surely a tensor, if there is one."""
        reads = [r for name in self.names for r in self.program.reads_of(self.program.frame(self.loop), name)]
        parents = {r: self.program.parent(r) for r in reads if self.program.inside(r, self.loop)}
        shown = [r.id for r, p in parents.items() if isinstance(p, ast.Attribute) and methods.shows_a_tensor(p.attr)]
        items = {r: p for r, p in parents.items() if isinstance(p, ast.Subscript) and isinstance(p.slice, ast.Constant)}
        plain = [name for name in self.names if name not in {r.id for r in items}]
        return next(itertools.chain(shown, plain, map(ast.unparse, items.values())))

    def _may_have_rows(self, name: ast.Name) -> bool:
        """Whether a round calculates with a variable of which it is not clear that it is a number."""
        is_of_round = any(self.program.inside(w, self.loop) for w in self._writes(name))
        is_calculated = isinstance(self.program.parent(name), (ast.BinOp, ast.UnaryOp))
        return is_of_round and is_calculated and self.summand.is_of_rows(name) is None

    def _writes(self, name: ast.Name) -> list[ast.AST]:
        return self.program.frame(self.loop).writes.get(name.id, [])

    def _take_name(self, name: ast.Name) -> bool:
        program = self.program
        writes = program.reaching(name, [w for w in self._writes(name) if program.inside(w, self.loop)])
        later = [w for w in writes if program.before(self.first, w)]
        if not later:
            self.names[name.id] = None
            return bool(writes)
        made = program.statement(later[0])
        if len(writes) > 1 or not isinstance(made, ast.Assign) or len(made.targets) > 1:
            return False
        if made in self.derived:
            return True
        self.derived.append(made)
        return made in program.block(self.first) and self.take(made.value)


def _runs(block: list[ast.stmt], chosen: Collection[ast.stmt]) -> Iterator[tuple[ast.stmt, ...]]:
    """The chosen statements of a block, those together that follow each other."""
    for is_chosen, run in itertools.groupby(block, lambda statement: statement in chosen):
        if is_chosen:
            yield tuple(run)


def _keeps_rows_first(value: ast.expr) -> bool:
    """Whether the rows stay along the first dimension: nothing is transposed, and no part of it is cut out."""
    return not any(
        (isinstance(n, ast.Attribute) and methods.reorders(n.attr)) or (isinstance(n, ast.Subscript) and _is_cut_out(n))
        for n in walk(value)
    )


def _is_cut_out(node: ast.Subscript) -> bool:
    """Whether an item is a part of the rows; `topk(1)[1]` is all of what a call returns besides."""
    is_chosen = isinstance(node.slice if isinstance(node.value, ast.Call) else node.value, ast.Name)
    return not _is_of_all_rows(node.slice) and (is_chosen or isinstance(node.slice, ast.Slice))


def _is_of_all_rows(key: ast.expr) -> bool:
    """`x[:, 0]`, `batch["label"]`."""
    first = key.elts[0] if isinstance(key, ast.Tuple) and key.elts else key
    if isinstance(first, ast.Slice):
        return first.lower is None and first.upper is None and first.step is None
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def _taken_again(summand: Summand, name: str, first: ast.stmt, counted: set[ast.AST]) -> Recomputation | None:
    """How a loss is computed of the rows that count before the first sum, if nothing else needs it then."""
    program = summand.program
    reads = program.frame(summand.around).reads.get(name, ())
    is_read = any(r not in counted and program.before(first, r) for r in reads)
    return None if is_read else _again(summand, name, first)


def _again(summand: Summand, name: str, at: ast.stmt) -> Recomputation | None:
    def is_of_batch(value: ast.expr) -> bool:
        return summand.is_of_rows(value) is not None

    return recomputation_of(summand.program, summand.around, name, at, is_of_batch)


def _variable_of(node: ast.expr) -> str | None:
    """The variable of `loss.item()`, `float(loss)`, `loss.data[0]`."""
    while not isinstance(node, ast.Name):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        else:
            return None
    return node.id


def _added(statement: ast.AugAssign | ast.Assign) -> ast.expr:
    if isinstance(statement, ast.AugAssign):
        return statement.value
    value = statement.value
    target = statement.targets[0]
    if isinstance(value, ast.BinOp) and isinstance(target, ast.Name):
        is_left = isinstance(value.left, ast.Name) and value.left.id == target.id
        return value.right if is_left else value.left
    return value


def _has_rows(program: Program, node: ast.AST) -> bool:
    """Whether a name in a summand holds the rows of a batch: not a loss, a function or a module."""
    if not isinstance(node, ast.Name) or program.externals(node) or _is_backpropagated(program, node):
        return False
    parent = program.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return False
    taken = parent if isinstance(parent, ast.Subscript) and parent.value is node else node
    if program.once(Totals).is_one_number(taken):
        return False
    if isinstance(parent, ast.Attribute):
        return not methods.leaves_the_graph(parent.attr) or _is_compared(program, parent) or _is_output(program, node)
    if isinstance(parent, ast.Subscript):
        return parent.value is node and _is_of_all_rows(parent.slice)
    return isinstance(parent, (ast.Call, ast.Compare))


def _is_output(program: Program, name: ast.Name, depth: int = _DEPTH) -> bool:
    """Whether a variable holds what a model gives for the rows."""
    writes = program.reaching(name, program.frame(name).writes.get(name.id, []))
    made = [program.statement(w) for w in writes]
    return bool(made) and all(isinstance(m, ast.Assign) and _gives_rows(program, m.value, depth) for m in made)


def _gives_rows(program: Program, value: ast.expr, depth: int) -> bool:
    """`model(x)`, `torch.sigmoid(model(x))`."""
    if isinstance(value, ast.Name):
        return depth > 0 and _is_output(program, value, depth - 1)
    if not isinstance(value, ast.Call):
        return False
    rows = rows_of(program, value)
    if rows and all(row.rows is Rows.EACH or row.has(Trait.SAME_VALUES) for row in rows):
        inner = object_of(program, value) or next(iter(value.args), None)
        return inner is not None and _gives_rows(program, inner, depth)
    return "module" in program.once(Kinds).of(value.func) and not is_of_loss(program, value)


def is_of_loss(program: Program, call: ast.Call) -> bool:
    """Whether a call computes a loss, as its function, its object or its name says."""
    named = {v.name for v in program.values(call.func) if isinstance(v, Made)}
    return any(map(names.is_loss, named)) or vocabulary.is_name_of_a_loss(_last_name(call.func))


def _is_backpropagated(program: Program, name: ast.Name) -> bool:
    """Whether a variable is a loss, of which gradients are computed."""
    parents = (program.parent(read) for read in program.frame(name).reads.get(name.id, ()))
    return any(isinstance(p, ast.Attribute) and p.attr == "backward" for p in parents)


def _averages(program: Program, node: ast.AST) -> bool:
    """Whether a part of a summand is a mean over rows, or divides by how many there are."""
    if isinstance(node, ast.Call) and any(row.rows is Rows.MEAN for row in rows_of(program, node)):
        return not _Reduction.of(program, node).sums and _holds_rows(program, node)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _holds_rows(program, node.right)


def _holds_rows(program: Program, node: ast.AST) -> bool:
    return any(_has_rows(program, n) for n in walk(node))


def _is_compared(program: Program, node: ast.AST) -> bool:
    """Whether a part of a tensor takes part in a comparison, or is handed to a call."""
    parent = program.parent(node)
    if isinstance(parent, ast.Attribute):
        return _is_compared(program, parent)
    if isinstance(parent, ast.Call) and parent.func is node:
        return isinstance(node, ast.Attribute) and not methods.leaves_the_graph(node.attr)
    return isinstance(parent, (ast.Compare, ast.Call))
