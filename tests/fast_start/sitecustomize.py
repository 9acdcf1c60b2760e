"""Imported first by each interpreter that a test starts: `tests.interpreters.PYTHONPATH` names this folder.

The objects that `import torch` makes stay until the end. The collector goes through them again and again, and again
while the interpreter ends: that is 1.8 of the 4.5 seconds of CPU time that a process with an optimizer takes.

An optimizer imports torch's compiler, only to tell it to leave the optimizer's methods alone: another second, which a
process that compiles nothing does without. Where the compiler has been imported, they go through it as ever.

`import torch` also registers a thousand kernels that are written in Python, for tensors without data and for the
compiler: a third of its time. They are registered once something asks for their module, or for those that it imports.

It asks twice for the module of a frame, for which `inspect` looks up the files of all modules: another tenth.
"""

import atexit
import functools
import gc
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)  # registered first, so the last to be called


class LateCompiler(MetaPathFinder):
    """Finds the two modules of torch with a decorator that imports the compiler, and one that inspects frames."""

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


def find_modules_by_name(inspect):
    """`inspect`, which asks a frame's variables for the name of its module before it looks for its file."""
    by_file = inspect.getmodule

    def getmodule(found, _filename=None):
        name = found.f_globals.get("__name__") if inspect.isframe(found) else None
        return sys.modules.get(name) or by_file(found, _filename)

    inspect.getmodule = getmodule
    return inspect


class LateKernels(MetaPathFinder):
    """Finds the module of torch with kernels in Python, which is executed once it is used.

    What uses it is imported after it, as `import torch` does.
    """

    def find_spec(self, name, path, target=None):
        is_kernels = name == KERNELS and KERNELS not in sys.modules
        if not is_kernels and not (name in USERS and isinstance(sys.modules.get(KERNELS), Unused)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if is_kernels:
            Unused.execute, spec.loader.exec_module = spec.loader.exec_module, Unused.await_use
        else:
            spec.loader.exec_module = _import_after_kernels
        return spec


class Unused(ModuleType):
    """A module that is executed when something is asked for that is no attribute of every module."""

    def await_use(module):
        module.__class__ = Unused
        _make_generators()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.__class__ = ModuleType
        Unused.execute(self)
        return getattr(self, name)


def _make_generators():
    """Newer versions give `torch.Generator` its metaclass in a module that only the kernels import."""
    import torch

    if hasattr(torch._C, "_set_generator_metaclass"):
        from torch._opaque_base import OpaqueBaseMeta

        torch._C._set_generator_metaclass(OpaqueBaseMeta)


def _import_after_kernels(module):
    del sys.modules[module.__name__]
    sys.modules[KERNELS].activate_meta  # noqa: B018
    import_module(module.__name__)


KERNELS = "torch._meta_registrations"
USERS = ("torch._decomp", "torch._dynamo", "torch._prims", "torch._refs")
DECORATORS = {
    "torch._compile": ("_disable_dynamo", disable_where_imported),
    "torch.optim.optimizer": ("_use_grad_for_differentiable", break_where_imported),
    "torch._library.utils": ("inspect", find_modules_by_name),
}
sys.meta_path[:0] = [LateCompiler(), LateKernels()]
