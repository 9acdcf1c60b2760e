"""Save from one process, completely or not at all.

    torch.save(model.state_dict(), path)    ->    accelerator.save(model.state_dict(), path)

Why: N processes that write one file at once damage it; a run that is stopped while it writes leaves half of it.
Where the accelerator does not reach, as in an imported file's `EarlyStopping`, the function `accelify.runtime.save`
does the same. Of a name that each process makes from its own data, a note says that only the main process's file is
there. A process that loads what may have been saved before waits first, or behind the save where one
statement does both: `torch.load(save(path))`. Where the accelerator does not reach what loads it, the training waits
after the save.
Left alone: what is saved before the accelerator is there, and to a file that all processes have opened; a note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.host_reads import HostReads
from accelify.codemod.distributed.findings import Guards
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Insert, Loaded, Obstacle, Remark, Replace
from accelify.codemod.files.nodes import walk
from accelify.codemod.files_written.facts import Save
from accelify.codemod.files_written.loads import (
    is_loaded_later,
    leads_to,
    may_be_of,
    waits_as_well,
)
from accelify.codemod.files_written.meetings import MAY_NOT_BE_DONE, unmet
from accelify.codemod.files_written.own_paths import is_named_apart, named_apart
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.table import is_kind
from accelify.codemod.metrics.decisions import decided_apart, decided_together
from accelify.codemod.preparing.saved_objects import saved_whole
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope, method_of_call
from accelify.codemod.semantics.values import Element, Made, Member, Value, Values
from accelify.codemod.training.certainty import asks_for_one

NAME = "checkpoints"
OPTIONAL = True


def find(script: Script) -> Iterator[Change | Remark | Obstacle]:
    """A change for each `torch.save`, and for each load of what was saved."""
    guarding = script.written.guarding
    for save in script.written.saves:
        is_found = guarding.cached.holds(save.call) and not guarding.cached.is_made_anew(save.call)
        if save.call in guarding.covered or is_found:
            continue
        if _has_options(save.call) and not script.options.runtime.has("save_options"):
            message = "Accelerate's `save` takes none of these options of `torch.save`"
            yield Obstacle(NAME, script.path(save.call), save.call, message)
        elif save.saver is not None:
            yield _saved(script, save.call, save.saver)
        else:
            is_told = save.is_open and not script.is_by_hand  # by rule `writes`, which tells who is to open it
            if not is_told and not _is_saved_by_one(script, save.call):
                message = "every process writes this file: save it from the main process only"
                yield Remark(NAME, script.path(save.call), save.call, message, Tier.ADVICE)
    if script.devices.is_unnamed:
        for save in (s for s in script.written.saves if not _is_on_host(script, s.call)):
            message = (
                'on a GPU this is saved with GPU tensors: to load it on another machine, pass `map_location="cpu"`'
            )
            yield Remark(NAME, script.path(save.call), save.call, message, Tier.REVIEW, loaded=Loaded.WHERE_SAVED)
    if not script.is_by_hand:
        yield from _loaded_where_saved(script)
    yield from _saved_with_accelerator(script)
    made = [s.call for s in script.written.saves if _is_made(script, s) or s.call in guarding.covered]
    waits = list(_waits(script, [call for call in made if not guarding.cached.holds(call)]))
    yield from waits
    yield from _waits_apart(script, waits)


def _saved_with_accelerator(script: Script) -> Iterator[Remark]:
    """A note for each file that gets a whole object which keeps the accelerator."""
    reach = script.access.reach
    keeping = {*reach.holders, *reach.constructed, *(h for h in reach.homes if h.kind == "class")}
    keeping |= {cls for holder in keeping for cls in script.program.flow.descendants(holder)}
    for call, classes in script.program.once(saved_whole).items():
        for cls in sorted(classes & keeping, key=lambda c: c.qualified_name)[:1]:
            name = script.options.runtime.name
            message = f"`{cls.name}` keeps the accelerator, so this file loads only where {name} is: save state dicts"
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)


def _is_saved_by_one(script: Script, save: ast.Call) -> bool:
    """Whether a script that distributes itself saves in one process: it asks round the save, or round its function."""
    if script.distribution is None:
        return False
    around = [a for a in script.program.ancestors(save) if isinstance(a, ast.If)]
    return any(asks_for_one(a.test) for a in around) or Guards(script.program, script.distribution).only_main_runs(save)


def _is_on_host(script: Script, save: ast.Call) -> bool:
    """Whether what is saved is never on the device: tensors in the host's memory, or a data set of them."""
    saved = [*save.args[:1], *(k.value for k in save.keywords if k.arg == "obj")]
    made = [v.node for n in saved for v in script.program.values(n) if isinstance(v, Made)]
    held = [a for node in made if isinstance(node, ast.Call) for a in node.args]
    is_data = all(is_kind(k, "dataset") for n in saved for k in script.effects.kinds.of(n) or {None})
    tensors = held if is_data and held else saved
    places = [script.devices.lattice.of(n) for n in tensors]
    return all(each and all(p.where is Where.HOST for p in each) for each in places)


