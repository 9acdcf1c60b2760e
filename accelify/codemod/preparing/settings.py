"""Can a setting be read where the accelerator is created, and from which statement on?"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard

from accelify.codemod.libraries import methods, names, vocabulary
from accelify.codemod.preparing.reach import Reach, constructor, method_of
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.set_by_text import setters
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, code, returned
from accelify.codemod.training.roles import Roles

_DEPTH = 6
_ANY_OPTION = (("*",), (".__dict__", "*"), ("[]", "*"))  # by `setattr`, by `o.__dict__.update`, by `vars(o).update`
_PAIRS: tuple[tuple[type[ast.cmpop], type[ast.cmpop]], ...] = (
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
)
_OPPOSITES = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_ORDERED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}  # of whole numbers: no NaN


@dataclass(frozen=True)
class Setting:
    """A setting as it is read in the accelerator's home; `after` are the statements there that it is known after."""

    code: ast.expr
    after: tuple[ast.stmt, ...] = ()

    @property
    def text(self) -> str:
        return ast.unparse(self.code)


def negated(node: ast.expr) -> ast.expr:
    """`x` for `not x`, `True` for `False`, `x != y` for `x == y`, and `not x` for any other.

    `x < 0` for `x >= 0`, and of several such: `x != 0 and x != 1` for `x == 0 or x == 1`.
    """
    opposite = _opposite(node)
    return ast.UnaryOp(ast.Not(), node) if opposite is None else opposite


def _opposite(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.BoolOp):
        parts = [each for value in node.values if (each := _opposite(value)) is not None]
        operator = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ast.BoolOp(operator, parts) if len(parts) == len(node.values) else None
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    given = node.comparators[0]
    is_number = isinstance(given, ast.Constant) and type(given.value) is int
    opposite = (_OPPOSITES | _ORDERED if is_number else _OPPOSITES).get(type(node.ops[0]))
    return None if opposite is None else ast.Compare(node.left, [opposite()], node.comparators)


