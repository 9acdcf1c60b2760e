"""The facts of devices that rules read: what is moved, what is in which memory, and which options chose where."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelify.codemod.devices.arrivals import Arrivals
from accelify.codemod.devices.comparisons import Comparison, Comparisons
from accelify.codemod.devices.destinations import (
    Destination,
    Destinations,
    Where,
    gpu_texts,
    gpu_texts_at,
    is_by_number,
    is_where_another_is,
    numbers_of_gpus,
)
from accelify.codemod.devices.device_options import Asked, DeviceOption, DeviceOptions
from accelify.codemod.devices.host_reads import HostReads
from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.devices.moves import Move, Moves, last_name, options_in
from accelify.codemod.devices.options import Cpu, CpuSetting, NamedDevices, OnGpu, device_on_gpu
from accelify.codemod.devices.own_tensors import Homemade, Mixing
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Device
from accelify.codemod.preparing.placing import Access, EarlyCode
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.settings import Setting
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Assignment, Scope, names_read_in
from accelify.codemod.semantics.values import Argument, Constant, Instance, Made
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import Roles

_GPUS = (Where.ACCELERATOR, Where.NUMBERED)
_CUDA_OR_HOST = [{Where.ACCELERATOR}, {Where.HOST}]
_TEXTUAL = (ast.Compare, ast.Attribute, ast.FormattedValue, ast.BinOp)  # what is done with a device as text
_VARIABLES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(frozen=True, slots=True)
class Devices:
    """The table.

    moves: the calls of the changed files that move something to a device, in the order of the text; needless: those
    that do nothing once what they move is prepared. named: the arguments that are options which name a device, where
    the accelerator has the process's own; fixed: the variables and values that would name the same device in every
    process, or the CPU though the accelerator has a GPU. out_of_reach: where one GPU is named and the accelerator
    cannot be asked; numbered: where a function that chooses devices says which GPU; numbers: the devices of other files
    that are one GPU by its bare number; defaulted: the calls of their functions that leave a device at its default,
    the CPU, each with the parameter. early: the code that may run
    before it is there. lattice: where the tensors live. together: what it takes where they are in two memories. cpu:
    what keeps the script on the CPU, such as an option of its own, as the accelerator gets it. options: those that
    get the accelerator's device where it is created. is_for_cuda: whether the script has something on a GPU under a
    condition, in a way that no other accelerator's device can take the place of. set_elsewhere: the devices of moves
    that stay, of variables that another file sets and that this one reads for moves only. comparisons: those of a
    device with a named GPU. set_below: the devices of a module that are read where the accelerator is, and bound
    above.
    keeps_moves: whether all of the script's own moves stay, and `prepare` moves nothing.
    """

    tracer: Tracer
    known: Moves
    lattice: Lattice
    moves: tuple[Move, ...]
    needless: frozenset[ast.Call]
    named: tuple[ast.expr, ...]
    fixed: frozenset[ast.expr]
    out_of_reach: tuple[ast.expr, ...]
    early: EarlyCode
    together: Together
    cpu: Setting | None
    options: tuple[DeviceOption, ...] = ()
    is_for_cuda: bool = False
    stranded: tuple[ast.Call, ...] = ()
    is_unnamed: bool = False
    numbered: tuple[ast.expr, ...] = ()
    numbers: tuple[ast.expr, ...] = ()
    defaulted: tuple[tuple[ast.Call, str], ...] = ()
    moved_early: tuple[ast.Call, ...] = ()
    set_elsewhere: frozenset[ast.expr] = frozenset()
    comparisons: tuple[Comparison, ...] = ()
    set_below: tuple[Assignment, ...] = ()
    keeps_moves: bool = False

    def is_needless(self, move: Move) -> bool:
        """Whether a move does nothing once what it moves is prepared."""
        return move.call in self.needless

    def goes_to_cpu(self, move: Move) -> bool:
        """Whether a move brings something to the CPU, whatever the device is."""
        return self.known.goes_to_cpu(move)

    def is_early(self, node: ast.AST) -> bool:
        """Whether a place may be run before the accelerator has chosen the process's GPU."""
        return self.early.holds(node)

    def is_of_process(self, device: ast.expr) -> bool:
        """Whether all that a device's variable may hold are devices that the script chose, or the process's own."""
        held = self.known.program.values(device)
        return self.lattice.devices.is_own(device) or (bool(held) and all(map(self.known.roles.is_device, held)))

    def may_be_cpu(self, device: ast.expr) -> bool:
        """Whether a device may be the CPU where there is a GPU, by a choice that the accelerator does not know."""
        return any(d.now is Where.HOST for d in self.lattice.devices.resolved(self.lattice.devices.of(device)))

    def is_gone_without_a_gpu(self, device: ast.expr) -> bool:
        """Whether a device is no GPU on a machine that has none: `device = 0 if torch.cuda.is_available() else -1`."""
        known = self.known
        holds = OnGpu(known.program.once(Conditions), self.tracer, (), has_gpu=False).holds
        devices = Destinations(known.program, known.roles, self.tracer, (), holds, lambda node: ())
        return any(d.now is not Where.NUMBERED for d in devices.resolved(devices.of(device)))

    def follows_tensors(self, device: ast.expr) -> bool:
        """Whether a device is always where another tensor is, which is right in every process."""
        return self.lattice.devices.follows_tensors(device)

    def may_stay(self, move: Move) -> bool:
        """Whether a needless move does no harm where it stays: its device is the process's own."""
        if not isinstance(move.device, (ast.Attribute, ast.Subscript)):
            return move.device not in self.fixed
        named = self.lattice.devices.resolved(self.lattice.devices.of(move.device))
        return move.device not in self.fixed and not any(d.now is Where.UNKNOWN for d in named)

    def is_for_a_gpu(self, test: ast.expr) -> bool:
        """Whether a condition holds wherever the script computes on a GPU."""
        return self.lattice.holds(test) is True

    def may_have_none(self, move: Move) -> bool:
        """Whether what is moved may be something that has no such method: a tuple, or None."""
        return self.known.may_have_none(move.receiver)

    def is_the_cpu(self, variable: str) -> bool:
        """Whether a variable is the CPU, beside another that is the device."""
        return self.known.is_the_cpu(variable)

    def is_for_the_cpu(self, assigned: Assignment) -> bool:
        """Whether a variable sends something other than training to the CPU: `device = torch.device("cpu")`."""
        return self.known.is_for_the_cpu(assigned)

    def trains_on_cpu(self, assigned: Assignment) -> bool:
        """Whether a variable is nothing but the CPU, where the plain script had its models: `device = "cpu"`."""
        named = self.lattice.devices.resolved(self.lattice.devices.of(assigned.value))
        return self.lattice.is_plain_host and {d.was for d in named} == {Where.HOST}

    def ignored_options(
        self, launch: str, nodes: Sequence[ast.AST], numbering: Sequence[ast.AST] = ()
    ) -> Iterator[str]:
        """The notes about options that chose a device there, and no longer do; or a GPU, by its number."""
        asked = self._asked(nodes)
        numbered = [*numbering, *(n for node in asked.behind for n in numbers_of_gpus(node))]
        numbers = self._asked(numbered).by.union(*map(options_in, numbered))
        others = asked.by - numbers
        others |= {r.id for node in nodes for r in ast.walk(node) if isinstance(r, ast.Name) and self._is_open(r)}
        others |= {ast.unparse(v) for node in nodes for r in ast.walk(node) if (v := self._compared(r)) is not None}
        chosen = self.cpu if isinstance(self.cpu, CpuSetting) else None
        lost = others - self._asked(chosen.asked).by if chosen is not None else others if self.cpu is None else set()
        yield from (cpu_instead(option, launch) for option in sorted(lost))
        given = {n.id for node in asked.behind for n in ast.walk(node) if isinstance(n, ast.Name)}
        for option in sorted((others | given) & chosen.numbered) if chosen is not None else ():
            yield f"`{option}` only selects between CPU and GPU now: to select GPUs, use `{launch} --gpu-ids`"
        tests = [t.test for n in asked.behind for t in ast.walk(n) if isinstance(t, (ast.If, ast.IfExp))]
        choosing = self._asked(tests).by if self.cpu is None else set()
        for option in sorted(numbers):
            cpu = ", or `--cpu` to use none" if option in choosing else ""
            yield f"`{option}` no longer selects the GPU: use `{launch} --gpu-ids`{cpu}"

    def _asked(self, nodes: Iterable[ast.AST]) -> Asked:
        return Asked(self.known.program, self.known.roles, self.tracer, nodes)

    def _is_open(self, read: ast.Name) -> bool:
        """Whether a module's variable may be set by code that is only known when the script runs: `exec(settings)`."""
        program = self.known.program
        owner = program.scope(read).owner(read.id)
        is_text = any(isinstance(v, Constant) and isinstance(v.value, str) for v in program.values(read))
        return is_text and owner is not None and owner in program.once(open_modules)

    def _compared(self, node: ast.AST) -> ast.expr | None:
        """The call whose value a choice compares with text: `read()` of `device == "cuda"`."""
        parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        is_text = any(isinstance(p, ast.Constant) and isinstance(p.value, str) for p in parts)
        values = [self.tracer.value_at(p) for p in parts if isinstance(p, ast.Name)] if is_text else []
        called = [v for v in values if v is not None and any(isinstance(n, ast.Call) for n in ast.walk(v))]
        is_device = any(self.known.roles.is_device(v) for c in called for v in self.known.program.values(c))
        return called[0] if len(called) == 1 and not is_device else None


