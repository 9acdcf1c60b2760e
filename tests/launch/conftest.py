"""Real launches in real processes: what they print, what they leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds until a wait is given up; no test measures time


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait for something that will happen; say what did not."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


@dataclass
class Shell:
    """A folder with scripts and the processes started in it, recognised by a variable of their own."""

    folder: Path
    mark: str
    temporary: Path

    def script(self, text: str, name: str = "train.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def environment(self, **variables: str) -> dict[str, str]:
        left_out = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
        base = {k: v for k, v in os.environ.items() if k not in left_out and not k.startswith("ACCELIFY_")}
        base |= {"PYTHONPATH": str(ROOT), "LAUNCH_TEST_MARK": self.mark, "TMPDIR": str(self.temporary)}
        return base | variables

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start `accelify COMMAND...` without waiting for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "accelify", *command],
            cwd=self.folder,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `accelify COMMAND...` to its end."""
        process = self.start(*command, **variables)
        out, err = process.communicate(timeout=2 * PATIENCE)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def python(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run plain `python COMMAND...` to its end, for comparison."""
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def processes(self) -> list[int]:
        """Every living process that was started from here, however deep below."""
        mark, found = f"LAUNCH_TEST_MARK={self.mark}".encode(), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                is_ours = entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0")
                if is_ours and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(int(entry.name))
        return found

    def lines(self, pattern: str) -> list[str]:
        """The lines of every file of that name pattern in the folder."""
        return [line for path in sorted(self.folder.glob(pattern)) for line in path.read_text().splitlines()]

    def logs(self) -> list[Path]:
        """Log folders that launches have left in the temporary folder."""
        return sorted(self.temporary.glob("accelify-*"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    folder, temporary = tmp_path / "project", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    (folder / ".git").mkdir()  # no configuration above this folder counts
    shell = Shell(folder, uuid.uuid4().hex, temporary)
    yield shell
    for pid in shell.processes():
        os.kill(pid, signal.SIGKILL)
