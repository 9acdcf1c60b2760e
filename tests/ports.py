"""Ports that nobody else is given, for tests that name one before it is opened."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_000


def free_port() -> int:
    """A free port, below those that the system gives away; no two processes of one test run get the same one."""
    end = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    mine = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = random.SystemRandom().randrange(FIRST + mine, max(end, FIRST + 1000), workers)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
