"""Remove `nn.DataParallel`.

    model = nn.DataParallel(model)    ->    (nothing)
    model.module.state_dict()         ->    model.state_dict()
    next(model.children())            ->    model
    data_parallel(model, x, [0, 1])   ->    model(x)
    {k[7:]: v for k, v in state.items()}    ->    {k.removeprefix("module."): v for k, v in state.items()}
    if torch.cuda.device_count() > 1: ->    state = without_prefix(state)
        model = nn.DataParallel(model)
    else:
        state = without_prefix(state)
    elif torch.cuda.device_count() == 1:    ->    if torch.cuda.device_count() >= 1:

Why: one process per device is faster, and a prepared model needs no wrapper: it keeps its class and its attributes.
What a script does with several GPUs, or where `isinstance(model, nn.DataParallel)` holds, it does no more. A function
that only gives a wrapper another `replicate`, or the like, is not called any more.
Left alone: `.module` of anything that no wrapper was put round, and of a part of a model whose wrapper stays. The
note on the batch size says that keys no longer begin with `module.`; others name files that go on expecting it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import TypeGuard

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import (
    Attempt,
    Change,
    Found,
    Loaded,
    Obstacle,
    Remark,
    Remove,
    Replace,
    Unwrap,
    When,
)
from accelify.codemod.libraries import names
from accelify.codemod.preparing.parallel_wrappers import (
    changes_replicas,
    divided_batches,
    is_for_several_gpus,
    is_only_loaded,
    is_plain_call,
)
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.provenance import Binding, wrapped_by
from accelify.codemod.semantics.scopes import Scope, method_of_call, names_in, returned
from accelify.codemod.semantics.values import Argument, Collection, Element, Instance, Made, Member, Values

NAME = "parallel_wrappers"
_PREFIX = "module."
_PATCHES = (
    "this changed `DataParallel`, which goes, so it is not called any more: if it made BatchNorm layers take the "
    "statistics of all GPUs, `nn.SyncBatchNorm.convert_sync_batchnorm` does so for the processes"
)
_REPLICAS = (
    "this wrapper goes, and what its `replicate` did to the replicas with it: if BatchNorm layers exchanged their "
    "statistics between GPUs so, each process now has its own; for those of all processes, call "
    "`torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)` where it was"
)
_FIRST_PARTS = (
    "next({}.children())",
    "next(iter({}.children()))",
    "list({}.children())[0]",
    "[*{}.children()][0]",
    "{}._modules['module']",
)
_DEPTH = 3  # of functions that return what others have wrapped


def find(script: Script) -> Iterator[Found]:
    """A change for each wrapper and for each `.module`, and a note where a wrapped model was loaded."""
    for call in script.needed_wrappers:
        reason = (
            f"`{ast.unparse(call.func)}` does more than divide batches between GPUs, so it cannot be taken off: move "
            "what it adds into the model, and train that without a wrapper"
        )
        yield Obstacle(NAME, script.path(call), call, reason)
    done: set[ast.stmt] = set()
    for call in script.wrappers:
        statement = script.program.statement(call)
        if statement not in done:
            yield _unwrap(script, call)
        if changes_replicas(script.program, call):
            yield Remark(NAME, script.path(call), call, _REPLICAS, Tier.REVIEW)
        if _is_idle(script, statement):
            done.add(statement)
    yield from _staying(script)
    yield from _calls(script)
    if script.wrappers:
        yield from _choices(script)
        yield from _counts(script)
        yield from _members(script)
        yield from _first_parts(script)
        yield from _loads(script)
        yield from _prefixes(script)
        yield from _saves(script)
        yield from _saved_whole(script)
        yield from _class_names(script)
        yield from _patches(script)


def _staying(script: Script) -> Iterator[Remark]:
    """`DataParallel` round a part of a model that is not trained: each process would compute on all GPUs."""
    for call in script.left_wrapped:
        is_run = script.program.frame(call) in script.run.run and "torch.nn.DataParallel" in script.program.called(call)
        if is_run and not any(k.arg == "device_ids" for k in call.keywords) and len(call.args) == 1:
            message = (
                "this stays: on N GPUs each process divides its batches between all of them, and fails where the model "
                "is not on the first. Take it off (then saved keys go on without `module.`), or pass "
                "`device_ids=[torch.cuda.current_device()]` where there is a GPU"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, When.KEPT)


def _calls(script: Script) -> Iterator[Change]:
    """`data_parallel(model, x)`, which divides the batch of a process between GPUs."""
    for call in divided_batches(script.program):
        if is_plain_call(script.program, call) and script.program.may_run(script.program.frame(call)):
            reason = "each process has one device, which computes on its whole batch"
            yield Change(NAME, script.path(call), call.lineno, reason, (Replace(call, _through_module),))


def _through_module(node: cst.CSTNode) -> cst.BaseExpression:
    """`model(x)` for `data_parallel(model, x, devices)`, and `model(x, y)` for `data_parallel(model, (x, y))`."""
    batch = argument(node, "inputs", 1)
    given = [e.value for e in batch.elements] if isinstance(batch, cst.Tuple) else [batch]
    called = snippets.expression("{model}()", model=argument(node, "module"))
    return called.with_changes(args=[cst.Arg(snippets.bare(g)) for g in given])


def _loads(script: Script) -> Iterator[Remark]:
    """`model.load_state_dict(...)` of a model that was wrapped: what was saved of it then has other keys."""
    saves_inner = any(map(_saves_inner, script.program.calls))  # which has no prefix
    for call in script.program.calls:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != "load_state_dict":
            continue
        ways = _wrapped_on_each_way(script, function.value)
        # Which of its values an attribute holds at that time is not known.
        is_wrapped = bool(ways) and all(ways) if isinstance(function.value, ast.Attribute) else any(ways)
        part = _wrapped_part(script, function.value)
        if saves_inner:
            continue
        if script.program.frame(call) in script.run.run and (is_wrapped or part is not None):
            message = "checkpoints of the wrapped model have the prefix `module.` in each key: strip it before loading"
            strict = next((k.value for k in call.keywords if k.arg == "strict"), (*call.args, None, None)[1])
            is_strict = strict is None or ast.unparse(strict) == "True"
            is_chosen = _takes_what_matches(script, call, function.value)
            if (
                is_wrapped
                and is_strict
                and not is_chosen
                and script.batch_sizes.parallel
                and not _is_of_another(script, function.value)
            ):
                continue  # an error says so, and the note on the batch size
            if not is_wrapped:
                message = (
                    f"in checkpoints of the model whose `{part}` was wrapped, the keys of that go on with `module.`: "
                    "take it out of them before loading"
                )
            if not is_strict:
                message += ", or nothing is loaded and no error is raised, because `strict` is off"
            elif is_chosen:
                message += ", or nothing is loaded and no error is raised, because only keys that match are taken"
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, When.KEPT)


def _takes_what_matches(script: Script, load: ast.Call, model: ast.expr) -> bool:
    """Whether a model is given its own state, in which only what has its keys was replaced by what a file has."""
    if not load.args or not _is_state_of(script, load.args[0], model):
        return False
    frame = script.program.frame(load)
    tests = (n for s in frame.body for n in ast.walk(s) if isinstance(n, ast.Compare) and isinstance(n.left, ast.Name))
    holders = (t.comparators[0] for t in tests if isinstance(t.ops[0], (ast.In, ast.NotIn)))
    return any(_is_state_of(script, h, model) or _goes_over_saved(script, h) for h in holders)


def _is_state_of(script: Script, node: ast.expr, model: ast.expr) -> bool:
    """Whether an expression is always `model.state_dict()`, or the keys of that."""
    if method_of_call(node) == "keys":
        node = node.func.value  # type: ignore[attr-defined]  # a method is called
    values = [chain[-1].value for chain in script.tracer.chains(node)]
    read = [v.func for v in values if isinstance(v, ast.Call) and isinstance(v.func, ast.Attribute)]
    are_states = bool(read) and len(read) == len(values)
    return are_states and all(f.attr == "state_dict" and _same(f.value, model) for f in read)


def _is_of_another(script: Script, model: ast.expr) -> bool:
    """Whether a model may be in the wrapper of one that is not trained, as a teacher: it is never saved without."""
    values = (_value(script, b) for chain in script.tracer.chains(model) for b in chain)
    nodes = {n for value in values if value is not None for n in ast.walk(value)}
    held = (script.program.values(w) for w in script.wrappers if w in nodes)
    return any(found and found.isdisjoint(script.preparation.models) for found in held)


def _saves_inner(node: ast.AST, model: ast.expr | None = None) -> bool:
    """`model.module.state_dict()`, of any model if none is given."""
    method = node.func if isinstance(node, ast.Call) else None
    if (
        not isinstance(method, ast.Attribute)
        or method.attr != "state_dict"
        or not isinstance(method.value, ast.Attribute)
    ):
        return False
    inner = method.value
    return inner.attr == "module" and (model is None or ast.unparse(inner.value) == ast.unparse(model))


def _prefixes(script: Script) -> Iterator[Change]:
    """`{k[7:]: v for k, v in state.items()}` takes off what the keys no longer begin with."""
    for path in sorted(script.files):
        for node in script.program.flow.parsed_of[path].nodes:
            if _takes_off_prefix(node, script):
                reason = "the keys saved now have no prefix `module.`"
                yield Change(NAME, path, node.lineno, reason, (Replace(node, _without_prefix),))


def _takes_off_prefix(node: ast.AST, script: Script) -> TypeGuard[ast.Subscript]:
    """Whether a part is taken from the key of what was saved: all that follows `module.`, which is not asked for."""
    if (
        not isinstance(node, ast.Subscript)
        or not isinstance(node.slice, ast.Slice)
        or not isinstance(node.value, ast.Name)
    ):
        return False
    part = node.slice
    starts = part.lower is not None and ast.unparse(part.lower) in (str(len(_PREFIX)), f"len({_PREFIX!r})")
    name = node.value.id
    around = list(script.program.ancestors(node))
    asked = any(isinstance(a, (ast.If, ast.IfExp)) and _PREFIX.rstrip(".") in ast.unparse(a.test) for a in around)
    loops = [g for a in around for g in getattr(a, "generators", [a] if isinstance(a, ast.For) else [])]
    is_key = any(_names_key(loop.target, name) and _goes_over_saved(script, loop.iter) for loop in loops)
    return starts and part.upper is None and part.step is None and is_key and not asked


def _names_key(target: ast.expr, name: str) -> bool:
    """Whether a loop over a dictionary gives its keys a name."""
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
    return isinstance(first, ast.Name) and first.id == name


def _goes_over_saved(script: Script, node: ast.expr) -> bool:
    """Whether a loop iterates over the items or keys of (a part of) what `torch.load` gave."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys"):
        node = node.func.value
    found = set(script.program.values(node))
    while owners := {v.owner for v in found if isinstance(v, (Element, Member))}:
        found = {v for v in found if not isinstance(v, (Element, Member))} | owners
    return any(isinstance(v, Made) and v.name == "torch.load" for v in found)


