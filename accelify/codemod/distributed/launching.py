"""How does a script start its processes, and which of its names give a process its number?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.distributed.conditions import RANKS, ROUNDS, SIZE, VARIABLES, Conditions, Key
from accelify.codemod.distributed.findings import Place, option_of
from accelify.codemod.libraries import names, vocabulary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import FunctionValue, Made


class Launching(Conditions):
    """Find what starts the processes, which names hold their numbers, and which hold whether there are several.

    assigns: the statements that give one name or attribute a value. foreign: what is not understood.
    """

    def __init__(self, program: Program, tracer: Tracer) -> None:
        super().__init__(program)
        self.tracer = tracer
        self.place = Place(program, {p.path for p in program.files})
        self.calls = [c for c in program.calls if self.place.holds(c)]
        self.starts = [c for c in self.calls if "torch.distributed.init_process_group" in program.called(c)]
        self.foreign: list[tuple[ast.AST, str]] = []
        self.spawns: list[Spawn] = []
        for call in self.calls:
            found = spawned(self.place, call) if "torch.multiprocessing.spawn" in program.called(call) else None
            if isinstance(found, Spawn):
                self.spawns.append(found)
            elif found is not None:
                self.foreign.append((call, found))
        self._workers = program.run_from(s.worker for s in self.spawns)
        self.assigns = [
            n
            for n in self.place.nodes()
            if isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], (ast.Name, ast.Attribute))
        ]
        self._name_ranks_and_sizes()
        self._guards()
        for _ in range(ROUNDS):
            before = len(self.words) + len(self.on)
            self._spread()
            if len(self.words) + len(self.on) == before:
                break

    def runs_in_worker(self, node: ast.AST) -> bool:
        """Whether code runs in a process that the script starts itself."""
        return self.program.frame(node) in self._workers

    # Which names hold what.

    def _name(self, into: dict[Key, str], node: ast.expr | None, word: str) -> None:
        key = self.key(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if key is not None:
            into.setdefault(key, word)

    def _name_ranks_and_sizes(self) -> None:
        """Name the values that the library is given as a rank, or as the number of processes."""
        for spawn in self.spawns:
            self._name(self.words, spawn.count, SIZE)
            first = spawn.rank.arg
            is_rank = any(ast.unparse(k.value) == first for c in self.starts for k in c.keywords if k.arg == "rank")
            self.words[(spawn.worker, first)] = "get_rank" if is_rank else "get_node_local_rank"
        for call in self.starts:
            for keyword in call.keywords:
                word = {"rank": "get_rank", "world_size": SIZE}.get(keyword.arg or "")
                if word is not None:
                    self._name(self.words, keyword.value, word)
        for call in self.calls:
            called = self.program.called(call)
            if "torch.cuda.set_device" in called and call.args and not self._is_device(call.args[0]):
                self._name(self.words, call.args[0], "get_node_local_rank")
            if (option := option_of(call)) is not None and option[1] == "local_rank":
                for node in self.place.nodes():
                    if isinstance(node, ast.Attribute) and node.attr == "local_rank":
                        self._name(self.words, node, "get_node_local_rank")

    def _is_device(self, node: ast.expr) -> bool:
        """Whether a name holds a device, and not its number."""
        given = [s.value for s in self.assigns if self.key(s.targets[0]) == self.key(node)]
        values = {v for g in given for v in self.program.values(g)}
        texts = any(
            isinstance(g, ast.JoinedStr) or (isinstance(g, ast.Constant) and isinstance(g.value, str)) for g in given
        )
        return texts or any(isinstance(v, Made) and names.is_device(v.name) for v in values)

    def word(self, node: ast.AST | None) -> str | None:
        """The function of `torch.distributed` that gives what an expression holds."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            key = self.key(node)
            if self.spawns and not self.runs_in_worker(node):
                return None  # it means something else until a process knows its number
            return self.words.get(key) if key is not None else None
        if isinstance(node, ast.IfExp):
            truth = self.truth(node.test)
            return None if truth is None else self.word(node.body if truth else node.orelse)
        if isinstance(node, ast.Call):
            return self._asked(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self.word(node.left) in RANKS:
            return "get_node_local_rank" if self.is_size(node.right) else None
        return None

    @cached_property
    def told_samplers(self) -> dict[ast.Call, list[ast.expr]]:
        """The arguments that give samplers what they would ask the process group for."""
        found: dict[ast.Call, list[ast.expr]] = {}
        for call in self.calls:
            if any(map(names.is_distributed_sampler, self.program.called(call))):
                given = [k.value for k in call.keywords if k.arg in ("num_replicas", "rank")]
                found[call] = [value for value in given if self.word(value) is not None]
        return {call: given for call, given in found.items() if given}

    def is_size(self, node: ast.expr) -> bool:
        """The number of processes, or of one machine's GPUs, each of which has one."""
        return self.word(node) == SIZE or self.is_count(node)

    def is_count(self, node: ast.expr) -> bool:
        """The number of one machine's GPUs."""
        if isinstance(node, ast.Call):
            return "torch.cuda.device_count" in self.program.called(node)
        return isinstance(node, (ast.Name, ast.Attribute)) and self.key(node) in self._counts

    @cached_property
    def _counts(self) -> set[Key | None]:
        """The names that hold nothing but that number."""
        given: dict[Key | None, list[ast.expr]] = {}
        for statement in self.assigns:
            given.setdefault(self.key(statement.targets[0]), []).append(statement.value)
        counts = {k for k, values in given.items() if all(isinstance(v, ast.Call) and self.is_count(v) for v in values)}
        return counts - {None}

    def _asked(self, call: ast.Call) -> str | None:
        for name in self.program.called(call):
            package, _, last = name.rpartition(".")
            if package.startswith("torch.distributed") and last in (*RANKS, SIZE):
                return last
        if isinstance(call.func, ast.Name) and call.func.id == "int" and call.args:
            return VARIABLES.get(self._variable(call.args[0]) or "")
        if call in self._open:
            return None
        self._open.add(call)
        returned = self.returned(call, self.truth)
        word = self.word(returned) if isinstance(returned, ast.Call) else None
        self._open.remove(call)
        return word

    def _variable(self, node: ast.expr) -> str | None:
        """The environment variable that an expression reads."""
        name: ast.expr | None = None
        if isinstance(node, ast.Subscript) and "os.environ" in self.program.externals(node.value):
            name = node.slice
        elif isinstance(node, ast.Call) and any(map(names.reads_variable, self.program.called(node))) and node.args:
            name = node.args[0]
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None

    # Which conditions ask whether there are several.

    def _guards(self) -> None:
        for call in [*self.starts, *(s.call for s in self.spawns)]:
            for test, value in self._conditions(call, depth=2):
                self._assume(test, value)

        for call in self.starts:
            for statement in self.program.block(self.program.statement(call)):
                given = statement.value if isinstance(statement, ast.Assign) else None
                if isinstance(statement, ast.Assign) and isinstance(given, ast.Constant) and given.value is True:
                    self._assume(statement.targets[0], value=True)

    def _conditions(self, node: ast.AST, depth: int) -> Iterator[tuple[ast.expr, bool]]:
        """The conditions under which a node runs."""
        guard = main_guard(self.program.scope(node).root)
        for branching, holds in self.program.branches_round(node):
            if isinstance(branching, ast.If) and branching is not guard:
                yield branching.test, holds
        callers = self.program.flow.callers.get(self.program.frame(node), set())
        if depth and len(callers) == 1:
            yield from self._conditions(next(iter(callers)), depth - 1)

    def _assume(self, test: ast.expr, value: bool) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._assume(test.operand, not value)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if value else ast.Or):
            for part in test.values:
                self._assume(part, value)
        elif not self._is_of_machine(test):
            key = self.key(test)
            if key is not None:
                self.on[key] = value

    def _is_of_machine(self, test: ast.expr) -> bool:
        """Whether a condition asks what the machine is, and not how the script was started."""
        asked = {name for n in ast.walk(test) for name in self.program.externals(n)}
        return any(map(vocabulary.is_about_the_machine, asked))

    def _spread(self) -> None:
        """Follow what names hold through assignments and calls."""
        self._opposed()
        for statement in self.assigns:
            target = statement.targets[0]
            key, word, truth = self.key(target), self.word(statement.value), self.truth(statement.value)
            if key is None or isinstance(statement.value, ast.Constant):
                continue
            if word is not None:
                self.words.setdefault(key, word)
            elif truth is not None:
                self.on.setdefault(key, truth)
        for function in {f for fs in self.program.flow.callees.values() for f in fs}:
            for parameter in function.parameters:
                self._hand_in(function, parameter.arg)
        for spawn in self.spawns:
            for parameter, argument in zip(spawn.others, spawn.arguments, strict=False):
                key = self.key(argument)
                word = self.words.get(key) if key is not None else None
                if word is not None:
                    self.words.setdefault((spawn.worker, parameter.arg), word)

    def _opposed(self) -> None:
        """A name that is true in one branch and false in the other asks what their condition asks."""
        for choice in self.place.nodes():
            truth = self.truth(choice.test) if isinstance(choice, ast.If) and choice.orelse else None
            if not isinstance(choice, ast.If) or truth is None:
                continue
            on, off = (_truths(b) for b in ((choice.body, choice.orelse) if truth else (choice.orelse, choice.body)))
            for text, (target, value) in on.items():
                key = self.key(target)
                written = sum(self.key(s.targets[0]) == key for s in self.assigns)
                if key is not None and text in off and off[text][1] is not value and written == 2:
                    self.on.setdefault(key, value)

    def _hand_in(self, function: Scope, name: str) -> None:
        key = (function, name)
        calls = [c for c in self.program.flow.callers.get(function, ()) if self.place.holds(c)]
        given = [self.tracer.argument(c, function, name) for c in calls]
        known = [g for g in given if g is not None]
        if key in self.words or key in self.on or not known or any(s.worker is function for s in self.spawns):
            return
        words, truths = {self.word(g) for g in known}, {self.truth(g) for g in known}
        if None not in words and len(words) == 1:
            self.words[key] = str(words.pop())
        elif None not in truths and len(truths) == 1 and not all(isinstance(g, ast.Constant) for g in known):
            self.on[key] = bool(truths.pop())


