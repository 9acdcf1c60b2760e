"""Classes of the project's own that do what a library's dictionary of attributes does.

class AttrDict(dict):
    def __getattr__(self, name): return self[name]            __getattr__ = dict.get
    def __setattr__(self, name, value): self[name] = value    __setattr__ = dict.__setitem__
"""

from __future__ import annotations

import ast

_KEPT_AS_ATTRIBUTES = "self.__dict__ = self"
_READS = frozenset({"__getattr__", "__getattribute__"})
_WRITES = frozenset({"__setattr__"})
_OTHERS = frozenset({"__init__", "__delattr__", "__dir__", "__repr__", "__str__", "__hasattr__"})
_OF_DICT = frozenset({"get", "__getitem__", "__setitem__", "__delitem__"})


def is_attribute_dict(node: ast.ClassDef) -> bool:
    """Whether a class that inherits from `dict` alone has its items as attributes, to read and to set, and no more."""
    names: set[str] = set()
    for statement in node.body:
        defined = _defined(statement)
        if defined is None:
            return False
        names |= defined
    is_known = names <= _READS | _WRITES | _OTHERS | {_KEPT_AS_ATTRIBUTES}
    return is_known and (_KEPT_AS_ATTRIBUTES in names or bool(names & _READS and names & _WRITES))


def _defined(statement: ast.stmt) -> set[str] | None:
    """The names that a statement of a class defines by means of items; None if it does anything else."""
    if isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ):
        return set()
    if isinstance(statement, ast.Assign):
        value, targets = statement.value, statement.targets
        is_method = isinstance(value, ast.Attribute) and value.attr in _OF_DICT
        is_named = is_method and all(isinstance(t, ast.Name) for t in targets)
        return {t.id for t in targets if isinstance(t, ast.Name)} if is_named else None
    if not isinstance(statement, ast.FunctionDef) or statement.decorator_list or not statement.args.args:
        return None
    return _defined_by_method(statement)


def _defined_by_method(method: ast.FunctionDef) -> set[str] | None:
    own = method.args.args[0].arg
    if method.name == "__init__":
        texts = [ast.unparse(s).replace(own, "self") for s in method.body]
        others = [t for t in texts if t != _KEPT_AS_ATTRIBUTES and not _runs_dict(t)]
        return {method.name, *({_KEPT_AS_ATTRIBUTES} & set(texts))} if not others else None
    if method.name in _READS | _WRITES and not _uses_item(method, own):
        return None
    return {method.name}


def _runs_dict(text: str) -> bool:
    """`super().__init__(*args, **kwargs)`, `dict.__init__(self, *args, **kwargs)`"""
    return text.startswith(("super(", "dict.")) and ".__init__(" in text and text.endswith("*args, **kwargs)")


def _uses_item(method: ast.FunctionDef, own: str) -> bool:
    """Whether a method reads or sets the item that its first argument names: `self[name]`, `self.get(name)`."""
    name = method.args.args[1].arg if len(method.args.args) > 1 else None
    for node in ast.walk(method):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == own:
            return isinstance(node.slice, ast.Name) and node.slice.id == name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_DICT:
            return any(isinstance(a, ast.Name) and a.id == name for a in node.args)
    return False
