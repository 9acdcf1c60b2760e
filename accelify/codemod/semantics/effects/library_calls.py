"""What does a call of a library's function do, by its row in the table: changes, random numbers, files, the screen?"""

from __future__ import annotations

import ast

from accelify.codemod.libraries.row import DRAWS, Effect, Row, Trait
from accelify.codemod.libraries.vocabulary import only_touches_files, removes_files
from accelify.codemod.semantics.effects.aliases import Aliases
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.effects.summary import EMPTY, FileUse, Place, Summary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Collection, Made, Value, template

_FILES = frozenset({"string", "path", "file", "binary_file", "buffer"})
_OUTPUT = frozenset({Effect.WRITES_FILES, Effect.LOGS, Effect.SHOWS, Effect.PLOTS, Effect.PRINTS})
_OWN_STREAM = ("generator", "random_state", "seed")  # what a call draws from, or by, besides what all code shares
OF_FILES = frozenset({Effect.READS_FILES, Effect.WRITES_FILES})


def command(call: ast.Call) -> str:
    """The text of the command that a call runs: `rm -rf runs` of `subprocess.run(["rm", "-rf", "runs"])`."""
    first = next(iter(call.args), None)
    listed = [text for e in first.elts if (text := template(e))] if isinstance(first, (ast.List, ast.Tuple)) else []
    return " ".join(listed) or (template(first) if first is not None else "")


