"""Call the function that a script starts in several processes directly: `accelify launch` starts the processes.

    def worker(gpu, ngpus, args):                          ->    def worker(args):
        ...                                                          gpu = dist.get_node_local_rank()
    mp.spawn(worker, nprocs=ngpus, args=(ngpus, args))     ->    worker(args)

Why: `accelify launch` starts one process for each device, on one machine or on many, and shows what failed where.
Left alone: scripts that continue while their processes run, and functions that they also use otherwise; these files
are declined.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst

from accelify.codemod.distributed.launched import Launched
from accelify.codemod.distributed.launching import Spawn
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, DropArgument, DropParameter, Edit, Insert, Obstacle, Replace

NAME = "spawned"


def find(script: Launched) -> Iterator[Change | Obstacle]:
    """Changes for each function that is started."""
    workers = [s.worker for s in script.launching.spawns]
    for spawn in script.launching.spawns:
        if workers.count(spawn.worker) > 1:
            yield Obstacle(NAME, script.path(spawn.call), spawn.call, "this function is started in several places")
            continue
        yield from _worker(script, spawn)


def _worker(script: Launched, spawn: Spawn) -> Iterator[Change]:
    node = spawn.worker.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    dropped: dict[str, str | None] = {**dict.fromkeys(script.unread(spawn)), **dict(script.ranks_and_sizes(spawn))}
    kept = [a for p, a in zip(spawn.others, spawn.arguments, strict=False) if p.arg not in dropped]
    call = Replace(
        spawn.call, partial(called, kept=[spawn.arguments.index(a) for a in kept]), keeps=(script.started(spawn), *kept)
    )
    reason = "the launcher starts the processes"
    yield Change(NAME, script.path(spawn.call), spawn.call.lineno, reason, (call,))
    edits: list[Edit] = [DropParameter(node, name) for name in dropped]
    first = node.body[1] if len(node.body) > 1 and _is_docstring(node.body[0]) else node.body[0]
    for name, word in dropped.items():
        if word is None:
            continue
        reads = [n for n in script.program.reads_of(spawn.worker, name) if n not in script.edits.gone]
        code = f"{script.group(first)}.{word}()"
        holder = script.program.parent(reads[0]) if len(reads) == 1 else None
        if isinstance(holder, ast.Assign):
            edits.append(Replace(reads[0], partial(snippets.coded, code=code), reads=(code.partition(".")[0],)))
        elif reads:
            edits.append(Insert(first, "before", f"{name} = {code}"))
    yield Change(NAME, script.path(node), node.lineno, "the accelerator knows the rank of the process", tuple(edits))
    for other in script.program.flow.callers.get(spawn.worker, ()):
        if other not in script.edits.gone:
            arguments = [script.tracer.written(other, spawn.worker, name) for name in dropped]
            drops = tuple(DropArgument(other, a) for a in arguments if a is not None)
            yield Change(NAME, script.path(other), other.lineno, "the accelerator knows the rank of the process", drops)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def called(node: cst.CSTNode, kept: Sequence[int]) -> cst.BaseExpression:
    """`worker(a, b)` for `mp.spawn(worker, nprocs=n, args=(a, b))`."""
    assert isinstance(node, cst.Call)
    given = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
    plain = [a.value for a in node.args if a.keyword is None]
    given.update(zip(("fn", "args"), plain, strict=False))
    listed = given.get("args")
    elements = listed.elements if isinstance(listed, (cst.Tuple, cst.List)) else ()
    arguments = [cst.Arg(elements[i].value) for i in kept]
    return cst.Call(given["fn"], arguments)
