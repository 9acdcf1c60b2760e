"""Runs one rank's script as `python script.py` would, and records the error that stopped it.

The launcher starts this file by its path, once for each rank: `python bootstrap.py script|module NAME ARGS...`.
It imports neither torch nor the rest of accelify: the script decides what is imported, and when.
Beside its arguments it reads four variables, which the script does not see: ACCELIFY_SHOWN (1: this
rank's output goes to the terminal), ACCELIFY_ONE_LOG (1: both streams go to the log that standard output is),
ACCELIFY_LAUNCHER (the launcher's process id) and ACCELIFY_SEED (where all ranks' random numbers start).
"""

# The interpreter joins these paths as text, and what the script sees must match to the letter: no pathlib.
# ruff: noqa: PTH105, PTH109, PTH110, PTH112, PTH118, PTH120, PTH123

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this file's own folder: its `config.py` must never answer for somebody's `import config`

import atexit
import builtins
import faulthandler
import io
import json
import os
import random
import runpy
import select
import signal
import socket
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, TracebackType

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
STACK_SIGNAL = 7  # the real-time signal, counted from SIGRTMIN, that asks a rank for its stack
PR_SET_PDEATHSIG = 1  # linux/prctl.h
READER_GONE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 141  # what a program without Python ends with
OTHER_WAYS = ("horovod", "mpi4py", "torch_xla")  # to join the ranks without torch.distributed
ALONE = (
    "accelify: each of the {} processes trains by itself, a copy of the others unless the script divides the work: it "
    "uses neither accelify nor torch.distributed. `accelify rewrite` migrates it, `--num-processes 1` runs it once"
)


def main() -> None:
    """Run the program named on the command line; whatever ends it ends this process in the same way."""
    kind, program, *arguments = sys.argv[1:]
    shown = os.environ.pop("ACCELIFY_SHOWN", "") == "1"
    die_with(int(os.environ.pop("ACCELIFY_LAUNCHER", "0")))
    faulthandler.enable()
    show_stack_when_asked()
    seed = os.environ.pop("ACCELIFY_SEED", "")
    if seed:
        _start_random_numbers(int(seed))
    one_log = os.environ.pop("ACCELIFY_ONE_LOG", "") == "1"
    if not shown:
        _detach(one_log)
    try:
        if kind == "module":
            _run_module(program, arguments)
        else:
            _run_script(program, arguments)
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and shown and has_no_reader(1):
            os._exit(READER_GONE)  # nothing of what is still to be printed would arrive
        if not (isinstance(error, SystemExit) and error.code in (None, 0)):
            _record(error, program, shown)
            sys.last_value = error  # as the interpreter does, but for SystemExit, too
        if not isinstance(error, SystemExit):
            _print_traceback(error, shown)
        raise


def has_no_reader(descriptor: int) -> bool:
    """Whether nobody reads what is written there, as after `| head -1`."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _start_random_numbers(seed: int) -> None:
    """Have every rank draw the same numbers from the first line on, as a script may split its data before all else.

    The seed is another one in each run, as it is without a launcher; what the script seeds itself stays so.
    """
    random.seed(seed)
    sys.meta_path.insert(0, _SeededWhenImported(seed))


def work_on_own_gpu() -> None:
    """Have "cuda" mean this rank's own GPU from the first tensor on: modules may make some while they are imported.

    `Accelerator()` and scripts that distribute themselves choose the same one, but later. Nothing happens before CUDA
    starts, as a script may still hide GPUs until then.
    """
    rank = os.environ.get("LOCAL_RANK", "")
    cuda = getattr(sys.modules["torch"], "cuda", None)
    when_it_starts = getattr(cuda, "_lazy_call", None)  # as `torch.cuda.manual_seed` has its seed set then
    if not rank.isdigit() or cuda is None or when_it_starts is None:
        return

    def choose() -> None:
        if int(rank) < cuda.device_count():
            cuda.set_device(int(rank))

    when_it_starts(choose)


def warn_when_training_alone() -> None:
    """Have rank 0 warn at the first optimizer step that it takes without having joined the other ranks."""
    if os.environ.get("RANK") != "0":
        return
    optimizers = sys.modules.get("torch.optim.optimizer")
    if optimizers is None:
        return  # what the script imports as `torch` is a stand-in without optimizers
    distributed = sys.modules["torch"].distributed
    is_first_step = True

    def warn(*_: object) -> None:
        nonlocal is_first_step
        if not is_first_step:
            return
        is_first_step = False  # the hook stays: torch iterates over its hooks while it calls them, so none may leave
        is_joined = distributed.is_available() and distributed.is_initialized()
        if not is_joined and not any(name in sys.modules for name in OTHER_WAYS):
            print(ALONE.format(os.environ.get("WORLD_SIZE")), file=sys.stderr, flush=True)

    optimizers.register_optimizer_step_post_hook(warn)


class _SeededWhenImported:
    """Finds libraries whose random numbers start somewhere when they are imported, and has them start at the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.seeders = {"numpy.random": "seed", "torch": "manual_seed"}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As an entry of `sys.meta_path`: the module's own spec, with a loader that seeds it at the end."""
        seeder = self.seeders.pop(name, None)
        spec: ModuleSpec | None = PathFinder.find_spec(name, path, target) if seeder else None
        if spec is None or spec.loader is None or seeder is None:
            return None
        load = spec.loader.exec_module

        def load_and_seed(module: ModuleType) -> None:
            load(module)
            getattr(module, seeder)(self.seed)
            if name == "torch":
                work_on_own_gpu()
                warn_when_training_alone()

        setattr(spec.loader, "exec_module", load_and_seed)  # noqa: B010  a method, to the type checker
        return spec


