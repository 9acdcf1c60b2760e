"""What saves each checkpoint once the script is migrated, and what is written with it?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.files_written.one_process import opened_round
from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program


@dataclass(frozen=True, slots=True)
class Save:
    """A call of `torch.save`.

    saver: what has the `save` there: the accelerator, or the library where that does not reach; None where neither can.
    opened: a `with open(path, "wb") as f:` that is there for it alone. copies: what copies the file right after it.
    Both are found only where the library saves, as only then the script has to say which process does it.
    """

    call: ast.Call
    saver: str | None
    opened: ast.With | None = None
    copies: tuple[ast.Call, ...] = ()

    @property
    def seen_to(self) -> Iterator[ast.expr]:
        """The calls that write, and may be made by all processes once the script is migrated."""
        if self.saver is not None:
            yield from (self.call, *self.copies)
            yield from (item.context_expr for item in (self.opened.items if self.opened is not None else ()))


def save_of(program: Program, call: ast.Call, saver: str | None, library: str) -> Save:
    """A call of `torch.save`, with what is written with it where a library saves."""
    if saver != library:
        return Save(call, saver)
    return Save(call, saver, _opened_for(program, call), tuple(_copies(program, call)))


def _opened_for(program: Program, save: ast.Call) -> ast.With | None:
    """The `with open(path, "wb") as f:` that is there for a save alone: to open it empties the file."""
    statement = program.statement(save)
    around = program.parent(statement)
    if not isinstance(around, ast.With) or around.body != [statement] or len(around.items) != 1:
        return None
    target = save.args[1] if len(save.args) > 1 else None
    return around if target is not None and opened_round(program, target) is not None else None


def _copies(program: Program, save: ast.Call) -> Iterator[ast.Call]:
    """Copies of a file right after it is saved: for a process that does not write, it may not be there yet."""
    path = ast.unparse(save.args[1]) if len(save.args) > 1 else ""
    for call in program.calls_in(program.frame(save)):
        statement = program.statement(call)
        is_copy = any(map(names.copies_file, program.called(call)))
        if not is_copy or not call.args or ast.unparse(call.args[0]) != path:
            continue
        if isinstance(statement, ast.Expr) and statement.value is call and program.before(save, call):
            yield call
