"""Which statements make or fetch a file only where it is missing? One process runs them first, the others find it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.effects.summary import Summary


class Caches:
    """Look at conditions that ask whether a file is there."""

    def __init__(self, alone: OneProcess) -> None:
        self.program = alone.program
        self.effects = alone.effects
        self.alone = alone

    def find(self) -> Iterator[ast.If]:
        """The outermost of them in the files that may change, where all processes come to it."""
        nodes = (n for path in sorted(self.alone.files) for n in self.program.flow.parsed_of[path].parents)
        found = [n for n in nodes if isinstance(n, ast.If) and self._is_cache(n)]
        return (n for n in found if not any(n is not o and self.program.inside(n, o) for o in found))

    def _is_cache(self, choice: ast.If) -> bool:
        if not self._looks(choice.test) or self.alone.accelerator(choice) is None:
            return False
        calls = [n for s in (*choice.body, *choice.orelse) for n in ast.walk(s) if isinstance(n, ast.Call)]
        if not self._stands_alone(choice) or any(map(self._is_of_all, calls)):
            return False
        then, other = self.effects.of(*choice.body), self.effects.of(*choice.orelse)
        made_here = all(self.program.inside(use.call, choice) for use in then.files_written | other.files_written)
        is_made = made_here and (_makes(then, other) or _makes(other, then))
        run = self.program.run_from(f for c in calls for f in self.program.flow.callees.get(c, ()))
        return is_made or any(map(self._fetches, [*calls, *(c for f in run for c in self.program.calls_in(f))]))

    def _looks(self, test: ast.expr) -> bool:
        calls = [n for n in ast.walk(test) if isinstance(n, ast.Call)]
        return any(row.has(Trait.LOOKS) for c in calls for row in self.effects.kinds.called(c) or ())

    def _fetches(self, call: ast.Call) -> bool:
        is_command = any(map(names.runs_command, self.program.called(call)))
        return is_command or any(row.has(Trait.DOWNLOADS) for row in self.effects.kinds.called(call) or ())

    def _is_of_all(self, call: ast.Call) -> bool:
        """Whether a call trains, evaluates, or saves in a way of its own."""
        called = self.program.called(call)
        return "torch.save" in called or "torch.load" in called or self.alone.runs_together(call)

    def _stands_alone(self, choice: ast.If) -> bool:
        """Whether a statement has its lines for itself, and is in no loop, and under no other condition."""
        around = list(self.program.ancestors(choice))
        own = around[: around.index(self.program.frame(choice).node)]
        parsed, block = self.program.parsed(choice), self.program.block(choice)
        is_shared = any(parsed.share_a_line(s, choice) for s in block if s is not choice)
        return parsed.begins_line(choice) and not is_shared and all(isinstance(a, (ast.With, ast.If)) for a in own)


def _makes(one: Summary, other: Summary) -> bool:
    """Whether one branch writes a file, and the other reads one instead."""
    return any(not u.is_folder for u in one.files_written) and bool(other.files_read) and not other.writes_files
