"""New code from text, in the shape that the user's file has."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from string import Formatter
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", cst.Arg, cst.Param)
_LOOSE = (cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.Comparison, cst.IfExp, cst.Lambda)
_LIMIT = 88  # columns; longer calls are broken as the common formatters break them


def expression(template: str, **parts: cst.BaseExpression) -> cst.BaseExpression:
    """An expression from text in which `{name}` stands for a node; parts keep their meaning by parentheses."""
    names = {f"accelify_hole_{name}": _held_together(part, name, template) for name, part in parts.items()}
    text = template.format(**{name: f"accelify_hole_{name}" for name in parts})
    tree = cst.parse_expression(text)
    filled = tree.visit(_Fill(names))
    assert isinstance(filled, cst.BaseExpression)
    return filled


def _held_together(part: cst.BaseExpression, name: str, template: str) -> cst.BaseExpression:
    """A part with parentheses round it where it would fall apart without: `a + b` in `{part} * 2`."""
    if not isinstance(part, _LOOSE) or part.lpar:
        return part
    code = cst.Module([]).code_for_node(part)
    bare, wrapped = (_filled(template, name, each) for each in (code, f"({code})"))
    if bare == wrapped:
        return part
    return part.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _filled(template: str, name: str, code: str) -> str:
    """What a template means with code in one of its places, and names in the others."""
    others = {other: f"accelify_hole_{other}" for _, other, _, _ in Formatter().parse(template) if other is not None}
    try:
        return ast.dump(ast.parse(f"({template.format(**{**others, name: code})})"))
    except SyntaxError:  # `2 * lambda: 3`
        return ""


class _Fill(cst.CSTTransformer):
    def __init__(self, parts: dict[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.parts = parts

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self.parts.get(original_node.value, updated_node)


def passed_to(node: cst.CSTNode, function: str) -> cst.BaseExpression:
    """`function(node)`."""
    assert isinstance(node, cst.BaseExpression)
    return cst.Call(cst.parse_expression(function), [cst.Arg(bare(node))])


def agreed(node: cst.CSTNode, speaker: str, template: str = "{value}") -> cst.BaseExpression:
    """`accelerator.broadcast_object_list([time.time()])[0]`: process 0's value in all."""
    assert isinstance(node, cst.BaseExpression)
    return expression(f"{speaker}.broadcast_object_list([{template}])[0]", value=bare(node))


def reduced(node: cst.CSTNode, accelerator: str, how: str, *, is_number: bool = True) -> cst.BaseExpression:
    """`accelerator.reduce(value, "mean")`; of a value that is neither number nor tensor, whether it is true."""
    assert isinstance(node, cst.BaseExpression)
    value = "{value}" if is_number or isinstance(node, (cst.Comparison, cst.UnaryOperation)) else "bool({value})"
    return expression(f'{accelerator}.reduce({value}, "{how}")', value=bare(node))


def coded(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    """An expression from text for another one, in parentheses where that had some."""
    made = cst.parse_expression(code)
    is_wrapped = isinstance(node, cst.BaseExpression) and bool(node.lpar)
    return made.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]) if is_wrapped else made


def chosen(node: cst.CSTNode, is_body: bool) -> cst.BaseExpression:
    """`a` or `b` for `a if test else b`."""
    assert isinstance(node, cst.IfExp)
    return node.body if is_body else node.orelse


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without its outer parentheses, where it needs none as a call's argument."""
    if not node.lpar or isinstance(node, (cst.Tuple, cst.GeneratorExp, cst.Yield, cst.NamedExpr)):
        return node
    if any(_has_comment(p.whitespace_after) for p in node.lpar) or any(
        _has_comment(p.whitespace_before) for p in node.rpar
    ):
        return node
    return node.with_changes(lpar=(), rpar=())


def _has_comment(space: cst.BaseParenthesizableWhitespace) -> bool:
    return isinstance(space, cst.ParenthesizedWhitespace)


def statements(code: str, indent: str) -> list[cst.BaseStatement]:
    """Statements from text, with the indentation of the file that they are for."""
    text = "\n".join(_reindent(line, indent) for line in code.split("\n"))
    parsed = cst.parse_module(text + "\n")
    parsed = parsed.visit(_Indent(indent)) if "\n" in text else parsed  # one line holds no block
    body: list[cst.BaseStatement] = list(parsed.body)
    if parsed.header and body:
        first = body[0]
        body[0] = first.with_changes(leading_lines=[*parsed.header, *_leading(first)])
    return body


