"""One rank's life: seed, record, run the script as `python script.py` would, and say how it ended."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import inspect
import linecache
import os
import runpy
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn  # an order is JSON

from accelify.codemod.files.source import decode, is_notebook
from accelify.verify.inside import float64, natures, options, perturbation, prints, samples, training, writes
from accelify.verify.inside.reach import Reach
from accelify.verify.inside.record import Recorder

# How long a rank that has taken its steps waits for the others to have taken theirs. Units: seconds.
PATIENCE = 30.0
HERE = str(Path(__file__).parent.parent.parent)


def run(order: dict[str, Any]) -> NoReturn:
    """Run the script that the order names and end the process."""
    recorder = Recorder(order["trace"], order["root"])
    stacks = os.open(order["stacks"], os.O_WRONLY | os.O_CREAT, 0o600)
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True, chain=True)  # chained to the signal's own end
    _seed(order["seed"])
    ending = Ending(recorder, order["meeting"], order["rank"], order["world"])
    script = order["script"]
    sys.argv = [order["shown"], *order["arguments"]]
    sys.path.insert(0, order["folder"] if order["module"] else str(Path(script).parent))
    try:
        with _watched(recorder, order, ending):
            if order["module"]:
                runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
            else:
                (_run_notebook if is_notebook(script) else _run_as_main)(script)
    except SystemExit as leaving:
        ending.leave(leaving.code)
    except BaseException as error:
        ending.fail(error)
    else:
        ending.leave(0)


def _watched(recorder: Recorder, order: dict[str, Any], ending: Ending) -> AbstractContextManager[object]:
    """Change what makes the run comparable, and record what it does; `bare`: only guard the user's files."""
    if order["synthetic"]:
        from accelify.verify.inside import synthetic

        synthetic.install(recorder, order["synthetic"])
    if not order["launched"]:
        _share_random_numbers()
    _share_batches(recorder, order["split"])
    if order["summed"]:
        _add_up_losses()
    if order["undivided"]:
        _give_all_batches()
    reach = Reach(recorder, order["reach"], order["until"])
    if order["bare"]:
        training.count_steps(recorder, order["steps"], ending.stop)
    else:
        if order["float64"]:
            float64.install()
        natures.install(recorder, order["comparable"], order["rank"], notes_states=order["launched"])
        training.install(recorder, order["steps"], reach, ending.stop)
        samples.install(recorder, reach, order["whole"], order["part"])
        prints.install(recorder, reach)
        options.install(recorder)
        if order["perturbed"] is not None:
            perturbation.install(order["perturbed"])
    folders = order["root"], order["protected"], order["own"], order["temporary"]
    writes.install(recorder, reach, *folders, looks_into=not order["bare"])
    if order["operations"]:
        from accelify.verify.inside.operations import Operations

        return Operations(recorder)
    if order["device"] != "pretend":
        return nullcontext()
    from accelify.verify.inside.pretend.install import install

    return install(recorder, order["world"])


def _seed(seed: int) -> None:
    import random

    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def _share_random_numbers() -> None:
    """Have every rank draw what one process draws, in loops over its data, too: only that can be compared."""
    from accelify.runtime.accelerator import Accelerator

    real = Accelerator.__init__

    @functools.wraps(real)
    def start(self: Accelerator, *given: Any, **settings: Any) -> None:
        real(self, *given, **settings)
        self._streams.share_always()

    Accelerator.__init__ = start  # type: ignore[method-assign]


def _share_batches(recorder: Recorder, split: bool) -> None:
    """Have every Accelerator divide the script's batch among the ranks, so that the global batch is the original's."""
    if not split:
        return
    import torch

    from accelify.runtime.accelerator import Accelerator

    real = Accelerator.__init__
    signature = inspect.signature(real)

    @functools.wraps(real)
    def start(self: Accelerator, *given: Any, **settings: Any) -> None:
        asked = signature.bind(self, *given, **settings)
        if asked.arguments.get("dataloader_config") is None:
            asked.arguments["split_batches"] = True
        real(*asked.args, **asked.kwargs)

    original = Accelerator.shard

    def shard(self: Accelerator, elements: Any, *, even: bool = True) -> Any:
        if even and torch.is_grad_enabled():  # nothing is learned in an evaluation
            recorder.write("shard", at=recorder.place())
        return original(self, elements, even=even)

    Accelerator.shard = shard  # type: ignore[method-assign]
    Accelerator.__init__ = start  # type: ignore[method-assign]


