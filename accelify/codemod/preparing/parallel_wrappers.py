"""Which calls wrap a model for several GPUs, which conditions ask for a wrapper, and what is done with their number?"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass

from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import Asks, Trait
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer, wrapped_by
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, Element, Made, Value

_DIVIDING = "torch.nn.parallel.data_parallel"
_PLAIN = 5  # arguments of it, before those that are passed on by name


class Wrappers:
    """Find them in the changed files, and in what builds the models that are prepared."""

    def __init__(self, program: Program, files: Set[str], run: Set[Scope], models: Set[Value]) -> None:
        self.program = program
        self.files = files
        self.run = run
        self.models = models

    def find(self) -> list[ast.Call]:
        """All of them."""
        return [
            call
            for call in self.program.calls
            if wrapped_by(call) is not None
            and not only_loads(self.program, call)
            and (self.program.path(call) in self.files or self._wraps_what_trains(call))
            and (any(names.is_wrapper(n) for n in self.program.called(call)) or self._makes_a_plain_wrapper(call))
        ]

    def left(self) -> list[ast.Call]:
        """The wrappers of other models, and of parts of those that are prepared: they stay."""
        found = set(self.find())
        wraps = (c for c in self.program.calls if any(map(names.is_wrapper, self.program.called(c))))
        others = (c for c in wraps if c not in found and not only_loads(self.program, c))
        return [c for c in others if wrapped_by(c) is not None]

    def needed(self) -> list[ast.Call]:
        """The wrappers of the project's own round what trains that do more than a library's."""
        own = (c for c in self.program.calls if wrapper_classes(self.program, c.func) and wrapped_by(c) is not None)
        return [c for c in own if not self._makes_a_plain_wrapper(c) and self._wraps_what_trains(c)]

    def _wraps_what_trains(self, call: ast.Call) -> bool:
        """Whether the training code gets to a call that wraps one of its models."""
        if self.program.frame(call) not in self.run:
            return False
        return bool((self.program.values(wrapped_by(call)) | self.program.values(call)) & self.models)

    def _makes_a_plain_wrapper(self, call: ast.Call) -> bool:
        """Whether a call makes a wrapper of the project's own that does not change what its model computes.

        It passes on the attributes of what it wraps, or computes on several GPUs of one process in another way.
        """
        classes = wrapper_classes(self.program, call.func)
        lineage = [each for cls in classes for each in (cls, *self.program.flow.ancestors(cls))]
        methods = {f.name for cls in lineage for f in cls.walk() if f.is_method and f.parent is cls}
        return bool(classes) and all(m in ("__init__", "__getattr__") or is_for_several_gpus(m) for m in methods)


def only_loads(program: Program, call: ast.Call) -> bool:
    """Whether a model is only wrapped to load what a wrapped one saved, and taken out: `wrapped.module.body`.

    The wrapper never computes, and without it the checkpoint's keys would be others.
    """
    frame, statement = program.frame(call), program.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is call else []
    if frame.kind != "function" or len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return False
    writes = frame.writes.get(targets[0].id, ())
    reads = [r for r in program.reads_of(frame, targets[0].id) if targets[0] in program.reaching(r, writes)]
    uses = {part.attr if isinstance(part := program.parent(read), ast.Attribute) else "" for read in reads}
    return uses == {"load_state_dict", "module"}


def is_only_loaded(program: Program, read: ast.expr) -> bool:
    """Whether a variable is read that holds such a wrapper."""
    statements = (program.statement(d.node) for d in program.definitions(read).definitions(read))
    given = [s.value for s in statements if isinstance(s, ast.Assign)]
    return any(isinstance(g, ast.Call) and wrapped_by(g) is not None and only_loads(program, g) for g in given)


def wrapper_names(program: Program, call: ast.Call) -> set[str]:
    """The wrappers of a library that a call makes, also those that a class of the project's own is based on."""
    bases = (b for cls in wrapper_classes(program, call.func) for b in program.flow.external_bases(cls))
    return {name for name in (*program.called(call), *bases) if names.is_wrapper(name)}


