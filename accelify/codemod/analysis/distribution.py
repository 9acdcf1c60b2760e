"""How does a script spread itself over processes by hand, and is that a whole that the accelerator can take over?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from accelify.codemod import names
from accelify.codemod.analysis.bindings import Scope
from accelify.codemod.analysis.loops import Data, Loops
from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.reach import main_guard, method_of
from accelify.codemod.analysis.roles import Roles
from accelify.codemod.analysis.trace import Tracer
from accelify.codemod.analysis.values import External, Made

_VARIABLES = {"LOCAL_RANK": "local_process_index", "RANK": "process_index", "WORLD_SIZE": "num_processes"}
_ASKED = {"get_rank": "process_index", "get_world_size": "num_processes"}
_FIRST = {"process_index": "is_main_process", "local_process_index": "is_local_main_process"}
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
_REDUCTIONS = {"SUM": "sum", "AVG": "mean"}
_VIEWS = ("detach", "view", "flatten", "reshape", "squeeze", "unsqueeze", "contiguous", "to", "float", "cuda")
_UNKNOWN = {
    "spawn": "starts the processes: call the function itself, and start the script by `accelify launch`",
    "Process": "starts the processes: call the function itself, and start the script by `accelify launch`",
}


@dataclass
class Distribution:
    """What a script does to run on several processes.

    removed: statements that go. ranks: what tells a process which it is, with the accelerator's word for it; firsts:
    questions whether it is the first. barriers, reductions (with the name reduced, and how): what all processes do
    together. samplers: loaders whose sampler shares the data out, with whether it shuffles. devices: where a process's
    number stands for its GPU. foreign: what is not understood; one is enough to leave the script alone.
    """

    removed: list[ast.stmt] = field(default_factory=list)
    ranks: dict[ast.expr, str] = field(default_factory=dict)
    firsts: dict[ast.Compare, str] = field(default_factory=dict)
    barriers: list[ast.Call] = field(default_factory=list)
    reductions: dict[ast.Call, str] = field(default_factory=dict)
    samplers: dict[ast.Call, bool] = field(default_factory=dict)
    devices: set[ast.expr] = field(default_factory=set)
    foreign: list[tuple[ast.AST, str]] = field(default_factory=list)

    @property
    def is_understood(self) -> bool:
        return not self.foreign

    @property
    def replaced(self) -> list[ast.AST]:
        """The places where the accelerator is asked instead."""
        gone = {n for s in self.removed for n in ast.walk(s)}
        return [n for n in [*self.ranks, *self.firsts, *self.barriers, *self.reductions] if n not in gone]


class Distributions:
    """Find how a script distributes itself."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, files: Iterable[str]) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.files = set(files)
        self.found = Distribution()
        self._known: set[ast.AST] = set()
        self._is_started = False

    @property
    def is_there(self) -> bool:
        """Whether the files do anything of the kind."""
        return any(True for _ in self._signs())

    def find(self) -> Distribution:
        """All of it."""
        calls = [c for c in self.program.calls if self._is_here(c)]
        self._starts(calls)
        for call in calls:
            self._call(call)
        self._sampler_uses()
        self._options(calls)
        self._questions()
        moves = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in ("to", "cuda") and c.args]
        self.found.devices = {c.args[0] for c in moves if self.rank_of(c.args[0]) is not None}
        self._empty_functions()
        self._checks()
        self._foreigners()
        if not self._is_started and self.found.is_understood:
            node, name = next(self._signs())
            self._no(node, f"`{name}`: the script already distributes itself, and where that starts cannot be told")
        return self.found

    def _is_here(self, node: ast.AST) -> bool:
        return self.program.path(node) in self.files and self.program.frame(node) in self.program.reachable

    def _signs(self) -> Iterator[tuple[ast.AST, str]]:
        """The places at which something is used that spreads a script over processes."""
        for node, values in list(self.program.flow.values.items()):
            if isinstance(node, (ast.Attribute, ast.Name)) and self._is_here(node):
                yield from ((node, v.name) for v in values if isinstance(v, External) and names.is_distributed(v.name))

    def _no(self, node: ast.AST, reason: str) -> None:
        self.found.foreign.append((node, reason))

    def _goes(self, statement: ast.stmt) -> None:
        if statement not in self.found.removed:
            self.found.removed.append(statement)
            self._known.update(ast.walk(statement))

    # Starting and ending.

    def _starts(self, calls: list[ast.Call]) -> None:
        starts = [c for c in calls if "torch.distributed.init_process_group" in self.program.called(c)]
        if len(starts) > 1:
            self._no(starts[1], "there are several process groups to start")
        self._is_started = bool(starts)
        for call in starts:
            statement = self.program.statement(call)
            if {k.arg for k in call.keywords} - _START or not self._is_alone(call):
                self._no(call, "the process group is started in a way of its own")
            elif self._is_conditional(call):
                self._no(call, "the process group is started under a condition")
            self._goes(statement)

    def _is_alone(self, call: ast.Call) -> bool:
        """Whether a call is a statement by itself."""
        statement = self.program.statement(call)
        return isinstance(statement, ast.Expr) and statement.value is call

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
            if name == "torch.cuda.set_device" and self._is_alone(call):
                self._goes(self.program.statement(call))
            elif names.is_wrapper(name) and names.is_distributed(name):
                self._wrapper(call)
            elif last == "DistributedSampler" and names.is_distributed(name):
                self._sampler(call)
            elif name in ("os.environ.get", "os.getenv") and call.args:
                self._variable(call, call.args[0])
            elif name.startswith("torch.distributed."):
                self._collective(call, last)
        argument = call.args[0] if call.args else None
        if isinstance(argument, ast.Subscript) and "os.environ" in self.program.externals(argument.value):
            self._variable(argument, argument.slice)

    def _collective(self, call: ast.Call, last: str) -> None:
        if last == "destroy_process_group" and self._is_alone(call):
            self._goes(self.program.statement(call))
        elif last in _ASKED and not call.args and not call.keywords:
            self.found.ranks[call] = _ASKED[last]
            self._known.update(ast.walk(call))
        elif last == "barrier" and self._is_alone(call):
            self.found.barriers.append(call)
            self._known.update(ast.walk(call))
        elif last in ("all_reduce", "reduce"):
            self._reduction(call, last)

    def _reduction(self, call: ast.Call, last: str) -> None:
        given = {k.arg: k.value for k in call.keywords}
        positional = ("tensor", "op") if last == "all_reduce" else ("tensor", "dst", "op")
        given.update(zip(positional, call.args, strict=False))
        op = given.get("op")
        kind = ast.unparse(op).rpartition(".")[2] if op is not None else "SUM"
        is_simple = self._is_alone(call) and set(given) <= {"tensor", "op", "dst"} and kind in _REDUCTIONS
        tensor = given.get("tensor")
        if is_simple and isinstance(tensor, ast.Name) and self._is_its_own(tensor):
            self.found.reductions[call] = _REDUCTIONS[kind]
            self._known.update(ast.walk(call))

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

    # Which process this is.

    def _variable(self, read: ast.expr, name: ast.expr) -> None:
        """`int(os.environ["LOCAL_RANK"])`."""
        key = name.value if isinstance(name, ast.Constant) else None
        if key not in _VARIABLES:
            return
        outer = self.program.parent(read)
        is_number = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "int"
        default = read.args[1] if isinstance(read, ast.Call) and len(read.args) > 1 else None
        if not is_number or (default is not None and ast.unparse(default).strip("'\"") not in ("0", "1")):
            self._no(read, f"`{ast.unparse(read)}` may say that there is one process only")
            return
        assert isinstance(outer, ast.Call)
        self.found.ranks[outer] = _VARIABLES[str(key)]

    def _options(self, calls: list[ast.Call]) -> None:
        """`--local_rank`, by which older launchers tell a process which it is."""
        options = [
            c
            for c in calls
            if isinstance(c.func, ast.Attribute)
            and c.func.attr == "add_argument"
            and any(isinstance(a, ast.Constant) and a.value in ("--local_rank", "--local-rank") for a in c.args)
        ]
        if not options:
            return
        read = [n for n in self.program.flow.values if isinstance(n, ast.Attribute) and n.attr == "local_rank"]
        own = [n for n in read if not self._is_self(n.value)]
        set_anew = [n for n in own if isinstance(n.ctx, ast.Store)]
        if set_anew:
            self._no(set_anew[0], "`--local_rank` is also set by the script")
            return
        for call in options:
            self._goes(self.program.statement(call))
        self.found.ranks.update(dict.fromkeys(own, "local_process_index"))

    def _is_self(self, node: ast.expr) -> bool:
        method = method_of(self.program.frame(node))
        own = method.parameters[0].arg if method is not None and method.parameters else None
        return isinstance(node, ast.Name) and node.id == own

    def rank_of(self, node: ast.expr) -> str | None:
        """The accelerator's word for what an expression holds, if that is the number of a process."""
        if node in self.found.ranks:
            return self.found.ranks[node]
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        chains = self.tracer.chains(node)
        words = {self.found.ranks.get(c[-1].value) if c[-1].value is not None else None for c in chains}
        return next(iter(words)) if len(words) == 1 else None

    def _questions(self) -> None:
        for path in sorted(self.files):
            for node in self.program.flow.parsed_of[path].parents:
                if isinstance(node, ast.Compare) and len(node.ops) == 1 and self._is_here(node):
                    self._question(node)
                elif isinstance(node, ast.Subscript) and "os.environ" in self.program.externals(node.value):
                    is_read = isinstance(node.ctx, ast.Load) and self.program.parent(node) not in self.found.ranks
                    if is_read and isinstance(node.slice, ast.Constant) and node.slice.value in _VARIABLES:
                        self._no(node, f"`{ast.unparse(node)}` is not taken for a number")

    def _question(self, node: ast.Compare) -> None:
        other = ast.unparse(node.comparators[0])
        rank = self.rank_of(node.left)
        is_first = isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and other == "0"
        if is_first and rank in _FIRST:
            negation = "" if isinstance(node.ops[0], ast.Eq) else "not "
            self.found.firsts[node] = negation + _FIRST[rank]
        elif "-1" in other and ast.unparse(node.left).endswith("rank"):
            self._no(node, "whether there are several processes is asked by a rank of -1")

    # Loaders.

    def _wrapper(self, call: ast.Call) -> None:
        if {k.arg for k in call.keywords} - _WRAPPER or not call.args:
            self._no(call, f"`{ast.unparse(call.func)}` has settings of its own")
        elif any(isinstance(a, (ast.If, ast.IfExp)) for a in self._up_to_function(call)):
            self._no(call, "the model is wrapped under a condition")
        self._known.update(ast.walk(call))

    def _up_to_function(self, node: ast.AST) -> Iterator[ast.AST]:
        guard = main_guard(self.program.scope(node).root)
        for ancestor in self.program.ancestors(node):
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)) or ancestor is guard:
                return
            yield ancestor

    def _sampler(self, call: ast.Call) -> None:
        self._known.update(ast.walk(call))
        given = {k.arg: k.value for k in call.keywords}
        shuffle = given.get("shuffle", call.args[3] if len(call.args) > 3 else ast.Constant(True))
        if not isinstance(shuffle, ast.Constant) or any(
            isinstance(a, (ast.If, ast.IfExp)) for a in self._up_to_function(call)
        ):
            self._no(call, "how the data are shared out depends on a condition")
            return
        statement = self.program.statement(call)
        users = [n for n in self.program.flow.values if self._holds(n, call) and n is not call]
        if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
            self._goes(statement)
        elif not isinstance(self.program.parent(call), ast.keyword):
            self._no(call, "cannot tell which loader this sampler is for")
        for user in [call, *users]:
            self._sampler_user(user, bool(shuffle.value))

    def _holds(self, node: ast.AST, sampler: ast.Call) -> bool:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return False
        return any(isinstance(v, Made) and v.node is sampler for v in self.program.values(node))

    def _sampler_user(self, node: ast.AST, shuffle: bool) -> None:
        parent = self.program.parent(node)
        loader = self.program.parent(parent) if isinstance(parent, ast.keyword) and parent.arg == "sampler" else None
        if isinstance(loader, ast.Call) and any(map(names.is_torch_loader, self.program.called(loader))):
            self.found.samplers[loader] = shuffle
            return
        is_told = isinstance(parent, ast.Attribute) and parent.attr == "set_epoch"
        is_asked = isinstance(parent, (ast.Compare, ast.Assign))
        if not is_told and not is_asked:
            self._no(node, "a sampler is used for more than one loader's `sampler=`")

    def _sampler_uses(self) -> None:
        """`sampler.set_epoch(epoch)`: a loader that shuffles draws each epoch anew."""
        for path in sorted(self.files):
            for node in self.program.flow.parsed_of[path].parents:
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "set_epoch"
                ):
                    if self._is_alone(node) and ast.unparse(node.func.value).endswith("sampler"):
                        self._goes(self.program.statement(node))
                    else:
                        self._no(node, f"cannot tell what `{ast.unparse(node)}` is for")

    def data(self, loops: Loops) -> list[Data]:
        """The loops over loaders whose sampler shared the data out: they must be prepared, to evaluate on too."""
        found = []
        for path in sorted(self.files):
            for node in self.program.flow.parsed_of[path].parents:
                if isinstance(node, (ast.For, ast.AsyncFor)) and self._is_here(node):
                    owners = loops.owners(node.iter)
                    if any(isinstance(v, Made) and v.node in self.found.samplers for v in owners):
                        found.append(Data("loaders", node, (node.iter,)))
        return found

    # What is left.

    def _empty_functions(self) -> None:
        """A function that did nothing else goes, with its calls."""
        for path in sorted(self.files):
            for scope in self.program.flow.bindings[path].root.walk():
                if scope.kind == "function" and self._is_emptied(scope):
                    for call in self.program.flow.callers.get(scope, ()):
                        self._goes(self.program.statement(call))
                    assert isinstance(scope.node, ast.stmt)
                    self._goes(scope.node)

    def _is_emptied(self, scope: Scope) -> bool:
        body = [s for s in scope.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        left = [s for s in body if not self._is_gone(s) and not self._sets_address(s)]
        calls = self.program.flow.callers.get(scope, set())
        return bool(body) and not left and bool(calls) and all(self._is_alone(c) for c in calls)

    def _is_gone(self, statement: ast.stmt) -> bool:
        inner = [*statement.body, *statement.orelse] if isinstance(statement, ast.If) else []
        return statement in self.found.removed or (bool(inner) and all(map(self._is_gone, inner)))

    @staticmethod
    def _sets_address(statement: ast.stmt) -> bool:
        """`os.environ["MASTER_ADDR"] = ...`"""
        return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in (
            "os.environ['MASTER_ADDR']",
            "os.environ['MASTER_PORT']",
        )

    def _checks(self) -> None:
        """What the first process alone may not do: read what all wait for."""
        for node in self.found.firsts:
            parent = self.program.parent(node)
            inside = [n for s in parent.body for n in ast.walk(s)] if isinstance(parent, ast.If) else []
            if any(isinstance(n, ast.Call) and "torch.load" in self.program.called(n) for n in inside):
                self._no(node, "one process alone loads a file that others may wait for")

    def _foreigners(self) -> None:
        """Each name that is used in no way that is understood, once in a file."""
        told: set[tuple[str, str]] = set()
        for node, name in self._signs():
            key = (name, self.program.path(node))
            if node not in self._known and key not in told:
                told.add(key)
                reason = _UNKNOWN.get(name.rpartition(".")[2], "the script already distributes itself")
                self._no(node, f"`{name}`: {reason}")


def _makes_anew(value: ast.expr | None) -> bool:
    """Whether an expression makes a tensor that nothing else holds."""
    if isinstance(value, ast.Call):
        return not (isinstance(value.func, ast.Attribute) and value.func.attr in _VIEWS)
    return isinstance(value, ast.BinOp)