def _waits_apart(script: Script, waits: list[Change | Remark]) -> Iterator[Remark]:
    """Conditions round waits that may hold on one process and not on another."""
    statements = [e.node for w in waits if isinstance(w, Change) for e in w.edits if isinstance(e, Insert)]
    known = set(decided_apart(script.metrics)) if statements else set()
    for choice in decided_apart(script.metrics, statements) if statements else ():
        message = (
            "the processes wait here for a file that one saves, but each decides this by its own clock or data. "
            "Decide from a value that is reduced across processes, or they wait for each other and hang"
        )
        if choice not in known:
            yield Remark(NAME, script.path(choice.node), choice.node, message, Tier.REVIEW)


def _loaded_where_saved(script: Script) -> Iterator[Change]:
    """Weights and models, saved from a GPU perhaps: every process would bring them to process 0's first."""
    called = _called_models(script)
    models = called - set(map(_loaded, _kept_on_host(script))) if not script.devices.is_unnamed else set()
    calls = (c for c in script.program.calls if len(c.args) == 1)
    loads = [c for c in calls if script.program.names_only(c.func, "torch.load")]
    taken = _taken(script) if loads else set()
    held = [load for load in loads if load in taken or _becomes_model(script, load)]
    texts = {ast.unparse(load.args[0]) for load in held}
    for load in loads:
        is_said = any(k.arg in ("map_location", None) for k in load.keywords)
        is_of_weights = load in called or load in held or ast.unparse(load.args[0]) in texts
        if is_of_weights and not is_said and _knows_its_device(script, load):
            yield _loaded_near(script, load, is_model=load in models)


def _loaded_near(script: Script, load: ast.Call, *, is_model: bool) -> Change:
    """A load to the process's own device; to the CPU's memory where only the accelerator knows if that is a GPU.

    `load_state_dict` copies from there. State that was saved from the CPU, such as that of a random number generator,
    stays there.
    """
    state, is_taken = script.state(load), _is_taken(script, load)
    is_option = script.accelerator(load) is None and script.devices.cpu is not None
    place = f"{state}.device"
    library = script.library_import(load, state)
    reason = "what was saved from a GPU is loaded to the process's own device, not to GPU 0"
    if is_option and is_taken:
        place, library = '"cpu"', ()
        reason = "what was saved from a GPU is loaded to the CPU's memory, and not by every process to GPU 0"
    elif is_option or not (is_taken or is_model):
        place = f'{{"cuda:0": str({place})}}'
    keeps = (load.func, *load.args, *[k.value for k in load.keywords])
    reads = (state.split(".")[0],) if state in place else ()
    loaded = Replace(load, partial(loaded_to, place=place), keeps=keeps, reads=reads)
    return Change(NAME, script.path(load), load.lineno, reason, (loaded, *library))


def _knows_its_device(script: Script, load: ast.Call) -> bool:
    """Whether the accelerator reaches a load, or is there when training runs its function, on the device of a GPU.

    In a worker process, it is not.
    """
    if script.is_beside(load):
        return False
    if script.accelerator(load) is not None:
        return script.path(load) in script.files
    frame, devices = script.program.frame(load), script.devices
    reached = script.run.run | script.run.trained
    is_run = frame in reached and frame in script.program.reachable and not devices.is_early(load)
    return (
        is_run and devices.together.homemade is None and script.written.saver(load) == script.options.runtime.functions
    )