class _Indent(cst.CSTTransformer):
    """Blocks say how they are indented, as LibCST may have seen no other block of their file to tell it."""

    def __init__(self, indent: str) -> None:
        super().__init__()
        self.indent = indent

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(indent=self.indent)


def _leading(node: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(node, "leading_lines", ())
    return lines


def _reindent(line: str, indent: str) -> str:
    stripped = line.lstrip(" ")
    return indent * ((len(line) - len(stripped)) // 4) + stripped


def call_statement(targets: str, function: str, arguments: str | Sequence[str], indent: int = 0) -> str:
    """`targets = function(arguments)`, broken where it would be too long: over three lines, then at every argument."""
    given = arguments if isinstance(arguments, str) else ", ".join(arguments)
    head = f"{targets} = {function}(" if targets else f"{function}("
    line = f"{head}{given})"
    if indent + len(line) <= _LIMIT:
        return line
    if not isinstance(arguments, str) and len(arguments) > 1 and len(f"    {given}") > _LIMIT:
        given = ",\n    ".join(arguments) + ","
    return f"{head}\n    {given}\n)"


def quoted_as(source: str, code: str) -> str:
    """Code with the quotes that a file has most of."""
    return code.replace("'", '"') if source.count('"') > source.count("'") and '"' not in code else code


def with_last(call: cst.Call, new: cst.Arg) -> cst.Call:
    """The call with another argument at its end, on the last one's line or one more where each has a line."""
    if not call.args:
        return call.with_changes(args=[new])
    before = call.args[-2].comma if len(call.args) > 1 else cst.MaybeSentinel.DEFAULT
    return call.with_changes(args=listed_with(call.args, new, before, call.whitespace_before_args))


def listed_with(
    items: Sequence[Item], new: Item, before: cst.Comma | cst.MaybeSentinel, opening: cst.BaseParenthesizableWhitespace
) -> list[Item]:
    """Items with another at their end, after a comma like `before`; what ended the list ends it still.

    A comment at the last one's line stays there, and the new item has a line of its own.
    """
    *rest, last = items
    after = "whitespace_after_arg" if isinstance(last, cst.Arg) else "whitespace_after_param"
    ending = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else getattr(last, after)
    comma = comma_like(before)
    if isinstance(ending, cst.ParenthesizedWhitespace) and ending.first_line.comment is not None:
        line = comma.whitespace_after
        if not isinstance(line, cst.ParenthesizedWhitespace):
            line = opening
        if isinstance(line, cst.ParenthesizedWhitespace):
            comma = cst.Comma(whitespace_after=ending.with_changes(indent=line.indent, last_line=line.last_line))
            bare_line = cst.TrailingWhitespace(newline=ending.first_line.newline)
            ending = ending.with_changes(first_line=bare_line, empty_lines=())
    if isinstance(last.comma, cst.Comma):
        new = new.with_changes(comma=last.comma.with_changes(whitespace_after=ending))
        return [*rest, last.with_changes(comma=comma), new]
    new = new.with_changes(**{after: ending})
    return [*rest, last.with_changes(comma=comma, **{after: cst.SimpleWhitespace("")}), new]


def with_keyword(call: cst.CSTNode, name: str, value: cst.BaseExpression) -> cst.Call:
    """A call with one argument more, given by its name: `torch.zeros(3, device=x.device)`."""
    bare = cst.SimpleWhitespace("")
    given = cst.Arg(value, keyword=cst.Name(name), equal=cst.AssignEqual(bare, bare))
    call = cst.ensure_type(call, cst.Call)
    return with_last(call, given)


def comma_like(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma:
    """A comma that ends its line if another one does, without that one's comments."""
    after = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    if not isinstance(after, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    line = after.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
    return cst.Comma(whitespace_after=after.with_changes(first_line=line, empty_lines=()))


def without_sync(node: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`accelerator.no_sync(model)` for `model.no_sync()`; for `model.no_sync`, a function that does that."""
    function = node.func if isinstance(node, cst.Call) else node
    assert isinstance(function, cst.Attribute)
    held = f"{accelerator}.no_sync({{model}})"
    template = held if isinstance(node, cst.Call) else f"(lambda: {held})"
    return expression(template, model=bare(function.value))
