"""Let one process download a data set, and the others find it there.

    train_set = MNIST("data", download=True)    ->    with accelerator.main_process_first():
                                                          train_set = MNIST("data", download=True)

Why: processes that download and unpack into one folder at once damage each other's files. Some data sets fetch what is
missing without being asked, as those of PyTorch Geometric do, and `build_vocab(vectors="glove.6B.100d")`.
A file that is made, or fetched, only where it is missing is seen to in the same way, unless it is made from a prepared
loader: no process can go over that one before the others, and a note says so. Nothing is broadcast in a block
where one process goes first: the others would not be there.
Left alone: downloads where the accelerator does not reach, or that not every process may come to; a note says so.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from accelify.codemod.edits.values import Change, Edit, Remark, Wrap
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import Made

NAME = "downloads"
OPTIONAL = True
_DEPTH = 3
_MAY = (
    "this may download its data, or process them into a cache, in every process at once: if it does, let one process "
    "make it first, or do so before the run"
)
_BY_ALL = "every process creates this if it is missing: let one process create it first, or create it before the run"
_OF_SHARD = (
    "where this is missing, the processes go over a prepared loader together, each over its shard only: create it "
    "before the run, or let one process create it first from a loader that is not prepared"
)


def find(script: Script) -> Iterator[Change | Remark]:
    """A block for each run of statements that download, here or in a function that they call."""
    taken: dict[ast.stmt, ast.Call] = {}
    for call in _downloads(script):
        statements = list(_statements(script, call, _DEPTH))
        if statements and all(s is not None for s in statements):
            taken.update((s, call) for s in statements if s is not None and not _is_waited_for(script, s))
        else:
            message = "every process downloads this: let one process download it first, or download it before the run"
            if call in script.written.made_unknown:
                message = _MAY
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    for run in _runs(script, set(script.written.guarding.cached.caches.first)):
        speaker = script.state(run[0])
        edits: tuple[Edit, ...] = (
            Wrap(run, f"with {speaker}.main_process_first():"),
            *script.library_import(run[0], speaker),
        )
        reason = "one process creates it, the others wait and use it"
        yield Change(NAME, script.path(run[0]), run[0].lineno, reason, edits)
    caches = script.written.guarding.cached.caches
    for choice in caches.of_shards:
        yield Remark(NAME, script.path(choice), choice, _OF_SHARD, Tier.REVIEW)
    for choice in caches.uncached:
        if choice not in caches.of_shards:
            yield Remark(NAME, script.path(choice), choice, _BY_ALL, Tier.REVIEW)
    for run in _runs(script, set(taken)):
        header = f"with {script.accelerator(run[0])}.main_process_first():"
        reason = "one process downloads, the others wait and use its copy"
        if all(taken[s] in script.written.made_unknown for s in run):
            reason = "one process downloads or processes what is missing, the others wait and use its files"
        yield Change(NAME, script.path(run[0]), run[0].lineno, reason, (Wrap(run, header),))


def _downloads(script: Script) -> Iterator[ast.Call]:
    """The calls that download by themselves, and those of functions in which none is known to do so."""
    guarding = script.written.guarding
    calls = [
        c
        for c in script.program.calls
        if c not in guarding.covered and c not in guarding.locks.held and _may_download(script, c)
    ]
    calls = [c for c in calls if script.program.is_run(c)]
    frames = {script.program.frame(c) for c in calls} | {
        script.program.frame(s) for s in script.written.guarding.cached.caches.first
    }
    for call in calls:
        inner = script.program.run_through([call])
        if frames.isdisjoint(inner) and not script.written.guarding.cached.holds(call):
            yield call


def _may_download(script: Script, call: ast.Call) -> bool:
    """Whether a call is asked to download, or does so unasked."""
    if call in script.written.made_unknown:
        return True
    called = script.program.called(call)
    if "functools.partial" in called:
        return False  # what it makes is asked once it is called
    held = [v.node for v in script.program.values(call.func) if isinstance(v, Made) and v.name == "functools.partial"]
    given = [call, *(node for node in held if isinstance(node, ast.Call))]
    wanted = next((k.value for c in given for k in c.keywords if k.arg == "download"), None)
    if isinstance(wanted, ast.Constant):  # whoever is asked: `datasets.__dict__[name](download=True)`
        return bool(wanted.value)
    is_asked = wanted is not None and any(map(names.is_dataset, called))
    return is_asked or any(map(names.fetches, called)) or _names_vectors(script, call)


def _names_vectors(script: Script, call: ast.Call) -> bool:
    """Whether a call names the vectors to download: `TEXT.build_vocab(rows, vectors="glove.6B.100d")`."""
    vectors = next((k.value for k in call.keywords if k.arg == "vectors"), None)
    if vectors is None or any(isinstance(v, Made) for v in script.program.values(vectors)):
        return False
    is_none = isinstance(vectors, ast.Constant) and vectors.value is None
    return not is_none and any(row.has(Trait.FETCHES_VECTORS) for row in script.effects.kinds.called(call) or ())


def _statements(script: Script, call: ast.Call, depth: int) -> Iterator[ast.stmt | None]:
    """The statements to put into a block: the call's, or those that call its function; None where that cannot be."""
    statement = script.program.statement(call)
    frame = _running(script, call)
    if frame.kind != "lambda" and script.accelerator(call) is not None and script.path(call) in script.files:
        yield statement if _may_wait(script, statement) else None
        return
    callers = script.program.flow.callers.get(frame, ()) if frame.kind in ("function", "lambda") and depth else ()
    if not callers:
        yield None
    for caller in callers:
        if script.program.frame(caller) in script.program.reachable:
            yield from _statements(script, caller, depth - 1)


