"""What may the other processes open instead of a file that only the main process is to write?

with open(path, "w") as log:    ->    with open(path if accelerator.is_main_process else os.devnull, "w") as log:
log.addHandler(FileHandler(path))    ->    ... FileHandler(path) if accelerator.is_main_process else NullHandler()
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.files_written.guards.asking import Asking
from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.files_written.path_uses import PathUses
from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.values import Made

_MODES = set("wat")  # of an `open` for nothing but writing text: a zip file, as that of `np.savez`, asks for its place


class Substitutes:
    """Look at the calls that write on every process, as no guard holds them."""

    def __init__(self, alone: OneProcess, stored: Files, uses: PathUses, asking: Asking) -> None:
        self.program = alone.program
        self.alone = alone
        self.stored = stored
        self.uses = uses
        self.asking = asking

    def handlers(self, calls: Collection[ast.Call]) -> Iterator[tuple[ast.Call, str]]:
        """The log handlers among some calls, each with one that does nothing."""
        for call in filter(self._is_handler, calls):
            other = _null_handler(call)
            if other is not None and self._may_differ(call):
                yield call, other

    def files(self, calls: Collection[ast.Call]) -> Iterator[tuple[ast.Call, ast.expr]]:
        """The calls of `open` among some calls, each with its path, for which the null device does as well."""
        for call in calls:
            if self._opens_to_write(call) and self._is_only_written(call) and self._may_differ(call):
                yield call, call.args[0]

    def _may_differ(self, call: ast.Call) -> bool:
        """Whether the process is known at a call, and no code reads the file afterwards."""
        is_known = self.asking.tells_rank(call) or self.alone.is_reached(call)
        return is_known and not any(self._is_read(path, call) for path in self.uses.written(call))

    def _is_read(self, path: ast.expr, opened: ast.Call) -> bool:
        """Whether any code may read a file that is known to be at a path, after a call has opened it."""
        return any(
            self.stored.is_told_as_one(read, path)
            and not self.uses.asks_for_folder(call, read)
            and self.stored.is_before(opened, call)
            for call in self.program.calls
            for read in self.uses.read(call)
        )

    def _is_handler(self, call: ast.Call) -> bool:
        rows = self.alone.effects.kinds.called(call) or ()
        return any(row.returns == "handler" and row.has(Trait.OPENS_LOG) for row in rows)

    def _opens_to_write(self, call: ast.Call) -> bool:
        """Whether a call is like `open(path, "w")`, for nothing but writing text."""
        if not self.alone.opens_to_write(call) or self.uses.written(call) != call.args[:1]:
            return False
        given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
        mode = given[0].value if len(given) == 1 and isinstance(given[0], ast.Constant) else None
        return isinstance(mode, str) and set(mode) <= _MODES

    def _is_only_written(self, opened: ast.Call) -> bool:
        """Whether nothing asks an open file for what the null device has not: its place, its size, its number."""
        value = next((v for v in self.program.values(opened) if isinstance(v, Made) and v.node is opened), None)
        holding = (n for n, values in self.program.flow.values.items() if value in values)
        asked = (p for n in holding if isinstance(p := self.program.parent(n), ast.Attribute) and p.value is n)
        return value is not None and all(methods.only_fills_a_file(a.attr) for a in asked)


def _null_handler(call: ast.Call) -> str | None:
    """The handler that does nothing, as code that makes one of `logging` or `logging.handlers` may call it."""
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(module, ast.Attribute) and module.attr == "handlers":
        module = module.value
    return f"{module.id}.NullHandler()" if isinstance(module, ast.Name) and module.id != "handlers" else None