class Settings:
    """Carry expressions from where a script reads them to where its accelerator is created.

    by_branch: a flag that the branches of an `if` set is read as its condition, which is known before it.
    """

    def __init__(
        self,
        program: Program,
        roles: Roles,
        tracer: Tracer,
        reach: Reach,
        home: Scope | None = None,
        *,
        by_branch: bool = False,
    ) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.home = reach.homes[0] if len(reach.homes) == 1 else home
        self._others = [h for h in reach.homes if h is not self.home]
        self.guard = reach.guarded.get(self.home) if self.home is not None else None
        self.by_branch = by_branch
        self.passed: set[tuple[Scope, str]] = set()
        self._after: list[ast.stmt] = []

    @property
    def frame(self) -> Scope | None:
        """The function or module whose statements create the accelerator."""
        if self.home is None or self.home.kind != "class":
            return self.home
        return self.program.flow.method(self.home, "__init__")

    def settle(self, node: ast.expr) -> Setting | None:
        """The expression in the home; None where that is not known."""
        if self.frame is None:
            return None
        self._after = []
        code = self._at_home(node, _DEPTH)
        return None if code is None else Setting(code, tuple(self._after))

    def option(self, node: ast.Attribute | ast.Subscript) -> Setting | None:
        """An option, `args.device` or `config["device"]`, in the home, whatever it is by then."""
        holder = self._holder(node.value)
        if holder is None:
            return None
        self._after = [*holder.after]
        self._is_filled(node.value, holder.code)
        holder = replace(holder, after=tuple(self._after))
        if isinstance(node, ast.Subscript):
            return replace(holder, code=ast.Subscript(holder.code, node.slice, ast.Load()))
        return replace(holder, code=ast.Attribute(holder.code, node.attr, ast.Load()))

    def may_follow(self, frame: Scope) -> bool:
        """Whether a function may run once the accelerator is there."""
        return self._following is None or frame in self._following or frame not in self.program.reachable

    @cached_property
    def _following(self) -> set[Scope] | None:
        """What runs from the home on; None where that may be anything, as a module creates the accelerator."""
        if self.home is None or self.home.kind == "module":
            return None
        return self.program.run_from(self.home.children if self.home.kind == "class" else [self.home])

    def _holder(self, node: ast.expr) -> Setting | None:
        """The options, `args`, in the home; a parameter rather than the attribute that it is kept in."""
        place = self.settle(node)
        if place is None or not isinstance(place.code, ast.Attribute) or self.frame is None:
            return place
        stored = [w for w in self.program.attribute_writes.get(place.code.attr, ()) if ast.unparse(w) == place.text]
        given = [self.tracer.assigned(w) for w in stored if self.program.frame(w) is self.frame]
        value = given[0] if len(given) == 1 else None
        is_parameter = isinstance(value, ast.Name) and any(p.arg == value.id for p in self.frame.parameters)
        return Setting(value) if is_parameter and value is not None else place

    def _at_home(self, node: ast.expr, depth: int) -> ast.expr | None:
        if not depth:
            return None
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._item(node, node.slice, depth)
        if isinstance(node, ast.UnaryOp):
            operand = self._at_home(node.operand, depth)
            if operand is None:
                return None
            return negated(operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(node.op, operand)
        if isinstance(node, ast.BoolOp):
            parts = self._all(node.values, depth)
            return None if parts is None else ast.BoolOp(node.op, parts)
        if isinstance(node, ast.Compare):
            parts = self._all([node.left, *node.comparators], depth)
            return None if parts is None else ast.Compare(parts[0], node.ops, parts[1:])
        if isinstance(node, ast.IfExp):
            parts = self._all([node.test, node.body, node.orelse], depth)
            return None if parts is None else _either(*parts)
        return self._call(node, depth) if isinstance(node, ast.Call) else None

    def _item(self, node: ast.Subscript, key: ast.Constant, depth: int) -> ast.expr | None:
        """`config["gpu"]`; `args.gpu` for that of `vars(args)`."""
        value = self._at_home(node.value, depth)
        if value is None or not self._is_filled(node.value, value):
            return None
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "vars" and str(key.value).isidentifier():
            return ast.Attribute(value.args[0], str(key.value), ast.Load())
        text = ast.unparse(node.value)
        writes = [w for w in self.program.item_writes.get(key.value, ()) if ast.unparse(w.value) == text]
        return ast.Subscript(value, key, ast.Load()) if self._are_known(writes, node) else None

    def _call(self, node: ast.Call, depth: int) -> ast.expr | None:
        """The question for a GPU, what Python makes of an option, `int(args.gpu)`, and what its text says of itself."""
        if any(map(self.roles.is_cuda_test, self.program.values(node))):
            is_named = self.frame is not None and imports_torch(self.frame.root)
            return ast.parse("torch.cuda.is_available()", mode="eval").body if is_named else None
        parts = self._all([*node.args, *(k.value for k in node.keywords)], depth)
        if parts is None:
            return None
        called, count = self.program.called(node), len(node.args)
        keywords = [ast.keyword(k.arg, v) for k, v in zip(node.keywords, parts[count:], strict=True)]
        if "torch.device" in called and self.frame is not None and imports_torch(self.frame.root):
            return ast.Call(ast.parse("torch.device", mode="eval").body, parts[:count], keywords)
        if isinstance(node.func, ast.Name) and any(map(names.is_pure_builtin, called)):
            return ast.Call(node.func, parts[:count], keywords)
        if isinstance(node.func, ast.Name) and self._only_answers(node):
            function = self._name(node.func, depth)
            return None if function is None else ast.Call(function, parts[:count], keywords)
        is_lookup = not called or all(isinstance(part, ast.Constant) for part in parts)
        if isinstance(node.func, ast.Attribute) and is_lookup and methods.only_asks(node.func.attr):
            owner = self._at_home(node.func.value, depth)
            return (
                None
                if owner is None
                else ast.Call(ast.Attribute(owner, node.func.attr, ast.Load()), parts[:count], keywords)
            )
        return None

    def _only_answers(self, call: ast.Call) -> bool:
        """Whether a call of the script's own functions does nothing but give a value."""
        return bool(self.program.flow.callees.get(call)) and self.program.once(Effects).changes_nothing(call)

    def _all(self, nodes: list[ast.expr], depth: int) -> list[ast.expr] | None:
        parts = [self._at_home(n, depth) for n in nodes]
        found = [p for p in parts if p is not None]
        return found if len(found) == len(parts) else None

    def _name(self, node: ast.Name, depth: int) -> ast.expr | None:
        owner = self.program.scope(node).owner(node.id)
        home = self.frame
        if owner is None or home is None:
            return None
        writes = self.tracer.writes(owner, node.id)
        if owner.kind == "module" and owner is not home.root:
            return self._imported(writes)
        if self._is_a_device_later(node, writes):
            value = self.tracer.value_at(node)
            if value is None:
                is_given = owner is home and all(isinstance(w, ast.arg) for w in self.program.reaching(node, writes))
                return ast.Name(node.id, ast.Load()) if is_given else None
            return self._at_home(value, depth - 1)
        if owner is home or owner is home.root:
            frames = {self.program.frame(w) for w in writes} - {home}  # `global args` may be set in the home itself
            if owner is not home and any(f.kind == "function" for f in frames):
                return None
            condition = self._condition_of(writes) if self.by_branch else None
            if condition is not None:
                return self._at_home(condition, depth - 1)
            own = self.program.reaching(node, writes) if self.program.frame(node) is home else writes
            self._note_setters(owner, node)
            called = [w for w in own if home.kind == "module" and self.program.frame(w).kind == "function"]
            is_known = self._is_known_after(own) and all(map(self._is_written_by, called))
            return ast.Name(node.id, ast.Load()) if is_known else None
        own = self.program.reaching(node, writes) if self.program.frame(node) is owner else writes
        writes = [w for w in own if not self._is_what_there_is(w)]
        if owner.kind != "function" or len(writes) != 1:
            return None
        write = writes[0]
        if isinstance(write, ast.arg):
            return self._argument(owner, write.arg, depth - 1)
        value = self.tracer.assigned(write) if isinstance(write, ast.Name) else None
        code = None if value is None else self._at_home(value, depth - 1)
        return self._returned_home(owner, node.id) if code is None else code

    def _returned_home(self, function: Scope, local: str) -> ast.Name | None:
        """The name that the home gives to a function's own variable, which it returns: `opts` of `opts = parse()`."""
        given = returned([function])
        calls = self.program.calls_of(function)
        if not given or len(calls) != 1 or any(not isinstance(n, ast.Name) or n.id != local for n in given):
            return None
        statement = self.program.statement(calls[0])
        target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is calls[0] else None
        if not isinstance(target, ast.Name) or self.frame is None or self.program.frame(target) is not self.frame:
            return None
        writes = self.tracer.writes(self.frame, target.id)
        return ast.Name(target.id, ast.Load()) if writes == [target] and self._is_known_after(writes) else None

    def _is_what_there_is(self, write: ast.AST) -> bool:
        """`n = gpus` of `if n > gpus:`, the number of GPUs; also `n = 0` where there is none."""
        value = self.tracer.assigned(write) if isinstance(write, ast.Name) else None
        held = self.program.values(value)
        conditions, worlds = self.program.once(Conditions), worlds_where(Process.ONE, has_gpu=True)
        branches = [*self.program.branches_round(write)] if value is not None else []
        is_never = any(conditions.truth_in(b.test, worlds) is (not is_body) for b, is_body in branches)
        is_count = bool(held) and all(map(self.roles.is_cuda_test, held))
        return bool(branches) and (is_count or is_never)

    def _imported(self, writes: list[ast.AST]) -> ast.expr | None:
        """A name for what another module imports, if the home's own module imports it, too."""
        wanted = {self._import(write) for write in writes}  # none for what a `*` brings
        own = self.frame.root.writes if self.frame is not None and wanted else {}
        for name, others in own.items():
            if None not in wanted and wanted == {self._import(other) for other in others}:
                return ast.Name(name, ast.Load())
        return None

    def _import(self, alias: ast.AST) -> tuple[Scope, str] | None:
        """The module of the project that an import names, and what it takes from there."""
        statement, path = self.program.statement(alias), self.program.path(alias)
        if not isinstance(alias, ast.alias):
            return None
        if isinstance(statement, ast.ImportFrom):
            module = self.program.flow.module_named(path, statement.module or "", statement.level)
            return None if module is None else (module, alias.name)
        module = self.program.flow.module_named(path, alias.name, 0) if alias.asname or "." not in alias.name else None
        return None if module is None else (module, "")

    def _is_a_device_later(self, node: ast.Name, writes: list[ast.AST]) -> bool:
        """Whether a variable is read as an option that says which device it is given then: `if device == "cuda":`."""
        later = set(writes) - set(self.program.reaching(node, writes)) if len(writes) > 1 else set()
        given = (self.tracer.assigned(w) for w in later if isinstance(w, ast.Name))
        return any(self.roles.is_device(v) for each in given for v in self.program.values(each))

    def _condition_of(self, writes: list[ast.AST]) -> ast.expr | None:
        """The condition that a flag says: `args.gpu >= 0` of `if args.gpu >= 0: cuda = True ... else: cuda = False`."""
        given = {w: self.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)}
        flags = {w: v.value for w, v in given.items() if isinstance(v, ast.Constant) and isinstance(v.value, bool)}
        if len(writes) != 2 or sorted(flags.values()) != [False, True]:
            return None
        first, last = sorted(flags, key=self.program.position)
        choice = self.program.parent(self.program.statement(last))
        if not isinstance(choice, ast.If) or self.program.parent(choice) is not self.frame_node:
            return None
        is_body = self.program.statement(last) in choice.body
        other = choice.body if not is_body else self._block() if not choice.orelse else []
        if self.program.statement(first) not in other:
            return None
        return choice.test if flags[last] is is_body else ast.UnaryOp(ast.Not(), choice.test)

    @property
    def frame_node(self) -> ast.AST | None:
        """The node whose own block holds the statements among which the accelerator is created."""
        return self.guard if self.guard is not None else self.frame.node if self.frame is not None else None

    def _note_setters(self, owner: Scope, node: ast.Name) -> None:
        """Note what may set a module's variable by its text before it is read: `exec(open("overrides.py").read())`."""
        if owner is self.frame:
            is_later = self.program.frame(node) is not owner
            calls = self.program.once(setters).get(owner, ())
            tops = [self.top(c) for c in calls if is_later or self.program.before_end(c, node)]
            self._after += [s for s in tops if s is not None]

    def _is_known_after(self, writes: list[ast.AST]) -> bool:
        """Whether a name has its value from some statement of the home on; it is noted."""
        for write in writes:
            if isinstance(write, ast.arg) or self.program.frame(write) is not self.frame:
                continue
            statement = self.top(write)
            is_inside = statement is not write  # `Config.use_cuda` is known below the class, and what it sets is not
            if isinstance(statement, (*LOOPS, ast.FunctionDef, ast.ClassDef)) and is_inside:
                return False
            is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
            is_above = is_import and self.guard is None and self.frame is not None and self.frame.kind == "module"
            if statement is not None and not is_above:
                self._after.append(statement)
        return bool(writes)

    def _is_written_by(self, write: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether an attribute has its value from some statement of the home on, or before that begins; it is noted."""
        frame = self.program.frame(write)
        if frame is self.frame:
            return self._is_known_after([write])
        if self.frame is None or frame not in self.program.run_from([self.frame]):
            return frame.kind == "module" or bool(self.program.calls_of(frame))
        calls = [*filter(self._is_run, self.program.calls_of(frame))]
        return bool(calls and depth) and all(self._is_written_by(c, depth - 1) for c in calls)

    def top(self, node: ast.AST) -> ast.stmt | None:
        """The statement of the home's own block that holds a node; None where it comes before that block."""
        return next((s for s in self._block() if self.program.inside(node, s)), None)

    def _block(self) -> list[ast.stmt]:
        """The statements among which the accelerator is created."""
        return self.guard.body if self.guard is not None else self.frame.body if self.frame is not None else []

    def _argument(self, function: Scope, name: str, depth: int) -> ast.expr | None:
        """The argument that all callers pass for a parameter, if it is the same; calls that never run do not count."""
        found: dict[str, ast.expr] = {}
        for call in filter(self._is_run, self.program.calls_of(function)):
            given = self.tracer.written(call, function, name) or function.defaults.get(name)
            code = None if given is None else self._at_home(given, depth)
            if code is None:
                return None
            found[ast.unparse(code)] = code
        if len(found) != 1:
            return None
        self.passed.add((function, name))
        return next(iter(found.values()))

    def _is_run(self, call: ast.Call) -> bool:
        """Whether a call may be made in a run that creates the accelerator in this home."""
        run = self.program.run_from(self.program.scope(p.tree) for p in self.program.named)
        frame = self.program.frame(call)
        return (self.frame not in run or frame in run) and frame not in self._run_elsewhere

    @cached_property
    def _run_elsewhere(self) -> set[Scope]:
        """What runs only in scripts that create the accelerator in a home of their own."""
        others = {constructor(self.program, h) if h.kind == "class" else h for h in self._others}
        modules = [self.program.scope(p.tree) for p in self.program.files] if others else []
        runs = [self.program.run_from([module]) for module in modules]
        elsewhere = [run for run in runs if self.frame not in run and not run.isdisjoint(others)]
        return set[Scope]().union(*elsewhere).difference(*(run for run in runs if self.frame in run))

    def _attribute(self, node: ast.Attribute, depth: int) -> ast.expr | None:
        method = method_of(self.program.frame(node))
        own = method.parameters[0].arg if method is not None and method.parameters else None
        if own is not None and isinstance(node.value, ast.Name) and node.value.id == own:
            return self._own(node, depth)
        base = self._at_home(node.value, depth)
        if base is None or not self._is_filled(node.value, base):
            return None
        last = ast.unparse(node.value).rpartition(".")[2]
        writes: list[ast.AST] = [
            w
            for w in self.program.attribute_writes.get(node.attr, ())
            if ast.unparse(w.value).rpartition(".")[2] == last and not self._is_kept_by(w, node.attr)
        ]
        return ast.Attribute(base, node.attr, ast.Load()) if self._are_known(writes, node) else None

    def _are_known(self, writes: Sequence[ast.AST], read: ast.Attribute | ast.Subscript) -> bool:
        """Whether an option has its value from some statement of the home on, and still that which is read."""
        return all(self._is_written_by(w) and not self._is_replaced_by(w, read) for w in writes)

    def _is_replaced_by(self, write: ast.AST, read: ast.Attribute | ast.Subscript) -> bool:
        """Whether an option is read to give it another value: `args.device = gpu if args.device == "gpu" else cpu`."""
        value = self.tracer.assigned(write) if isinstance(write, ast.expr) else None
        asked = [value, *(branch.test for branch, _ in self.program.branches_round(write))]
        is_read = any(part is not None and self.program.inside(read, part) for part in asked)
        is_same = value is not None and self._comes_to(value, _option(read), _DEPTH) is True
        return is_read and not is_same and not (isinstance(value, ast.Call) and read in value.args)

    def _is_kept_by(self, write: ast.Attribute, option: str) -> bool:
        """Whether an option is only given what it comes to: `args.cuda = args.cuda and torch.cuda.is_available()`."""
        value = self.tracer.assigned(write)
        is_elsewhere = self.program.frame(write) is not self.frame
        return value is not None and is_elsewhere and self._comes_to(value, option, _DEPTH) is True

    def _comes_to(self, node: ast.expr, option: object, depth: int) -> bool | None:
        """Whether a value is an option where there is a GPU; None where it is nothing but the question for a GPU."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            parts = [self._comes_to(v, option, depth) for v in node.values]
            return False if False in parts else True if True in parts else None
        if isinstance(node, (ast.Attribute, ast.Subscript)) and _option(node) == option:
            return True
        if isinstance(node, ast.Call) and any(map(self.roles.is_cuda_test, self.program.values(node))):
            return None
        value = self.tracer.only_value(node) if depth else None
        return False if value is None else self._comes_to(value, option, depth - 1)

    def _is_filled(self, read: ast.expr, base: ast.expr) -> bool:
        """Whether options have their values from some statement on: `FLAGS(sys.argv)`, `cfg.merge_from_file(path)`.

        Also where they are set by their names: `for name, value in given.items(): setattr(options, name, value)`.
        """
        text, is_near = ast.unparse(base), self.program.frame(read) is self.frame
        fills = [
            s
            for s in self._block()
            if not isinstance(s, (ast.FunctionDef, ast.ClassDef))
            and (self._calls_method(s, text) or self._changes_all_of(s, base))
            and not (is_near and self.program.before(read, s))
        ]
        self._after.extend(fills)
        are_flags = any(name.rpartition(".")[2] == "FLAGS" for name in self.program.externals(read))
        return bool(fills) or not are_flags or (self.frame is not None and self.frame.kind == "function")

    @staticmethod
    def _calls_method(statement: ast.stmt, text: str) -> bool:
        called = _called_alone(statement) if not isinstance(statement, LOOPS) else []
        return any(text in (ast.unparse(f), ast.unparse(getattr(f, "value", f))) for f in called)

    def _changes_all_of(self, statement: ast.stmt, base: ast.expr) -> bool:
        """Whether a statement may give any of some options another value."""
        held, path = base, tuple[str, ...]()
        while isinstance(held, ast.Attribute):
            path = (f".{held.attr}", *path)
            held = held.value
        owner = self.frame.owner(held.id) if self.frame is not None and isinstance(held, ast.Name) else None
        if owner is None or not isinstance(held, ast.Name):
            return False
        places = self.program.once(Effects).of(statement).writes
        return any(
            (p.scope, p.name) == (owner, held.id) and p.path[: len(path)] == path and p.path[len(path) :] in _ANY_OPTION
            for p in places
        )

    def _own(self, node: ast.Attribute, depth: int) -> ast.expr | None:
        """`self.amp`: as it is in the constructor that creates the accelerator, else what it was given."""
        holders = self.program.values(node.value)
        writes = [w for w in self.program.attribute_writes.get(node.attr, ()) if self.program.values(w.value) & holders]
        if len(writes) != 1 or self.frame is None:
            return None
        write = writes[0]
        where = self.program.frame(write)
        if self.home is not None and self.home.kind == "class" and self.frame.parameters:
            bases = self.program.flow.ancestors(self.home)
            if where is not self.frame and where.parent not in bases:
                return None
            if where is self.frame and not self._is_known_after([write]):
                return None
            return ast.Attribute(ast.Name(self.frame.parameters[0].arg, ast.Load()), node.attr, ast.Load())
        value = self.tracer.assigned(write)
        return None if value is None or where.name != "__init__" else self._at_home(value, depth - 1)


def _option(read: ast.Attribute | ast.Subscript) -> object:
    """`device` of `args.device` and of `config["device"]`."""
    if isinstance(read, ast.Attribute):
        return read.attr
    return read.slice.value if isinstance(read.slice, ast.Constant) else None


def is_default_setting(program: Program, target: ast.expr, value: ast.expr) -> bool:
    """Whether a value is a setting's default, which a call may overrule: `cfg.DEVICE = "cuda"; cfg.merge(path)`.

    Or a variable's that nothing but the declaration of an option reads: `add_argument("--device", default=GPU)`.
    """
    if isinstance(target, ast.Name):
        reads = program.reads_of(program.scope(target).owner(target.id) or program.scope(target), target.id)
        return bool(reads) and all(is_declared_default(program, r) for r in reads)
    if not isinstance(value, ast.Constant) or not isinstance(target, (ast.Attribute, ast.Subscript)):
        return False
    holders = {code(n) for n in ast.walk(target.value) if isinstance(n, (ast.Name, ast.Attribute))}
    holders = {holder for holder in holders if vocabulary.holds_options(holder)}
    calls = (c for c in program.calls if isinstance(program.parent(c), ast.Expr) and (c.args or c.keywords))
    return any(isinstance(c.func, ast.Attribute) and code(c.func.value) in holders for c in calls)


def declares_option(node: ast.AST) -> TypeGuard[ast.Call]:
    """`parser.add_argument("--device", default="cuda")`, and click's `option`."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_method and node.func.attr in ("add_argument", "option")  # type: ignore[attr-defined]  # a method


def is_declared_default(program: Program, node: ast.AST) -> bool:
    """Whether an expression is what a declared option is where the user says nothing: `default=device`."""
    keyword = program.parent(node)
    call = program.parent(keyword) if isinstance(keyword, ast.keyword) and keyword.arg == "default" else None
    return call is not None and declares_option(call)


def _called_alone(statement: ast.stmt) -> list[ast.expr]:
    """What a statement, or one inside it, calls for its effect: `cfg.merge_from_file` of `if path: cfg.merge_...`."""
    nodes = (n.value for n in ast.walk(statement) if isinstance(n, ast.Expr))
    return [n.func for n in nodes if isinstance(n, ast.Call)]


def _either(test: ast.expr, body: ast.expr, orelse: ast.expr) -> ast.expr:
    """A choice; its condition, for `True if condition else False`."""
    both = [n.value if isinstance(n, ast.Constant) else None for n in (body, orelse)]
    if [type(value) for value in both] != [bool, bool] or both[0] is both[1]:
        return ast.IfExp(test, body, orelse)
    return test if both[0] else negated(test)


def imports_torch(module: Scope) -> bool:
    """Whether a module knows torch by that name."""
    return any(isinstance(w, ast.alias) and w.name == "torch" for w in module.writes.get("torch", ()))
