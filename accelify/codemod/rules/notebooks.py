"""Say what it takes to train a notebook in several processes.

    accelerator = Accelerator()   a notebook's kernel is one process; `notebook_launcher` starts several, in a function

Why: a migrated notebook runs as before, and nothing in it starts more than one process.
Left alone: everything; the rule only reports. How cells become functions is yours to decide.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.edits.values import Remark
from accelify.codemod.files.notebook import Notebook
from accelify.codemod.libraries.row import Effect
from accelify.codemod.preparing.reach import constructor
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope

NAME = "notebooks"
_SHOWN = frozenset({Effect.PLOTS, Effect.SHOWS})


def find(script: Script) -> Iterator[Remark]:
    """A note for each notebook in which the accelerator is created, or that calls code which creates it."""
    for parsed in sorted(script.program.files, key=lambda parsed: parsed.path):
        notebook = parsed.decoded.notebook
        homes = [home for home in script.reach.homes if home.module == parsed.path]
        calls = _leading(script, parsed.path) if notebook is not None and not homes else []
        if notebook is not None and (homes or calls):
            made = script.access.creation_edit(homes[0], "").node if homes else calls[0]
            frames = homes or list(dict.fromkeys(map(script.program.frame, calls)))
            functions = [frame for frame in frames if frame.kind == "function" and not frame.is_method]
            started = _starting(script, parsed.path, frames)
            cells = _Cells(script, parsed.path, notebook, started or [made, *_trained_at(script, parsed.path)])
            can_be_launched = functions and (homes or len(frames) == 1) and not cells.need_trained_after(started)
            launched = _launched_as(script, functions[0]) if can_be_launched else None
            yield _launched(script, parsed.path, cells, made, launched, started)


def _leading(script: Script, path: str) -> list[ast.Call]:
    """The calls in a notebook of other files' code that creates the accelerator, or trains."""
    program = script.program
    trained = set(map(program.frame, script.training.backwards))
    trained |= {(constructor(program, h) or h) if h.kind == "class" else h for h in script.reach.homes}
    calls = [call for call in program.calls if script.path(call) == path]
    others = {call: [f for f in program.flow.callees.get(call, ()) if f.module != path] for call in calls}
    return sorted((c for c, run in others.items() if program.run_from(run) & trained), key=program.position)


def _starting(script: Script, path: str, frames: list[Scope]) -> list[ast.Call]:
    """The calls in a notebook's cells themselves of the functions that create the accelerator, where only these do."""
    if any(frame.kind != "function" for frame in frames):
        return []
    program = script.program
    calls = (c for c in program.calls if script.path(c) == path and program.frame(c).kind == "module")
    return [call for call in calls if program.run_through([call]) & set(frames)]


def _launched_as(script: Script, function: Scope) -> str:
    """How it is launched: `notebook_launcher(train, args=(model, 3))` for the one call `train(model, epochs=3)`."""
    node = function.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    parameters = [*node.args.posonlyargs, *node.args.args]
    names = [p.arg for p in parameters]
    calls = [c for c in script.program.calls_of(function) if script.program.frame(c).kind == "module"]
    given: dict[str, ast.expr] = dict(zip(names[::-1], node.args.defaults[::-1], strict=False))
    last = len(names) - len(given)
    if len(calls) == 1 and not any(isinstance(a, ast.Starred) for a in calls[0].args):
        said = dict(zip(names, calls[0].args, strict=False)) | {k.arg: k.value for k in calls[0].keywords if k.arg}
        given |= said
        last = max([last, *(names.index(n) + 1 for n in said if n in names)])
    texts = [ast.unparse(given[n]) if n in given else n for n in names[:last]]
    given_to_it = f", args=({', '.join(texts)}{',' * (len(texts) == 1)})" if texts else ""
    bound = _bound_to(script, calls[0]) if len(calls) == 1 else ""
    return f"{bound}notebook_launcher({function.name}{given_to_it})"


