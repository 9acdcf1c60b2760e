"""How does a script spread itself over processes by hand, and is that a whole that the accelerator can take over?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelify.codemod.distributed.findings import Distribution, Guards, Place, is_part_of_a_name, option_of, reason_for
from accelify.codemod.libraries import methods, names, vocabulary
from accelify.codemod.preparing.reach import method_of
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import External, FunctionValue, Made, Parameters
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.training import Data, Training

_ASKED = {
    "get_rank": "process_index",
    "get_node_local_rank": "local_process_index",
    "get_world_size": "num_processes",
}
_START = {"backend", "init_method", "rank", "world_size", "device_id"}
_WRAPPER = {
    "module",
    "device_ids",
    "output_device",
    "find_unused_parameters",
    "broadcast_buffers",
    "gradient_as_bucket_view",
    "static_graph",
    "bucket_cap_mb",
    "delay_allreduce",
}
_GROUP = "torch.distributed."
_ADDRESSES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE")
_REDUCTIONS = {"SUM": "sum", "AVG": "mean", "MAX": "max", "MIN": "min"}


class Distributions:
    """Find how a script distributes itself."""

    def __init__(self, program: Program, tracer: Tracer, files: Iterable[str]) -> None:
        self.program = program
        self.tracer = tracer
        self.place = Place(program, set(files))
        self.found = Distribution()
        self.ranks = Ranks(self.place, tracer, self.found)
        self.samplers = Samplers(self.place, self.found)
        self._is_started = False

    @property
    def is_there(self) -> bool:
        """Whether the files do anything of the kind."""
        return any(self.program.question_round(node) is None for node, _ in self._signs())

    def find(self) -> Distribution:
        """All of it."""
        calls = [c for c in self.program.calls if self.place.holds(c)]
        self._starts(calls)
        for call in calls:
            self._call(call)
        self._addresses()
        self.samplers.uses()
        self.ranks.options(calls)
        self.ranks.questions()
        self.ranks.devices(calls)
        self._unsynchronised()
        self._empty_functions()
        self._checks()
        self._foreigners()
        if not self._is_started and self.found.is_understood:
            node, name = next(self._signs())
            self.found.refuse(
                node,
                f"`{name}`: the script already distributes itself, but cannot tell where it calls `init_process_group`",
            )
        return self.found

    def _signs(self) -> Iterator[tuple[ast.AST, str]]:
        """The places at which something is used that spreads a script over processes."""
        for node, values in list(self.program.flow.values.items()):
            is_name = isinstance(node, (ast.Attribute, ast.Name)) and self.place.holds(node)
            if is_name and not is_part_of_a_name(self.program, node):
                yield from ((node, v.name) for v in values if isinstance(v, External) and names.is_distributed(v.name))

    # Starting and ending.

    def _starts(self, calls: list[ast.Call]) -> None:
        starts = [c for c in calls if "torch.distributed.init_process_group" in self.program.called(c)]
        if len(starts) > 1:
            self.found.refuse(starts[1], "the script starts several process groups")
        self._is_started = bool(starts)
        for call in starts:
            statement = self.program.statement(call)
            if {k.arg for k in call.keywords} - _START or not self.place.is_alone(call):
                self.found.refuse(
                    call, "the process group is started with options that have no counterpart, or inside an expression"
                )
            elif self._is_conditional(call):
                self.found.refuse(call, "the process group is started under a condition: start it always, or never")
            self.found.remove(statement)

    def _addresses(self) -> None:
        """Where the processes were to meet: an address of the script's own would stand in the launcher's way."""
        for node in self.place.nodes():
            if isinstance(node, ast.Assign) and self._sets_address(node) and self.place.holds(node):
                self.found.remove(node)

    def _is_conditional(self, node: ast.AST, depth: int = 2) -> bool:
        guard = main_guard(self.program.scope(node).root)
        for ancestor in self.program.ancestors(node):
            if isinstance(ancestor, (ast.If, ast.IfExp, ast.Try, ast.For, ast.While)) and ancestor is not guard:
                return True
        callers = self.program.flow.callers.get(self.program.frame(node), set())
        return depth > 0 and any(self._is_conditional(c, depth - 1) for c in callers)

    def _call(self, call: ast.Call) -> None:
        for name in self.program.called(call):
            last = name.rpartition(".")[2]
            if names.picks_device(name) and self.place.is_alone(call):
                self.found.remove(self.program.statement(call))
            elif names.is_wrapper(name) and names.is_distributed(name):
                self._wrapper(call)
            elif last == "convert_sync_batchnorm":
                self.found.synchronised.append(call)
            elif names.is_distributed_sampler(name):
                self.samplers.add(call)
            elif names.reads_variable(name) and call.args:
                self.ranks.variable(call, call.args[0])
            elif names.needs_no_group(name) or (
                name.startswith(_GROUP) and not names.starts_group(name) and self._is_for_several(call)
            ):
                self.found.knows(call)
            elif name.startswith(_GROUP):
                self._collective(call, last)
        argument = call.args[0] if call.args else None
        if isinstance(argument, ast.Subscript) and "os.environ" in self.program.externals(argument.value):
            self.ranks.variable(argument, argument.slice)

    def _is_for_several(self, call: ast.Call) -> bool:
        """Whether a call runs in one of several processes alone, and not where there is one."""
        worlds = self.program.once(Conditions).worlds(call)
        return bool(worlds) and not worlds & worlds_where(Process.ONE)

    def _collective(self, call: ast.Call, last: str) -> None:
        if last == "destroy_process_group" and self.place.is_alone(call):
            self.found.remove(self.program.statement(call))
        elif last in _ASKED and not call.args and not call.keywords:
            self.found.ranks[call] = _ASKED[last]
            self.found.knows(call)
        elif last == "barrier" and self.place.is_alone(call):
            self.found.barriers.append(call)
            self.found.knows(call)
        elif (named := vocabulary.exchanged_in_place(last)) and (given := self._given(call, named)) is not None:
            self._in_place(call, last, given)
        elif (named := vocabulary.gathered(last)) and (given := self._given(call, named)) is not None:
            listed, own = named
            code = "gather_object({})" if last.endswith("object") else "gather({}.detach()[None])"
            self.found.gathered[call] = given[listed], code.format(_as_operand(given[own]))
            self.found.knows(call.func)

    def _given(self, call: ast.Call, positional: Sequence[str]) -> dict[str, ast.expr] | None:
        """The arguments of what all processes do and wait for; None where it does it otherwise."""
        given = {**{k.arg or "**": k.value for k in call.keywords}, **dict(zip(positional, call.args, strict=False))}
        waits = ast.unparse(given.pop("async_op", ast.Constant(False))) == "False"
        is_plain = not any(isinstance(a, ast.Starred) for a in call.args) and len(call.args) <= len(positional)
        is_simple = is_plain and self.place.is_alone(call) and waits and set(given) <= set(positional)
        return given if is_simple and positional[0] in given else None

    def _in_place(self, call: ast.Call, last: str, given: dict[str, ast.expr]) -> None:
        tensor, op = given.get("tensor"), given.get("op")
        kind = ast.unparse(op).rpartition(".")[2] if op is not None else "SUM"
        is_reduced = last.endswith("reduce")
        if is_reduced and kind in _REDUCTIONS and isinstance(tensor, ast.Name) and self._is_its_own(tensor):
            self.found.reductions[call] = _REDUCTIONS[kind]
        elif is_reduced and tensor is not None and self._is_of_weights(tensor):
            return
        else:
            self.found.guarded.append(call)
        for known in [call.func, *([op] if op is not None else [])]:
            self.found.knows(known)

    def _is_of_weights(self, tensor: ast.expr) -> bool:
        """Whether weights or gradients are averaged by hand, as `backward` does; or otherwise, to train otherwise."""
        while isinstance(tensor, ast.Attribute) and tensor.attr == "data":
            tensor = tensor.value
        is_gradient = isinstance(tensor, ast.Attribute) and tensor.attr == "grad"
        return is_gradient or any(isinstance(v, Parameters) for v in self.program.values(tensor))

    def _is_its_own(self, tensor: ast.Name) -> bool:
        """Whether nothing but this variable can hold a tensor, so that another may take its place."""
        owner = self.program.scope(tensor).owner(tensor.id)
        if owner is None or owner is not self.program.frame(tensor):
            return False
        values = []
        for write in self.tracer.writes(owner, tensor.id):
            if not isinstance(write, ast.Name):
                return False
            if not isinstance(self.program.parent(write), ast.AugAssign):
                values.append(self.tracer.assigned(write))
        return bool(values) and all(map(_makes_anew, values))

    def _unsynchronised(self) -> None:
        """`model.no_sync()`, or `model.no_sync` to be called later."""
        for node in self.place.nodes():
            if isinstance(node, ast.Attribute) and node.attr == "no_sync" and self.place.holds(node):
                held = self.program.values(node)
                if not any(isinstance(v, FunctionValue) for v in held):
                    self.found.unsynchronised.append(node)

    # Loaders.

    def _wrapper(self, call: ast.Call) -> None:
        if {k.arg for k in call.keywords} - _WRAPPER or not call.args:
            self.found.refuse(call, f"`{ast.unparse(call.func)}` has options that have no counterpart")
        elif self.place.is_optional(call):
            self.found.refuse(call, "the model is wrapped under a condition: wrap it always, or never")
        self.found.knows(call)

    def data(self, iterables: Iterables, training: Training) -> list[Data]:
        """The loops over loaders whose sampler shared the data out: they must be prepared, to evaluate on too.

        Not those that only the main process runs, which iterates over all of the data then.
        """
        found = self.samplers.data(iterables, training)
        asked = Guards(self.program, self.found)
        return [d for d in found if d.loop is None or asked.may_all_run(d.loop)]

    # The statements that are left.

    def _empty_functions(self) -> None:
        """A function that did nothing else goes, with its calls."""
        for path in sorted(self.place.files):
            for scope in self.program.flow.bindings[path].root.walk():
                if scope.kind == "function" and self._is_emptied(scope):
                    for call in self.program.flow.callers.get(scope, ()):
                        self.found.remove(self.program.statement(call))
                    assert isinstance(scope.node, ast.stmt)
                    self.found.remove(scope.node)

    def _is_emptied(self, scope: Scope) -> bool:
        body = [s for s in scope.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        left = [s for s in body if not self._is_gone(s) and not self._sets_address(s)]
        calls = self.program.flow.callers.get(scope, set())
        return bool(body) and not left and bool(calls) and all(self.place.is_alone(c) for c in calls)

    def _is_gone(self, statement: ast.stmt) -> bool:
        inner = [*statement.body, *statement.orelse] if isinstance(statement, ast.If) else []
        return statement in self.found.removed or (bool(inner) and all(map(self._is_gone, inner)))

    def _sets_address(self, statement: ast.stmt) -> bool:
        """`os.environ["MASTER_ADDR"] = ...`"""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        return (
            isinstance(target, ast.Subscript)
            and isinstance(target.slice, ast.Constant)
            and target.slice.value in _ADDRESSES
            and "os.environ" in self.program.externals(target.value)
        )

    def _checks(self) -> None:
        """Obstacles: the first process alone may not read a value that all wait for."""
        for node in self.found.firsts:
            parent = self.program.parent(node)
            inside = [n for s in parent.body for n in ast.walk(s)] if isinstance(parent, ast.If) else []
            if any(isinstance(n, ast.Call) and "torch.load" in self.program.called(n) for n in inside):
                self.found.refuse(node, "one process alone loads a file that others may wait for")

    def _foreigners(self) -> None:
        """Each name that is used in no way that is understood, once in a file."""
        told: set[tuple[str, str]] = set()
        for node, name in self._signs():
            key = (name, self.program.path(node))
            if node not in self.found.known and key not in told and not self._unwraps(node):
                told.add(key)
                self.found.refuse(node, reason_for(name))

    def _unwraps(self, node: ast.AST) -> bool:
        """`if isinstance(model, DDP): model = model.module`, which is as right of a model that is not wrapped."""
        question = self.program.question_round(node)
        choice = self.program.parent(question) if question is not None else None
        if isinstance(choice, ast.IfExp):
            return choice.test is question and _is_inner(choice.body)
        return (
            isinstance(choice, ast.If)
            and choice.test is question
            and all(isinstance(s, (ast.Assign, ast.Return)) and _is_inner(s.value) for s in choice.body)
        )


def _is_inner(value: ast.expr | None) -> bool:
    """Whether an expression is, or begins with, what a wrapper holds: `model.module.state_dict()`."""
    while isinstance(value, (ast.Attribute, ast.Call)):
        if isinstance(value, ast.Attribute) and value.attr == "module":
            return True
        value = value.func if isinstance(value, ast.Call) else value.value
    return False


def _as_operand(node: ast.expr) -> str:
    """An expression as it is written where an attribute, or an item, of it is asked for."""
    text = ast.unparse(node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({text})"


def _makes_anew(value: ast.expr | None) -> bool:
    """Whether an expression makes a tensor that nothing else holds."""
    if isinstance(value, ast.Call):
        return not (isinstance(value.func, ast.Attribute) and methods.may_share_memory(value.func.attr))
    return isinstance(value, ast.BinOp)


_VARIABLES = {"LOCAL_RANK": "local_process_index", "RANK": "process_index", "WORLD_SIZE": "num_processes"}
_CONDITIONAL = "how the data are sharded depends on a condition: use the sampler always, or never"
_DEPTH = 6


class Ranks:
    """Find the numbers of processes, and the questions whether one is the first."""

    def __init__(self, place: Place, tracer: Tracer, found: Distribution) -> None:
        self.place = place
        self.program = place.program
        self.tracer = tracer
        self.found = found

    def variable(self, read: ast.expr, name: ast.expr) -> None:
        """`int(os.environ["LOCAL_RANK"])`."""
        key = name.value if isinstance(name, ast.Constant) else None
        if key not in _VARIABLES:
            return
        outer = self.program.parent(read)
        is_number = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "int"
        default = read.args[1] if isinstance(read, ast.Call) and len(read.args) > 1 else None
        if not is_number or (default is not None and ast.unparse(default).strip("'\"") not in ("0", "1")):
            self.found.refuse(
                read, f"`{ast.unparse(read)}` is not `int(...)` of the variable, with 0 or 1 as its default"
            )
            return
        assert isinstance(outer, ast.Call)
        self.found.ranks[outer] = _VARIABLES[str(key)]

    def options(self, calls: list[ast.Call]) -> None:
        """`--local_rank`, by which older launchers give a process its number."""
        options = [c for c in calls if (option := option_of(c)) is not None and option[1] == "local_rank"]
        if not options:
            return
        read = [n for n in self.program.flow.values if isinstance(n, ast.Attribute) and n.attr == "local_rank"]
        own = [n for n in read if not self._is_self(n.value)]
        set_anew = [n for n in own if isinstance(n.ctx, ast.Store)]
        if set_anew:
            self.found.refuse(set_anew[0], "the script also assigns `local_rank` itself")
            return
        for call in options:
            if readers := self.place.readers(call, "local_rank"):
                self.found.kept[call] = readers
            else:
                self.found.remove(self.program.statement(call))
        self.found.ranks.update(dict.fromkeys(own, "local_process_index"))

    def devices(self, calls: list[ast.Call]) -> None:
        """Where a process's number stands for its GPU."""
        moves = [c for c in calls if isinstance(c.func, ast.Attribute) and methods.moves(c.func.attr)]
        given = [a for c in moves for a in c.args[:1]]
        given += [k.value for c in calls for k in c.keywords if k.arg in ("device", "map_location")]
        self.found.devices = {device for device in given if self.rank_of(device) is not None}
        for function in self.program.reachable:
            for parameter in function.parameters:
                is_rank = (
                    self._is_parameter(function, parameter.arg) and self._given(function, parameter.arg) is not None
                )
                if is_rank or self._only_tells_ranks(function, parameter.arg):
                    self.found.parameters.add((function, parameter.arg))

    def _only_tells_ranks(self, function: Scope, name: str) -> bool:
        """Whether a parameter is read for the number of a process and for nothing else: `args.gpu`."""
        if function.is_method and not function.is_static and name == function.parameters[0].arg:
            return False
        holders = [self.program.parent(n) for n in function.reads.get(name, ())]
        return bool(holders) and all(isinstance(h, ast.Attribute) and self.rank_of(h) is not None for h in holders)

    def _is_self(self, node: ast.expr) -> bool:
        method = method_of(self.program.frame(node))
        own = method.parameters[0].arg if method is not None and method.parameters else None
        return isinstance(node, ast.Name) and node.id == own

    def rank_of(self, node: ast.expr, depth: int = _DEPTH) -> str | None:
        """The accelerator's word for what an expression holds, if that is the number of a process."""
        if node in self.found.ranks:
            return self.found.ranks[node]
        if not isinstance(node, (ast.Name, ast.Attribute)) or not depth:
            return None
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is not None and isinstance(node, ast.Name) and self._is_parameter(owner, node.id):
            return self._given(owner, node.id, depth - 1)
        values = [c[-1].value for c in self.tracer.chains(node)]
        words = {self.found.ranks.get(v) if v is not None else None for v in values}
        return next(iter(words)) if len(words) == 1 else None

    def _is_parameter(self, owner: Scope, name: str) -> bool:
        return any(isinstance(w, ast.arg) for w in owner.writes.get(name, ())) and len(owner.writes[name]) == 1

    def _given(self, function: Scope, name: str, depth: int = _DEPTH) -> str | None:
        """The accelerator's word for what every call gives to a parameter."""
        given = [self.tracer.argument(c, function, name) for c in self.program.flow.callers.get(function, ())]
        words = {self.rank_of(g, depth) if g is not None else None for g in given}
        return next(iter(words)) if len(words) == 1 else None

    def questions(self) -> None:
        """Whether this is the first process."""
        for node in self.place.nodes():
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and self.place.holds(node):
                self._question(node)
            elif isinstance(node, ast.Subscript) and "os.environ" in self.program.externals(node.value):
                is_read = isinstance(node.ctx, ast.Load) and self.program.parent(node) not in self.found.ranks
                name = str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
                if is_read and name in _VARIABLES:
                    self.found.refuse(node, f"`{ast.unparse(node)}` is not converted to a number: write `int(...)`")
                elif is_read and vocabulary.asked_by_variable(name) and not [*self.program.branches_round(node)]:
                    message = f"`{name}` is set by another launcher: read `RANK`, `LOCAL_RANK` or `WORLD_SIZE` instead"
                    self.found.refuse(node, message)

    def _question(self, node: ast.Compare) -> None:
        other = ast.unparse(node.comparators[0])
        rank = self.rank_of(node.left)
        is_first = isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and other == "0"
        if is_first and rank is not None and rank.endswith("process_index"):
            negation = "" if isinstance(node.ops[0], ast.Eq) else "not "
            self.found.firsts[node] = f"{negation}is_{rank.replace('process_index', 'main_process')}"
        elif "-1" in other and ast.unparse(node.left).endswith("rank"):
            self.found.refuse(
                node, "a rank of -1 stands for a single process here: compare the number of processes instead"
            )


