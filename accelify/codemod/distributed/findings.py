"""The parts of a script that distribute it by hand, as they are found one by one; and where they are looked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import absolute
from accelify.codemod.libraries import names, table
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, main_guard, method_of_call
from accelify.codemod.semantics.values import External


@dataclass
class Distribution:
    """The parts of a script that make it run on several processes.

    removed: statements that go. ranks: what gives a process its number, with the accelerator's word for it; firsts:
    questions whether it is the first. barriers, reductions (with the name reduced, and how): what all processes do
    together. gathered: the lists that they fill, with what each process gives. guarded: what they do together in place,
    which is nothing in one process. samplers: loaders whose sampler shards the data, with whether it shuffles.
    returned: samplers that others are given. devices: where a process's number stands for its GPU. parameters: those of
    functions that are given one. synchronised: where batch norms use the batches of all processes. unsynchronised: the
    wrapper's `no_sync`, called or not. kept: options that only files outside the program read, with these files.
    foreign: what is not understood; one is enough to leave the script alone. known: all that is understood.
    """

    removed: list[ast.stmt] = field(default_factory=list)
    ranks: dict[ast.expr, str] = field(default_factory=dict)
    firsts: dict[ast.Compare, str] = field(default_factory=dict)
    barriers: list[ast.Call] = field(default_factory=list)
    reductions: dict[ast.Call, str] = field(default_factory=dict)
    gathered: dict[ast.Call, tuple[ast.expr, str]] = field(default_factory=dict)
    guarded: list[ast.Call] = field(default_factory=list)
    samplers: dict[ast.Call, bool] = field(default_factory=dict)
    returned: list[ast.Call] = field(default_factory=list)
    devices: set[ast.expr] = field(default_factory=set)
    parameters: set[tuple[Scope, str]] = field(default_factory=set)
    synchronised: list[ast.Call] = field(default_factory=list)
    unsynchronised: list[ast.Attribute] = field(default_factory=list)
    kept: dict[ast.Call, list[str]] = field(default_factory=dict)
    foreign: list[tuple[ast.AST, str]] = field(default_factory=list)
    known: set[ast.AST] = field(default_factory=set)

    @property
    def is_understood(self) -> bool:
        return not self.foreign

    @property
    def tells_processes_apart(self) -> bool:
        """Whether a process asks for its number, or does something together with the others."""
        together = (self.barriers, self.reductions, self.gathered, self.guarded)
        is_numbered = any(word != "num_processes" for word in self.ranks.values())
        return is_numbered or any((self.firsts, self.devices, *together))

    @property
    def replaced(self) -> list[ast.AST]:
        """The places where the accelerator is asked instead."""
        gone = {n for s in self.removed for n in ast.walk(s)}
        together = [*self.barriers, *self.reductions, *self.gathered, *self.guarded, *self.unsynchronised]
        return [n for n in [*self.ranks, *self.firsts, *together] if n not in gone]

    def refuse(self, node: ast.AST, reason: str) -> None:
        """Note something that is not understood."""
        self.foreign.append((node, reason))

    def remove(self, statement: ast.stmt) -> None:
        """Note a statement that goes."""
        if statement not in self.removed:
            self.removed.append(statement)
            self.knows(statement)

    def knows(self, node: ast.AST) -> None:
        """Note that all of a node is understood."""
        self.known.update(ast.walk(node))


class Place:
    """The files in which it is looked for."""

    def __init__(self, program: Program, files: set[str]) -> None:
        self.program = program
        self.files = files

    def holds(self, node: ast.AST) -> bool:
        """Whether a node is in these files, in code that may run."""
        return self.program.path(node) in self.files and self.program.frame(node) in self.program.reachable

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the files."""
        for path in sorted(self.files):
            yield from self.program.flow.parsed_of[path].parents

    def readers(self, node: ast.AST, attribute: str) -> list[str]:
        """The files outside the program that import a node's file, and read an attribute by this name."""
        program = self.program
        known = {absolute(f.path) for f in program.files}
        found = program.flow.project.readers(program.parsed(node), attribute)
        return [f.path for f in found if absolute(f.path) not in known and _reads(f, attribute)]

    def is_alone(self, call: ast.Call) -> bool:
        """Whether a call is a statement by itself."""
        statement = self.program.statement(call)
        return isinstance(statement, ast.Expr) and statement.value is call

    def is_optional(self, node: ast.AST) -> bool:
        """Whether a node runs under a condition of its function."""
        return bool(self.branches(node))

    def branches(self, node: ast.AST) -> set[tuple[ast.AST, bool]]:
        """The conditions of its function under which a node runs, each with whether it is in the body."""
        guard = main_guard(self.program.scope(node).root)
        found: set[tuple[ast.AST, bool]] = set()
        child = node
        for ancestor in self.program.ancestors(node):
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)) or ancestor is guard:
                break
            if isinstance(ancestor, (ast.If, ast.IfExp)) and not isinstance(ancestor.test, ast.Constant):
                body = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
                found.add((ancestor, child in body))
            child = ancestor
        return found