def wrapper_classes(program: Program, node: ast.expr) -> list[Scope]:
    """The classes that an expression gives, if all are of the project's own and based on a library's wrapper."""
    made = program.values(node)
    classes = [v.scope for v in made if isinstance(v, ClassValue)]
    bases = [program.flow.external_bases(cls) for cls in classes]
    is_wrapper = len(classes) == len(made) and all(any(map(names.is_wrapper, each)) for each in bases)
    return classes if is_wrapper else []


def is_for_several_gpus(method: str) -> bool:
    """Whether a method of `DataParallel` computes on several GPUs: `replicate`, `gather`."""
    row = table.member("wrapper", method)
    return row is not None and row.has(Trait.SEVERAL_GPUS)


def changes_replicas(program: Program, call: ast.Call) -> bool:
    """Whether a call makes a wrapper of the project's own that does more to the replicas of its model than make them.

    It calls a function on them, as layers that exchange statistics between GPUs need, or assigns to their parts.
    """
    classes = wrapper_classes(program, call.func)
    lineage = {each for cls in classes for each in (cls, *program.flow.ancestors(cls))}
    own = [f.node for cls in lineage for f in cls.walk() if f.is_method and f.parent is cls and f.name == "replicate"]
    return any(_does_more(program, n) for method in own for n in ast.walk(method))


def _does_more(program: Program, node: ast.AST) -> bool:
    """Whether a statement is a call that does not only say something, or assigns to a part of a value."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not any(map(names.says, program.called(node.value)))
    return isinstance(node, ast.Assign) and any(isinstance(t, (ast.Attribute, ast.Subscript)) for t in node.targets)


def divided_batches(program: Program) -> Iterator[ast.Call]:
    """The calls of functions that divide a batch between several GPUs of one process."""
    kinds = program.once(Kinds)
    for call in (n for parsed in program.files for n in parsed.nodes if isinstance(n, ast.Call)):
        rows = map(table.function, kinds.name_of(call.func))
        if any(row is not None and row.has(Trait.SEVERAL_GPUS) for row in rows):
            yield call


def is_plain_call(program: Program, call: ast.Call) -> bool:
    """Whether `data_parallel(model, x)` gives a model a tensor, or a tuple that is written there, and nothing else.

    A tuple in a variable would be taken apart. What a loop takes from its batches is none.
    """
    if not any(table.function(n) == table.function(_DIVIDING) for n in program.called(call)):
        return False
    given = dict(zip(("module", "inputs"), call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
    batch, is_more = given.get("inputs"), len(call.args) > _PLAIN or not {None, "module_kwargs"}.isdisjoint(given)
    if "module" not in given or batch is None or is_more or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    values = program.values(batch)
    is_of_batch = bool(values) and all(isinstance(v, Element) for v in values)
    return isinstance(batch, ast.Tuple) or is_of_batch or program.once(Kinds).of(batch) == {"tensor"}


@dataclass(frozen=True, slots=True)
class GpuCount:
    """Where a script uses the number of GPUs.

    multiplied: what it is a factor of: a product, or the statement `size *= count`; None where it is shown, or is kept,
    under a condition that asks for it.
    workers: whether that says how many workers a loader has.
    """

    node: ast.expr
    multiplied: ast.BinOp | ast.AugAssign | ast.Assign | None
    workers: bool = False


def gpu_counts(program: Program) -> Iterator[GpuCount]:
    """The products with the number of GPUs, the places that show it, and the conditions round both."""
    for node in list(program.flow.values):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) and _counts_gpus(program, node):
            factor, parent = node, program.parent(node)
            if isinstance(parent, ast.Call) and "max" in program.called(parent):  # `max(1, n_gpu)`
                factor, parent = parent, program.parent(parent)
            if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
                yield _factor(program, node, parent)
            elif isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Mult) and parent.value is factor:
                yield GpuCount(node, parent, _is_of_workers(program, parent.target))
            elif (_is_shown(program, node) or _is_kept(parent)) and conditions_on(program, node):
                yield GpuCount(node, None)


def _factor(program: Program, node: ast.expr, product: ast.BinOp) -> GpuCount:
    """The number of GPUs in a product, or in `workers = workers * count`."""
    statement = program.parent(product)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return GpuCount(node, product, _is_of_workers(program, product))
    target = statement.targets[0]
    is_own = ast.unparse(target) in (ast.unparse(product.left), ast.unparse(product.right))
    return GpuCount(node, statement if is_own else product, _is_of_workers(program, target))


def conditions_on(program: Program, node: ast.AST) -> list[ast.expr]:
    """The reads of the number of GPUs in the conditions that a node stands under: `if n_gpu > 1:`."""
    tests = (n for branching, _ in program.branches_round(node) for n in ast.walk(branching.test))
    return [
        n.left
        for n in tests
        if isinstance(n, ast.Compare)
        and [type(op) for op in n.ops] == [ast.Gt]
        and [getattr(c, "value", None) for c in n.comparators] == [1]
        and _counts_gpus(program, n.left)
    ]


def _counts_gpus(program: Program, node: ast.expr) -> bool:
    """Whether an expression is always the number of GPUs of this machine."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    values = program.values(node)
    rows = [table.function(v.name) for v in values if isinstance(v, Made)]
    return bool(rows) and len(rows) == len(values) and all(r is not None and r.asks is Asks.GPUS for r in rows)


