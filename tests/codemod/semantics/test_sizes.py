"""Whose size an expression asks for."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics import sizes


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "of", "dimension"),
    [
        ("len(batch[0])", "batch[0]", 0),
        ("x.size(0)", "x", 0),
        ("x.size(dim=1)", "x", 1),
        ("x.size()[1]", "x", 1),
        ("out.logits.shape[-1]", "out.logits", -1),
    ],
)
def test_finds_the_value_and_the_dimension(text: str, of: str, dimension: int) -> None:
    size = sizes.size(expression(text))
    assert size is not None
    assert (ast.unparse(size.of), size.dimension) == (of, dimension)


@pytest.mark.parametrize("text", ["x[0]", "x.shape", "x.shape[i]", "x.size()", "x.mean(0)", "len(a, b)", "len()", "n"])
def test_asks_for_no_size(text: str) -> None:
    assert sizes.size(expression(text)) is None


@pytest.mark.parametrize("text", ["x.shape", "x.size()"])
def test_finds_whose_whole_shape_is_asked_for(text: str) -> None:
    assert ast.unparse(sizes.shaped(expression(text)) or ast.Constant(None)) == "x"


@pytest.mark.parametrize("text", ["x.size(0)", "x.data", "shape(x)", "x.sum()"])
def test_finds_no_shape(text: str) -> None:
    assert sizes.shaped(expression(text)) is None


def test_finds_every_length() -> None:
    found = sizes.measured_in(expression("len(train) // size + self.len(other) + len(valid)"))
    assert {ast.unparse(each) for each in found} == {"train", "valid"}
