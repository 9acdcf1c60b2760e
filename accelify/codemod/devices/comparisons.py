"""Comparisons of the script's device with a GPU that is named, which the accelerator's device would answer otherwise.

The accelerator's device has the number of the process's GPU, `cuda:1`: it never equals `torch.device("cuda")`, and
`torch.device("cuda:0")` in one process only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from accelify.codemod.devices.destinations import Destinations, Where, gpu_texts, is_where_another_is
from accelify.codemod.devices.device_options import DeviceOption, must_be_text
from accelify.codemod.devices.moves import Moves
from accelify.codemod.semantics.scopes import Assignment
from accelify.codemod.semantics.values import Constant, Made, Value


class Form(Enum):
    """What of a device is compared."""

    DEVICE = "the device"
    TEXT = "its name"
    NUMBER = "its number"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or what is said of one; `number` is empty where none is said, and None where it is not known."""

    form: Form
    number: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a device with a named GPU.

    asked: the side that is the device, its text or its number; device: the device in it. named: the other side.
    is_text: whether the device is mere text, once the script is rewritten. is_any: whether the plain script asks with
    it for any GPU at all; else the answer depends on which GPU it is. may_be_text: whether the device still is text,
    or None, where a call leaves it at its default.
    """

    node: ast.Compare
    asked: ast.expr
    device: ast.expr
    named: ast.expr
    is_text: bool
    is_any: bool
    may_be_text: bool = False


class Comparisons:
    """Find the comparisons with devices that the accelerator's takes the place of.

    options: those that get the accelerator's device. reaches: whether the accelerator reaches a node.
    """

    def __init__(
        self,
        known: Moves,
        devices: Destinations,
        options: Collection[DeviceOption],
        reaches: Callable[[ast.AST], bool],
    ) -> None:
        self.known = known
        self.program = known.program
        self.devices = devices
        self.options = options
        bound = [b for b in known.bindings if not known.is_for_the_cpu(b)]
        self.bound = [b for b in bound if reaches(b.node) or any(gpu_texts(self.program, b.value))]
        self.texts = {b.node for b in bound if self._stays_text(b, is_reached=reaches(b.node))}

    def _stays_text(self, binding: Assignment, *, is_reached: bool) -> bool:
        if is_reached:
            return must_be_text(self.program, binding)
        return all(isinstance(v, Constant) for v in self.program.values(binding.value))

    def find(self) -> Iterator[Comparison]:
        """The comparisons in all files of the program, but for those that choose the device."""
        chosen = {b.value for b in self.bound}
        nodes = (n for parsed in self.program.files for n in parsed.parents if isinstance(n, ast.Compare))
        for node in sorted(nodes, key=self.program.position):
            found = self._comparison(node) if chosen.isdisjoint(self.program.ancestors(node)) else None
            if found is not None:
                yield found

    def _comparison(self, node: ast.Compare) -> Comparison | None:
        if len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            return None
        left, right = node.left, node.comparators[0]
        return self._between(node, left, right) or self._between(node, right, left)

    def _between(self, node: ast.Compare, asked: ast.expr, named: ast.expr) -> Comparison | None:
        """The comparison of a device with a GPU that is written out, where its answer changes."""
        device, form = _device_in(asked)
        gpus = set(self._written(named, form))
        is_text = self._is_text(device) if len(gpus) == 1 else None
        if is_text is None:
            return None
        (gpu,) = gpus
        was = {Gpu(form or g.form, g.number) for g in self._was(device)}
        now = form or (Form.TEXT if is_text else Form.DEVICE)
        if not gpu.number:
            may_hold = gpu in was or any(g.number is None for g in was)
            is_changed = may_hold and not (is_text and now is Form.TEXT)
            may_be_text = not is_text and self._is_left(device)
            found = Comparison(node, asked, device, named, is_text, is_any=True, may_be_text=may_be_text)
            return found if is_changed else None
        return Comparison(node, asked, device, named, is_text, was == {gpu}) if now is gpu.form else None

    def _written(self, node: ast.expr, form: Form | None) -> Iterator[Gpu]:
        """The GPU that some code names: `"cuda:0"`, `torch.device("cuda")`, or the number itself."""
        if isinstance(node, ast.Constant) and type(node.value) is int and form is Form.NUMBER:
            yield Gpu(Form.NUMBER, str(node.value))
        elif isinstance(node, ast.Constant) and form is not Form.NUMBER:
            yield from _named(Form.TEXT, node.value)
        elif isinstance(node, ast.Call) and form is None and "torch.device" in self.program.called(node):
            yield from self._made(node)

    def _was(self, device: ast.expr) -> Iterator[Gpu]:
        """The GPUs that a device may be in the plain script; the tensors there know the number of theirs."""
        is_tensors = not self._from(device) and is_where_another_is(device)
        chosen = [v for b in self.bound for v in self.program.values(b.value)] if is_tensors else ()
        values = chosen or self._replaced(device)
        found: set[Gpu] = set()
        for value in values:
            if isinstance(value, Constant):
                found.update(_named(Form.TEXT, value.value))
            elif isinstance(value, Made) and value.name == "torch.device" and isinstance(value.node, ast.Call):
                found.update(self._made(value.node))
            else:
                found.add(Gpu(Form.DEVICE, None))
        yield from (Gpu(Form.DEVICE, g.number or "0") for g in found) if is_tensors and found else found

    def _replaced(self, device: ast.expr) -> Collection[Value]:
        """What a device holds in the plain script, but for what still comes there: the default of a parameter."""
        held = self.program.values(device)
        own = {v for b in self._from(device) for v in self.program.values(b.value)}
        return held & own or held

    def _is_left(self, device: ast.expr) -> bool:
        """Whether a call leaves a device at its default, text or None, as it still does in the rewritten script."""
        function = self.program.scope(device).owner(device.id) if isinstance(device, ast.Name) else None
        if not isinstance(device, ast.Name) or function is None:
            return False
        tracer, default = self.known.tracer, function.defaults.get(device.id)
        bound = self.program.reaching(device, tracer.writes(function, device.id))
        calls = self.program.calls_of(function) if isinstance(default, ast.Constant) else ()
        is_left = any(tracer.given(call, function, device.id) is default for call in calls)
        return is_left and any(isinstance(write, ast.arg) for write in bound)

    def _made(self, call: ast.Call) -> Iterator[Gpu]:
        """The GPUs that `torch.device(...)` may make."""
        given = [*call.args, *(k.value for k in call.keywords)]
        numbers = {str(v.value) if isinstance(v, Constant) else None for n in given[1:] for v in self.program.values(n)}
        for value in self.program.values(given[0]) if given else ():
            for gpu in _named(Form.DEVICE, value.value) if isinstance(value, Constant) else (Gpu(Form.DEVICE, None),):
                yield from (Gpu(Form.DEVICE, n) for n in numbers) if len(given) > 1 and gpu.number == "" else (gpu,)

    def _from(self, device: ast.expr) -> list[Assignment]:
        """The assignments that a device may come from."""
        return [b for b in self.bound if self.known.is_from(device, b.target)]

    def _is_text(self, device: ast.expr) -> bool | None:
        """Whether the accelerator's device comes as text in a device's place; None where it may not come at all."""
        for option in self.options:
            if device in option.reads:
                return option.is_text
        kinds = {b.node in self.texts for b in self._from(device)}
        if kinds:
            return kinds.pop() if len(kinds) == 1 else None
        named = self.devices.resolved(self.devices.of(device)) if is_where_another_is(device) else ()
        is_there = bool(named) and all(d.now is d.was is Where.ACCELERATOR for d in named)
        return False if is_there else None


def _device_in(node: ast.expr) -> tuple[ast.expr, Form | None]:
    """The device of `str(device)` and of `device.index`, with what of it these are; of others, that node itself."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "str" and len(node.args) == 1:
        return node.args[0], Form.TEXT
    if isinstance(node, ast.Attribute) and node.attr == "index":
        return node.value, Form.NUMBER
    return node, None


def _named(form: Form, value: object) -> Iterator[Gpu]:
    """The GPU of `"cuda"`, of `"cuda:1"` and of `1`; of what is none, nothing."""
    found = re.fullmatch(r"cuda:?(\d*)", value) if isinstance(value, str) else None
    if found is not None:
        yield Gpu(form, found[1])
    elif type(value) is int:
        yield Gpu(form, str(value))
