"""How does a text read that code puts together, with `{}` for what is filled in?

f"best_{epoch}.pt"    "best_{}.pt".format(epoch)    "best_%d.pt" % epoch    "best_" + str(epoch) + ".pt"
"""

from __future__ import annotations

import ast
import re

HOLE = "{}"


def template(node: ast.AST) -> str:
    """Such a text; nothing for what is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return re.sub(r"\{[^{}]*\}", HOLE, template(node.func.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%[-+ #0]*\d*(\.\d+)?\w", HOLE, template(node.left))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return f"{left or HOLE}{right or HOLE}" if left or right else ""
    return ""