def _called_models(script: Script) -> set[ast.AST]:
    """The calls that load what the script calls, as it does a model, or what holds that.

    A method that returns its object has that for its value: `x.to` of a batch calls no batch, `net.eval` is a model's.
    """
    loads = ((call, _loaded(value)) for call in script.program.calls for value in _called_values(script, call))
    return {load for call, load in loads if load is not None and not _names_a_function(script, call.func)}


def _called_values(script: Script, call: ast.Call) -> Values:
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_of_model = isinstance(call.func, ast.Attribute) and methods.switches_mode(call.func.attr)
    own = script.program.values(holder) if not is_of_model else frozenset()
    return script.program.values(call.func) - own


def _names_a_function(script: Script, called: ast.expr) -> bool:
    """Whether nothing but a function can have the name there, whatever else has it elsewhere."""
    bound = script.program.definitions(called).definitions(called) if isinstance(called, ast.Name) else ()
    given = (script.tracer.assigned(b.node) if isinstance(b.node, ast.Name) else b.node for b in bound)
    return bool(bound) and all(isinstance(g, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) for g in given)


def _kept_on_host(script: Script) -> Iterator[Value]:
    """What functions need in the CPU's memory, such as the state of a generator of random numbers."""
    host = script.program.once(HostReads)
    return (v for call in host.calls for read in host.kept(call) for v in script.program.values(read))


def _loaded(value: Value) -> ast.AST | None:
    """The call that loads a value, or what holds it."""
    while isinstance(value, Element) or (isinstance(value, Member) and value.name.startswith("[")):
        value = value.owner
    return value.node if isinstance(value, Made) and value.name == "torch.load" else None


def _is_taken(script: Script, node: ast.expr) -> bool:
    """Whether a value, or an item of it, is all that a `load_state_dict` gets."""
    parent = script.program.parent(node)
    while isinstance(parent, ast.Subscript) and parent.value is node:
        node, parent = parent, script.program.parent(parent)
    if isinstance(parent, ast.keyword) and parent.arg == "state_dict":
        parent = script.program.parent(parent)
    return isinstance(parent, ast.Call) and ast.unparse(parent.func).endswith(".load_state_dict")


def _taken(script: Script) -> set[ast.AST]:
    """The calls that load what a `load_state_dict` gets, or what that is made of."""
    calls = (c for c in script.program.calls if method_of_call(c) == "load_state_dict")
    wanted: list[ast.AST] = [
        given for c in calls for given in (*c.args[:1], *(k.value for k in c.keywords if k.arg == "state_dict"))
    ]
    found: set[ast.AST] = {load for node in wanted for v in script.program.values(node) if (load := _loaded(v))}
    seen = set[ast.AST]()
    while wanted:
        node = wanted.pop()
        found |= {n for n in walk(node) if isinstance(n, ast.Call) and "torch.load" in script.program.called(n)}
        given = {
            s.iter if isinstance(s, (ast.For, ast.AsyncFor)) else s for s in script.written.meetings.giving(node)
        } - seen
        seen |= given
        wanted += (n for n in given if isinstance(n, (ast.expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)))
    return found


def _becomes_model(script: Script, load: ast.Call) -> bool:
    """Whether what is loaded is given to the variable of a prepared model."""
    parent = script.program.parent(load)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    return target is not None and script.prepared.is_model(target)


def loaded_to(call: cst.CSTNode, place: str) -> cst.BaseExpression:
    """`torch.load(path, map_location=accelerator.device)`."""
    return snippets.with_keyword(call, "map_location", cst.parse_expression(place))


def _has_options(call: ast.Call) -> bool:
    return any(k.arg not in ("obj", "f") for k in call.keywords) or len(call.args) > 2


def _is_made(script: Script, save: Save) -> bool:
    return save.saver is not None and (not _has_options(save.call) or script.options.runtime.has("save_options"))


def _saved(script: Script, call: ast.Call, saver: str) -> Change:
    """The save itself."""
    keeps = (*call.args, *[k.value for k in call.keywords])
    saved = Replace(call, partial(saved_by, saver=saver), keeps=keeps, reads=(saver.split(".")[0],))
    reason = "the main process saves it, completely or not at all"
    return Change(NAME, script.path(call), call.lineno, reason, (saved, *script.library_import(call, saver)))