def _without_prefix(node: cst.CSTNode) -> cst.BaseExpression:
    """`k.removeprefix("module.")` for `k[7:]`."""
    assert isinstance(node, cst.Subscript)
    return snippets.expression('{key}.removeprefix("module.")', key=node.value)


def _saves(script: Script) -> Iterator[Remark]:
    """`torch.save(model.state_dict(), path)` of a model that was wrapped: its keys become others."""
    message = (
        "the keys saved here no longer have the prefix `module.` that `DataParallel` added: load them into a "
        "model without a wrapper"
    )
    for call in script.program.calls if script.written.saves else ():
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != "state_dict":
            continue
        around = [a for a in script.program.ancestors(call) if isinstance(a, (ast.Call, ast.IfExp))]
        is_kept = any(isinstance(a, ast.IfExp) or getattr(a.func, "attr", "") == "load_state_dict" for a in around)
        choices = [a for a in script.program.ancestors(call) if isinstance(a, (ast.If, ast.Try))]
        is_kept |= _saves_inner(call) or any(_saves_inner(n, function.value) for a in choices for n in ast.walk(a))
        if not is_kept and (_is_wrapped(script, function.value) or _is_of_wrapped(script, function.value)):
            loaded = Loaded.WRAPPED if script.batch_sizes.parallel else None  # else the batch size has no word on it
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, loaded=loaded)
        elif not is_kept and (part := _wrapped_part(script, function.value)) is not None:
            of_part = (
                f"the keys of `{part}` that are saved here no longer go on with the `module.` that `DataParallel` "
                "added: load them into a model without a wrapper there"
            )
            yield Remark(NAME, script.path(call), call, of_part, Tier.REVIEW)