def cpu_instead(option: str, launch: str) -> str:
    """What takes the place of an option, or of other code, that may have chosen the CPU."""
    how = f"use `{launch} --cpu` or `Accelerator(cpu=True)`"
    return f"`{option}` no longer selects the device: to train on the CPU, {how}"


def open_modules(program: Program) -> frozenset[Scope]:
    """The modules whose own code runs other code, or sets variables by their names: `globals()[name] = value`."""
    calls = [c for c in program.calls if any(map(names.reads_variables, program.called(c)))]
    return frozenset(program.frame(c) for c in calls if program.frame(c).kind == "module" and _may_set(program, c))


def _may_set(program: Program, call: ast.Call) -> bool:
    """Whether a call that sees all variables may set them: `exec(text)`, `globals()[name] = value`, and `update`."""
    holder = program.parent(call)
    rows = [table.function(name) for name in program.called(call)]
    if any(row is not None and row.returns == "dict" for row in rows):
        is_set = isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store)
        return is_set or (isinstance(holder, ast.Attribute) and holder.attr == "update")
    return isinstance(holder, ast.Expr)


def _homemade_by_preparation(program: Program) -> dict[Prepared, Homemade]:
    """Filled as it is asked for."""
    return {}


@dataclass(frozen=True, slots=True)
class Own:
    """The tensors that a script which names no device makes itself, and what it takes to bring them to one."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    prepared: Prepared
    has_model: bool
    effects: Effects

    def tensor(self) -> ast.expr | None:
        """One that a model gets; None where the script knows of devices."""
        return self._homemade().find()

    def names_a_device(self) -> bool:
        """Whether the script knows of devices."""
        return self._homemade().names_a_device()

    def _homemade(self) -> Homemade:
        known = self.program.once(_homemade_by_preparation)
        if self.prepared not in known:
            known[self.prepared] = Homemade(self._lattice(), self.training.backwards)
        return known[self.prepared]

    def _tensors(self) -> Tensors:
        return Tensors(self.program, self.roles, self.prepared)

    def placed_by_script(self, known: Moves, access: Access, cpu: CpuSetting | None) -> Placed:
        """Where tensors live in a script that moves them itself, or makes none that a model gets."""
        holds = OnGpu(self.program.once(Conditions), self.tracer, cpu.wishes if cpu is not None else frozenset()).holds
        devices = Destinations(self.program, self.roles, self.tracer, (), holds, lambda node: ())
        plain = self._plain(known, devices)
        bound = [b.value for b in known.bindings if access.at(b.node) and not known.is_for_the_cpu(b)]
        fixed = frozenset(f for f in self._fixed(known, devices, plain, bound) if access.at(f) is not None)
        named = NamedDevices(self.program, self.tracer, set(known.files), known.found).find()
        redirected = [*fixed, *(n for n in named if access.at(n) is not None)]
        options = DeviceOptions(known, access).find(redirected, numbered=lambda n: _is_numbered(devices.of(n)))
        settled = frozenset(read for option in options for read in option.reads)
        defaulted = self._defaulted(known.files, devices, access) if plain == {Where.HOST} else {}
        tensors = self._tensors()
        lattice = Lattice(
            *(self.program, self.roles, self.tracer, tensors),
            plain=plain,
            named=self._named(known, plain),
            holds=holds,
            replaced=[*fixed, *bound, *settled, *defaulted.values()],
            is_early=tensors.runs_early,
        )
        sources = self._numbered(known, lattice.devices, known.files)
        return Placed(lattice, fixed - settled, options, sources, defaulted)

    def placed_by_hand(self, known: Moves) -> Placed:
        """The same of one that distributes itself."""
        holds = OnGpu(self.program.once(Conditions), self.tracer, ()).holds
        plain = self._plain(known, Destinations(self.program, self.roles, self.tracer, (), holds, lambda node: ()))
        tensors, plain = self._tensors(), {Where.ACCELERATOR} if Where.ACCELERATOR in plain else plain
        lattice = Lattice(
            *(self.program, self.roles, self.tracer, tensors), plain=plain, holds=holds, is_early=tensors.runs_early
        )
        return Placed(lattice, frozenset())

    def given_by_others(self) -> ast.expr | None:
        """The first place where a model gets what only code that is not read can put on a device."""
        return self._homemade().given_by_others() if self.has_model else None

    def _defaulted(
        self, files: Collection[str], devices: Destinations, access: Access
    ) -> dict[tuple[ast.Call, str], ast.expr]:
        """The calls that leave a device of another file's function at the CPU, with its parameter and the default."""
        found: dict[tuple[ast.Call, str], ast.expr] = {}
        given = (d.given for place in _places_elsewhere(self.program, files) for d in devices.of(place))
        for parameter in dict.fromkeys(p for p in given if p is not None):
            function = self.program.scope(parameter)
            default, calls = function.defaults.get(parameter.arg), self.program.calls_of(function)
            is_cpu = default is not None and {d.now for d in devices.of(default)} == {Where.HOST}
            is_left = all(self.tracer.given(c, function, parameter.arg) is default and access.at(c) for c in calls)
            parents = map(self.program.parent, self.program.reads_of(function, parameter.arg))
            is_left = is_left and not any(isinstance(parent, _TEXTUAL) for parent in parents)
            if default is not None and is_cpu and is_left and function.module not in files:
                found.update({(call, parameter.arg): default for call in calls})
        return found

    def _numbered(self, known: Moves, devices: Destinations, files: Collection[str]) -> frozenset[ast.expr]:
        """Where functions say the number of the GPU that something goes to, which no rule gives another device."""
        sites = [m.device for m in known.found if m.device is not None]
        for call in self.program.calls:
            if self.program.path(call) in files and not self.program.flow.callees.get(call):
                sites += _named_by(self.program, call)
        named = (d for site in sites for d in devices.resolved(devices.of(site)) if d.now is Where.NUMBERED)
        own = {*sites, *(b.value for b in known.bindings)}
        found = (d.source for d in named if d.source is not None)
        return frozenset(n for n in found if own.isdisjoint([n, *self.program.ancestors(n)]))

    def _fixed(
        self, known: Moves, plain_devices: Destinations, plain: set[Where], bound: Sequence[ast.expr]
    ) -> Iterator[ast.expr]:
        """The variables that name one GPU by its number, or the CPU where the script trained on it by default."""
        holds = plain_devices.holds
        devices = Destinations(self.program, self.roles, self.tracer, set(bound), holds, lambda node: ())
        sites = [m.device for m in known.found if m.device is not None]
        literal: set[ast.expr] = {d for d in sites if isinstance(d, ast.Call)}  # a rule has the moves to a text
        for call in self.program.calls:
            if self.program.path(call) in known.files and not self.program.flow.callees.get(call):
                given = _named_by(self.program, call)
                makes = self._tensors().is_creator(call)
                sites += given if makes else ()
                literal |= {d for d in given if makes or gpu_texts_at(d) or "torch.device" in _called(self.program, d)}
        sites += [d for d in literal if d not in sites]
        named = [(site, devices.resolved(devices.of(site))) for site in sites if self.effects.changes_nothing(site)]
        named += [(value, plain_devices.resolved(plain_devices.of(value))) for value in bound]
        for site, held in named:
            is_variable = bool(names_read_in(site)) and not is_where_another_is(site)
            is_trained_on = plain == {Where.HOST} and bool(held) and all(d.now is Where.HOST for d in held)
            is_given = any(d.now is Where.NUMBERED and not d.is_part and (d.is_given or site in bound) for d in held)
            is_one = site in literal and any(d.now is Where.NUMBERED for d in held) and not is_where_another_is(site)
            if (is_variable and (is_trained_on or is_given)) or (is_one and not isinstance(site, _VARIABLES)):
                yield site

    def _plain(self, known: Moves, devices: Destinations) -> set[Where]:
        """Where the plain script may have had its models."""
        if not self.names_a_device():
            return {Where.HOST}
        found: set[Where] = set()
        for move in known.found:
            is_model = not self.prepared.is_batch(move.receiver) and not known.moves_nothing(move)
            if is_model and known.is_needless(move):
                tests = self.asked_for_a_move(move)
                found |= {d.was for d in devices.resolved(devices.of(move.device))} & {Where.HOST, Where.ACCELERATOR}
                found |= {Where.HOST} if any(devices.holds(test) is None for test in tests) else set()
        return found or {Where.HOST if self._names_the_cpu_only(devices) else Where.ACCELERATOR}

    def may_move_a_model(self, call: ast.Call) -> bool:
        """`model.to(device)`, `model.type(torch.cuda.FloatTensor)`, or such a call of what may be one"""
        if not isinstance(call.func, ast.Attribute):
            return False
        model, moves = call.func.value, methods.moves_to_device(call.func.attr) or call.func.attr == "type"
        held = self.program.values(model) if moves else frozenset()
        is_other = held and all(isinstance(v, Made) and not self.roles.is_module(v) for v in held)
        return moves and not is_other and not self.prepared.is_batch(model)

    def asked_for_a_move(self, move: Move) -> Iterator[ast.expr]:
        """The conditions under which a model is moved, but for those under which it is made, and by no other branch."""
        read = move.receiver
        owner = self.program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
        if owner is not None and isinstance(read, ast.Name):
            writes = self.program.reaching(read, self.tracer.writes(owner, read.id))
            rounds = [dict(self.program.branches_round(w) if not isinstance(w, ast.arg) else ()) for w in writes]
        else:
            made = [self.program.statement(read)] if isinstance(read, ast.Call) else []
            rounds = [dict(self.program.branches_round(statement)) for statement in made]
        places = [move.call, *(a for a in self.program.ancestors(move.call) if isinstance(a, ast.Lambda))]
        for branching, is_body in (branch for place in places for branch in self.program.branches_round(place)):
            if not rounds or any(round_it.get(branching) is not is_body for round_it in rounds):
                yield branching.test

    def _named(self, known: Moves, plain: set[Where]) -> dict[ast.expr, set[Where]]:
        """Where the plain script had the models that some names mean: it moved one, and never moves another."""
        moves_models = any(self.roles.is_module(v) for m in known.found for v in self.program.values(m.receiver))
        preparation = self.prepared.preparation
        items = [i for i in (*preparation.items, *preparation.bare_models) if i.kind == "model" and moves_models]
        named = {(i.frame.owner(i.text) or i.frame, i.text) for i in items}
        reads = [r for variable in named for r in self.program.reads_of(*variable) if Where.HOST not in plain]
        stays = {r: self._stays(r) for r in reads if not self.prepared.is_another_model(r)}
        if not any(True in each for each in stays.values()):
            return {}
        where = {True: {Where.HOST}, False: plain}
        return {read: set().union(*map(where.__getitem__, each)) for read, each in stays.items() if each}

    def _stays(self, read: ast.expr, depth: int = 3) -> set[bool]:
        """Whether the models that a variable may hold stay where they are made, those of a function's callers, too."""
        owner = self.program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
        if not isinstance(read, ast.Name) or owner is None or not depth:
            return {False}
        found: set[bool] = set()
        for write in self.program.reaching(read, self.tracer.writes(owner, read.id)):
            calls = self.program.calls_of(owner) if isinstance(write, ast.arg) else []
            given = [self.tracer.argument(c, owner, read.id) for c in calls]
            found |= {stays for g in given if g is not None for stays in self._stays(g, depth - 1)}
            if not given:
                found.add(isinstance(write, ast.Name) and self._is_never_moved(owner, write))
        return found

    def _is_never_moved(self, owner: Scope, write: ast.Name) -> bool:
        """Whether a model stays where it is made: that of one cell of a notebook, say."""
        program, value = self.program, self.tracer.assigned(write)
        if not isinstance(value, ast.Call) or not any(map(self.roles.is_module, program.values(value))):
            return False
        is_placed = any(isinstance(n, (ast.With, ast.AsyncWith)) for n in program.ancestors(write))
        own = {v.cls for v in program.values(value) if isinstance(v, Instance)}
        inside = [c for cls in own for method in cls.children for c in program.calls_in(method)]
        moving = [c for c in inside if ast.unparse(c.func).startswith("self.") and _may_go_to_a_gpu(c)]
        moving += [n for n in ast.walk(value) if isinstance(n, ast.Call) and _may_go_to_a_gpu(n)]
        if is_placed or moving or _has_default_device(program):
            return False
        reads = [r for r in program.reads_of(owner, write.id) if program.reaching(r, [write])]
        return bool(reads) and not any(map(self.prepared.may_move, reads))

    def _names_the_cpu_only(self, devices: Destinations) -> bool:
        """Whether the script brings nothing to a GPU: it only asks for one, or says the CPU, `device="cpu"`."""
        nodes = [n for parsed in self.program.files for n in parsed.nodes]
        named = [self.program.parent(n) for n in nodes if isinstance(n, ast.Attribute) and n.attr == "cuda"]
        moved = (not isinstance(n, ast.Attribute) or n.attr.endswith("Tensor") for n in named)  # `x.cuda()`, or a type
        if any(moved) or _has_default_device(self.program):
            return False
        said = [k.value for n in nodes if isinstance(n, ast.Call) for k in n.keywords if k.arg == "device"]
        paths = {parsed.path for parsed in self.program.files}
        said += [m.device for m in Moves(self.program, self.roles, self.tracer, self.prepared, paths).found if m.device]
        places = [d for n in said if not is_where_another_is(n) for d in devices.resolved(devices.of(n))]
        if not said:
            return not self._homemade().is_named_by_users()
        return bool(not named and all(d.was is Where.HOST for d in places))

    def stranded(self, files: frozenset[str], access: Access) -> Iterator[ast.Call]:
        """The moves by an option that the accelerator does not ask, where it does not reach."""
        return Cpu(self.program, self.roles, self.tracer, access.reach, self.prepared).stranded(files, access)

    def moved_early(self, early: EarlyCode, cpu: CpuSetting | None) -> tuple[ast.Call, ...]:
        """The moves to a GPU before the accelerator is there, except those of objects that are prepared later."""
        program, wishes = self.program, cpu.wishes if cpu is not None else frozenset[str]()
        calls = [c for scope in early.scopes for c in program.calls_in(scope) if _may_go_to_a_gpu(c) and early.holds(c)]
        known = Moves(program, self.roles, self.tracer, self.prepared, {program.path(c) for c in calls})
        holds = OnGpu(program.once(Conditions), self.tracer, wishes).holds
        devices = Destinations(program, self.roles, self.tracer, (), holds, lambda node: ())
        moves = {m.call: m for m in known.found}

        def goes_to_a_gpu(call: ast.Call) -> bool:
            if any(holds(b.test) is (not is_body) for b, is_body in program.branches_round(call)):
                return False
            move = moves.get(call)
            device = move.device if move is not None else _keyword(call, "device")
            is_left = known.is_needless(move) if move is not None else device is None or only_keeps(program, call)
            is_gpu = any(d.now in _GPUS for d in devices.resolved(devices.of(device)))
            return not is_left and (is_gpu or (device is not None and self._is_chosen_by_option(device, cpu)))

        return tuple(sorted(filter(goes_to_a_gpu, calls), key=program.position))

    def _is_chosen_by_option(self, device: ast.expr, cpu: CpuSetting | None, depth: int = 3) -> bool:
        """Whether a device is what an option says, which keeps the accelerator on the CPU and may also name a GPU."""
        parts = [n for n in ast.walk(device) if isinstance(n, _VARIABLES)] if cpu is not None else []
        if cpu is not None and any(last_name(n) in {text.rpartition(".")[2] for text in cpu.numbered} for n in parts):
            return True
        values = (self.tracer.only_value(n) for n in parts) if depth else ()
        return any(v is not None and self._is_chosen_by_option(v, cpu, depth - 1) for v in values)

    def named_early(self, early: EarlyCode, files: frozenset[str]) -> bool:
        """Whether an option names the device of something before the accelerator is there."""
        known = Moves(self.program, self.roles, self.tracer, self.prepared, files)
        return any(map(early.holds, NamedDevices(self.program, self.tracer, set(files), known.found).find()))

    def choosing(self, calls: Iterable[ast.Call]) -> Iterator[ast.AST]:
        """The code that chooses the devices of some moves: lines that give a variable its device, else the moves."""
        paths = {parsed.path for parsed in self.program.files}
        known = Moves(self.program, self.roles, self.tracer, self.prepared, paths)
        moves = {m.call: m.device for m in known.found}
        for call in calls:
            device = moves.get(call, _keyword(call, "device"))
            bindings = known.bindings if device is not None and names_read_in(device) else ()
            chosen: list[ast.AST] = [b.node for b in bindings if device and self._is_same(device, b.target)]
            yield from chosen or [call]

    def _is_same(self, read: ast.expr, target: ast.expr) -> bool:
        """Whether a variable is the one that a statement sets."""
        program = self.program
        if isinstance(read, ast.Name) and isinstance(target, ast.Name) and read.id == target.id:
            return program.scope(read).owner(read.id) is program.scope(target).owner(target.id)
        if isinstance(read, ast.Attribute) and isinstance(target, ast.Attribute) and read.attr == target.attr:
            return bool(program.values(read.value) & program.values(target.value))
        return False

    def _lattice(self) -> Lattice:
        return Lattice(self.program, self.roles, self.tracer, self._tensors())