class Guards:
    """Which processes come to a place: the question for a process's number may stand round a call of its function."""

    def __init__(self, program: Program, found: Distribution) -> None:
        self.program = program
        told = {node: row.asks for node, word in found.ranks.items() for row in table.members(word)}
        self._conditions = Conditions(program, {node: asks for node, asks in told.items() if asks is not None})

    def may_all_run(self, node: ast.AST) -> bool:
        """Whether others than the main process may come to a place."""
        worlds = self._conditions.worlds(node)
        return not worlds or bool(worlds & worlds_where(Process.OTHER))

    def only_main_runs(self, node: ast.AST) -> bool:
        """Whether of several processes the main one alone comes to a place."""
        return not self.may_all_run(node) and bool(self._conditions.worlds(node) & worlds_where(Process.MAIN))

    def calls_of_main(self, node: ast.AST) -> Iterator[ast.AST]:
        """A place, or the calls that lead to it, which of several processes the main one alone comes to."""
        queue, seen = [node], {node}
        while queue:
            place = queue.pop()
            if self.only_main_runs(place):
                yield place
                continue
            calls = self.program.calls_of(self.program.frame(place))
            queue += [c for c in calls if c not in seen]
            seen.update(calls)


def option_of(call: ast.Call) -> tuple[str, str] | None:
    """The option of a command line that a call adds to a parser, and the attribute that gets its value."""
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if method_of_call(call) != "add_argument" or not texts:
        return None
    option = next((t for t in texts if t.startswith("--")), texts[0])
    named = next((k.value for k in call.keywords if k.arg == "dest"), None)
    is_named = isinstance(named, ast.Constant) and isinstance(named.value, str)
    return option, named.value if is_named else option.lstrip("-").replace("-", "_")  # type: ignore[union-attr]


def stays_for(option: str, readers: Sequence[str]) -> str:
    """The message about an option that only other files read."""
    return f"`{option}` has no effect here any more; it is kept because it is read in {' and '.join(sorted(readers))}"


def _reads(parsed: Parsed, attribute: str) -> bool:
    """Whether a file reads an attribute, or may read it by its name; not one of options that it adds itself."""
    added = [option_of(n) for n in parsed.nodes if isinstance(n, ast.Call)]
    if any(a is not None and a[1] == attribute for a in added):
        return False
    return any(
        (isinstance(n, ast.Attribute) and n.attr == attribute and isinstance(n.ctx, ast.Load))
        or (isinstance(n, ast.Constant) and n.value == attribute)
        for n in parsed.nodes
    )


_START = "this starts processes: call the function directly, and start the script with `accelify launch`"
_OTHERWISE = "remove this, or keep the script unchanged and start it with `torchrun`"


def reason_for(name: str) -> str:
    """Why a script that uses this name is left alone, and what can be done."""
    last = name.rpartition(".")[2]
    if last in ("spawn", "Process"):
        return f"`{name}`: {_START}"
    if names.is_for_tpu(name):
        way = _way_out(name) if names.instead_of(name) else "remove this"
        return f"`{name}`: the script is written for a TPU, on which `accelify launch` starts it as well; {way}"
    return f"`{name}`: the script already distributes itself; {_way_out(name)}"


def _way_out(name: str) -> str:
    instead = names.instead_of(name)
    if instead is not None:
        of_runtime = "" if "." in instead else " of the runtime"
        return f"`{instead}`{of_runtime} does the same, also in one process"
    if names.is_wrapper(name):
        return "remove the wrapper: `prepare` replaces it"
    return "remove the sampler: `prepare` shards the data" if names.is_sampler(name) else _OTHERWISE


def is_part_of_a_name(program: Program, node: ast.AST) -> bool:
    """Whether a name is only the beginning of another that is told: `dist` of `dist.all_reduce`."""
    parent = program.parent(node)
    held = program.flow.values.get(parent, frozenset()) if isinstance(parent, ast.Attribute) else ()
    told = [v.name for v in held if isinstance(v, External)]
    return any(names.is_distributed(name) or names.is_for_tpu(name) for name in told)
