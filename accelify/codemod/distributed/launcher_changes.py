"""What must change so that a script no longer starts its processes, nor asks whether there are several?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelify.codemod.distributed.branches import Branches, Purpose
from accelify.codemod.distributed.conditions import RANKS, Key
from accelify.codemod.distributed.launched import LauncherEdits
from accelify.codemod.distributed.launching import Launching
from accelify.codemod.libraries import names
from accelify.codemod.semantics.effects.effects import Effects


class LauncherChanges:
    """Decide on the conditions that ask whether there are several processes."""

    def __init__(self, launching: Launching, arms: Branches) -> None:
        self.launching = launching
        self.program = launching.program
        self.arms = arms
        self._effects = self.program.once(Effects)
        self.found = LauncherEdits(foreign=list(launching.foreign))
        self.questions = Questions(launching, arms, self.found)
        self._numbers: dict[Key, tuple[ast.stmt, ast.expr, str]] = {}

    def find(self) -> LauncherEdits:
        """All of it."""
        for call in self.launching.starts:
            for given in [*call.args, *call.keywords]:
                self.found.goes(given)
        for told in (argument for given in self.launching.told_samplers.values() for argument in given):
            self.found.goes(told)
        for path in sorted(self.launching.place.files):
            self._block(self.program.flow.parsed_of[path].tree.body)
        for statement in self._unread_numbers():
            self.found.remove(statement)
        self.found.numbers = list(self._numbers.values())
        Orders(self.launching, self.arms, self.found).find()
        return self.found

    def _unread_numbers(self) -> Iterator[ast.Assign]:
        """The assignments of a process's number, or of how many there are, that nothing reads any more."""
        for assign in (n for n in self.launching.place.nodes() if isinstance(n, ast.Assign)):
            target = assign.targets[0]
            owner = self.program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
            if len(assign.targets) == 1 and isinstance(target, ast.Name) and owner is not None:
                reads = self.program.reads_of(owner, target.id)
                is_idle = reads and self.found.gone.issuperset(reads) and self._effects.changes_nothing(assign.value)
                if is_idle and assign not in self.found.gone and self.launching.word(target) is not None:
                    yield assign

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
                message = f"`{what}` runs only when the script is distributed, or only when it is not"
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
            self.arms.kind(s) in (Purpose.PLACE, Purpose.SAY, Purpose.SCALE, Purpose.REFUSE, Purpose.START)
            for _, block in chain
            for s in self.arms.leaves(block)
        )
        is_plain = all(test is None or self._effects.changes_nothing(test) for test, _ in chain)
        return wrapping[0] if wrapping and is_placing and is_plain else self._starting(chain)

    def _wraps(self, block: Sequence[ast.stmt]) -> bool:
        return any(self.arms.is_wrapper(n) for s in block for n in ast.walk(s))

    def _starting(self, chain: Sequence[tuple[ast.expr | None, list[ast.stmt]]]) -> int | None:
        """The last of several branches that each start the processes, with one or another backend."""
        starting = [any(n in self.launching.starts for s in block for n in ast.walk(s)) for _, block in chain]
        kinds = {self.arms.kind(s) for _, block in chain for s in self.arms.leaves(block)}
        only_starts = all(starting) and kinds <= {Purpose.START, Purpose.SAY, Purpose.NUMBER}
        return len(chain) - 1 if len(chain) > 1 and only_starts else None

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
        starts = any(self.arms.kind(s) == Purpose.START for s in self.arms.leaves(on))
        for statement in on:
            if starts and self._only_numbers(statement) and not self._is_answered(statement):
                self._renumber(statement, on)
        self._block(on)
        for statement in on:
            if self.arms.kind(statement) == Purpose.SCALE:
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

    def _is_answered(self, statement: ast.stmt) -> bool:
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


_ORDERS = {"==": [True, False, False], "!=": [False, True, True]}


class Questions:
    """Put them in the accelerator's terms, or decide them."""

    def __init__(self, launching: Launching, arms: Branches, found: LauncherEdits) -> None:
        self.launching = launching
        self.program = launching.program
        self.arms = arms
        self._effects = self.program.once(Effects)
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
            self.found.refuse(node, f"`{ast.unparse(node)}` differs by more than what the accelerator does")
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
        makes_a_sampler = any(map(names.is_distributed_sampler, called))
        if makes_a_sampler or self.launching.key(on) in self.arms.samplers:
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


class Orders:
    """Find it for the loaders of samplers that there are for several processes only."""

    def __init__(self, launching: Launching, arms: Branches, found: LauncherEdits) -> None:
        self.launching = launching
        self.program = launching.program
        self.arms = arms
        self._effects = self.program.once(Effects)
        self.found = found

    def find(self) -> None:
        """A sampler that is there for several processes only keeps the order that the data have in one."""
        for key, sampler in self.arms.samplers.items():
            if sampler in self.found.gone:
                continue
            choices = [a for a in self.program.ancestors(sampler) if isinstance(a, ast.IfExp)]
            otherwise = [self._otherwise(c) for c in choices if c in self.found.choices]
            otherwise += [
                s.value
                for s in self.launching.assigns
                if self.launching.key(s.targets[0]) == key and s.value is not sampler and s in self.found.gone
            ]
            for loader, given in self._loaders(key):
                if given in self.found.choices:
                    orders = {self._order_in_one(loader, self._otherwise(given))}
                elif self._is_optional(sampler):
                    orders = {self._order_in_one(loader, value) for value in otherwise or [ast.Constant(None)]}
                else:
                    continue
                if None in orders or len(orders) > 1:
                    self.found.refuse(loader, "cannot tell in which order this loader yields its data in one process")
                elif self.arms.shuffles(sampler, None) not in orders:
                    self.found.orders[sampler] = bool(orders.pop())

    def _is_optional(self, sampler: ast.Call) -> bool:
        """Whether a sampler is made under a condition that goes."""
        return any(a in self.found.branches or a in self.found.choices for a in self.program.ancestors(sampler))

    def _otherwise(self, choice: ast.IfExp) -> ast.expr:
        """What is chosen where the script does not distribute itself."""
        return choice.orelse if self.found.choices[choice] else choice.body

    def _loaders(self, key: Key) -> Iterator[tuple[ast.Call, ast.expr]]:
        """The loaders that get a sampler, each with the argument that gives it."""
        for call in self.launching.calls:
            given = next((k.value for k in call.keywords if k.arg == "sampler"), None)
            sampler = given
            if isinstance(given, ast.IfExp) and given in self.found.choices:
                sampler = given.body if self.found.choices[given] else given.orelse
            if given is not None and sampler is not None and self.launching.key(sampler) == key:
                yield call, given

    def _order_in_one(self, loader: ast.Call, sampler: ast.expr) -> bool | None:
        """Whether a loader shuffles where the script does not distribute itself."""
        if not (isinstance(sampler, ast.Constant) and sampler.value is None):
            found = self.arms.shuffles(sampler, None)
            return found if isinstance(found, bool) else None
        shuffle = next((k.value for k in loader.keywords if k.arg == "shuffle"), ast.Constant(False))
        if isinstance(shuffle, ast.Compare) and isinstance(shuffle.ops[0], (ast.Is, ast.IsNot, ast.Eq)):
            asked = next((k.value for k in loader.keywords if k.arg == "sampler"), None)
            is_none = ast.unparse(shuffle.comparators[0]) == "None"
            if asked is not None and is_none and ast.unparse(shuffle.left) == ast.unparse(asked):
                return not isinstance(shuffle.ops[0], ast.IsNot)
        return self.launching.off(shuffle)