def _truths(block: Sequence[ast.stmt]) -> dict[str, tuple[ast.expr, bool]]:
    """The expressions that a block sets to True or False, by their text."""
    return {
        ast.unparse(s.targets[0]): (s.targets[0], s.value.value)
        for s in block
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) and isinstance(s.value.value, bool)
    }


@dataclass(frozen=True)
class Spawn:
    """`mp.spawn(worker, nprocs=n, args=(a, b))`: each process calls `worker(i, a, b)`.

    rank: the parameter that gets `i`. others: those that get the arguments, in their order.
    """

    call: ast.Call
    worker: Scope
    count: ast.expr | None
    arguments: tuple[ast.expr, ...]
    rank: ast.arg
    others: tuple[ast.arg, ...]


_TAKEN = ("fn", "args", "nprocs", "join", "daemon", "start_method")


def spawned(place: Place, call: ast.Call) -> Spawn | str:
    """The function that a call starts in each process, or why it is not known."""
    given = {k.arg: k.value for k in call.keywords}
    given.update(zip(_TAKEN, call.args, strict=False))
    workers = {
        (v.scope, v.owner is not None) for v in place.program.values(given.get("fn")) if isinstance(v, FunctionValue)
    }
    join = given.get("join")
    listed = given.get("args", ast.Tuple([], ast.Load()))
    if len(workers) != 1 or not isinstance(listed, (ast.Tuple, ast.List)) or not place.is_alone(call):
        return "cannot tell which function is started in each process, and with which arguments"
    foreign = [name for name in given if name is not None and name not in _TAKEN]
    if foreign:
        return f"`{foreign[0]}` is no parameter of `spawn`: pass the function's arguments in `args`"
    if isinstance(join, ast.Constant) and join.value is False:
        return "the script continues while the processes that it starts run"
    worker, is_bound = workers.pop()
    parameters = worker.parameters[is_bound:]
    if not parameters:
        return "the function that is started has no parameter for the rank"
    return Spawn(call, worker, given.get("nprocs"), tuple(listed.elts), parameters[0], tuple(parameters[1:]))
