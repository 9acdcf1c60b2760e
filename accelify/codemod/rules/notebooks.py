"""Say what it takes to train a notebook in several processes.

    accelerator = Accelerator()   a notebook's kernel is one process; `notebook_launcher` starts several, in a function

Why: a migrated notebook runs as before, and nothing in it starts more than one process.
Left alone: everything; the rule only reports. How cells become functions is yours to decide.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.files.notebook import Notebook
from accelify.codemod.script import Script

NAME = "notebooks"


def find(script: Script) -> Iterator[Remark]:
    """A note for each notebook in which the accelerator is created."""
    for path in sorted({home.module for home in script.reach.homes}):
        notebook = script.program.flow.parsed_of[path].decoded.notebook
        if notebook is not None:
            yield _launched(script, path, notebook)


def _launched(script: Script, path: str, notebook: Notebook) -> Remark:
    homes = [home for home in script.reach.homes if home.module == path]
    made = script.access.creation_edit(homes[0], "").node
    name = next((home.name for home in homes if home.kind == "function"), None)
    if name is not None:
        what = f"start it with `notebook_launcher({name})`"
    else:
        first, last = notebook.place(made.lineno)[0], notebook.place(max(_trained_at(script, path)))[0]
        cells = f"cell {first}" if first == last else f"the cells {first} to {last}"
        what = f"move the code of {cells} into a function `train`, and start it with `notebook_launcher(train)`"
    source = f"`from {script.options.runtime.module} import notebook_launcher`"
    message = f"a notebook runs in one process; to train in several, {what} ({source})"
    return Remark(NAME, path, made, message)


def _trained_at(script: Script, path: str) -> Iterator[int]:
    """The lines of a file where something is prepared, trained, evaluated, moved, or written."""
    nodes: list[ast.AST] = [*script.training.backwards, *script.metrics.shared_loops, *script.metrics.evaluations]
    nodes += [g.anchor for g in script.preparation.groups if g.anchor is not None]
    nodes += [*(m.call for m in script.devices.moves), *(s.call for s in script.written.saves)]
    nodes += [run[-1] for run in script.written.guarding.runs]
    yield from (script.program.line(n) for n in nodes if script.path(n) == path)
