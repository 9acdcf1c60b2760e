"""Which writes go to files of one rank's own, by names that come from its items of a sharded loop?

    for name, x in loader:
        cv2.imwrite(f"{name}.png", x)

Every rank has other names, and so writes other files. A value that a model has given is no such name: of
`f"{loss:.3f}.pt"`, whatever it is on other ranks, one file is meant. A function that writes may be called with both.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from enum import Enum, auto

from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.libraries import methods, names
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.semantics.contents import Kept
from accelify.codemod.semantics.definitions import Definition, Kind

_LOOPS = (ast.For, ast.AsyncFor, ast.comprehension)
_TEXT = frozenset({"string", "path"})


class _Part(Enum):
    """The origin of a part of a path."""

    ITEM = auto()
    MODEL = auto()


_Parts = frozenset[_Part]
_Place = tuple[ast.expr, ast.Call | None]  # an expression, and the call that runs its function, where only one counts
_NONE: _Parts = frozenset()


class OwnPaths:
    """Follow the parts of a path to the loops that they come from."""

    def __init__(self, alone: OneProcess, ranks: Ranks) -> None:
        self.alone = alone
        self.program = alone.program
        self.ranks = ranks
        self.chains = ranks.chains
        self._kept = ranks.program.once(Kept)
        self._known: dict[_Place, _Parts] = {}

    def is_written(self, call: ast.Call) -> bool:
        """Whether a call writes to such a file; where its path is unknown, all that may be it has to be its own."""
        return any(
            any(self._holds_item(p) for p in use.paths) and all(self._is_of_a_batch(p) for p in use.paths)
            for use in self.alone.effects.of_call(call).files_written
            if not use.is_folder and use.call is call
        )

    def common_calls(self, call: ast.Call) -> frozenset[ast.Call]:
        """The calls of the function round such a write by which it writes a file that all ranks name alike."""
        frame = self.program.frame(call)
        uses = self.alone.effects.of_call(call).files_written
        paths = [p for use in uses if use.call is call for p in use.paths]
        calls = self.program.calls_of(frame) if frame.kind == "function" else ()
        return frozenset(c for c in calls if not any(_Part.ITEM in self._parts(p, c) for p in paths))

    def is_for_all_items(self, call: ast.Call) -> bool:
        """Whether a call that makes items writes to a file of one name, of constants and of what its object holds."""
        paths = [p for use in self.alone.effects.of_call(call).files_written if use.call is call for p in use.paths]
        return bool(paths) and all(map(self._is_for_all, paths))

    def _is_for_all(self, path: ast.expr) -> bool:
        given = [g for g in self.ranks.parts_of(path)[1] if g.at is None and g.scope is self.program.frame(path)]
        calls = (n for n in ast.walk(path) if isinstance(n, ast.Call))
        is_known = all(any(row.is_pure for row in self.chains.kinds.called(c) or ()) for c in calls)
        return is_known and not given and not self._is_of_a_batch(path)

    def _is_of_a_batch(self, node: ast.expr) -> bool:
        return bool(self.ranks.of(node).of(Mark.BATCH))

    def _holds_item(self, path: ast.expr) -> bool:
        return self._is_of_a_batch(path) and _Part.ITEM in self._parts(path)

    def _parts(self, node: ast.expr, by: ast.Call | None = None) -> _Parts:
        """The parts that a path is made of; `by`: in a function that this call runs."""
        if (node, by) not in self._known:
            self._solve((node, by))
        return self._known[node, by]

    def _solve(self, start: _Place) -> None:
        """Find the parts of an expression, and of all that it is made of."""
        made_of: dict[_Place, tuple[_Parts, list[_Place]]] = {}
        holders: dict[_Place, list[_Place]] = {}
        queue = [start]
        while queue:
            place = queue.pop()
            if place not in made_of and place not in self._known:
                made_of[place] = self._made_of(*place)
                for part in made_of[place][1]:
                    holders.setdefault(part, []).append(place)
                    queue.append(part)

        def holding(part: _Part, without: Collection[_Place]) -> set[_Place]:
            found = {p for p in holders if part in self._known.get(p, _NONE)}
            waiting = [*(p for p, (own, _) in made_of.items() if part in own), *(h for p in found for h in holders[p])]
            while waiting:
                place = waiting.pop()
                if place not in found and place not in without:
                    found.add(place)
                    waiting += holders.get(place, ())
            return found

        of_model = holding(_Part.MODEL, ())
        named = holding(_Part.ITEM, {p for p in of_model & made_of.keys() if not self._is_text(p[0])})
        for place in made_of:
            parts = ((_Part.ITEM, named), (_Part.MODEL, of_model))
            self._known[place] = frozenset(part for part, holding_it in parts if place in holding_it)

    def _is_text(self, node: ast.expr) -> bool:
        """Whether an expression is a text, which shows each of its parts: of a number that a model gave, nothing."""
        return isinstance(node, (ast.JoinedStr, ast.FormattedValue)) or self.chains.kinds.of(node) <= _TEXT

    def _made_of(self, node: ast.expr, by: ast.Call | None) -> tuple[_Parts, list[_Place]]:
        """What is known of an expression by itself, and the expressions that it is made of besides."""
        if isinstance(node, ast.Constant) or not self._is_of_a_batch(node):
            return _NONE, []
        if isinstance(node, ast.Name):
            found = [self._given(d, by) for d in self.chains.definitions(node)]
            return _NONE.union(*(own for own, _ in found)), [place for _, places in found for place in places]
        if isinstance(node, ast.Call) and self.alone.runs_together(node):
            return frozenset({_Part.MODEL}), []
        return _NONE, [(n, by) for n in _expressions(node)]

    def _given(self, definition: Definition, by: ast.Call | None) -> tuple[_Parts, list[_Place]]:
        """The same of what a definition gives its variable."""
        node = definition.node
        if definition.kind is Kind.PARAMETER:
            scope, name = definition.variable.scope, definition.variable.name
            calls = self.program.calls_of(scope) if scope is not None else ()
            calls = [by] if by is not None and by in calls else calls
            given = [self.chains.given(c, scope, name) for c in calls if scope is not None]
            return _NONE, [(g, None) for g in given if g is not None]
        if definition.kind is Kind.LOOP:
            holder = next(a for a in self.program.ancestors(node) if isinstance(a, _LOOPS))
            if holder in self.ranks.loops:
                return frozenset({_Part.ITEM}), []
            source, several = self._source(holder, node)
            keys = self._keys(source, several, node)
            return _NONE, [(part, by) for part in ([source] if keys is None else keys)]
        value = getattr(self.program.statement(node), "value", None)
        return (_NONE, [(value, by)]) if isinstance(value, ast.expr) else (frozenset({_Part.MODEL}), [])

    def _keys(self, source: ast.expr, several: ast.expr, target: ast.AST) -> list[ast.expr] | None:
        """The keys of a dict, where a loop gives these to a variable: `for name, x in images.items()`; or else None.

        A batch has the same keys on all ranks.
        """
        method, way = source.func if isinstance(source, ast.Call) else None, None
        if isinstance(method, ast.Attribute):
            source, way = method.value, methods.passes(method.attr)
        if way == "items" and isinstance(several, ast.Tuple):
            several, way = several.elts[0], "keys"
        if several is not target or way not in (None, "keys"):
            return None
        keys = self._kept.keys(source)
        return [] if keys is None and way == "keys" and self._is_batch(source) else keys

    def _is_batch(self, node: ast.expr) -> bool:
        """Whether an expression is all that a loader gives in a round of a sharded loop."""
        definitions = self.chains.definitions(node) if isinstance(node, ast.Name) else ()
        rounds = (self.program.binding(d.node)[1] for d in definitions if d.kind is Kind.LOOP)
        return bool(definitions) and sum(r in self.ranks.loops for r in rounds) == len(definitions)

    def _source(self, holder: ast.For | ast.AsyncFor | ast.comprehension, target: ast.AST) -> tuple[ast.expr, ast.expr]:
        """What a loop iterates over for one of its variables, and what it gives the items to.

        `y` and `a` for `a` in `for a, b in zip(y, z)`.
        """
        source, several = holder.iter, holder.target
        while isinstance(source, ast.Call) and isinstance(several, ast.Tuple):
            at = next((i for i, e in enumerate(several.elts) if target in ast.walk(e)), 0)
            way = next(map(names.iteration, self.program.called(source)), None)
            place = at if way == "zip" else 0 if way == "enumerate" else len(source.args)
            if place >= len(source.args):
                break
            source, several = source.args[place], several.elts[at]
        return source, several


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions right below one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, (ast.keyword, ast.comprehension)):
            yield from _expressions(child)


def is_named_apart(ranks: Ranks, load: ast.Call, path: ast.expr) -> bool:
    """Whether a path that is read after the training is made, or chosen, by the values of one rank's own batches."""
    program = ranks.program
    is_in_round = not ranks.rounds.isdisjoint(program.loops_round(load))
    is_in_round = is_in_round or ranks.running.loop_that_runs(program.frame(load)) is not None
    own = ranks.of(path).of(Mark.BATCH, Mark.CHOSEN, Mark.RUNNING)
    return not is_in_round and any(origin.differs for origin in own)


def named_apart(path: ast.expr, speaker: str | None) -> str:
    """The note on a file that each process looks for under its own name. speaker: the accelerator that may give one."""
    message = (
        "each process names this file by its own data, and only the main process has saved it: the others "
        "may look for files that are not there. Name it by what is reduced, or give all processes one name"
    )
    if speaker is not None:
        name = ast.unparse(path) if isinstance(path, (ast.Name, ast.Attribute)) else "name"
        message += f", as in `{name} = {speaker}.broadcast_object_list([{name}])[0]`"
    return message
