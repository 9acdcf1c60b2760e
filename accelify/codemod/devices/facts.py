"""The facts of devices that rules read: what is moved, what is in which memory, and which options chose where."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.devices.comparisons import Comparison, Comparisons
from accelify.codemod.devices.destinations import (
    Destination,
    Destinations,
    Where,
    device_types,
    gpu_texts,
    is_by_number,
    is_where_another_is,
    numbers_of_gpus,
)
from accelify.codemod.devices.device_options import Asked, DeviceOption
from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.devices.moves import Move, Moves, options_in
from accelify.codemod.devices.options import CpuSetting, NamedDevices, OnGpu
from accelify.codemod.devices.placed import TEXTUAL, Own, named_by, places_elsewhere, set_below
from accelify.codemod.devices.staying import Together, staying_of, together_of
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Device
from accelify.codemod.preparing.placing import Access, EarlyCode
from accelify.codemod.preparing.settings import Setting
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.effects.set_by_text import setters
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Assignment, Scope, assigned_targets
from accelify.codemod.semantics.values import Constant
from accelify.codemod.training.facts import Run, leading
from accelify.codemod.training.loops.training import Training

_CUDA_OR_HOST = [{Where.ACCELERATOR}, {Where.HOST}]


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
    above, each with the module or function that creates it.
    keeps_moves: whether all of the script's own moves stay, and `prepare` moves nothing. beside: the moves in functions
    that nothing names, in a file that trains by itself.
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
    set_below: tuple[tuple[Assignment, Scope], ...] = ()
    keeps_moves: bool = False
    beside: frozenset[ast.Call] = frozenset()

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

    def reason_to_stay(self, move: Move, run: Run) -> str:
        """Why a move that no rule changes is left where it is, as reports keep it on record."""
        device = move.device
        if self.goes_to_cpu(move):
            return "stays: it goes to the CPU"
        if isinstance(device, ast.Attribute) and is_where_another_is(device):
            return f"stays: it goes to the device of `{ast.unparse(device.value)}`"
        if not run.may_train(self.known.program, move.call):
            return "stays: the training does not run this"
        places = self.places(device)
        is_text = (
            isinstance(device, ast.Constant)
            and isinstance(device.value, str)
            and not any(gpu_texts(self.known.program, device))
        )
        if device is None or is_text or places == {Where.ACCELERATOR}:
            return "stays: it goes to the process's own device"
        if self.follows_tensors(device):
            return "stays: it goes where another tensor is"
        if places == {Where.ACCELERATOR, Where.HOST}:
            return "stays: it goes to the process's own device, or to the CPU where the script asks for that"
        return f"stays: it goes to the device that the script sets, `{ast.unparse(device)}`"

    def places(self, device: ast.expr | None) -> set[Where]:
        """Where a device may be once all changes are made."""
        named = self.lattice.devices.resolved(self.lattice.devices.of(device))
        return {Where.ACCELERATOR if self._loses_its_number(d) else d.now for d in named}

    def _loses_its_number(self, named: Destination) -> bool:
        """Whether a device is one GPU by its number until that is taken out: `"cuda:0"`, which becomes `"cuda"`."""
        texts = [named.source, *gpu_texts(self.known.program, named.source)] if named.source is not None else []
        return any(text in (*self.out_of_reach, *self.numbers) for text in texts)

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

    def is_without_a_gpu(self, assigned: Assignment) -> bool:
        """Whether a device is one on machines without a GPU: `device = "cpu"` above `if cuda: device = "cuda"`."""
        program, text = self.tracer.program, ast.unparse(assigned.target)
        statement = program.statement(assigned.node)
        if any(self.lattice.holds(b.test) is (not is_body) for b, is_body in program.branches_round(statement)):
            return True
        block = program.block(statement)
        for later in block[block.index(statement) + 1 :]:
            if isinstance(later, ast.If) and self.is_for_a_gpu(later.test):
                return any(ast.unparse(t) == text for inner in later.body for t in assigned_targets(inner))
            if any(isinstance(n, ast.expr) and ast.unparse(n) == text for n in ast.walk(later)):
                return False
        return False

    def chosen_by(self, assigned: Assignment) -> Iterator[ast.expr]:
        """The conditions for a device where its variable is the CPU otherwise: `if on_gpu: device = pick_gpu()`."""
        program, devices, text = self.tracer.program, self.lattice.devices, ast.unparse(assigned.target)
        frame = program.frame(assigned.node)
        alike = [b for b in self.known.bindings if ast.unparse(b.target) == text and program.frame(b.node) is frame]
        hosts = [b for b in alike if {d.was for d in devices.resolved(devices.of(b.value))} == {Where.HOST}]
        for branching, is_body in program.branches_round(assigned.node):
            if any((branching, is_body) not in program.branches_round(b.node) for b in hosts):
                yield branching.test

    def trains_on_cpu(self, assigned: Assignment) -> bool:
        """Whether a variable is nothing but the CPU, where the plain script had its models: `device = "cpu"`."""
        named = self.lattice.devices.resolved(self.lattice.devices.of(assigned.value))
        return self.lattice.is_plain_host and {d.was for d in named} == {Where.HOST}

    def is_for_macs(self, assigned: Assignment) -> bool:
        """Whether a variable is the CPU where there is a GPU of CUDA's: `"mps" if torch.backends.mps... else "cpu"`."""
        program, text = self.tracer.program, ast.unparse(assigned.target)
        frame = program.frame(assigned.node)
        alike = [b for b in self.known.bindings if ast.unparse(b.target) == text and program.frame(b.node) is frame]
        kinds = {kind for b in alike for kind in device_types(program, b.value)}
        return alike[0] == assigned and kinds == {"mps", "cpu"}

    def ignored_options(
        self, launch: str, nodes: Sequence[ast.AST], numbering: Sequence[ast.AST] = (), ranks: Collection[str] = ()
    ) -> Iterator[str]:
        """The notes about options that chose a device there, and no longer do; or a GPU, by its number.

        ranks: the options that a launcher, and no user, gave: the number of the process.
        """
        asked = self._asked(nodes)
        numbered = [*numbering, *(n for node in asked.behind for n in numbers_of_gpus(self.known.program, node))]
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
        for option in sorted(numbers.difference(ranks)):
            cpu = ", or `--cpu` to use none" if option in choosing else ""
            yield f"`{option}` no longer selects the GPU: use `{launch} --gpu-ids`{cpu}"

    def _asked(self, nodes: Iterable[ast.AST]) -> Asked:
        return Asked(self.known.program, self.known.roles, self.tracer, nodes)

    def _is_open(self, read: ast.Name) -> bool:
        """Whether a module's variable may be set by code that is only known when the script runs: `exec(settings)`."""
        program = self.known.program
        owner = program.scope(read).owner(read.id)
        is_text = any(isinstance(v, Constant) and isinstance(v.value, str) for v in program.values(read))
        return is_text and owner is not None and owner in program.once(setters)

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
    moves = tuple(known.found)
    is_only_named = {m.call: m.device is None or own.effects.changes_nothing(m.device) for m in moves}
    follows = {m.call: not known.goes_to_cpu(m) and lattice.is_of_batches(m.receiver) for m in moves}
    goes = [m for m in moves if is_only_named[m.call] and (known.is_needless(m) or follows[m.call])]
    stranded = tuple(own.stranded(files, access)) if cpu is None and not by_hand else ()
    staying = None if lattice.is_plain_host else staying_of(own, lattice, access.early, known, goes, stranded)
    needless = frozenset(m.call for m in goes)
    if staying is not None and staying.is_left:
        needless, stranded = frozenset(), ()
    named: list[ast.expr] = []
    if not by_hand:
        found = NamedDevices(program, tracer, set(files), [m for m in moves if m.call not in needless]).find()
        others = placed.fixed - {b.value for b in known.bindings} - {m.device for m in moves if m.call in needless}
        settled = {read for option in placed.options for read in option.reads}
        named = sorted({*(a for a in found if access.at(a)), *others} - settled, key=program.position)
    beside = frozenset(m.call for m in moves if _is_beside(program, own.training, m.call))
    left = [m for m in moves if m.call not in needless | beside]
    undecided = [] if by_hand or cpu is not None else [*_undecided(lattice, left, {*named})]
    undecided += stranded
    if staying is None:
        together = together_of(own, lattice, undecided, may_mix=may_mix) if not by_hand else Together()
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
        *(tracer, known, lattice, moves, needless, tuple(named), placed.fixed, out_of_reach, access.early),
        *(together, setting, placed.options),
        numbered=tuple(sorted(placed.numbered, key=program.position)),
        numbers=tuple(place for place, texts in elsewhere if not texts),
        defaulted=tuple(placed.defaulted),
        is_for_cuda=not by_hand
        and homemade is None
        and (_is_for_cuda(own, files, cpu, moves, needless) or _keeps_cuda(known, access, needless)),
        is_unnamed=setting is None and not by_hand and not own.names_a_device(),
        moved_early=own.moved_early(access.early, cpu),
        stranded=stranded if setting is None else (),
        set_elsewhere=frozenset(_set_elsewhere(lattice, moves, access)) if not by_hand else frozenset(),
        comparisons=() if by_hand else tuple(compared.find()),
        set_below=() if by_hand or homemade is not None else tuple(_set_below(known, access, needless)),
        keeps_moves=staying is not None and staying.is_left,
        beside=beside,
    )


