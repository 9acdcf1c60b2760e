"""Create the accelerator, and hand it to the functions and classes that need it.

    accelerator = Accelerator()

Why: at module level when the script's set-up is there; at the top of the function that does the set-up otherwise, so
that importing the file starts nothing. A `device` parameter whose uses are all gone becomes `accelerator`, at the
definition and at every call; else a parameter is added. A class that owns its loop keeps `self.accelerator`.
Left alone: functions that are handed on as values: their callers are not known, so the file is declined.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import AddParameter, Change, Edit, Insert, Obstacle, Plan, Replace
from accelify.codemod.preparing.placing import body_start, import_block, import_edit
from accelify.codemod.preparing.reach import method_of, node_of
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.used_names import vanished

NAME = "accelerator"
_FIRST = -1  # before whatever else is inserted at the same place


def find(script: Script, plan: Plan) -> Iterator[Change | Obstacle]:
    """The lines that create it, the imports, the parameters and the arguments."""
    imported: set[str] = set()
    for home in script.reach.homes:
        if home.module not in imported:
            imported.add(home.module)
            yield from _import(script, home)
        yield from _create(script, home)
    waiting = list(dict.fromkeys(script.reach.parameters))
    given: set[ast.Call] = set()
    while waiting:  # a parameter may become free once the functions that it was handed to have lost theirs
        free = next((f for f in waiting if _replaceable(script, f, plan) is not None), waiting[0])
        waiting.remove(free)
        yield from _parameter(script, free, plan, given)


def _import(script: Script, home: Scope) -> Iterator[Change | Obstacle]:
    root = home.root
    runtime = script.options.runtime
    names = ("Accelerator", *(runtime.names_for_sharing if script.options.keep_global_batch else ()))
    for taken in (n for n in names if n in root.writes):
        yield Obstacle(NAME, root.module, root.node, f"the name `{taken}` is taken")
        return
    edit = import_edit(script, root, f"from {runtime.module} import {', '.join(names)}")
    yield Change(NAME, root.module, edit.node.lineno, "the runtime that the script runs on", (edit,))


def _create(script: Script, home: Scope) -> Iterator[Change]:
    name = script.reach.name
    reason = "one accelerator for the whole run"
    after = script.created_after
    if after is not None:
        owner = f"{_self(script.program.frame(after))}." if home.kind == "class" else ""
        code = f"{owner}{name} = {_call(script)}"
        yield Change(NAME, home.module, after.end_lineno or after.lineno, reason, (Insert(after, "after", code),))
    elif home.kind == "module":
        guard = script.reach.guarded.get(home)
        block = import_block(script, home)
        if guard is not None:
            insert = Insert(guard.body[0], "before", f"{name} = {_call(script)}", order=_FIRST)
        elif block:
            insert = Insert(block[-1], "after", f"{name} = {_call(script)}", gap=1, order=2)
        else:
            insert = Insert(body_start(home.body), "before", f"{name} = {_call(script)}", gap=1, order=2)
        yield Change(NAME, home.module, insert.node.lineno, reason, (insert,))
    elif home.kind == "class":
        init = script.program.flow.method(home, "__init__") or script.program.flow.method(home, "__post_init__")
        assert init is not None
        yield Change(NAME, home.module, _line(init), reason, (_kept(init, f"{_self(init)}.{name} = {_call(script)}"),))
    else:
        first = body_start(home.body)
        insert = Insert(first, "before", f"{name} = {_call(script)}", order=_FIRST)
        yield Change(NAME, home.module, first.lineno, reason, (insert,))


def _call(script: Script) -> str:
    settings = [script.options.runtime.sharing] if script.options.keep_global_batch else []
    if script.cpu is not None:
        source = script.program.flow.parsed_of[script.reach.homes[0].module].text
        settings.append(f"cpu={snippets.quoted_as(source, script.cpu.text)}")
    if script.precision is not None and script.precision.is_taken_over:
        settings.append(f"mixed_precision={script.precision.code}")
    return snippets.call_statement("", "Accelerator", ", ".join(settings), len("accelerator = "))


def _kept(init: Scope, code: str) -> Insert:
    """A line at the start of a constructor, after the call of the base class's."""
    first = body_start(init.body)
    is_super = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and ast.unparse(first.value.func).endswith("__init__")
    )
    return Insert(first, "after" if is_super else "before", code, order=_FIRST)


