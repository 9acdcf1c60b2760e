"""Which options of the script choose a device: one that keeps it on the CPU, those that name the device of a call?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, takewhile
from typing import TypeGuard

from accelify.codemod.devices.destinations import (
    asks_for_cpu,
    is_default,
    is_option_for_devices,
    may_name_device,
    option_texts,
)
from accelify.codemod.devices.moves import Move, Moves, is_option, last_name
from accelify.codemod.devices.said_devices import SaidDevices
from accelify.codemod.libraries import names, vocabulary
from accelify.codemod.libraries.row import Device
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.reach import Reach, constructor
from accelify.codemod.preparing.settings import Setting, Settings, imports_torch, is_default_setting, negated
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer, wrapped_by
from accelify.codemod.semantics.scopes import Scope, assigned_targets, main_guard, names_read_in
from accelify.codemod.semantics.values import Constant, Instance, Made
from accelify.codemod.training.roles import Roles

_DEPTH = 4
_MANY = 2


@dataclass(frozen=True)
class CpuSetting(Setting):
    """A setting that keeps the accelerator on the CPU.

    wishes: the conditions for a GPU, as they are written. numbered: the options behind it that may also be one GPU by
    its number: `--device cuda:1`. homes: those of the accelerator where it is known. asked: what it goes by, where the
    script reads it.
    """

    wishes: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()
    homes: frozenset[Scope] = frozenset()
    asked: tuple[ast.expr, ...] = ()


class Cpu:
    """Find the option behind `"cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu"`.

    Or behind `if args.gpu: net.cuda()`, wherever in the project the model is moved.
    """

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, reach: Reach, prepared: Prepared) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.reach = reach
        self.prepared = prepared
        self._cpu_first: set[ast.AST] = set()  # choices whose first branch is the CPU's
        self._said_again: set[ast.AST] = set()  # choices of what an option says, where another went by its kind

    def find(self, files: Collection[str], *, by_branch: bool = False) -> CpuSetting | None:
        """The setting for `cpu=`; None where the script has no such option, or several, or it is not understood.

        Several homes must have the same one, but for functions and classes that the named files do not run, and for
        homes that none of the script's choices is for.
        by_branch: as `Settings` says.
        """
        run = self.program.run_from(self.program.scope(parsed.tree) for parsed in self.program.named)
        entered = self._entries.items()
        homes = [h for h, entry in entered if h.kind == "module" or entry in run] or [*self.reach.homes]
        named, moving = self._named(files), [*self._moving()] if not self._always_moves(files) else []
        if not named and not moving:
            named = self._named({parsed.path for parsed in self.program.files})
        if any(map(self._wished, named)):
            # A model that any GPU would get follows the device that its batches are brought to.
            moving = [choice for choice in moving if self._wished(choice)]
        choices = [*named, *moving]
        homes = [h for h in homes if any(self._concerns(h, choice) for choice in choices)] or homes
        said = self._said(files)
        by_choice = [self._of_home(home, choices, by_branch=by_branch) for home in homes]
        known = _one(by_choice) if choices else []
        choices = [c for c in choices if not self._returns(c)]  # else the function may give what the user names
        if not known and choices:
            by_choice = [self._of_home(home, choices, by_branch=by_branch) for home in homes]
            pairs = zip(homes, by_choice, strict=True)
            known = _one(setting or self._by_value(home, said, said.given) for home, setting in pairs)
        elif not known:
            known = _one(self._by_name(home, said) or self._by_value(home, said, said.sites) for home in homes)
        if not known:
            return None
        after = tuple(statement for setting in known for statement in setting.after)
        wishes = frozenset(wish for setting in known for wish in setting.wishes)
        asked = tuple(node for setting in known for node in setting.asked)
        return replace(known[0], after=after, wishes=wishes, homes=frozenset(homes), asked=asked)

    def stranded(self, files: Collection[str], access: Access) -> Iterator[ast.Call]:
        """The moves out of the accelerator's reach, by an option that decides about the model and not about it."""
        if self._always_moves(files):
            return
        asked = {n for choice in self._moving() for n in self._variables(choice.test)}
        calls = [n for parsed in self.program.files for n in parsed.nodes if isinstance(n, ast.Call) and _is_move(n)]
        for call in calls if asked else ():
            if self.program.may_run(self.program.frame(call)) and access.at(call) is None:
                tests = [b.test for b, is_body in self.program.branches_round(call) if is_body]
                if any(asked & self._variables(test) for test in tests) and not self._moves_a_model(call):
                    yield call

    def _variables(self, test: ast.expr) -> set[str]:
        """The last names of what a condition asks, besides that there is a GPU: `cuda` of `self.args.cuda`."""
        parts = [n for term in self._terms(test, _DEPTH) for n in ast.walk(term)]
        variables = [n for n in parts if isinstance(n, (ast.Name, ast.Attribute))]
        return {last_name(v) for v in variables if not isinstance(self.program.parent(v), ast.Attribute)}

    def _of_home(self, home: Scope, choices: list[ast.If | ast.IfExp], *, by_branch: bool) -> CpuSetting | None:
        settings = Settings(self.program, self.roles, self.tracer, self.reach, home, by_branch=by_branch)
        found: dict[str, CpuSetting | None] = {}
        for choice in (c for c in choices if self._concerns(home, c)):
            terms = self._wished(choice)
            if not terms and any(self._decides_over(other, choice) for other in choices if other is not choice):
                continue
            if not terms:
                return None
            if choice not in self._cpu_first and settings.settle(_not_all(terms)) is None:
                terms = self._terms(choice.test, 0)  # as it is asked there: `args.cuda`, whatever that comes from
            if settings.settle(_not_all(terms)) is None and any(self._picks_for(choice, other) for other in choices):
                continue  # which GPU it is, once the user wants one
            self._settle(settings, terms, found)
        return next(iter(found.values())) if len(found) == 1 else None

    def _concerns(self, home: Scope, choice: ast.AST) -> bool:
        """Whether a choice may be for the accelerator of one home: what begins there makes it, or may have done so."""
        frame = self.program.frame(choice)
        is_elsewhere = len(self.reach.homes) > 1 and frame.module != home.module
        is_another = is_elsewhere or self._are_entries(home, frame)
        return not is_another or frame in self.program.run_from([home])

    def _decides_over(self, other: ast.If | ast.IfExp, choice: ast.If | ast.IfExp) -> bool:
        """Whether a choice is inside another, or chose what the other replaces: `if args.cpu: device = "cpu"`."""
        if self.program.inside(choice, other) or (isinstance(choice, ast.If) and choice in self._cpu_first):
            return True  # the CPU where there is no GPU
        both = ((choice, value) for pair in self._alternatives(other) for value in pair)
        return any(self.program.inside(*each) or self.program.inside(*reversed(each)) for each in both)

    def _picks_for(self, choice: ast.AST, other: ast.If | ast.IfExp, depth: int = _DEPTH) -> bool:
        """Whether a choice is only made where another has taken the GPU, perhaps in a function that is called there."""
        taken = other.orelse if other in self._cpu_first else other.body
        if any(self.program.inside(choice, part) for part in (taken if isinstance(taken, list) else [taken])):
            return True
        calls = [c for c in self.program.calls_of(self.program.frame(choice)) if self.program.frame(c) in self._run]
        return bool(calls and depth) and all(self._picks_for(c, other, depth - 1) for c in calls)

    def _are_entries(self, home: Scope, frame: Scope) -> bool:
        """Whether each of two functions is only called by somebody else, from a command line, say."""
        run = self.program.run_from(self.program.scope(parsed.tree) for parsed in self.program.files)
        return all(f.kind == "function" and f not in run and not self.program.calls_of(f) for f in (home, frame))

    def _by_name(self, home: Scope, said: SaidDevices) -> CpuSetting | None:
        """The setting `args.device.startswith("cpu")`, for the one option of the script that names its device."""
        named = {n: wraps for n, wraps in self._naming_devices().items() if not self._is_of_machine(said, n)}
        settings = Settings(self.program, self.roles, self.tracer, self.reach, home)
        found: dict[ast.expr, Setting | None] = {
            n: settings.option(n) for n in named if self._is_at_home_or_later(settings, n)
        }
        found.update((read, settings.settle(read) if is_set else Setting(read)) for read, is_set in self._taken(home))
        if len({setting and setting.text for setting in found.values()}) != 1:
            return None
        option, setting = min(found.items(), key=lambda item: len(item[1].after) if item[1] is not None else 0)
        makes_device = any(wraps for read, wraps in named.items() if read is option)
        if setting is None or (makes_device and not imports_torch(home.root)):
            return None
        known = self.program.once(option_texts)
        asked = f"torch.device({setting.text}).type == 'cpu'" if makes_device else ""
        return CpuSetting(
            ast.parse(asked or asks_for_cpu(setting.text, known.get(last_name(option))), mode="eval").body,
            setting.after,
            frozenset(f"{ast.unparse(n)} != 'cpu'" for n in found),
            frozenset(ast.unparse(n) for n in found if _may_be_numbered(known.get(last_name(n), ()))),
            asked=tuple(found),
        )

    def _is_of_machine(self, said: SaidDevices, read: ast.expr) -> bool:
        """Whether all that an option may be is made by the script itself, and the GPU where there is one."""
        return all(isinstance(v, Made) for v in self.program.values(read)) and said.devices.is_own(read)

    def _is_at_home_or_later(self, settings: Settings, read: ast.expr) -> bool:
        """Whether an option may be read once the accelerator is there, and not just where a module is imported."""
        frame = self.program.frame(read)
        is_imported = frame.kind == "module" and settings.frame is not None and frame is not settings.frame.root
        return not is_imported and settings.may_follow(frame)

    def _said(self, files: Collection[str]) -> SaidDevices:
        moves = Moves(self.program, self.roles, self.tracer, self.prepared, frozenset(files))
        return SaidDevices(moves, OnGpu(self.program.once(Conditions), self.tracer, ()).holds)

    def _by_value(
        self, home: Scope, devices: SaidDevices, sites: Callable[[Settings], list[ast.expr]]
    ) -> CpuSetting | None:
        """The setting `str(config.get("device")).startswith("cpu")`, for the one device that the script has."""
        settings = Settings(self.program, self.roles, self.tracer, self.reach, home)
        said = devices.find(settings, sites(settings))
        if said is None:
            return None
        wishes = frozenset({f"{ast.unparse(said.device)} != 'cpu'"})
        return CpuSetting(said.setting.code, said.setting.after, wishes, said.numbered, asked=(said.device,))

    def _taken(self, home: Scope) -> Iterator[tuple[ast.Name, bool]]:
        """The reads of the home's parameters that such options are given for, `main(args.device)`, and click's.

        Each with whether the home gives it another value, but where there is no GPU.
        """
        declared = self.program.once(option_texts)
        for name in (p.arg for p in home.parameters if home.kind == "function"):
            calls = self.program.calls_of(home)
            given = [self.tracer.argument(c, home, name) or home.defaults.get(name) for c in calls] or [None]
            options = {_option(g, name) for g in given}
            texts = [text for option in options for text in declared.get(option, ())[:1] or ("",)]
            writes = [w for w in home.writes.get(name, ()) if isinstance(w, ast.Name)]
            is_text = all(isinstance(self.tracer.assigned(w), ast.Constant) for w in writes)
            is_text = is_text and all(map(vocabulary.is_device_text, texts))
            if is_text and not options & self.program.once(_set_by_script):
                is_set = not all(map(self._is_without_gpu, writes))
                yield from ((read, is_set) for read in self.program.reads_of(home, name))

    def _is_without_gpu(self, write: ast.Name) -> bool:
        """`if not torch.cuda.is_available(): device = "cpu"`"""
        choice, is_body = next(self.program.branches_round(write), (None, False))
        return choice is not None and is_body and not self._refused(choice.test)

    def _naming_devices(self) -> dict[ast.Attribute | ast.Subscript, bool]:
        """The reads of options that name a device, each with whether the script makes a device of that text itself.

        None that it gives any other value, whatever the user says: `args.device = "cuda:0"`.
        """
        declared = self.program.once(option_texts)
        nodes = (n for parsed in self.program.files for n in parsed.nodes)
        places = [n for n in nodes if isinstance(n, (ast.Attribute, ast.Subscript)) and may_name_device(n, declared)]
        stores = [n for n in places if isinstance(n.ctx, ast.Store) and not ast.unparse(n).startswith("self.")]
        stores = [n for n in stores if not self._is_fallback(n)]
        wraps = {last_name(s): self._wraps_itself(s) for s in stores}
        reads = (n for n in places if isinstance(n.ctx, ast.Load) and is_option(n))
        return {n: last_name(n) in wraps for n in reads if wraps.get(last_name(n), True)}

    def _is_fallback(self, target: ast.expr) -> bool:
        """Whether an option gets a value only where there is no GPU, or where the user names no device."""
        value, worlds = self.tracer.assigned(target), worlds_where(Process.ONE, has_gpu=True)
        if value is not None and is_default_setting(self.program, target, value):
            return True
        truths = (
            (self.program.once(Conditions).truth_in(b.test, worlds), b, is_body)
            for b, is_body in self.program.branches_round(target)
        )
        if any(truth is (not is_body) for truth, _, is_body in truths):
            return True
        return value is not None and is_default(self.program, value)

    def _wraps_itself(self, target: ast.expr) -> bool:
        """`args.device = torch.device(args.device)`"""
        value = self.tracer.assigned(target)
        is_device = isinstance(value, ast.Call) and "torch.device" in self.program.called(value)
        return is_device and [last_name(a) for a in value.args] == [last_name(target)]  # type: ignore[union-attr]  # a call

    @staticmethod
    def _settle(settings: Settings, terms: list[ast.expr], found: dict[str, CpuSetting | None]) -> None:
        setting = settings.settle(_not_all(terms))
        setting = replace(setting, code=_without_gpu_tests(setting.code)) if setting is not None else None
        text = setting.text if setting is not None else ""
        before = found.get(text)
        wishes = frozenset(map(ast.unparse, terms)) | (before.wishes if before is not None else frozenset())
        if setting is not None and settings.by_branch:
            wishes |= {ast.unparse(negated(setting.code))}
        asked = (*terms, *(before.asked if before is not None else ()))
        found[text] = CpuSetting(setting.code, setting.after, wishes, asked=asked) if setting is not None else None

    def _named(self, files: Collection[str]) -> list[ast.If | ast.IfExp]:
        """The choices between the names of a GPU and of the CPU; not those that an option by itself replaces."""
        return [choice for choice in [*self._between_names(files)] if choice not in self._said_again]

    def _between_names(self, files: Collection[str]) -> Iterator[ast.If | ast.IfExp]:
        for path in files:
            for node in self.program.flow.parsed_of[path].parents:
                is_run = isinstance(node, (ast.If, ast.IfExp)) and self.program.frame(node) in self._run
                is_run = is_run and not is_default(self.program, node)
                pairs = [*self._alternatives(node)] if is_run else []  # type: ignore[arg-type]  # a choice
                if any(self._is_gpu_unless_said(value) for pair in pairs for value in pair):
                    continue
                if pairs and all(self._is_unread(node, gpu) for gpu, _ in pairs) and self._naming_devices():  # type: ignore[arg-type]  # a choice
                    continue  # an option names the device
                if any(self._is_said(gpu) for gpu, _ in pairs) and not self._terms(node.test, _DEPTH):  # type: ignore[attr-defined]  # a choice
                    continue  # where there is a GPU, it is what the user says
                if pairs and self._is_said_later(node):  # type: ignore[arg-type]  # a choice
                    continue  # another text of the same option is a device by itself: `--device cuda:0`
                if self._returns(node) and not self._terms(node.test, _DEPTH):
                    continue  # a function that picks a GPU, if there is one
                if any(self._is_between_devices(*both) for both in pairs):
                    yield node  # type: ignore[misc]  # a choice
                elif any(self._is_between_devices(b, a) for a, b in pairs):
                    self._cpu_first.add(node)
                    yield node  # type: ignore[misc]  # a choice

    def _is_unread(self, choice: ast.If | ast.IfExp, value: ast.expr) -> bool:
        """Whether a choice gives a device to a variable, and nothing reads that but to print it."""
        value = choice if isinstance(choice, ast.IfExp) else value
        made = self.program.parent(value)
        if isinstance(made, ast.Call) and "torch.device" in self.program.called(made):
            value = made
        statement = self.program.parent(value)
        targets = [*assigned_targets(statement)] if isinstance(statement, (ast.Assign, ast.AnnAssign)) else []
        return bool(targets) and not any(map(self._is_read, targets))

    def _is_read(self, target: ast.expr) -> bool:
        """Whether something may read what a target is given, in another file too, and do more than print it."""
        scope = self.program.scope(target)
        owner = scope.owner(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(target, ast.Name) or owner is None:
            return True
        if owner.kind == "class" or (owner.kind == "module" and self._is_imported(owner, target)):
            return True
        return not all(map(self._is_printed, self.program.reads_of(owner, target.id)))

    def _is_imported(self, root: Scope, target: ast.Name) -> bool:
        """Whether another file may read a variable of a module: `from main import device`, `main.device`."""
        guard = main_guard(root)
        if guard is not None and self.program.inside(target, guard):
            return False
        others = (n for parsed in self.program.files if parsed.path != root.module for n in parsed.nodes)
        is_attribute = any(isinstance(n, ast.Attribute) and n.attr == target.id for n in others)
        return is_attribute or target.id in self.program.imported_from.get(root, ())

    def _is_printed(self, read: ast.expr) -> bool:
        statement = self.program.statement(read)
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and "print" in self.program.called(call)

    def _is_said_later(self, choice: ast.If | ast.IfExp) -> bool:
        """Whether a choice by the text of an option is replaced by the device that the option names, perhaps.

        `if args.device == "cuda": device = ...`, and below `if ":" in args.device: device = torch.device(args.device)`
        """
        statement = choice if isinstance(choice, ast.If) else self.program.statement(choice)
        given = {place for place, _ in self._values(statement.body if isinstance(statement, ast.If) else [statement])}
        asked = self._device_options([choice.test, *self._terms(choice.test, _DEPTH)])
        statements = (n for n in ast.walk(self.program.frame(choice).node) if isinstance(n, ast.stmt))
        for write in (t for n in statements for t in assigned_targets(n)):
            value = self.tracer.assigned(write) if ast.unparse(write) in given else None
            is_below = not self.program.inside(write, statement) and self.program.may_follow(write, choice)
            if value is not None and is_below and self._is_said(value) and asked & self._device_options([value]):
                self._said_again.update(c for c, is_body in self.program.branches_round(write) if is_body)
                return True
        return False

    def _device_options(self, nodes: Iterable[ast.expr]) -> set[str]:
        """The last names of the options in some code that name a device: `device` of `args.device.lower()`."""
        parts = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.expr))
        return {last_name(n) for n in parts if is_option_for_devices(self.program, n)}

    def _is_said(self, value: ast.expr) -> bool:
        """Whether a device is an option that names it: `torch.device(args.device)`."""
        if isinstance(value, ast.Call) and "torch.device" in self.program.called(value) and len(value.args) == 1:
            return self._is_said(value.args[0])
        return is_option_for_devices(self.program, value)

    def _is_gpu_unless_said(self, value: ast.expr) -> bool:
        """Whether a device that may be a GPU is chosen where the user names none."""
        return self._is_of_gpus(value) and is_default(self.program, value)

    @cached_property
    def _run(self) -> set[Scope]:
        """What runs where the accelerator is created; of what nothing creates it in, all that anybody may call."""
        run = self.program.run_from(self.program.scope(parsed.tree) for parsed in self.program.named)
        return run & self.program.reachable if run.issuperset(self._entries.values()) else self.program.reachable

    @cached_property
    def _entries(self) -> dict[Scope, Scope | None]:
        """The homes of the accelerator, each with what runs there: a class's constructor."""
        return {h: constructor(self.program, h) if h.kind == "class" else h for h in self.reach.homes}

    def _is_between_devices(self, gpu: ast.expr, cpu: ast.expr) -> bool:
        if self._has_tensors_of(gpu, Device.ACCELERATOR) and self._has_tensors_of(cpu, Device.HOST):
            return True
        if not self._is_of_gpus(gpu) or "cpu" not in ast.unparse(cpu) or self._takes_any_gpu(cpu):
            return False
        return all(any(map(self.roles.is_device, self.program.values(branch))) for branch in (gpu, cpu))

    def _takes_any_gpu(self, value: ast.expr) -> bool:
        """Whether a value is the CPU only where there is no GPU: `"cuda" if torch.cuda.is_available() else "cpu"`."""
        if isinstance(value, ast.Call) and "torch.device" in self.program.called(value) and len(value.args) == 1:
            return self._takes_any_gpu(value.args[0])
        return isinstance(value, ast.IfExp) and self._is_of_gpus(value.body) and not self._terms(value.test, _DEPTH)

    def _has_tensors_of(self, node: ast.expr, memory: Device) -> bool:
        """Whether code is a type of tensors in some memory: `torch.cuda.FloatTensor`."""
        return memory in map(names.memory_of_type, self.program.externals(node))

    def _is_of_gpus(self, node: ast.expr) -> bool:
        """Whether code says "cuda" or "mps", or asks the machine for its GPU: `torch.accelerator.is_available()`."""
        if _says_gpu(node) or "'cpu'" in ast.unparse(node):
            return _says_gpu(node)
        held = (v for n in ast.walk(node) if isinstance(n, ast.Call) for v in self.program.values(n))
        return any(self.roles.is_cuda_test(v) or self.roles.is_device(v) for v in held)

    def _alternatives(self, choice: ast.If | ast.IfExp) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The two values of a choice: of its branches, or the other one from above an `if`, or below its `return`.

        Above the first statement of a function are its parameters.
        """
        if isinstance(choice, ast.IfExp):
            body, other = (self.tracer.value_at(v) or v for v in (choice.body, choice.orelse))
            yield body, other
            return
        for place, value in self._values(choice.body):
            others = choice.orelse or self._otherwise(choice, is_returned=not place)
            given = [other for target, other in self._values(others) if target == place]
            yield from ((value, other) for other in given or ([] if choice.orelse else self._given(choice, place)))

    def _given(self, choice: ast.If, parameter: str) -> list[ast.expr]:
        """What the function of a choice gets for a parameter: from its callers, or its default."""
        function = self.program.frame(choice)
        if function.kind != "function" or all(p.arg != parameter for p in function.parameters):
            return []
        given = [self.tracer.given(call, function, parameter) for call in self.program.calls_of(function)]
        return [g for g in given or [function.defaults.get(parameter)] if g is not None]

    def _values(self, statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
        """What some statements give to variables, and return, which is none; also where only a GPU is asked for."""
        for statement in statements:
            if isinstance(statement, ast.Return) and statement.value is not None:
                yield "", statement.value
            if isinstance(statement, ast.If) and not self._terms(statement.test, _DEPTH):
                yield from self._values([*statement.body, *statement.orelse])
            given = ((t, self.tracer.assigned(t)) for t in assigned_targets(statement))
            yield from ((ast.unparse(target), value) for target, value in given if value is not None)

    def _otherwise(self, choice: ast.If, *, is_returned: bool) -> Iterable[ast.stmt]:
        """The statements round an `if` that give what its body gives, unless its condition holds."""
        block = self.program.block(choice)
        at = block.index(choice)
        if is_returned:
            return takewhile(self._goes_on, block[at + 1 :])
        outer = self.program.parent(choice)
        above = self._otherwise(outer, is_returned=False) if isinstance(outer, ast.If) else ()
        return (*above, *block[:at])

    def _goes_on(self, statement: ast.stmt) -> bool:
        """Whether a statement does not return by a choice of its own."""
        return not self._returns(statement) or not self._terms(statement.test, _DEPTH)

    @staticmethod
    def _returns(choice: ast.AST) -> TypeGuard[ast.If]:
        """Whether a choice is an `if` whose body ends with a `return`."""
        return isinstance(choice, ast.If) and isinstance(choice.body[-1], ast.Return)

    def _if_before(self, choice: ast.AST) -> ast.If | None:
        """The `if` of an `elif`, and the `if` above another whose bodies return."""
        outer = self.program.parent(choice)
        if isinstance(outer, ast.If) and outer.orelse == [choice]:
            return outer
        if not self._returns(choice):
            return None
        block = self.program.block(choice)
        above = (s for s in reversed(block[: block.index(choice)]) if self._returns(s) and not s.orelse)
        return next(above, None)

    def _moving(self) -> Iterator[ast.If | ast.IfExp]:
        """The conditions under which the program moves a model to the GPU, and leaves it where it is otherwise.

        Or its batches, where somebody else moves the model.
        """
        calls = [c for c in self.program.calls if self.program.frame(c) in self._run and _is_move(c)]
        calls.sort(key=self.program.position)
        models = [c for c in calls if self._moves_a_model(c)]
        found: list[ast.If | ast.IfExp] = []
        for call in models or [c for c in calls if self.prepared.is_batch(c.func.value)]:  # type: ignore[attr-defined]  # a method
            choices = (c for c, is_body in self.program.branches_round(call) if is_body and self._leaves_it(c, call))
            found += islice(choices, 1)
        # A condition inside another says which models there are, and not where they go.
        yield from (c for c in found if not any(self.program.inside(c, other) for other in found if other is not c))

    def _moves_a_model(self, call: ast.Call) -> bool:
        return _is_move(call) and any(map(self.roles.is_model, self.program.values(call.func.value)))  # type: ignore[attr-defined]  # a method

    def _leaves_it(self, choice: ast.If | ast.IfExp, call: ast.Call) -> bool:
        """Whether the other branch of a choice has the same model on the CPU.

        A condition that does more than move must ask for a GPU by its name: `if args.gpu:`.
        """
        assert isinstance(call.func, ast.Attribute)
        moved = self._without_wrapper(call.func.value)
        model = ast.unparse(moved)
        if isinstance(choice, ast.IfExp):
            return ast.unparse(choice.orelse) == model
        otherwise = {ast.unparse(s) for s in choice.orelse}
        on_cpu = [_made_on_cpu(s) & otherwise for s in choice.body]
        kept = [s for s, made in zip(choice.body, on_cpu, strict=True) if not made]
        left = otherwise.difference(*on_cpu)
        if isinstance(moved, ast.Call):
            return any(made and self.program.inside(call, s) for s, made in zip(choice.body, on_cpu, strict=True))
        if not left and all(map(self._only_moves, kept)):
            return True
        is_made = any(_gives(s, model) for s in choice.body)
        others = (n for s in choice.orelse for n in ast.walk(s) if isinstance(n, ast.Call) and self._moves_a_model(n))
        return not is_made and not any(others) and self._asks_for_a_gpu(choice.test)

    def _only_moves(self, statement: ast.stmt) -> bool:
        """Whether a statement does nothing but move something to the GPU, or wrap it there: `model = model.cuda()`."""
        if isinstance(statement, ast.If):
            return all(map(self._only_moves, (*statement.body, *statement.orelse)))
        move = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        if not isinstance(move, ast.Call):
            return False
        if self._is_wrapped(statement, move) or ast.unparse(move.func) == "print":
            return True
        if not isinstance(move.func, ast.Attribute) or move.func.attr != "cuda" or move.args or move.keywords:
            return False
        moved = self._without_wrapper(move.func.value)
        kept = statement.targets if isinstance(statement, ast.Assign) else [moved]
        return ast.unparse(kept[0]) == ast.unparse(moved) and not isinstance(moved, ast.Call)

    def _without_wrapper(self, node: ast.expr) -> ast.expr:
        """The model of `nn.DataParallel(model)`; what is no wrapper itself."""
        is_wrapper = isinstance(node, ast.Call) and any(map(names.divides_batches, self.program.called(node)))
        return (wrapped_by(node) or node) if is_wrapper and isinstance(node, ast.Call) else node

    def _asks_for_a_gpu(self, test: ast.expr) -> bool:
        """Whether a condition is about GPUs and nothing else: `args.gpu`, `use_cuda and torch.cuda.is_available()`."""
        asked = self._variables(test)
        return bool(asked) and all(map(vocabulary.is_device_name, asked))

    @staticmethod
    def _is_wrapped(statement: ast.stmt, call: ast.Call) -> bool:
        """`model = nn.DataParallel(model)`"""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return bool(call.args) and [ast.unparse(t) for t in targets] == [ast.unparse(call.args[0])]

    def _always_moves(self, files: Collection[str]) -> bool:
        """Whether something goes to the GPU whatever the options say."""
        calls = (c for c in self.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "cuda")
        return any(
            self.program.path(call) in files
            and self.program.frame(call) in self.program.reachable
            and self._always_runs(call, frozenset())
            for call in calls
        )

    def _always_runs(self, node: ast.AST, inside: frozenset[Scope]) -> bool:
        """Whether no condition decides if a node runs, nor if its function, and none of others, is called."""
        frame = self.program.frame(node)
        guard = main_guard(frame.root)
        if any(isinstance(a, (ast.If, ast.IfExp)) and a is not guard for a in self.program.ancestors(node)):
            return False
        calls = [] if frame in inside else self.program.calls_of(frame)
        certain = [c for c in calls if len(self.program.flow.callees.get(c, ())) < _MANY]
        return not calls or any(self._always_runs(c, inside | {frame}) for c in certain)

    def _wished(self, choice: ast.If | ast.IfExp) -> list[ast.expr]:
        """The conditions under which a choice takes a GPU, besides that there is one; also by the `if` of an `elif`."""
        terms = self._refused(choice.test) if choice in self._cpu_first else self._terms(choice.test, _DEPTH)
        outer = self._if_before(choice)
        while outer is not None:
            given = [value for _, value in self._values(outer.body[-1:])]
            if any(map(_says_gpu, given)):
                before = self._terms(outer.test, _DEPTH)
                terms = [_any([_all(before), _all(terms)])] if before and terms else []
            elif any("cpu" in ast.unparse(v) for v in given):
                terms = [*self._refused(outer.test), *terms]
            outer = self._if_before(outer)
        return terms

    def _refused(self, node: ast.expr) -> list[ast.expr]:
        """The conditions under which another does not hold, besides that there is a GPU."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return [term for value in node.values for term in self._refused(value)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._terms(node.operand, _DEPTH)
        return [ast.UnaryOp(ast.Not(), node)]

    def _terms(self, node: ast.expr, depth: int) -> list[ast.expr]:
        """The conditions that must hold besides that there is a GPU; none where they are not known."""
        node = _asserted(node, self.tracer)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return [term for value in node.values for term in self._terms(value, depth)]
        if any(self.roles.is_cuda_test(v) for v in self.program.values(node)) and isinstance(node, ast.Call):
            return []
        value = self.tracer.only_value(node) if depth else None
        if value is not None and self._is_of_gpus(value):
            return self._terms(value, depth - 1)
        choice = self.tracer.only_value(device_on_gpu(node) or node) if depth else None
        if isinstance(choice, ast.Call) and "torch.device" in self.program.called(choice) and choice.args:
            choice = choice.args[0]
        if isinstance(choice, ast.IfExp) and self._is_between_devices(choice.body, choice.orelse):
            return self._terms(choice.test, depth - 1)
        return [node]


