"""Which files of the project, beside what changes, call functions that change for them, or load its checkpoints?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from accelify.codemod.edits.values import (
    AddParameter,
    DropParameter,
    Loaded,
    Place,
    Plan,
    Remark,
)
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project, absolute
from accelify.codemod.libraries import methods, names
from accelify.codemod.result import Tier
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.control_flow import position
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope


@dataclass(frozen=True)
class Called:
    """A function or class that changes, and the other files that call it as it was: by old parameters, for one."""

    path: str
    node: ast.AST
    name: str
    by: tuple[Parsed, ...]


def outside_callers(made: Plan, files: Sequence[Parsed], project: Project) -> list[Called]:
    """What other files of the repository call by old parameters, or in processes or wrappers of their own."""
    known = {absolute(f.path) for f in files}
    entered = _entered(made, files)
    found = []
    for parsed in files:
        changed, unwrapped = entered[parsed.path], _unwrapped_functions(made, parsed)
        others = [p for p in project.callers(parsed, sorted({*changed, *unwrapped})) if absolute(p.path) not in known]
        wrapping = [p for p in others if unwrapped and _asks_for_wrappers(p, known, project)]
        for name, (path, node) in {**{n: (parsed.path, node) for n, node in unwrapped.items()}, **changed}.items():
            by = [p for p in (others if name in changed else wrapping) if name in _called(p)]
            if by:
                found.append(Called(path, node, name, tuple(by)))
    return found


def _asks_for_wrappers(caller: Parsed, known: Collection[str], project: Project) -> bool:
    """Whether a file that calls what changes, or one that it imports beside, may ask for the wrapper round a model."""
    beside = (f for f in project.program([caller], True) if absolute(f.path) not in known)
    return any(sign in parsed.text for parsed in beside for sign in _OF_WRAPPERS)


def trained_outside(made: Plan, files: Sequence[Parsed], project: Project, noted: Sequence[Called]) -> list[Called]:
    """What trains through an accelerator now, and is called, or inherited from, by other files of the repository.

    Not what is noted already, whose parameters change as well.
    """
    known, nodes = {absolute(f.path) for f in files}, {c.node for c in noted}
    training = {f.path: {name: (f.path, node) for name, node in _training(made, f).items()} for f in files}
    found = []
    for path, named in _with_heirs(training, files).items():
        parsed = next(f for f in files if f.path == path)
        others = [p for p in project.callers(parsed, sorted(named)) if absolute(p.path) not in known] if named else []
        for name, (holder, node) in named.items():
            by = [p for p in others if name in _called(p)]
            found += [Called(holder, node, name, tuple(by))] if by and node not in nodes else []
    return found


def _training(made: Plan, parsed: Parsed) -> dict[str, ast.AST]:
    """The functions and classes of a module whose backward passes go through an accelerator."""
    edited = (e.node for c in made.of(parsed.path) if c.rule == "backward" for e in c.edits)
    return {top.name: top for top in (_top(parsed, node) for node in edited) if top is not None}


def as_called_before(made: Plan, called: Sequence[Called], asking: Sequence[Called] = ()) -> Plan:
    """The plan with a note on each function that other files call; `asking`: which need no other arguments for that.

    These work as before, but they take models and loaders to be prepared.
    """
    still = [c for c in asking if c.node not in {o.node for o in called} and _trains(made, c)]
    notes = [n for c in called for n in _notes(c, "change")]
    notes += [n for c in still for n in _notes(c, "if that trains, migrate", _not_to_its_device(made, c))]
    return replace(made, remarks=[*made.remarks, *notes])


def _trains(made: Plan, called: Called) -> bool:
    """Whether something in a function or class is changed that trains, or moves no batches any more."""
    changed = {e.node for c in made.of(called.path) if c.rule in ("backward", "device_moves") for e in c.edits}
    return any(node in changed for node in ast.walk(called.node))


def _not_to_its_device(made: Plan, called: Called) -> str:
    """What to say of a parameter by which a function or class moved what it prepares now, and moves no more."""
    changes = made.of(called.path)
    preparing = {e.node for c in changes if c.rule == "prepare" for e in c.edits}
    dropped = [e.node for c in changes if c.rule == "device_moves" for e in c.edits]
    moves = {n for node in dropped for n in ast.walk(node) if isinstance(n, ast.Call)}
    for function in (n for n in ast.walk(called.node) if isinstance(n, _FUNCTIONS)):
        inside = set(ast.walk(function))
        devices = [d for d in map(_device_of, moves & inside) if d is not None]
        given = sorted({d.id for d in devices} & {a.arg for a in inside if isinstance(a, ast.arg)})
        if given and preparing & inside:
            return f". What this prepares goes to the accelerator's device, not to `{given[0]}`"
    return ""


def _device_of(call: ast.Call) -> ast.Name | None:
    """The variable by which a call moves something to a device."""
    if not methods.moves_to_device(_last_name(call.func)):
        return None
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    return next((g for g in given if isinstance(g, ast.Name)), None)


def passed_the_accelerator(made: Plan, called: Sequence[Called]) -> frozenset[tuple[str, str]]:
    """The paths and names of those functions and classes that would get the accelerator as a parameter."""
    given = {e.node for c in made.changes for e in c.edits if isinstance(e, AddParameter)}
    passed = (c for c in called if not _functions_of(c.node).isdisjoint(given))
    return frozenset((c.path, c.node.name) for c in passed if isinstance(c.node, (*_FUNCTIONS, ast.ClassDef)))


def _functions_of(node: ast.AST) -> set[ast.AST]:
    """The function that is run by a call of a function or class."""
    if not isinstance(node, ast.ClassDef):
        return {node}
    return {n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"}


def _notes(called: Called, advice: str, besides: str = "") -> Iterator[Remark]:
    """A note on the files that call something; another on those that start processes themselves, as they were to."""
    apart = tuple(p for p in called.by if any(sign in p.text for sign in _OF_PROCESSES))
    if by := tuple(p for p in called.by if p not in apart):
        yield _note(replace(called, by=by), advice, besides)
    if apart:
        paths = " and ".join(p.path for p in apart)
        does = "distribute their training themselves" if len(apart) > 1 else "distributes its training itself"
        message = f"{paths} {does}: keep a copy of `{called.name}` as it was before for that"
        yield Remark("callers", called.path, called.node, message, Tier.REVIEW)


def _note(called: Called, advice: str, besides: str = "") -> Remark:
    paths = [p.path for p in called.by]
    who = f"{', '.join(paths[:-1])} and {paths[-1]} call" if len(paths) > 1 else f"{paths[0]} calls"
    message = f"{who} `{called.name}` as before: {advice} {'them' if len(paths) > 1 else 'it'} too{besides}"
    return Remark("callers", called.path, called.node, message, Tier.REVIEW)


def users_of_parameter(program: Program, function: Scope, name: str) -> list[str]:
    """The files that give a parameter to a function, by its name or by its position, in calls that are not followed.

    Other files of the repository, and code of the program that nothing runs.
    """
    is_constructor = function.name == "__init__" and function.parent is not None
    called = function.parent.name if is_constructor and function.parent is not None else function.name
    given = [p.arg for p in function.parameters[int(function.is_method and not function.is_static) :]]
    position = given.index(name) if name in given else len(given)
    known = {absolute(f.path) for f in program.files}
    return [
        user.path
        for user in program.flow.project.users(program.flow.parsed_of[function.module], called)
        if any(
            isinstance(n, ast.Call) and _gives(n, called, name, position)
            for n in user.nodes
            if absolute(user.path) not in known or program.frame(n) not in program.reachable
        )
    ]


def _gives(call: ast.Call, function: str, name: str, position: int) -> bool:
    """Whether a call of a function, or one that passes it on, gives it a parameter."""
    is_its_own = _last_name(call.func) == function
    if not is_its_own and function not in map(_last_name, call.args):
        return False
    is_open = any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > position
    return any(k.arg in (name, None) for k in call.keywords) or (is_its_own and is_open)


def _entered(made: Plan, files: Sequence[Parsed]) -> dict[str, dict[str, Place]]:
    """The functions and classes of each file whose call runs one that changes, and that one: heirs of a class, too."""
    return _with_heirs({f.path: {n: (f.path, c) for n, c in _changed_functions(made, f).items()} for f in files}, files)


def _with_heirs(found: dict[str, dict[str, Place]], files: Sequence[Parsed]) -> dict[str, dict[str, Place]]:
    """Functions and classes of files by their names, with the heirs that run a class's constructor."""
    classes = [(f.path, n) for f in files for n in f.nodes if isinstance(n, ast.ClassDef) and not _functions_of(n)]
    while True:
        known = {name: place for listed in found.values() for name, place in listed.items()}
        heirs = [(path, n, b) for path, n in classes if n.name not in found[path] for b in map(_last_name, n.bases)]
        heirs = [(path, n, b) for path, n, b in heirs if b in known and isinstance(known[b][1], ast.ClassDef)]
        if not heirs:
            return found
        for path, node, base in heirs:
            found[path][node.name] = known[base]


