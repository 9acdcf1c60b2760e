"""Run `accelify` as a user does, in a folder of one's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import forked
from tests.test_cli import DECLINED, NO_LOOP, PLAIN

__all__ = ["DECLINED", "NO_LOOP", "PLAIN", "WRITES", "accelify", "rewrite", "write"]

_LOG = "    with open('log.txt', 'a') as log:\n        log.write('x')\n"
WRITES = PLAIN.replace("        optimizer.step()\n", f"        optimizer.step()\n{_LOG}")


def accelify(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command; nothing that it prints may be a traceback."""
    done = forked.accelify(*arguments, stdin=stdin, **variables)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def rewrite(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return accelify("rewrite", *arguments, stdin=stdin)


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
