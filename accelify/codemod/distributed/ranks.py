"""How does a script tell which of its processes it is?"""

from __future__ import annotations

import ast

from accelify.codemod.distributed.found import Distribution, Place
from accelify.codemod.preparing.reach import method_of
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope

_VARIABLES = {"LOCAL_RANK": "local_process_index", "RANK": "process_index", "WORLD_SIZE": "num_processes"}
_DEPTH = 6
_FIRST = {"process_index": "is_main_process", "local_process_index": "is_local_main_process"}


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
            self.found.refuse(read, f"`{ast.unparse(read)}` may say that there is one process only")
            return
        assert isinstance(outer, ast.Call)
        self.found.ranks[outer] = _VARIABLES[str(key)]

    def options(self, calls: list[ast.Call]) -> None:
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
            self.found.refuse(set_anew[0], "`--local_rank` is also set by the script")
            return
        for call in options:
            self.found.remove(self.program.statement(call))
        self.found.ranks.update(dict.fromkeys(own, "local_process_index"))

    def devices(self, calls: list[ast.Call]) -> None:
        """Where a process's number stands for its GPU."""
        moves = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in ("to", "cuda") and c.args]
        self.found.devices = {c.args[0] for c in moves if self.rank_of(c.args[0]) is not None}
        for function in self.program.reachable:
            for parameter in function.parameters:
                is_rank = (
                    self._is_parameter(function, parameter.arg) and self._given(function, parameter.arg) is not None
                )
                if is_rank or self._only_tells_ranks(function, parameter.arg):
                    self.found.parameters.add((function, parameter.arg))

    def _only_tells_ranks(self, function: Scope, name: str) -> bool:
        """Whether a parameter is read for the number of a process and for nothing else: `args.gpu`."""
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
                if is_read and isinstance(node.slice, ast.Constant) and node.slice.value in _VARIABLES:
                    self.found.refuse(node, f"`{ast.unparse(node)}` is not taken for a number")

    def _question(self, node: ast.Compare) -> None:
        other = ast.unparse(node.comparators[0])
        rank = self.rank_of(node.left)
        is_first = isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and other == "0"
        if is_first and rank in _FIRST:
            negation = "" if isinstance(node.ops[0], ast.Eq) else "not "
            self.found.firsts[node] = negation + _FIRST[rank]
        elif "-1" in other and ast.unparse(node.left).endswith("rank"):
            self.found.refuse(node, "whether there are several processes is asked by a rank of -1")
