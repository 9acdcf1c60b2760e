"""Which functions does a script start in processes of their own?"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelify.codemod.distributed.found import Place
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import FunctionValue


@dataclass(frozen=True)
class Spawn:
    """`mp.spawn(worker, nprocs=n, args=(a, b))`: each process calls `worker(i, a, b)`."""

    call: ast.Call
    worker: Scope
    count: ast.expr | None
    arguments: tuple[ast.expr, ...]


_TAKEN = ("fn", "args", "nprocs", "join", "daemon", "start_method")


def spawned(place: Place, call: ast.Call) -> Spawn | str:
    """What a call starts in each process, or why that cannot be told."""
    given = {k.arg: k.value for k in call.keywords}
    given.update(zip(_TAKEN, call.args, strict=False))
    workers = {v.scope for v in place.program.values(given.get("fn")) if isinstance(v, FunctionValue)}
    join = given.get("join")
    listed = given.get("args", ast.Tuple([], ast.Load()))
    if len(workers) != 1 or not isinstance(listed, (ast.Tuple, ast.List)) or not place.is_alone(call):
        return "cannot tell which function is started in each process, and with what"
    foreign = [name for name in given if name is not None and name not in _TAKEN]
    if foreign:
        return f"`{foreign[0]}` is nothing that `spawn` takes: put what the function is given into `args`"
    if isinstance(join, ast.Constant) and join.value is False:
        return "the script goes on while the processes that it starts run"
    if not next(iter(workers)).parameters:
        return "the function that is started takes no number of its process"
    return Spawn(call, workers.pop(), given.get("nprocs"), tuple(listed.elts))
