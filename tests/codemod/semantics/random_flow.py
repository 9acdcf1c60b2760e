"""Random small programs with branches, loops, exceptions and `finally`, and what really happens when they run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

NAMES = "abcd"
_LIMIT = 300  # statements after which a run is stopped


@dataclass
class Run:
    """A program's text, the lines of its function that followed each other, and where each value read was written.

    `break`, `continue`, `del`, `pass`, `try`, `with` and the tests of handlers leave no trace.
    """

    text: str
    steps: set[tuple[int, int]] = field(default_factory=set)
    reads: set[tuple[int, str, int]] = field(default_factory=set)  # (line, name, line of the definition)

    @staticmethod
    def function(tree: ast.Module) -> ast.FunctionDef:
        return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "run")


class _Stop(BaseException):
    pass


class Written(int):
    """A number that knows the line that made it."""

    line: int


def written(line: int) -> Written:
    number = Written(1)
    number.line = line
    return number


class _Writer:
    """Write a random program; `choose` takes one of some things. Each line reports itself when it runs."""

    def __init__(self, choose: Any) -> None:
        self.choose = choose
        self.lines = ["def run(a):", "    pass"]
        self.left = 14

    @property
    def number(self) -> int:
        return len(self.lines) + 1

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, looped: bool) -> None:
        for _ in range(self.choose(range(1, 4))):
            self.statement(depth, looped)

    def statement(self, depth: int, looped: bool) -> None:
        self.left -= 1
        simple = ["assign", "assign", "read", "augment", "raise", "return", "delete"] + ["break", "continue"] * looped
        compound = ["if", "if", "while", "for", "try", "try", "finally", "with"]
        kind = self.choose(simple + compound if self.left > 0 and depth < 5 else simple)
        getattr(self, f"write_{kind}")(depth, looped)

    def name(self) -> str:
        return str(self.choose(NAMES))

    def write_assign(self, depth: int, looped: bool) -> None:
        self.add(depth, f"{self.name()} = made({self.number})")

    def write_read(self, depth: int, looped: bool) -> None:
        name, other = self.name(), self.name()
        self.add(depth, f"seen({self.number}, {name!r}, {name}) and ({other} := made({self.number}))")

    def write_augment(self, depth: int, looped: bool) -> None:
        name = self.name()
        self.add(depth, f"{name} = made({self.number}, seen({self.number}, {name!r}, {name}))")

    def write_delete(self, depth: int, looped: bool) -> None:
        self.add(depth, f"del {self.name()}")

    def write_raise(self, depth: int, looped: bool) -> None:
        self.add(depth, f"raise thrown({self.number}, {self.choose(['ValueError', 'KeyError'])})")

    def write_return(self, depth: int, looped: bool) -> None:
        self.add(depth, f"return made({self.number})")

    def write_break(self, depth: int, looped: bool) -> None:
        self.add(depth, "break")

    def write_continue(self, depth: int, looped: bool) -> None:
        self.add(depth, "continue")

    def maybe(self, depth: int, header: str, looped: bool) -> None:
        if self.choose([True, False]):
            self.add(depth, header)
            self.block(depth + 1, looped)

    def write_if(self, depth: int, looped: bool) -> None:
        self.add(depth, f"if holds({self.number}):")
        self.block(depth + 1, looped)
        self.maybe(depth, f"elif holds({self.number}):", looped)
        self.maybe(depth, "else:", looped)

    def write_while(self, depth: int, looped: bool) -> None:
        self.add(depth, self.choose([f"while holds({self.number}):", "while True:"]))
        self.add(depth + 1, f"seen({self.number}, 'a', a)")
        self.block(depth + 1, True)
        self.maybe(depth, "else:", looped)

    def write_for(self, depth: int, looped: bool) -> None:
        self.add(depth, f"for {self.name()} in rounds({self.number}):")
        self.block(depth + 1, True)
        self.maybe(depth, "else:", looped)

    def write_try(self, depth: int, looped: bool) -> None:
        self.add(depth, "try:")
        self.block(depth + 1, looped)
        self.add(depth, self.choose(["except ValueError:", "except (KeyError, NameError):", "except Exception:"]))
        self.block(depth + 1, looped)
        self.maybe(depth, "except NameError:", looped)
        self.maybe(depth, "else:", looped)
        self.maybe(depth, "finally:", False)

    def write_finally(self, depth: int, looped: bool) -> None:
        self.add(depth, "try:")
        self.block(depth + 1, looped)
        self.add(depth, "finally:")
        self.block(depth + 1, False)

    def write_with(self, depth: int, looped: bool) -> None:
        self.add(depth, "with suppress(ValueError):")
        self.block(depth + 1, looped)


@st.composite
def programs(draw: Any) -> Run:
    """A random program that has been run a few times, each time with other choices."""
    random = draw(st.randoms(use_true_random=False))
    writer = _Writer(lambda listed: random.choice(list(listed)))
    writer.block(1, False)
    run = Run("\n".join(writer.lines) + "\n")
    for _ in range(6):
        _run(run, lambda: bool(random.random() < 0.5))
    return run


def _run(run: Run, choose: Callable[[], bool]) -> None:
    """Run a program once."""
    before, count = 0, 0

    def at(line: int) -> None:
        nonlocal before, count
        count += 1
        if count > _LIMIT:
            raise _Stop
        if before and before != line:
            run.steps.add((before, line))
        before = line

    def fail() -> None:
        if choose() and choose() and choose():
            raise ValueError

    def made(line: int, _: object = None) -> Written:
        at(line)
        fail()
        return written(line)

    def holds(line: int) -> bool:
        at(line)
        return choose()

    def thrown(line: int, kind: type[Exception]) -> Exception:
        at(line)
        return kind()

    def seen(line: int, name: str, value: Any) -> bool:
        at(line)
        run.reads.add((line, name, value.line))
        return choose()

    def rounds(line: int) -> Iterator[Written]:
        at(line)
        while choose():
            fail()
            yield written(line)

    names = {f.__name__: f for f in (suppress, made, holds, thrown, seen, rounds)}
    exec(compile(run.text, "<random>", "exec"), names)
    with suppress(Exception, _Stop):
        names["run"](written(1))