def _bound_to(script: Script, call: ast.Call) -> str:
    """The beginning `history = ` of the statement `history = train()`."""
    statement = script.program.statement(call)
    is_bound = isinstance(statement, ast.Assign) and statement.value is call
    return script.program.text(statement).removesuffix(script.program.text(call)) if is_bound else ""


def _launched(
    script: Script, path: str, cells: _Cells, made: ast.AST, launched: str | None, started: Iterable[ast.Call]
) -> Remark:
    what = f"start it with `{launched}`" if launched is not None else _moved(cells)
    source = f"`from {script.options.runtime.module} import notebook_launcher`"
    message = f"a notebook runs in one process; to train in several, {what} ({source})"
    run = map(script.program.statement, started) if launched is not None else cells.statements
    if any(script.effects.of(statement).effects & _SHOWN for statement in run):
        message += ". Figures do not appear: save them"
    return Remark(NAME, path, made, message, within=("batch_size", "data"))


def _moved(cells: _Cells) -> str:
    """Advice on moving the cells into a function, and what that needs."""
    first, last = cells.together
    which = f"cell {first}" if first == last else f"the cells {first} to {last}"
    name = next(n for n in ("train", "train_all", "run_training") if n not in cells.scope.writes or n == "run_training")
    needs = [f"without {', '.join(cells.only_of_cells)}"] if cells.only_of_cells else []
    if own := ", ".join(f"`{n}`" for n in cells.declared):
        needs.append(f"with `nonlocal` for {own} where there is `global`")
    conditions = "".join(f", {need}" for need in needs)
    return (
        f"move the code of {which} into a function `{name}`{conditions}, and start it with `notebook_launcher({name})`"
    )


