"""Which calls only give a value, or show one: no state changes, nothing is written, no random number is drawn?

Such code may run on some batches in one process and on the rest in others.
"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.purity import draws_at_random, function_draws
from accelify.codemod.semantics.scopes import Scope, names_written_in
from accelify.codemod.semantics.values import ClassValue, External, FunctionValue, Instance, Values, View
from accelify.codemod.training.outputs import Effect, Outputs, origins
from accelify.codemod.training.roles import Roles

_LIBRARIES = (
    *("torch.", "numpy.", "math.", "scipy.", "sklearn.metrics.", "skimage.", "time.", "itertools.", "collections."),
    *("torchvision.ops.", "torchvision.utils.make_grid", "torchmetrics.functional.", "pytorch_msssim.", "einops."),
    *("statistics.", "operator.", "editdistance.", "Levenshtein."),
)
_STATEFUL = (
    *("torch.save", "torch.load", "torch.manual_seed", "torch.set_", "torch.distributed", "torch.multiprocessing"),
    *("torch.backends", "torch.seed", "torch.cuda.manual_seed", "torch.cuda.set_", "torch.utils", "torch.optim"),
    *("torch.autograd.grad", "torch.autograd.backward", "torch.nn.init", "torch.nn.utils.clip", "torch.random"),
    *("torch.nn.functional.dropout", "torch.nn.functional.alpha_dropout", "torch.nn.functional.gumbel", "torch.hub"),
    *(
        "numpy.random",
        "numpy.save",
        "scipy.io",
        "skimage.io",
        "time.sleep",
        "torch.jit",
        "torch.onnx",
        "torch.Generator",
    ),
)
_MAKERS = {"torch.zeros", "torch.ones", "torch.zeros_like", "torch.ones_like", "torch.full", "torch.empty"}
_DROPS = ("torch.nn.functional.dropout", "torch.nn.functional.alpha_dropout", "torch.nn.functional.feature_alpha")
_BUILTINS = frozenset(
    "str int float bool len round max min sum abs list dict tuple set sorted zip range enumerate format repr type "
    "isinstance hasattr getattr any all divmod pow reversed map filter slice complex".split()
)
_MODULES = frozenset("Softmax LogSoftmax Sigmoid ReLU Tanh Upsample AvgPool2d MaxPool2d CosineSimilarity".split())
_METHODS = frozenset(
    "abs all allclose amax amin aminmax any argmax argmin argsort astype bincount bitwise_and bitwise_or bmm bool "
    "byte ceil char chunk clamp clip clone contiguous copy cos count cpu cross cuda cumprod cumsum data_ptr decode "
    "detach diag dim div dot double einsum encode endswith eq equal erf exp expand expand_as fill_diagonal find "
    "flatten flip float floor format gather ge get gt half histc id index index_select int is_contiguous isinf "
    "isnan isoformat item items join keys kthvalue le ljust log log10 log1p log2 log_softmax logical_and "
    "logical_not logical_or logit logsumexp long lower lstrip lt masked_fill masked_select matmul max mean median "
    "min mm mode movedim mul nan_to_num narrow ne neg nelement new_ones new_tensor new_zeros nonzero norm numel "
    "numpy ones_like permute pow prod ravel reciprocal relu repeat repeat_interleave replace reshape rjust roll "
    "rot90 round rsqrt rstrip scatter select sigmoid sign sin size softmax sort split sqrt square squeeze squeeze_ "
    "startswith std strftime strip sub sum swapaxes t take tanh title to tolist topk total_seconds tr transpose "
    "tril triu trunc type type_as unbind unfold unique unsqueeze upper values var view view_as where xor zfill".split()
)
_SHOWS = frozenset(
    "set_postfix set_postfix_str set_description set_description_str update refresh next finish close write "
    "flush info debug warning error".split()
)
_SHOWN_ON = (
    "tqdm",
    "progress",
    "logging",
    "loguru",
    "sys.stdout",
    "sys.stderr",
    "alive_progress",
    "rich.",
    "fastprogress",
)
_DEPTH = 4


class Harmless:
    """Look at calls, and into the project's own functions."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles
        self.outputs = Outputs(program, roles)
        self._functions: dict[tuple[Scope, bool], bool] = {}
        self._forwards: set[tuple[Scope, bool]] = set()

    def is_call(self, call: ast.Call, depth: int = _DEPTH) -> bool:
        """Whether a call only gives a value."""
        if draws_at_random(self.program, call):
            return False
        if self.sets_eval_mode(call):
            return True
        callees = self.program.flow.callees.get(call)
        if self.is_of_module(call):
            return all(self._is_forward(v.cls, depth) for v in self._run_by(call) if isinstance(v, Instance))
        if callees:
            return all(self._is_function(f, depth, shows=False) for f in callees)
        called = self.program.called(call)
        if called:
            return all(self._is_library(name) for name in called)
        if isinstance(call.func, ast.Name):
            return call.func.id in _BUILTINS
        if not isinstance(call.func, ast.Attribute) or self._holds_state(call.func):
            return False
        return call.func.attr in _METHODS or self._fills_what_it_makes(call.func)

    def sets_eval_mode(self, call: ast.Call) -> bool:
        """`model.eval()`, in a round or before all: it makes no difference."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "eval" or call.args:
            return False
        return any(self.roles.is_model(v) or self.roles.is_module(v) for v in self.program.values(call.func.value))

    def clears_gradients(self, call: ast.Call) -> bool:
        """`optimizer.zero_grad()`."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "zero_grad":
            return False
        held = self.program.values(call.func.value)
        return any(self.roles.is_optimizer(v) or self.roles.is_model(v) for v in held)

    def _fills_what_it_makes(self, function: ast.Attribute) -> bool:
        """`torch.zeros(n, 10).scatter_(1, y, 1)`."""
        made = self.program.called(function.value) if isinstance(function.value, ast.Call) else set()
        return function.attr in ("scatter_", "fill_", "zero_", "index_fill_") and any(n in _MAKERS for n in made)

    def is_of_module(self, call: ast.Call) -> bool:
        """Whether a call is a forward pass, of a model or of a loss."""
        values = self._run_by(call)
        return any(self.roles.is_module(v) or self.roles.is_model(v) for v in values) and not any(
            isinstance(v, (FunctionValue, ClassValue, External)) for v in values
        )

    def _run_by(self, call: ast.Call) -> Values:
        """The models of `model(x)` and `model.forward(x)`."""
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr == "forward":
            function = function.value
        return self.program.values(function)

    def shows(self, call: ast.Call, depth: int = _DEPTH) -> bool:
        """Whether a call writes to the screen and does nothing else: `print`, a progress bar, a log."""
        callees = self.program.flow.callees.get(call)
        if callees:
            return all(self._is_function(f, depth, shows=True) and self._prints(f, depth) for f in callees)
        called = self.program.called(call)
        if "print" in called or (isinstance(call.func, ast.Name) and call.func.id == "print"):
            return self.outputs.effect(call) is not Effect.WRITES
        if any(name.startswith(_SHOWN_ON) for name in called):
            return self.outputs.effect(call) is not Effect.WRITES
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _SHOWS:
            return False
        return self.is_shown_on(call.func.value)

    def _prints(self, function: Scope, depth: int) -> bool:
        calls = [n for n in ast.walk(function.node) if isinstance(n, ast.Call)]
        return bool(depth) and any(self.shows(c, depth - 1) for c in calls)

    def is_shown_on(self, node: ast.expr) -> bool:
        """Whether a thing is a progress bar or a log."""
        values = self.program.values(node)
        made = origins(values)
        for view in values:
            if isinstance(view, View) and isinstance(view.node, ast.Call):  # `bar = tqdm(loader)`
                made |= self.program.called(view.node)
        return bool(made) and all(name.startswith(_SHOWN_ON) for name in made)

    def _is_library(self, name: str) -> bool:
        if name in _BUILTINS:
            return True
        if not name.startswith(_LIBRARIES) or name.startswith(_STATEFUL):
            return False
        last = name.rpartition(".")[2]
        if last.endswith("_") or last.startswith("rand"):
            return False
        return not names.is_module(name) or names.is_loss(name) or last in _MODULES

    def _holds_state(self, function: ast.Attribute) -> bool:
        """Whether a method is one of an object of the project's own, of which nothing is known."""
        return any(isinstance(v, Instance) for v in self.program.values(function.value))

    def _is_forward(self, cls: Scope, depth: int) -> bool:
        """Whether a forward pass draws nothing at random, and carries nothing over to the next."""
        forward = self.program.flow.method(cls, "forward") or self.program.flow.method(cls, "__call__")
        if forward is None or (forward, True) in self._forwards:
            return True
        if (forward, False) not in self._forwards:
            carries = _carries(forward.node)
            calls = [n for n in ast.walk(forward.node) if isinstance(n, ast.Call)]
            self._forwards.add((forward, not carries and not any(self._draws(c, depth) for c in calls)))
        return (forward, True) in self._forwards

    def _draws(self, call: ast.Call, depth: int) -> bool:
        called = self.program.called(call)
        if any(name.startswith(_DROPS) for name in called):
            return not any(k.arg == "training" for k in call.keywords)
        if draws_at_random(self.program, call):
            return True
        return any(
            bool(depth) and (_carries(f.node) or function_draws(self.program, f, depth))
            for f in self.program.flow.callees.get(call, ())
        )

    def _is_function(self, function: Scope, depth: int, *, shows: bool) -> bool:
        key = function, shows
        if key not in self._functions:
            self._functions[key] = False  # while it is looked at
            self._functions[key] = bool(depth) and self._looks_harmless(function, depth - 1, shows)
        return self._functions[key]

    def _looks_harmless(self, function: Scope, depth: int, shows: bool) -> bool:
        node = function.node
        if isinstance(node, ast.Lambda):
            return all(self.is_call(c, depth) for c in ast.walk(node) if isinstance(c, ast.Call))
        if not isinstance(node, ast.FunctionDef) or function.generates or function.declared_nonlocal:
            return False
        if function.declared_global and not shows:
            return False
        kept = kept_in(node)
        for part in ast.walk(node):
            if isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom, ast.ClassDef, ast.AsyncFunctionDef)):
                return False
            if isinstance(part, ast.Call) and not (
                self.is_call(part, depth) or self.changes_own(part, kept) or (shows and self.shows(part, depth))
            ):
                return False
            if not isinstance(part, (ast.Attribute, ast.Subscript)) or isinstance(part.ctx, ast.Load):
                continue
            if not is_in(part, kept) and not (function.is_method and _is_left_at_self(part, node)):
                return False
        return True

    @staticmethod
    def changes_own(call: ast.Call, kept: set[str]) -> bool:
        """Whether a call changes in place what the code that is looked at has made itself: `rows.append(x)`."""
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and (function.attr.endswith("_") or function.attr in ("append", "extend", "insert", "setdefault"))
            and not function.attr.startswith("requires_grad")
            and is_in(function.value, kept)
        )


