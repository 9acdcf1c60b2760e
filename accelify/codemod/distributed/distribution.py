"""How does a script spread itself over processes by hand, and is that a whole that the accelerator can take over?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.distributed.found import Distribution, Place
from accelify.codemod.distributed.ranks import Ranks
from accelify.codemod.distributed.reasons import is_part_of_a_name, reason_for
from accelify.codemod.distributed.samplers import Samplers
from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.single_process import Alone
from accelify.codemod.semantics.values import External
from accelify.codemod.training.loops import Data, Loops, Training

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
# They are as true of the group that the accelerator starts as of the script's own.
_ASKING = (
    *("torch.distributed.is_available", "torch.distributed.is_initialized"),
    *("torch.distributed.is_nccl_available", "torch.distributed.is_gloo_available"),
    "torch.distributed.get_default_backend_for_device",
)
_DEVICE = ("torch.cuda.set_device", "torch.accelerator.set_device_index")
_GROUP = "torch.distributed."
_STARTING = ("torch.distributed.init_process_group", "torch.distributed.destroy_process_group")
_ADDRESSES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE")
_REDUCTIONS = {"SUM": "sum", "AVG": "mean"}
_VIEWS = ("detach", "view", "flatten", "reshape", "squeeze", "unsqueeze", "contiguous", "to", "float", "cuda")


class Distributions:
    """Find how a script distributes itself."""

    def __init__(self, program: Program, tracer: Tracer, files: Iterable[str]) -> None:
        self.program = program
        self.tracer = tracer
        self.place = Place(program, set(files))
        self.found = Distribution()
        self.alone = Alone(program, tracer)
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
        self._empty_functions()
        self._checks()
        self._foreigners()
        if not self._is_started and self.found.is_understood:
            node, name = next(self._signs())
            self.found.refuse(
                node, f"`{name}`: the script already distributes itself, and where that starts cannot be told"
            )
        return self.found

    def _signs(self) -> Iterator[tuple[ast.AST, str]]:
        """The places at which something is used that spreads a script over processes."""
        for node, values in list(self.program.flow.values.items()):
            if isinstance(node, (ast.Attribute, ast.Name)) and self.place.holds(node):
                yield from ((node, v.name) for v in values if isinstance(v, External) and names.is_distributed(v.name))

    # Starting and ending.

    def _starts(self, calls: list[ast.Call]) -> None:
        starts = [c for c in calls if "torch.distributed.init_process_group" in self.program.called(c)]
        if len(starts) > 1:
            self.found.refuse(starts[1], "there are several process groups to start")
        self._is_started = bool(starts)
        for call in starts:
            statement = self.program.statement(call)
            if {k.arg for k in call.keywords} - _START or not self.place.is_alone(call):
                self.found.refuse(call, "the process group is started in a way of its own")
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
            if name in _DEVICE and self.place.is_alone(call):
                self.found.remove(self.program.statement(call))
            elif names.is_wrapper(name) and names.is_distributed(name):
                self._wrapper(call)
            elif last == "convert_sync_batchnorm":
                self.found.synchronised.append(call)
            elif last == "DistributedSampler" and names.is_distributed(name):
                self.samplers.add(call)
            elif name in ("os.environ.get", "os.getenv") and call.args:
                self.ranks.variable(call, call.args[0])
            elif name in _ASKING or (
                name.startswith(_GROUP) and not name.startswith(_STARTING) and self.alone.skips(call)
            ):
                self.found.knows(call)
            elif name.startswith(_GROUP):
                self._collective(call, last)
        argument = call.args[0] if call.args else None
        if isinstance(argument, ast.Subscript) and "os.environ" in self.program.externals(argument.value):
            self.ranks.variable(argument, argument.slice)

    def _collective(self, call: ast.Call, last: str) -> None:
        if last == "destroy_process_group" and self.place.is_alone(call):
            self.found.remove(self.program.statement(call))
        elif last in _ASKED and not call.args and not call.keywords:
            self.found.ranks[call] = _ASKED[last]
            self.found.knows(call)
        elif last == "barrier" and self.place.is_alone(call):
            self.found.barriers.append(call)
            self.found.knows(call)
        elif last in ("all_reduce", "reduce"):
            self._reduction(call, last)

    def _reduction(self, call: ast.Call, last: str) -> None:
        given = {k.arg: k.value for k in call.keywords}
        positional = ("tensor", "op") if last == "all_reduce" else ("tensor", "dst", "op")
        given.update(zip(positional, call.args, strict=False))
        op = given.get("op")
        kind = ast.unparse(op).rpartition(".")[2] if op is not None else "SUM"
        waits = ast.unparse(given.pop("async_op", ast.Constant(False))) == "False"
        is_simple = (
            self.place.is_alone(call) and set(given) <= {"tensor", "op", "dst"} and kind in _REDUCTIONS and waits
        )
        tensor = given.get("tensor")
        if is_simple and isinstance(tensor, ast.Name) and self._is_its_own(tensor):
            self.found.reductions[call] = _REDUCTIONS[kind]
            self.found.knows(call)

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

    # Loaders.

    def _wrapper(self, call: ast.Call) -> None:
        if {k.arg for k in call.keywords} - _WRAPPER or not call.args:
            self.found.refuse(call, f"`{ast.unparse(call.func)}` has settings of its own")
        elif self.place.is_optional(call):
            self.found.refuse(call, "the model is wrapped under a condition: wrap it always, or never")
        self.found.knows(call)

    def data(self, loops: Loops, training: Training) -> list[Data]:
        """The loops over loaders whose sampler shared the data out: they must be prepared, to evaluate on too."""
        return self.samplers.data(loops, training)

    # What is left.

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
        """What the first process alone may not do: read what all wait for."""
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
            if is_part_of_a_name(self.program, node):
                continue
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


def _makes_anew(value: ast.expr | None) -> bool:
    """Whether an expression makes a tensor that nothing else holds."""
    if isinstance(value, ast.Call):
        return not (isinstance(value.func, ast.Attribute) and value.func.attr in _VIEWS)
    return isinstance(value, ast.BinOp)