@dataclass(frozen=True, slots=True)
class Placed:
    """Where tensors live, and those that have to live elsewhere.

    fixed: what names the same device in every process. options: those
    of the script that get the accelerator's device. numbered: where a function says the number of a GPU. defaulted:
    the calls that leave a device at its default, the CPU, each with the parameter and the default.
    """

    lattice: Lattice
    fixed: frozenset[ast.expr]
    options: tuple[DeviceOption, ...] = ()
    numbered: frozenset[ast.expr] = frozenset()
    defaulted: Mapping[tuple[ast.Call, str], ast.expr] = field(default_factory=dict)


def devices_of(
    own: Own,
    files: frozenset[str],
    access: Access,
    cpu: CpuSetting | None,
    *,
    by_hand: bool,
    may_mix: bool = False,
) -> Devices:
    """The table of some files; `may_mix` says whether operations can be allowed to take tensors of both memories."""
    program, tracer = own.program, own.tracer
    known = Moves(program, own.roles, tracer, own.prepared, files)
    placed = own.placed_by_hand(known) if by_hand else own.placed_by_script(known, access, cpu)
    lattice = placed.lattice
    early = EarlyCode(program, access)
    moves = tuple(known.found)
    is_only_named = {m.call: m.device is None or own.effects.changes_nothing(m.device) for m in moves}
    follows = {m.call: not known.goes_to_cpu(m) and lattice.is_of_batches(m.receiver) for m in moves}
    goes = [m for m in moves if is_only_named[m.call] and (known.is_needless(m) or follows[m.call])]
    stranded = tuple(own.stranded(files, access)) if cpu is None and not by_hand else ()
    staying = None if lattice.is_plain_host else _staying(own, lattice, early, known, goes, stranded)
    needless = frozenset(m.call for m in goes)
    if staying is not None and staying.is_left:
        needless, stranded = frozenset(), ()
    named: list[ast.expr] = []
    if not by_hand:
        found = NamedDevices(program, tracer, set(files), [m for m in moves if m.call not in needless]).find()
        others = placed.fixed - {b.value for b in known.bindings} - {m.device for m in moves if m.call in needless}
        settled = {read for option in placed.options for read in option.reads}
        named = sorted({*(a for a in found if access.at(a)), *others} - settled, key=program.position)
    undecided = [] if by_hand or cpu is not None else [*_undecided(lattice, moves, {*needless}, {*named})]
    undecided += stranded
    if staying is None:
        together = _together(own, lattice, undecided, may_mix=may_mix) if not by_hand else Together()
    else:
        mixed = next(iter([*staying.unmoved, *([] if staying.is_left else [*staying.read, *undecided])]), None)
        together = Together(mixed=mixed if may_mix and own.has_model else None)
    homemade = together.homemade
    setting = Setting(ast.Constant(True)) if homemade is not None else cpu
    elsewhere = [] if by_hand else [*_elsewhere(program, files, lattice.devices)]
    texts = (text for _, texts in elsewhere for text in texts)
    out_of_reach = () if by_hand else tuple(dict.fromkeys((*_out_of_reach(program, moves, files, access), *texts)))
    compared = Comparisons(known, lattice.devices, placed.options, lambda node: access.at(node) is not None)
    return Devices(
        *(tracer, known, lattice, moves, needless, tuple(named), placed.fixed, out_of_reach, early),
        *(together, setting, placed.options),
        numbered=tuple(sorted(placed.numbered, key=program.position)),
        numbers=tuple(place for place, texts in elsewhere if not texts),
        defaulted=tuple(placed.defaulted),
        is_for_cuda=not by_hand
        and homemade is None
        and (_is_for_cuda(own, files, cpu, moves, needless) or _keeps_cuda(known, access, needless)),
        is_unnamed=setting is None and not by_hand and not own.names_a_device(),
        moved_early=own.moved_early(early, cpu),
        stranded=stranded if setting is None else (),
        set_elsewhere=frozenset(_set_elsewhere(lattice, moves, access)) if not by_hand else frozenset(),
        comparisons=() if by_hand else tuple(compared.find()),
        set_below=() if by_hand or homemade is not None else tuple(_set_below(known, access, needless)),
        keeps_moves=staying is not None and staying.is_left,
    )


