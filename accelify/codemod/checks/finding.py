"""A finding of a check: where, why it is wrong with several processes, and the edits that mend it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelify.codemod.edits.values import Edit


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `fix` is empty where a person has to decide."""

    rule: str
    node: ast.AST
    message: str
    fix: tuple[Edit, ...] = ()