def _changed_functions(made: Plan, parsed: Parsed) -> dict[str, ast.AST]:
    """The functions and classes of a file that are to be called otherwise, or that no longer start or ask processes."""
    changes = made.of(parsed.path)
    nodes = [e.node for c in changes for e in c.edits if isinstance(e, (AddParameter, DropParameter))]
    found: dict[str, ast.AST] = {}
    for node in nodes:
        called = _called_for(parsed, node)
        found.setdefault(called.name, called)
    by_hand = (_top(parsed, e.node) for c in changes if c.rule == "distributed" for e in c.edits)
    return {**{top.name: top for top in by_hand if top is not None}, **found}


_HOLDERS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.IfExp, ast.Assign)
_OF_WRAPPERS = ("DataParallel(", ".module")
_OF_PROCESSES = ("init_process_group", "DistributedDataParallel")


def _unwrapped_functions(made: Plan, parsed: Parsed) -> dict[str, ast.AST]:
    """The functions of a file that put models into wrappers, or took them out of them, and do so no more."""
    nodes = [e.node for c in made.of(parsed.path) if c.rule == "parallel_wrappers" for e in c.edits]
    holders = (next((a for a in _around(parsed, n) if isinstance(a, _FUNCTIONS)), None) for n in nodes)
    called = (_called_for(parsed, holder) for holder in holders if holder is not None)
    return {each.name: each for each in called}