def _saved_whole(script: Script) -> Iterator[Remark]:
    """`torch.save(model, path)` of a model that was wrapped: what is loaded has no `module`."""
    message = (
        "the model saved here was in a `DataParallel`, and is not any more: code that loads it and takes its `.module` "
        "has to take the model itself"
    )
    for save in script.written.saves:
        if any(_is_module(script, n) and _is_wrapped(script, n) for n in _saved_parts(script, save.call)):
            yield Remark(NAME, script.path(save.call), save.call, message, Tier.REVIEW)


def _saved_parts(script: Script, save: ast.Call) -> Iterator[ast.expr]:
    """What is saved, and what is in it, if that is a dict."""
    given = save.args[:1] or [k.value for k in save.keywords if k.arg == "obj"]
    dicts = (v.node for g in given for v in script.program.values(g) if isinstance(v, Collection))
    yield from given
    yield from (value for d in dicts if isinstance(d, ast.Dict) for value in d.values)


def _is_module(script: Script, node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and any(map(script.roles.is_module, script.program.values(node)))


def _wrapped_part(script: Script, model: ast.expr) -> str | None:
    """The part of a model round which a wrapper was put before, as in `net.features = DataParallel(net.features)`."""
    program, held = script.program, script.program.values(model)
    for call in script.wrappers if not any(map(script.roles.is_optimizer, held)) else ():
        statement = program.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        is_here = program.frame(statement) is program.frame(model)
        for target in targets if not is_here or program.is_after(model, statement) else ():
            part = target
            while isinstance(part, (ast.Attribute, ast.Subscript)):
                part = part.value
                is_other = is_here and not _same(part, model)  # maybe of the same class
                if not held.isdisjoint(program.values(part)) and not is_other:
                    return ast.unparse(target).removeprefix(f"{ast.unparse(part)}.")
    return None


def _is_of_wrapped(script: Script, model: ast.expr) -> bool:
    """Whether a loop takes a model from a container, into which the script puts a wrapped one."""
    frame, callers = script.program.frame(model), script.program.flow.callers
    iterables = [loop.iter for loop in _loops_round(script, model) if ast.unparse(model) in names_in(loop.target)]
    is_model = any(map(script.roles.is_module, script.program.values(model)))
    if not iterables or not (is_model or all(isinstance(v, Element) for v in script.program.values(model))):
        return False
    entered = frame.parent.children if frame.is_method and frame.parent is not None else [frame]
    calls = [c for function in entered for c in callers.get(function, ())]
    given = [a for c in calls for a in (*c.args, *(k.value for k in c.keywords))]
    return any(_is_wrapped(script, n) for source in (*iterables, *given) for n in _named(script, source))


def _loops_round(script: Script, node: ast.AST) -> Iterator[ast.For | ast.comprehension]:
    for around in script.program.ancestors(node):
        yield from getattr(around, "generators", [around] if isinstance(around, ast.For) else [])


def _named(script: Script, container: ast.expr, depth: int = 2) -> Iterator[ast.expr]:
    """The names in an expression, and in what these hold; not `net` of `net.module`."""
    for node in ast.walk(container):
        is_whole = not isinstance(script.program.parent(node), ast.Attribute)
        if isinstance(node, (ast.Name, ast.Attribute)) and is_whole:
            yield node
            held = (b.value for chain in script.tracer.chains(node) for b in chain) if depth else ()
            yield from (n for value in held if value is not None for n in _named(script, value, depth - 1))


def _class_names(script: Script) -> Iterator[Remark]:
    """`model.__class__.__name__` of a model that was wrapped."""
    message = "this was the name of the wrapper, and is now that of the model's own class: paths made of it change"
    for node in (n for parsed in script.program.files for n in parsed.nodes):
        model = _whose_class_name(node)
        if model is None or any(_is_said(script, a) for a in script.program.ancestors(node)):
            continue
        if _is_only_asked(script, node):
            continue
        if script.program.frame(model) in script.run.run and _is_wrapped(script, model):
            yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _is_only_asked(script: Script, name: ast.AST) -> bool:
    """Whether a text is only compared or searched, here or by the variable that holds it: `name.find("Conv") != -1`."""
    parent = script.program.parent(name)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if not isinstance(target, ast.Name):
        return _is_asked(script, name)
    owner = script.program.scope(target).owner(target.id)
    if owner is None or owner.kind != "function":
        return False
    scopes = [s for s in owner.walk() if s.owner(target.id) is owner]
    reads = [read for s in scopes for read in s.reads.get(target.id, ())]
    return all(_is_asked(script, read) for read in reads)


def _is_asked(script: Script, text: ast.AST) -> bool:
    """Whether an expression is compared, or its method decides: `if name.lower().startswith("conv")`."""
    parent = script.program.parent(text)
    while isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is text):
        text, parent = parent, script.program.parent(parent)
    while isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        text, parent = parent, script.program.parent(parent)
    return isinstance(parent, ast.Compare) or getattr(parent, "test", None) is text