def _running(script: Script, call: ast.Call) -> Scope:
    """The function, or the lambda, that runs a call, or the module."""
    scope = script.program.scope(call)
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    return scope


def _may_wait(script: Script, statement: ast.stmt) -> bool:
    """Whether every process comes to a statement, and the processes do nothing together in it."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
        return False
    inside = set(ast.walk(statement))
    if any(node in inside for _, node in [*script.preparation.wrapped, *script.preparation.sharded]):
        return False
    guard = main_guard(script.program.frame(statement).root)
    for ancestor in script.program.ancestors(statement):
        if isinstance(ancestor, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            break
        if isinstance(ancestor, (ast.If, ast.While)) and ancestor is not guard:
            if any(isinstance(n, ast.Call) for n in ast.walk(ancestor.test)):
                return False
        elif isinstance(ancestor, (ast.Try, ast.Lambda)):
            return False
    return _stands_alone(script, statement)


def _is_waited_for(script: Script, statement: ast.stmt, depth: int = _DEPTH) -> bool:
    """Whether a barrier that not all ranks come to lets one process make this before the others already."""
    if script.distribution is None:
        return False
    others = [b for b in script.distribution.barriers if _is_of_one_rank(script, b)]
    before: list[ast.AST] = []
    run: list[ast.AST] = [statement]
    for node in (statement, *itertools.takewhile(_is_inside_function, script.program.ancestors(statement))):
        if isinstance(node, ast.stmt):
            block = script.program.block(node)
            before += block[: block.index(node)]
        run += [item.context_expr for item in node.items] if isinstance(node, (ast.With, ast.AsyncWith)) else []
    calls = (c for node in run for c in ast.walk(node) if isinstance(c, ast.Call))
    frames = script.program.run_through(calls)
    if any(script.program.frame(b) in frames or any(script.program.inside(b, s) for s in before) for b in others):
        return True
    callers = script.program.flow.callers.get(script.program.frame(statement), ()) if others and depth else ()
    return any(_is_waited_for(script, script.program.statement(c), depth - 1) for c in callers)


def _is_of_one_rank(script: Script, barrier: ast.Call) -> bool:
    """Whether a condition asks which rank this is, before it waits: `if local_rank not in [-1, 0]: barrier()`."""
    around = itertools.takewhile(_is_inside_function, script.program.ancestors(barrier))
    firsts = script.distribution.firsts if script.distribution is not None else {}
    return any(n in firsts for a in around if isinstance(a, ast.If) for n in ast.walk(a.test))


def _is_inside_function(node: ast.AST) -> bool:
    return not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module))


def _stands_alone(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement has its lines for itself."""
    parsed = script.program.parsed(statement)
    others = [s for s in script.program.block(statement) if s is not statement]
    return parsed.begins_line(statement) and not any(parsed.share_a_line(s, statement) for s in others)


def _runs(script: Script, statements: set[ast.stmt]) -> Iterator[tuple[ast.stmt, ...]]:
    """The statements that follow each other, together."""
    for statement in sorted(statements, key=script.program.position):
        if statement not in statements:
            continue
        block = script.program.block(statement)
        run = []
        for following in block[block.index(statement) :]:
            if following not in statements:
                break
            run.append(following)
            statements.discard(following)
        yield tuple(run)
