"""Notebooks: cells are one program, and nothing but the sources of changed cells is different afterwards."""

from __future__ import annotations

import json
from typing import Any  # JSON

import pytest

from accelify.codemod.files.diff import unified_diff
from accelify.codemod.files.notebook import Notebook, cell_magic, is_read, masked, read, without_sources
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_source
from accelify.errors import CannotParse
from tests.codemod.notebooks import CELLS, IMPORTS, OPTIMIZER, SETUP, TRAINING, content, sources, written

AFTER = [
    "# A title",
    IMPORTS.replace("import torch\n", "import torch\nfrom accelify.runtime import Accelerator\n")
    + "\n\naccelerator = Accelerator()",
    SETUP.split("\n", 1)[1].replace(".to(device)", ""),
    OPTIMIZER + "\nloader, model, optimizer = accelerator.prepare(loader, model, optimizer)",
    TRAINING.replace("    x, y = x.to(device), y.to(device)\n", "").replace(
        "loss.backward()", "accelerator.backward(loss)"
    ),
]


def run(data: bytes) -> FileResult:
    """The result for a notebook, whose second rewrite changes nothing."""
    result = rewrite_source("book.ipynb", data, Options())
    if result.status is Status.MIGRATED:
        again = rewrite_source("book.ipynb", result.after, Options())
        assert again.status is Status.UNCHANGED
        assert again.after == result.after
    return result


def after(data: bytes) -> bytes:
    result = run(data)
    assert result.status is Status.MIGRATED, (result.error, result.notes)
    return result.after


def test_cells_are_edited_as_one_program() -> None:
    data = written(content(*CELLS))
    assert sources(after(data)) == AFTER


@pytest.mark.parametrize("as_string", [False, True])
@pytest.mark.parametrize(
    "style",
    [
        {"indent": 1},
        {"indent": 2, "sort_keys": True},
        {"indent": "\t", "ensure_ascii": True},
        {"indent": None},
        {"indent": None, "separators": (",", ":")},
    ],
)
def test_the_rest_of_the_json_stays_as_it_is_written(style: dict[str, Any], as_string: bool) -> None:
    """The bytes are those that the same writer would have written of the new cells, outputs and counts included."""
    cells = [f"{cell}\nprint('é \\u00e9 \\\\n \U0001f600')" for cell in CELLS[1:]]
    new = [f"{cell}\nprint('é \\u00e9 \\\\n \U0001f600')" for cell in AFTER[1:]]
    last = cells[0].splitlines()[-1]
    new[0] = f"{AFTER[1]}\n\n{last}"
    new[2] = f"{AFTER[3]}\n{last}"
    got = after(written(content(*cells, as_string=as_string), **style))
    assert got == written(content(*new, as_string=as_string), **style)


def test_odd_json_around_the_cells_stays() -> None:
    plain = written(content(*CELLS))
    odd = plain.replace(b'"nbformat": 4', b'"nbformat" :4.0 , "x\\/y" : [NaN, -0.0,1E5, "\\u00e9"]').rstrip(b"\n")
    odd = odd.replace(b'"text": ["', b'"text": [ "')
    assert after(b"\xef\xbb\xbf" + odd.replace(b"\n", b"\r\n")) == b"\xef\xbb\xbf" + after(plain).replace(
        b'"nbformat": 4', b'"nbformat" :4.0 , "x\\/y" : [NaN, -0.0,1E5, "\\u00e9"]'
    ).rstrip(b"\n").replace(b"\n", b"\r\n")


def test_lines_that_stay_in_a_changed_cell_keep_their_escapes() -> None:
    data = written(content(*CELLS, SETUP.replace("cuda", "cuda"))).replace(b"loss {loss", b"lo\\u0073s {loss")
    assert b"lo\\u0073s {loss" in after(data)


def test_windows_line_ends_in_cells_stay() -> None:
    cells = [cell.replace("\n", "\r\n") for cell in CELLS]
    assert sources(after(written(content(*cells)))) == [cell.replace("\n", "\r\n") for cell in AFTER]


def test_worksheets_of_nbformat_3() -> None:
    book = content(*CELLS)
    cells = [{("input" if k == "source" else k): v for k, v in cell.items()} for cell in book["cells"]]
    old = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}
    got = json.loads(after(written(old)))["worksheets"][0]["cells"]
    assert ["".join(cell["input"]) for cell in got] == AFTER