def _run_script(path: str, arguments: list[str]) -> None:
    """Execute a file as `__main__`, with `sys.argv` and `sys.path[0]` as the interpreter sets them."""
    sys.argv = [path, *arguments]
    if os.path.isdir(path) or (not path.endswith(".py") and _is_archive(path)):
        runpy.run_path(path, run_name="__main__")
        return
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    full = os.path.join(os.getcwd(), path)
    module = ModuleType("__main__")
    module.__file__ = full
    module.__loader__ = SourceFileLoader("__main__", full)
    vars(module).update(__builtins__=builtins, __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    atexit.register(_flush_files, vars(module))  # behind what the script registers, which may still write
    with open(full, "rb") as file:
        source = file.read()
    exec(compile(source, full, "exec", dont_inherit=True), vars(module))


def _flush_files(variables: dict[str, object]) -> None:
    """Write out what the files hold that a script leaves open, even where a library keeps its variables to the end."""
    for value in list(variables.values()):
        if isinstance(value, io.IOBase) and not value.closed:
            with suppress(OSError, ValueError):
                value.flush()


def _run_module(name: str, arguments: list[str]) -> None:
    """Execute an importable module as `python -m` does: the current folder comes first on the path."""
    sys.argv = [name, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _is_archive(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def die_with(launcher: int) -> None:
    """Ask Linux to end this process when the launcher is gone, even if that was killed outright."""
    if not launcher or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(1)


def show_stack_when_asked() -> None:
    """Let the launcher see where this rank is when another one has failed or waits, even from inside a collective."""
    path = os.environ.get(ERROR_FILE)
    if path and hasattr(signal, "SIGRTMIN"):
        name = path.replace(".error.json", ".stack")
        stacks = open(f"{name}.part", "w")  # noqa: SIM115  open as long as the process lives
        faulthandler.register(signal.SIGRTMIN + STACK_SIGNAL, stacks, all_threads=False)
        os.replace(f"{name}.part", name)  # the launcher asks only once this is there: unregistered, the signal kills


def _detach(one_log: bool) -> None:
    """Let a rank that is not shown write both its streams to one log, and leave the terminal's input alone."""
    null = _terminal_without_input() if os.isatty(0) else os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if one_log:
        os.dup2(1, 2)


def _terminal_without_input() -> int:
    """A terminal of the size of standard input's, for those that ask for it (`stty size`); who reads gets an end."""
    import fcntl
    import termios

    master, terminal = os.openpty()  # the master stays open, else whoever reads gets an error
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    os.write(master, b"\x04" * 64)
    return terminal


def _own_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the script's first frame on, without this file's and runpy's."""
    frame = error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if name != __file__ and not name.startswith("<frozen ") and not name.endswith(f"{os.sep}runpy.py"):
            return frame
        frame = frame.tb_next
    return None


def _place(error: BaseException, program: str) -> dict[str, object] | None:
    """The deepest line of the script itself that the error passed through."""
    first = _own_frames(error)
    main = first.tb_frame.f_code.co_filename if first is not None else os.path.join(os.getcwd(), program)
    if isinstance(error, SyntaxError) and error.filename == main:
        return {"file": main, "line": error.lineno, "function": "<module>", "text": (error.text or "").strip()}
    frames = [frame for frame in traceback.extract_tb(first) if frame.filename == main]
    if not frames:
        return None
    last = frames[-1]
    return {"file": main, "line": last.lineno, "function": last.name, "text": (last.line or "").strip()}


def _record(error: BaseException, program: str, shown: bool) -> None:
    """Write the error file that the elastic agent and the launcher read; a file that is there already says more."""
    path = os.environ.get(ERROR_FILE)
    if not path or os.path.exists(path):
        return
    write_error(path, error, _own_frames(error), place=_place(error, program), shown=shown and _has_own_hook())


def write_error(
    path: str, error: BaseException, frames: TracebackType | None, *, place: object = None, shown: bool = False
) -> None:
    """Write an error file in the agent's format, with what we know beside it; it is complete or absent."""
    text = "" if isinstance(error, SystemExit) else "".join(traceback.format_exception(type(error), error, frames))
    report = {
        "message": {
            "message": "".join(traceback.format_exception_only(type(error), error)).strip(),
            "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))},
        },
        "accelify": {
            "time": time.time(),
            "exit_code": _exit_code(error),
            "host": socket.gethostname(),
            "place": place,
            "interrupted": isinstance(error, KeyboardInterrupt),
            "shown": shown,
        },
    }
    # Not by accelify.atomic, which this file may not import; the launcher reads it soon, and no crash of the machine.
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(f"{path}.part", path)


def _exit_code(error: BaseException) -> int:
    """The interpreter's exit status after an error, negative for a signal."""
    if isinstance(error, KeyboardInterrupt):
        return -signal.SIGINT
    return error.code % 256 if isinstance(error, SystemExit) and isinstance(error.code, int) else 1


def _has_own_hook() -> bool:
    """Whether the script prints its tracebacks itself; `torch.distributed` sets a hook that only adds the rank."""
    module = str(getattr(sys.excepthook, "__module__", ""))
    return sys.excepthook is not sys.__excepthook__ and not module.startswith("torch.")


def _print_traceback(error: BaseException, shown: bool) -> None:
    """Print the traceback where `python script.py` would, except on the rank whose traceback the launcher shows."""
    frames = _own_frames(error)
    if _has_own_hook():
        sys.excepthook(type(error), error, frames)
    elif not shown:
        sys.__excepthook__(type(error), error.with_traceback(frames), frames)
    sys.excepthook = lambda *_: None  # the interpreter still sets the exit status


if __name__ == "__main__":
    main()
