"""Real launches in real processes: what they print, what they leave behind."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forked
from tests.interpreters import PYTHONPATH
from tests.ports import free_port

PATIENCE = 240.0  # seconds until a wait is given up; no test measures time


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
        base |= {"PYTHONPATH": PYTHONPATH, "LAUNCH_TEST_MARK": self.mark, "TMPDIR": str(self.temporary)}
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
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def launch(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `accelify launch ARGUMENTS...`, which starts ranks, to its end; it forks where torch is imported."""
        return forked.run("launch", ["launch", *arguments], self.folder, self.environment(**variables))

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


def ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True, text=True)


@pytest.fixture
def networks() -> Iterator[tuple[str, str]]:
    """Two network namespaces, 10.77.0.1 and 10.77.0.2, with one cable between them."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2's `ip`")
    tag = uuid.uuid4().hex[:6]
    names = (f"ac{tag}a", f"ac{tag}b")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", f"v{tag}a", "type", "veth", "peer", "name", f"v{tag}b")
        for letter, name, address in zip("ab", names, ("10.77.0.1/24", "10.77.0.2/24"), strict=True):
            ip("link", "set", f"v{tag}{letter}", "netns", name)
            ip("-n", name, "address", "add", address, "dev", f"v{tag}{letter}")
            ip("-n", name, "link", "set", f"v{tag}{letter}", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error.stderr.strip()}")
    else:
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


CLUSTER = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/socket
SlurmctldPort={ports[0]}
FirstJobId={first}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES State=UP OverSubscribe=YES
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A SLURM of two nodes, both on this machine; gives the path of its slurm.conf."""
    programs = ("slurmctld", "slurmd", "srun", "munged")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"a SLURM of our own needs root and {', '.join(programs)}; missing: {missing}")
    started: list[subprocess.Popen[bytes]] = []
    # not below pytest's folder: the path of a socket may have 107 bytes only
    with tempfile.TemporaryDirectory(prefix="accelify-slurm-") as name:
        folder = Path(name)
        (folder / "state").mkdir()
        conf = folder / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        # Two clusters never are on one machine but here; a job's number says on which port its ranks meet.
        conf.write_text(
            CLUSTER.format(
                host=host, folder=folder, ports=[free_port() for _ in range(3)], first=random.randrange(1, 10**7)
            )
        )
        environment = os.environ | {"SLURM_CONF": str(conf)}
        try:
            secret = folder / "key"
            secret.write_bytes(os.urandom(1024))
            secret.chmod(0o600)
            own = [f"--{name}={folder / name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
            munged = ["munged", "--foreground", "--force", f"--key-file={secret}", *own]
            started.append(subprocess.Popen(munged, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait_until((folder / "socket").exists, "munged")
            daemons = (["slurmctld", "-D", "-c"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"])
            quiet = subprocess.DEVNULL
            started += [subprocess.Popen(daemon, env=environment, stdout=quiet, stderr=quiet) for daemon in daemons]

            def idle() -> bool:
                state = subprocess.run(
                    ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False
                )
                return state.stdout.split() == ["idle"]

            wait_until(idle, "both nodes to be idle")
            yield str(conf)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(PATIENCE)