def _is_left_at_self(target: ast.AST, function: ast.AST) -> bool:
    """Whether a method leaves something at `self` for others to look at, and reads nothing of it itself."""
    if not isinstance(target, ast.Attribute) or _own(function) != ast.unparse(target.value):
        return False
    return target.attr not in _carries(function)


def _carries(function: ast.AST) -> set[str]:
    """The attributes of `self` that a method both changes and reads, or adds to."""
    own = _own(function)
    stored: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == own:
            (read if isinstance(node.ctx, ast.Load) else stored).add(node.attr)
        place: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            place = node.func.value
        if isinstance(place, ast.Attribute) and ast.unparse(place.value) == own:
            stored.add(place.attr)
            read.add(place.attr)
    return stored & read


def _own(function: ast.AST) -> str | None:
    arguments = function.args.args if isinstance(function, ast.FunctionDef) else []
    return arguments[0].arg if arguments else None


def kept_in(node: ast.AST) -> set[str]:
    """The variables that hold nothing but what some code has made itself: results of calls and calculations, lists."""
    made: set[str] = set()
    other: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Assign):
            is_made = isinstance(part.value, (ast.Call, ast.BinOp, ast.Compare, ast.List, ast.Dict, ast.ListComp))
            for target in part.targets:
                (made if is_made else other).update(names_written_in(target))
        elif isinstance(part, (ast.For, ast.AsyncFor)):
            other.update(names_written_in(part.target))
        elif isinstance(part, ast.arg):
            other.add(part.arg)
    return made - other


def is_in(node: ast.expr, kept: set[str]) -> bool:
    """Whether an expression is a place in one of some variables."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in kept