def _is_said(script: Script, node: ast.AST) -> bool:
    """Whether what is in a node is only an error's or printed text."""
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Call) and any(map(names.says, script.program.called(node)))
    )


def _whose_class_name(node: ast.AST) -> ast.expr | None:
    """`x` of `x.__class__.__name__` and `type(x).__name__`"""
    cls = node.value if isinstance(node, ast.Attribute) and node.attr == "__name__" else None
    if isinstance(cls, ast.Attribute) and cls.attr == "__class__":
        return cls.value
    is_type = isinstance(cls, ast.Call) and len(cls.args) == 1 and ast.unparse(cls.func) == "type"
    return cls.args[0] if is_type else None  # type: ignore[union-attr]  # a call


def _is_wrapped(script: Script, model: ast.expr) -> bool:
    """Whether a model was in a wrapper where it is read; `raw = model.module` is not."""
    return any(_wrapped_on_each_way(script, model))


def _wrapped_on_each_way(
    script: Script, model: ast.expr, depth: int = _DEPTH, known: dict[tuple[ast.AST, int], bool] | None = None
) -> list[bool]:
    """The same, for each of the ways by which the model gets there, through functions that return it, too.

    `known`: what has been found of calls so far, as many ways lead through the same.
    """
    known = {} if known is None else known
    chains = (
        [model, *(v for b in chain if (v := _value(script, b)) is not None)] for chain in script.tracer.chains(model)
    )
    parts = ([n for value in chain for n in ast.walk(value)] for chain in chains)
    is_taken_out = _is_taken_out(script, model)
    return [
        not is_taken_out
        and (any(n in script.wrappers for n in nodes) or any(_returns_wrapped(script, n, depth, known) for n in nodes))
        and not any(getattr(n, "attr", "") == "module" for n in nodes)
        for nodes in parts
    ]