class LibraryCalls:
    """Read rows for the arguments of one call."""

    def __init__(self, program: Program, kinds: Kinds, aliases: Aliases) -> None:
        self.program = program
        self.kinds = kinds
        self.aliases = aliases

    def does(self, row: Row, call: ast.Call) -> Summary:
        """The effects of a call by its row, apart from the functions that it is given and runs."""
        if row.has(Effect.RUNS_CODE):
            if row.has(Effect.WAITS) and only_touches_files(text := command(call)):
                return Summary(files_written=frozenset({FileUse(call, (), is_gone=removes_files(text))}))
            return Summary(unknown=frozenset({call}), effects=row.effects - {Effect.RUNS_CODE, Effect.CALLS, *OF_FILES})
        if row.has(Trait.SETS_UP_LOG) and self._is_of_log_file(call):
            return Summary(effects=frozenset({Effect.LOGS}))
        effects = row.effects - {Effect.CALLS, *OF_FILES}
        if Effect.DRAWS_IN_TRAINING in effects and self._is_always_in_training(call):
            effects = (effects - {Effect.DRAWS_IN_TRAINING}) | {Effect.DRAWS_TORCH}
        places = self._changed_by(row, call)
        generator = next((k.value for k in call.keywords if k.arg in _OWN_STREAM), None)
        if generator is not None and effects & DRAWS and ast.unparse(generator) != "None":
            effects = (effects - DRAWS) | {Effect.DRAWS_GIVEN}
            places |= self.aliases.within(generator, ("*",))
        used = self._of_files(row, call)
        if used.files_written:
            effects = effects - {Effect.CHANGES_LIBRARY}  # of where a library writes to
        if used.files_written:
            effects = effects - {Effect.PRINTS}
        if not effects and not places:
            return used
        return used | Summary(writes=frozenset(places), effects=effects)

    def _is_always_in_training(self, call: ast.Call) -> bool:
        """Whether a function, as `F.dropout`, is not told whether the model is trained: then it takes it that it is.

        So does a layer that is made where it is called: `nn.Dropout(0.1)(x)`.
        """
        if isinstance(call.func, ast.Call):
            return True
        has_mode = len(call.args) > 2 or any(k.arg in (None, "training", "train") for k in call.keywords)
        return bool(self.kinds.name_of(call.func)) and not has_mode

    def _changed_by(self, row: Row, call: ast.Call) -> set[Place]:
        """The places that a call changes in place."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_method = owner is not None and not self.kinds.name_of(call.func)
        keywords = {k.arg: k.value for k in call.keywords}
        changed: list[ast.expr] = []
        for which in row.mutates:
            if which == "self":
                is_output = bool(row.effects & _OUTPUT)  # of a file, a figure: that is the effect itself
                changed += [owner] if is_method and owner is not None and not is_output else []
            elif which.isdigit():
                changed += call.args[int(which) : int(which) + 1]
            elif which in keywords:
                changed.append(keywords[which])
        first = [owner] if is_method and owner is not None else call.args[:1]
        if row.has(Trait.IN_PLACE_OPTION) and "inplace" in keywords and ast.unparse(keywords["inplace"]) != "False":
            changed += first
        if "out" in keywords:
            changed.append(keywords["out"])
        return {p for c in changed if c is not None for p in self.aliases.within(c, ("*",))}

    # Files.

    def _of_files(self, row: Row, call: ast.Call) -> Summary:
        reads, writes = Effect.READS_FILES in row.effects, Effect.WRITES_FILES in row.effects
        to = next((k.value for k in call.keywords if k.arg == "file"), None)
        if Effect.PRINTS in row.effects and to is not None and not self._is_screen(to):
            return Summary(files_written=frozenset({FileUse(call, self._opened(to))}))
        if row.has(Trait.OPENS_TO_WRITE):
            writes = not self._is_for_reading(call)
        elif row.has(Trait.OPENS) and reads and writes and (mode := self._mode(call)) is not None:
            writes = bool(set(mode) & set("wax+"))
            reads = not writes or "+" in mode
        is_set = row.has(Effect.CHANGES_LIBRARY) and row.returns is None
        handlers = self._log_files(call) if is_set else ()
        if is_set and not call.args and all(k.arg != "filename" for k in call.keywords) and not handlers:
            writes = False  # `logging.basicConfig` without a file
        unpacks = row.has(Trait.DOWNLOADS)  # into another place than the archive
        if writes and not unpacks and self._is_only_read(call):
            reads, writes = True, False
        if not reads and not writes:
            return EMPTY
        given = (*call.args, *(k.value for k in call.keywords))
        paths = self._opened_paths(call) if row.has(Trait.OPENS) else (unpacks and given) or self._paths(call)
        log = (call.func.value,) if row.has(Effect.LOGS) and isinstance(call.func, ast.Attribute) else ()
        paths = handlers or paths
        if log and not reads:
            paths = log  # `writer.add_scalar("train/loss", ...)`: the names are those of values
        buffers = [p for p in paths if self.kinds.of(p) == {"buffer"}]
        if buffers and len(buffers) == len(paths):
            return Summary(writes=frozenset(p for b in buffers for p in self.aliases.within(b, ("*",))))
        is_made = row.has(Trait.MAKES_FOLDERS) and not row.has(Trait.OPENS)
        is_folder, is_gone = is_made or row.has(Trait.REMOVES_FOLDERS), row.has(Trait.REMOVES)
        if row.has(Trait.COPIES_FILE) and (ends := self._source_and_target(call)) is not None:
            source, target = (frozenset({FileUse(call, self._opened(end))}) for end in ends)
            gone = frozenset({FileUse(call, self._opened(ends[0]), is_gone=True)}) if is_gone else frozenset[FileUse]()
            return Summary(files_read=source if reads else frozenset(), files_written=target | gone)
        use = frozenset({FileUse(call, paths, is_folder, is_gone)})
        made = frozenset({FileUse(call, log)}) if log else use  # `wandb.save(path)`: a copy, which belongs to the run
        return Summary(files_read=use if reads else frozenset(), files_written=made if writes else frozenset())

    def _log_files(self, call: ast.Call) -> tuple[ast.expr, ...]:
        """The paths of the files among the `handlers=` that a log is given."""
        given = next((k.value for k in call.keywords if k.arg == "handlers"), None)
        held = [v.node for v in self.program.values(given) if isinstance(v, Collection)] if given is not None else []
        items = [item for node in held if isinstance(node, (ast.List, ast.Tuple)) for item in node.elts]
        return tuple(path for item in items if self._opens_files(item) for path in self._opened(item))

    def _is_of_log_file(self, call: ast.Call) -> bool:
        """Whether a method belongs to a handler that writes to a file, or is given one: `logger.addHandler(file)`."""
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        handlers = [node for node in (*owner, *call.args) if "handler" in self.kinds.of(node)]
        return bool(handlers) and all(map(self._opens_files, handlers))

    def _opens_files(self, node: ast.expr) -> bool:
        """Whether each call that may have made an object opens a file."""
        rows = [self.kinds.called(c) or () for c in self._makers(node)]
        return bool(rows) and all(any(r.has(Trait.OPENS) for r in each) for each in rows)

    def _source_and_target(self, call: ast.Call) -> list[ast.expr] | None:
        """The paths from and to which a call copies or moves; None where these are not all plain arguments."""
        method = self.kinds.method(call)
        owner = [method.value] if method is not None else []
        named = {k.arg: k.value for k in call.keywords}
        given = [*owner, *call.args][:2]
        given += [named[name] for name in ("src", "source", "dst", "target", "destination") if name in named]
        return given if len(given) == 2 and not any(isinstance(g, ast.Starred) for g in given) else None

    def _is_screen(self, node: ast.expr) -> bool:
        held = self.kinds.of(node)  # may be both: `log = None`, until it is opened
        return bool(held) and held <= {"stream", "none"}

    @staticmethod
    def _is_for_reading(call: ast.Call) -> bool:
        """Whether a store is opened read-only, has to be there, or gets no room: what is written needs a `map_size`."""
        given = {k.arg: getattr(k.value, "value", None) for k in call.keywords}
        has_room = len(call.args) > 1 or "map_size" in given or None in given
        return given.get("readonly") is True or given.get("create") is False or not has_room

    def _mode(self, call: ast.Call) -> str | None:
        """The mode that is given to an `open`; None where it is not known."""
        named = [k.value for k in call.keywords if k.arg == "mode"]
        given = named or call.args[0 if self.kinds.method(call) is not None else 1 :][:1]
        if not given:
            options = [v for k in call.keywords if k.arg is None for v in self.program.values(k.value) or {None}]
            return None if any(self._may_hold(v, "mode") for v in options) else "r"
        mode = given[0]
        return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else None

    def _may_hold(self, options: Value | None, name: str) -> bool:
        """Whether options may have one of a name: `{"encoding": "utf-8"}` has no mode."""
        flow = self.program.flow
        if not isinstance(options, Collection) or flow.has_open_keys(options):
            return True
        return (options.node, name) in flow.put_by

    def _opened_paths(self, call: ast.Call) -> tuple[ast.expr, ...]:
        """The path of `open(path)`, `open(file=path)` and `path.open()`."""
        if (method := self.kinds.method(call)) is not None:
            return (method.value,)
        named = [k.value for k in call.keywords if k.arg in ("file", "path", "filename")]
        return tuple(call.args[:1] or named)

    def _paths(self, call: ast.Call) -> tuple[ast.expr, ...]:
        """The arguments that may name a file, or be one; of a method without such, the object itself."""
        given = [*call.args, *(k.value for k in call.keywords)]
        method = self.kinds.method(call)
        if method is not None and self.kinds.of(method.value) & {"path", "file", "binary_file", "buffer"}:
            return self._opened(method.value)
        found = [g for g in given if self.kinds.of(g) == {"buffer"}]  # beside a `format="png"`
        found = found or [g for g in given if self.kinds.of(g) & _FILES]
        found = found or [g for g in given if UNKNOWN in self.kinds.of(g)]
        return tuple(p for f in found for p in self._opened(f)) or ((method.value,) if method is not None else ())

    def _is_only_read(self, call: ast.Call) -> bool:
        """Whether a method belongs to a file that was opened to be read: `file.close()`."""
        method = self.kinds.method(call)
        owner = method.value if method is not None else None
        opened = [
            (r, c)
            for c in self._makers(owner)
            if c is not owner
            for r in self.kinds.called(c) or ()
            if r.has(Trait.OPENS)
        ]
        return bool(opened) and not any(self._of_files(row, c).files_written for row, c in opened)

    def _opened(self, node: ast.expr) -> tuple[ast.expr, ...]:
        """A path, or the path of an open file."""
        calls = self._makers(node)
        rows = [self.kinds.called(c) or () for c in calls]
        if not any(r.has(Trait.OPENS) for each in rows for r in each):
            return (node,)
        return tuple(p for c in calls for p in self._opened_paths(c))

    def _makers(self, node: ast.expr | None) -> list[ast.Call]:
        """The calls that may have made an object; not those whose results a name had before, or gets later."""
        calls = [v.node for v in self.program.values(node) if isinstance(v, Made) and isinstance(v.node, ast.Call)]
        others = self._bound_elsewhere(node) if isinstance(node, ast.Name) and len(calls) > 1 else ()
        return [c for c in calls if c not in others]

    def _bound_elsewhere(self, read: ast.Name) -> list[ast.AST]:
        """What a name is given that is not what is read: `with open(a) as f: ...` above `with open(b) as f: ...`."""
        frame, program = self.program.frame(read), self.program
        writes = frame.writes[read.id] if frame.binds(read.id) else []
        others = set(writes).difference(program.reaching(read, writes))
        bound = (program.parent(write) for write in others)
        values = (getattr(b, "value", None) or getattr(b, "context_expr", None) for b in bound)
        return [value for value in values if value is not None]
