"""Imports torch once, then forks a process for each rank of each run: `python -m accelify.verify.inside.server`.

It reads one JSON order a line on stdin and answers with {"ready"}, {"started", "pid"} and {"ended", "status"} lines; or
with {"cannot"} and its own end.
Where ranks are to meet, it forks a process of its own for their store, on a port that the system picks.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn  # an order is JSON

# How often the ends of children are looked for. Units: seconds.
INTERVAL = 0.02


def main() -> None:
    """Serve until stdin closes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints while it is imported is no answer
    here = str(Path.cwd())
    sys.path[:] = [folder for folder in sys.path if folder not in ("", here)]
    try:
        _prepare()
    except ImportError as error:
        print(json.dumps({"cannot": f"{sys.executable} cannot import what the runs need ({error})"}), file=answers)
        return
    print(json.dumps({"ready": True}), file=answers)
    running: dict[int, str] = {}
    pending = b""
    while True:
        if select.select([0], [], [], INTERVAL if running else None)[0]:
            data = os.read(0, 65536)
            if not data:  # whoever asked is gone, however it went
                for pid in running:
                    kill(pid)
                    with suppress(ChildProcessError):  # once this process is gone, so are they
                        os.waitpid(pid, 0)
                return
            *orders, pending = (pending + data).split(b"\n")
            for order in map(json.loads, orders):
                answers.flush()
                pid = os.fork()
                if pid == 0:
                    try:
                        _become(order)
                    finally:  # a fork must never go on as a second server
                        traceback.print_exc()
                        os._exit(1)
                running[pid] = order["id"]
                print(json.dumps({"started": order["id"], "pid": pid}), file=answers)
        for identity, status in _ended(running):
            print(json.dumps({"ended": identity, "status": status}), file=answers)


def kill(pid: int) -> None:
    """End a rank that has not been waited for yet, and the processes that it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not come to lead a group of its own yet, and has started nobody
        os.kill(pid, signal.SIGKILL)
    except PermissionError:  # macOS says so of a group that has ended
        pass


def _prepare() -> None:
    import numpy  # noqa: F401
    import torch
    import torch.distributed
    import torch.utils.data

    import accelify.runtime.accelerator  # noqa: F401

    torch.set_num_threads(1)
    # Both import as much again as torch itself, which each rank would otherwise do anew.
    torch.optim.SGD([torch.zeros(1)])
    torch.use_deterministic_algorithms(True, warn_only=True)
    gc.collect()
    gc.freeze()  # what is imported stays: no rank's collector need go through it, and so copy it


def _ended(running: dict[int, str]) -> list[tuple[str, int]]:
    ended = []
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        ended.append((running.pop(pid), os.waitstatus_to_exitcode(status)))
    return ended


def _become(order: dict[str, Any]) -> NoReturn:
    """Turn this fork into the rank, or the store, that was ordered."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 64)
    os.environ.update(order["variables"])
    tempfile.tempdir = None  # TMPDIR has changed since anything asked
    if "port" in order:
        _hold_store(Path(order["port"]))
    os.chdir(order["folder"])
    from accelify.verify.inside.child import run

    run(order)


def _hold_store(place: Path) -> NoReturn:
    """Keep the store through which ranks meet until somebody ends this process; its port is written to a file."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but left out of __all__

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    part = place.with_suffix(".part")
    part.write_text(str(store.port))
    part.replace(place)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