def _is_taken_out(script: Script, model: ast.expr) -> bool:
    """Whether a model that is in a wrapper is taken out of it: `if isinstance(m, DataParallel): m = m.module`."""
    targets = [d.node for d in script.program.definitions(model).definitions(model)]
    values = [script.program.parent(target) for target in targets]
    assigned = [v.value for v in values if isinstance(v, ast.Assign)]
    members = [v for v in assigned if isinstance(v, ast.Attribute) and v.attr == "module"]
    return any(ast.unparse(member.value) == ast.unparse(model) for member in members)


def _value(script: Script, binding: Binding) -> ast.expr | None:
    """The value that is bound, given to a parameter, or taken apart: `model, device = build()`."""
    if binding.call is not None:
        return script.tracer.argument(binding.call, binding.scope, binding.text)
    if binding.value is not None or binding.kind != "assign":
        return binding.value
    value = getattr(binding.statement, "value", None)
    return value if isinstance(value, ast.Call) else None


def _returns_wrapped(script: Script, call: ast.AST, depth: int, known: dict[tuple[ast.AST, int], bool]) -> bool:
    """Whether a function that is called returns a model that it, or a function that it calls, has wrapped."""
    if (call, depth) in known:
        return known[call, depth]
    callees = script.program.flow.callees.get(call, ()) if depth and isinstance(call, ast.Call) else ()
    given = returned(c for c in callees if c.kind == "function" and not c.is_method)
    parts = [part for g in given for part in (g.elts if isinstance(g, ast.Tuple) else [g]) if part is not None]
    models = [p for p in parts if any(map(script.roles.is_module, script.program.values(p)))]
    known[call, depth] = any(any(_wrapped_on_each_way(script, m, depth - 1, known)) for m in models)
    return known[call, depth]


