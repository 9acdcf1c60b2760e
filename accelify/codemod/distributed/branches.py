"""Do the branches of a condition differ only in what the accelerator does for both?"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto

from accelify.codemod.distributed.conditions import RANKS, Key
from accelify.codemod.distributed.launching import Launching
from accelify.codemod.libraries import methods, names, vocabulary
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.roles import Roles


class Purpose(Enum):
    """The purpose of a statement in a branch."""

    START = auto()  # the processes
    SYNC = auto()  # wait for the others
    SHARD = auto()  # data, for them
    PLACE = auto()  # or wrap a model
    DEVICE = auto()
    NUMBER = auto()  # say which process this is
    SCALE = auto()  # something by the number of the processes
    SAY = auto()
    REFUSE = auto()
    OWN = auto()  # something of the script's own


_SYNCHRONISED = "torch.nn.SyncBatchNorm.convert_sync_batchnorm"
_ARITHMETIC = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Call, ast.Name),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


class Branches:
    """Tell what the statements of a branch are for."""

    def __init__(self, launching: Launching, roles: Roles) -> None:
        self.launching = launching
        self.program = launching.program
        self.roles = roles
        self.samplers: dict[Key, ast.Call] = {}
        for statement in launching.place.nodes():
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                key = launching.key(statement.targets[0])
                for call in ast.walk(statement.value):
                    if key is not None and isinstance(call, ast.Call) and self.is_distributed_sampler(call):
                        self.samplers[key] = call

    def is_distributed_sampler(self, call: ast.Call) -> bool:
        """Whether a call makes a sampler that shards data for processes."""
        return any(map(names.is_distributed_sampler, self.program.called(call)))

    def is_wrapper(self, node: ast.AST) -> bool:
        """Whether a call wraps a model for several processes."""
        return isinstance(node, ast.Call) and any(
            names.is_wrapper(n) and names.is_distributed(n) for n in self.program.called(node)
        )

    def leaves(self, block: Iterable[ast.stmt], is_launched: bool = True) -> Iterator[ast.stmt]:
        """The statements of a block, and those under its conditions that may run."""
        for statement in block:
            if isinstance(statement, ast.If):
                truth = self.launching.truth(statement.test) if is_launched else None
                if truth is not False:
                    yield from self.leaves(statement.body, is_launched)
                if truth is not True:
                    yield from self.leaves(statement.orelse, is_launched)
            else:
                yield statement

    def is_structural(self, block: Iterable[ast.stmt]) -> bool:
        """Whether a block makes what is there only once: the group, its wrappers, its samplers."""
        starting = {*self.launching.starts, *(s.call for s in self.launching.spawns)}
        for statement in block:
            for node in ast.walk(statement):
                if node in starting or self.is_wrapper(node):
                    return True
                if isinstance(node, ast.Call) and self.is_distributed_sampler(node):
                    return True
        return False

    def own(self, on: Sequence[ast.stmt], off: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements that only one of two branches has, beside what the accelerator does for both."""
        there, otherwise = list(self.leaves(on)), list(self.leaves(off, is_launched=False))
        return [
            *(s for s in there if self.kind(s) in (Purpose.OWN, Purpose.REFUSE) and not self._is_among(s, otherwise)),
            *(s for s in otherwise if self.kind(s) == Purpose.OWN and not self._is_among(s, there)),
        ]

    def _is_among(self, statement: ast.stmt, others: Sequence[ast.stmt]) -> bool:
        """Whether another branch does the same, as far as one process goes."""
        residue = self.residue(statement)
        return any(self.residue(o) == residue or self._gives_the_same(statement, o) for o in others)

    def _gives_the_same(self, one: ast.stmt, other: ast.stmt) -> bool:
        """Whether two assignments give a name the same in one process: a rank and 0, say."""
        if not isinstance(one, ast.Assign) or not isinstance(other, ast.Assign):
            return False
        if [ast.unparse(t) for t in one.targets] != [ast.unparse(t) for t in other.targets]:
            return False
        values = [self._in_one_process(s.value) for s in (one, other)]
        return None not in values and len(set(values)) == 1

    def _in_one_process(self, value: ast.expr) -> str | None:
        if isinstance(value, ast.Constant):
            return repr(value.value)
        word, alone = self.launching.word(value), self.launching.alone(value)
        if word is not None or "torch.cuda.device_count" in self.program.externals(getattr(value, "func", None)):
            return "0" if word in RANKS else "1"
        return None if alone is None else repr(alone)

    def places(self, block: Iterable[ast.stmt]) -> bool:
        """Whether a block has anything in it that the accelerator does."""
        others = (Purpose.SYNC, Purpose.SAY, Purpose.OWN, Purpose.REFUSE)
        return any(self.kind(s) not in others for s in self.leaves(block, is_launched=False))

    def says(self, statement: ast.stmt) -> bool:
        """Whether a statement prints or logs something, or sets how the library computes."""
        is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        return (is_call or isinstance(statement, ast.Assign)) and self.kind(statement) == Purpose.SAY

    # The purpose of a statement.

    def kind(self, statement: ast.stmt) -> Purpose:
        """The purpose of a statement."""
        if isinstance(statement, ast.Pass):
            return Purpose.SAY
        if isinstance(statement, ast.Raise):
            return Purpose.REFUSE
        if isinstance(statement, ast.Assert):
            return Purpose.NUMBER
        if isinstance(statement, ast.Expr):
            return self._expression(statement.value)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return self._assignment(statement.targets[0], statement.value)
        if isinstance(statement, ast.AugAssign):
            value = ast.BinOp(statement.target, statement.op, statement.value)
            return Purpose.SCALE if self._is_scaled(statement.target, value) else Purpose.OWN
        return Purpose.OWN

    def _expression(self, node: ast.expr) -> Purpose:
        if isinstance(node, ast.Constant):
            return Purpose.SAY
        if not isinstance(node, ast.Call):
            return Purpose.OWN
        called = self.program.called(node)
        text = ast.unparse(node.func)
        if any(map(_starts, called)) or any(s.call is node for s in self.launching.spawns) or self._runs_worker(node):
            return Purpose.START
        if names.says(text) or text.startswith("warnings.") or text.partition(".")[0] in ("logger", "log", "_logger"):
            return Purpose.SAY
        if text.endswith(".set_epoch"):
            return Purpose.SHARD
        if self.launching.does_nothing_alone(node):
            return Purpose.SYNC
        return Purpose.PLACE if self._root(node) is not node else Purpose.OWN

    def _runs_worker(self, call: ast.Call) -> bool:
        workers = {s.worker for s in self.launching.spawns}
        return bool(self.program.flow.callees.get(call, set()) & workers)

    def _assignment(self, target: ast.expr, value: ast.expr) -> Purpose:
        key = self.launching.key(target)
        if isinstance(target, ast.Subscript) and "os.environ" in self.program.externals(target.value):
            return Purpose.START
        if isinstance(target, ast.Attribute) and self._is_a_backend(target.value):
            return Purpose.SAY
        if key in self.samplers and self._is_sampler(value):
            return Purpose.SHARD
        if key in self.launching.words or key in self.launching.on or self._is_number(value):
            return Purpose.NUMBER
        root = self._root(value)
        if root is not value and (ast.unparse(root) == ast.unparse(target) or self._is_again(key, root)):
            return Purpose.PLACE
        values = self.program.values(value)
        if (values and all(self.roles.is_device(v) for v in values)) or self._is_device_text(value):
            return Purpose.DEVICE
        return Purpose.SCALE if self._is_scaled(target, value) else Purpose.OWN

    def _is_a_backend(self, node: ast.expr) -> bool:
        return any(n.startswith("torch.backends.") for n in self.program.externals(node))

    def _is_again(self, key: Key | None, root: ast.expr) -> bool:
        """Whether a name had what is wrapped before: `inner = model`, and then `inner = model.module`."""
        text, values = ast.unparse(root), self.program.values(root)
        is_one = len(values) == 1 and all(self.roles.is_module(v) for v in values)
        return any(
            ast.unparse(s.value) == text or (is_one and self.program.values(s.value) == values)
            for s in self.launching.assigns
            if self.launching.key(s.targets[0]) == key
        )

    def _is_sampler(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Constant):
            return value.value is None
        called = self.program.called(value) if isinstance(value, ast.Call) else set()
        is_own = any(map(names.is_plain_sampler, called))
        return is_own or (isinstance(value, ast.Call) and self.is_distributed_sampler(value))

    def _is_number(self, value: ast.expr) -> bool:
        """Whether a value says which process this is, or how many there are, or that it is the first."""
        if self.launching.word(value) is not None or self.launching.outcomes(value):
            return True
        return isinstance(value, ast.Call) and "torch.cuda.device_count" in self.program.called(value)

    @staticmethod
    def _is_device_text(value: ast.expr) -> bool:
        """`f"cuda:{local_rank}"`, `"cuda:{}".format(gpu)`."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "format":
            value = value.func.value
        first = value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value
        return isinstance(first, ast.Constant) and vocabulary.is_device_text(first.value)

    def _root(self, node: ast.expr) -> ast.expr:
        """The object that an expression moves or wraps."""
        while isinstance(node, (ast.Call, ast.Attribute)):
            if isinstance(node, ast.Attribute):
                if node.attr != "module":
                    break
                node = node.value
                continue
            called = self.program.called(node)
            if node.args and (any(map(names.is_wrapper, called)) or _SYNCHRONISED in called):
                node = node.args[0]
            elif isinstance(node.func, ast.Attribute) and methods.moves(node.func.attr):
                node = node.func.value
            else:
                break
        return node

    def _is_scaled(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether a value depends on the number of processes, and is the target's own where there is one."""
        if not any(isinstance(n, ast.expr) and self.launching.is_size(n) for n in ast.walk(value)):
            return False
        try:
            return all(self._computed(value, target, number) == number for number in (12, 33))
        except (SyntaxError, TypeError, NameError, ValueError, ArithmeticError):
            return False

    def _computed(self, value: ast.expr, target: ast.expr, number: int) -> object:
        """An arithmetic expression for one value of a target, in one process."""
        filled = ast.fix_missing_locations(ast.Expression(self._filled(value, ast.unparse(target), number)))
        if not all(isinstance(n, _ARITHMETIC) for n in ast.walk(filled)):
            raise ValueError
        return eval(compile(filled, "<arithmetic>", "eval"), {"__builtins__": {}}, _functions(filled))  # numbers

    def _filled(self, node: ast.expr, target: str, number: int) -> ast.expr:
        """An expression with a number for its target, and one for that of the processes."""
        if self.launching.is_size(node):
            return ast.Constant(1)
        if ast.unparse(node) == target:
            return ast.Constant(number)
        copied = copy.copy(node)
        for name, part in ast.iter_fields(node):
            if isinstance(part, ast.expr) and not (isinstance(node, ast.Call) and name == "func"):
                setattr(copied, name, self._filled(part, target, number))
            elif name == "args" and isinstance(part, list):
                setattr(copied, name, [self._filled(p, target, number) for p in part])
        return copied

    # The statements that are left.

    def residue(self, statement: ast.stmt) -> str:
        """A statement without its wrappers, moves and samplers."""
        if isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) and statement.value is not None:
            copied = copy.copy(statement)
            copied.value = self._left(statement.value)
            return ast.unparse(copied)
        return ast.unparse(statement)

    def _left(self, node: ast.expr) -> ast.expr:
        root = self._root(node)
        if not isinstance(root, ast.Call) or not any(map(names.is_torch_loader, self.program.called(root))):
            return root
        given = {k.arg: k.value for k in root.keywords}
        shuffles = self.shuffles(given.get("sampler"), given.get("shuffle"))
        kept = [k for k in root.keywords if k.arg not in ("sampler", "shuffle")]
        order = ast.keyword("shuffle", ast.Constant(shuffles))
        return ast.Call(root.func, root.args, [*kept, order])

    def shuffles(self, sampler: ast.expr | None, shuffle: ast.expr | None) -> bool | str:
        """Whether a loader shuffles, or the expression that says so."""
        call: ast.expr | None = sampler
        if isinstance(sampler, (ast.Name, ast.Attribute)):
            key = self.launching.key(sampler)
            call = self.samplers.get(key) if key is not None else None
        if isinstance(call, ast.Call) and self.is_distributed_sampler(call):
            given = {k.arg: k.value for k in call.keywords}
            shuffle = given.get("shuffle", call.args[3] if len(call.args) > 3 else ast.Constant(True))
        elif isinstance(call, ast.Call):
            return any(n.endswith("RandomSampler") for n in self.program.called(call))
        if shuffle is None:
            return False
        return bool(shuffle.value) if isinstance(shuffle, ast.Constant) else ast.unparse(shuffle)


def _functions(expression: ast.AST) -> dict[str, object]:
    """The builtins by which an expression computes numbers."""
    found = names_in(expression)
    return {n: getattr(builtins, n) for n in found if names.gives_a_number(n)}


def _starts(name: str) -> bool:
    """Whether a call sets up the group of the processes, or the device of this one."""
    return names.starts_group(name) or names.picks_device(name) or name == "torch.distributed.barrier"
