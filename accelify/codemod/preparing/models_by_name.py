"""Prepared models that `getattr` picks by a name of run time, where code undoes what preparing them does.

for name in self.names:
    net = getattr(self, "net" + name)
    torch.save(net.module.cpu().state_dict(), path)     # the model leaves its device
    net.cuda(self.gpu_ids[0])                           # all processes go to one GPU
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.files.parse import beginning
from accelify.codemod.libraries import methods, names
from accelify.codemod.preparing.objects.preparation import Preparation
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance

Picked = tuple[ast.expr, tuple[str, ...]]  # a use, and the attributes one of which it may be of


class ModelsByName:
    """The attributes that hold prepared models, and what is done to them under names that are made."""

    def __init__(self, program: Program, preparation: Preparation) -> None:
        self._program = program
        self._attributes: dict[Scope, dict[str, None]] = {}
        items = [item for group in preparation.groups for item in group.items]
        for item in [*items, *preparation.bare_models]:
            owner, _, name = item.text.partition(".")
            cls = item.frame.parent
            if item.kind == "model" and cls is not None and item.frame.is_method and owner == _own(item.frame):
                self._attributes.setdefault(cls, {})[name] = None

    def undone(self) -> Iterator[Picked]:
        """The first use in each function that moves a picked model, wraps it, or takes it out of its wrapper."""
        seen = set[Scope]()
        for call in self._program.calls if self._attributes else ():
            attributes = self._picked(call) if self._program.frame(call) not in seen else ()
            undoing = next(filter(self._undoes, self._uses(call)), None) if attributes else None
            if undoing is not None:
                seen.add(self._program.frame(call))
                yield undoing, attributes

    def _picked(self, call: ast.Call) -> tuple[str, ...]:
        """The attributes with prepared models that `getattr(self, "net" + name)` may give; none for a known name."""
        if "getattr" not in self._program.called(call) or len(call.args) < 2 or isinstance(call.args[1], ast.Constant):
            return ()
        owners = {v.cls for v in self._program.values(call.args[0]) if isinstance(v, Instance)}
        flow, start = self._program.flow, beginning(call.args[1])
        held = (a for cls, a in self._attributes.items() if not owners.isdisjoint([cls, *flow.ancestors(cls)]))
        return tuple(dict.fromkeys(name for attributes in held for name in attributes if name.startswith(start)))

    def _uses(self, call: ast.Call) -> Iterator[ast.expr]:
        """The call, and the reads of the variables that get what it gives."""
        yield call
        statement = self._program.statement(call)
        for target in statement.targets if isinstance(statement, ast.Assign) and statement.value is call else ():
            if isinstance(target, ast.Name):
                yield from self._program.reads_of(self._program.scope(target), target.id)

    def _undoes(self, use: ast.expr) -> bool:
        parent = self._program.parent(use)
        if isinstance(parent, ast.Attribute):
            return parent.attr == "module" or (methods.moves(parent.attr) and parent.attr != "to")
        return isinstance(parent, ast.Call) and any(map(names.is_wrapper, self._program.called(parent)))


def _own(method: Scope) -> str:
    return method.parameters[0].arg if method.parameters else ""