@dataclass(frozen=True, slots=True)
class Staying:
    """What a script with a GPU of its own does that a prepared loader would change by moving batches.

    read: the batches that it reads in CPU memory, or else what may not be on the device. unmoved: what only a wrapper
    moved, which goes. is_left: whether all of its moves stay, and prepared objects are not moved: not where they come
    too early, nor where the wrapper may have moved the models, too.
    """

    read: tuple[ast.AST, ...]
    unmoved: tuple[ast.AST, ...]
    is_left: bool


def _staying(
    own: Own, lattice: Lattice, early: EarlyCode, known: Moves, goes: Sequence[Move], stranded: Sequence[ast.Call]
) -> Staying:
    arrivals = Arrivals(lattice, goes)
    trained = own.prepared.preparation.models
    models = [m for m in known.found if m in goes and not own.prepared.is_batch(m.receiver)]
    models += [m for m in known.found if m not in goes and own.program.values(m.receiver) & trained]
    on_host = [*_named_on_host(own, lattice), *_moved_at_times(own, lattice, known, models), *_never_moved(own, known)]
    unmoved = sorted(arrivals.brought_by_wrapper(), key=own.program.position)
    read = [*arrivals.reads(), *on_host, *own.prepared.left_to_others(), *stranded]
    is_early = any(early.holds(m.call) for m in models)
    is_left = bool(read) and not is_early and (bool(models) or not unmoved)
    return Staying(tuple(sorted(read, key=own.program.position)), tuple(unmoved), is_left)


