"""Where is the object that an expression gives changed in place, itself or by another that shares its memory?

rows = np.zeros(8)    # changed by `rows[0] = 1`, `rows /= 2`, `rows.T[0] = 1`, `np.clip(rows, 0, 1, out=rows)`
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Collection, Instance, Made, Value


class InPlace:
    """Follow an object to where it is used, by the names that it gets."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.chains = program.once(Chains)

    def changes(self, *given: ast.expr) -> Iterator[ast.AST]:
        """The targets, statements and calls that change an object which some expressions give."""
        queue, seen = [*given], set[ast.AST]()
        while queue:
            node = queue.pop()
            if node not in seen:
                seen.add(node)
                user = self._user(node)
                if user is not None and self._is_change(user, node):
                    yield user
                elif user is not None:
                    queue += self._same(user, node)

    def is_read_after(self, read: ast.expr, change: ast.AST) -> bool:
        """Whether an object is read again by the name by which it is read here, once something has changed it."""
        facts = self.chains.facts(read)
        made = [d for d in self.chains.definitions(read) if d.kind is not Kind.IN_PLACE]
        return any(self.is_between(change, d.node, use) for d in made for use in facts.uses(d) if use is not read)

    def is_between(self, change: ast.AST, made: ast.AST, use: ast.expr) -> bool:
        """Whether a change may come after something is made, and before it is used."""
        if len({*map(self.program.frame, (change, made, use))}) > 1:
            return self.program.may_follow(change, made)
        return self.program.reaches(made, change) and self.program.reaches(change, use, without=made)

    def _uses(self, targets: Iterable[ast.expr]) -> list[ast.expr]:
        facts = [(self.chains.facts(t), t) for t in targets]
        return [u for found, t in facts for d in found.at(t) for u in found.uses(d)]

    def _user(self, node: ast.expr) -> ast.AST | None:
        """What an object is used by: the call of its method, or that which it is an argument of."""
        user = self.program.parent(node)
        outer = self.program.parent(user) if isinstance(user, (ast.Attribute, ast.keyword)) else None
        is_method = isinstance(outer, ast.Call) and (outer.func is user or isinstance(user, ast.keyword))
        return outer if is_method else user

    def _is_change(self, user: ast.AST, node: ast.expr) -> bool:
        if isinstance(user, ast.Subscript):
            return user.value is node and not isinstance(user.ctx, ast.Load)
        if isinstance(user, ast.Call):
            return any(changed is node for changed in self.chains.changes(user))
        return isinstance(user, ast.AugAssign) and user.target is node

    def _same(self, user: ast.AST, node: ast.expr) -> list[ast.expr]:
        """The expressions that give the same memory."""
        if isinstance(user, ast.Assign) and user.value is node:
            return self._uses(user.targets)
        if isinstance(user, ast.Subscript) and user.value is node:
            return [user]
        member = user.func if isinstance(user, ast.Call) else user
        is_member = isinstance(member, ast.Attribute) and member.value is node and isinstance(user, ast.expr)
        return [user] if is_member and _is_view(member.attr) else []  # type: ignore[attr-defined,list-item]


def _is_view(name: str) -> bool:
    """Whether a member of an array, or of a tensor, gives the same memory: `T`, `reshape`."""
    rows = (table.member(kind, name) for kind in ("ndarray", "tensor"))
    return any(row is not None and row.has(Trait.VIEW) for row in rows)


def is_fixed(program: Program, attribute: ast.AST) -> bool:
    """Whether an expression is a field of what may be a named tuple, a frozen data class, or a read-only property."""
    if not isinstance(attribute, ast.Attribute):
        return False
    held = program.values(attribute.value)
    return any(_is_record(program, v) or _is_read_only(program, v, attribute.attr) for v in held)


def _is_read_only(program: Program, value: Value, name: str) -> bool:
    """Whether an object has a property of a name that nothing sets; a cached one can be assigned."""
    method = program.flow.method(value.cls, name) if isinstance(value, Instance) else None
    if method is None or not method.has_decorator("property"):
        return False
    beside = method.parent.children if method.parent is not None else ()
    decorators = (d for each in beside if each.name == name for d in getattr(each.node, "decorator_list", ()))
    return not any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in decorators)


def _is_record(program: Program, value: Value) -> bool:
    if isinstance(value, Instance):
        return any(_is_fixed_class(program, cls) for cls in (value.cls, *program.flow.ancestors(value.cls)))
    return isinstance(value, Collection) and isinstance(value.node, ast.Call) and _gives_class(program, value.node.func)


def _is_fixed_class(program: Program, cls: Scope) -> bool:
    bases, decorators = getattr(cls.node, "bases", ()), getattr(cls.node, "decorator_list", ())
    is_tuple = any(table.kind_made_by(name) == "tuple" for base in bases for name in program.externals(base))
    return is_tuple or any(_gives_class(program, base) for base in bases) or any(map(_freezes, decorators))


def _gives_class(program: Program, node: ast.expr) -> bool:
    """Whether an expression is what `namedtuple("State", "model optimizer")` gives."""
    return any(isinstance(v, Made) and v.name == "collections.namedtuple" for v in program.values(node))


def _freezes(decorator: ast.expr) -> bool:
    """Whether a class is decorated by `dataclass(frozen=True)`, or in another library's words."""
    given = decorator.keywords if isinstance(decorator, ast.Call) else ()
    return any(k.arg == "frozen" and isinstance(k.value, ast.Constant) and k.value.value is True for k in given)