def _is_shown(program: Program, node: ast.AST) -> bool:
    """Whether a value is a part of what a statement prints or logs."""
    statement = program.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and call is not node and any(map(names.says, program.called(call)))


def _is_kept(parent: ast.AST | None) -> bool:
    """Whether a statement only gives a value names: `args.gpus = torch.cuda.device_count()`."""
    return isinstance(parent, (ast.Assign, ast.AnnAssign))


def _is_of_workers(program: Program, node: ast.expr) -> bool:
    """Whether an expression, or the variable that is written like it, says how many workers a loader has."""
    given = [k.value for call in program.calls for k in call.keywords if k.arg == "num_workers"]
    text = ast.unparse(node)
    is_variable = isinstance(node, (ast.Name, ast.Attribute))
    return any(
        program.inside(node, g) if not is_variable else text in map(ast.unparse, ast.walk(g))
        for g in given
        if program.path(g) == program.path(node) or is_variable
    )


Question = ast.If | ast.IfExp | ast.Assert
_HOLDS: dict[type, Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COUNTS = (0, 1, 2, 8)  # numbers of GPUs that stand for all of them


class Unwrapped:
    """What do conditions come to that ask for several GPUs in one process, or for a wrapped model, once none is?"""

    def __init__(self, program: Program, wrappers: Sequence[ast.Call]) -> None:
        self.program = program
        self.tracer = program.once(Tracer)
        self.wrappers = wrappers
        self.wrapped = {v for call in wrappers for v in program.values(wrapped_by(call))}
        rounds = [each for call in wrappers for each in list(program.branches_round(call))[:1]]
        self.wrapping = {choice for choice, is_body in rounds if is_body}
        tests = [test for choice, is_body in rounds if (test := _where(choice.test, holds=is_body)) is not None]
        self.modes = {ast.unparse(mode) for test in tests for mode in self._modes(test)}

    def find(self, files: Collection[str], run: Collection[Scope]) -> dict[Question, bool]:
        """The choices that are none any more, each with whether its body is what is done; and what asserts them."""
        nodes = (n for parsed in self.program.files if self.wrappers for n in parsed.parents if isinstance(n, Question))
        near = (n for n in nodes if self.program.path(n) in files or self.program.frame(n) in run)
        found = {n: self._holds(n) for n in near}
        return {node: held for node, held in found.items() if held is not None and not self._goes_by_gpus(node, held)}

    def for_one_gpu(self) -> dict[ast.Compare, bool]:
        """The comparisons that one GPU, or two, decides: `device_count() == 1`; with whether each process meets them.

        Each has one GPU, of however many the machine has.
        """
        nodes = (n for parsed in self.program.files if self.wrappers for n in parsed.parents)
        asked = [q for q in nodes if isinstance(q, (ast.If, ast.IfExp))]
        found = {n: self._by_count(n) for q in asked for n in ast.walk(q.test) if isinstance(n, ast.Compare)}
        kinds = {(False, True, False, False): True, (False, False, True, False): False}
        return {n: kinds[held] and self._is_number(n.left) for n, held in found.items() if held in kinds}

    def _by_count(self, test: ast.Compare) -> tuple[bool, ...]:
        """What a comparison with the number of GPUs comes to for each of some numbers; nothing for any other."""
        number = test.comparators[0].value if isinstance(test.comparators[0], ast.Constant) else None
        if len(test.ops) > 1 or type(number) is not int or not self._counts_gpus(test.left, 4):
            return ()
        holds = _HOLDS.get(type(test.ops[0]))
        return () if holds is None else tuple(holds(count, number) for count in _COUNTS)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether this is how many GPUs there are, and not which one: `n_gpu`, no `args.gpu`."""
        value = node if isinstance(node, ast.Call) else self.tracer.only_value(node)
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        return isinstance(value, ast.Call) or vocabulary.is_parallel_option(name)

    def _goes_by_gpus(self, node: Question, is_body: bool) -> bool:
        """Whether what would go uses the number of GPUs, which is that of the processes now: `size *= n_gpu`."""
        if isinstance(node, ast.Assert):
            return False
        gone = node.orelse if is_body else node.body
        parts = [n for part in (gone if isinstance(gone, list) else [gone]) for n in ast.walk(part)]
        wraps = {n for w in self.wrappers for n in ast.walk(w)}
        return any(self._is_count(n, 4) for n in parts if n not in wraps and isinstance(n, (ast.Name, ast.Call)))

    def _holds(self, node: Question) -> bool | None:
        held = self.truth(node.test)
        if isinstance(node, ast.Assert):
            return False if held is False else None
        if isinstance(node, ast.If) and held is not None and self._refuses(node.body if held else node.orelse):
            return not held  # it asked for a wrapper where one had to be
        is_choice = held is None and node in self.wrapping and isinstance(node, ast.If) and bool(node.orelse)
        return False if is_choice and self._only_wraps(node) else held

    def _refuses(self, block: Sequence[ast.stmt]) -> bool:
        """Whether a block does nothing but end the run."""
        last = block[-1] if block else None
        call = last.value if isinstance(last, ast.Expr) else None
        return isinstance(last, ast.Raise) or (isinstance(call, ast.Call) and self.program.exits(call))

    def _only_wraps(self, node: ast.If | ast.IfExp) -> bool:
        """Whether a branch does nothing but put wrappers round models, and is not that of any one GPU.

        One that moves them as well, `net = nn.DataParallel(net).cuda()`, where the other leaves them, is for a GPU.
        """
        block = node.body if isinstance(node.body, list) else []
        orelse = node.orelse if isinstance(node.orelse, list) else []
        wrap_both = any(self.program.inside(w, s) for w in self.wrappers for s in orelse)
        if _moves(block) is not _moves(orelse) and (wrap_both or _moves(block)):
            return False
        if not all(isinstance(s, ast.Assign) and any(self.program.inside(w, s) for w in self.wrappers) for s in block):
            return False
        return self.program.once(Conditions).truth_in(node.test, worlds_where(Process.ONE, has_gpu=True)) is not True

    def truth(self, test: ast.expr, depth: int = 4) -> bool | None:
        """The truth of a condition; None where it asks for something else."""
        if ast.unparse(test) in self.modes:
            return False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            held = self.truth(test.operand, depth)
            return None if held is None else not held
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            each = [self.truth(v, depth) for v in test.values]
            return decisive if decisive in each else None if None in each else not decisive
        if isinstance(test, ast.Call):
            return False if self._asks_for_a_wrapper(test) else None
        if isinstance(test, ast.Compare):
            return self._compared(test)
        value = self.tracer.only_value(test) if depth else None
        return None if value is None else self.truth(value, depth - 1)

    def _asks_for_a_wrapper(self, call: ast.Call) -> bool:
        """`isinstance(model, nn.DataParallel)`, `hasattr(model, "module")`"""
        function = self.program.called(call)
        if len(call.args) != 2 or not self._may_be_wrapped(call.args[0]):
            return False
        if "hasattr" in function:
            return isinstance(call.args[1], ast.Constant) and call.args[1].value == "module"
        classes = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else call.args[1:]
        return "isinstance" in function and all(map(self._is_wrapper, classes))

    def _compared(self, test: ast.Compare) -> bool | None:
        """`type(model) is nn.DataParallel`, `device_count() < 2`"""
        if self._by_count(test) == (True, True, False, False):
            return True
        asked = test.left.args if isinstance(test.left, ast.Call) and "type" in self.program.called(test.left) else []
        if len(asked) != 1 or len(test.ops) > 1 or not self._is_wrapper(test.comparators[0]):
            return None
        return isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) if self._may_be_wrapped(asked[0]) else None

    def _is_wrapper(self, node: ast.expr) -> bool:
        is_own = bool(wrapper_classes(self.program, node))
        return is_own or any(map(names.is_wrapper, self.program.externals(node)))

    def _may_be_wrapped(self, node: ast.expr) -> bool:
        held = self.program.values(node)
        return not held or not held.isdisjoint(self.wrapped)

    # Conditions for several GPUs.

    def _modes(self, test: ast.expr) -> list[ast.expr]:
        """The conditions for several GPUs among those that hold where another does."""
        terms = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        return [term for term in terms if self._is_mode(term)]

    def _is_mode(self, test: ast.expr, depth: int = 4) -> bool:
        """Whether a condition asks for several GPUs: `torch.cuda.device_count() > 1`, `args.multi_gpu`."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self._is_mode(v, depth) for v in test.values)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.NotEq)):
            least = test.comparators[0]
            return isinstance(least, ast.Constant) and least.value in (1, 2) and self._counts_gpus(test.left, depth)
        if not isinstance(test, (ast.Name, ast.Attribute)):
            return False
        value = self.tracer.only_value(test) if depth else None
        if value is not None and self._is_mode(value, depth - 1):
            return True
        return vocabulary.is_parallel_option(test.id if isinstance(test, ast.Name) else test.attr)

    def _counts_gpus(self, node: ast.expr, depth: int) -> bool:
        return any(self._is_count(part, depth) for part in ast.walk(node))

    def _is_count(self, node: ast.AST, depth: int) -> bool:
        if isinstance(node, ast.Call):
            rows = map(table.function, self.program.called(node))
            return any(row is not None and row.asks is Asks.GPUS for row in rows)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return False
        name = node.id if isinstance(node, ast.Name) else node.attr
        value = self.tracer.only_value(node) if depth else None
        is_named = vocabulary.is_parallel_option(name) or vocabulary.is_device_name(name)
        return is_named or (value is not None and self._counts_gpus(value, depth - 1))


def _where(test: ast.expr, *, holds: bool) -> ast.expr | None:
    """The condition that holds where another does, or does not; None where that is not written down."""
    if holds:
        return test
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None


def _moves(block: Sequence[ast.stmt]) -> bool:
    """Whether some statements bring something to a device: `net.cuda()`."""
    called = (n.func for s in block for n in ast.walk(s) if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Attribute) and methods.moves_to_device(f.attr) for f in called)