def _named_on_host(own: Own, lattice: Lattice) -> Iterator[ast.AST]:
    """The reads of models that may be in the CPU's memory, though others are moved."""
    paths = {parsed.path for parsed in own.program.files}
    elsewhere = Moves(own.program, own.roles, own.tracer, own.prepared, paths).found
    moved = {v for m in elsewhere for v in own.program.values(m.receiver)}
    for read, places in lattice.named.items():
        if Where.HOST in places and (len(places) > 1 or moved.isdisjoint(own.program.values(read))):
            yield read


def _moved_at_times(own: Own, lattice: Lattice, known: Moves, models: Sequence[Move]) -> Iterator[ast.AST]:
    """The moves of models that are made under a condition other than that there is a GPU, or to another each round."""
    for move in models:
        asked = (test for test in own.asked_for_a_move(move) if lattice.holds(test) is None)
        is_chosen = any(d is None or not lattice.devices.is_own(d) for d in map(device_on_gpu, asked))
        if is_chosen or (move.device is not None and known.is_of_round(move.device)):
            yield move.call


def _never_moved(own: Own, known: Moves) -> Iterator[ast.AST]:
    """Where models are prepared of which the script's own code makes all and moves none."""
    to_gpu = (m.call for m in known.found if not known.goes_to_cpu(m))
    if any(not any(own.program.branches_round(call)) for call in to_gpu):
        return  # they are there, however they came
    is_given = any(isinstance(v, Argument) for v in own.prepared.preparation.models)
    if own.has_model and not is_given and not any(map(own.may_move_a_model, own.program.calls)):
        yield from (g.anchor for g in own.prepared.preparation.groups if g.anchor is not None)


