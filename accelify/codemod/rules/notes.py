"""List what a person should look at: right as it stands, or not ours to decide.

    total += loss.item()                  a sum over one process's share
    for x, y in test_loader:              evaluated in full by every process
    output, hidden = model(x, hidden)     a state carried from one share's batch to its next

Why: what a migrated script still holds is never hidden; "0 notes" means it.
Left alone: all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits import Plan, Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "notes"
_FILES = (
    "SummaryWriter",
    "savefig",
    "save_image",
    "to_csv",
    "imsave",
    "imwrite",
    "savetxt",
    "dump",
    "writeHTML",
    "savemat",
)


def find(script: Script, plan: Plan) -> Iterator[Remark]:
    """The notes of the changed files."""
    shared = _shared_loops(script)
    for loop in shared:
        yield from _sums(script, loop)
        yield from _carried(script, loop)
    for path in sorted(script.files):
        for node in script.program.flow.parsed_of[path].parents:
            if isinstance(node, (ast.For, ast.AsyncFor)) and node not in shared:
                yield from _evaluation(script, node)
    yield from _files(script)


def _shared_loops(script: Script) -> list[ast.For | ast.AsyncFor]:
    """The loops whose items are dealt out to the processes."""
    found = [
        n for n in script.prepared_loops if isinstance(n, (ast.For, ast.AsyncFor)) and script.path(n) in script.files
    ]
    found.extend(d.loop for d, _ in script.preparation.sharded if isinstance(d.loop, (ast.For, ast.AsyncFor)))
    return sorted(set(found), key=lambda n: (script.path(n), n.lineno))


def _sums(script: Script, loop: ast.For | ast.AsyncFor) -> Iterator[Remark]:
    seen: set[str] = set()
    for node in ast.walk(loop):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add) or not _is_measured(node.value):
            continue
        text = ast.unparse(node.target)
        if text not in seen:
            seen.add(text)
            message = (
                f"`{text}` adds up this process's share only: reduce it over the processes where the whole is meant"
            )
            yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _is_measured(value: ast.expr) -> bool:
    """Whether a summand is read from tensors."""
    return any(
        (
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr in ("item", "sum", "size", "detach", "cpu")
        )
        or (isinstance(n, ast.Attribute) and n.attr in ("data", "shape"))
        for n in ast.walk(value)
    )


def _carried(script: Script, loop: ast.For | ast.AsyncFor) -> Iterator[Remark]:
    for node in ast.walk(loop):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if not isinstance(node.targets[0], ast.Tuple):
            continue
        given = {n.id for a in node.value.args for n in ast.walk(a) if isinstance(n, ast.Name)}
        kept = [e.id for e in node.targets[0].elts if isinstance(e, ast.Name) and e.id in given]
        if kept and not any(
            _binds(s, kept[0]) for s in loop.body if s.lineno < node.lineno and not _is_detached(s, kept[0])
        ):
            message = (
                f"`{kept[0]}` is carried from one batch to the next, "
                "and each process takes only its share of them, in turn"
            )
            yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)
            return


def _binds(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(n, ast.Name) and n.id == name for t in statement.targets for n in ast.walk(t)
    )


def _is_detached(statement: ast.stmt, name: str) -> bool:
    """`hidden = hidden.detach()` and its like go on with the same state."""
    return isinstance(statement, ast.Assign) and any(
        isinstance(n, ast.Name) and n.id == name for n in ast.walk(statement.value)
    )


def _evaluation(script: Script, loop: ast.For | ast.AsyncFor) -> Iterator[Remark]:
    if script.iterates_a_loader(loop) and script.accelerator(loop) is not None:
        message = "stays whole: every process goes over all of it, which is right but no faster"
        yield Remark(NAME, script.path(loop), loop, message, Tier.ADVICE)


def _files(script: Script) -> Iterator[Remark]:
    for call in script.program.calls:
        if script.path(call) not in script.files:
            continue
        name = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
        writes = name in _FILES or (
            name == "open"
            and any(isinstance(a, ast.Constant) and str(a.value)[:1] in ("w", "a") for a in call.args[1:])
        )
        if writes:
            message = (
                f"`{name}`: every process writes this; put it under `if accelerator.is_main_process:` if one should"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.ADVICE)
