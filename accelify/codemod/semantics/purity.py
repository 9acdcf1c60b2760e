"""What does an expression or a function do besides giving a value?"""

from __future__ import annotations

import ast

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Made

_HARMLESS_CALLS = (
    "is_available",
    "device_count",
    "isinstance",
    "hasattr",
    "getattr",
    "is_built",
    "len",
    ".device",
    "format",
    "get_rank",
    "get_node_local_rank",
    "get_default_backend_for_device",
    "get_world_size",
    "environ.get",
    "getenv",
    ".split",
    ".strip",
)
_RANDOM = (
    "numpy.random.",
    "random.",
    "torch.rand",
    "torch.normal",
    "torch.bernoulli",
    "torch.multinomial",
    "np.random.",
)
_FILLS_AT_RANDOM = ("uniform_", "normal_", "random_", "bernoulli_", "trunc_normal_", "exponential_")
CLOCKS = {"time.time", "time.perf_counter", "timeit.default_timer", "time.clock", "datetime.datetime.now"}
TELLS = ("numpy", "tolist", "item", "size", "dim", "numel", "nelement", "stride", "get_device")  # a tensor's methods
_ABOUT = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "is_leaf", "layout")  # a tensor's attributes
_ENVIRONMENTS = ("gym.", "gymnasium.", "pettingzoo.", "ple.", "pybullet", "retro.")


def tells_about(node: ast.expr) -> bool:
    """`x.shape[0]`: what a tensor says of itself is no tensor."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute) and node.attr in _ABOUT:
            return True
        node = node.value
    return False


def is_pure(node: ast.expr) -> bool:
    """Whether evaluating an expression has no effect that a script could want."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            text = ast.unparse(part.func)
            if (
                not text.endswith(_HARMLESS_CALLS)
                and not text.startswith(("torch.accelerator.", "torch.cuda."))
                and text not in ("str", "int", "bool", "float", "list", "tuple", "range")
            ):
                return False
        elif isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
    return True


def draws_at_random(program: Program, call: ast.Call) -> bool:
    """Whether a call draws random numbers, samples, or asks an environment for the next observation."""
    if any(name.startswith(_RANDOM) and ".seed" not in name for name in program.called(call)):
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in ("sample", "rsample", "sample_batch", "random_") or asks_environment(program, call)


def asks_environment(program: Program, call: ast.Call) -> bool:
    """Whether a call asks an environment for the next observation."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("step", "reset"):
        return False
    text = ast.unparse(call.func.value).lower()
    made = [v for v in program.values(call.func.value) if isinstance(v, Made)]
    return any((v.name or "").startswith(_ENVIRONMENTS) for v in made) or text.endswith(("env", "envs", "environment"))


def function_draws(program: Program, function: Scope, depth: int = 3) -> bool:
    """Whether a function, or one that it calls, draws random numbers."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call):
            if draws_at_random(program, node):
                return True
            if depth and any(
                function_draws(program, f, depth - 1) for f in program.flow.callees.get(node, ()) if f is not function
            ):
                return True
    return False


def draws_weights(program: Program, statement: ast.stmt, models: set[str]) -> bool:
    """Whether a statement draws weights of some models anew: `net.apply(init)`, `net.reset_parameters()`."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    parts = list(ast.walk(statement))
    if not any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in models for n in parts):
        return False
    for call in (n for n in parts if isinstance(n, ast.Call)):
        given = [*call.args, *(k.value for k in call.keywords)]
        if isinstance(call.func, ast.Attribute):
            given.append(call.func.value)
            if call.func.attr == "apply" and ast.unparse(call.func.value) in models:
                return True
        if _draws_into(program, call) or (
            any(ast.unparse(g) in models for g in given)
            and any(_function_draws_into(program, f) for f in program.flow.callees.get(call, ()))
        ):
            return True
    return False


def _function_draws_into(program: Program, function: Scope, depth: int = 2) -> bool:
    calls = [n for n in ast.walk(function.node) if isinstance(n, ast.Call)]
    return any(_draws_into(program, c) for c in calls) or (
        depth > 0
        and any(
            _function_draws_into(program, f, depth - 1)
            for c in calls
            for f in program.flow.callees.get(c, ())
            if f is not function
        )
    )


def _draws_into(program: Program, call: ast.Call) -> bool:
    """Whether a call fills a tensor at random in its place."""
    if any(name.startswith("torch.nn.init.") for name in program.called(call)):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS_AT_RANDOM
