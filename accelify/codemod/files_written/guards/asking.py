"""Where can the library be asked which process runs some code, though no accelerator reaches there?"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelify.codemod.files_written.clocks import Clocks
from accelify.codemod.preparing.placing import Access, comes_before_selection
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.facts import Run


@dataclass(frozen=True, slots=True)
class Asking:
    """In functions of all processes, and in the script that is started; not before it may choose a GPU.

    scopes: the functions and modules that all processes run, where the library's name is free. alone: those where a
    process can be asked for its number without joining the others, also as a file is imported. clocks: which files are
    a process's own.
    """

    program: Program
    access: Access
    run: Run
    scopes: frozenset[Scope]
    alone: frozenset[Scope]
    clocks: Clocks

    @property
    def paths(self) -> set[str]:
        """The files in which there is such code."""
        return {self.program.path(scope.node) for scope in self.scopes | self.alone}

    def tells_rank(self, node: ast.AST) -> bool:
        """Whether the library can be asked at a node which process it is, though perhaps not for a wait.

        So it can where a file is imported, by a worker process too, and before the script chooses a GPU.
        """
        return self.program.frame(node) in self.alone or self.holds(node)

    def holds(self, node: ast.AST) -> bool:
        """Whether the library can be asked at a node."""
        frame = self.program.frame(node)
        if frame not in self.scopes:
            return False
        if frame.kind == "module":
            return self.run.starts(self.program, node) and not comes_before_selection(self.access, node)
        calls = self.program.calls_of(frame) if frame.kind == "function" else []
        return frame.kind == "function" and not any(comes_before_selection(self.access, c) for c in calls)
