"""One branch in the place of a condition."""

from __future__ import annotations

import libcst as cst

from accelify.codemod.edits.values import Unwrap


def branch_of(node: cst.If, edit: Unwrap) -> cst.BaseSuite:
    """The branch that takes a condition's place."""
    for _ in range(edit.depth):
        assert isinstance(node.orelse, cst.If)
        node = node.orelse
    if edit.is_body:
        return node.body
    assert isinstance(node.orelse, cst.Else)
    return node.orelse.body


def negated(node: cst.If) -> cst.If:
    """`if not test:` with what was done otherwise."""
    assert isinstance(node.orelse, cst.Else)
    test = node.test
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    else:
        if isinstance(test, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)) and not test.lpar:
            test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        test = cst.UnaryOperation(cst.Not(), test)
    whitespace = cst.SimpleWhitespace(" ")
    return node.with_changes(test=test, whitespace_before_test=whitespace, body=node.orelse.body, orelse=None)