def _waits(script: Script, saves: list[ast.Call]) -> Iterator[Change | Remark]:
    """No process reads a file before the one that writes it is done."""
    done: set[ast.stmt] = set()
    beyond: list[tuple[ast.Call, ast.expr]] = []
    for load in script.program.calls:
        if "torch.load" not in script.program.called(load) or not load.args:
            continue
        if not script.written.meetings.are_together(load):
            continue  # rule `writes` waits behind the save
        if _is_beside(script, load, saves):
            yield _waits_in_library(script, load, load.args[0], saves)
            continue
        for call, path in _readers(script, load):
            accelerator = script.accelerator(call)
            read = [save for save in saves if may_be_of(script.written.stored, call, path, save)]
            statement = script.written.meetings.before_rounds(
                script.written.meetings.before_questions(call, path, read), read
            )
            if call in script.written.guarding.covered or script.written.guarding.cached.holds(call):
                continue
            if read and is_named_apart(script.metrics.ranks, call, path):
                speaker = accelerator if script.options.runtime.has("broadcast_object_list") else None
                yield Remark(NAME, script.path(call), call, named_apart(path, speaker), Tier.REVIEW)
            if accelerator is None or script.path(call) not in script.files:
                beyond.append((call, path))
                continue
            if statement is None:
                if read:
                    yield Remark(NAME, script.path(call), call, unmet(accelerator), Tier.REVIEW)
                continue
            if any(_has_waited(script, w, statement, saves) for w in done):
                continue
            within = script.written.meetings.within(call, read)
            yield from script.written.meetings.between(NAME, call, within, "load", script.state(call))
            if len(read) > len(within):
                done.add(statement)
                others = tuple(s for s in waits_as_well(script.effects, statement) if s is not statement)
                edit = Insert(statement, "before", f"{accelerator}.wait_for_everyone()", unless_before=others)
                edits = (edit, *script.written.meetings.before(call))
                yield Change(NAME, script.path(call), call.lineno, MAY_NOT_BE_DONE, edits)
    after = list(_waits_after(script, [s for s in saves if s not in script.written.guarding.covered], beyond))
    yield from after
    waited = [e.node for change in after for e in change.edits if isinstance(e, Insert)]
    apart = [s for s in saves if script.accelerator(s) is None and not script.written.meetings.are_in(waited, [s])]
    yield from _waits_outside(script, apart, beyond)
    yield from _waits_at_ends(script, saves)


def _waits_outside(script: Script, saves: list[ast.Call], loads: list[tuple[ast.Call, ast.expr]]) -> Iterator[Change]:
    """Where what calls training saves, and loads that again: all processes wait there, without the accelerator."""
    library = script.options.runtime.functions
    for load, path in loads:
        frame = script.program.frame(load)
        is_led = frame in script.run.leading and script.reach.expression(frame) is None
        is_read = any(may_be_of(script.written.stored, load, path, s) for s in saves)
        if is_led and is_read and script.written.saver(load) == library:
            yield _waits_in_library(script, load, path, saves)


def _waits_in_library(script: Script, load: ast.Call, path: ast.expr, saves: list[ast.Call]) -> Change:
    """Before a load that the accelerator does not reach."""
    statement = script.written.meetings.before_questions(load, path, saves)
    edit = Insert(statement, "before", f"{script.options.runtime.functions}.wait_for_everyone()")
    library = script.library_import(load, script.options.runtime.functions)
    edits = (edit, *script.written.meetings.before(load), *library)
    return Change(NAME, script.path(load), load.lineno, MAY_NOT_BE_DONE, edits)


def _is_beside(script: Script, load: ast.Call, saves: list[ast.Call]) -> bool:
    """Whether a function that all processes run, without the accelerator, loads what it has just saved."""
    program, frame = script.program, script.program.frame(load)
    library = script.options.runtime.functions
    if not frame.is_function or script.accelerator(load) is not None or script.written.saver(load) != library:
        return False
    beside = [s for s in saves if program.frame(s) is frame and program.reaches(s, load)]
    calls = [load, *program.flow.callers.get(frame, ())]
    tests = [b.test for c in calls for b, _ in program.branches_round(c)]
    is_alike = not any(asks_for_one(test) or script.metrics.ranks.is_own(test) for test in tests)
    is_run_by_all = is_alike and not any(c in script.written.guarding.covered for c in calls)
    return is_run_by_all and any(may_be_of(script.written.stored, load, load.args[0], s) for s in beside)


