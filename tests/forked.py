"""Run `accelify` and ranks in forks of one interpreter that has imported them, which takes longer than what most do.

A fork that has torch takes a quarter of a second, a fifth of what importing torch takes: it is for launches of ranks.

A fork has arguments, a folder, an environment, streams and an exit status of its own. What depends on how an
interpreter starts (its imports, its encodings, a stream that is closed) needs one: `python -m accelify`.
"""

from __future__ import annotations

import builtins
import functools
import gc
import json
import os
import runpy
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from tests.interpreters import PYTHONPATH, ROOT

LIMIT = 300.0  # seconds: a bound for what would take hours; on an idle machine all of it takes less than a minute
SCRIPT = b"import torch\nfor x in data:\n    model(x).backward()\n    optimizer.step()\n"


def accelify(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the test stands."""
    return run("rewrite", arguments, Path.cwd(), {**os.environ, **variables}, stdin)


def run(
    kind: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command in a fork of the interpreter that has imported what commands of this kind need: see `IMPORTS`."""
    with TemporaryDirectory() as temporary:
        streams = [Path(temporary, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin.encode())
        order = {
            "arguments": ["-m", "accelify", *arguments],
            "folder": str(folder),
            "environment": dict(environment),
            "streams": list(map(str, streams)),
        }
        (status,) = _run_forks(kind, [order], LIMIT)
        out, err = (path.read_text("utf-8") for path in streams[1:])
        return subprocess.CompletedProcess(["accelify", *arguments], status, out, err)


def run_ranks(
    arguments: Sequence[str], folder: Path, environments: Sequence[Mapping[str, str]], limit: float
) -> list[tuple[int, str]]:
    """Run `python ARGUMENTS` as so many ranks at a time; the exit status of each and all that it printed."""
    with TemporaryDirectory() as temporary:
        outputs = [Path(temporary, str(rank)) for rank in range(len(environments))]
        orders = [
            {
                "arguments": arguments,
                "folder": str(folder),
                "environment": dict(environment),
                "streams": [os.devnull, str(output), str(output)],
            }
            for environment, output in zip(environments, outputs, strict=True)
        ]
        statuses = _run_forks("rank", orders, limit)
        return [(status, output.read_text("utf-8")) for status, output in zip(statuses, outputs, strict=True)]


def _run_forks(kind: str, orders: Sequence[Mapping[str, object]], limit: float) -> list[int]:
    """Have forks run side by side; their exit statuses."""
    server = _server(kind)
    assert server.stdin is not None
    assert server.stdout is not None
    print(json.dumps(orders), file=server.stdin, flush=True)
    if not select.select([server.stdout], [], [], limit)[0]:
        server.kill()
        _server.cache_clear()
        raise subprocess.TimeoutExpired(kind, limit)
    return list(map(int, server.stdout.readline().split()))


@functools.cache
def _server(kind: str) -> subprocess.Popen[str]:
    """Ends with the process that runs the tests, whose orders it reads."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.forked", kind],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def import_rewrite() -> None:
    import accelify.commands.rewrite  # noqa: F401
    from accelify.codemod.rewrite import Options, rewrite_source

    rewrite_source("train.py", SCRIPT, Options())  # imports what a rewrite needs


def import_launch() -> None:
    import accelify.commands.launch
    from accelify.runtime.launch.ranks import import_torch

    import_torch(quiet=True)
    import accelify.runtime.launch.agent  # noqa: F401  after torch, which reads only once how much it may say


def import_rank() -> None:
    import torch.distributed.nn.functional

    import accelify.runtime.accelerator  # noqa: F401

    torch.set_num_threads(1)


IMPORTS = {"rewrite": import_rewrite, "launch": import_launch, "rank": import_rank}


def serve(kind: str) -> None:
    """Fork for each of the orders that come in together, and answer with the exit statuses."""
    IMPORTS[kind]()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        forks = []
        for order in json.loads(line):
            if (pid := os.fork()) == 0:
                if kind == "rank":
                    begin_rank()
                become(**order)
                return
            forks.append(pid)
        print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in forks), flush=True)


def begin_rank() -> None:
    """End with the server, and draw other numbers than the other ranks, as a rank of its own would."""
    import numpy

    from accelify.runtime.launch.bootstrap import die_with

    die_with(os.getppid())
    numpy.random.seed()


def become(arguments: list[str], folder: str, environment: dict[str, str], streams: list[str]) -> None:
    """Be `python ARGUMENTS`, started there."""
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)  # two streams may share a file
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    program, *sys.argv[1:] = arguments
    if program == "-m":
        sys.path[0] = folder
        module = sys.argv.pop(1)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv[0] = str(Path(program).parent), program
        main = sys.modules["__main__"] = ModuleType("__main__")
        vars(main).update(__file__=program, __builtins__=builtins, __spec__=None)
        exec(compile(Path(program).read_bytes(), program, "exec", dont_inherit=True), vars(main))


if __name__ == "__main__":
    serve(sys.argv[1])
