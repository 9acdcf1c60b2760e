"""Which questions of a script are whether there are several processes, or which this is?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.distributed.branches import Arms
from accelify.codemod.distributed.conditions import RANKS
from accelify.codemod.distributed.launcher_edits import Tangle
from accelify.codemod.distributed.launching import Launching
from accelify.codemod.libraries import names

_ORDERS = {"==": [True, False, False], "!=": [False, True, True]}


class Questions:
    """Put them in the accelerator's terms, or decide them."""

    def __init__(self, launching: Launching, arms: Arms, found: Tangle) -> None:
        self.launching = launching
        self.program = launching.program
        self.arms = arms
        self.found = found

    def look(self, node: ast.expr) -> None:
        """All questions in an expression."""
        if isinstance(node, ast.IfExp):
            self._choice(node)
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and self._is_never(node.right):
            self._put(node, ast.unparse(node.left), (node.left,))
            return
        if isinstance(
            node, (ast.BoolOp, ast.Compare, ast.UnaryOp, ast.Name, ast.Attribute, ast.Call)
        ) and self._question(node):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.look(child)
            elif isinstance(child, ast.keyword):
                self.look(child.value)
            elif isinstance(child, ast.comprehension):
                for part in (child.iter, *child.ifs):
                    self.look(part)

    def count_processes(self, statement: ast.stmt) -> None:
        """The number of a machine's GPUs, by which something is scaled, becomes that of the processes."""
        for node in ast.walk(statement):
            is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) and is_read and self.launching.is_count(node):
                self._put(node, "{group}.get_world_size()")

    def _is_never(self, node: ast.expr) -> bool:
        return self.launching.truth(node) is False and self.launching.off(node) is False

    def _choice(self, node: ast.IfExp) -> None:
        truth = self.launching.truth(node.test)
        if truth is None:
            for part in (node.test, node.body, node.orelse):
                self.look(part)
            return
        on, off = (node.body, node.orelse) if truth else (node.orelse, node.body)
        if self._is_same(on, off):
            self.found.choices[node] = truth
            self.found.goes(node.test)
            self.found.goes(off)
            self.look(on)
        elif self.arms.is_structural([ast.Expr(on), ast.Expr(off)]):
            self.found.refuse(node, f"`{ast.unparse(node)}` is more than the accelerator does")
        else:
            self.look(node.test)
            self.look(on)
            self.look(off)

    def _is_same(self, on: ast.expr, off: ast.expr) -> bool:
        """Whether two values are the same where the accelerator does its part."""
        word = self.launching.word(on)
        if word is not None:
            return isinstance(off, ast.Constant) and off.value in ((0, -1) if word in RANKS else (1,))
        is_none = isinstance(off, ast.Constant) and off.value is None
        called = self.program.called(on) if isinstance(on, ast.Call) else self.program.externals(on)
        deals = any(n.endswith("DistributedSampler") and names.is_distributed(n) for n in called)
        if deals:
            others = self.program.called(off) if isinstance(off, ast.Call) else self.program.externals(off)
            return is_none or any(n.endswith(("RandomSampler", "SequentialSampler")) for n in others)
        one, other = ast.Return(on), ast.Return(off)
        return self.arms.residue(one) == self.arms.residue(other)

    def _question(self, node: ast.expr) -> bool:
        """A question whether there are several processes, or which this is, in the accelerator's terms."""
        launching = self.launching
        if launching.asks(node) is None and not isinstance(node, ast.BoolOp):
            return self._order(node)
        if (
            isinstance(node, ast.Call)
            or launching.word(node) is not None
            or not any(launching.asks(n) is not None for n in _parts(node))
        ):
            return False
        rest = self._rest(node)
        if launching.truth(node) is None and rest is not None and rest[2] is launching.off(node) is not None:
            self._put(node, rest[0], rest[1])
            return True
        if launching.asks(node) is None:
            return False
        self._put(node, "{group}.get_world_size() " + ("> 1" if launching.asks(node) else "== 1"))
        return True

    def _put(self, node: ast.expr, code: str, keeps: tuple[ast.expr, ...] = ()) -> None:
        self.found.tests[node] = (code, keeps)
        kept = {n for k in keeps for n in ast.walk(k)}
        self.found.gone.update(n for n in ast.walk(node) if n not in kept)

    def _order(self, node: ast.expr) -> bool:
        """`rank in (-1, 0)`, `rank < 1` or `rank % n == 0`: is this the first process?"""
        first = self._first(node)
        if first is not None and first[0] != ast.unparse(node):
            self._put(node, *first)
        return first is not None

    def _first(self, node: ast.expr) -> tuple[str, tuple[ast.expr, ...]] | None:
        outcomes = self.launching.outcomes(node)
        sign = next((s for s, wanted in _ORDERS.items() if outcomes == wanted), None)
        if sign is None or not isinstance(node, ast.Compare):
            return None
        if isinstance(node.left, ast.BinOp):
            return "{group}." + f"{self.launching.word(node.left)}() {sign} 0", ()
        return f"{ast.unparse(node.left)} {sign} 0", (node.left,)

    def _rest(self, node: ast.expr) -> tuple[str, tuple[ast.expr, ...], bool | None] | None:
        """A question without what is decided once the processes have been started: code, parts, and what it says alone.

        None where nothing would be left, or where another part asks whether there are several.
        """
        if isinstance(node, ast.BoolOp):
            neutral = isinstance(node.op, ast.And)
            parts = [self._rest(v) for v in node.values if self.launching.truth(v) is not neutral]
            known = [p for p in parts if p is not None]
            if not known or len(known) < len(parts):
                return None
            alone = [p[2] for p in known]
            says = (not neutral) if (not neutral) in alone else None if None in alone else neutral
            inner = [f"({c})" if " or " in c and neutral else c for c, _, _ in known]
            return (" and " if neutral else " or ").join(inner), tuple(k for p in known for k in p[1]), says
        first = self._first(node)
        if first is not None:
            return *first, self.launching.alone(node)
        if any(self.launching.asks(n) is not None for n in _parts(node)):
            return None
        return ast.unparse(node), (node,), None


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    yield from (n for n in ast.walk(node) if isinstance(n, ast.expr))
