"""Facts about writers that only the main process uses, wherever they go."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.guards.writers import Writers
from tests.codemod.facts import texts
from tests.codemod.files_written.guards.test_guarding import guarding

MADE = "SummaryWriter('runs')"


def of_main(end: str, function: str) -> list[str]:
    found = guarding(end, before=function)
    return texts(Writers(found.alone, found.asking).of_main(found.unguarded, found.covered))


@pytest.mark.parametrize(
    "function",
    [
        f"def make():\n    writer = {MADE}\n    return writer\n",
        f"def make():\n    return {MADE}\n",
        f"def inner():\n    return {MADE}\n\n\ndef make():\n    return inner()\n",
    ],
)
@pytest.mark.parametrize(("end", "is_found"), [("writer.flush()\n", True), ("print(writer.log_dir)\n", False)])
def test_a_writer_that_a_function_returns(function: str, end: str, is_found: bool) -> None:
    found = of_main(f"writer = make()\nwriter.add_scalar('n', 1)\n{end}", function)
    assert found == ([MADE] if is_found else [])


@pytest.mark.parametrize(
    ("chosen", "is_found"),
    [
        ("{} if args.log else None", True),
        ("None if args.quiet else {}", True),
        ("({} if args.log else None) if args.save else None", True),
        ("{} if args.log else print", False),
    ],
)
@pytest.mark.parametrize("function", ["writer = {}\n    return writer", "return {}"])
def test_a_writer_or_none(chosen: str, function: str, *, is_found: bool) -> None:
    made = f"def make(args):\n    {function.format(chosen.format(MADE))}\n"
    found = of_main("writer = make(args)\nif writer:\n    writer.add_scalar('n', 1)\n", made)
    assert found == ([MADE] if is_found else [])


def test_a_writer_that_is_returned_with_something_else() -> None:
    function = f"def make():\n    writer = {MADE}\n    return 'runs', writer\n"
    used = "folder, writer = make()\nwriter.add_scalar('n', 1)\n"
    assert of_main(used, function) == [MADE]
    assert of_main(f"{used}keep(make())\n", function) == []


@pytest.mark.parametrize(
    "used",
    [
        "def __setitem__(self, k, v):\n        self.w.add_scalar(k, v)",
        "def __getattr__(self, k):\n        return getattr(self.w, k)",
    ],
)
def test_a_writer_that_a_method_uses_which_no_call_names(used: str) -> None:
    log = f"class Log:\n    def __init__(self):\n        self.w = {MADE}\n    {used}\n"
    assert of_main("log = Log()\n", log) == []
