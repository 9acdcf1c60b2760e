"""Imported first by each interpreter that a test starts: `tests.interpreters.PYTHONPATH` names this folder.

The objects that `import torch` makes stay until the end. The collector goes through them again and again, and again
while the interpreter ends: that is 1.8 of the 4.5 seconds of CPU time that a process with an optimizer takes.

An optimizer imports torch's compiler, only to tell it to leave the optimizer's methods alone: another second, which a
process that compiles nothing does without. Where the compiler has been imported, they go through it as ever.
"""

import atexit
import functools
import gc
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)  # registered first, so the last to be called


class LateCompiler(MetaPathFinder):
    """Finds the two modules of torch with a decorator that imports the compiler."""

    def find_spec(self, name, path, target=None):
        if name not in DECORATORS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        decorator, late = DECORATORS[name]
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            setattr(module, decorator, late(getattr(module, decorator)))

        spec.loader.exec_module = exec_module
        return spec


def disable_where_imported(disable):
    """`torch._compile._disable_dynamo`: the compiler does not follow the function."""

    def decorate(function=None, recursive=True):
        if function is None:
            return functools.partial(decorate, recursive=recursive)
        return _where_imported(disable(function, recursive), function)

    return decorate


def break_where_imported(use_grad):
    """`_use_grad_for_differentiable`: without gradients, as a rule, and the compiler begins anew."""

    def decorate(step):
        import torch

        def without_compiler(self, *args, **kwargs):
            with torch.set_grad_enabled(self.defaults["differentiable"]):
                return step(self, *args, **kwargs)

        return _where_imported(use_grad(step), without_compiler)

    return decorate


def _where_imported(compiled, plain):
    @functools.wraps(compiled)
    def call(*args, **kwargs):
        return (compiled if "torch._dynamo" in sys.modules else plain)(*args, **kwargs)

    return call


DECORATORS = {
    "torch._compile": ("_disable_dynamo", disable_where_imported),
    "torch.optim.optimizer": ("_use_grad_for_differentiable", break_where_imported),
}
sys.meta_path.insert(0, LateCompiler())
