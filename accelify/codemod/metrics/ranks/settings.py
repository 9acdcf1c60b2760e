"""Which expressions are options of an optimizer, what it keeps, or settings of a library's modules?

group["weight_decay"]      optimizer.state[p]["scale"]      net[0].p
"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.values import Element, Made, Member, Value
from accelify.codemod.training.roles import Roles


class Settings:
    """Tell them by the objects that have them."""

    def __init__(self, chains: Chains, roles: Roles) -> None:
        self.kinds, self.program, self.roles = chains.kinds, chains.program, roles

    def find(self, changed: ast.expr) -> ast.expr | None:
        """The option or setting that a target or the object of a changing call is; no gradient is one."""
        if any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(changed)):
            return None
        is_put = isinstance(changed, (ast.Attribute, ast.Subscript)) and isinstance(changed.ctx, ast.Store)
        if isinstance(changed, ast.Attribute) and is_put:
            of_module = any(map(self._is_librarys, self.program.values(changed.value)))
            return changed if of_module and self._is_number(changed) else None
        holder = changed.value if isinstance(changed, ast.Subscript) and is_put else changed
        return changed if any(map(self.of_optimizer, self.program.values(holder))) else None

    def of_optimizer(self, value: Value) -> list[Value]:
        """The optimizer of which a value is a group, a part of one, or of its state."""
        while isinstance(value, (Element, Member)):
            owner = value.owner
            if isinstance(value, Member) and methods.is_optimizers_part(value.name) and self.roles.is_optimizer(owner):
                return [owner]
            value = owner
        return []

    def _is_librarys(self, value: Value) -> bool:
        """Whether a value is a module of a library, or a part of one: `net[0]`."""
        whole = self.roles.container(value)
        if isinstance(whole, Element) and self.roles.asked_for_parts(whole.owner):
            return True
        return isinstance(whole, Made) and self.roles.is_module(whole)

    def _is_number(self, target: ast.Attribute) -> bool:
        """Whether a target is given a number, and not a tensor of the batch that a layer computes with."""
        value = self.program.assigned(target)[0]
        return value is not None and self.kinds.of(value) == {"number"}
