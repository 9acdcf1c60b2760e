"""In which order does a script go over its data in one process, where several have samplers?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.distributed.branches import Arms
from accelify.codemod.distributed.conditions import Key
from accelify.codemod.distributed.launcher_edits import Tangle
from accelify.codemod.distributed.launching import Launching


class Orders:
    """Find it for the loaders of samplers that there are for several processes only."""

    def __init__(self, launching: Launching, arms: Arms, found: Tangle) -> None:
        self.launching = launching
        self.program = launching.program
        self.arms = arms
        self.found = found

    def find(self) -> None:
        """A sampler that is there for several processes only keeps the order that the data have in one."""
        for key, sampler in self.arms.samplers.items():
            if sampler in self.found.gone or not self._is_optional(sampler):
                continue
            choices = [a for a in self.program.ancestors(sampler) if isinstance(a, ast.IfExp)]
            otherwise = [c.orelse if self.found.choices[c] else c.body for c in choices if c in self.found.choices]
            otherwise += [
                s.value
                for s in self.launching.assigns
                if self.launching.key(s.targets[0]) == key and s.value is not sampler and s in self.found.gone
            ]
            for loader in self._loaders(key):
                orders = {self._order_in_one(loader, value) for value in otherwise or [ast.Constant(None)]}
                if None in orders or len(orders) > 1:
                    self.found.refuse(loader, "cannot tell in which order this goes over its data in one process")
                elif self.arms.shuffles(sampler, None) not in orders:
                    self.found.orders[sampler] = bool(orders.pop())

    def _is_optional(self, sampler: ast.Call) -> bool:
        """Whether a sampler is made under a condition that goes."""
        return any(a in self.found.branches or a in self.found.choices for a in self.program.ancestors(sampler))

    def _loaders(self, key: Key) -> Iterator[ast.Call]:
        for call in self.launching.calls:
            given = {k.arg: k.value for k in call.keywords}
            sampler = given.get("sampler")
            if isinstance(sampler, (ast.Name, ast.Attribute)) and self.launching.key(sampler) == key:
                yield call

    def _order_in_one(self, loader: ast.Call, sampler: ast.expr) -> bool | None:
        """Whether a loader shuffles where the script does not distribute itself."""
        if not (isinstance(sampler, ast.Constant) and sampler.value is None):
            found = self.arms.shuffles(sampler, None)
            return found if isinstance(found, bool) else None
        shuffle = next((k.value for k in loader.keywords if k.arg == "shuffle"), ast.Constant(False))
        if isinstance(shuffle, ast.Compare) and isinstance(shuffle.ops[0], (ast.Is, ast.IsNot, ast.Eq)):
            asked = next((k.value for k in loader.keywords if k.arg == "sampler"), None)
            is_none = ast.unparse(shuffle.comparators[0]) == "None"
            if asked is not None and is_none and ast.unparse(shuffle.left) == ast.unparse(asked):
                return not isinstance(shuffle.ops[0], ast.IsNot)
        return self.launching.off(shuffle)
