"""Mixed precision by apex: is it the common whole that the accelerator can take over?"""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelify.codemod.libraries import names
from accelify.codemod.precision.precision import Precision, condition_code, gradients_clipped, gradients_read
from accelify.codemod.precision.switches import HAS_CUDA, NotUnderstood, Switches, is_none
from accelify.codemod.preparing.settings import Settings
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Constant, External
from accelify.codemod.training.loops.training import Training

_USES = ("initialize", "scale_loss", "master_params")
LEVELS = ("O1", "O2")
_THINGS = ("models", "optimizers")
# Arguments that only repeat the default.
_USUAL = {
    "keep_batchnorm_fp32": ("True", "'True'", "None"),
    "loss_scale": ("'dynamic'", "None"),
    "verbosity": ("0", "1"),
    "enabled": ("True",),
}
_HARMLESS = (ast.Raise, ast.Pass, ast.Expr)


class Apex:
    """Find `amp.initialize`, `amp.scale_loss` and `amp.master_params`, and what they depend on."""

    def __init__(self, program: Program, training: Training, settings: Settings) -> None:
        self.program = program
        self.training = training
        self.settings = settings
        self.found = Precision(library="apex")
        self.switches = Switches(program, settings, [], self._computes)
        self.found.choices = self.switches.choices
        self._known: set[ast.AST] = set()

    def find(self) -> Precision | None:
        """None where a script does not use it."""
        calls = [c for c in self.program.calls if self.program.frame(c) in self.program.reachable]
        used = {c: n for c in calls for n in self.program.called(c) if n.startswith("apex.amp.")}
        if not used:
            return None
        try:
            self._understand(used)
        except NotUnderstood as reason:
            self.found.stays = (reason.node, reason.reason)
        return self.found

    def _understand(self, used: dict[ast.Call, str]) -> None:
        strange = [c for c, name in used.items() if name.rpartition(".")[2] not in _USES]
        if strange:
            raise NotUnderstood(strange[0], f"`{ast.unparse(strange[0])}` is used")
        starts = [c for c, name in used.items() if name.endswith(".initialize")]
        if len(starts) != 1:
            raise NotUnderstood(next(iter(used)), "`amp.initialize` is not called here once")
        self.switches.makers = starts
        self._start(starts[0])
        for call in (c for c, name in used.items() if name.endswith(".master_params")):
            self._masters(call)
        states = {self.switches.conditions(starts[0], [])}
        states |= {self._scaled(c) for c, name in used.items() if name.endswith(".scale_loss")}
        self._known |= {n for c in used for n in ast.walk(c.func)}
        if not self.found.scaled:
            raise NotUnderstood(starts[0], "nothing is scaled by `amp.scale_loss`")
        if len(states) > 1:
            raise NotUnderstood(starts[0], "mixed precision is on under different conditions")
        self._gradients()
        self._others()
        self._settle(set(next(iter(states))))

    def _start(self, call: ast.Call) -> None:
        given = {k.arg: k.value for k in call.keywords}
        things = [*call.args, *(given.pop(name) for name in _THINGS[len(call.args) :] if name in given)]
        self._level(call, given.pop("opt_level", ast.Constant("O1")))
        if any(ast.unparse(value) not in _USUAL.get(str(name), ()) for name, value in given.items()):
            raise NotUnderstood(call, "it has options that have no counterpart")
        statement = self.program.statement(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        names = [ast.unparse(thing) for thing in things]
        if not isinstance(target, ast.Tuple) or [ast.unparse(e) for e in target.elts] != names or len(names) != 2:
            raise NotUnderstood(call, "it does not return one model and one optimizer under their old names")
        self.found.bindings.append(statement)

    def _level(self, call: ast.Call, given: ast.expr) -> None:
        """`"O1"`, `args.level`, `Config.level`, `settings["level"]`, or a variable that holds one of these."""
        level, owner = given, self.program.scope(given).owner(given.id) if isinstance(given, ast.Name) else None
        writes = self.settings.tracer.writes(owner, given.id) if isinstance(given, ast.Name) and owner else []
        if len(writes) == 1 and isinstance(writes[0], ast.Name):
            level = self.settings.tracer.assigned(writes[0]) or given
        values = {v.value if isinstance(v, Constant) else None for v in self.program.values(level)}
        if isinstance(level, ast.Attribute) and (defaults := self.settings.tracer.option_values(level.attr)):
            values = {getattr(default, "value", None) for default in defaults}
        if len(values) != 1 or values.isdisjoint(LEVELS):
            raise NotUnderstood(call, "cannot tell that its level is `O1` or `O2`")
        self.found.level = str(values.pop())
        self.found.level_option = level if isinstance(level, (ast.Attribute, ast.Subscript)) else None

    def _scaled(self, call: ast.Call) -> frozenset[str]:
        """`with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()`"""
        item = self.program.parent(call)
        outer = self.program.parent(item) if isinstance(item, ast.withitem) else None
        reason = "a scaled loss is used for more than its backward pass"
        if not isinstance(item, ast.withitem) or not isinstance(outer, ast.With) or item.optional_vars is None:
            raise NotUnderstood(call, reason)
        is_alone = len(outer.items) == len(outer.body) == 1 and len(call.args) == 2 and not call.keywords
        if not is_alone or ast.unparse(outer.body[0]) != f"{ast.unparse(item.optional_vars)}.backward()":
            raise NotUnderstood(call, reason)
        self.found.scaled[outer] = call.args[0]
        return self.switches.conditions(outer, [])

    def _masters(self, call: ast.Call) -> None:
        """`clip_grad_norm_(amp.master_params(optimizer), 1.0)` clips what the optimizer steps."""
        outer = self.program.parent(call)
        is_clip = isinstance(outer, ast.Call) and any(map(names.clips_gradients, self.program.called(outer)))
        assert isinstance(self.found.bindings[0], ast.Assign)
        target = self.found.bindings[0].targets[0]
        assert isinstance(target, ast.Tuple)
        model, optimizer = map(ast.unparse, target.elts)
        if not is_clip or ast.unparse(call.args[0]) != optimizer:
            raise NotUnderstood(call, "`amp.master_params` is used for more than clipping")
        if self.program.scope(call).owner(model.split(".")[0]) is None:
            raise NotUnderstood(call, f"`{model}` is not known here")
        self.found.masters[call] = f"{model}.parameters()"
        self.switches.masters = f"{model}.parameters()"

    def _gradients(self) -> None:
        """apex leaves unscaled gradients; with the accelerator only what it clips is unscaled before the step."""
        for call in gradients_clipped(self.program):
            if len(call.args) > 3 or {k.arg for k in call.keywords} - {"max_norm", "norm_type", "clip_value"}:
                raise NotUnderstood(call, "gradients are clipped in a way of the script's own")
            self.found.clips.append(call)
        for node in gradients_read(self.program, self.training):
            raise NotUnderstood(node, "gradients are read between the backward pass and the step")

    def _computes(self, node: ast.AST) -> bool:
        return node in self.training.backwards

    def _others(self) -> None:
        """Nothing else of apex's is used, and it is imported in a way that can go."""
        for node, values in self.program.flow.values.items():
            if isinstance(node, (ast.Name, ast.Attribute)) and node not in self._known:
                known = [v.name for v in values if isinstance(v, External) and v.name.startswith("apex.amp")]
                if known and self.program.frame(node) in self.program.reachable:
                    if not self._demands_apex(self.program.statement(node), node):
                        raise NotUnderstood(node, f"`{known[0]}` is used otherwise")
                    self.found.imports.append(self.program.statement(node))
        for parsed in self.program.files:
            for node in parsed.parents:
                if isinstance(node, (ast.Import, ast.ImportFrom)) and "apex" in ast.unparse(node):
                    outer = parsed.parents.get(node)
                    if isinstance(outer, ast.Try):
                        self._import(outer)

    def _demands_apex(self, outer: ast.stmt, node: ast.AST) -> bool:
        """`if args.fp16 and amp is None: raise ImportError("apex")`, which only sees to it that apex is there."""
        if not isinstance(outer, ast.If) or outer.orelse or not all(isinstance(s, ast.Raise) for s in outer.body):
            return False
        is_and = isinstance(outer.test, ast.BoolOp) and isinstance(outer.test.op, ast.And)
        parts = outer.test.values if isinstance(outer.test, ast.BoolOp) and is_and else [outer.test]
        has_calls = any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in ast.walk(outer.test))
        around = self.program.parent(outer)
        is_elif = isinstance(around, ast.If) and around.orelse == [outer]
        return not has_calls and not is_elif and f"{ast.unparse(node)} is None" in map(ast.unparse, parts)

    def _import(self, node: ast.Try) -> None:
        handled = [s for h in node.handlers for s in h.body]
        is_plain = all(isinstance(s, (ast.Import, ast.ImportFrom)) and "apex" in ast.unparse(s) for s in node.body)
        bound = {a.asname or a.name for s in node.body if isinstance(s, (ast.Import, ast.ImportFrom)) for a in s.names}
        is_harmless = all(isinstance(s, _HARMLESS) or _empties(s, bound) for s in handled)
        if not is_plain or node.orelse or node.finalbody or not is_harmless:
            raise NotUnderstood(node, "whether apex is there decides more than its import")
        self.found.imports.append(node)

    def _settle(self, conditions: set[str]) -> None:
        frame = self.settings.frame
        if frame is None:
            raise NotUnderstood(self.found.bindings[0], "there is more than one place where an accelerator is created")
        if frame.owner("torch") is None:
            raise NotUnderstood(self.found.bindings[0], "`torch` is not known where the accelerator is created")
        self.found.code = f'"fp16" if {condition_code({*conditions, HAS_CUDA})} else "no"'
        self.found.parameters |= self.settings.passed
        if self.switches.after:
            self.found.after = self.program.last(self.switches.after)


def _empties(node: ast.stmt, bound: Collection[str]) -> bool:
    """`amp = None`, where `amp` is what could not be imported: `_others` finds whoever asks for it."""
    if not isinstance(node, ast.Assign) or not is_none(node.value):
        return False
    return all(isinstance(t, ast.Name) and t.id in bound for t in node.targets)