@dataclass(frozen=True, slots=True)
class Together:
    """How the tensors of a script come together that are in two memories once its models are on a device.

    mixed: where those in the CPU's memory may meet those on the device. homemade: what keeps a script that names no
    device on the CPU. from_others: what other code may put on the device. changed_by_arrays: the tensors on the device
    that change with an array, each with the code that changes it.
    """

    mixed: ast.AST | None = None
    homemade: ast.AST | None = None
    changed_by_arrays: Mapping[ast.expr, ast.AST] = field(default_factory=dict)
    from_others: ast.expr | None = None


def _together(own: Own, lattice: Lattice, undecided: Sequence[ast.expr], *, may_mix: bool) -> Together:
    """The same of a script that has its models on the CPU."""
    host, tensor, from_others = own.program.once(HostReads), own.tensor(), own.given_by_others()
    changed = {t: host.shared[t] for t in lattice.on_device(host.shared)}
    doubts = [tensor, from_others, *undecided, *own.prepared.left_to_others()]
    first = next(filter(None, doubts), None) or Mixing(lattice).first()
    if may_mix and own.has_model and not host.asked and not (changed and tensor is not None):
        return Together(first, None, changed)
    is_left = from_others is None and not own.names_a_device()
    return Together(None, first if is_left else None, changed, from_others)