def _self(function: Scope) -> str:
    return function.parameters[0].arg if function.parameters else "self"


def _line(function: Scope) -> int:
    return int(getattr(function.node, "lineno", 1))


def _parameter(script: Script, function: Scope, plan: Plan, done: set[ast.Call]) -> Iterator[Change | Obstacle]:
    """The parameter and the arguments, but for calls that gave the accelerator to another function they may go to."""
    node = function.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    name = script.reach.name
    calls = _calls(script, function)
    alike = [f for f in script.reach.parameters if script.program.flow.callers.get(f, set()) & set(calls)]
    replaced = {_replaceable(script, f, plan) for f in alike or [function]}
    old = replaced.pop() if len(replaced) == 1 else None
    at_end = all(_goes_last(f.node, _calls(script, f)) for f in alike or [function])  # type: ignore[arg-type]  # functions
    position = len(node.args.args) if at_end else int(function.is_method and not function.has_decorator("staticmethod"))
    edits: dict[str, list[Edit]] = {function.module: [AddParameter(node, name, position, old)]}
    if function.name == "__init__" and function.parent in script.reach.holders:
        edits[function.module].append(_kept(function, f"{_self(function)}.{name} = {name}"))
    for call in (c for c in calls if c not in done):
        done.add(call)
        given = _given(script, call)
        if given is None:
            yield Obstacle(
                NAME,
                script.path(call),
                call,
                f"`{function.name}` needs the accelerator, which does not reach this call",
            )
            return
        edits.setdefault(script.path(call), []).append(_argument(script, call, function, given, old, at_end))
    for path, listed in edits.items():
        yield Change(
            NAME,
            path,
            _line(function) if path == function.module else 1,
            f"`{function.name}` gets the accelerator",
            tuple(listed),
        )


def _given(script: Script, call: ast.Call) -> str | None:
    """The accelerator where a call is made; a constructor that gets it has it as a parameter."""
    frame = script.program.frame(call)
    method = method_of(frame)
    if method is not None and method in script.reach.parameters and node_of(frame).kind == "class":
        return script.reach.name
    return script.accelerator(call)


def _goes_last(node: ast.FunctionDef | ast.AsyncFunctionDef, calls: list[ast.Call]) -> bool:
    """Whether the accelerator can be the last positional argument at the definition and at every call."""
    arguments = node.args
    if arguments.defaults or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        return False
    return all(not c.keywords and not any(isinstance(a, ast.Starred) for a in c.args) for c in calls)


def _calls(script: Script, function: Scope) -> list[ast.Call]:
    return sorted(script.program.flow.callers.get(function, ()), key=lambda c: (script.path(c), c.lineno))


def _replaceable(script: Script, function: Scope, plan: Plan) -> str | None:
    """A device parameter that nothing in the function reads any more."""
    calls = _calls(script, function)
    named = [p for p in function.parameters if p.arg in ("device", "dev", "use_cuda", "cuda", "gpu")]
    if not named or any(script.is_kept(c) for c in calls):
        return None
    gone = vanished(plan.changes)
    for parameter in named:
        reads = [n for s in function.walk() for n in s.reads.get(parameter.arg, ())]
        if not reads or any(n not in gone for n in reads) or len(function.writes[parameter.arg]) > 1:
            continue
        if all(script.tracer.argument(c, function, parameter.arg) is not None for c in calls):
            return parameter.arg
    return None


def _argument(script: Script, call: ast.Call, function: Scope, given: str, old: str | None, at_end: bool) -> Edit:
    reads = (given.split(".")[0],)
    if old is None:
        keeps = (call.func, *call.args, *[k.value for k in call.keywords])
        return Replace(call, partial(with_argument, given=given, at_end=at_end), keeps=keeps, reads=reads)
    argument = script.tracer.argument(call, function, old)
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


def with_argument(call: cst.CSTNode, given: str, at_end: bool) -> cst.BaseExpression:
    """The call with the accelerator as its last argument, or as its first."""
    assert isinstance(call, cst.Call)
    new = cst.Arg(cst.parse_expression(given))
    if at_end or not call.args:
        return call.with_changes(args=snippets.with_last(call.args, new))
    has_lines = isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace)
    comma = snippets.comma_like(call.args[0].comma if has_lines else cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=[new.with_changes(comma=comma), *call.args])