def _called_for(parsed: Parsed, function: _Function) -> _Function | ast.ClassDef:
    """What is called for a function to run: a class for its constructor."""
    holder = parsed.parents.get(function)
    return holder if function.name == "__init__" and isinstance(holder, ast.ClassDef) else function


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _around(parsed: Parsed, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes round a node, from the inside out."""
    parent = parsed.parents.get(node)
    while parent is not None:
        yield parent
        parent = parsed.parents.get(parent)


def _top(parsed: Parsed, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
    """The function or class of a module that a node is in."""
    around = [node, *_around(parsed, node)]
    top = around[-2] if len(around) > 1 else None
    return top if isinstance(top, (*_FUNCTIONS, ast.ClassDef)) else None


def _called(parsed: Parsed) -> frozenset[str]:
    """The last names of what a file calls, has heirs of, or holds in a table, as they are where it imports them from.

    Not those of functions and classes that it makes itself, which it calls by their plain names.
    """
    aliases = [a for n in parsed.parents if isinstance(n, ast.ImportFrom) for a in n.names]
    renamed = {a.asname: a.name for a in aliases if a.asname is not None}
    imported = {a.asname or a.name for a in aliases}
    own = {s.name for s in parsed.tree.body if isinstance(s, (*_FUNCTIONS, ast.ClassDef))} - imported
    used: list[ast.AST] = [n.func for n in parsed.parents if isinstance(n, ast.Call)]
    used += [b for n in parsed.parents if isinstance(n, ast.ClassDef) for b in n.bases]
    used += [n for n, holder in parsed.parents.items() if isinstance(holder, _HOLDERS) and _is_read(n)]
    found = (_last_name(n) for n in used if not isinstance(n, ast.Name) or n.id not in own)
    return frozenset(renamed.get(name, name) for name in found)


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _last_name(function: ast.AST) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def name_readers(made: Plan, named: Sequence[Parsed], project: Project) -> None:
    """Let notes on checkpoints name the files that load them as they were; they are made only where there are such."""
    asked = {r.loaded for r in made.remarks if r.loaded is not None}
    readers = {how: tuple(_readers(how, named, {c.path for c in made.changes}, project)) for how in asked}
    remarks: list[Remark] = []
    for remark in made.remarks:
        if remark.loaded is None or not (places := readers[remark.loaded]):
            is_known = remark.loaded is Loaded.WHERE_SAVED or project.is_on_disk
            remarks += [remark] if remark.loaded is None or not is_known else []
        else:
            remarks.append(replace(remark, message=f"{remark.message}, unlike {{0}}", lines=(places,)))
    made.remarks[:] = remarks


def _readers(how: Loaded, named: Sequence[Parsed], changed: Collection[str], project: Project) -> Iterator[Place]:
    """Where the other files beside the named ones load weights in a way."""
    words, method, is_so = _WAYS[how]
    for parsed in project.beside(named, words):
        calls = [n for n in parsed.parents if isinstance(n, ast.Call) and _last_name(n.func) == method]
        if parsed.path not in changed and calls:
            chains = Chains(Program([parsed], project, [parsed]))
            found: list[ast.AST] = [call for call in calls if is_so(chains, call)]
            if found:
                yield parsed.path, min(found, key=lambda n: position(n, parsed.path))
    for parsed in project.beside(named, (f"[{_PREFIX}:]", ".load_state_dict(")) if how is Loaded.WRAPPED else ():
        cuts = [n for n in parsed.parents if isinstance(n, ast.Slice) and ast.unparse(n) == f"{_PREFIX}:"]
        if parsed.path not in changed and cuts:
            yield parsed.path, cuts[0]


def _fills_a_wrapped(chains: Chains, call: ast.Call) -> bool:
    """Whether a call fills a model that may be `DataParallel(...)` then."""
    if not isinstance(call.func, ast.Attribute):
        return False
    model = call.func.value
    given = [
        model,
        *(chains.tracer.assigned(d.node) for d in chains.definitions(model) if isinstance(d.node, ast.expr)),
    ]
    return any(isinstance(g, ast.Call) and any(map(names.divides_batches, chains.program.called(g))) for g in given)


def _loads_to_where_it_was(chains: Chains, call: ast.Call) -> bool:
    """Whether a call is `torch.load` without a word on where to."""
    says_where = len(call.args) > 1 or any(k.arg in ("map_location", None) for k in call.keywords)
    return "torch.load" in chains.program.called(call) and not says_where


_PREFIX = len("module.")  # which a file takes off the keys, `key[7:]`
_WAYS: dict[Loaded, tuple[tuple[str, ...], str, Callable[[Chains, ast.Call], bool]]] = {
    Loaded.WRAPPED: (("DataParallel(", ".load_state_dict("), "load_state_dict", _fills_a_wrapped),
    Loaded.WHERE_SAVED: (("torch.load(",), "load", _loads_to_where_it_was),
}