class Samplers:
    """Find the samplers, their loaders, and where they are told of a new epoch."""

    def __init__(self, place: Place, found: Distribution) -> None:
        self.place = place
        self.program = place.program
        self.found = found

    def add(self, call: ast.Call) -> None:
        """A sampler, with the loaders that it is for."""
        self.found.knows(call)
        self._named(call.func)
        given = {k.arg: k.value for k in call.keywords}
        shuffle = given.get("shuffle", call.args[3] if len(call.args) > 3 else ast.Constant(True))
        users = [n for n in self.program.flow.values if self._holds(n, call) and n is not call]
        branches = self.place.branches(call)
        is_always = all(branches <= self.place.branches(n) for n in users)
        if not isinstance(shuffle, ast.Constant) or (branches and not is_always):
            self.found.refuse(call, _CONDITIONAL)
            return
        statement = self.program.statement(call)
        if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
            if any(map(self._is_returned, users)):
                self.found.returned.append(call)
            else:
                self.found.remove(statement)
        elif not isinstance(self.program.parent(call), ast.keyword):
            self.found.refuse(call, "cannot tell which loader this sampler is for")
        for user in [call, *users]:
            self._user(user, bool(shuffle.value))

    def _named(self, function: ast.expr) -> None:
        """`make = DistributedSampler` goes where `make` is only called."""
        owner = self.program.scope(function).owner(function.id) if isinstance(function, ast.Name) else None
        if owner is None or not isinstance(function, ast.Name):
            return
        writes = [self.program.statement(w) for w in owner.writes_of(function.id)]
        reads = self.program.reads_of(owner, function.id)
        are_calls = all(isinstance(c := self.program.parent(r), ast.Call) and c.func is r for r in reads)
        if are_calls and all(isinstance(w, ast.Assign) and len(w.targets) == 1 for w in writes):
            for write in writes:
                self.found.remove(write)

    def _holds(self, node: ast.AST, sampler: ast.Call) -> bool:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return False
        return any(isinstance(v, Made) and v.node is sampler for v in self.program.values(node))

    def _user(self, node: ast.AST, shuffle: bool) -> None:
        parent = self.program.parent(node)
        loader = self.program.parent(parent) if isinstance(parent, ast.keyword) and parent.arg == "sampler" else None
        if isinstance(loader, ast.Call) and any(map(names.is_torch_loader, self.program.called(loader))):
            self.found.samplers[loader] = shuffle
            return
        sets_epoch = isinstance(parent, ast.Attribute) and parent.attr == "set_epoch"
        is_asked = isinstance(parent, (ast.Compare, ast.Assign))
        if not sets_epoch and not is_asked and not self._is_returned(node):
            more = "this sampler is used for more than the `sampler=` of a loader"
            self.found.refuse(node, _CONDITIONAL if isinstance(parent, ast.IfExp) else more)

    def _is_returned(self, node: ast.AST) -> bool:
        """Whether a function gives a sampler to its caller, perhaps beside the loader: its place has to stay."""
        parent = self.program.parent(node)
        whole = parent if isinstance(parent, ast.Tuple) else node
        return isinstance(self.program.parent(whole), ast.Return)

    def uses(self) -> None:
        """`sampler.set_epoch(epoch)`: a loader that shuffles draws each epoch anew."""
        for node in self.place.nodes():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_epoch":
                if self.place.is_alone(node) and ast.unparse(node.func.value).endswith("sampler"):
                    self.found.remove(self.program.statement(node))
                else:
                    self.found.refuse(node, f"cannot tell what `{ast.unparse(node)}` is for")

    def data(self, iterables: Iterables, training: Training) -> list[Data]:
        """The loops over loaders whose sampler shared the data out: they must be prepared, to evaluate on too.

        Not those that also iterate over a loader without one, if training prepares what they share.
        """
        trained_on = {v for data in training.data for source in data.sources for v in iterables.owners(source)}
        found = []
        for node in self.place.nodes():
            if isinstance(node, (ast.For, ast.AsyncFor)) and self.place.holds(node):
                owners = iterables.yielding(node)
                sharded = {v for v in owners if isinstance(v, Made) and v.node in self.found.samplers}
                others = {v for v in owners if isinstance(v, Made)} - sharded
                if sharded and not (others and sharded <= trained_on):
                    found.append(Data("loaders", node, (node.iter,)))
        return found
