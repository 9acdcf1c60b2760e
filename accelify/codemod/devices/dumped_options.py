"""Is an option written out among the others, as `json.dump(vars(args), file)` does, so that it must stay text?"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Made


def is_dumped_text(program: Program, files: Iterable[str], statement: ast.Assign) -> bool:
    """Whether a statement sets an option, `args.device = "cuda:0"`, to text in options that are taken as a whole."""
    target = statement.targets[0]
    if not isinstance(target, ast.Attribute):
        return False
    if any(isinstance(v, Made) and v.name == "torch.device" for v in program.values(statement.value)):
        return False
    options = ast.unparse(target.value)
    nodes = (n for path in files for n in program.flow.parsed_of[path].parents)
    return any(_all_of(node) == options for node in nodes)


def _all_of(node: ast.AST) -> str | None:
    """`args` of `vars(args)` and of `args.__dict__`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "vars" and len(node.args) == 1:
        return ast.unparse(node.args[0])
    return ast.unparse(node.value) if isinstance(node, ast.Attribute) and node.attr == "__dict__" else None
