"""What does code that libraries run keep from round to round: that of a loader, of a hook, of an operation of its own?

    def __getitem__(self, i):
        self.mean = 0.99 * self.mean + 0.01 * self.rows[i]
        return self.rows[i] - self.mean

A data set, a transform or a collate function of a sharded loader makes the rows of one rank's shard only, and a hook is
given what comes of them. What it keeps of a row under that row's own number, `self.cache[i] = x`, is right; so is a
buffer that it empties again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import TypeGuard

from accelify.codemod.libraries import methods, names
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.forward_state import classes, hook_states, hook_totals, hooked_functions
from accelify.codemod.semantics.definitions import Variable
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import FunctionValue, Instance, Made, Value
from accelify.codemod.training.row_groups import collate_functions

_MAKES_ITEMS = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__")


def loader_states(metrics: Metrics) -> Iterator[tuple[ast.AST, str]]:
    """Where the code that makes batches changes what later rows are made with, each with the name of that."""
    return _states(metrics, _making_rows(metrics))


def pass_states(metrics: Metrics) -> Iterator[tuple[ast.AST, str]]:
    """Where hooks and operations of the script's own change what they compute with in later passes."""
    program = metrics.measured.program
    found = set(hooked_functions(metrics))
    operations = (cls for cls in classes(program) if any(map(names.is_operation, program.flow.external_bases(cls))))
    passes = (m for cls in operations for m in (cls.method("forward"), cls.method("backward")))
    found |= program.run_from(m for m in passes if m is not None) if metrics.ranks.rounds else set()
    known = {program.statement(node) for states in (hook_states, hook_totals) for node, _ in states(metrics)}
    for node, name in _states(metrics, sorted(found, key=lambda f: program.position(f.node))):
        if program.statement(node) not in known:
            yield node, name


def _states(metrics: Metrics, functions: list[Scope]) -> Iterator[tuple[ast.AST, str]]:
    """The statements and calls of some functions that change what other statements of them compute with."""
    program, running = metrics.measured.program, metrics.ranks.running
    nodes = [n for f in functions for statement in f.body for n in ast.walk(statement)]
    emptied = {running.root(holder) for n in nodes if (holder := _emptied(n)) is not None}
    reads = _reads(metrics, nodes)
    for node in nodes:
        target = _updated(node)
        variable = running.root(target) if target is not None else None
        if target is None or variable is None or variable in emptied or program.externals(target):  # `np.add(a, b)`
            continue
        is_kept = _is_of_a_row(program, node) and _outlives(program, target, variable, functions)
        if is_kept and reads.get(variable, set()) - {program.statement(node)}:
            yield node, ast.unparse(target)


def _reads(metrics: Metrics, nodes: list[ast.AST]) -> dict[Variable, set[ast.stmt]]:
    """The statements that read each variable or attribute."""
    found: dict[Variable, set[ast.stmt]] = {}
    for read in (n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load)):
        if (variable := metrics.ranks.running.variable_of(read)) is not None:
            found.setdefault(variable, set()).add(metrics.measured.program.statement(read))
    return found


def _making_rows(metrics: Metrics) -> list[Scope]:
    """The functions that run while sharded loaders make their batches, in the order of the text."""
    program = metrics.measured.program
    loaders = {v for loop in metrics.shared_loops for v in metrics.measured.yielding(loop)}
    begun = {f for loader in loaders for f in collate_functions(program, loader)}
    for value in _given_to(program, loaders):
        if isinstance(value, FunctionValue):
            begun.add(value.scope)
        elif isinstance(value, Instance):
            begun |= {m for name in _MAKES_ITEMS if (m := program.flow.method(value.cls, name)) is not None}
    return sorted(program.run_from(begun), key=lambda f: program.position(f.node))


def _given_to(program: Program, loaders: Set[Value]) -> Set[Value]:
    """The data that loaders are made with, the data that these are made of, and their transforms."""
    queue, found = list(loaders), set[Value]()
    while queue:
        value = queue.pop()
        call = value.node if isinstance(value, Made) and isinstance(value.node, ast.Call) else None
        named = [k for k in call.keywords if value not in loaders or k.arg == "dataset"] if call is not None else []
        listed = call.args[: 1 if value in loaders else None] if call is not None else []
        new = {v for given in (*listed, *(k.value for k in named)) for v in program.values(given)} - found
        found |= new
        queue += new
    return found


def _updated(node: ast.AST) -> ast.expr | None:
    """What a statement or a call makes anew from what it was, or adds to; not one item of many, unless that counts."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr | None = node.targets[0]
        parts = (n for n in ast.walk(node.value) if isinstance(n, ast.expr))
        target = target if target is not None and ast.unparse(target) in map(ast.unparse, parts) else None
        target = target.value if target is not None and _is_item(target) else target
    elif isinstance(node, ast.AugAssign):
        target = node.target.value if _is_item(node.target) else node.target
    else:
        method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        is_change = method is not None and (methods.changes_in_place(method.attr) or _adds(method.attr))
        target = method.value if method is not None and is_change else None
    while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):  # `self.mean.mul_(0.9).add_(x)`
        target = target.func.value
    return None if target is not None and _is_item(target) else target


def _is_item(target: ast.expr) -> TypeGuard[ast.Subscript]:
    """`self.seen[i]`, of a row that other ranks get at other times; not `stats["mean"]`."""
    return isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant)


def _adds(method: str) -> bool:
    """`append`, `add`; not `setdefault`, under a key of the item's own."""
    return methods.puts_in(method) and methods.passes(method) is None


def _emptied(node: ast.AST) -> ast.expr | None:
    """The container that items are taken out of, or that is set to a new one: `self.rows.pop()`, `self.rows = []`."""
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Dict)):
        return node.targets[0]
    method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    is_out = method is not None and methods.takes_out(method.attr)
    return method.value if method is not None and is_out else None


def _is_of_a_row(program: Program, node: ast.AST) -> bool:
    """Whether a change is made from what the function is given, or has made of that."""
    value = node.value if isinstance(node, (ast.Assign, ast.AugAssign)) else None
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    keys = [t.slice for t in targets if isinstance(t, ast.Subscript)]
    given = [value, *keys] if value is not None else [*node.args, *(k.value for k in node.keywords)]  # type: ignore[attr-defined]  # a call
    read = (n for g in given for n in ast.walk(g) if isinstance(n, ast.Name) and not _is_self(program, n))
    owners = (program.scope(n).owner(n.id) for n in read)
    return any(owner is not None and owner.kind not in ("module", "class") for owner in owners)


def _is_self(program: Program, name: ast.Name) -> bool:
    owner = program.scope(name).owner(name.id)
    first = owner.parameters[:1] if owner is not None and owner.is_method else []
    return bool(first) and first[0].arg == name.id


def _outlives(program: Program, target: ast.expr, variable: Variable, functions: list[Scope]) -> bool:
    """Whether what is changed is there for later rows: an attribute of the object, or a variable of other code."""
    if variable.is_attribute and variable.scope is not None:
        return True
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        target = target.value
    owner = program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
    return owner is not None and owner.frame not in functions
