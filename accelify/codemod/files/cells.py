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
    return [_placed(result, notebooks) for result in results] if notebooks else list(results)


def with_places(text: str, notebooks: Mapping[str, Notebook], own: Notebook | None = None) -> str:
    """A text with the places in it as users count them; `own` is where a line stands whose file is not named."""

    def place_of(match: re.Match[str]) -> str:
        path, line, plain = match.groups()
        if path is not None:
            cell, inside = notebooks[path].place(int(line))
            return place(path, inside, cell=cell)
        return "cell {}, line {}".format(*own.place(int(plain))) if own is not None else match[0]

    paths = "|".join(map(re.escape, notebooks))
    return re.sub(rf"(?<![\w/])({paths}):(\d+)|\bline (\d+)", place_of, text)


def _placed(result: FileResult, notebooks: Mapping[str, Notebook]) -> FileResult:
    own = notebooks.get(result.path)
    after = own
    if own is not None and result.status is Status.MIGRATED:
        after = parse(result.path, result.after).decoded.notebook

    def say(text: str, notebook: Notebook | None) -> str:
        return with_places(text, notebooks, notebook)

    def moved(found: Found, notebook: Notebook | None) -> Found:
        found = replace(found, evidence=tuple(say(e, own) for e in found.evidence))
        if notebook is None:
            return found
        cell, line = notebook.place(found.line)
        found = replace(found, cell=cell, line=line)
        return replace(found, also=()) if isinstance(found, Note) else found  # the message names their cells

    changes = tuple(replace(moved(c, own), reason=say(c.reason, own)) for c in result.changes)
    notes = [
        replace(moved(n, after), message=say(n.message, after), shows=tuple(say(s, after) for s in n.shows))
        for n in result.notes
    ]
    if after is not None and result.status is not Status.DECLINED:
        notes += [Note(1, "notebooks", Tier.ADVICE, _UNREAD, cell=number) for number in after.unread]
    return replace(result, changes=changes, notes=tuple(notes))
