"""When can the accelerator be created: what must come after it, and what must not come before?"""

from __future__ import annotations

import ast

from accelify.codemod.preparing.preparing import Preparation
from accelify.codemod.preparing.reach import Reach
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.purity import draws_at_random
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import Roles


class Start:
    """What a script does before a statement after which the accelerator would be created."""

    def __init__(
        self, program: Program, roles: Roles, training: Training, preparation: Preparation, reach: Reach
    ) -> None:
        self.program = program
        self.roles = roles
        self.training = training
        self.preparation = preparation
        self.reach = reach

    def draws_before(self, statement: ast.stmt) -> bool:
        """Whether the accelerator's home draws random numbers, or makes a model, before a statement is through."""
        frame, last = self.program.frame(statement), statement.end_lineno or statement.lineno
        before = [c for c in self.program.calls if c.lineno <= last and self.program.frame(c) is frame]
        return any(
            draws_at_random(self.program, c) or any(self.roles.is_module(v) for v in self.program.values(c))
            for c in before
        )

    def is_needed_before(self, statement: ast.stmt) -> bool:
        """Whether the accelerator's home needs it, or chooses a device, before a statement is through."""
        frame = self.program.frame(statement)
        used: list[ast.AST] = [*self.training.backwards, *(n for _, n in self.preparation.wrapped)]
        used.extend(source for _, source in self.preparation.sharded)
        used.extend(c for f in self.reach.parameters for c in self.program.flow.callers.get(f, ()))
        for group in self.preparation.groups:
            if group.frame is frame and group.anchor is None:
                return True
            used.extend([group.anchor] if group.anchor is not None else [])
        used.extend(
            node
            for node in self.program.parsed(statement).parents
            if isinstance(node, ast.Assign) and any(self.roles.is_device(v) for v in self.program.values(node.value))
        )
        last = statement.end_lineno or statement.lineno
        return any(
            self.program.frame(n) is frame and getattr(n, "lineno", 0) <= last for n in used if n is not statement
        )
