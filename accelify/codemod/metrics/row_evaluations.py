"""Which evaluation loops may share their loader, because every value that leaves them is counted row by row?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.metrics.row_metrics import Rowwise
from accelify.codemod.metrics.updates import added_in
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Tracer
from accelify.codemod.semantics.scopes import Scope, names_in, names_read_in, names_written_in
from accelify.codemod.training.certainty import Certainty
from accelify.codemod.training.loops import Loops, Training
from accelify.codemod.training.roles import Roles

_DEPTH = 4
_JOINS = {"torch.cat", "numpy.concatenate", "numpy.vstack", "numpy.hstack", "torch.vstack", "torch.hstack"}
_MOVES = ("to", "cuda", "cpu", "float", "long", "double", "type")


@dataclass(frozen=True)
class Gathering:
    """An evaluation loop whose loader is shared: after `forward`, `names` hold the rows of all processes."""

    loop: ast.For
    forward: ast.Assign
    names: tuple[str, ...]


class Evaluations:
    """Find the loops that evaluate a model in a way that is plain and clear."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, training: Training) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training
        self.certainty = Certainty(program, tracer, training)
        self.loops = Loops(program, roles, tracer)
        sources = [s for d in training.data if d.kind == "loaders" for s in d.sources]
        self.trained = {chain[-1].node for source in sources for chain in tracer.chains(source)}

    def find(self) -> list[Gathering]:
        """The loops whose loaders no other kind of loop reads."""
        found: dict[ast.For, Gathering] = {}
        for parsed in self.program.files:
            for node in parsed.parents:
                if isinstance(node, ast.For) and self._is_candidate(node):
                    gathering = self._gathering(node)
                    if gathering is not None:
                        found[node] = gathering
        training: set[ast.AST | None] = {d.loop for d in self.training.data}
        while True:
            known = training | set(found)
            left = {n: g for n, g in found.items() if self._owns_its_loaders(n, known)}
            if len(left) == len(found):
                return list(found.values())
            found = left

    def _is_candidate(self, loop: ast.For) -> bool:
        frame = self.program.frame(loop)
        if frame not in self.program.reachable or not self._is_plainly_over(loop.iter):
            return False
        if loop in {d.loop for d in self.training.data} or loop.orelse:
            return False
        owners = self.loops.owners(loop.iter)
        return bool(owners) and all(self.roles.is_torch_loader(v) for v in owners) and self.certainty.of(loop)

    def _is_plainly_over(self, source: ast.expr) -> bool:
        """Whether a loop goes over the whole of a variable: `loader`, `enumerate(loader)`, `tqdm(loader)`."""
        return isinstance(self.tracer.inside(source), ast.Name)

    # The loop itself.

    def _gathering(self, loop: ast.For) -> Gathering | None:
        block, before = self._block(loop)
        rowwise = Rowwise(self.program, self.tracer, loop)
        position = next((i for i, s in enumerate(block) if self._forwards(s, rowwise)), None)
        if position is None or not self._is_in_eval_mode(loop):
            return None
        forward, metrics = block[position], block[position + 1 :]
        before = [*before, *block[:position]]
        assert isinstance(forward, ast.Assign)
        outputs = names_written_in(forward)
        dealt = names_in(loop.target) - self._counters(loop)
        read = names_read_in(*metrics)
        bound = names_written_in(*before) | outputs | dealt | self._counters(loop)
        names = read & bound
        given = names_in(forward.value)
        if not names or not names <= outputs | dealt or names & given or not names & outputs or not names & dealt:
            return None
        if not all(self._is_a_move(s, names) for s in before) or self._is_read_after(loop):
            return None
        if not metrics or not all(rowwise.is_statement(s) or self._is_joined_later(s, rowwise, loop) for s in metrics):
            return None
        order = [n.id for n in ast.walk(ast.Module([forward, *metrics], [])) if isinstance(n, ast.Name)]
        return Gathering(loop, forward, tuple(dict.fromkeys(n for n in order if n in names)))

    @staticmethod
    def _block(loop: ast.For) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The statements of a loop, those under a last `with torch.no_grad():` for it; and what comes before that."""
        before: list[ast.stmt] = []
        body = loop.body
        while isinstance(body[-1], ast.With) and all(
            ast.unparse(i.context_expr).startswith("torch.") for i in body[-1].items
        ):
            before.extend(body[:-1])
            body = body[-1].body
        return body, before

    def _counters(self, loop: ast.For) -> frozenset[str]:
        """The index of `for i, batch in enumerate(loader)`."""
        if not isinstance(loop.iter, ast.Call) or "enumerate" not in self.program.called(loop.iter):
            return frozenset()
        target = loop.target
        first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) else target
        return names_in(first)

    def _forwards(self, statement: ast.stmt, rowwise: Rowwise) -> bool:
        """`output = model(data)`, `predicted = model(data).argmax(1)`."""
        if not isinstance(statement, ast.Assign) or len(names_written_in(statement)) != 1:
            return False
        value = statement.value
        while isinstance(value, ast.Call) and not self._is_of_model(value):
            if not rowwise.is_call(value) or not isinstance(value.func, ast.Attribute):
                return False
            value = value.func.value
        return isinstance(value, ast.Call)

    def _is_of_model(self, call: ast.Call) -> bool:
        values = self.program.values(call.func)
        return bool(values) and all(self.roles.is_model(v) for v in values)

    def _is_in_eval_mode(self, loop: ast.For) -> bool:
        """Whether `eval()` is the last that was called to set the mode, in the function of a loop."""
        frame = self.program.frame(loop)
        modes = [
            (c.lineno, c.func.attr)
            for c in self.program.calls
            if isinstance(c.func, ast.Attribute)
            and c.func.attr in ("eval", "train")
            and self.program.frame(c) is frame
            and c.lineno < loop.lineno
        ]
        return bool(modes) and max(modes)[1] == "eval"

    def _is_a_move(self, statement: ast.stmt, names: frozenset[str]) -> bool:
        """Whether a statement before the forward pass leaves the rows of what is gathered as they are."""
        if isinstance(statement, ast.If):
            return all(self._is_a_move(s, names) for s in [*statement.body, *statement.orelse])
        if not isinstance(statement, ast.Assign):
            return False
        if not names_written_in(statement) & names:
            return bool(names_written_in(statement))
        values = statement.value.elts if isinstance(statement.value, (ast.Tuple, ast.List)) else [statement.value]
        return all(self._is_moved(v) for v in values)

    def _is_moved(self, value: ast.expr) -> bool:
        while isinstance(value, ast.Call):
            if isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES:
                value = value.func.value
            elif any("Variable" in n for n in self.program.called(value)) and value.args:
                value = value.args[0]
            else:
                return False
        return isinstance(value, ast.Name)

    def _is_read_after(self, loop: ast.For) -> bool:
        """Whether something of the last batch is read after a loop."""
        frame = self.program.frame(loop)
        end = loop.end_lineno or loop.lineno
        return any(
            read.lineno > end and not self._is_rebound(frame, name, end, read.lineno)
            for name in names_written_in(loop) - added_in(loop).keys()
            for read in frame.reads.get(name, ())
        )

    def _is_joined_later(self, statement: ast.stmt, rowwise: Rowwise, loop: ast.For) -> bool:
        """`parts.append(rows)` where the parts are only put together after the loop, in which case it is all one."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
            return False
        parts = call.func.value
        if not isinstance(parts, ast.Name) or len(call.args) != 1 or not rowwise.is_value(call.args[0]):
            return False
        frame, end = self.program.frame(loop), loop.end_lineno or loop.lineno
        reads = [
            r
            for r in frame.reads.get(parts.id, ())
            if r.lineno > end and not self._is_rebound(frame, parts.id, end, r.lineno - 1)
        ]
        return bool(reads) and all(self._joins(r) for r in reads)

    def _joins(self, read: ast.Name) -> bool:
        call = self.program.parent(read)
        return isinstance(call, ast.Call) and len(call.args) == 1 and bool(self.program.called(call) & _JOINS)

    def _is_rebound(self, frame: Scope, name: str, start: int, end: int) -> bool:
        return any(start < getattr(w, "lineno", 0) <= end for w in frame.writes.get(name, ()))

    # Its loaders.

    def _owns_its_loaders(self, loop: ast.For, known: set[ast.AST | None]) -> bool:
        chains = self.tracer.chains(loop.iter)
        return bool(chains) and all(self._is_owned(chain[-1], known) and _is_plain(chain) for chain in chains)

    def _is_owned(self, binding: Binding, known: set[ast.AST | None]) -> bool:
        """Whether a loader is built where it gets its name, and read by known loops alone."""
        if not isinstance(binding.node, ast.Name) or not isinstance(binding.value, ast.Call):
            return False
        if any(k.arg in ("collate_fn", "batch_sampler") for k in binding.value.keywords):
            return False
        if not all(self.roles.is_torch_loader(v) for v in self.program.values(binding.value)):
            return False
        if binding.node in self.trained:
            return True
        return self._is_read_by(binding.scope, binding.node.id, known, _DEPTH)

    def _is_read_by(self, scope: Scope, name: str, known: set[ast.AST | None], depth: int) -> bool:
        reads = [
            r
            for inner in scope.walk()
            if inner is scope or inner.owner(name) is scope
            for r in inner.reads.get(name, ())
        ]
        return bool(depth) and all(self._is_known_read(read, known, depth) for read in reads)

    def _is_known_read(self, read: ast.Name, known: set[ast.AST | None], depth: int) -> bool:
        parent = self.program.parent(read)
        if isinstance(parent, ast.Attribute):
            return parent.attr == "dataset"
        for loop in self.program.ancestors(read):
            if isinstance(loop, (ast.For, ast.AsyncFor)) and self.program.inside(read, loop.iter):
                return loop in known
        if isinstance(parent, ast.keyword):
            parent = self.program.parent(parent)
        if not isinstance(parent, ast.Call):
            return False
        callees = self.program.flow.callees.get(parent, set())
        passed = list(self._passed_to(parent, read, callees))
        return bool(passed) and all(self._is_read_by(f, p, known, depth - 1) for f, p in passed)

    def _passed_to(self, call: ast.Call, read: ast.Name, callees: set[Scope]) -> Iterator[tuple[Scope, str]]:
        for callee in callees:
            for parameter in callee.parameters:
                if self.tracer.argument(call, callee, parameter.arg) is read:
                    yield callee, parameter.arg


def _is_plain(chain: tuple[Binding, ...]) -> bool:
    return all(b.kind in ("assign", "parameter") for b in chain)
