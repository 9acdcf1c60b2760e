"""Which files do paths name, and may one have been written by the time that it is read?

os.path.join(folder, "best.pt")    f"{folder}/best.pt"    folder / "best.pt"    path, where a caller gives one of these

`"best_{}.pt"` is the name of `f"best_{epoch}.pt"` and of `"best_%d.pt" % best_epoch`, which may be one file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import returned
from accelify.codemod.semantics.values import HOLE, Constant, template

_DEPTH = 4
_NOTHING: frozenset[str] = frozenset()


class Files:
    """Follow paths to the last part that they have as text."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer

    def names(self, path: ast.expr, depth: int = _DEPTH) -> frozenset[str]:
        """The names that a path may end in, without their folders; none where these are not known."""
        if text := template(path):
            return _last(text)
        if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Div):
            return self.names(path.right, depth)
        if isinstance(path, ast.Call):
            is_join = any(map(names.ends_like_last, self.program.called(path))) or _is_text(path)
            if is_join:
                return self.names(path.args[-1], depth) if path.args else _NOTHING
            given = returned(self.program.flow.callees.get(path, ())) if depth else []
            return self._of_any(given, depth - 1)
        if isinstance(path, ast.Name) and depth:
            return self._of_variable(path, depth - 1)
        if isinstance(path, ast.Attribute) and depth:
            return self._of_attribute(path, depth - 1)
        return _NOTHING

    def _of_attribute(self, path: ast.Attribute, depth: int) -> frozenset[str]:
        """The names that the paths in an attribute may end in: `self.best_path`."""
        text = ast.unparse(path)
        writes = [w for w in self.program.attribute_writes.get(path.attr, ()) if ast.unparse(w) == text]
        return self._of_any([self.tracer.assigned(w) for w in writes], depth)

    def _of_variable(self, path: ast.Name, depth: int) -> frozenset[str]:
        held = self.program.values(path)
        if held and all(isinstance(v, Constant) and v.value is not None for v in held):
            return frozenset(n for v in held if isinstance(v, Constant) for n in _last(v.value))
        owner = self.program.scope(path).owner(path.id)
        found: set[str] = set()
        for write in self.tracer.writes(owner, path.id) if owner is not None else ():
            values: list[ast.expr | None] = []
            if isinstance(write, ast.arg) and owner is not None:
                values = [self.tracer.argument(c, owner, path.id) for c in self.program.flow.callers.get(owner, ())]
            elif isinstance(write, ast.Name):
                values = [self.tracer.assigned(write)]
            if _is_none(values):
                continue
            named = self._of_any(values, depth)
            if not named:
                return _NOTHING
            found |= named
        return frozenset(found)

    def _of_any(self, paths: Sequence[ast.expr | None], depth: int) -> frozenset[str]:
        """The names that one of some paths may end in; none where those of one are not known."""
        named = [self.names(p, depth) if p is not None else _NOTHING for p in paths if not _is_none([p])]
        return _NOTHING.union(*named) if all(named) else _NOTHING

    def is_before(self, write: ast.Call, read: ast.Call) -> bool:
        """Whether a call that writes may have been made by the time that another one reads."""
        frame = self.program.frame(write)
        return any(
            call is write or frame in self.program.run_from(self.program.flow.callees.get(call, ()))
            for call in self._earlier(read, _DEPTH)
        )

    def _earlier(self, node: ast.Call, depth: int) -> Iterator[ast.Call]:
        """The calls made before one, or in an earlier round of its loops: in its function, and where that is called."""
        frame = self.program.frame(node)
        for call in self.program.calls_in(frame):
            if call is not node and self.program.reaches(call, node):
                yield call
        for caller in self.program.flow.callers.get(frame, ()) if depth else ():
            yield from self._earlier(caller, depth - 1)


def _is_text(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "str"


def _is_none(values: Sequence[ast.expr | None]) -> bool:
    """`path = None`, for a path that is not known yet."""
    return bool(values) and all(isinstance(v, ast.Constant) and v.value is None for v in values)


def _last(value: object) -> frozenset[str]:
    """The name of the file in the text of a path, with its folders where it is all filled in; none without a letter."""
    parts = value.replace("\\", "/").split("/") if isinstance(value, str) else [""]
    name = parts.pop()
    while parts and name and not _says_something(name):
        name = f"{parts.pop()}/{name}"
    return frozenset({name} if _says_something(name) else ())


def _says_something(name: str) -> bool:
    return any(c.isalnum() for c in name.replace(HOLE, ""))