def _waits_after(script: Script, saves: list[ast.Call], loads: list[tuple[ast.Call, ast.expr]]) -> Iterator[Change]:
    """Where the accelerator does not reach what loads a file: no process leaves the training before it is written."""
    left = [s for s in saves if any(is_loaded_later(script.written.stored, load, path, s) for load, path in loads)]
    for frame in _trained_in(script):
        for statement in reversed(getattr(frame.node, "body", [])):
            calls = [] if isinstance(statement, ast.Return) else [n for n in walk(statement) if isinstance(n, ast.Call)]
            done = [s for s in left if any(c is s or leads_to(script.written.stored, c, s) for c in calls)]
            if done:
                left = [s for s in left if s not in done]
                edit = Insert(statement, "after", f"{script.accelerator(statement)}.wait_for_everyone()")
                reason = "waits until this file is written before it is loaded"
                yield Change(NAME, script.path(statement), statement.lineno, reason, (edit,))
                break


def _waits_at_ends(script: Script, saves: list[ast.Call]) -> Iterator[Change]:
    """No process ends with a status, for which all others are ended, before the one that writes is done."""
    agreed = _agreed(script)
    for call in script.program.calls:
        statement, accelerator = script.program.statement(call), script.accelerator(call)
        is_alone = isinstance(statement, ast.Expr) and statement.value is call and script.path(call) in script.files
        if not is_alone or accelerator is None or not script.program.ends(call, failed=True):
            continue
        around = list(script.program.ancestors(call))
        asked = [b for b, _ in script.program.branches_round(call)]
        is_alike = not any(script.metrics.ranks.is_own(b.test) and b not in agreed for b in asked)
        if any(isinstance(a, ast.ExceptHandler) for a in around) or call in script.written.guarding.covered:
            continue
        if is_alike and any(script.written.stored.is_before(save, call) for save in saves):
            edit = Insert(statement, "before", f"{accelerator}.wait_for_everyone()")
            reason = "waits until the file is written before the script ends"
            yield Change(NAME, script.path(call), call.lineno, reason, (edit,))


def _agreed(script: Script) -> set[ast.AST]:
    """The branches that all processes take alike, though each has its own answer: one answer goes for all."""
    apart = list(decided_apart(script.metrics)) if script.can_agree else []
    return {c.node for c in decided_together(script.metrics, apart) if script.accelerator(c.test) is not None}


def _trained_in(script: Script) -> list[Scope]:
    """The functions that every process runs: those that create the accelerator, and those that train."""
    found = [h for h in script.reach.homes if h.is_function]
    found += [script.program.frame(d.loop) for d in script.training.data if d.loop is not None]
    found += [script.program.frame(b) for b in script.training.backwards]
    return [f for f in dict.fromkeys(found) if f.is_function and script.reach.expression(f) is not None]


def _has_waited(script: Script, before: ast.stmt, statement: ast.stmt, saves: list[ast.Call]) -> bool:
    """Whether nothing is saved between a wait and a later statement of its block."""
    block = script.program.block(before)
    if statement not in block or block.index(statement) < block.index(before):
        return False
    return not script.written.meetings.are_in(block[block.index(before) : block.index(statement)], saves)


def _readers(script: Script, load: ast.Call) -> list[tuple[ast.Call, ast.expr]]:
    """The load with its path; where the accelerator does not reach it, the calls that lead to it."""
    if script.path(load) in script.files and script.accelerator(load) is not None:
        return [(call, load.args[0]) for call in script.written.meetings.outside_rounds(load)]
    function, path = script.program.frame(load), load.args[0]
    if function.kind == "module" or function in script.run.leading:
        return [(load, path)]
    callers = sorted(script.program.flow.callers.get(function, ()), key=script.program.position)
    is_given = isinstance(path, ast.Name) and any(p.arg == path.id for p in function.parameters)
    return [(c, (script.tracer.written(c, function, ast.unparse(path)) if is_given else None) or path) for c in callers]


def saved_by(call: cst.CSTNode, saver: str) -> cst.BaseExpression:
    """`accelerator.save(...)` for `torch.save(...)`."""
    assert isinstance(call, cst.Call)
    return call.with_changes(func=cst.parse_expression(f"{saver}.save"))
