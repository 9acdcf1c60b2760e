"""A file that every process writes or downloads, all of them at once.

    torch.save(model.state_dict(), "last.pt")    ->    if dist.get_rank() == 0:
                                                           torch.save(model.state_dict(), "last.pt")

Why: the processes write into one file at the same time, so that it may end up torn; or each one overwrites what the
last one wrote, with values of its own shard. What they download they unpack into one folder.
Left alone: paths that may be another one in each process (they name the rank, the time, a temporary folder); what
stands under a condition that may be about the rank; functions that the script is not seen to call; folders made with
`exist_ok=True`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.rank_values import RankValues
from accelify.codemod.checks.waiting import Waiting
from accelify.codemod.edits.values import Edit, Wrap
from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.libraries.row import Effect, Role, Row, Trait
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.values import External

NAME = "every_rank_writes"
_OWN = "every process calls `{}` on the same file with what it made of its own shard: put the rank into the name"
_DEEPEST = 4


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each call that opens or writes a file, or makes a folder, in every process."""
    if not processes.is_distributed:
        return
    for call in sorted(processes.program.calls, key=processes.program.position):
        rows = processes.rows(call)
        if _downloads(call, rows) and processes.is_everywhere(call) and not _goes_first(processes, call):
            yield Finding(NAME, call, "every process downloads this into one folder: let one do so first")
        if not rows or not all(row.has(Effect.WRITES_FILES) for row in rows) or _is_left_alone(processes, call, rows):
            continue
        if processes.is_everywhere(call) and not _may_be_own(processes, call):
            if _is_of_shard(processes, call):
                yield Finding(NAME, call, _OWN.format(ast.unparse(call.func)))
            else:
                yield Finding(NAME, call, _message(call, rows), _fix(processes, call, rows))


def _downloads(call: ast.Call, rows: tuple[Row, ...]) -> bool:
    """`MNIST("data", download=True)`."""
    asked = next((k.value for k in call.keywords if k.arg == "download"), None)
    is_dataset = bool(rows) and all(row.role is Role.DATASET for row in rows)
    return is_dataset and isinstance(asked, ast.Constant) and asked.value is True


def _goes_first(processes: Processes, call: ast.Call) -> bool:
    """Whether one process may have made the same before, or does so in a block of its own."""
    blocks = (a for a in processes.program.ancestors(call) if isinstance(a, ast.With))
    if any(vocabulary.may_ask_for_rank(ast.unparse(item)) for block in blocks for item in block.items):
        return True
    others = (c for c in processes.program.calls if c is not call and ast.unparse(c.func) == ast.unparse(call.func))
    return any(processes.may_be_guarded(other) for other in others)


def _fix(processes: Processes, call: ast.Call, rows: tuple[Row, ...]) -> tuple[Edit, ...]:
    """The statement under the guard that its function, or its file, has for others."""
    statement = processes.program.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call or not _is_of_its_own(processes, call):
        return ()
    guard = "" if any(row.has(Trait.MAKES_FOLDERS) for row in rows) else _guard(processes, call)
    return (Wrap((statement,), f"if {guard}:"),) if guard else ()


def _is_of_shard(processes: Processes, call: ast.Call) -> bool:
    """Whether what is written comes from the batches of one process's shard, while it iterates over them."""
    values = processes.once(RankValues)
    around = [n for n in processes.program.loops_round(call) if isinstance(n, (ast.For, ast.AsyncFor))]
    is_inside = any(loop in values.loops and values.is_sharded_by_then(loop) for loop in around)
    return is_inside and any(map(values.ranks.is_own, call.args))


def _is_of_its_own(processes: Processes, call: ast.Call) -> bool:
    """Whether nothing in a statement needs the other processes: no collective, no model that is spread over them."""
    waiting = processes.once(Waiting)
    calls = [n for n in ast.walk(call) if isinstance(n, ast.Call)]
    spread = any(vocabulary.may_spread_models(p.text) for p in processes.program.files)
    return not spread and not any(
        waiting.may_wait(c) or any(r.has(Effect.WAITS) for r in processes.rows(c)) for c in calls
    )


def _guard(processes: Processes, call: ast.Call) -> str:
    """A condition that holds in the main process alone, and can be asked at a call; empty without one."""
    program, frame = processes.program, processes.frame(call)
    for other in program.calls_in(frame):
        owner = other.func.value if isinstance(other.func, ast.Attribute) else None
        if owner is not None and processes.is_accelerator(owner) and program.control_flow(call).dominates(other, call):
            return f"{ast.unparse(owner)}.is_main_process"
    for branch in (n for s in frame.body for n in ast.walk(s) if isinstance(n, ast.If)):
        if (
            program.frame(branch) is frame
            and _is_main(processes, branch.test)
            and _reads_alike(processes, branch, call)
        ):
            return ast.unparse(branch.test)
    starts = [s for s in processes.starts if program.path(s) == program.path(call) and processes.is_everywhere(s)]
    owners = [s.func.value for s in starts if isinstance(s.func, ast.Attribute)]
    named = [ast.unparse(o) for o in owners if processes.kinds.of(o) != {"accelerator"} and _is_global(processes, o)]
    return f"{named[0]}.get_rank() == 0" if named else ""


def _is_main(processes: Processes, test: ast.expr) -> bool:
    return processes.conditions.truth(test, MAIN) is True and processes.conditions.truth(test, OTHER) is False


def _reads_alike(processes: Processes, branch: ast.If, call: ast.Call) -> bool:
    """Whether all that a condition reads holds the same at a call: one definition each, before both."""
    reads = [n for n in ast.walk(branch.test) if isinstance(n, ast.Name)]
    flow = processes.program.control_flow(call)
    for read in reads:
        definitions = processes.chains.definitions(read)
        every = processes.chains.facts(read).all_of(next(iter(definitions)).variable) if definitions else ()
        if len(definitions) != 1 or len({d.node for d in every}) != 1:
            return False
        (definition,) = definitions
        is_here = processes.program.frame(definition.node) is processes.program.frame(call)
        if is_here and definition.kind is not Kind.PARAMETER and not flow.dominates(definition.node, call):
            return False
    return not any(isinstance(n, ast.Call) and n.args for n in ast.walk(branch.test))


def _is_global(processes: Processes, node: ast.expr) -> bool:
    """Whether an expression is a module that is imported at the top: `dist`, `torch.distributed`."""
    values = processes.program.values(node)
    first = ast.unparse(node).partition(".")[0]
    return bool(values) and all(isinstance(v, External) for v in values) and _is_imported(processes, node, first)


def _is_imported(processes: Processes, node: ast.expr, name: str) -> bool:
    tree = processes.program.parsed(node).tree
    imports = (n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)))
    return any((a.asname or a.name).partition(".")[0] == name for n in imports for a in n.names)


def _is_left_alone(processes: Processes, call: ast.Call, rows: tuple[Row, ...]) -> bool:
    """Whether a call writes no file of its own: into an open file, by all together, into a log."""
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
        return "every process creates this folder, and fails where another one was first: pass `exist_ok=True`"
    if any(row.role is Role.LOGGER for row in rows):
        return "every process writes a log of its own into this folder: make the writer in the main process only"
    name = ast.unparse(call.func)
    return f"every process calls `{name}` on the same file: write it in the main process only"
