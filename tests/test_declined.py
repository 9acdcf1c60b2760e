"""docs/declined.md has a remedy for every reason that the code can give for declining, and for no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODEMOD = ROOT / "accelify" / "codemod"
HOLE = "…"
# Modules that say nothing but such reasons, in messages of at least so many words.
REASONS_ONLY = ("obstacles.py", "preparing/wrapped_training.py", "distributed/launching.py")
WORDS = 5
CALLS = ("Obstacle", "refuse")  # the last argument is the reason
UNLISTED = {"a second run would change the result again"}  # the page has a section on the rule `gate`


def template(node: ast.AST) -> str | None:
    """A text with a hole for each value that is put into it; None where no text is written out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or HOLE for part in node.values)
    return None


@cache
def reasons() -> frozenset[tuple[str, str]]:
    """Each module's reasons."""
    return frozenset(_reasons())


def _reasons() -> Iterator[tuple[str, str]]:
    for path in sorted(CODEMOD.rglob("*.py")):
        name = path.relative_to(CODEMOD).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            for text in reasons_of(function):
                if text is not None and len(text.split()) > 1 and text not in UNLISTED:
                    yield name, text
        if name in REASONS_ONLY:
            held = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            held |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
            written = [template(node) for node in ast.walk(tree) if node not in held]
            yield from ((name, text) for text in written if text is not None and len(text.split()) >= WORDS)


def reasons_of(function: ast.FunctionDef) -> Iterator[str | None]:
    """The texts that a function gives as reasons, in place or by a variable."""
    assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    for call in (n for n in ast.walk(function) if isinstance(n, ast.Call) and n.args):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = call.args[-1]
        if called == "append" and isinstance(given, ast.Tuple) and ast.unparse(call.func).endswith("obstacles.append"):
            yield template(given.elts[-1])
        elif called in CALLS and isinstance(given, ast.Name):
            before = [a for a in assigned if ast.unparse(a.targets[0]) == given.id and a.lineno < call.lineno]
            yield template(max(before, key=lambda a: a.lineno).value) if before else None
        elif called in CALLS:
            yield template(given)


@cache
def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


@cache
def pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(plain(text)).replace(re.escape(HOLE), ".*"))


def listed() -> list[str]:
    page = (ROOT / "docs" / "declined.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| .+ \|$", page, re.MULTILINE)
    return [row for row in rows if row not in ("message", "---")]


def are_alike(text: str, row: str) -> bool:
    """Whether a row shows a text of the code, which may be a part of the message."""
    return bool(pattern(text).search(plain(row)) or pattern(row).fullmatch(plain(text)))


def test_every_reason_has_a_remedy() -> None:
    rows = listed()
    missing = {(name, text) for name, text in reasons() if not any(are_alike(text, row) for row in rows)}
    assert missing == set(), "add a row to docs/declined.md"


def test_every_row_is_a_reason_that_the_code_gives() -> None:
    known = {text for _, text in reasons()}
    others = [row for row in listed() if not any(are_alike(text, row) for text in known)]
    everywhere = {
        text
        for path in CODEMOD.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (text := template(node)) is not None and len(text.split()) >= WORDS
    }
    stale = [row for row in others if not any(are_alike(text, row) for text in everywhere)]
    assert stale == []
