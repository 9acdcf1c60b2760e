"""Which lines does a comment cover, and which rules does it leave out there?"""

from __future__ import annotations

import json

import pytest

from accelify.codemod.files.parse import parse
from accelify.codemod.files.suppressions import Suppressions


def read(text: str, path: str = "train.py") -> Suppressions:
    return parse(path, text.encode()).suppressions


def covered(text: str, rule: str = "writes") -> list[int]:
    found = read(text)
    assert found.faults == ()
    return [line for line in range(1, text.count("\n") + 2) if found.of(rule, line) is not None]


def test_a_comment_covers_its_line_and_its_rules_only() -> None:
    text = "a = 1\nb = 2  # accelify: ignore[writes, folders]: the path has the rank in it\nc = 3\n"
    assert covered(text) == covered(text, "folders") == [2]
    assert covered(text, "backward") == []
    assert covered("a = 1  #accelify:ignore\n", "backward") == [1]
    assert covered("a = 1  # noqa: E501  # accelify: ignore[writes]\n") == [1]


def test_it_covers_the_whole_statement_and_no_body() -> None:
    assert covered("f(\n    1,  # accelify: ignore[writes]\n    2,\n)\n") == [1, 2, 3, 4]
    assert covered('x = """\n1\n"""  # accelify: ignore[writes]\n') == [1, 2, 3]
    assert covered("for a in (\n    b\n):  # accelify: ignore[writes]\n    f(a)\n") == [1, 2, 3]
    assert covered("if a:\n    f(a)\nelse:  # accelify: ignore[writes]\n    g()\n") == [3]


def test_alone_on_its_line_it_covers_the_next_statement() -> None:
    assert covered("a = 1\n# accelify: ignore[writes]\n# because\n\nf(\n)\ng()\n") == [5, 6]
    assert covered("a = 1\n# accelify: ignore[writes]\n") == [2]


def test_skip_covers_a_function_or_a_class_with_its_decorators() -> None:
    assert covered("@d\n@e\ndef f():  # accelify: skip\n    a()\n\n    b()\nc()\n") == [1, 2, 3, 4, 5, 6]
    assert covered("# accelify: skip\n@d\nclass A:\n    a = 1\nc()\n") == [2, 3, 4]
    assert covered("class A:\n    async def f(self):  # accelify: skip\n        a()\n    b = 1\n") == [2, 3]


def test_skip_file_covers_all() -> None:
    found = read("a = 1\nb = 2  # accelify: skip-file\n")
    assert found.of_file is not None
    assert found.of("backward", 1) is found.of_file
    assert read("a = 1  # accelify: skip_file\n").of_file is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1  # accelify: ignor[writes]\n", "is none of"),
        ("a = 1  # accelify: ignore[writes\n", "is none of"),
        ("a = 1  # accelify: ignore[]\n", "is none of"),
        ("a = 1  # accelify: skipfile\n", "is none of"),
        ("a = 1  # accelify:\n", "is none of"),
        ("for a in b:  # accelify: skip\n    c()\n", "belongs to a function, a class"),
        ("# accelify: skip\na = 1\n", "belongs to a function, a class"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, said: str) -> None:
    found = read(text)
    assert found.all == ()
    ((line, message),) = found.faults
    assert (line, said in message) == (1, True)


def test_text_that_looks_like_a_comment_is_none() -> None:
    assert read('a = "# accelify: skip-file"\n"""\n# accelify: ignore\n"""\n') == Suppressions()


def test_in_a_notebook_skip_in_the_first_line_covers_the_cell() -> None:
    sources = ["a = 1\n", "\n# accelify: skip\nb = 1\ndef f():\n    c()\n", "# accelify: ignore[writes]\nd()\ne()\n"]
    cells = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": s} for s in sources
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    parsed = parse("train.ipynb", json.dumps(notebook).encode())
    lines = [text for n, text in enumerate(parsed.lines, start=1) if text and parsed.suppressions.of("writes", n)]
    assert lines == ["# accelify: skip", "b = 1", "def f():", "    c()", "d()"]
