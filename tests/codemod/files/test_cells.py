"""Facts about lines as users count them: in a notebook, a cell and a line in it."""

from __future__ import annotations

import json

from accelify.codemod.files.cells import placed, with_places
from accelify.codemod.files.notebook import Notebook
from accelify.codemod.files.parse import parse
from accelify.codemod.result import FileResult, Note, Status, Tier

CELLS = ["import torch\n", "x = 1\ny = 2", "%%writefile a.py\nloss.backward()", "z = 3"]


def notebook() -> tuple[bytes, Notebook]:
    cells = [
        {"cell_type": "code", "metadata": {}, "source": source.splitlines(True), "outputs": [], "execution_count": None}
        for source in CELLS
    ]
    data = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    found = parse("a.ipynb", data).decoded.notebook
    assert found is not None
    return data, found


def line_of(found: Notebook, text: str) -> int:
    return found.python.split("\n").index(text) + 1


def test_places_in_a_text() -> None:
    _, found = notebook()
    line = line_of(found, "y = 2")
    books = {"a.ipynb": found}
    assert "cell 2" in with_places(f"a.ipynb:{line}: odd", books)
    assert with_places("b.py:3: odd", books) == "b.py:3: odd"
    assert with_places(f"see line {line}", books) == f"see line {line}"
    assert with_places(f"see line {line}", books, found) == "see cell 2, line 2"


def test_a_run_of_lines_is_placed_in_its_cell() -> None:
    _, found = notebook()
    first, last, after = line_of(found, "x = 1"), line_of(found, "y = 2"), line_of(found, "z = 3")
    books = {"a.ipynb": found}
    text = f"(lines {first}-{last}, line {after})"
    assert with_places(text, books, found) == "(cell 2, lines 1-2, cell 4, line 1)"
    assert with_places(f"lines {first}-{after}", books, found) == "cell 2, line 1 to cell 4, line 1"
    assert with_places(text, books) == text
    assert with_places("lines 3", books, found) == "lines 3"


def test_notes_are_placed_in_their_cells() -> None:
    data, found = notebook()
    note = Note(line_of(found, "z = 3"), "data", Tier.ADVICE, "why")
    (result,) = placed([FileResult("a.ipynb", Status.UNCHANGED, data, data, notes=(note,))], {"a.ipynb": found})
    own, unread = result.notes
    assert (own.cell, own.line) == (4, 1)
    assert (unread.cell, unread.rule) == (3, "notebooks")


def test_a_declined_notebook_says_nothing_of_cells_that_are_not_read() -> None:
    data, found = notebook()
    (result,) = placed([FileResult("a.ipynb", Status.DECLINED, data, data)], {"a.ipynb": found})
    assert result.notes == ()


def rewritten(*notes: Note, status: Status = Status.UNCHANGED) -> list[FileResult]:
    """The results for a notebook whose second cell gets a line more, and for a file with notes."""
    data, found = notebook()
    after = found.with_python(found.python.replace("y = 2", "y = 2\ny += 1")).encode()
    own = Note(2, "data", Tier.ADVICE, "why", shows=(f"a.ipynb:{line_of(found, 'z = 3') + 1}",))
    results = [
        FileResult("a.ipynb", Status.MIGRATED, data, after, notes=(own,)),
        FileResult("b.py", status, b"", b"", notes=notes),
    ]
    return placed(results, {"a.ipynb": found})


def test_notes_count_the_lines_of_a_rewritten_notebook_in_every_file() -> None:
    line = line_of(notebook()[1], "y = 2")
    own, other = rewritten(
        Note(3, "data", Tier.ADVICE, f"see a.ipynb:{line + 1}", shows=(f"a.ipynb:{line}",)),
        Note(4, "data", Tier.ADVICE, f"see a.ipynb:{line}", evidence=(f"made at a.ipynb:{line + 2}",)),
    )
    assert own.notes[0].shows == ("a.ipynb:cell 4, line 1",)
    first, second = other.notes
    assert (first.message, first.shows) == ("see a.ipynb:cell 2, line 3", ("a.ipynb:cell 2, line 2",))
    assert second.message == "see a.ipynb:cell 2, line 2"
    assert second.evidence == ("made at a.ipynb:cell 2, line 2",)


def test_reasons_of_a_declined_file_count_the_lines_of_the_notebook_as_it_was() -> None:
    line = line_of(notebook()[1], "z = 3")
    assert rewritten(Note(3, "data", Tier.ADVICE, f"see a.ipynb:{line}"), status=Status.DECLINED)[1].notes[
        0
    ].message == ("see a.ipynb:cell 4, line 1")


def test_other_files_stay_as_they_are() -> None:
    result = FileResult("a.py", Status.UNCHANGED, b"", b"", notes=(Note(3, "data", Tier.ADVICE, "why"),))
    assert placed([result], {}) == [result]
    assert placed([result], {"b.ipynb": notebook()[1]})[0].notes[0].line == 3
