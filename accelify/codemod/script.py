"""The model of a script: what the analysis found out, in the terms in which rules ask."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from accelify.codemod import names
from accelify.codemod.analysis.bindings import Scope
from accelify.codemod.analysis.effects import function_draws
from accelify.codemod.analysis.loops import Loops, Training
from accelify.codemod.analysis.preparing import Group, Preparation, Preparer
from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.reach import Reach, Reacher, node_of
from accelify.codemod.analysis.roles import Roles
from accelify.codemod.analysis.trace import Binding, Tracer
from accelify.codemod.analysis.values import Collection, Element, External, FunctionValue, Generated, Instance, View
from accelify.codemod.edits import Change, Edit, Insert, Remove, Replace
from accelify.codemod.options import Options
from accelify.codemod.parse import Parsed


@dataclass(frozen=True)
class Move:
    """A call that moves something to a device: `x.to(device)`, `x.cuda()`."""

    call: ast.Call
    receiver: ast.expr
    device: ast.expr | None


@dataclass
class Script:
    """A program with a training loop: rules read it, and never trace a name themselves."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    preparation: Preparation
    reach: Reach
    options: Options
    kept_moves: set[ast.AST] = field(default_factory=set)
    _batches: dict[ast.expr, bool] = field(default_factory=dict)

    # Where things are.

    def path(self, node: ast.AST) -> str:
        return self.program.path(node)

    @cached_property
    def files(self) -> set[str]:
        """The files that change: the ones with a backward pass, a prepared thing, or a way of the accelerator."""
        found = {self.path(b) for b in self.training.backwards}
        found |= {g.frame.module for g in self.preparation.groups}
        found |= {n.module for n in self.reach.nodes} | {h.module for h in self.reach.homes}
        found |= {self.path(node) for _, node in self.preparation.wrapped}
        return found

    def accelerator(self, node: ast.AST) -> str | None:
        """The expression for the accelerator at a node; None where it does not reach."""
        frame = self.program.frame(node)
        found = self.reach.expression(frame)
        if found is None or frame.kind != "module":
            return found
        return found if self._is_after_home(node, frame) else None

    def _is_after_home(self, node: ast.AST, root: Scope) -> bool:
        if root not in self.reach.homes:
            return False
        if root in self.reach.guarded:
            return self.program.inside(node, self.reach.guarded[root])
        imports = self.first_imports(root)
        return not imports or getattr(node, "lineno", 0) > imports[-1].lineno

    def first_imports(self, root: Scope) -> list[ast.stmt]:
        """The run of module-level imports nearest above the first use of the accelerator in a home module."""
        from accelify.codemod.analysis.placing import import_block

        return import_block(self, root)

    # What is moved to which device.

    @cached_property
    def moves(self) -> list[Move]:
        """The calls of the changed files that move something to a device."""
        found = []
        for call in self.program.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr in ("to", "cuda")
                and self.path(call) in self.files
            ):
                move = self._move(call)
                if move is not None:
                    found.append(move)
        return sorted(found, key=lambda m: (self.path(m.call), m.call.lineno, m.call.col_offset))

    def _move(self, call: ast.Call) -> Move | None:
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        if self.program.flow.callees.get(call) or self.program.externals(receiver):
            return None
        keyword = next((k.value for k in call.keywords if k.arg == "device"), None)
        first = call.args[0] if call.args else keyword
        if call.func.attr == "cuda":
            return Move(call, receiver, first)
        if first is None or isinstance(first, ast.Starred) or not self.is_device(first):
            return None
        return Move(call, receiver, first)

    def is_device(self, node: ast.expr) -> bool:
        """Whether an expression is a device, by its value or, where that is unknown, by its last name."""
        values = self.program.values(node)
        if any(self.roles.is_device(v) for v in values):
            return True
        last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        return last in ("device", "dev", "gpu", "cuda", "gpu_id", "rank", "local_rank") or last.endswith("_device")

    @cached_property
    def prepared_loops(self) -> set[ast.AST]:
        """The loops over loaders that are prepared."""
        return {
            node
            for parsed in self.program.files
            for node in parsed.parents
            if isinstance(node, (ast.For, ast.AsyncFor))
            and self.program.values(node.iter)
            and self.is_prepared_loader(node.iter)
        }

    def is_prepared_loader(self, node: ast.expr) -> bool:
        """Whether an expression is always a prepared loader, or a view of one."""
        if isinstance(node, ast.Call) and "zip" in self.program.called(node):
            return bool(node.args) and all(self.is_prepared_loader(a) for a in node.args)
        chains = self.tracer.chains(node)
        return bool(chains) and all(any(self._is_prepared_binding(b) for b in chain) for chain in chains)

    def _is_prepared_binding(self, binding: Binding) -> bool:
        if any(binding.node is node for kind, node in self.preparation.wrapped if kind == "loader"):
            return True
        for item in self.preparation.items:
            if item.kind != "loader" or item.frame is not binding.scope:
                continue
            if item.text.split("[")[0] == binding.text and (
                item.statement is binding.statement or item.statement is None
            ):
                return "[" not in item.text  # of a container, only one place is prepared
        return False

    def is_prepared_batch(self, node: ast.expr, depth: int = 4) -> bool:
        """Whether an expression is always (a part of) a batch of a prepared loader."""
        if node not in self._batches:
            self._batches[node] = self._is_prepared_batch(node, depth)
        return self._batches[node]

    def _is_prepared_batch(self, node: ast.expr, depth: int) -> bool:
        values = self.program.values(node)
        if not depth or not any(isinstance(v, Element) for v in values):
            return False
        if not all(isinstance(v, (Element, Collection, View)) for v in values):
            return False
        root = self._root(node)
        parts = _parts(root)
        if parts is not None:
            return bool(parts) and all(self.is_prepared_batch(p, depth - 1) for p in parts)
        if isinstance(root, ast.Call):
            return bool(root.args) and self._is_next(root) and self.is_prepared_loader(root.args[0])
        if not isinstance(root, ast.Name):
            return False
        owner = self.program.scope(root).owner(root.id)
        return owner is not None and all(self._is_batch_write(owner, w, depth) for w in self._reaching(owner, root))

    def _reaching(self, owner: Scope, read: ast.Name) -> list[ast.AST]:
        """The places where a name may have got the value that is read: in the loop that deals it out, if one does."""
        writes = self.tracer.writes(owner, read.id)
        for loop in self.program.loops_round(read):
            if isinstance(loop, (ast.For, ast.AsyncFor)) and any(self.program.inside(w, loop.target) for w in writes):
                return [w for w in writes if self.program.inside(w, loop)]
        return writes

    def _is_next(self, call: ast.Call) -> bool:
        return isinstance(call.func, ast.Name) and call.func.id == "next"

    def _root(self, node: ast.expr) -> ast.expr:
        while True:
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not self._is_next(node):
                node = node.func.value
            elif isinstance(node, ast.Call) and node.args and any("Variable" in n for n in self.program.called(node)):
                node = node.args[0]
            else:
                return node

    def _is_batch_write(self, owner: Scope, write: ast.AST, depth: int) -> bool:
        if isinstance(write, ast.arg):
            arguments = [
                self.tracer.argument(c, owner, write.arg)
                for c in self.program.flow.callers.get(owner, ())
                if self.program.frame(c) in self.program.reachable
            ]
            return bool(arguments) and all(a is not None and self.is_prepared_batch(a, depth - 1) for a in arguments)
        if not isinstance(write, ast.Name):
            return False
        parent = self.program.parent(write)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
            parent = self.program.parent(parent)
        if isinstance(parent, ast.comprehension):
            return self.is_prepared_batch(parent.iter, depth - 1) or self.is_prepared_loader(parent.iter)
        if isinstance(parent, (ast.For, ast.AsyncFor)):
            return parent in self.prepared_loops or self.is_prepared_batch(parent.iter, depth - 1)
        value = self.tracer.assigned(write)
        if value is None and isinstance(parent, ast.Assign):
            value = parent.value
        if value is None:
            return False
        if self._is_made_from(value, write.id):
            return True  # `x = x.to(device)` keeps what x was
        return self.is_prepared_batch(value, depth - 1)

    def _is_made_from(self, value: ast.expr, name: str) -> bool:
        """Whether an expression is a variable, or a container of parts of it."""
        root = self._root(value)
        if isinstance(root, ast.Name):
            return root.id == name
        parts = _parts(root)
        return bool(parts) and all(self._is_made_from(p, name) for p in parts or ())

    def is_prepared_model(self, node: ast.expr) -> bool:
        """Whether an expression names a prepared model, or makes one that gets such a name."""
        text = ast.unparse(node)
        frame = self.program.frame(node)
        items = [i for i in [*self.preparation.items, *self.preparation.bare_models] if i.kind == "model"]
        if any(i.text == text and i.frame is frame for i in items):
            return True
        values = self.program.values(node)
        if not values or not values <= self.preparation.models:
            return False
        statement = self.program.statement(node)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = ast.unparse(statement.targets[0])
            return any(i.text == target and i.frame is frame for i in items)
        return False

    def prepares_after(self, node: ast.AST, text: str) -> Group | None:
        """The group that prepares `text` in a node's frame, when it comes after the node."""
        frame = self.program.frame(node)
        for group in self.preparation.groups:
            if group.frame is frame and group.anchor is not None and any(i.text == text for i in group.items):
                return group if getattr(node, "lineno", 0) <= (group.anchor.end_lineno or 0) + 8 else None
        return None

    @cached_property
    def draws_in_its_data(self) -> bool:
        """Whether a data set of the project's own that is trained on draws at random what it hands out."""
        for call in self.program.calls:
            if not call.args or not any(self.roles.is_loader(v) for v in self.program.values(call)):
                continue
            for value in self.program.values(call.args[0]):
                getter = self.program.flow.method(value.cls, "__getitem__") if isinstance(value, Instance) else None
                if getter is not None and function_draws(self.program, getter):
                    return True
        return False

    def has_no_length(self, node: ast.expr) -> bool:
        """Whether a thing that is looped over is a generator."""
        return any(isinstance(v, Generated) for v in self.program.values(node))

    def gets_a_prepared_loader(self, node: ast.expr) -> bool:
        """Whether an expression is a prepared loader for some callers."""
        return any(self._is_prepared_binding(b) for chain in self.tracer.chains(node) for b in chain)

    def is_part_of_a_batch(self, node: ast.Name) -> bool:
        """Whether a name holds what a loader hands out."""
        return any(isinstance(v, Element) and self.roles.is_loader(v.owner) for v in self.program.values(node))

    def iterates_a_loader(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether a loop goes over a loader of batches."""
        return Loops(self.program, self.roles, self.tracer).is_loader_loop(loop)

    def is_needless(self, move: Move) -> bool:
        """Whether a move does nothing once what it moves is prepared."""
        if self.is_kept(move.call):
            return False
        if self.is_prepared_batch(move.receiver):
            return True
        if not self.is_prepared_model(move.receiver):
            return False
        statement = self.program.statement(move.call)
        text = ast.unparse(move.receiver)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            text = ast.unparse(statement.targets[0])
        group = self.prepares_after(move.call, text)
        return (
            group is not None and group.anchor is not None and not self._is_used_between(text, statement, group.anchor)
        )

    def _is_used_between(self, text: str, start: ast.stmt, end: ast.stmt) -> bool:
        """Whether a model is used, other than to be set up, between a move and where it is prepared."""
        last = end.end_lineno or end.lineno
        for call in self.program.calls:
            if self.program.frame(call) is not self.program.frame(start) or not start.lineno < call.lineno <= last:
                continue
            if ast.unparse(call.func) == text:
                return True
            harmless = ast.unparse(call.func).endswith(("print", "DataParallel", "info", "watch", "compile"))
            makes = any(self.roles.is_optimizer(v) or self.roles.is_module(v) for v in self.program.values(call))
            if not harmless and not makes and any(ast.unparse(a) == text for a in call.args):
                return True
        return False

    @cached_property
    def wrappers(self) -> list[ast.Call]:
        """The `DataParallel(model)` calls of the changed files."""
        return [
            call
            for call in self.program.calls
            if call.args
            and self.path(call) in self.files
            and any(names.is_wrapper(n) for n in self.program.called(call))
        ]

    # What the edits leave.

    @cached_property
    def imported_from(self) -> dict[Scope, set[str]]:
        """The names that the program's files import from each of its modules."""
        found: dict[Scope, set[str]] = {}
        for built in self.program.flow.bindings.values():
            for node in built.scope_of:
                if isinstance(node, ast.ImportFrom):
                    root = self.program.flow._root_of(built.root.module, node.module or "", node.level)
                    if root is not None:
                        found.setdefault(root, set()).update(a.name for a in node.names)
        return found

    def is_kept(self, node: ast.AST) -> bool:
        """Whether a statement round a node was found to be needed, because a name would be left over without it."""
        return any(a in self.kept_moves for a in [node, *self.program.ancestors(node)])

    def reads_of(self, scope: Scope, name: str) -> list[ast.Name]:
        """Where a scope's variable is read, in the scopes inside it too."""
        found = list(scope.reads.get(name, ()))
        for inner in scope.walk():
            if inner is not scope and inner.owner(name) is scope:
                found.extend(inner.reads.get(name, ()))
        return found

    def vanished(self, changes: Iterable[Change]) -> set[ast.AST]:
        """The names that the user's code no longer reads or writes once some changes are made."""
        gone: set[ast.AST] = set()
        for edit in edits_of(changes):
            if isinstance(edit, Remove):
                gone.update(_names(edit.node))
            elif isinstance(edit, Replace):
                kept = {n for k in edit.keeps for n in _names(k)}
                gone.update(n for n in _names(edit.node) if n not in kept)
        return gone

    def added_reads(self, changes: Iterable[Change]) -> dict[str, set[str]]:
        """The names that new code reads, by file."""
        found: dict[str, set[str]] = {}
        for change in changes:
            into = found.setdefault(change.path, set())
            for edit in change.edits:
                if isinstance(edit, Replace):
                    into.update(edit.reads)
                elif isinstance(edit, Insert):
                    into.update(n.id for n in ast.walk(ast.parse(edit.code)) if isinstance(n, ast.Name))
        return found


def edits_of(changes: Iterable[Change]) -> Iterator[Edit]:
    """All edits of some changes."""
    for change in changes:
        yield from change.edits


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """What a container is made from; None for anything else."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return list(node.elts)
    if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
        return [node.generators[0].iter]
    if isinstance(node, ast.Dict):
        return list(node.values)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("tuple", "list")
        and len(node.args) == 1
    ):
        return list(node.args)
    return None


def _names(node: ast.AST) -> list[ast.AST]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


@dataclass(frozen=True)
class Verdict:
    """What a program is: a script to migrate, something to leave alone, or a training loop that cannot be migrated."""

    script: Script | None
    obstacles: tuple[tuple[ast.AST, str, str], ...] = ()


def understand(program: Program, options: Options) -> Verdict:
    """Form the model of a program."""
    roles = Roles(program)
    tracer = Tracer(program)
    training = Loops(program, roles, tracer).find()
    if not training.backwards or not _trains(program, training):
        return Verdict(None)
    obstacles: list[tuple[ast.AST, str, str]] = []
    preparation = Preparer(program, roles, tracer, training).prepare()
    obstacles.extend((node, "prepare", message) for node, message in preparation.obstacles)
    if not preparation.trains_something and not _updates_by_hand(program, training):
        message = "cannot tell which model and which optimizer this backward pass trains"
        obstacles.append((training.backwards[0], "prepare", message))
    needs: dict[Scope, ast.AST] = {program.frame(b): b for b in training.backwards}
    for group in preparation.groups:
        needs[group.frame] = group.anchor or group.frame.node
    for item in preparation.bare_models:
        needs.setdefault(item.frame, item.statement or item.frame.node)
    for _, node in preparation.wrapped:
        needs.setdefault(program.frame(node), node)
    for _, source in preparation.sharded:
        needs.setdefault(program.frame(source), source)
    name = _free_name(program, "accelerator")
    reach = Reacher(program, name, needs).solve()
    obstacles.extend((node, "accelerator", message) for node, message in reach.obstacles)
    script = Script(program, roles, tracer, training, preparation, reach, options)
    obstacles.extend(_several_devices(program, script.files))
    obstacles.extend(_by_hand(program, script.files | {p.path for p in program.named}))
    return Verdict(script, tuple(obstacles))


def _trains(program: Program, training: Training) -> bool:
    """Whether a backward pass is part of a training loop here, and not a helper for somebody else's."""
    frames = {program.frame(b) for b in training.backwards}
    stepping = {program.frame(s) for s in training.steps}
    stepping |= {
        program.frame(c) for c in program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "zero_grad"
    }
    # `optimizer.step(closure)` calls what it is given
    stepping |= {
        v.scope for s in training.steps for a in s.args for v in program.values(a) if isinstance(v, FunctionValue)
    }
    return any(training.loops.values()) or bool(frames & stepping) or _updates_by_hand(program, training)


def _updates_by_hand(program: Program, training: Training) -> bool:
    """Whether the training code reads gradients itself: `w.data -= lr * w.grad`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and program.frame(node) in training.frames
        for node in program.flow.values
    )


def is_migrated(named: Iterable[Parsed]) -> bool:
    """Whether a library that runs training loops is imported already."""
    for parsed in named:
        for node in ast.walk(parsed.tree):
            modules = []
            if isinstance(node, ast.Import):
                modules = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            if any(names.migrated_by(m) for m in modules):
                return True
    return False


def _several_devices(program: Program, files: set[str]) -> Iterator[tuple[ast.AST, str, str]]:
    """Signs that a model is spread over several GPUs of one process."""
    found: dict[str, ast.AST] = {}
    for path in sorted(files):
        for node in program.flow.parsed_of[path].parents:
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text.startswith("cuda:") and text.partition(":")[2].isdigit():
                found.setdefault(text, node)
    if len(found) > 1:
        first = next(iter(found.values()))
        yield first, "devices", f"{' and '.join(sorted(found))}: the script spreads itself over several GPUs by hand"


def _by_hand(program: Program, files: set[str]) -> Iterator[tuple[ast.AST, str, str]]:
    """Signs that a script already distributes itself, or scales its losses by a library."""
    seen: set[tuple[str, str]] = set()
    for node, values in list(program.flow.values.items()):
        if not isinstance(node, (ast.Attribute, ast.Name)) or program.path(node) not in files:
            continue
        for name in (v.name for v in values if isinstance(v, External)):
            kind = None
            if names.is_distributed(name):
                kind = ("distributed", f"`{name}`: the script already distributes itself")
            elif name.startswith(("apex.amp", "apex.fp16_utils", "apex.optimizers")):
                kind = (
                    "amp",
                    f"`{name}`: mixed precision by apex is not migrated; use torch.amp or `mixed_precision=`",
                )
            if (
                kind is not None
                and program.scope(node).root.module
                and (kind[1], program.path(node)) not in seen
                and program.frame(node) in program.reachable
            ):
                seen.add((kind[1], program.path(node)))
                yield node, *kind


def _free_name(program: Program, wanted: str) -> str:
    taken = {name for b in program.flow.bindings.values() for s in b.root.walk() for name in s.writes}
    for name in (wanted, "accel", "acc", "accelify_accelerator"):
        if name not in taken:
            return name
    return "_accelerator"


__all__ = ["Move", "Script", "Verdict", "node_of", "understand"]
