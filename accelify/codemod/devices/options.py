"""Which options of the script choose a device: one that keeps it on the CPU, those that name the device of a call?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from accelify.codemod.devices.moves import Move, is_option, last_name
from accelify.codemod.libraries import vocabulary
from accelify.codemod.preparing.reach import Reach
from accelify.codemod.preparing.settings import Setting, Settings
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Made
from accelify.codemod.training.roles import Roles

_DEPTH = 4


@dataclass(frozen=True)
class CpuSetting(Setting):
    """A setting that keeps the accelerator on the CPU; `wishes`, as they are written, are the conditions for a GPU."""

    wishes: frozenset[str] = frozenset()


class Cpu:
    """Find the option behind `"cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu"`."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, reach: Reach) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.reach = reach

    def find(self, files: Collection[str]) -> CpuSetting | None:
        """The setting for `cpu=`; None where the script has no such option, or several, or it is not understood.

        Several homes must have the same one, and have it from the beginning.
        """
        each = [self._of_home(home, files) for home in self.reach.homes]
        known = [s for s in each if s is not None and not (isinstance(s.code, ast.Constant) and not s.code.value)]
        is_one = len(known) == len(each) and len({setting.text for setting in known}) == 1
        if not is_one or (len(known) > 1 and any(setting.after for setting in known)):
            return None
        return replace(known[0], wishes=frozenset(wish for setting in known for wish in setting.wishes))

    def _of_home(self, home: Scope, files: Collection[str]) -> CpuSetting | None:
        settings = Settings(self.program, self.roles, self.tracer, self.reach, home)
        run = self.program.run_from([home])
        found: dict[str, CpuSetting | None] = {}
        for path in files:
            for node in self.program.flow.parsed_of[path].parents:
                if not isinstance(node, (ast.IfExp, ast.If)) or not self._chooses(node, files):
                    continue
                if len(self.reach.homes) > 1 and path != home.module and self.program.frame(node) not in run:
                    continue
                terms = self._terms(node.test, _DEPTH)
                if not terms:
                    return None
                self._settle(settings, terms, found)
        return next(iter(found.values())) if len(found) == 1 else None

    @staticmethod
    def _settle(settings: Settings, terms: list[ast.expr], found: dict[str, CpuSetting | None]) -> None:
        setting = settings.settle(_not_all(terms))
        text = setting.text if setting is not None else ""
        before = found.get(text)
        wishes = frozenset(map(ast.unparse, terms)) | (before.wishes if before is not None else frozenset())
        found[text] = CpuSetting(setting.code, setting.after, wishes) if setting is not None else None

    def _chooses(self, node: ast.IfExp | ast.If, files: Collection[str]) -> bool:
        """Whether a choice is one between a GPU and the CPU."""
        if self.program.frame(node) not in self.program.reachable:
            return False
        if isinstance(node, ast.If):
            return self._only_moves(node) and not self._always_moves(files)
        gpu, cpu = ast.unparse(node.body), ast.unparse(node.orelse)
        named = all(any(self.roles.is_device(v) for v in self.program.values(b)) for b in (node.body, node.orelse))
        return named and "cuda" in gpu and "cpu" in cpu

    def _only_moves(self, node: ast.If) -> bool:
        """Whether a condition only moves things to the GPU, a model among them: `model = model.cuda()`.

        What it makes there, `loss = nn.MSELoss().cuda()`, it makes on the CPU otherwise: `loss = nn.MSELoss()`.
        """
        moved: list[ast.expr] = []
        otherwise = {ast.unparse(s) for s in node.orelse}
        for statement in node.body:
            if on_cpu := _made_on_cpu(statement) & otherwise:
                otherwise -= on_cpu
                continue
            move = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
            if isinstance(move, ast.Call) and (self._is_wrapped(statement, move) or ast.unparse(move.func) == "print"):
                continue
            if not isinstance(move, ast.Call) or not isinstance(move.func, ast.Attribute) or move.args:
                return False
            if move.func.attr != "cuda" or move.keywords:
                return False
            kept = statement.targets if isinstance(statement, ast.Assign) else [move.func.value]
            if ast.unparse(kept[0]) != ast.unparse(move.func.value) or isinstance(move.func.value, ast.Call):
                return False
            moved.append(move.func.value)
        return not otherwise and any(self.roles.is_model(v) for m in moved for v in self.program.values(m))

    @staticmethod
    def _is_wrapped(statement: ast.stmt, call: ast.Call) -> bool:
        """`model = nn.DataParallel(model)`"""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return bool(call.args) and [ast.unparse(t) for t in targets] == [ast.unparse(call.args[0])]

    def _always_moves(self, files: Collection[str]) -> bool:
        """Whether something goes to the GPU whatever the options say."""
        return any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "cuda"
            and self.program.path(call) in files
            and self.program.frame(call) in self.program.reachable
            and not any(isinstance(a, (ast.If, ast.IfExp)) for a in self.program.ancestors(call))
            for call in self.program.calls
        )

    def _terms(self, node: ast.expr, depth: int) -> list[ast.expr]:
        """What must hold besides that there is a GPU; nothing where that is not known."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return [term for value in node.values for term in self._terms(value, depth)]
        if any(self.roles.is_cuda_test(v) for v in self.program.values(node)) and isinstance(node, ast.Call):
            return []
        value = self.tracer.only_value(node) if depth else None
        if value is not None and "cuda" in ast.unparse(value):
            return self._terms(value, depth - 1)
        return [node]


class OnGpu:
    """What conditions come to where a script computes on a GPU, or where it could not, as there is none.

    wishes: the conditions, as they are written, under which the accelerator is not kept on the CPU.
    """

    def __init__(
        self, conditions: Conditions, tracer: Tracer, wishes: Collection[str], *, has_gpu: bool = True
    ) -> None:
        self.conditions = conditions
        self.program = tracer.program
        self.tracer = tracer
        self.wishes = wishes
        self._worlds = worlds_where(Process.ONE, has_gpu=has_gpu)
        self._known: dict[ast.expr, bool | None] = {}

    def holds(self, test: ast.expr) -> bool | None:
        """Whether a condition is true there; None where that is not known."""
        if test not in self._known:
            self._known[test] = None
            self._known[test] = self._holds(test)
        return self._known[test]

    def _holds(self, test: ast.expr) -> bool | None:
        if self.wishes:
            wished = self._wished(test)
            if wished is not None:
                return wished
        return self.conditions.truth_in(test, self._worlds)

    def _wished(self, test: ast.expr) -> bool | None:
        text = ast.unparse(test)
        if text in self.wishes:
            return True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            held = self.holds(test.operand)
            return None if held is None else not held
        if f"not {text}" in self.wishes:
            return False
        if isinstance(test, ast.BoolOp):
            held_each = [self.holds(v) for v in test.values]
            decisive = isinstance(test.op, ast.Or)
            return decisive if decisive in held_each else None if None in held_each else not decisive
        value = self.tracer.only_value(test)
        return None if value is None else self.holds(value)


def _made_on_cpu(statement: ast.stmt) -> set[str]:
    """`loss = nn.MSELoss()` for `loss = nn.MSELoss().cuda()`."""
    move = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(move, ast.Call) or not isinstance(move.func, ast.Attribute) or move.func.attr != "cuda":
        return set()
    assert isinstance(statement, ast.Assign)
    return {" = ".join(ast.unparse(part) for part in [*statement.targets, move.func.value])}


def _not_all(terms: list[ast.expr]) -> ast.expr:
    if len(terms) > 1:
        return ast.UnaryOp(ast.Not(), ast.BoolOp(ast.And(), terms))
    term = terms[0]
    is_negated = isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.Not)
    return term.operand if is_negated else ast.UnaryOp(ast.Not(), term)  # type: ignore[attr-defined]  # negated


class NamedDevices:
    """Find the arguments that are such options, in some files; `moves` are the moves there that stay."""

    def __init__(self, program: Program, tracer: Tracer, files: set[str], moves: list[Move]) -> None:
        self.program = program
        self.tracer = tracer
        self.files = files
        self.moved = {m.device for m in moves if m.device is not None and _is_to(m.call)}

    def find(self) -> Iterator[ast.expr]:
        """The arguments, in no order."""
        for call in self.program.calls:
            if self.program.path(call) in self.files:
                for argument, keyword in [*((a, None) for a in call.args), *((k.value, k.arg) for k in call.keywords)]:
                    if self._is_a_place_for_devices(call, argument, keyword) and self.is_option(argument):
                        yield argument

    def is_option(self, node: ast.expr) -> bool:
        """Whether an expression is a device that the script's user names, and that the script never sets itself."""
        if not is_option(node) or not vocabulary.is_device_name(last_name(node)):
            return False
        values = self.program.values(node)
        return not any(isinstance(v, (Made, Instance)) for v in values) and last_name(node) not in self._set

    @cached_property
    def _set(self) -> set[str]:
        """The last names of what the script gives a value, but for its objects' own attributes."""
        stores = (
            n
            for parsed in self.program.files
            for n in parsed.parents
            if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)
        )
        return {last_name(s) for s in stores if not ast.unparse(s).startswith("self.")}

    def _is_a_place_for_devices(self, call: ast.Call, argument: ast.expr, keyword: str | None) -> bool:
        if argument in self.moved:
            return True
        if "torch.device" in self.program.called(call):
            return False
        if keyword is not None:
            return keyword in ("device", "map_location")
        callees = self.program.flow.callees.get(call, set())
        return bool(callees) and all(self._only_moves_to_it(call, argument, c) for c in callees)

    def _only_moves_to_it(self, call: ast.Call, argument: ast.expr, function: Scope) -> bool:
        """Whether a function of the project's own does nothing with an argument but move things there."""
        taken = [p.arg for p in function.parameters if self.tracer.argument(call, function, p.arg) is argument]
        reads = [r for name in taken for r in self.program.reads_of(function, name)]
        return bool(reads) and all(self._is_where_something_goes(r) for r in reads)

    def _is_where_something_goes(self, read: ast.AST) -> bool:
        parent = self.program.parent(read)
        if isinstance(parent, ast.keyword):
            return parent.arg == "device"
        return isinstance(parent, ast.Call) and _is_to(parent) and read in parent.args


def _is_to(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to"


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
