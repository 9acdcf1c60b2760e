"""Move a script from Hugging Face Accelerate to accelify.

    from accelerate import Accelerator       ->    from accelify.runtime import Accelerator
    from accelerate.utils import set_seed    ->    from accelify.runtime.utils import set_seed
    import accelerate                        ->    import accelify.runtime
    accelerate.Accelerator(cpu=True)         ->    accelify.runtime.Accelerator(cpu=True)

Why: accelify's names mean what Accelerate's mean, so a script changes its imports and goes on as it is. What differs is
noted at its line; docs/api.md lists all of it.
All processes write a checkpoint together, so `save_state` goes from under `if accelerator.is_main_process:`, and what
stands beside it stays there. Where they might not all come to it, the program is declined.
Left alone: all else of the script. What accelify does not have (DeepSpeed, FSDP, big-model inference, and what is
Accelerate's own) declines the program, unless the name is imported and never read: then its import goes. What
`accelerate.test_utils` has comes from there as before. With `--runtime accelerate` there is nothing to do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import libcst as cst

from accelify.codemod.accelerate.saved_together import SavedTogether
from accelify.codemod.accelerate.uses import AccelerateUses, Asked, Imported, Read
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, DropNames, Edit, Insert, Obstacle, Remark, Replace, Unwrap, Wrap
from accelify.codemod.libraries.accelerate import OURS, PLACES, READ_ONLY, WAITS_HERE, Status, counterpart
from accelify.codemod.result import Tier

NAME = "accelerate"
_REASON = "accelify provides the same names"
_FOR_TESTS = "accelerate.test_utils."  # loads data; the accelerator has no part in it


def find(script: AccelerateUses) -> Iterator[Change | Remark | Obstacle]:
    """A change for each import and each use of a module, an obstacle for each name that accelify does not have."""
    for statement, parts in groupby(script.imported, key=lambda each: each.statement):
        if isinstance(statement, ast.Import):
            yield from _modules(script, statement, list(parts))
        else:
            yield from _names(script, statement, list(parts))
    for read in script.read:
        yield from _read(script, read)
    for asked in script.asked:
        yield from _asked(script, asked)
    yield from _arguments(script)
    for call in script.calls_of(*WAITS_HERE):
        if script.is_on_main_alone(call):
            yield _on_all(script, call)
    for call in script.trainers:
        message = f"`{ast.unparse(call.func)}` runs on Accelerate itself: keep using Accelerate for this script"
        yield Obstacle(NAME, script.program.path(call), call, message)
    if script.idle is not None:
        message = (
            "nothing is trained by this `Accelerator`, so every process would train alone on all of the data: remove "
            "it and what reads it, and the script's own training can be migrated"
        )
        yield Obstacle(NAME, script.program.path(script.idle), script.idle, message)


# Names that are imported one by one.


def _names(
    script: AccelerateUses, statement: ast.ImportFrom, parts: Sequence[Imported]
) -> Iterator[Change | Remark | Obstacle]:
    path = script.program.path(statement)
    if parts[0].alias.name == "*":
        yield Obstacle(
            NAME, path, statement, "`import *` may import any name of Accelerate's: import the names that are used"
        )
        return
    if parts[0].name.startswith(_FOR_TESTS):
        return
    homes = {part: home for part in parts if (home := _home(part.name)) is not None}
    for part in parts:
        if part not in homes and part.is_read:
            yield _missing(script, statement, part.name)
        elif part in homes:
            yield from _differences(script, statement, part.name)
    unread = tuple(part.bound for part in parts if part not in homes)
    groups: dict[str, list[tuple[Imported, str]]] = {}
    for part, home in homes.items():
        groups.setdefault(_module(home), []).append((part, home))
    if not groups:
        yield Change(NAME, path, statement.lineno, "nothing reads it", (DropNames(statement, unread),))
        return
    (first, inside), *others = groups.items()
    edits: list[Edit] = [
        Replace(statement, partial(imported_from, module=first, names={p.bound: _last(h) for p, h in inside}))
    ]
    for order, (module, group) in enumerate(others):
        names = ", ".join(_last(h) if _last(h) == p.bound else f"{_last(h)} as {p.bound}" for p, h in group)
        edits.append(Insert(statement, "after", f"from {module} import {names}", order=order))
    yield Change(NAME, path, statement.lineno, _REASON, tuple(edits))


def imported_from(node: cst.CSTNode, module: str, names: dict[str, str]) -> cst.ImportFrom:
    """`from module import ...`, of the names that it binds only these, each from the name that it has there."""
    assert isinstance(node, cst.ImportFrom)
    assert not isinstance(node.names, cst.ImportStar)
    kept = [_renamed(alias, names[bound]) for alias in node.names if (bound := _bound(alias)) in names]
    if len(kept) < len(node.names):
        kept[-1] = kept[-1].with_changes(comma=node.names[-1].comma)
    return node.with_changes(module=snippets.expression(module), names=kept)


def _renamed(alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
    if alias.evaluated_name == name:
        return alias
    asname = alias.asname or cst.AsName(cst.Name(alias.evaluated_name))
    return alias.with_changes(name=cst.Name(name), asname=asname)


def _bound(alias: cst.ImportAlias) -> str:
    return alias.evaluated_alias or alias.evaluated_name


# Modules, and what is read of them.


def _modules(script: AccelerateUses, statement: ast.Import, parts: Sequence[Imported]) -> Iterator[Change | Obstacle]:
    path, needed = script.program.path(statement), []
    if not any(part.is_read for part in parts):
        names = tuple(part.bound for part in parts)
        yield Change(NAME, path, statement.lineno, "nothing reads it", (DropNames(statement, names),))
        return
    for part in parts:
        if part.name not in PLACES:
            yield _missing(script, statement, part.name)
            return
        needed += [_module(home) for read in script.read if read.by is part and (home := _home(read.name)) is not None]
    modules = {part.name: _ours(part.name) for part in parts}
    edits: list[Edit] = [Replace(statement, partial(imported, names=modules))]
    for order, module in enumerate(sorted({*needed} - {*modules.values(), OURS})):
        edits.append(Insert(statement, "after", f"import {module}", order=order))
    yield Change(NAME, path, statement.lineno, _REASON, tuple(edits))


def imported(node: cst.CSTNode, names: dict[str, str]) -> cst.Import:
    """`import accelify.runtime` for `import accelerate`."""
    assert isinstance(node, cst.Import)
    aliases = [
        alias.with_changes(name=snippets.expression(names.get(alias.evaluated_name, alias.evaluated_name)))
        for alias in node.names
    ]
    return node.with_changes(names=aliases)


def _read(script: AccelerateUses, read: Read) -> Iterator[Change | Remark | Obstacle]:
    home = _home(read.name)
    if home is None:
        yield _missing(script, read.node, read.name)
        return
    yield from _differences(script, read.node, read.name)
    code = home
    if read.by.alias.asname or isinstance(read.by.statement, ast.ImportFrom):
        code = read.by.bound + home.removeprefix(_ours(read.by.name))
    if code != ast.unparse(read.node):
        edit = Replace(read.node, partial(snippets.coded, code=code), keeps=(read.node,))
        yield Change(NAME, script.program.path(read.node), read.node.lineno, _REASON, (edit,))


# Uses of Accelerate's objects.


def _asked(script: AccelerateUses, asked: Asked) -> Iterator[Remark | Obstacle]:
    known = counterpart(asked.name)
    may_be_the_scripts_own = not asked.is_sure or asked.node.attr in script.program.attribute_writes
    if not isinstance(asked.node.ctx, ast.Load) and asked.node.attr in READ_ONLY.get(asked.of, "").split():
        message = f"accelify's `{asked.node.attr}` cannot be set: give the accelerator what it is to be when it is made"
        yield Obstacle(NAME, script.program.path(asked.node), asked.node, message)
    elif known is not None and known.becomes is not None:
        yield from _differences(script, asked.node, asked.name)
    elif known is not None or not may_be_the_scripts_own:
        yield _missing(script, asked.node, asked.name)


def _arguments(script: AccelerateUses) -> Iterator[Obstacle]:
    """Options that accelify does not have; None asks for nothing."""
    for keyword, name in script.options:
        known = counterpart(name)
        asks = not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
        if known is not None and known.status is Status.ABSENT and asks:
            yield _missing(script, keyword.value, name)


def _on_all(script: AccelerateUses, call: ast.Call) -> Change | Obstacle:
    """A call that all processes make together here, and the main one alone in the script."""
    path, what = script.program.path(call), ast.unparse(call.func)
    together = script.program.once(SavedTogether).of(call)
    if together is None:
        message = f"`{what}` waits for all processes, but only the main process gets to it: call it in all of them"
        return Obstacle(NAME, path, call, message)
    guard, header = together.guard, f"if {ast.unparse(together.process)}:"
    code = " and ".join(ast.unparse(each) for each in together.rest)
    opened = Replace(guard.test, partial(snippets.coded, code=code), keeps=together.rest)
    edits = (opened if code else Unwrap(guard, is_body=True), *(Wrap(run, header) for run in together.runs))
    return Change(NAME, path, call.lineno, f"all processes call `{what}` together", edits, Tier.REVIEW)


# The table's answers.


def _home(name: str) -> str | None:
    """The counterpart of a name of Accelerate's; of a module, the module that stands for it."""
    if name in PLACES:
        return _ours(name)
    known = counterpart(name)
    return None if known is None else known.becomes


def _ours(module: str) -> str:
    return f"{OURS}.{PLACES[module]}".rstrip(".")


def _module(home: str) -> str:
    return home.rpartition(".")[0]


def _last(home: str) -> str:
    return home.rpartition(".")[2]


def _missing(script: AccelerateUses, node: ast.AST, name: str) -> Obstacle:
    known, path = counterpart(name), script.program.path(node)
    what = name.removeprefix("accelerate.")
    how = "it is not part of the public API of Accelerate 1.15" if known is None else known.how
    return Obstacle(NAME, path, node, f"accelify has no `{what}`: {how}")


def _differences(script: AccelerateUses, node: ast.AST, name: str) -> Iterator[Remark]:
    """A note where the same name means something else that a script may depend on."""
    known = counterpart(name)
    if known is not None and known.is_noted:
        message = f"`{_last(name)}` differs from Accelerate's: {known.how}"
        yield Remark(NAME, script.program.path(node), node, message, Tier.ADVICE, once=True)