class OnGpu:
    """The truth of conditions where a script computes on a GPU, or where it could not, as there is none.

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
        test = _asserted(test, self.tracer)
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


def _asserted(test: ast.expr, tracer: Tracer) -> ast.expr:
    """`args.cuda` of `args.cuda is True` and of `args.cuda == True`; not of a number, as 2 is not equal to True."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.Eq)) and len(test.ops) == 1:
        right = test.comparators[0]
        is_true = isinstance(right, ast.Constant) and right.value is True
        return test.left if is_true and not _may_be_no_truth(test.left, tracer) else test
    return test


def _may_be_no_truth(node: ast.expr, tracer: Tracer) -> bool:
    """Whether an expression is known to hold, or to be an option for, something else than True and False."""
    held = [v.value for v in tracer.program.values(node) if isinstance(v, Constant)]
    given = tracer.option_values(node.attr, "type") if isinstance(node, ast.Attribute) else []
    held += [value.value for value in given if isinstance(value, ast.Constant)]
    converted = (name for value in given for name in tracer.program.externals(value) if name != "bool")
    return any(map(names.converts, converted)) or any(not isinstance(v, bool) and v is not None for v in held)


def _one(settings: Iterable[CpuSetting | None]) -> list[CpuSetting]:
    """The settings of several homes, if they are the same one; none where one has none, or has one that is fixed."""
    each = [*settings]
    known = [s for s in each if s is not None and _asks(s.code)]
    return known if len(known) == len(each) and len({setting.text for setting in known}) == 1 else []


