"""How texts read that code puts together."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.values import template


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("'a.pt'", "a.pt"),
        ("f'a{n}.pt'", "a{}.pt"),
        ("f'a{n:03d}{m}.pt'", "a{}{}.pt"),
        ("'a{0:d}.pt'.format(n)", "a{}.pt"),
        ("'a%03d_%.2f.pt' % (n, m)", "a{}_{}.pt"),
        ("'a' + str(n) + '.pt'", "a{}.pt"),
        ("folder + '/a.pt'", "{}/a.pt"),
        ("a + b", ""),
        ("3", ""),
        ("path", ""),
    ],
)
def test_the_text_round_what_is_filled_in(code: str, text: str) -> None:
    assert template(ast.parse(code, mode="eval").body) == text
