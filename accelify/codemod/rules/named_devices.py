"""Take the process's own device where an option of the script names one.

    weights.to(args.device)             ->    weights.to(accelerator.device)
    torch.ones(3, device=args.gpu)      ->    torch.ones(3, device=accelerator.device)
    evaluate(net, config["device"])     ->    evaluate(net, accelerator.device)
    def train(device="cpu"):            ->    def train():
        data = data.to(device)          ->        data = data.to(accelerator.device)
    noise = Noise(steps)                ->    noise = Noise(steps, device=accelerator.device)
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"    goes, as all processes would share the first GPU

Why: the option names one GPU, as `cuda:0` is, and each process has another. A function of another file whose default is
the CPU is given the device, if the script trained on the CPU.
Left alone: an option that the script gives a value itself, where `devices` does it; functions that do more with it than
move tensors there; places that the accelerator does not reach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.devices.device_options import is_read_as_text
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Attempt, Change, Found, Remove, Replace
from accelify.codemod.preparing.placing import gpu_choices
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "named_devices"


def find(script: Script) -> Iterator[Found]:
    """A change for each such argument."""
    for argument in script.devices.named:
        accelerator = script.accelerator(argument)
        assert accelerator is not None
        code = f"{accelerator}.device{'.type' if is_read_as_text(script.program, argument) else ''}"
        edit = Replace(argument, partial(its_device, code=code), reads=(accelerator.split(".")[0],))
        reason = f"each process has a device of its own, regardless of {ast.unparse(argument)}"
        change = Change(NAME, script.path(argument), argument.lineno, reason, (edit,))
        yield change if argument in script.devices.fixed else Attempt((change,))
    for call, name in script.devices.defaulted:
        accelerator = script.accelerator(call)
        add = partial(with_device, name=name, code=f"{accelerator}.device")
        keeps = (call.func, *call.args, *(k.value for k in call.keywords))
        edit = Replace(call, add, keeps, (str(accelerator).split(".")[0],))
        reason = "the models are on the device, so what this makes must be too"
        yield Change(NAME, script.path(call), call.lineno, reason, (edit,))
    yield from _first_gpu_alone(script)


def _first_gpu_alone(script: Script) -> Iterator[Attempt]:
    """The lines that hide all GPUs but the first from every process; another one is the user's choice: noted."""
    choice = f"choose them with `{script.options.runtime.launch} --gpu-ids`"
    for node in script.program.once(gpu_choices) if not script.is_by_hand else ():
        path, statement = script.path(node), script.program.statement(node)
        value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        is_first = isinstance(value, ast.Constant) and value.value == "0" and path in script.files
        if is_first and len(script.program.block(statement)) > 1:
            reason, edits = f"each process has a GPU of its own; {choice}", (Remove(statement),)
            yield Attempt((Change(NAME, path, statement.lineno, reason, edits, Tier.REVIEW),))


def with_device(node: cst.CSTNode, name: str, code: str) -> cst.BaseExpression:
    """`Noise(steps, device=accelerator.device)` for `Noise(steps)`."""
    return snippets.with_keyword(node, name, cst.parse_expression(code))


def its_device(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    """`accelerator.device`; `accelerator.device.type` where text is wanted."""
    return cst.parse_expression(code)