def _asks(code: ast.expr) -> bool:
    """Whether a condition for the CPU may hold where there is a GPU, as far as it is written out."""
    always = isinstance(code, ast.Constant) and bool(code.value)
    return always or bool(set(names_read_in(code)) - {"torch"})


def device_on_gpu(test: ast.expr) -> ast.expr | None:
    """`device` of `device == "cuda"`, of `device.type == "cuda"` and of `device != "cpu"`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.comparators[0], ast.Constant):
        return None
    kind = "cuda" if isinstance(test.ops[0], ast.Eq) else "cpu" if isinstance(test.ops[0], ast.NotEq) else "?"
    is_type = isinstance(test.left, ast.Attribute) and test.left.attr == "type"
    device = test.left.value if is_type else test.left  # type: ignore[attr-defined]  # an attribute
    return device if str(test.comparators[0].value).startswith(kind) else None


def _says_gpu(node: ast.expr) -> bool:
    """Whether code names a GPU: `"cuda:0"`, `torch.cuda`, `torch.device("mps")`."""
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and vocabulary.is_device_text(n.value))
    return "cuda" in ast.unparse(node) or any(not text.startswith("cpu") for text in texts)


def _made_on_cpu(statement: ast.stmt) -> set[str]:
    """`loss = nn.MSELoss()` for `loss = nn.MSELoss().cuda()`."""
    move = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(move, ast.Call) or not isinstance(move.func, ast.Attribute) or move.func.attr != "cuda":
        return set()
    assert isinstance(statement, ast.Assign)
    return {" = ".join(ast.unparse(part) for part in [*statement.targets, move.func.value])}


def _is_move(call: ast.Call) -> bool:
    """Whether a call brings something to a GPU: `net.cuda()`, `net.to("cuda")`."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return method == "cuda" or (method == "to" and any("cuda" in ast.unparse(a) for a in call.args[:1]))


