"""A program from source text, and the places in it that a comment marks."""

from __future__ import annotations

import ast
from textwrap import dedent

from accelify.codemod.files.project import Project
from accelify.codemod.semantics.program import Program


def program(text: str, **others: str) -> Program:
    """`text` as the script `train.py`, and other modules of the same folder by their names."""
    files = {"train.py": dedent(text).encode(), **{f"{n}.py": dedent(t).encode() for n, t in others.items()}}
    project = Project(files)
    named = [project.load("train.py")]
    return Program(project.program(named, follow=True), project, named)


def marked(source: Program, mark: str) -> ast.stmt:
    """The innermost statement on the line that ends in `# mark`."""
    parsed = source.named[0]
    line = next(n for n, text in enumerate(parsed.lines, 1) if text.endswith(f"# {mark}"))
    return [n for n in parsed.nodes if isinstance(n, ast.stmt) and n.lineno == line][-1]


def last(source: Program) -> ast.expr:
    """The expression that the script ends with."""
    statement = source.named[0].tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return statement.value