def _is_beside(program: Program, training: Training, node: ast.AST) -> bool:
    """Whether a node is in a function that nothing names, of a file that trains itself, and not by that function."""
    frame, trains = program.frame(node), leading(program, training)
    return frame.root in trains and frame not in trains and program.is_unused(frame)


def _undecided(lattice: Lattice, moves: Sequence[Move], named: Collection[ast.expr]) -> Iterator[ast.expr]:
    """The devices of moves, of which nothing is known, or that may be the CPU: `self.device` of settings.

    Not of those that follow another tensor, where a script moves its tensors itself.
    """
    program = lattice.program
    moves = [m for m in moves if program.frame(m.call) in program.reachable]
    for device in (m.device for m in moves if ast.unparse(m.call.func).endswith(".to")):
        follows = not lattice.is_plain_host and lattice.devices.follows_tensors(device)
        if device is not None and device not in named and not follows and not is_by_number(program, device):
            places = {d.now for d in lattice.devices.resolved(lattice.devices.of(device))}
            if Where.UNKNOWN in places or not places:
                yield device


def _set_below(known: Moves, access: Access, needless: frozenset[ast.Call]) -> Iterator[tuple[Assignment, Scope]]:
    """The devices of a module that are set again below an accelerator, where reads of them are left."""
    for below in set_below(known, access):
        if any(needless.isdisjoint(known.program.ancestors(read)) for read in below.reads):
            yield below.binding, below.home


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
    if any(isinstance(b, ast.If) and not _only_moves(program, b, moves) for call in kept for b in asks(call)):
        return True
    nodes = (n for path in files for n in program.flow.parsed_of[path].nodes if isinstance(n, ast.Attribute))
    typed = (n for n in nodes if Device.ACCELERATOR in map(names.memory_of_type, program.externals(n)))
    reached = (n for n in typed if program.frame(n) in program.reachable)
    return any(map(asks, reached))


