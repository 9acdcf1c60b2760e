"""A file that every process writes, all of them at once.

    torch.save(model.state_dict(), "last.pt")    ->    if dist.get_rank() == 0:
                                                           torch.save(model.state_dict(), "last.pt")

Why: the processes write into one file at the same time, so that it may end up torn; or each one overwrites what the
last one wrote, with values of its own shard.
Left alone: paths that may be another one in each process (they name the rank, the time, a temporary folder); what
stands under a condition that may be about the rank; functions that the script is not seen to call; folders made with
`exist_ok=True`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.libraries.row import Effect, Role, Row, Trait

NAME = "every_rank_writes"
_DEEPEST = 4


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each call that opens or writes a file, or makes a folder, in every process."""
    if not processes.is_distributed:
        return
    for call in sorted(processes.program.calls, key=processes.program.position):
        rows = processes.rows(call)
        if not rows or not all(row.has(Effect.WRITES_FILES) for row in rows) or _is_left_alone(processes, call, rows):
            continue
        if processes.is_everywhere(call) and not _may_be_own(processes, call):
            yield Finding(NAME, call, _message(call, rows))


def _is_left_alone(processes: Processes, call: ast.Call, rows: tuple[Row, ...]) -> bool:
    """What is no write of its own: into a file that is open, by all together, into a log."""
    if any(row.has(Effect.WAITS) or row.has(Effect.LOGS) or row.has(Effect.ASKS_NETWORK) for row in rows):
        return True
    if any(row.has(Effect.CHANGES_LIBRARY) or row.role is Role.DATASET for row in rows):
        return True
    if any(
        row.returns == "handler" or "self" in row.mutates or row.has(Trait.REMOVES) or row.has(Trait.REMOVES_FOLDERS)
        for row in rows
    ):
        return True
    if any(row.has(Trait.MAKES_FOLDERS) for row in rows):
        return not _may_fail(processes, call)
    if any(row.has(Effect.READS_FILES) and row.has(Trait.OPENS) for row in rows):
        return not _opens_to_write(call)
    return _writes_into_open_file(processes, call)


def _writes_into_open_file(processes: Processes, call: ast.Call) -> bool:
    """Whether a file that is open already is written: `json.dump(x, file)`; opening it is what is reported."""
    kinds = {kind for given in call.args for kind in processes.kinds.of(given)}
    return any(table.is_kind(kind, "file") for kind in kinds)


def _may_fail(processes: Processes, call: ast.Call) -> bool:
    """Whether making a folder fails where another process was first."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if any(k.arg in (None, "exist_ok") for k in call.keywords) or name == "mkpath":
        return False
    return not any(isinstance(a, ast.Try) for a in processes.program.ancestors(call))


def _opens_to_write(call: ast.Call) -> bool:
    given = [*call.args[:2], *(k.value for k in call.keywords if k.arg == "mode")]
    modes = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    is_short = [m for m in modes if len(m) <= 3 and set(m) <= set("rwaxbt+")]
    return any(set(m) & set("wx") for m in is_short)


def _may_be_own(processes: Processes, call: ast.Call) -> bool:
    """Whether the path may be another one in each process, as far as its parts can be followed."""
    seen: set[ast.AST] = set()
    queue: list[tuple[ast.expr, int]] = [(path, 0) for path in _paths(processes, call)]
    while queue:
        node, depth = queue.pop()
        if node in seen or depth > _DEEPEST:
            continue
        seen.add(node)
        if vocabulary.may_be_one_ranks_path(_spelled(node)):
            return True
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and processes.is_of_loop(part):
                return True
            if isinstance(part, (ast.Name, ast.Attribute)):
                queue += [(given, depth + 1) for given in processes.given(part)]
    return False


def _paths(processes: Processes, call: ast.Call) -> list[ast.expr]:
    """The expressions one of which names the file."""
    uses = [use for use in processes.chains.effects.of_call(call).files_written if use.call is call]
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    named = [path for use in uses for path in use.paths]
    return named or [*call.args, *(k.value for k in call.keywords), *owner]


def _spelled(node: ast.expr) -> str:
    """The names, attributes and texts in an expression, without the names of what it calls."""
    called = {n.func for n in ast.walk(node) if isinstance(n, ast.Call)}
    words = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n not in called]
    words += [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)]
    words += [str(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return " ".join(words)


def _message(call: ast.Call, rows: tuple[Row, ...]) -> str:
    if any(row.has(Trait.MAKES_FOLDERS) for row in rows):
        return "every process makes this folder at once, and fails where another was first: write `exist_ok=True`"
    name = ast.unparse(call.func)
    return f"every process calls `{name}` on the same file: let the main process alone write it"
