"""One form of import in a file: what asks the library where no accelerator reaches takes `Accelerator` from there, too.

import accelify.runtime

accelerator = accelify.runtime.Accelerator()
accelify.runtime.save(model.state_dict(), path)

A file whose functions ask for `Accelerator.current()` has both forms.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from accelify.codemod.edits.values import Change, Edit, Insert
from accelify.codemod.rules import creation

_CREATION = re.compile(r"(?:^|= )(?=Accelerator\()")  # also where no name is given to it


def in_one_form(changes: list[Change], module: str, asking: Collection[str]) -> list[Change]:
    """The changes with the library imported once in each file, in one form; both in those `asking` for it."""
    whole = f"import {module}"
    imports = {c.path: e for c in changes for e in c.edits if isinstance(e, Insert) and e.code == whole}
    return [
        replace(c, edits=tuple(_in_form(e, imports[c.path], module) for e in c.edits))
        if c.rule == creation.NAME and c.path in imports and c.path not in asking
        else c
        for c in changes
    ]


def _in_form(edit: Edit, whole: Insert, module: str) -> Edit:
    if not isinstance(edit, Insert):
        return edit
    if edit.code == f"from {module} import Accelerator":
        return whole
    return replace(edit, code=_CREATION.sub(rf"\g<0>{module}.", edit.code))