def _undecided(
    lattice: Lattice, moves: Sequence[Move], needless: Collection[ast.Call], named: Collection[ast.expr]
) -> Iterator[ast.expr]:
    """The devices of moves that stay, of which nothing is known, or that may be the CPU: `self.device` of settings."""
    program = lattice.program
    left = (m for m in moves if m.call not in needless and program.frame(m.call) in program.reachable)
    for device in (m.device for m in left if ast.unparse(m.call.func).endswith(".to")):
        if device is not None and device not in named and not is_by_number(program, device):
            places = {d.now for d in lattice.devices.resolved(lattice.devices.of(device))}
            if Where.UNKNOWN in places or not places:
                yield device


def _set_below(known: Moves, access: Access, needless: frozenset[ast.Call]) -> Iterator[Assignment]:
    """The devices of a module, bound above the accelerator, that are read where it is: one for each variable."""
    program, homes, done = known.program, access.reach.homes, set[str]()
    for binding in known.bindings if len(homes) == 1 else ():
        home, name = homes[0], binding.target.id if isinstance(binding.target, ast.Name) else ""
        is_above = program.scope(binding.target) is home.root and access.at(binding.node) is None
        if name in done or not name or not is_above or known.is_for_the_cpu(binding):
            continue
        reads, inner = program.reads_of(home.root, name), set(home.walk())
        if home.kind == "function":
            reads = [r for r in reads if program.scope(r) in inner]
        early = [r for r in reads if access.at(r) is None and (home.kind == "function" or program.frame(r) is home)]
        left = [r for r in reads if r not in early and needless.isdisjoint(program.ancestors(r))]
        if home.kind == "module" or (home.kind == "function" and name not in home.writes and not early):
            done.add(name)
            yield from [binding] if left else []


def _set_elsewhere(lattice: Lattice, moves: Sequence[Move], access: Access) -> Iterator[ast.expr]:
    """The process's own device in moves that the accelerator reaches, of other files: a base class's `self.device`."""
    program = lattice.program
    reached = {m.device for m in moves if m.device is not None and access.at(m.call) is not None}
    by_text: dict[tuple[str, str], list[ast.expr]] = {}
    for device in sorted(filter(None, reached), key=program.position):
        writes = _writes_of(program, lattice.tracer, device)
        is_outside = all(isinstance(w, ast.alias) or program.path(w) != program.path(device) for w in writes)
        if writes and lattice.devices.is_own(device) and is_outside:
            by_text.setdefault((program.path(device), ast.unparse(device)), []).append(device)
    for (path, text), devices in by_text.items():
        reads = (n for n in program.flow.parsed_of[path].nodes if isinstance(n, type(devices[0])))
        if all(n in reached for n in reads if ast.unparse(n) == text):
            yield from devices


def _writes_of(program: Program, tracer: Tracer, device: ast.expr) -> Sequence[ast.AST]:
    """Where a variable gets its values, an attribute those of the same object."""
    if isinstance(device, ast.Attribute):
        held = program.values(device.value)
        return [w for w in program.attribute_writes.get(device.attr, ()) if program.values(w.value) & held]
    owner = program.scope(device).owner(device.id) if isinstance(device, ast.Name) else None
    return [] if owner is None or not isinstance(device, ast.Name) else list(tracer.writes(owner, device.id))


def _is_numbered(named: Iterable[Destination]) -> bool:
    return any(d.now is Where.NUMBERED for d in named)


