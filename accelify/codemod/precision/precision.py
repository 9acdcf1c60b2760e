"""Which mixed precision does a script arrange by hand, and can the accelerator take over all of it?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accelify.codemod.libraries import methods, names, vocabulary
from accelify.codemod.precision.switches import HAS_CUDA, NotUnderstood, Switches, is_none
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.settings import Settings
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call
from accelify.codemod.semantics.values import External, Instance
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles, stepped


@dataclass
class Precision:
    """A script's mixed precision.

    code: the expression for `mixed_precision=`, known after the statement `after`. stays: where and why the accelerator
    does not take it over; then nothing else counts. choices: conditions whose branches differ in the precision alone,
    each with whether its body is the branch in mixed precision. beside: calls of the model that are in full precision.
    Of apex: scaled, the blocks in which a loss is scaled; masters, the parameters that it keeps, and whose they are;
    clips, what is clipped; level, `O1` or `O2`, and the option of which that is the default.
    """

    scalers: list[ast.Call] = field(default_factory=list)
    autocasts: list[ast.expr] = field(default_factory=list)
    uses: list[ast.Call] = field(default_factory=list)
    bindings: list[ast.stmt] = field(default_factory=list)
    choices: dict[ast.If, bool] = field(default_factory=dict)
    beside: list[ast.Call] = field(default_factory=list)
    parameters: set[tuple[Scope, str]] = field(default_factory=set)
    code: str = ""
    after: ast.stmt | None = None
    stays: tuple[ast.AST, str] | None = None
    library: str = ""
    scaled: dict[ast.With, ast.expr] = field(default_factory=dict)
    masters: dict[ast.Call, str] = field(default_factory=dict)
    clips: list[ast.Call] = field(default_factory=list)
    imports: list[ast.stmt] = field(default_factory=list)
    level: str = ""
    level_option: ast.expr | None = None

    @property
    def is_taken_over(self) -> bool:
        """Whether the accelerator does it from now on."""
        return self.stays is None


class Precisions:
    """Find a script's mixed precision."""

    def __init__(
        self, program: Program, roles: Roles, training: Training, settings: Settings, prepared: Prepared
    ) -> None:
        self.program = program
        self.roles = roles
        self.prepared = prepared
        self.training = training
        self.settings = settings
        self.found = Precision()
        self.switches = Switches(program, settings, [], self._computes)
        self._kinds: set[tuple[str, str | None]] = set()
        self._states: list[tuple[ast.AST, frozenset[str]]] = []

    def find(self) -> Precision | None:
        """None where a script computes in one precision."""
        calls = [c for c in self.program.calls if self.program.frame(c) in self.program.reachable]
        self.found.scalers = [c for c in calls if any(map(names.is_scaler, self.program.called(c)))]
        autocasts = [c for c in calls if any(map(names.is_autocast, self.program.called(c)))]
        if not self.found.scalers and not autocasts:
            return None
        self.switches.scalers = self.found.scalers
        self.found.choices = self.switches.choices
        try:
            self._understand(autocasts)
        except NotUnderstood as reason:
            self.found.stays = (reason.node, reason.reason)
        return self.found

    def _understand(self, autocasts: list[ast.Call]) -> None:
        for backward in self.training.backwards:
            if (scaling := self._scaled_elsewhere(backward)) is not None:
                raise NotUnderstood(scaling, f"cannot tell what `{ast.unparse(scaling.func)}` does to the loss")
        if len(self.found.scalers) > 1:
            raise NotUnderstood(self.found.scalers[1], "there are several scalers")
        for scaler in self.found.scalers:
            used = Scaler(self.program, self.settings.tracer, self.training, self.switches, scaler)
            self.found.uses, self.found.bindings, self.found.parameters = used.uses, used.bindings, used.parameters
            self._states.extend(used.states)
        for call in sorted(autocasts, key=self.program.position):
            self._autocast(call)
        if not self.found.autocasts:
            raise NotUnderstood(
                self.found.scalers[0] if self.found.scalers else autocasts[0], "nothing runs under `autocast`"
            )
        self._forwards()
        self._settle()

    def _scaled_elsewhere(self, backward: ast.Call) -> ast.Call | None:
        """Where a loss is scaled by what the script is not seen to make: `scaler` of `fit(model, scaler)`."""
        loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
        value = self.settings.tracer.value_at(loss) if isinstance(loss, ast.Name) else loss
        if not isinstance(value, ast.Call) or method_of_call(value) != "scale":
            return None
        assert isinstance(value.func, ast.Attribute)
        held = self.program.values(value.func.value)
        is_own = any(isinstance(v, Instance) for v in held)
        return None if is_own or self.switches.is_scaler(value.func.value) else value

    # Autocast.

    def _autocast(self, call: ast.Call) -> None:
        given = self._arguments(call)
        enabled = given.get("enabled")
        if isinstance(enabled, ast.Constant) and enabled.value is False:
            if any(self._is_forward(c) for c in self._under(call)):
                raise NotUnderstood(call, "a part of the training is switched to full precision")
            return
        if "cache_enabled" in given or any(isinstance(a, ast.Starred) for a in call.args):
            raise NotUnderstood(call, "`autocast` has options that have no counterpart")
        place: ast.expr = call
        parent = self.program.parent(call)
        if isinstance(parent, ast.IfExp):
            other = parent.orelse if parent.body is call else parent.body
            if not isinstance(other, ast.Call) or "contextlib.nullcontext" not in self.program.called(other):
                raise NotUnderstood(call, "cannot tell what runs under this `autocast`")
            place, parent = parent, self.program.parent(parent)
        if not isinstance(parent, ast.withitem) or parent.optional_vars is not None:
            raise NotUnderstood(call, "cannot tell what runs under this `autocast`")
        frame = self.program.frame(call)
        if frame.is_method and frame.parent is not None and self.program.flow.is_module_class(frame.parent):
            raise NotUnderstood(call, "the model switches it on itself")
        self._states.append((call, self.switches.conditions(call, [enabled] if enabled is not None else [])))
        self._kinds.add((self._device(call, given.get("device_type")), self._type(call, given.get("dtype"))))
        self.found.autocasts.append(place)

    def _arguments(self, call: ast.Call) -> dict[str, ast.expr]:
        is_old = any(".cuda.amp." in n or ".cpu.amp." in n for n in self.program.called(call))
        order = (
            ("enabled", "dtype", "cache_enabled") if is_old else ("device_type", "dtype", "enabled", "cache_enabled")
        )
        given = dict(zip(order, call.args, strict=False))
        given.update({k.arg: k.value for k in call.keywords if k.arg is not None})
        return given

    def _device(self, call: ast.Call, given: ast.expr | None) -> str:
        if given is None:
            return "cpu" if any(".cpu.amp." in n for n in self.program.called(call)) else "cuda"
        if isinstance(given, ast.Constant) and vocabulary.autocast_default(given.value) is not None:
            return str(given.value)
        if self._follows_device(given):
            return "any"
        raise NotUnderstood(call, "cannot tell on which device this `autocast` is")

    def _follows_device(self, node: ast.expr) -> bool:
        """Whether a text names the kind of device that the script computes on."""
        if isinstance(node, ast.IfExp):
            return any(self._follows_device(n) for n in (node.body, node.orelse))
        if isinstance(node, ast.Attribute) and node.attr == "type":
            return True
        constants = {getattr(v, "value", None) for v in self.program.values(node)}
        return constants == {"cuda", "cpu"}

    def _type(self, call: ast.Call, given: ast.expr | None) -> str | None:
        if given is None:
            return None
        named = {v.name for v in self.program.values(given) if isinstance(v, External)}
        if len(named) == 1 and len(self.program.values(given)) == 1:
            found = vocabulary.low_precision(next(iter(named)))
            if found is not None:
                return found
        raise NotUnderstood(call, "cannot tell which type this `autocast` computes in")

    def _under(self, call: ast.Call) -> Iterator[ast.Call]:
        """The calls under the `with` of an autocast."""
        statement = self.program.statement(call)
        for part in getattr(statement, "body", ()):
            yield from (n for n in ast.walk(part) if isinstance(n, ast.Call))

    # The code under autocast.

    def _computes(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and (node in self.training.backwards or self._is_forward(node))

    def _is_forward(self, call: ast.Call) -> bool:
        if any(self.roles.is_model(v) for v in self.program.values(call.func)):
            return True
        return isinstance(call.func, (ast.Name, ast.Attribute)) and self.prepared.is_model(call.func)

    def _is_prepared(self, function: ast.expr) -> bool:
        """Whether a call may be one of a prepared model, which computes in mixed precision wherever it is called."""
        held = {v for v in self.program.values(function) if self.roles.is_model(v)}
        return not held or not held.isdisjoint(self.prepared.preparation.models)

    def _forwards(self) -> None:
        """Every forward pass of the training is under autocast; others are noted."""
        is_any = False
        for call in self.program.calls:
            if not self._is_forward(call) or self.program.frame(call) not in self.program.reachable:
                continue
            trains, is_mixed = self._trains(call), self._is_mixed(call, 4)
            if trains and not is_mixed:
                raise NotUnderstood(call, "the model is also trained outside `autocast`")
            is_any |= trains
            if not is_mixed and self.program.frame(call).name != "forward" and self._is_prepared(call.func):
                self.found.beside.append(call)
        if not is_any:
            raise NotUnderstood(self.found.autocasts[0], "cannot tell what is trained under this `autocast`")

    def _trains(self, call: ast.Call) -> bool:
        """Whether a forward pass belongs to a training step."""
        withs = [a for a in self.program.ancestors(call) if isinstance(a, ast.With)]
        frame = self.program.frame(call)
        if any("no_grad" in ast.unparse(i) for w in withs for i in w.items) or frame.name == "forward":
            return False
        if any("no_grad" in ast.unparse(d) for d in getattr(frame.node, "decorator_list", ())):
            return False
        inner = {loops[0] for loops in self.training.loops.values() if loops}
        if not inner:
            return frame in self.training.frames
        return bool(inner & set(Nesting(self.program, self.roles, self.settings.tracer).stack(call)))

    def _is_mixed(self, call: ast.Call, depth: int) -> bool:
        """Whether a call is under autocast, or where the same is done without."""
        places = set(self.found.autocasts)
        child: ast.AST = call
        for ancestor in self.program.ancestors(call):
            if isinstance(ancestor, ast.With) and any(i.context_expr in places for i in ancestor.items):
                return True
            if isinstance(ancestor, ast.If) and self.switches.is_without(ancestor, child):
                return True
            child = ancestor
        frame = self.program.frame(call)
        callers = self.program.calls_of(frame)
        return bool(callers) and depth > 0 and all(self._is_mixed(c, depth - 1) for c in callers)

    # The whole.

    def _settle(self) -> None:
        states = {state for _, state in self._states}
        if len(states) > 1:
            node = next(n for n, state in self._states if state != self._states[0][1])
            raise NotUnderstood(node, "mixed precision is on under different conditions")
        if len(self._kinds) > 1:
            raise NotUnderstood(self.found.autocasts[-1], "there are several kinds of `autocast`")
        if len(self.settings.program.named) and self.settings.frame is None:
            raise NotUnderstood(self.found.autocasts[0], "there is more than one place where an accelerator is created")
        conditions = set(next(iter(states)))
        device, kind = next(iter(self._kinds))
        self.found.code = self._code(conditions, device, kind)
        self.found.parameters |= self.settings.passed
        if (
            HAS_CUDA in self.found.code
            and self.settings.frame is not None
            and self.settings.frame.owner("torch") is None
        ):
            raise NotUnderstood(self.found.autocasts[0], "`torch` is not known where the accelerator is created")
        if self.switches.after:
            self.found.after = self.program.last(self.switches.after)
        if "fp16" in self.found.code and not self.found.scalers:
            self._unscaled()

    def _unscaled(self) -> None:
        """What looks at gradients expects none that are scaled, where the script has no scaler."""
        if looked_at := [*gradients_clipped(self.program), *gradients_read(self.program, self.training)]:
            reason = "the script computes in fp16 without scaling its loss, and uses the gradients before the step"
            raise NotUnderstood(looked_at[0], reason)

    def _code(self, conditions: set[str], device: str, kind: str | None) -> str:
        is_for_cuda = any(map(self._needs_cuda, conditions))
        device = "cuda" if is_for_cuda else device
        if device == "any" and kind is None:
            name = f'"fp16" if {HAS_CUDA} else "bf16"'
            return f'({name}) if {condition_code(conditions)} else "no"' if conditions else name
        if device == "cuda" and not is_for_cuda:
            conditions = {*conditions, HAS_CUDA}
        name = kind or vocabulary.autocast_default(device) or "bf16"
        return f'"{name}" if {condition_code(conditions)} else "no"' if conditions else f'"{name}"'

    def _needs_cuda(self, condition: str) -> bool:
        """Whether a setting holds only where there is a GPU."""
        if condition == HAS_CUDA:
            return True
        frame = self.settings.frame
        if frame is None or not condition.isidentifier():
            return False
        owner = frame.owner(condition)
        writes = self.settings.tracer.writes(owner, condition) if owner is not None else []
        values = [self.settings.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
        return (
            bool(writes) and len(values) == len(writes) and all(v is not None and self._means_cuda(v) for v in values)
        )

    def _means_cuda(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return any(self._means_cuda(v) for v in node.values)
        if self.switches.asks_for_cuda(node) is not None:
            return True
        return isinstance(node, ast.Call) and ast.unparse(node) == HAS_CUDA


def condition_code(conditions: set[str]) -> str:
    """The conditions as one expression, the one for CUDA last."""
    ordered = sorted(conditions, key=lambda c: (c == HAS_CUDA, c))
    if len(ordered) == 1:
        return ordered[0]
    return " and ".join(f"({c})" if " or " in c else c for c in ordered)


class Scaler:
    """The uses of the one scaler of a script.

    uses: its calls. bindings: the statements that give its name a value. parameters: what functions get it as. states:
    each place where a loss is scaled, with the settings on which that depends. Raises: NotUnderstood.
    """

    def __init__(
        self, program: Program, tracer: Tracer, training: Training, switches: Switches, scaler: ast.Call
    ) -> None:
        self.program = program
        self.tracer = tracer
        self.training = training
        self.switches = switches
        self.uses: list[ast.Call] = []
        self.parameters: set[tuple[Scope, str]] = set()
        self.states: list[tuple[ast.AST, frozenset[str]]] = []
        binding = self._binding(scaler)
        self.bindings = [binding, *self._empty(binding)]
        self._follow(scaler)

    def _follow(self, scaler: ast.Call) -> None:
        given = {k.arg for k in scaler.keywords} - {"enabled", "device"}
        if given or len(scaler.args) > 1:
            raise NotUnderstood(scaler, "the scaler has options that have no counterpart")
        enabled = next((k.value for k in scaler.keywords if k.arg == "enabled"), None)
        conditions = self.switches.conditions(scaler, [enabled] if enabled is not None else [])
        for node in list(self.program.flow.values):
            if (
                node is not scaler
                and not isinstance(getattr(node, "ctx", None), ast.Store)
                and self.switches.is_scaler(node)
            ):
                self._use(node)
        scaled = [c for c in self.uses if method_of_call(c) == "scale"]
        if not scaled:
            raise NotUnderstood(scaler, "its losses are not scaled")
        for call in scaled:
            self.states.append((call, conditions | self.switches.conditions(call, [])))
        blocks = {id(self.program.block(self.program.statement(c))) for c in self.uses if method_of_call(c) == "step"}
        if len(blocks) > 1:
            raise NotUnderstood(scaler, "its optimizers step at different times")

    def _empty(self, binding: ast.stmt) -> Iterator[ast.stmt]:
        """Where the scaler's name is given None."""
        assert isinstance(binding, ast.Assign)
        text, frame = ast.unparse(binding.targets[0]), self.program.frame(binding)
        for node in self.program.parsed(binding).parents:
            if isinstance(node, ast.Assign) and node is not binding and ast.unparse(node.targets[0]) == text:
                if not is_none(node.value) or self.program.frame(node) is not frame:
                    raise NotUnderstood(node, "the scaler's name holds something else, too")
                yield node

    def _binding(self, scaler: ast.Call) -> ast.stmt:
        """The statement that gives the scaler its name."""
        statement = self.program.statement(scaler)
        value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(value, ast.IfExp):
            value = value.body if isinstance(value.orelse, ast.Constant) and value.orelse.value is None else None
        if value is not scaler:
            raise NotUnderstood(scaler, "cannot tell what the scaler is called")
        return statement

    def _use(self, node: ast.AST) -> None:
        parent = self.program.parent(node)
        statement = self.program.statement(node)
        if isinstance(parent, ast.Attribute):
            call = self.program.parent(parent)
            if methods.is_used_of_scaler(parent.attr) and isinstance(call, ast.Call) and call.func is parent:
                self._call(call)
                return
            raise NotUnderstood(node, f"`{ast.unparse(parent)}` is read")
        if isinstance(node, ast.IfExp) and isinstance(statement, ast.Assign) and statement.value is node:
            return
        if self._test(node) is not None:
            return
        if isinstance(parent, (ast.Call, ast.keyword)):
            call = parent if isinstance(parent, ast.Call) else self.program.parent(parent)
            assert isinstance(call, ast.Call)
            self._handed_on(node, call)
            return
        raise NotUnderstood(node, "the scaler is also used otherwise")

    def _handed_on(self, node: ast.AST, call: ast.Call) -> None:
        """A scaler that a function gets: the function loses the parameter."""
        callees = self.program.flow.callees.get(call, set())
        found = {
            (callee, parameter.arg)
            for callee in callees
            for parameter in callee.parameters
            if self.tracer.written(call, callee, parameter.arg) is node
        }
        if len(found) != len(callees) or not found:
            raise NotUnderstood(node, "the scaler is handed to code that is not known")
        for callee, name in found:
            for caller in self.program.flow.callers.get(callee, ()):
                given = self.tracer.written(caller, callee, name)
                if callee in self.program.flow.escaped or not (self.switches.is_scaler(given) or is_none(given)):
                    raise NotUnderstood(node, "the scaler is handed to code that is not known")
        self.parameters |= found

    def _call(self, call: ast.Call) -> None:
        method, statement = method_of_call(call), self.program.statement(call)
        is_alone = isinstance(statement, ast.Expr) and statement.value is call
        if method == "scale":
            outer = self.program.parent(call)
            backward = self.program.parent(outer) if isinstance(outer, ast.Attribute) else None
            if backward not in self.training.backwards or len(call.args) != 1 or call.keywords:
                raise NotUnderstood(call, "a scaled loss is used for more than its backward pass")
        elif not is_alone or call.keywords or len(call.args) != int(method != "update"):
            raise NotUnderstood(call, f"cannot tell what `{ast.unparse(call)}` is for")
        elif method == "step" and not (call in self.training.steps and stepped(call) is call.args[0]):
            raise NotUnderstood(call, "cannot tell which optimizer this steps")
        self.uses.append(call)

    def _test(self, node: ast.AST) -> bool | None:
        """Whether a scaler in a condition means that there is one; None where it is no condition."""
        parent = self.program.parent(node)
        is_there = True
        if isinstance(parent, ast.Compare) and parent.left is node and len(parent.ops) == 1:
            if not is_none(parent.comparators[0]) or not isinstance(parent.ops[0], (ast.Is, ast.IsNot)):
                return None
            is_there = isinstance(parent.ops[0], ast.IsNot)
            node, parent = parent, self.program.parent(parent)
        if not isinstance(parent, ast.If) or parent.test is not node:
            return None
        if not self.switches.is_choice(parent, is_there):
            raise NotUnderstood(node, "what is done with a scaler is not what is done without")
        return is_there


def gradients_clipped(program: Program) -> Iterator[ast.Call]:
    """Where a script that runs clips gradients."""
    for call in program.calls:
        if any(map(names.clips_gradients, program.called(call))) and program.frame(call) in program.reachable:
            yield call


def gradients_read(program: Program, training: Training) -> Iterator[ast.Attribute]:
    """Where the functions that train ask for the gradients of a parameter: `p.grad`."""
    for node in program.flow.values:
        if isinstance(node, ast.Attribute) and node.attr == "grad" and program.frame(node) in training.frames:
            yield node