MAGICS = [
    "!pip install -q \\\n    torch  # it's here",
    "files = !ls *.py\nhere = %pwd\nfor name in files:\n    !echo {name} ' $HOME\n    %timeit -n 1 len(name)",
    "?torch.nn\nmodel??\ntorch.*ones?\npip install it's\n%time print(1) ; print(2)",
    "%%bash\nif [ -d x ]; then echo 'it is'; fi",
    "%%writefile train.py\nloss.backward()",
    "\n%%capture out\nprint('''\n%not magic\n!nor this\n''')\nprint(\n    7\n    % 4)",
    "cd/content/gdrive/My Drive/x\nls/content/my files\npwd\nls\nenv A=3",
    "text = 'who?'  # why?\nsame = text != 'x'",
    "# only text",
    "",
    "\n\n",
]


def test_magics_and_commands_stay_byte_for_byte() -> None:
    data = written(content(*CELLS[:2], *MAGICS, *CELLS[2:], *MAGICS))
    assert sources(after(data)) == [*AFTER[:2], *MAGICS, *AFTER[2:], *MAGICS]


@pytest.mark.parametrize(("indent", "first"), [("    ", ""), ("\t", "\n \n"), (" ", "\r\n")])
def test_the_indentation_of_a_cell_s_first_line_stays(indent: str, first: str) -> None:
    """IPython takes it off all lines that have it."""

    def indented(cell: str) -> str:
        return first + "".join(indent + line if line.strip() else line for line in cell.splitlines(keepends=True))

    data = written(content(*map(indented, CELLS)))
    got = sources(after(data))
    assert [cell.replace("\r", "") for cell in got] == [indented(cell).replace("\r", "") for cell in AFTER]
    text = f"{indent}print('''\nat its margin\n{indent}in it''')\n{indent}%pwd\n\n{indent}!ls {{x}}  "
    assert sources(after(written(content(*CELLS, text))))[-1] == text


def test_what_a_magic_runs_is_python() -> None:
    got = sources(
        after(written(content(*CELLS, "if True:\n    %time -n 2 torch.save(model.state_dict(), 'model.pt')")))
    )
    assert got[-1] == "if True:\n    %time -n 2 accelerator.save(model.state_dict(), 'model.pt')"


def test_a_name_that_a_command_reads_stays() -> None:
    got = sources(after(written(content(*CELLS, "!echo {device} $lr"))))
    assert got[-1] == "!echo {device} $lr"
    assert got[2].startswith("device = accelerator.device\n")
    got = sources(after(written(content(*CELLS, "%%timeit -n 1\nmodel(torch.randn(1, 4, device=device))"))))
    assert got[2].startswith("device = accelerator.device\n")


def test_definitions_may_come_in_any_cell_before_their_use() -> None:
    step = "\n".join(["def step(x, y):", *TRAINING.split("\n")[3:-1]])
    got = sources(after(written(content(IMPORTS, step, SETUP, OPTIMIZER, "for x, y in loader:\n    step(x, y)"))))
    assert "    accelerator.backward(loss)\n" in got[1]
    assert got[4] == "for x, y in loader:\n    step(x, y)"


def test_a_cell_that_loses_all_it_held_is_empty() -> None:
    got = json.loads(after(written(content(*CELLS[:3], "model.to(device)", *CELLS[3:]))))
    assert got["cells"][3]["source"] == []


def test_results_name_cell_and_line() -> None:
    result = run(written(content(*CELLS)))
    assert {(c.cell, c.line) for c in result.changes if c.rule == "backward"} == {(5, 6)}
    (prepared,) = (c for c in result.changes if c.rule == "prepare")
    assert "optimizer (optimizer, cell 4, line 1)" in prepared.reason
    assert any("at book.ipynb:cell 3, line 5" in fact for fact in prepared.evidence), prepared.evidence
    (size,) = (note for note in result.notes if note.rule == "batch_size")
    assert "the cells 2 to 5" in size.message
    assert (size.cell, size.line) == (3, 3)


def test_a_cell_that_is_not_read_is_told_if_it_trains() -> None:
    for cells, status in ((CELLS, Status.MIGRATED), (CELLS[:2], Status.UNCHANGED)):
        result = run(written(content(*cells, "%%writefile train.py\nloss.backward()")))
        assert result.status is status
        assert [note.cell for note in result.notes if "not read" in note.message] == [len(cells) + 1]


def test_a_declined_notebook_names_cells() -> None:
    result = run(written(content(*CELLS, "import torch.distributed as dist\ndist.init_process_group('gloo')")))
    assert result.status is Status.DECLINED
    assert [(note.cell, note.line) for note in result.notes] == [(3, 4)]