def _is_for_cuda(
    own: Own, files: frozenset[str], cpu: CpuSetting | None, moves: Sequence[Move], needless: frozenset[ast.Call]
) -> bool:
    """Whether conditions that ask for a GPU still decide something: types of its tensors, or more than moves."""
    program, wishes = own.program, cpu.wishes if cpu is not None else frozenset()
    there, elsewhere = (OnGpu(program.once(Conditions), own.tracer, wishes, has_gpu=h).holds for h in (True, False))

    def asks(node: ast.AST) -> list[ast.If | ast.IfExp]:
        answers = ((b, there(b.test), elsewhere(b.test)) for b, _ in program.branches_round(node))
        return [b for b, here, otherwise in answers if None not in (here, otherwise) and here is not otherwise]

    kept = [m.call for m in moves if m.call not in needless]
    for call in kept:
        guards = [b for b in asks(call) if isinstance(b, ast.If)]
        if any(g.orelse or not all(any(program.inside(m.call, s) for m in moves) for s in g.body) for g in guards):
            return True
    nodes = (n for path in files for n in program.flow.parsed_of[path].nodes if isinstance(n, ast.Attribute))
    typed = (n for n in nodes if Device.ACCELERATOR in map(names.memory_of_type, program.externals(n)))
    reached = (n for n in typed if program.frame(n) in program.reachable)
    return any(map(asks, reached))


def _keeps_cuda(known: Moves, access: Access, needless: frozenset[ast.Call]) -> bool:
    """Whether a device stays that is CUDA's or the CPU: a module's `device`, above a function with the accelerator."""
    program, conditions = known.program, known.program.once(Conditions)
    paths = {parsed.path for parsed in program.files}
    tests = (OnGpu(conditions, known.tracer, (), has_gpu=has_gpu).holds for has_gpu in (True, False))
    there, elsewhere = (Destinations(program, known.roles, known.tracer, (), t, lambda node: ()) for t in tests)
    below = [*_set_below(known, access, needless)]
    for binding in Moves(program, known.roles, known.tracer, known.prepared, paths).bindings:
        name = binding.target.id if isinstance(binding.target, ast.Name) else ""
        owner = program.scope(binding.target).owner(name) if name and access.at(binding.node) is None else None
        reads = program.reads_of(owner, name) if owner is not None else []
        left = [r for r in reads if needless.isdisjoint(program.ancestors(r)) and not _is_only_shown(program, r)]
        is_set_below = binding in below and access.reach.homes[0].kind == "module"
        if is_set_below:
            continue
        if any([{d.now for d in at.of(read)} for at in (there, elsewhere)] == _CUDA_OR_HOST for read in left):
            return True
    return False


def _is_only_shown(program: Program, read: ast.AST) -> bool:
    """Whether a device is turned into text, or given back to code that binds it or drops it."""
    parent = program.parent(read)
    if isinstance(parent, ast.Return):
        return all(isinstance(program.parent(c), (ast.Assign, ast.Expr)) for c in program.calls_of(program.frame(read)))
    is_printed = isinstance(parent, ast.Call) and ast.unparse(parent.func) == "print"
    return is_printed or isinstance(parent, _TEXTUAL)


def _may_go_to_a_gpu(call: ast.Call) -> bool:
    """Whether a call moves something, or says where it makes it."""
    is_move = isinstance(call.func, ast.Attribute) and methods.moves_to_device(call.func.attr)
    return is_move or _keyword(call, "device") is not None


def only_keeps(program: Program, call: ast.Call) -> bool:
    """Whether a call does nothing itself with the device that it is given: a function of the project's, a namespace."""
    kinds = {table.kind_made_by(name) for name in program.called(call)}
    return bool(program.flow.callees.get(call)) or kinds == {"dict"}


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _named_by(program: Program, call: ast.Call) -> list[ast.expr]:
    """The devices that a call is given for what it makes: `device=`, or the default of all that follows."""
    given = call.args[:1] if "torch.set_default_device" in program.called(call) else []
    return [*given, *(k.value for k in call.keywords if k.arg in ("device", "map_location"))]


def _has_default_device(program: Program) -> bool:
    """Whether a script says where all is made that no `device=` places."""
    called = (name for call in program.calls for name in program.called(call))
    return any(name.rpartition(".")[2].startswith("set_default_") for name in called)


def _called(program: Program, node: ast.expr) -> frozenset[str]:
    return program.called(node) if isinstance(node, ast.Call) else frozenset()


def _out_of_reach(
    program: Program, moves: Iterable[Move], files: Collection[str], access: Access
) -> Iterator[ast.expr]:
    """Where a call names one GPU by its number, and cannot ask the accelerator."""
    calls = [c for c in program.calls if program.path(c) in files]
    places = [m.device for m in moves if m.device is not None]
    places += [given for c in calls for given in _named_by(program, c)]
    return (p for p in dict.fromkeys(places) if any(gpu_texts(p)) and access.at(p) is None)


def _elsewhere(
    program: Program, files: Collection[str], devices: Destinations
) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Where the project's other files, that training comes to, have one GPU by its number, and what texts say so.

    `torch.device("cuda:0")`, `x.to(device)` where a caller or a default gives `"cuda:0"`, `x.cuda(0)`
    """
    for place in _places_elsewhere(program, files):
        named = devices.resolved(devices.of(place))
        given = (d.source for d in named if d.now is Where.NUMBERED and d.source is not None)
        texts = [text for n in (place, *given) if not isinstance(n, ast.Name) for text in gpu_texts(n)]
        if texts or (named and all(d.now is Where.NUMBERED for d in named)):
            yield place, texts


def _places_elsewhere(program: Program, files: Collection[str]) -> Iterator[ast.expr]:
    """What names a device in calls of the project's other files, that training comes to."""
    for call in program.calls:
        frame = program.frame(call)
        if program.path(call) in files or not (frame.kind == "module" or frame in program.reachable):
            continue
        is_move = isinstance(call.func, ast.Attribute) and methods.moves_to_device(call.func.attr)
        places = [call] if "torch.device" in program.called(call) else _named_by(program, call)
        yield from [*places, *(call.args[:1] if is_move else ())]