def _unwrap(script: Script, call: ast.Call) -> Change | Attempt:
    statement, path = script.program.statement(call), script.path(call)
    reason = "with one process per device, the model needs no wrapper"
    model = wrapped_by(call)
    assert model is not None
    make = partial(argument, name=next((k.arg for k in call.keywords if k.value is model), None))
    unwrapped = Change(NAME, path, call.lineno, reason, (Replace(call, make, keeps=(model,)),))
    if not _is_idle(script, statement):
        return unwrapped
    taken_out = Change(NAME, path, call.lineno, reason, (Remove(statement),))
    moves = any(
        script.devices.is_needless(m) and script.program.inside(m.call, statement) for m in script.devices.moves
    )
    return Attempt((taken_out,), otherwise=(unwrapped,)) if moves else taken_out


def _is_idle(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement only put wrappers round what it assigns: `model = DataParallel(model)`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return _same(target, _inside(script, value))
    return all(_same(t, _inside(script, v)) for t, v in zip(target.elts, value.elts, strict=True))


def _inside(script: Script, node: ast.expr) -> ast.expr:
    """An expression without its wrappers and needless moves."""
    needless = {m.call: m.receiver for m in script.devices.moves if script.devices.is_needless(m)}
    while isinstance(node, ast.Call):
        if node in script.wrappers and (model := wrapped_by(node)) is not None:
            node = model
        elif node in needless:
            node = needless[node]
        else:
            break
    return node


def argument(call: cst.CSTNode, name: str | None, index: int = 0) -> cst.BaseExpression:
    """`model` for `DataParallel(model, ...)`, or for `DataParallel(module=model)`."""
    assert isinstance(call, cst.Call)
    named = [a for a in call.args if name is not None and a.keyword is not None and a.keyword.value == name]
    return (named or call.args[index:])[0].value


def _members(script: Script) -> Iterator[Change]:
    for node in list(script.program.flow.values):
        if not isinstance(node, ast.Attribute) or node.attr != "module" or not isinstance(node.ctx, ast.Load):
            continue
        is_run = script.path(node) in script.files or script.program.frame(node) in script.run.run
        is_left = _is_left_wrapped(script, node.value) or _is_in_a_wrapper(script, node)
        is_left = is_left or is_only_loaded(script.program, node.value)
        if is_run and _may_be_wrapped(script, node.value) and not is_left:
            statement, choice = script.program.parent(node), _choice(script, node)
            edit: Replace | Remove = Replace(node, inner, (node.value,))
            if isinstance(statement, ast.Assign) and all(_same(t, node.value) for t in statement.targets):
                edit = Remove(statement)
            elif choice is not None:
                edit = Replace(choice, partial(snippets.chosen, is_body=False), (choice.orelse,))
            reason = "`prepare` adds no wrapper: there is no `.module`"
            yield Change(NAME, script.path(node), node.lineno, reason, (edit,))


def _first_parts(script: Script) -> Iterator[Change]:
    """`next(model.children())` of a model that is always wrapped is the model."""
    nodes = [n for n in script.program.flow.values if isinstance(n, (ast.Call, ast.Subscript))]
    for node, model in ((n, m) for n in nodes if (m := _first_part_of(n)) is not None):
        is_run = script.program.frame(node) in script.run.run and not _is_left_wrapped(script, model)
        if is_run and (ways := _wrapped_on_each_way(script, model)) and all(ways):
            edit = Replace(node, partial(snippets.coded, code=ast.unparse(model)), keeps=(model,))
            yield Change(NAME, script.path(node), node.lineno, "`prepare` adds no wrapper round the model", (edit,))


def _first_part_of(node: ast.Call | ast.Subscript) -> ast.expr | None:
    """`model` of `next(model.children())`, `list(model.children())[0]` and `model._modules["module"]`."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    holders = [c.func.value for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "children"]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "_modules":
        holders = [node.value.value]
    ways = {way.format(ast.unparse(h)) for h in holders[:1] for way in _FIRST_PARTS}
    return holders[0] if ways and ast.unparse(node) in ways else None


def _choices(script: Script) -> Iterator[Found]:
    """The branches that wrap a model are removed, and the question, too."""
    reason = "no model is wrapped any more"
    for node, is_body in script.unwrapped.items():
        if not script.changes_nothing(node.test):
            continue
        edit: Replace | Remove | Unwrap
        if isinstance(node, ast.If) and not is_body and _goes_on_with_elif(script, node):
            unclear = "without `DataParallel`, it depends on this `elif` what is done: write `else:` for a single GPU"
            yield Obstacle(NAME, script.path(node), node.orelse[0], unclear)
            return
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.BoolOp):
            message = "no model is wrapped any more, so this fails: do not ask for `DataParallel` here"
            yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)
            continue
        if isinstance(node, ast.IfExp):
            kept = node.body if is_body else node.orelse
            edit = Replace(node, partial(snippets.chosen, is_body=is_body), (kept,))
        elif isinstance(node, ast.If) and (is_body or node.orelse):
            edit = Unwrap(node, is_body)
        else:
            edit = Remove(node)
        yield Change(NAME, script.path(node), node.lineno, reason, (edit,))


def _counts(script: Script) -> Iterator[Change]:
    """`device_count() == 1` becomes `device_count() >= 1`: no process uses more than one."""
    reason = "each process has one GPU, of however many the machine has"
    for test in (n for n, is_met in script.for_one_gpu.items() if is_met and script.path(n) in script.files):
        yield Change(
            NAME, script.path(test), test.lineno, reason, (Replace(test, _at_least, keeps=(test.left,)),), Tier.REVIEW
        )


def _at_least(node: cst.CSTNode) -> cst.BaseExpression:
    """`n >= 1` for `n == 1`."""
    assert isinstance(node, cst.Comparison)
    return node.with_changes(comparisons=[node.comparisons[0].with_changes(operator=cst.GreaterThanEqual())])


def _patches(script: Script) -> Iterator[Change | Remark | Obstacle]:
    """What uses the wrapper's own methods goes with it, where it does nothing else: `patch(model)`."""
    nodes = [n for n in list(script.program.flow.values) if _asks_the_wrapper(script, n)]
    found = [n for n in nodes if not _is_gone(script, n)]
    for node in {script.program.frame(n): n for n in reversed(found)}.values():
        frame = script.program.frame(node)
        calls = script.program.calls_of(frame)
        left = [c for c in calls if not _is_gone(script, c)]
        only_patches = bool(calls) and _only_patches(frame)
        if (left or not calls) and not (only_patches and all(_is_statement(script, c) for c in left)):
            reason = f"`{ast.unparse(node)}` is a method of `DataParallel`, which goes: take out what uses it"
            yield Obstacle(NAME, script.path(node), node, reason)
            continue
        for call in left:
            reason = "this only changes how `DataParallel` uses several GPUs, and there is none any more"
            yield Change(NAME, script.path(call), call.lineno, reason, (Remove(script.program.statement(call)),))
        if only_patches:
            yield Remark(NAME, script.path(node), frame.node, _PATCHES, Tier.REVIEW)


def _asks_the_wrapper(script: Script, node: ast.AST) -> TypeGuard[ast.Attribute]:
    """`model.replicate` of a model that was wrapped, and that has no such method itself."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or not is_for_several_gpus(node.attr):
        return False
    held, frame = script.program.values(node.value), script.program.frame(node)
    wrapped = {v for call in script.wrappers for v in script.program.values(wrapped_by(call))}
    is_own = _is_in_a_wrapper(script, node) or _has_its_own(script, held, node.attr)
    return frame in script.run.run and not held.isdisjoint(wrapped) and not is_own


def _is_gone(script: Script, node: ast.AST) -> bool:
    """Whether a place is in a branch that is none any more."""
    return any(script.unwrapped.get(b, is_body) is not is_body for b, is_body in script.program.branches_round(node))


def _only_patches(function: Scope) -> bool:
    """Whether a function does nothing but give what it is given other methods for several GPUs."""
    assigned = [s for s in function.body if isinstance(s, ast.Assign)]
    targets = [t for s in assigned for t in s.targets]
    calls = any(isinstance(n, ast.Call) for s in assigned for n in ast.walk(s.value))
    is_plain = all(isinstance(s, (ast.Assert, ast.FunctionDef, ast.Assign)) or _is_text(s) for s in function.body)
    are_local = all(isinstance(t, ast.Name) or is_for_several_gpus(getattr(t, "attr", "")) for t in targets)
    return function.kind == "function" and is_plain and are_local and not calls


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_statement(script: Script, call: ast.Call) -> bool:
    """Whether a call is a statement, and its arguments are read for nothing else."""
    given = [*call.args, *(k.value for k in call.keywords)]
    return isinstance(script.program.parent(call), ast.Expr) and all(map(script.changes_nothing, given))


def _goes_on_with_elif(script: Script, node: ast.If) -> bool:
    """Whether a condition has an `elif` that asks for a number of GPUs which is not clear to be that of a process."""
    branch = node.orelse[0] if len(node.orelse) == 1 else None
    asked = ast.walk(branch.test) if isinstance(branch, ast.If) and branch.col_offset == node.col_offset else ()
    return any(script.for_one_gpu.get(n) is False for n in asked if isinstance(n, ast.Compare))


def _is_left_wrapped(script: Script, node: ast.expr) -> bool:
    """Whether a wrapper that stays, in the same file, is round what a node holds."""
    near = (w for w in script.left_wrapped if script.path(w) == script.path(node))
    return any(not script.program.values(node).isdisjoint(script.program.values(wrapped_by(w))) for w in near)


def _is_in_a_wrapper(script: Script, node: ast.Attribute) -> bool:
    """Whether a class of the project's own, derived from a wrapper, asks for what it holds itself."""
    cls = script.program.frame(node).parent
    bases = script.program.flow.external_bases(cls) if cls is not None and cls.kind == "class" else ()
    return any(map(names.is_wrapper, bases))


def _choice(script: Script, node: ast.Attribute) -> ast.IfExp | None:
    """`model.module.state_dict() if several else model.state_dict()`, whose branches become the same."""
    for choice in script.program.ancestors(node):
        if isinstance(choice, ast.stmt):
            return None
        if isinstance(choice, ast.IfExp) and choice not in script.unwrapped:
            unwrapped = ast.unparse(choice.body).replace(ast.unparse(node), ast.unparse(node.value))
            is_inside = script.program.inside(node, choice.body) and script.changes_nothing(choice.test)
            return choice if is_inside and unwrapped == ast.unparse(choice.orelse) else None
    return None


def _same(left: ast.expr, right: ast.expr) -> bool:
    return ast.unparse(left) == ast.unparse(right)


def _may_be_wrapped(script: Script, node: ast.expr) -> bool:
    """Whether a value is a model, or unknown but for a `module` that no class of the project gives it."""
    values = script.program.values(node)
    if _has_its_own(script, values, "module"):
        return False
    if any(script.roles.is_model(v) for v in values):
        return True
    unknown = all(isinstance(v, (Made, Member, Argument)) for v in values)
    return unknown and not script.program.attribute_writes.get("module")


def _has_its_own(script: Script, values: Values, name: str) -> bool:
    """Whether a class of the project's own says itself what `module`, or another member of a wrapper, is."""
    classes = {v.cls for v in values if isinstance(v, Instance)}
    family = {relative for cls in classes for relative in (cls, *script.program.flow.ancestors(cls))}
    written = {script.program.frame(write).parent for write in script.program.attribute_writes.get(name, ())}
    return any(cls in written or name in cls.writes for cls in family)


def inner(node: cst.CSTNode) -> cst.BaseExpression:
    """`model` for `model.module`."""
    assert isinstance(node, cst.Attribute)
    return node.value
