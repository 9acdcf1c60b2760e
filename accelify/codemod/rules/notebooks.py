"""Say what it takes to train a notebook in several processes.

    accelerator = Accelerator()   a notebook's kernel is one process; `notebook_launcher` starts several, in a function

Why: a migrated notebook runs as before, and nothing in it starts more than one process.
Left alone: all of it. How cells become functions is yours to decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.edits.values import Insert, Plan, Remark
from accelify.codemod.files.notebook import Notebook
from accelify.codemod.script import Script

NAME = "notebooks"


def find(script: Script, plan: Plan) -> Iterator[Remark]:
    """The notes of the notebooks that change."""
    for path in sorted({change.path for change in plan.changes}):
        notebook = script.program.flow.parsed_of[path].decoded.notebook
        if notebook is not None:
            yield from _launched(script, plan, path, notebook)


def _launched(script: Script, plan: Plan, path: str, notebook: Notebook) -> Iterator[Remark]:
    homes = [home for home in script.reach.homes if home.module == path]
    edits = [edit for change in plan.of(path) for edit in change.edits]
    made = [edit for edit in edits if isinstance(edit, Insert) and "= Accelerator(" in edit.code]
    if not homes or not made:
        return
    name = next((home.name for home in homes if home.kind == "function"), None)
    if name is not None:
        what = f"start it by `notebook_launcher({name})`"
    else:
        first, last = notebook.place(made[0].node.lineno)[0], notebook.place(max(c.line for c in plan.of(path)))[0]
        cells = f"cell {first}" if first == last else f"the cells {first} to {last}"
        what = f"put what {cells} run into a function `train`, and start it by `notebook_launcher(train)`"
    source = f"`from {script.options.runtime.module} import notebook_launcher`"
    message = f"a notebook runs in one process; for several, {what} ({source})"
    yield Remark(NAME, path, made[0].node, message)