def _gives(statement: ast.stmt, model: str) -> bool:
    """Whether a statement makes a model, and not out of itself."""
    if not isinstance(statement, ast.Assign) or model not in map(ast.unparse, statement.targets):
        return False
    return model not in {ast.unparse(n) for n in ast.walk(statement.value) if isinstance(n, (ast.Name, ast.Attribute))}


def _may_be_numbered(texts: tuple[str, ...]) -> bool:
    """Whether an option with this default, and these choices if any, may be a GPU by its number."""
    return len(texts) < 2 or any(":" in text for text in texts)


def _all(terms: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.And(), terms) if len(terms) > 1 else terms[0]


def _any(terms: list[ast.expr]) -> ast.expr:
    parts = ([*t.values] if isinstance(t, ast.BoolOp) and isinstance(t.op, ast.Or) else [t] for t in terms)
    return ast.BoolOp(ast.Or(), [each for part in parts for each in part])


def _not_all(terms: list[ast.expr]) -> ast.expr:
    return negated(_all(terms))


def _without_gpu_tests(code: ast.expr) -> ast.expr:
    """`not args.cuda` for `not (args.cuda and torch.cuda.is_available())`: without a GPU, all is on the CPU anyway."""
    both = code.operand if isinstance(code, ast.UnaryOp) and isinstance(code.op, ast.Not) else None
    if not isinstance(both, ast.BoolOp) or not isinstance(both.op, ast.And):
        return code
    rest = [v for v in both.values if ast.unparse(v) != "torch.cuda.is_available()"]
    return _not_all(rest) if rest else code


def _option(given: ast.expr | None, name: str) -> str:
    """The option that an argument is: `device` of `args.device`; of none, that of the parameter's own name."""
    if given is None:
        return name
    return last_name(given) if isinstance(given, (ast.Attribute, ast.Subscript)) else ""


def _set_by_script(program: Program) -> frozenset[str]:
    """The last names of what the script gives a value, but for its objects' own attributes."""
    stores = (
        n
        for parsed in program.files
        for n in parsed.parents
        if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)
    )
    return frozenset(last_name(s) for s in stores if not ast.unparse(s).startswith("self."))


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
        return not any(isinstance(v, (Made, Instance)) for v in values) and last_name(node) not in self.program.once(
            _set_by_script
        )

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
        """Whether a function of the project's own does nothing with an argument but move objects there."""
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
