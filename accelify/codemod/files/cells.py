"""Lines as users count them in results: in a notebook, a cell and a line in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from accelify.codemod.files.notebook import Notebook
from accelify.codemod.files.parse import parse
from accelify.codemod.result import ChangeRecord, FileResult, Note, Status, Tier
from accelify.errors import place

Found = TypeVar("Found", ChangeRecord, Note)
_UNREAD = "this cell is not read because its magic runs it elsewhere: training in it is not migrated"


def placed(results: Iterable[FileResult], notebooks: Mapping[str, Notebook]) -> list[FileResult]:
    """Results whose lines in notebooks name their cells, and what is to be said of notebooks only."""
    results = list(results)
    if not notebooks:
        return results
    rewritten = {r.path: r.after for r in results if r.path in notebooks and r.status is Status.MIGRATED}
    new = {path: parse(path, after).decoded.notebook for path, after in rewritten.items()}
    after = {path: new.get(path) or old for path, old in notebooks.items()}
    return [_placed(r, notebooks, notebooks if r.status is Status.DECLINED else after) for r in results]


def with_places(text: str, notebooks: Mapping[str, Notebook], own: Notebook | None = None) -> str:
    """A text with the places in it as users count them; `own` is where a line stands whose file is not named."""

    def place_of(match: re.Match[str]) -> str:
        path, line, plain, first, last = match.groups()
        if path is not None:
            cell, inside = notebooks[path].place(int(line))
            return place(path, inside, cell=cell)
        if own is None:
            return match[0]
        if plain is not None:
            return "cell {}, line {}".format(*own.place(int(plain)))
        (cell, begin), (last_cell, end) = own.place(int(first)), own.place(int(last))
        within = f"lines {begin}-{end}" if cell == last_cell else f"line {begin} to cell {last_cell}, line {end}"
        return f"cell {cell}, {within}"

    paths = "|".join(map(re.escape, notebooks))
    return re.sub(rf"(?<![\w/])({paths}):(\d+)|\bline (\d+)|\blines (\d+)-(\d+)", place_of, text)


def _placed(result: FileResult, before: Mapping[str, Notebook], after: Mapping[str, Notebook]) -> FileResult:
    """A result with its places: notes count the lines of every file after the rewrite, changes those before it."""
    old, new = before.get(result.path), after.get(result.path)

    def moved(found: Found, notebook: Notebook | None) -> Found:
        found = replace(found, evidence=tuple(with_places(e, before, old) for e in found.evidence))
        if notebook is None:
            return found
        cell, line = notebook.place(found.line)
        found = replace(found, cell=cell, line=line)
        return replace(found, also=()) if isinstance(found, Note) else found  # the message names their cells

    def say(text: str) -> str:
        return with_places(text, after, new)

    changes = tuple(replace(moved(c, old), reason=with_places(c.reason, before, old)) for c in result.changes)
    notes = [replace(moved(n, new), message=say(n.message), shows=tuple(say(s) for s in n.shows)) for n in result.notes]
    if new is not None and result.status is not Status.DECLINED:
        notes += [Note(1, "notebooks", Tier.ADVICE, _UNREAD, cell=number) for number in new.unread]
    return replace(result, changes=changes, notes=tuple(notes))
