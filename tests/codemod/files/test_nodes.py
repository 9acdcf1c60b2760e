from __future__ import annotations

import ast
from pathlib import Path

import pytest

from accelify.codemod.files.nodes import walk

TREE = ast.parse(Path(__file__).read_text())


def test_walks_in_the_order_of_ast() -> None:
    assert list(walk(TREE)) == list(ast.walk(TREE))


def test_walks_what_a_node_lacks() -> None:
    node = ast.Call(ast.Name("f", ast.Load()), [], [])
    del node.keywords
    assert list(walk(node)) == list(ast.walk(node))


@pytest.mark.parametrize("node", [TREE.body[-1], TREE.body[0], ast.Pass()], ids=["function", "import", "statement"])
def test_walks_a_part(node: ast.AST) -> None:
    assert list(walk(node)) == list(ast.walk(node))


def test_walks_a_node_once() -> None:
    assert walk(TREE) is walk(TREE)
