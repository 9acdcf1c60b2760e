"""Snippets on a GPU that is not present, in a process of their own: what each prints, or the error that ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest
import torch

NEEDED = pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends written in Python",
)
_HARNESS = """
import contextlib, copy, io, json, sys
import torch
from torch import nn
from accelify.verify.inside.pretend.install import install

class Places:
    def write(self, event, **fields):
        pass

    def place(self):
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != "s.py":
            frame = frame.f_back
        return f"s.py:{frame.f_lineno}" if frame else None

given, answers = json.loads(sys.stdin.read()), []
with install(Places(), given["gpus"]):
    for text in given["snippets"]:
        printed, names = io.StringIO(), {"torch": torch, "nn": nn, "io": io, "copy": copy}
        exec(given["before"], names)
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(text, "s.py", "exec"), names)
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
        exec(given["after"], names)
        answers.append(printed.getvalue().strip())
print(json.dumps(answers))
"""


def answers(snippets: Iterable[str], *, gpus: int, before: str = "", after: str = "") -> list[str]:
    """What each snippet prints, with `torch`, `nn`, `io`, `copy` and the names of `before`; `after` runs at its end."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _HARNESS],
        input=json.dumps({"gpus": gpus, "before": before, "after": after, "snippets": list(snippets)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found
