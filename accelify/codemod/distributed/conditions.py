"""What do the conditions of a script say once a launcher has started its processes, and what in one process?"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable

from accelify.codemod.libraries import names
from accelify.codemod.preparing.reach import method_of
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.outcomes import compared, known, truth
from accelify.codemod.semantics.program import Program

Key = tuple[object, ...]
RANKS = ("get_rank", "get_node_local_rank")
SIZE = "get_world_size"
VARIABLES = {"RANK": "get_rank", "LOCAL_RANK": "get_node_local_rank", "WORLD_SIZE": SIZE}
_Numbers = dict[str, tuple[int, ...]]
_LAUNCHED: _Numbers = {**dict.fromkeys(RANKS, (0, 1, 7)), SIZE: (2, 8)}
_ALONE: _Numbers = {**dict.fromkeys(RANKS, (0,)), SIZE: (1,)}
_UNTOLD: _Numbers = {**dict.fromkeys(RANKS, (-1,)), SIZE: (1,)}
_OFF: _Numbers = {**dict.fromkeys(RANKS, (-1, 0)), SIZE: (-1, 0, 1)}
ROUNDS = 6


class Conditions(ABC):
    """Work out conditions from what is known of names.

    words: the function of `torch.distributed` that gives what a name holds. on: what is true of a condition, or of a
    name, where several processes have been started.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.words: dict[Key, str] = {}
        self.on: dict[Key, bool] = {}
        self._open: set[ast.Call] = set()  # calls that are being looked into

    @abstractmethod
    def word(self, node: ast.AST | None) -> str | None:
        """The function of `torch.distributed` that gives what an expression holds."""

    def key(self, node: ast.expr) -> Key | None:
        """The key of an expression's meaning: the variable, the attribute's name, or the text with its variables."""
        if isinstance(node, ast.Name):
            return (self.program.scope(node).owner(node.id), node.id)
        if isinstance(node, ast.Attribute):
            method = method_of(self.program.frame(node))
            base = ast.unparse(node.value)
            is_self = method is not None and bool(method.parameters) and base == method.parameters[0].arg
            return (method.parent if method is not None and is_self else base.rpartition(".")[2], ".", node.attr)
        if isinstance(node, (ast.Constant, ast.Lambda)):
            return None
        inner = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        held = {n.value for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        owners = [self.program.scope(n).owner(n.id) for n in inner if n not in held]
        return (ast.unparse(node), *owners)

    # The truth of a condition.

    def truth(self, node: ast.expr) -> bool | None:
        """The truth of a condition where several processes have been started; None where it depends on more."""
        return self._value(node, _LAUNCHED, is_on=True)

    def alone(self, node: ast.expr) -> bool | None:
        """The truth of a condition in one process that a launcher started."""
        return self._value(node, _ALONE, is_on=False)

    def off(self, node: ast.expr) -> bool | None:
        """The truth of a condition where the script was started by itself, and does not distribute itself."""
        return self._value(node, _OFF, is_on=False)

    def asks(self, node: ast.expr) -> bool | None:
        """The truth of a name or comparison where there are several processes; None where it asks something else."""
        key = self.key(node)
        if key is not None and key in self.on:
            return self.on[key]
        if isinstance(node, ast.Call):
            called = self.program.called(node)
            if any(map(names.asks_for_group, called)):
                return True
            if isinstance(node.func, ast.Name) and node.func.id == "bool" and node.args:
                return self.asks(node.args[0])
            return self._asks_by_function(node) if node not in self._open else None
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            name = node.left.value if isinstance(node.left, ast.Constant) else None
            if name in VARIABLES and "os.environ" in self.program.externals(node.comparators[0]):
                return isinstance(node.ops[0], ast.In)
        if isinstance(node, ast.Compare) and self.outcomes(node) and ast.unparse(node.comparators[0]) == "None":
            return isinstance(node.ops[0], ast.IsNot)
        told, untold = set(self.outcomes(node)), set(self.outcomes(node, _UNTOLD))
        return told.pop() if len(told) == 1 and untold and not told & untold else None

    def _asks_by_function(self, call: ast.Call) -> bool | None:
        self._open.add(call)
        there, otherwise = self.returned(call, self.truth), self.returned(call, self.alone)
        truth = self.truth(there) if there is not None else None
        alone = self.alone(otherwise) if otherwise is not None else None
        self._open.remove(call)
        return truth if truth is not None and alone is (not truth) else None

    def _value(self, node: ast.expr, numbers: _Numbers, is_on: bool) -> bool | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._value(node.operand, numbers, is_on)
            return None if inner is None else not inner
        asked = self.asks(node)
        if asked is not None:
            return asked if is_on else not asked
        if self._leaves_out(node):
            return False
        if isinstance(node, ast.BoolOp):
            values = [self._value(v, numbers, is_on) for v in node.values]
            decisive = isinstance(node.op, ast.Or)
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        found = self.outcomes(node, numbers)
        return found[0] if found and len(set(found)) == 1 else None

    def _leaves_out(self, node: ast.expr) -> bool:
        """Whether a question is if a sampler left some of the data out: `len(sampler) * n < len(dataset)`."""
        if not (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt) and isinstance(node.left, ast.BinOp)):
            return False
        sharded, whole = sizes.measured(node.left.left), sizes.measured(node.comparators[0])
        if sharded is None or whole is None:
            return False
        sampler, data = ast.unparse(sharded), ast.unparse(whole)
        is_same = sampler.rpartition(".")[0] == data.rpartition(".")[0] and sampler.endswith(".sampler")
        return is_same and isinstance(node.left.op, ast.Mult) and self.word(node.left.right) == SIZE

    def outcomes(self, node: ast.expr, numbers: _Numbers | None = None) -> list[bool]:
        """The truth of a comparison of a rank for some ranks, 0 the first; empty for another comparison."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return []
        word = self.word(node.left)
        try:
            other = ast.literal_eval(node.comparators[0])
        except ValueError:
            return []
        numbered = (numbers or _LAUNCHED).get(word or "", ())
        answers = [truth(compared(node.ops[0], known(n), known(other))) for n in numbered]
        return [a for a in answers if a is not None]

    # Functions that only ask.

    def returned(self, call: ast.Call, says: Callable[[ast.expr], bool | None]) -> ast.expr | None:
        """The expression that a function of the script's own returns, if it does nothing but ask."""
        callees = self.program.flow.callees.get(call, set())
        block = next(iter(callees)).body if len(callees) == 1 else []
        for _ in range(ROUNDS):
            ended = False
            for statement in block:
                if isinstance(statement, ast.Return):
                    return statement.value or ast.Constant(None)
                truth = says(statement.test) if isinstance(statement, ast.If) else None
                if isinstance(statement, ast.If) and truth is not None:
                    inner = statement.body if truth else statement.orelse
                    if inner and isinstance(inner[-1], ast.Return):
                        block, ended = inner, True
                        break
                elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    return None
            if not ended:
                break
        return None

    def does_nothing_alone(self, call: ast.Call) -> bool:
        """Whether a function of the script's own returns at once in one process."""
        returned = self.returned(call, self.alone)
        return isinstance(returned, ast.Constant) and returned.value is None
