"""Under which name, and where, is an object prepared? What it was called first, in the function that made it."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.handed_back import goes_over
from accelify.codemod.semantics.in_place import is_fixed
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance
from accelify.codemod.training.roles import Roles


class Bindings:
    """Choose among the names of an object, and say what a name may be given."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer

    def outermost(self, chain: Chain) -> Binding:
        """Where an object was first given a name; for a parameter that nobody fills, the attribute that keeps it."""
        last = chain[-1]
        if last.kind == "inline" and len(chain) > 1:
            return last if chain[-2].kind == "parameter" or self.goes_over(chain[-2].value) else chain[-2]
        if last.kind == "parameter":
            for kept in reversed(chain[:-1]):
                if (
                    kept.kind == "assign"
                    and isinstance(kept.node, ast.Attribute)
                    and (kept.scope is last.scope or self._is_handed_up(last.scope, kept.scope))
                ):
                    return kept
        return last

    def goes_over(self, value: ast.expr | None) -> bool:
        """`iter(DataLoader(data))` or `endless(DataLoader(data))`, no loaders but over one that has no name."""
        return value is not None and goes_over(self.program, self.tracer, value)

    def below_views(self, chain: Chain) -> Chain:
        """The names that a loader has, without those of an iterator over it, or of `list(loader)[:2]`."""
        views = [k for k, b in enumerate(chain[:-1]) if self.goes_over(self.named(b)) or _is_sliced(b)]
        return chain[views[-1] + 1 :] if views else chain

    def named(self, binding: Binding) -> ast.expr | None:
        """The expression that a binding gives its name."""
        if binding.call is None or not isinstance(binding.node, ast.arg):
            return binding.value
        return self.tracer.argument(binding.call, binding.scope, binding.node.arg)

    def _is_handed_up(self, constructor: Scope, base: Scope) -> bool:
        """Whether a constructor passes its argument to its base class's, which others may call too."""
        cls, ancestor = constructor.parent, base.parent
        if constructor.name != "__init__" or base.name != "__init__" or cls is None or ancestor is None:
            return False
        return cls in self.program.flow.descendants(ancestor)

    def item(self, kind: str, binding: Binding) -> Item:
        """An object to prepare where a binding names it."""
        statement = binding.statement if binding.kind != "parameter" else None
        line = self.program.line(binding.node)
        assigned = self.may_assign(binding.text, binding.scope) and not is_fixed(self.program, binding.node)
        item = Item(kind, binding.text, binding.scope, statement, line, assigned)
        return replace(item, among_others=self._is_among_others(binding))

    def _is_among_others(self, binding: Binding) -> bool:
        """Whether a name is given nothing to prepare elsewhere."""
        others = self.tracer.writes(binding.scope, binding.text)
        return any(map(self.gives_refused, others))

    def may_assign(self, text: str, frame: Scope) -> bool:
        """Whether a function may give a name what `prepare` returns: its own variable, an attribute, not `self`."""
        first = text.split(".")[0].split("[")[0]
        if text != first:
            return first != "" and text != "self"
        return frame.kind == "module" or frame.binds(first) or first in frame.declared_global

    def is_refused(self, node: ast.expr | None) -> bool:
        """Whether all that an expression may hold is nothing to prepare."""
        held = self.program.values(node)
        return bool(held) and all(map(self.roles.is_nothing_to_prepare, held))

    def may_be_refused(self, node: ast.expr | None) -> bool:
        """Whether an expression gives one of several objects, not all of which can be prepared."""
        held = [v for v in self.program.values(node) if isinstance(v, Instance)]
        return any(map(self.roles.is_nothing_to_prepare, held)) and not self.is_refused(node)

    def gives_refused(self, write: ast.AST) -> bool:
        """Whether an assignment gives a name nothing to prepare."""
        return isinstance(write, ast.expr) and self.is_refused(self.tracer.assigned(write))


def _is_sliced(binding: Binding) -> bool:
    return isinstance(binding.node, ast.Subscript) and isinstance(binding.node.slice, ast.Slice)


def within(chain: Chain) -> Chain:
    """The names that an object has since it was taken out of a container, if it was."""
    place = next((k for k, binding in enumerate(chain) if binding.kind == "item"), 0)
    return chain[:place] or chain