def _add_up_losses() -> None:
    """Have losses that are sums over the batch count so that the ranks' mean is the sum over the whole batch."""
    from accelify.runtime.accelerator import Accelerator

    real = Accelerator.backward

    def backward(self: Accelerator, loss: Any, **options: Any) -> None:
        step = self._data.passes.step
        share = 1.0 if step is None else step.weight(self.process_index)
        real(self, loss * (self.num_processes / share) if share else loss, **options)

    Accelerator.backward = backward  # type: ignore[method-assign]


def _give_all_batches() -> None:
    """Have every rank's loaders give the whole of every batch."""
    from accelify.runtime.accelerator import Accelerator

    real = Accelerator.__init__

    @functools.wraps(real)
    def start(self: Accelerator, *given: Any, **settings: Any) -> None:
        real(self, *given, **settings)
        self._data.sharding = replace(self._data.sharding, rank=0, size=1)

    Accelerator.__init__ = start  # type: ignore[method-assign]


def _run_as_main(script: str) -> None:
    code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
    exec(code, _main(__file__=script))


def _run_notebook(path: str) -> None:
    """Run the code cells in their order; what is IPython's own in them is left out."""
    notebook = decode(Path(path).read_bytes(), path).notebook
    assert notebook is not None
    names = _main(display=lambda *shown, **how: None, get_ipython=_IPython)
    for cell in notebook.cells:
        name = f"{path}:cell {cell.number}"
        linecache.cache[name] = len(cell.source), None, cell.source.splitlines(keepends=True), name
        exec(compile(cell.python, name, "exec", dont_inherit=True), names)


class _IPython:
    """Stands for the shell of a notebook, and does nothing that it is asked for."""

    def __getattr__(self, name: str) -> Callable[..., list[str]]:
        return lambda *arguments, **options: []


def _main(**names: Any) -> dict[str, Any]:
    module = types.ModuleType("__main__")
    vars(module).update(__builtins__=__builtins__, __spec__=None, **names)
    sys.modules["__main__"] = module
    return vars(module)


class Ending:
    """The ways in which a rank ends; each is recorded, with the word to the other ranks that it is done."""

    def __init__(self, recorder: Recorder, meeting: str, rank: int, world: int) -> None:
        self._recorder = recorder
        self._meeting = Path(meeting)
        self._rank = rank
        self._world = world

    def stop(self) -> NoReturn:
        """End here, in the middle of training, once the other ranks have come as far; nothing of the script runs on."""
        self._recorder.write("end", how="steps", code=0)
        self._flush()
        self._mark()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and len(list(self._meeting.iterdir())) < self._world:
            time.sleep(0.005)
        os._exit(0)

    def leave(self, code: object) -> NoReturn:
        """The script has ended by itself."""
        status = code if isinstance(code, int) else int(code is not None)
        if isinstance(code, str):
            print(code, file=sys.stderr)
        self._recorder.write("end", how="exit", code=status)
        self._settle(status)

    def fail(self, error: BaseException) -> NoReturn:
        """The script has failed."""
        sys.last_value = error  # as the interpreter does before it runs what was registered for the end
        entries = [entry for entry in traceback.extract_tb(error.__traceback__) if not entry.filename.startswith(HERE)]
        inside = traceback.extract_tb(error.__traceback__)
        shown = entries if entries else list(inside)
        text = "".join(traceback.format_list(shown)) + "".join(traceback.format_exception_only(type(error), error))
        own = [entry for entry in inside if self._recorder.owns(entry.filename)]
        place = self._recorder.named(own[-1].filename, own[-1].lineno) if own else None
        message = traceback.format_exception_only(type(error), error)[-1].strip()
        print(text, file=sys.stderr)
        self._recorder.write("end", how="error", code=1, message=message, at=place, traceback=text)
        self._settle(1)

    def _settle(self, status: int) -> NoReturn:
        """End as Python would: wait for threads, run what was registered for the end."""
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        self._mark()
        atexit._run_exitfuncs()
        self._flush()
        os._exit(status)

    def _mark(self) -> None:
        (self._meeting / str(self._rank)).touch()

    @staticmethod
    def _flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