class _Cells:
    """The cells that a function has to hold: those that train, and all that use the variables which these change."""

    def __init__(self, script: Script, path: str, notebook: Notebook, training: Iterable[ast.AST]) -> None:
        self.script = script
        self.notebook = notebook
        self.scope = script.program.scope(script.program.flow.parsed_of[path].tree)
        trained = self._of(training)
        self._trained = min(trained), max(trained)

    def need_trained_after(self, calls: list[ast.Call]) -> bool:
        """Whether cells use what calls have changed: in processes of their own, these change copies."""
        statements = {call: self.script.program.statement(call) for call in calls}
        return any(
            self._is_lost(read, self.scope.writes[name], statement) and self.script.program.may_follow(read, call)
            for call, statement in statements.items()
            for name in self._changed_by(statement)
            for read in filter(self._is_python, self.script.program.reads_of(self.scope, name))
        )

    def _is_lost(self, read: ast.Name, writes: list[ast.AST], statement: ast.stmt) -> bool:
        """Whether a variable may still hold what it held before a statement, and not what this binds to it."""
        program = self.script.program
        found = program.reaching(read, writes) if program.frame(read) is self.scope else writes
        return not found or not all(program.inside(write, statement) for write in found)

    @cached_property
    def together(self) -> tuple[int, int]:
        """The first and the last: in a function, their variables are its own."""
        first, last = self._trained
        while True:
            held = [at for at in self._used.values() if any(first <= cell <= last for cell in at.changed)]
            cells = [cell for at in held for cell in (*at.changed, *at.read)]
            wider = min([first, *cells]), max([last, *cells])
            if wider == (first, last):
                return wider
            first, last = wider

    @cached_property
    def _used(self) -> dict[str, _Places]:
        program = self.script.program
        used = {
            name: _Places(self._of(writes), self._of(filter(self._is_python, program.reads_of(self.scope, name))))
            for name, writes in self.scope.writes.items()
        }
        for statement in self.scope.body:
            for name in self._changed_by(statement):
                used[name].changed.update(self._of([statement]))
        return used

    def _changed_by(self, statement: ast.stmt) -> set[str]:
        """The variables whose objects a statement changes, as it fills a list or trains a model."""
        places = self.script.effects.of(statement).writes
        found = {place.name for place in places if place.scope is self.scope} & self.scope.writes.keys()
        found = {n for n in found if not all(isinstance(w, ast.alias) for w in self.scope.writes[n])}
        return found | self._learning if self._trains(statement) else found

    def _trains(self, statement: ast.stmt) -> bool:
        program, backwards = self.script.program, self.script.training.backwards
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and program.frame(n) is self.scope]
        return bool({*calls} & {*backwards} or program.run_through(calls) & {*map(program.frame, backwards)})

    @cached_property
    def _learning(self) -> set[str]:
        """The variables that hold a trained model, a part of one, or a model that it is a part of."""
        program, roles = self.script.program, self.script.roles
        wholes = {whole for model in roles.trained for whole in roles.wholes(model)}
        held = {n: {v for r in program.reads_of(self.scope, n) for v in program.values(r)} for n in self.scope.writes}
        return {
            name
            for name, values in held.items()
            if any(v in wholes or (roles.is_model(v) and roles.wholes(v) & roles.trained) for v in values)
        }

    def _of(self, nodes: Iterable[ast.AST]) -> set[int]:
        return {self.notebook.place(self.script.program.line(node))[0] for node in nodes}

    def _is_python(self, read: ast.AST) -> bool:
        """Whether it is no command of IPython that reads a variable: `!echo {name}`."""
        nodes = ast.walk(self.script.program.statement(read))
        texts = [f'"""{n.value}"""' for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        stand_ins = [stand_in for cell in self.notebook.cells for stand_in in cell.stand_ins]
        return not any(text in stand_in for text in texts for stand_in in stand_ins)

    @property
    def statements(self) -> Iterator[ast.stmt]:
        """The statements that go into the function."""
        return (s for s in self.scope.body if any(map(self._has, self._of([s]))))

    def _has(self, cell: int) -> bool:
        first, last = self.together
        return first <= cell <= last

    @property
    def only_of_cells(self) -> list[str]:
        """The statements that a function cannot hold, or not in a process of its own."""
        cells = [cell for cell in self.notebook.cells if self._has(cell.number)]
        found = ["magics and `!` commands"] if any(cell.stand_ins for cell in cells) else []
        imports = [n for n in self.scope.body if isinstance(n, ast.ImportFrom)]
        above = {"`import *`": [n for n in imports if n.names[0].name == "*"]}
        above["`from __future__ import`"] = [n for n in imports if n.module == "__future__"]
        for what, nodes in above.items():
            found += [f"the {what} of cell {n} (it stays above)" for n in sorted(self._of(nodes)) if self._has(n)]
        return found

    @property
    def declared(self) -> list[str]:
        """The variables that functions declare as `global`, and that a function around these makes its own."""
        declared = (n for n in self.scope.written_below if n in self._used)
        return [n for n in declared if any(map(self._has, self._of(self._own_writes(n))))]

    def _own_writes(self, name: str) -> list[ast.AST]:
        """What binds a variable in the cells themselves, and not in their functions."""
        return [write for write in self.scope.writes[name] if self.script.program.frame(write) is self.scope]


@dataclass(frozen=True, slots=True)
class _Places:
    """The cells that bind a variable or change what it holds, and those that read it."""

    changed: set[int]
    read: set[int]


def _trained_at(script: Script, path: str) -> Iterator[ast.AST]:
    """Where in a file something is prepared, trained, evaluated, moved, or written."""
    nodes: list[ast.AST] = [*script.training.backwards, *script.metrics.shared_loops, *script.metrics.evaluations]
    nodes += [g.anchor for g in script.preparation.groups if g.anchor is not None]
    nodes += [*(m.call for m in script.devices.moves), *(s.call for s in script.written.saves)]
    nodes += [run[-1] for run in script.written.guarding.runs]
    nodes += _leading(script, path)
    yield from (n for n in nodes if script.path(n) == path)
