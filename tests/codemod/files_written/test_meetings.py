"""Facts about where the processes have to wait for each other."""

from __future__ import annotations

import pytest

from accelify.codemod.edits.values import Insert
from accelify.codemod.files_written.meetings import Meetings
from tests.codemod.training_scripts import training

IMPORTS = "import time\nimport numpy as np\n"
SAVE = "def save(path):\n    {made}\n    return path\n"


def waits(made: str, end: str = "np.load(save('a.npy'))") -> list[str]:
    """What all processes wait behind, for the file that one statement writes and reads."""
    facts = training(imports=IMPORTS, before=SAVE.format(made=made), end=end)
    meetings: Meetings = facts.script.written.meetings
    within = meetings.within(facts.call("np.load("), [facts.call("np.save(")])
    edits = [e for write in within for e in meetings.after(write, facts.call("np.load(")) if isinstance(e, Insert)]
    return [type(e.node).__name__ for e in edits]


@pytest.mark.parametrize(
    ("made", "statements"),
    [
        ("np.save(path, [1])", ["Expr"]),
        ("with open(path, 'wb') as f:\n        np.save(f, [1])", ["With"]),
        ("if time.time() > 5:\n        np.save(path, [1])", ["If"]),  # one process decides, and all wait
    ],
)
def test_what_is_waited_behind(made: str, statements: list[str]) -> None:
    assert waits(made) == statements


def test_a_file_that_another_statement_writes() -> None:
    assert waits("np.save(path, [1])", "p = save('a.npy')\nnp.load(p)") == []
