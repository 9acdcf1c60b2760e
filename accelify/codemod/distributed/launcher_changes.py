"""What must change so that a script no longer starts its processes, nor asks whether there are several?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelify.codemod.distributed.branches import NUMBER, PLACE, REFUSE, SAY, SCALE, START, Arms
from accelify.codemod.distributed.conditions import Key
from accelify.codemod.distributed.data_order import Orders
from accelify.codemod.distributed.launcher_edits import Tangle
from accelify.codemod.distributed.launching import Launching
from accelify.codemod.distributed.questions import Questions
from accelify.codemod.libraries import names
from accelify.codemod.semantics.purity import is_pure


class Untangling:
    """Decide on the conditions that ask whether there are several processes."""

    def __init__(self, launching: Launching, arms: Arms) -> None:
        self.launching = launching
        self.program = launching.program
        self.arms = arms
        self.found = Tangle(foreign=list(launching.foreign))
        self.questions = Questions(launching, arms, self.found)
        self._numbers: dict[Key, tuple[ast.stmt, ast.expr, str]] = {}

    def find(self) -> Tangle:
        """All of it."""
        for call in self.launching.starts:
            for given in [*call.args, *call.keywords]:
                self.found.goes(given)
        for path in sorted(self.launching.place.files):
            self._block(self.program.flow.parsed_of[path].tree.body)
        self.found.numbers = list(self._numbers.values())
        Orders(self.launching, self.arms, self.found).find()
        return self.found

    # Statements.

    def _block(self, block: Sequence[ast.stmt]) -> None:
        for statement in block:
            if statement in self.found.gone:
                continue
            if isinstance(statement, ast.If):
                self._condition(statement)
                continue
            for expression in _heads(statement):
                self.questions.look(expression)
            for inner in _blocks(statement):
                self._block(inner)

    def _condition(self, node: ast.If) -> None:
        if not node.orelse and self._is_never(node.test):
            self.found.remove(node)
            return
        chain = list(_chain(node))
        chosen = None if isinstance(node.test, ast.Constant) else self._chosen(chain)
        if chosen is None:
            self._keep(chain)
            return
        on = chain[chosen][1]
        off = [s for i, (_, block) in enumerate(chain) if i != chosen for s in block]
        own = self.arms.own(on, off)
        if (own or not self.arms.places([*on, *off])) and not self.arms.is_structural([*on, *off]):
            self._keep(chain)
        elif own:
            for statement in own:
                what = ast.unparse(statement).partition("\n")[0]
                message = f"`{what}` runs only where the script does, or does not, distribute itself"
                self.found.refuse(statement, f"{message}: do the same in both cases")
        else:
            self._take(node, chain, chosen)

    def _is_never(self, test: ast.expr) -> bool:
        return self.launching.truth(test) is False and self.launching.off(test) is False

    def _chosen(self, chain: Sequence[tuple[ast.expr | None, list[ast.stmt]]]) -> int | None:
        """The branch that runs where there are several processes; None where that depends on more."""
        truths = [True if test is None else self.launching.truth(test) for test, _ in chain]
        for index, truth in enumerate(truths):
            if truth is True:
                return index
            if truth is None:
                break
        wrapping = [i for i, (_, block) in enumerate(chain) if truths[i] is not False and self._wraps(block)]
        is_placing = all(
            self.arms.kind(s) in (PLACE, SAY, SCALE, REFUSE, START)
            for _, block in chain
            for s in self.arms.leaves(block)
        )
        is_plain = all(test is None or is_pure(test) for test, _ in chain)
        return wrapping[0] if wrapping and is_placing and is_plain else self._starting(chain)

    def _wraps(self, block: Sequence[ast.stmt]) -> bool:
        return any(self.arms.is_wrapper(n) for s in block for n in ast.walk(s))

    def _starting(self, chain: Sequence[tuple[ast.expr | None, list[ast.stmt]]]) -> int | None:
        """The last of several branches that each start the processes, with one or another backend."""
        starting = [any(n in self.launching.starts for s in block for n in ast.walk(s)) for _, block in chain]
        kinds = {self.arms.kind(s) for _, block in chain for s in self.arms.leaves(block)}
        return len(chain) - 1 if len(chain) > 1 and all(starting) and kinds <= {START, SAY, NUMBER} else None

    def _take(self, node: ast.If, chain: Sequence[tuple[ast.expr | None, list[ast.stmt]]], chosen: int) -> None:
        on = chain[chosen][1]
        for index, (test, block) in enumerate(chain):
            if test is not None:
                self.found.goes(test)
            if index != chosen:
                leaves = self.arms.leaves(block, is_launched=False)
                self.found.unsaid += [s for s in leaves if self.arms.says(s)]
                for statement in block:
                    self.found.goes(statement)
        for statement in on:
            if isinstance(statement, ast.Assert) and self._asks_for_a_gpu(statement):
                self.found.remove(statement)
                self.found.unsaid.append(statement)
        starts = any(self.arms.kind(s) == START for s in self.arms.leaves(on))
        for statement in on:
            if starts and self._only_numbers(statement) and not self._is_told(statement):
                self._renumber(statement, on)
        self._block(on)
        for statement in on:
            if self.arms.kind(statement) == SCALE:
                self.found.scaled.append(statement)
                self.questions.count_processes(statement)
        left = [s for s in on if s not in self.found.removed and not isinstance(s, ast.Pass)]
        if left:
            test = chain[chosen][0]
            self.found.branches[node] = (chosen if test is not None else chosen - 1, test is not None)
        else:
            self.found.removed = [s for s in self.found.removed if s not in on]
            self.found.remove(node)

    def _asks_for_a_gpu(self, statement: ast.Assert) -> bool:
        """Whether a statement stops a script, as several processes needed a GPU each, where one process had none."""
        calls = [n for n in ast.walk(statement.test) if isinstance(n, ast.Call)]
        return any(names.is_cuda_test(name) for call in calls for name in self.program.called(call))

    def _only_numbers(self, statement: ast.stmt) -> bool:
        """Whether all that a statement does is to give names the number of a process, or how many there are."""
        leaves = list(self.arms.leaves([statement]))
        targets = [s.targets[0] for s in leaves if isinstance(s, ast.Assign)]
        return len(targets) == len(leaves) > 0 and all(self.launching.key(t) in self.launching.words for t in targets)

    def _is_told(self, statement: ast.stmt) -> bool:
        """Whether a name is given just what the library, or the launcher, says."""
        is_asked = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        return is_asked and self.launching.word(statement.value) is not None  # type: ignore[attr-defined]  # an Assign

    def _renumber(self, statement: ast.stmt, on: Sequence[ast.stmt]) -> None:
        """A number that a branch works out is asked for, where it is still read."""
        for leaf in self.arms.leaves([statement]):
            target = leaf.targets[0] if isinstance(leaf, ast.Assign) else None
            key = self.launching.key(target) if target is not None else None
            word = self.launching.words.get(key) if key is not None else None
            if target is not None and key is not None and word is not None:
                self._numbers[key] = (self._told_after(leaf, on), target, word)
        self.found.remove(statement)

    def _told_after(self, leaf: ast.stmt, on: Sequence[ast.stmt]) -> ast.stmt:
        """The statement after which a process knows its number."""
        starts = [self.program.statement(c) for c in self.launching.starts]
        here = [s for s in starts if self.program.frame(s) is self.program.frame(leaf)]
        return here[0] if here else starts[0] if self.launching.spawns else on[-1]

    def _keep(self, chain: Sequence[tuple[ast.expr | None, list[ast.stmt]]]) -> None:
        for test, block in chain:
            if test is not None:
                self.questions.look(test)
            self._block(block)


def _chain(node: ast.If) -> Iterator[tuple[ast.expr | None, list[ast.stmt]]]:
    """The branches of a condition, each with its test; what is done otherwise has none, and may be nothing."""
    while True:
        yield node.test, node.body
        inner = node.orelse[0] if len(node.orelse) == 1 else None
        if not isinstance(inner, ast.If) or inner.col_offset != node.col_offset:
            break
        node = inner
    yield None, node.orelse


def _heads(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of the blocks under it."""
    for name, value in ast.iter_fields(statement):
        if name in ("target", "targets", "annotation", "returns", "decorator_list"):
            continue
        if isinstance(value, ast.expr):
            yield value
        elif isinstance(value, list) and name == "items":
            yield from (item.context_expr for item in value)
        elif isinstance(value, list):
            yield from (v for v in value if isinstance(v, ast.expr))


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body
