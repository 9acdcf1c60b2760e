"""The values that flow through a program, as the analysis distinguishes them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from accelify.codemod.semantics.scopes import Scope


@dataclass(frozen=True)
class External:
    """Something of a library, by its qualified name: `torch.optim.AdamW`."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A literal string, number, bool or None."""

    value: object


@dataclass(frozen=True)
class ModuleValue:
    """One of the project's own modules."""

    root: Scope


@dataclass(frozen=True)
class ClassValue:
    """A class of the project's own."""

    scope: Scope


@dataclass(frozen=True)
class FunctionValue:
    """A function of the project's own; `owner` is its `self` when it was taken from an instance."""

    scope: Scope
    owner: Value | None = None


@dataclass(frozen=True)
class Instance:
    """An instance of a class of the project's own; instances of one class are not distinguished."""

    cls: Scope


@dataclass(frozen=True)
class SuperOf:
    """`super()`, or `super(cls, self)`, for an instance of `owner`: its methods are those of the bases of `cls`."""

    cls: Scope
    owner: Scope


@dataclass(frozen=True)
class Made:
    """The result of a call: `name` is the qualified name of the called function, where it is a library's."""

    node: ast.AST
    name: str | None


@dataclass(frozen=True)
class Collection:
    """A list, tuple, dict or set made at `node`; its items are kept apart where their keys are literal."""

    node: ast.AST


@dataclass(frozen=True)
class View:
    """An iterator over something: `enumerate`, `zip`, `tqdm`, `iter` and their like, made at `node`."""

    kind: str
    node: ast.AST


@dataclass(frozen=True)
class Generated:
    """The generator that a generator function of the project's own returns."""

    scope: Scope


@dataclass(frozen=True)
class Parameters:
    """`owner.parameters()`, or a part of it."""

    owner: Value


@dataclass(frozen=True)
class Element:
    """An element that iterating over `owner` yields, or a part of it: a batch, when the owner is a loader."""

    owner: Value


@dataclass(frozen=True)
class Member:
    """`owner.name`, where nothing is known of it but its name."""

    owner: Value
    name: str

    @property
    def root(self) -> Value:
        """The outermost owner: `a` of `a.b.c`."""
        return self.owner.root if isinstance(self.owner, Member) else self.owner


@dataclass(frozen=True)
class Argument:
    """A parameter of a function that nothing in the program calls."""

    scope: Scope
    name: str


Value = (
    External
    | Constant
    | ModuleValue
    | ClassValue
    | FunctionValue
    | Instance
    | SuperOf
    | Made
    | Collection
    | View
    | Generated
    | Parameters
    | Element
    | Member
    | Argument
)
Values = frozenset[Value]
NOTHING: Values = frozenset()


HOLE = "{}"


def form(node: ast.AST) -> ast.expr | None:
    """The text that a formatting fills in: `name` of `name.format(epoch)` and of `name % epoch`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return node.func.value
    return node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) else None


def filled_in(formatting: ast.AST, text: str) -> str:
    """A text with `{}` for all that a formatting fills in."""
    places = r"\{[^{}]*\}" if isinstance(formatting, ast.Call) else r"%[-+ #0]*\d*(\.\d+)?\w"
    return re.sub(places, HOLE, text)


def template(node: ast.AST) -> str:
    """How a text reads that code puts together, with `{}` for what is filled in; nothing for what is none.

    f"best_{epoch}.pt"    "best_{}.pt".format(epoch)    "best_%d.pt" % epoch    "best_" + str(epoch) + ".pt"
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    if (text := form(node)) is not None:
        return filled_in(node, template(text))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return f"{left or HOLE}{right or HOLE}" if left or right else ""
    return ""
