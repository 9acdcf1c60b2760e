"""Which calls in a statement that writes may all processes make first, so that one alone writes what they give?

save_image(model(noise), path)    ->    images = model(noise)
                                        if accelerator.is_main_process:
                                            save_image(images, path)
os.remove(saved.pop(0))               ->    removed = saved.pop(0)
                                        if accelerator.is_main_process:
                                            os.remove(removed)
"""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import takewhile

from accelify.codemod.files_written.one_process import Effect, OneProcess
from accelify.codemod.semantics.effects.summary import Place

_PASSED = (
    *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.BinOp, ast.UnaryOp, ast.Compare),
    *(ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr, ast.FormattedValue),
)


class ComputedFirst:
    """Look for the outermost calls that are for all processes; what is round them must be for one alone."""

    def __init__(self, alone: OneProcess) -> None:
        self.alone = alone

    def calls(self, statement: ast.stmt) -> list[ast.Call]:
        """The calls; none where the statement has none, or cannot be parted so."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        found: list[ast.Call] = []
        if not isinstance(call, ast.Call) or self.alone.effect(call) is not Effect.WRITES:
            return found
        return found if self._is_parted(call, found, []) else []

    def _is_parted(self, node: ast.AST, found: list[ast.Call], before: list[ast.expr]) -> bool:
        """Whether one process alone may evaluate all of a node but some calls, which are added to those found.

        These are evaluated in any case, and change nothing that is read before.
        """
        if isinstance(node, ast.Call) and self.alone.effect(node) is None:
            found.append(node)
            return (self._is_forward(node) or self._only_changes(node)) and not self._changes(node, before)
        if isinstance(node, ast.expr) and self.alone.is_calm(node):
            before.append(node)
            return True
        if isinstance(node, ast.Call) and self.alone.is_calm(node.func):
            return all(self._is_parted(part, found, before) for part in (*node.args, *node.keywords))
        parts = (p for p in ast.iter_child_nodes(node) if not isinstance(p, (ast.expr_context, ast.operator)))
        return isinstance(node, _PASSED) and all(self._is_parted(part, found, before) for part in parts)

    def _is_forward(self, call: ast.Call) -> bool:
        """Whether a call runs a model, or a function of the script's own that does, or evaluates one."""
        program, roles = self.alone.program, self.alone.roles
        is_model = any(roles.is_model(v) or roles.is_module(v) for v in program.values(call.func))
        return is_model or (bool(program.flow.callees.get(call)) and self.alone.runs_together(call))

    def _only_changes(self, call: ast.Call) -> bool:
        """Whether a library's call does nothing but change an object, which all processes have: `saved.pop(0)`."""
        summary = self.alone.effects.of_call(call)
        is_own = bool(self.alone.program.flow.callees.get(call))
        return not is_own and bool(summary.writes) and replace(summary, writes=frozenset()).is_empty

    def _changes(self, call: ast.Call, before: list[ast.expr]) -> bool:
        """Whether a call may change a variable, or an attribute, that some expressions read."""
        changed = {_text(place) for place in self.alone.effects.of_call(call).writes}
        read = (ast.unparse(n) for e in before for n in ast.walk(e) if isinstance(n, (ast.Name, ast.Attribute)))
        return any(text == each or text.startswith(f"{each}.") for text in read for each in changed)


def _text(place: Place) -> str:
    """A variable, or its attribute, that is changed: `self.step`."""
    attributes = takewhile(lambda part: part.startswith("."), place.path)
    return "".join((place.name, *attributes))
