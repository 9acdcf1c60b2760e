"""Imports, parameters and arguments with a name more or less."""

from __future__ import annotations

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import AddParameter, DropParameter


def with_parameter(node: cst.FunctionDef, edit: AddParameter) -> cst.FunctionDef:
    """The function with `edit.name` as a parameter."""
    params = node.params
    listed = list(params.params)
    if edit.instead_of is not None:
        renamed = [_renamed(p, edit.name) if p.name.value == edit.instead_of else p for p in listed]
        return node.with_changes(params=params.with_changes(params=renamed))
    if edit.position >= len(listed):
        new = cst.Param(cst.Name(edit.name))
        if len(listed) > 1 and isinstance(listed[-1].comma, cst.Comma):
            new = new.with_changes(comma=listed[-1].comma)  # of a list that has a line for each
            listed[-1] = listed[-1].with_changes(comma=listed[-2].comma)
        elif listed:
            ending, nothing = listed[-1].whitespace_after_param, cst.SimpleWhitespace("")
            has_lines = len(listed) > 1 and isinstance(ending, cst.ParenthesizedWhitespace)
            comma = snippets.comma_like(listed[-2].comma) if has_lines else _comma(listed[-1].comma)
            new = new.with_changes(whitespace_after_param=ending)
            listed[-1] = listed[-1].with_changes(comma=comma, whitespace_after_param=nothing)
        listed.append(new)
    else:
        comma = snippets.comma_like(listed[max(edit.position - 1, 0)].comma)
        listed.insert(edit.position, cst.Param(cst.Name(edit.name), comma=comma))
    return node.with_changes(params=params.with_changes(params=listed))


def _renamed(parameter: cst.Param, name: str) -> cst.Param:
    """A parameter that means something else now; its default, which no call uses, means nothing."""
    default = parameter.default and cst.Name("None")
    return parameter.with_changes(name=cst.Name(name), annotation=None, default=default)


def without_parameter(node: cst.FunctionDef, edit: DropParameter) -> cst.FunctionDef:
    """The function without the parameter `edit.name`."""
    params = node.params
    kept = [p for p in params.params if p.name.value != edit.name]
    named = [p for p in params.kwonly_params if p.name.value != edit.name]
    if kept and len(kept) < len(params.params) and params.params[-1].name.value == edit.name and not named:
        kept[-1] = kept[-1].with_changes(comma=params.params[-1].comma)
    return node.with_changes(params=params.with_changes(params=kept, kwonly_params=named))


def without_arguments(original: cst.CSTNode, node: cst.CSTNode, gone: set[cst.CSTNode]) -> cst.CSTNode:
    """The call without some of its arguments."""
    assert isinstance(original, cst.Call)
    assert isinstance(node, cst.Call)
    kept = [new for old, new in zip(original.args, node.args, strict=True) if old.value not in gone]
    last = node.args[-1]
    if kept and kept[-1] is not last:
        kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return node.with_changes(args=kept)


def without_names(node: cst.CSTNode, gone: set[str]) -> cst.CSTNode:
    """The import without some of the names that it binds."""
    assert isinstance(node, (cst.Import, cst.ImportFrom))
    assert not isinstance(node.names, cst.ImportStar)
    kept = [alias for alias in node.names if _bound_name(alias) not in gone]
    last = kept[-1]
    multiline = isinstance(node, cst.ImportFrom) and node.lpar is not None
    if not multiline:
        last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    elif isinstance(node.names[-1].comma, cst.Comma):
        last = last.with_changes(comma=node.names[-1].comma)
    else:
        last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(names=[*kept[:-1], last])


def _bound_name(alias: cst.ImportAlias) -> str:
    """The name that a part of an import binds."""
    return alias.evaluated_alias or alias.evaluated_name


def _comma(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma:
    if isinstance(comma, cst.Comma) and not isinstance(comma.whitespace_after, cst.SimpleWhitespace):
        return comma
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