def _only_moves(program: Program, branching: ast.If, moves: Sequence[Move]) -> bool:
    """Whether all that a condition decides is whether something is moved, or how it gets to the same device."""
    statements = [*branching.body, *branching.orelse]
    made = [[m for m in moves if program.inside(m.call, s)] for s in statements]
    devices = {m.device and ast.unparse(m.device) for inside in made for m in inside}
    return all(made) and (not branching.orelse or (len(devices) == 1 and None not in devices))


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
        if any(each == binding and home.kind == "module" for each, home in below):
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
    return is_printed or isinstance(parent, TEXTUAL)


def _out_of_reach(
    program: Program, moves: Iterable[Move], files: Collection[str], access: Access
) -> Iterator[ast.expr]:
    """Where a call names one GPU by its number, and cannot ask the accelerator."""
    calls = [c for c in program.calls if program.path(c) in files]
    places = [m.device for m in moves if m.device is not None]
    places += [given for c in calls for given in named_by(program, c)]
    return (p for p in dict.fromkeys(places) if any(gpu_texts(program, p)) and access.at(p) is None)


def _elsewhere(
    program: Program, files: Collection[str], devices: Destinations
) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Where the project's other files, that training comes to, have one GPU by its number, and what texts say so.

    `torch.device("cuda:0")`, `x.to(device)` where a caller or a default gives `"cuda:0"`, `x.cuda(0)`
    """
    for place in places_elsewhere(program, files):
        named = devices.resolved(devices.of(place))
        given = (d.source for d in named if d.now is Where.NUMBERED and d.source is not None)
        texts = [text for n in (place, *given) if not isinstance(n, ast.Name) for text in gpu_texts(program, n)]
        if texts or (named and all(d.now is Where.NUMBERED for d in named)):
            yield place, texts
