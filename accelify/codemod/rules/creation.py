"""Create the accelerator, and pass it to the functions and classes that need it.

    accelerator = Accelerator()

Why: at module level when the script's set-up is there; at the top of the function that does the set-up otherwise, so
that importing the file starts nothing. A script takes the accelerator of a module that it imports, if that has one:
two would not know each other's loaders. A `device` parameter whose uses are all gone becomes `accelerator`, at the
definition and at every call; else a parameter is added, the last one, so that no other moves. A class that owns its
loop keeps `self.accelerator`. What is called from a table, or with other things that do not take it, asks for the one
that there is, `Accelerator.current()`: scripts that call it without one go on working. `locals()`, of which scripts
make files of settings, goes without it.
Left alone: functions that are passed on as values: their callers are not known, so the file is declined.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial

import libcst as cst

from accelify.codemod.devices.options import CpuSetting
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import AddParameter, Attempt, Change, Edit, Found, Insert, Obstacle, Replace
from accelify.codemod.libraries import vocabulary
from accelify.codemod.precision.switches import HAS_CUDA
from accelify.codemod.preparing.placing import kept_edit
from accelify.codemod.preparing.reach import constructor, method_of, node_of
from accelify.codemod.preparing.settings import imports_torch, negated
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope, names_in

NAME = "accelerator"


def find(script: Script) -> Iterator[Found]:
    """The lines that create it, the imports, the parameters and the arguments."""
    seen: set[str] = set()
    imported: set[str] = set()
    for home in script.reach.homes:
        if home.module not in seen:
            seen.add(home.module)
            imported.update([home.module] if home not in script.access.shared_by else [])
            yield from [_shared(script, home)] if home in script.access.shared_by else _import(script, home)
        if home not in script.access.shared_by or home.kind == "class":
            yield from _create(script, home)
    asking = {node.module: node for node in script.reach.asking if node.module not in imported}
    for module in sorted(asking):
        yield from _import(script, asking[module])
    given: set[ast.Call] = set()
    for function in dict.fromkeys(script.reach.parameters):
        yield from _parameter(script, function, given)
    for cls, calls in script.reach.constructed.items():
        yield from _constructed(script, cls, calls, given)
    yield from _listed(script)


def _import(script: Script, home: Scope) -> Iterator[Change | Obstacle]:
    root = home.root
    runtime = script.options.runtime
    names = ("Accelerator", *(runtime.names_for_sharing if script.options.keep_global_batch else ()))
    for taken in (n for n in names if n in root.writes):
        yield Obstacle(NAME, root.module, root.node, f"the name `{taken}` is taken")
        return
    edit = script.access.import_edit(root, f"from {runtime.module} import {', '.join(names)}")
    yield Change(NAME, root.module, edit.node.lineno, f"imports `{runtime.module}`", (edit,))


def _shared(script: Script, home: Scope) -> Change:
    """`from data import accelerator`, of a module that is imported anyway."""
    statement, module = script.access.shared_by[home]
    edit = Insert(statement, "after", f"from {module} import {script.reach.name}")
    return Change(NAME, home.module, statement.lineno, "the accelerator of the module that is imported here", (edit,))


def _create(script: Script, home: Scope) -> Iterator[Found]:
    after = script.access.known_after(home)
    holder = None
    if home.kind == "class":
        holder = constructor(script.program, home) if after is None else script.program.frame(after)
    owner = "" if home.kind != "class" else f"{_self(holder)}." if holder is not None else "self."
    value = script.reach.name if home in script.access.shared_by else _call(script, home)
    insert = script.access.creation_edit(home, f"{owner}{script.reach.name} = {value}")
    line = insert.node.lineno
    if after is not None:
        line = after.end_lineno or after.lineno
    elif holder is not None:
        line = _line(holder)
    created = Change(NAME, home.module, line, "creates the accelerator, one for the whole run", (insert,))
    if home not in script.reach.unread:
        yield created
        return
    alone = replace(created, edits=(script.access.creation_edit(home, value),))
    yield Attempt((alone,), unread=((home, script.reach.name),), otherwise=(created,))


def _call(script: Script, home: Scope) -> str:
    settings = [script.options.runtime.sharing] if script.options.keep_global_batch else []
    if cpu := _cpu(script, home):
        source = script.program.flow.parsed_of[home.module].text
        settings.append(f"cpu={snippets.quoted_as(source, cpu)}")
    if script.devices.keeps_moves:
        settings.append("device_placement=False")
    if script.devices.together.mixed is not None:
        settings.append("mixed_devices=True")
    if script.precision is not None and script.precision.is_taken_over:
        settings.append(f"mixed_precision={_precision(script, home, script.precision.code)}")
    return snippets.call_statement("", "Accelerator", settings, len("accelerator = "))


def _cpu(script: Script, home: Scope) -> str:
    """The condition that keeps the accelerator on the CPU: an option, or that there is no GPU the script knows."""
    chosen = _chosen(script, home)
    others = [text for text in chosen if not _is_about_gpus(text)]
    if others != chosen or (script.devices.is_for_cuda and imports_torch(home.root)):
        others.append("not torch.cuda.is_available()")
    return " or ".join(others)


def _chosen(script: Script, home: Scope) -> list[str]:
    cpu = script.devices.cpu
    is_known = cpu is not None and (not isinstance(cpu, CpuSetting) or home in cpu.homes)
    return [cpu.text] if cpu is not None and is_known and cpu.text != "False" else []


def _precision(script: Script, home: Scope, code: str) -> str:
    """The code for `mixed_precision=`: that there is a GPU says nothing where an option keeps the script on the CPU."""
    wishes = [ast.parse(text, mode="eval").body for text in _chosen(script, home) if not _is_about_gpus(text)]
    source = script.program.flow.parsed_of[home.module].text
    on_gpu = " and ".join([HAS_CUDA, *(ast.unparse(negated(wish)) for wish in wishes)])
    return code.replace(HAS_CUDA, snippets.quoted_as(source, on_gpu))


def _is_about_gpus(text: str) -> bool:
    """Whether a condition asks what GPUs there are, and nothing that a user chooses: `not range(device_count())`."""
    return names_in(ast.parse(text)).difference(dir(builtins)) == {"torch"}


def _self(function: Scope) -> str:
    return function.parameters[0].arg if function.parameters else "self"


def _line(function: Scope) -> int:
    return int(getattr(function.node, "lineno", 1))


def _parameter(script: Script, function: Scope, done: set[ast.Call]) -> Iterator[Found]:
    """The parameter and the arguments, but for calls that gave the accelerator to another function they may go to."""
    calls = _calls(script, function)
    alike = [f for f in script.reach.parameters if script.program.flow.callers.get(f, set()) & set(calls)] or [function]
    place = _place([f.node for f in alike])  # type: ignore[misc]  # functions
    open_calls: dict[ast.Call, str] = {}
    for call in (c for c in calls if c not in done):
        done.add(call)
        given = _given(script, call)
        if given is None:
            message = f"`{function.name}` needs the accelerator, which does not reach this call"
            yield Obstacle(NAME, script.path(call), call, message)
            return
        open_calls[call] = given
    added: tuple[Found, ...] = tuple(_handed(script, function, open_calls, None, place))
    for old in reversed(_replaceable(script, alike)):
        replaced = tuple(_handed(script, function, open_calls, old, place))
        added = (Attempt(replaced, unread=tuple((f, old) for f in alike), otherwise=added),)
    yield from added


def _constructed(script: Script, cls: Scope, calls: Sequence[ast.Call], done: set[ast.Call]) -> Iterator[Found]:
    """A class without a constructor gets one that keeps the accelerator; calls that give it to another have it."""
    keeping = script.access.keeping_edit(cls)
    edits: dict[str, list[Edit]] = {cls.module: [keeping]}
    lines = {cls.module: keeping.node.lineno}
    for call in (c for c in calls if c not in done):
        done.add(call)
        given = _given(script, call)
        if given is None:
            message = f"`{cls.name}` needs the accelerator, which does not reach this call"
            yield Obstacle(NAME, script.path(call), call, message)
            return
        make = partial(with_argument, given=given, name=None, is_first=False)
        lines.setdefault(script.path(call), call.lineno)
        edits.setdefault(script.path(call), []).append(
            Replace(call, make, keeps=(call.func,), reads=(given.split(".")[0],))
        )
    yield from _passed(cls.qualified_name, edits, lines)


def _listed(script: Script) -> Iterator[Change]:
    """`locals()` without the accelerator, which no file of settings takes, in functions that have it as a variable."""
    holding = {f for f in (*script.reach.homes, *script.reach.parameters) if f.kind == "function"}
    name = script.reach.name
    for call in (c for c in script.program.calls if not c.args and script.program.frame(c) in holding):
        if "locals" in script.program.called(call):
            key = snippets.quoted_as(script.program.parsed(call).text, repr(name))
            code = f"{{k: v for k, v in {ast.unparse(call)}.items() if k != {key}}}"
            edit = Replace(call, partial(_just, code=code), keeps=(call,))
            yield Change(NAME, script.path(call), call.lineno, f"`{name}` is no variable of the script's own", (edit,))


def _passed(name: str, edits: dict[str, list[Edit]], lines: dict[str, int]) -> Iterator[Change]:
    for path, listed in edits.items():
        yield Change(NAME, path, lines[path], f"`{name}` is passed the accelerator", tuple(listed))


def _handed(
    script: Script, function: Scope, calls: dict[ast.Call, str], old: str | None, place: Place
) -> Iterator[Change]:
    """A function gets the accelerator, in the place of an old parameter or besides all that it has."""
    node, name = function.node, script.reach.name
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    first = int(function.is_method and not function.is_static)
    position = first if place is Place.FIRST else len(node.args.args)
    added = AddParameter(node, name, position, old)
    edits: dict[str, list[Edit]] = {function.module: [added]}
    if function.name == "__init__" and function.parent in script.reach.holders:
        edits[function.module].append(kept_edit(function, f"{_self(function)}.{name} = {name}"))
    lines = {function.module: _line(function)}
    for call, given in calls.items():
        lines.setdefault(script.path(call), call.lineno)
        edits.setdefault(script.path(call), []).append(_argument(script, call, function, given, old, place))
    yield from _passed(function.qualified_name, edits, lines)


def _given(script: Script, call: ast.Call) -> str | None:
    """The accelerator where a call is made; a constructor that gets it has it as a parameter."""
    frame = script.program.frame(call)
    method = method_of(frame)
    if method is not None and method in script.reach.parameters and node_of(frame).kind == "class":
        return script.reach.name
    return script.accelerator(call)


class Place(Enum):
    """Where a function gets the accelerator: after all that callers pass by position, if it can be."""

    LAST = "last, and so at each call that names no argument"
    LAST_BY_NAME = "last, and by its name at each call, as parameters before it may be left out"
    FIRST = "first, as any number of arguments may follow"


def _place(nodes: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> Place:
    """The place of the accelerator in functions that are called alike."""
    if any(node.args.vararg or node.args.posonlyargs for node in nodes):
        return Place.FIRST
    return Place.LAST_BY_NAME if any(node.args.defaults for node in nodes) else Place.LAST


def _calls(script: Script, function: Scope) -> list[ast.Call]:
    return sorted(script.program.flow.callers.get(function, ()), key=script.program.position)


def _replaceable(script: Script, alike: list[Scope]) -> list[str]:
    """The device parameters that functions which are called alike have, each given at every call and never again."""
    found = [
        [
            p.arg
            for p in function.parameters
            if vocabulary.is_device_option(p.arg)
            and len(function.writes[p.arg]) == 1
            and _is_always_given(script, function, p.arg)
        ]
        for function in alike
    ]
    return [name for name in found[0] if all(name in names for names in found)]


def _is_always_given(script: Script, function: Scope, name: str) -> bool:
    return all(script.tracer.written(c, function, name) is not None for c in _calls(script, function))


def _argument(script: Script, call: ast.Call, function: Scope, given: str, old: str | None, place: Place) -> Edit:
    reads = (given.split(".")[0],)
    if old is None:
        keeps = (call.func, *call.args, *[k.value for k in call.keywords])
        is_open = any(script.tracer.is_handed_over(call, function, p.arg) for p in function.parameters)
        is_named = is_open or bool(call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)
        by_name = place is Place.LAST_BY_NAME or (place is Place.LAST and is_named)
        name = script.reach.name if by_name else None
        make = partial(with_argument, given=given, name=name, is_first=place is Place.FIRST)
        return Replace(call, make, keeps=keeps, reads=reads)
    argument = script.tracer.written(call, function, old)
    assert argument is not None
    keyword = next((k for k in call.keywords if k.value is argument), None)
    if keyword is None:
        return Replace(argument, partial(_just, code=given), reads=reads)
    keeps = (call.func, *call.args, *[k.value for k in call.keywords if k is not keyword])
    return Replace(
        call, partial(renamed_keyword, old=old, name=script.reach.name, given=given), keeps=keeps, reads=reads
    )


def _just(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)


def renamed_keyword(call: cst.CSTNode, old: str, name: str, given: str) -> cst.BaseExpression:
    """`f(accelerator=accelerator)` for `f(device=device)`."""
    assert isinstance(call, cst.Call)
    arguments = [
        a.with_changes(keyword=cst.Name(name), value=cst.parse_expression(given))
        if a.keyword is not None and a.keyword.value == old
        else a
        for a in call.args
    ]
    return call.with_changes(args=arguments)


def with_argument(call: cst.CSTNode, given: str, name: str | None, is_first: bool) -> cst.BaseExpression:
    """The call with the accelerator as its last argument, perhaps by name, or as its first."""
    assert isinstance(call, cst.Call)
    new = cst.Arg(cst.parse_expression(given))
    if name is not None:
        plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        new = new.with_changes(keyword=cst.Name(name), equal=plain)
    if not is_first or not call.args:
        return snippets.with_last(call, new)
    has_lines = isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace)
    comma = snippets.comma_like(call.args[0].comma if has_lines else cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=[new.with_changes(comma=comma), *call.args])
