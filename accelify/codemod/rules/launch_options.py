"""Remove the options that only said how the script starts its processes.

    parser.add_argument("--dist-url", ...)                 ->    (nothing)
    args.world_size = ngpus * args.world_size              ->    (nothing)
    dist.init_process_group(init_method=args.dist_url)     ->    dist.init_process_group()

Why: `accelify launch` has options of its own for all of it, and one that does nothing would mislead.
Left alone: settings that are read for anything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.distributed.conditions import Key
from accelify.codemod.distributed.findings import option_of, stays_for
from accelify.codemod.distributed.launched import Launched
from accelify.codemod.edits.values import (
    Change,
    DropArgument,
    DropParameter,
    Edit,
    Insert,
    Remark,
    Remove,
)
from accelify.codemod.leftovers import taken_out
from accelify.codemod.result import Tier
from accelify.codemod.semantics.effects.effects import Effects

NAME = "launch_options"
_REASON = "the launcher sets the number of processes and how they connect"


def find(script: Launched) -> Iterator[Change | Remark]:
    """A change for each setting, and for what the process group was started with."""
    started = list(_started(script))
    found = list(_settings(script, _Settings(script, taken_out([*script.changes, *started]))))
    yield from started
    yield from found
    yield from _parameters(script, [*script.changes, *started, *(one for one in found if isinstance(one, Change))])


def _started(script: Launched) -> Iterator[Change]:
    for call in script.launching.starts:
        drops = tuple(DropArgument(call, a) for a in [*call.args, *(k.value for k in call.keywords)])
        if drops:
            yield Change(NAME, script.path(call), call.lineno, _REASON, drops)
    for call, given in script.launching.told_samplers.items():
        drops = tuple(DropArgument(call, argument) for argument in given)
        yield Change(NAME, script.path(call), call.lineno, "a sampler asks the process group itself", drops)


def _settings(script: Launched, settings: _Settings) -> Iterator[Change | Remark]:
    for after, target, word in script.edits.numbers:
        if settings.is_read(target):
            code = f"{ast.unparse(target)} = {script.group(after)}.{word}()"
            reason = "the accelerator knows the rank of the process"
            yield Change(NAME, script.path(after), after.lineno, reason, (Insert(after, "after", code),))
    for statement in settings.statements():
        yield Change(NAME, script.path(statement), statement.lineno, _REASON, (Remove(statement),))
    for call, option in settings.options():
        statement = script.program.statement(call)
        yield Change(NAME, script.path(call), call.lineno, _REASON, (Remove(statement),), Tier.REVIEW)
        message = "{} is removed: `accelify launch` has its own options for this"
        yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, about=f"`{option}`")
    for call, option, readers in settings.kept:
        yield Remark(NAME, script.path(call), call, stays_for(option, readers), Tier.REVIEW)


def _parameters(script: Launched, changes: list[Change]) -> Iterator[Change]:
    """A parameter that only said whether there are several processes goes from its function and from every call."""
    flow, gone = script.program.flow, taken_out(changes)
    dropped = {(e.node, e.name) for c in changes for e in c.edits if isinstance(e, DropParameter)}
    for function in {f for functions in flow.callees.values() for f in functions} - flow.escaped:
        node = function.node
        for parameter in function.parameters:
            reads = [n for s in function.walk() for n in s.reads.get(parameter.arg, ()) if s.owner(n.id) is function]
            if (
                not reads
                or any(n not in gone for n in reads)
                or (node, parameter.arg) in dropped
                or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            ):
                continue
            edits: dict[str, list[Edit]] = {function.module: [DropParameter(node, parameter.arg)]}
            for call in flow.callers.get(function, ()):
                argument = script.tracer.written(call, function, parameter.arg)
                if argument is not None and call not in gone:
                    edits.setdefault(script.path(call), []).append(DropArgument(call, argument))
            for path, listed in edits.items():
                yield Change(NAME, path, node.lineno, f"`{parameter.arg}` is no longer used", tuple(listed))


class _Settings:
    """The attributes that nothing reads any more, but where other such attributes are set."""

    def __init__(self, script: Launched, gone: set[ast.AST]) -> None:
        self.script = script
        self.effects = script.program.once(Effects)
        self.gone = gone
        self.loads: dict[Key, list[ast.Attribute]] = {}
        self.stores: dict[Key, list[ast.Attribute]] = {}
        for node in script.launching.place.nodes():
            key = script.launching.key(node) if isinstance(node, ast.Attribute) else None
            if isinstance(node, ast.Attribute) and key is not None and isinstance(key[0], str):
                into = self.loads if isinstance(node.ctx, ast.Load) else self.stores
                into.setdefault(key, []).append(node)
        self.dead = {k for k, nodes in self.loads.items() if any(n in gone for n in nodes)}
        self._bury()
        while further := self._only_for_dead():
            self.dead |= further
            self._bury()
        self.kept = tuple(self._keep_for_others())
        self._bury()

    def _bury(self) -> None:
        """Leave those that nothing which stays needs."""
        while alive := {k for k in self.dead if not self._is_dead(k)}:
            self.dead -= alive

    def _only_for_dead(self) -> set[Key]:
        """Further settings, which are read for nothing but dead ones: `args.nodes` of `args.world_size`."""
        options = {option[1] for call in self.script.launching.calls if (option := option_of(call)) is not None}
        return {k for k in self.loads if k not in self.dead and k[-1] in options and self._is_dead(k)}

    def _keep_for_others(self) -> Iterator[tuple[ast.Call, str, list[str]]]:
        """The options that files outside the program read, with these files; they are not dead."""
        place = self.script.launching.place
        options = {attribute: (call, option) for call, option, attribute in self._options()}
        for key in sorted(self.dead, key=str):
            attribute = str(key[-1])
            nodes = [*self.stores.get(key, ()), *options.get(attribute, ())[:1]]
            readers = sorted({path for node in nodes for path in place.readers(node, attribute)})
            if readers:
                self.dead.discard(key)
                yield from [(*options[attribute], readers)] if attribute in options else ()

    def _read_otherwise(self) -> set[object]:
        """The dead settings that what stays also reads of something else, as the options may be: by name, or all."""
        alive = {k[-1] for k, nodes in self.loads.items() if k not in self.dead and not self.gone.issuperset(nodes)}
        place = self.script.launching.place
        for call in (n for n in place.nodes() if isinstance(n, ast.Call) and n not in self.gone):
            if any(k.arg is None and _is_all_of_an_object(k.value) for k in call.keywords):
                return {k[-1] for k in self.dead}
            if option_of(call) is None:
                alive.update(a.value for a in call.args if isinstance(a, ast.Constant))
        slices = [n.slice for n in place.nodes() if isinstance(n, ast.Subscript) and n not in self.gone]
        return alive.union(s.value for s in slices if isinstance(s, ast.Constant))

    def is_read(self, target: ast.expr) -> bool:
        """Whether something reads what a name or an attribute holds."""
        key = self.script.launching.key(target)
        nodes = self.loads.get(key, []) if isinstance(target, ast.Attribute) and key is not None else self._names(key)
        return key not in self.dead and any(n not in self.gone for n in nodes)

    def _names(self, key: Key | None) -> list[ast.expr]:
        found = [n for n in self.script.launching.place.nodes() if isinstance(n, ast.Name)]
        return [n for n in found if isinstance(n.ctx, ast.Load) and self.script.launching.key(n) == key]

    def _is_dead(self, key: Key) -> bool:
        stores = [s for s in self.stores.get(key, ()) if s not in self.gone]
        loads = [n for n in self.loads[key] if n not in self.gone]
        return all(self._sets_dead(self.script.program.statement(s)) for s in stores) and all(
            self._is_for_dead(n) for n in loads
        )

    def _sets_dead(self, statement: ast.stmt) -> bool:
        return (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Attribute)
            and self.script.launching.key(statement.targets[0]) in self.dead
            and self.effects.changes_nothing(statement.value)
        )

    def _is_for_dead(self, node: ast.Attribute) -> bool:
        statement = self.script.program.statement(node)
        return self._sets_dead(statement) or self._is_empty(statement)

    def _is_empty(self, statement: ast.stmt) -> bool:
        """Whether a condition only sets what nothing reads."""
        return (
            isinstance(statement, ast.If)
            and self.effects.changes_nothing(statement.test)
            and all(
                s in self.gone or self._sets_dead(s) or self._is_empty(s) for s in [*statement.body, *statement.orelse]
            )
        )

    def statements(self) -> Iterator[ast.stmt]:
        """The statements that set them; a condition that does nothing else goes whole."""
        found: list[ast.stmt] = []
        for key in self.dead:
            for store in self.stores.get(key, ()):
                statement: ast.AST | None = self.script.program.statement(store)
                while self._is_empty(outer := self.script.program.parent(statement)):  # type: ignore[arg-type]  # asked of any node
                    statement = outer
                if statement not in found and statement not in self.gone:
                    found.append(statement)  # type: ignore[arg-type]  # a statement, or a condition round it
        yield from sorted(found, key=self.script.program.position)

    def options(self) -> Iterator[tuple[ast.Call, str]]:
        """The options that the command line had for them."""
        yield from ((call, option) for call, option, _ in self._options())

    def _options(self) -> Iterator[tuple[ast.Call, str, str]]:
        """These options, each with its attribute."""
        attributes = {k[-1] for k in self.dead} - self._read_otherwise()
        for call in filter(self.script.launching.place.is_alone, self.script.launching.calls):
            option = option_of(call)
            if option is not None and option[0].startswith("-") and option[1] in attributes:
                yield call, *option


def _is_all_of_an_object(node: ast.expr) -> bool:
    """`vars(args)` or `args.__dict__`."""
    is_vars = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars"
    return is_vars or (isinstance(node, ast.Attribute) and node.attr == "__dict__")
