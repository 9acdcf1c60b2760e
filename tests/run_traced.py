"""Run scripts one after another in this process, or in this rank, and write down what they computed.

`run_traced.py MANIFEST`: a JSON list of `{name, folder, trace}`; each `folder/train.py` runs there as `__main__`.
A trace has `losses` (of each backward pass), `weights` (before each backward pass and after each optimizer step: a sum
of the parameters, exact), `printed` and `error`. After an error the ranks are out of step, so the rest is not run.
"""

import contextlib
import faulthandler
import gc
import io
import json
import os
import random
import runpy
import sys
import traceback
from pathlib import Path

import numpy
import torch
import torch._dynamo  # as the first optimizer would
from torch.optim.optimizer import register_optimizer_step_post_hook

# Units: seconds; only a deadlock takes so long.
LIMIT = 240


class Tracer:
    """Hooks into every backward pass and every optimizer step."""

    def __init__(self):
        self.losses, self.weights = [], []
        self.plain = torch.autograd.backward

    def __enter__(self):
        torch.autograd.backward = self.backward
        self.hook = register_optimizer_step_post_hook(self.stepped)
        return self

    def __exit__(self, *error):
        torch.autograd.backward = self.plain
        self.hook.remove()

    def backward(self, tensors, *args, **kwargs):
        listed = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        self.losses.append(float(sum(t.detach().sum() for t in listed)))
        self.weights.append(total(parameters(listed)))
        return self.plain(tensors, *args, **kwargs)

    def stepped(self, optimizer, args, kwargs):
        self.weights.append(total(p for group in optimizer.param_groups for p in group["params"]))


def parameters(tensors):
    """The parameters that a graph leads to."""
    seen, stack, found = set(), [t.grad_fn for t in tensors], {}
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.nn.Parameter):
            found[id(variable)] = variable
        stack.extend(following for following, _ in node.next_functions)
    return found.values()


def total(tensors):
    """A number that is the same where the tensors are the same, in whatever order they come."""
    return sum(sorted(float((t.detach().double() ** 2 + t.detach().double()).sum()) for t in tensors))


def run(folder):
    os.chdir(folder)
    gc.collect()  # a loop of the script before that was never left ends here, and not after this one's seed
    known = set(sys.modules)
    sys.path[0], sys.argv = str(folder), ["train.py"]
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    printed, error = io.StringIO(), None
    with Tracer() as tracer, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            runpy.run_path("train.py", run_name="__main__")
        except SystemExit as status:
            error = f"exit status {status.code}" if status.code else None
        except Exception:
            error = traceback.format_exc()
    forget_settings()
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    return {"losses": tracer.losses, "weights": tracer.weights, "printed": printed.getvalue(), "error": error}


def forget_settings():
    """Accelerate keeps the settings of the first accelerator for the whole process."""
    if "accelerate.state" in sys.modules:
        sys.modules["accelerate.state"].AcceleratorState._reset_state()


def main(manifest):
    rank = os.environ.get("RANK", "0")
    todo = json.loads(Path(manifest).read_text())
    gc.collect()
    gc.freeze()  # what is imported stays, and each `gc.collect` would go through it
    for job in todo:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        outcome = run(Path(job["folder"]))
        Path(f"{job['trace']}.{rank}").write_text(json.dumps(outcome))
        if outcome["error"] and "RANK" in os.environ:
            os._exit(1)
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(sys.argv[1])
