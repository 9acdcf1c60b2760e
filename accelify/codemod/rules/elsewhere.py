"""Point out device moves in files that change, but not for them.

    def batchify(data): return data.cuda()    in a file of which only a folder's making changes

Why: a file that was changed is taken for migrated, and what it still moves is never hidden.
Left alone: all of it; each process has a GPU of its own as the current one.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.analysis.moves import Moves
from accelify.codemod.edits import Plan, Remark
from accelify.codemod.script import Script

NAME = "elsewhere"


def find(script: Script, plan: Plan) -> Iterator[Remark]:
    """A note for each move in a file that the plan changes and that is no part of the training code."""
    files = {change.path for change in plan.changes} - script.files
    for move in Moves(script.program, script.roles, script.prepared, files).found:
        message = "stays: the training code of the script never hands the accelerator to this file"
        yield Remark(NAME, script.path(move.call), move.call, message)
