"""Run `accelify` in forks of one interpreter that has imported it, which takes longer than most of what it does.

A fork that has torch takes a quarter of a second, a fifth of what importing torch takes: it is for launches of ranks.

A fork has arguments, a folder, an environment, streams and an exit status of its own. What depends on how an
interpreter starts (its imports, its encodings, a stream that is closed) needs one: `python -m accelify`.
"""

from __future__ import annotations

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
    server = _server(kind)
    assert server.stdin is not None
    assert server.stdout is not None
    with TemporaryDirectory() as temporary:
        streams = [Path(temporary, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin.encode())
        order = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": dict(environment),
            "streams": list(map(str, streams)),
        }
        print(json.dumps(order), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], LIMIT)[0]:
            server.kill()
            _server.cache_clear()
            raise subprocess.TimeoutExpired(["accelify", *arguments], LIMIT)
        status = int(server.stdout.readline())
        out, err = (path.read_text("utf-8") for path in streams[1:])
        return subprocess.CompletedProcess(["accelify", *arguments], status, out, err)


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


IMPORTS = {"rewrite": import_rewrite, "launch": import_launch}


def serve(kind: str) -> None:
    """Fork for each order that comes in, and answer with the exit status."""
    IMPORTS[kind]()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            become(**json.loads(line))
            return
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(arguments: list[str], folder: str, environment: dict[str, str], streams: list[str]) -> None:
    """Be `python -m accelify`, started there."""
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv[1:] = arguments
    runpy.run_module("accelify", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(sys.argv[1])
