"""Which code says where training goes, where the user may say so? It also says whether that is the CPU.

device = torch.device(config.get("device", "cuda"))
    ->    Accelerator(cpu=str(config.get("device", "cuda")).startswith("cpu"))
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.devices.destinations import GPU, HOST, NUMBERED, Destinations, asks_for_cpu, option_texts
from accelify.codemod.devices.moves import Moves, is_lookup, is_option, last_name, options_in
from accelify.codemod.libraries import vocabulary
from accelify.codemod.preparing.settings import Setting, Settings, is_default_setting
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.scopes import names_read_in
from accelify.codemod.semantics.values import Constant, ModuleValue

_GPUS = {GPU.now, NUMBERED.now}
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Said:
    """The setting `str(args.device).startswith("cpu")`, with the expression that says the device in the script.

    numbered: the options behind it that may also be one GPU by its number.
    """

    setting: Setting
    device: ast.expr
    numbered: frozenset[str]


class SaidDevices:
    """Find the one device that the user may say, if the script has no other.

    holds: what a condition comes to on a machine with a GPU.
    """

    def __init__(self, moves: Moves, holds: Callable[[ast.expr], bool | None]) -> None:
        self.moves = moves
        self.program = moves.program
        self.tracer = moves.tracer
        self.devices = Destinations(self.program, moves.roles, moves.tracer, (), holds, lambda node: ())
        self._bound = [b.value for b in moves.bindings if not moves.is_for_the_cpu(b)]

    def find(self, settings: Settings, sites: Sequence[ast.expr] | None = None) -> Said | None:
        """The setting, and what says it; None where the script's devices are several, or not the user's to say."""
        found: dict[str, Said] = {}
        for device in map(self._without_names, self.sites(settings) if sites is None else sites):
            setting = settings.settle(device)
            if setting is None or not _asks(setting.code) or not self._may_be_the_cpu(device):
                return None
            code = _of_device(setting.code)
            is_set = self._is_of_settings(device)
            is_said = is_set or is_option(device) or isinstance(setting.code, ast.Call) or self._is_either(device)
            if not (self._bound or is_said):
                return None  # it may be anything that a caller gives: the number of a process
            asked = f"{ast.unparse(code)} == 'cpu'" if is_set else asks_for_cpu(ast.unparse(code))
            known = Setting(ast.parse(asked, mode="eval").body, setting.after)
            found[known.text] = Said(known, device, frozenset(self._numbered(device, code)))
        return next(iter(found.values())) if len(found) == 1 else None

    def _sites(self) -> Iterator[ast.expr]:
        """The values of the variables that hold the device, and what else something is moved to that is no variable."""
        yield from self._bound
        for move in self.moves.found:
            is_said = move.device is not None and (is_option(move.device) or self._is_of_settings(move.device))
            if is_said or move.device is None or isinstance(move.device, (ast.Constant, ast.Call)):
                yield move.device or move.call
            elif isinstance(move.device, ast.Attribute) and not self._bound:
                value = self.tracer.only_value(move.device)  # a parameter: `self.device = device`
                yield from [] if value is None else [value]

    def sites(self, settings: Settings) -> list[ast.expr]:
        """What says the devices of the script."""
        return [*self._sites()] or self.given(settings)

    def given(self, settings: Settings) -> list[ast.expr]:
        """The parameters of the function that creates the accelerator to which something goes there."""
        found: list[ast.expr] = []
        own = [m.device for m in self.moves.found if self.program.frame(m.call) is settings.frame]
        for device in (d for d in own if isinstance(d, ast.Name)):
            scope = self.program.scope(device)
            writes = self.program.reaching(device, self.tracer.writes(scope, device.id))
            if writes and all(isinstance(w, ast.arg) for w in writes):
                found.append(device)
        return found if not self._bound else []

    def _is_of_settings(self, device: ast.expr) -> bool:
        """Whether a device is a text that another file of the project says, or may: `DEVICE`, `config.device`."""
        program, path = self.program, self.program.path(device)
        texts = program.values(device)
        if len(texts) != 1 or not all(isinstance(v, Constant) and vocabulary.is_device_text(v.value) for v in texts):
            return False
        if isinstance(device, ast.Name):
            owner = program.scope(device).owner(device.id)
            return owner is not None and all(isinstance(w, ast.alias) for w in self.tracer.writes(owner, device.id))
        if not isinstance(device, ast.Attribute):
            return False
        held = program.values(device.value)
        if held and all(isinstance(v, ModuleValue) for v in held):
            return True
        said = [w for w in program.attribute_writes.get(device.attr, ()) if program.values(w.value) & held]
        given = [(w, self.tracer.assigned(w)) for w in said if program.frame(w).kind == "module"]
        is_far = [program.path(w) != path or (v is not None and is_default_setting(program, w, v)) for w, v in given]
        return bool(said) and len(given) == len(said) and all(is_far)

    def _is_either(self, device: ast.expr) -> bool:
        """Whether all callers give a device that may be the CPU or a GPU, and nothing else."""
        named = self.devices.of(device)
        is_given = all(d.given is None or self.program.calls_of(self.program.scope(d.given)) for d in named)
        held = {d.now for d in self.devices.resolved(named)}
        return is_given and HOST.now in held and bool(held & _GPUS) and held <= {HOST.now, *_GPUS}

    def _without_names(self, node: ast.expr, depth: int = _DEPTH) -> ast.expr:
        """`args.device` of `torch.device(args.device)`, and of a variable that holds it."""
        if isinstance(node, ast.Call) and "torch.device" in self.program.called(node) and node.args and depth:
            return self._without_names(node.args[0], depth - 1)
        value = self.tracer.only_value(node) or self.tracer.value_at(node)
        return self._without_names(value, depth - 1) if value in self._bound and value and depth else node

    def _may_be_the_cpu(self, device: ast.expr) -> bool:
        """Whether the user may say the CPU, or a GPU, where the script says neither alone."""
        if self._is_of_settings(device):
            return True
        if is_option(device) and self.program.once(option_texts).get(last_name(device)) == ():
            return False  # a number
        if self.program.once(Kinds).of(device) == {"number"}:
            return False  # `int(os.environ["LOCAL_RANK"])`
        named = self.devices.of(device)
        held = {d.now for d in self.devices.resolved(named)}
        is_open = any(d.given is not None and not self.program.calls_of(self.program.scope(d.given)) for d in named)
        return held != {HOST.now} and (is_open or not held <= _GPUS)

    def _numbered(self, device: ast.expr, code: ast.expr) -> set[str]:
        if self._is_of_settings(device) and not any(":" in str(v) for v in self.program.values(device)):
            return set()
        if not isinstance(code, ast.Call) or is_lookup(code):
            return options_in(code) or {ast.unparse(code)}
        is_numbered = any(d.now is NUMBERED.now for d in self.devices.resolved(self.devices.of(device)))
        return options_in(code) if is_numbered else set()


def _of_device(code: ast.expr) -> ast.expr:
    """`args.device` of `torch.device(args.device)`."""
    is_made = isinstance(code, ast.Call) and ast.unparse(code.func) == "torch.device" and len(code.args) == 1
    return code.args[0] if isinstance(code, ast.Call) and is_made else code


def _asks(code: ast.expr) -> bool:
    """Whether code reads a variable, and does not just call functions."""
    called = {n.func.id for n in ast.walk(code) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return bool(set(names_read_in(code)) - called - {"torch"})
