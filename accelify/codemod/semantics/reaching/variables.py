"""Which variable does a name or an attribute stand for, and what is a definition of one?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, auto

from accelify.codemod.semantics.control_flow import ControlFlow
from accelify.codemod.semantics.scopes import Bindings, Scope


class Kind(Enum):
    """How a definition comes to be."""

    ASSIGNMENT = auto()
    AUGMENTED = auto()
    LOOP = auto()
    PARAMETER = auto()
    IMPORT = auto()
    WITH = auto()
    EXCEPT = auto()
    PATTERN = auto()
    FUNCTION = auto()
    CLASS = auto()
    DELETION = auto()
    IN_PLACE = auto()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a scope, or an attribute of the objects of a class and its relatives; or of any object."""

    scope: Scope | None
    name: str
    is_attribute: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """`node` gives `variable` a value or changes its object: a name, attribute, argument, alias, function, call..."""

    kind: Kind
    node: ast.AST
    variable: Variable

    def __hash__(self) -> int:  # quick, and nearly always another for each
        return hash((self.node, self.variable.name))


class Names:
    """The variables of a file's names and attributes."""

    def __init__(self, flow: ControlFlow, bindings: Bindings) -> None:
        self.flow = flow
        self.bindings = bindings
        self._families: dict[Scope, Scope] = {}
        for scope in bindings.root.walk():
            if scope.kind == "class":
                self._families.setdefault(scope, scope)
                for base in getattr(scope.node, "bases", ()):
                    for relative in self._classes(base):
                        self._families[self.family(relative)] = self.family(scope)

    def _classes(self, base: ast.expr) -> list[Scope]:
        if not isinstance(base, ast.Name):
            return []
        writes = self.bindings.scope_of[base].writes_of(base.id)
        return [self.bindings.made_by[w] for w in writes if isinstance(w, ast.ClassDef)]

    def family(self, cls: Scope) -> Scope:
        """One class for all that inherit from each other in this file."""
        while self._families.setdefault(cls, cls) is not cls:
            cls = self._families[cls]
        return cls

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        while node not in self.bindings.scope_of:
            node = self.flow.parents[node]
        return self.bindings.scope_of[node]

    def variable(self, node: ast.AST) -> Variable | None:
        if isinstance(node, ast.Name):
            owner = self.scope(node).owner(node.id)
            return None if owner is None else Variable(owner, node.id)
        if isinstance(node, ast.Attribute):
            cls = self.class_of_self(node.value)
            return Variable(None if cls is None else self.family(cls), node.attr, is_attribute=True)
        return None

    def named(self, name: str, node: ast.AST) -> Variable:
        """The variable of a name that a node other than a Name binds."""
        scope = self.scope(node)
        return Variable(scope.owner(name) or scope, name)

    def class_of_self(self, node: ast.expr) -> Scope | None:
        """The class of `self`: of the first parameter of a method, which is never bound again."""
        if not isinstance(node, ast.Name):
            return None
        method = self.scope(node).owner(node.id)
        if method is None or not method.is_method or method.is_static:
            return None
        first = method.parameters[:1]
        is_self = bool(first) and first[0].arg == node.id and method.writes[node.id] == [first[0]]
        return method.parent if is_self else None

    def home(self, variable: Variable) -> ast.AST | None:
        """The function or module in whose graph a variable lives; None for attributes."""
        if variable.is_attribute or variable.scope is None:
            return None
        scope = variable.scope
        while scope.kind in ("class", "comprehension"):
            assert scope.parent is not None
            scope = scope.parent
        return scope.node

    def function(self, frame: ast.AST) -> Scope | None:
        """The scope that a function makes."""
        return self.bindings.made_by.get(frame)

    def enclosing(self, frame: ast.AST) -> ast.AST:
        """The function or module in whose graph a function is defined."""
        return self.flow.frame(frame)
