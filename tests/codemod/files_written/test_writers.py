"""Facts about writers that only the main process uses, wherever they go."""

from __future__ import annotations

import pytest

from tests.codemod.facts import texts
from tests.codemod.files_written.test_guarding import guarding

MADE = "SummaryWriter('runs')"


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
    found = guarding(f"writer = make()\nwriter.add_scalar('n', 1)\n{end}", before=function)
    assert texts(found.handed_on) == ([MADE] if is_found else [])


def test_a_writer_that_is_returned_with_something_else() -> None:
    function = f"def make():\n    writer = {MADE}\n    return 'runs', writer\n"
    used = "folder, writer = make()\nwriter.add_scalar('n', 1)\n"
    assert texts(guarding(used, before=function).handed_on) == [MADE]
    assert guarding(f"{used}keep(make())\n", before=function).handed_on == []