def test_the_diff_is_one_for_each_changed_cell() -> None:
    data = written(content(*CELLS))
    diff = unified_diff("book.ipynb", data, after(data)).decode()
    assert [line for line in diff.splitlines() if line.startswith("+++")] == [
        f"+++ b/book.ipynb:cell {number}\t" for number in (2, 3, 4, 5)
    ]
    assert "-    loss.backward()\n+    accelerator.backward(loss)\n" in diff
    assert "No newline" not in diff


@pytest.mark.parametrize(
    ("data", "line", "cell", "message"),
    [
        (b'{"cells": [\n<<<<<<< HEAD', 2, None, "not valid JSON"),
        (b'["torch"]', None, None, "no notebook"),
        (b'{"cells": [], "torch": ' + b"1" * 10_000 + b"}", None, None, "thousands of digits"),
        (written(content("torch")).replace(b'"torch"', b"5"), 1, 1, "neither a text nor a list of lines"),
        (b'{"cells": {"torch": 1}}', None, None, "no notebook"),
        (written(content(*CELLS, "x = 1\nprint 'x'")), 2, 6, "Python 2"),
        (written(content(*CELLS, "x = 1\n  y = 2")), 2, 6, "unexpected indent"),
        (written(content("x = '''", *CELLS, "y = '''")), 1, 1, "left open"),
        (written(content("x = (\n", *CELLS)), 1, 1, "never closed"),
    ],
)
def test_what_is_no_python_notebook_is_an_error(data: bytes, line: int, cell: int, message: str) -> None:
    result = run(data)
    assert result.status is Status.ERROR
    assert result.error is not None
    assert (result.error.line, result.error.cell) == (line, cell)
    assert message in result.error.message


def test_another_language_is_left_alone() -> None:
    book = content(*CELLS)
    book["metadata"] = {"kernelspec": {"language": "R", "name": "ir", "display_name": "R"}}
    assert run(written(book)).status is Status.UNCHANGED


# Facts of notebooks, without a rewrite.


def book(*cells: str) -> Notebook:
    return read(written(content(*cells)).decode(), "book.ipynb")


def test_lines_of_the_python_text_and_of_cells() -> None:
    found = book("a = 1\nb = 2", "c = 3")
    lines = found.python.split("\n")
    assert found.place(lines.index("b = 2") + 1)[1] == 2
    assert found.place(lines.index("c = 3") + 1) == (found.cells[1].number, 1)
    assert found.line(found.cells[0].number, 2) == 2
    assert found.line(found.cells[0].number, 3) is None
    assert found.line(99, 1) is None


def test_cells_get_their_new_python() -> None:
    found = book("a = 1", "b = 2")
    assert found.with_python(found.python) == found.text
    assert book("a = 1", "b = 3").text == found.with_python(found.python.replace("b = 2", "b = 3"))
    with pytest.raises(CannotParse, match="run into"):
        found.with_python("a = 1\nb = 2\n")


@pytest.mark.parametrize(
    ("source", "is_python", "magic"),
    [("a = 1", True, ""), ("%%time\na = 1", True, "%%time"), ("%%bash\nls", False, "%%bash"), ("%time a()", True, "")],
)
def test_which_cells_are_python(source: str, is_python: bool, magic: str) -> None:
    assert is_read(source) is is_python
    assert cell_magic(source) == magic


@pytest.mark.parametrize(
    "source", ["!ls -l", "%matplotlib inline", "x = !ls", "x = %time f()", "f?", "ls -l", "%%time\na = 1", "!a \\\n b"]
)
def test_what_is_no_python_is_masked_line_for_line(source: str) -> None:
    python, stand_ins = masked(source, iter("abcdef").__next__)
    compile(python, "<cell>", "exec")
    assert python.count("\n") == source.count("\n")
    for stand_in, original in stand_ins.items():
        assert stand_in in python
        assert original in source


def test_python_is_not_masked() -> None:
    for source in (
        "a = 1",
        "a % b",
        "x = y if z else w  # what?",
        "s = '!ls'",
        "f(\n!=\n)"[:1],
        "run = start(\n)",
        "cat += f(\n)",
    ):
        assert masked(source, iter("abc").__next__) == (source, {})


def test_a_notebook_without_its_cells() -> None:
    assert without_sources(book("a").text) == without_sources(book("b").text)
    assert without_sources(book("a").text) != without_sources(book("a", "b").text)
