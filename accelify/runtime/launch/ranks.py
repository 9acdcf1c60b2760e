"""The ranks of one machine: started by the elastic agent, their output kept, their failure reported.

This is the launcher's side once there is more than one process; torch is imported when they are started.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from accelify.runtime.launch.bootstrap import READER_GONE, has_no_reader
from accelify.runtime.launch.failure import Failure, describe, first_failure, read_failure
from accelify.runtime.launch.plan import CannotLaunch, Launch
from accelify.runtime.launch.stacks import latest
from accelify.runtime.launch.stalls import Watch

if TYPE_CHECKING:
    from torch.distributed.elastic.agent.server.api import RunResult
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    from accelify.runtime.launch.agent import RankLogs

SIOCGIFADDR = 0x8915  # linux/sockios.h
MEET_TIMEOUT = 600  # seconds until the other machines must be there, torchrun's own


def run_ranks(launch: Launch) -> int:
    """Run all ranks of this machine to their end and return the exit status.

    Raises: CannotLaunch when the machines could not meet.
    """
    check_meeting_point(launch)
    address = own_address(launch)
    if launch.machines[0] != launch.machines[1]:
        # Sharing the agents' store, torch 2.13 sends its address in the first round only; who joins later hangs.
        os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    import_torch(quiet=not launch.debug)
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import RendezvousError

    from accelify.runtime.launch.agent import RankLogs, run_agent

    gc.freeze()  # what is imported stays: going through it once more at the end takes half a second
    if launch.machines != (1, 1) and address:
        _name_interface(address)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise SignalException("stopped before any rank was started", signal.Signals(number))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)  # until the agent sets its own
    logs = RankLogs(log_folder(launch), launch.tee)
    program, *arguments = launch.program.rank_command
    try:
        result = run_agent(
            program,
            tuple(arguments),
            rendezvous_of(launch, address),
            logs,
            machine_rank=launch.machine_rank if launch.machines[0] == launch.machines[1] else None,
            grace=launch.grace,
            watch=Watch(launch.stall_timeout, print_line),
            on_restart=lambda result, count: _report_restart(result, logs, count, launch.max_restarts),
            local_world_size=launch.local_processes,
            max_restarts=launch.max_restarts,
            monitor_interval=launch.monitor_interval,
            local_addr=address,
        )
    except SignalException as stopped:
        with contextlib.suppress(OSError):  # not empty: ranks have been started
            logs.folder.rmdir()
        printed = f"; what the other ranks printed: {logs.folder}" if logs.folder.exists() else ""
        print_line(f"accelify: stopped by {stopped.sigval.name}{printed}")
        return 128 + stopped.sigval
    except RendezvousError as error:
        shutil.rmtree(logs.folder, ignore_errors=True)
        place = f"{launch.rendezvous.endpoint} ({type(error).__name__}: {str(error).splitlines()[0]})"
        raise CannotLaunch(f"the {launch.machines[1]} machines could not meet at {place}") from None
    is_unread = result.is_failed() and first_of(result).status == READER_GONE and has_no_reader(1)  # `| head -1`
    if result.is_failed() and not is_unread:
        return _report(result, logs)
    if launch.log_dir is None:
        shutil.rmtree(logs.folder, ignore_errors=True)
    return READER_GONE if is_unread else 0


def check_meeting_point(launch: Launch) -> None:
    """Raises: CannotLaunch when the host is unknown, or its port is taken on the machine that should open it."""
    if launch.rendezvous.backend not in ("c10d", "static"):
        return
    host, port = _endpoint(launch)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotLaunch(f"the host {host} has no address: {error.strerror}") from None
    if port and (launch.machine_rank or 0) == 0 and launch.machines[0] == launch.machines[1]:
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                raise CannotLaunch(f"port {port} of {host} cannot be opened here: {error.strerror}") from None


def own_address(launch: Launch) -> str | None:
    """The address under which the other machines reach this one.

    A machine's name often leads to 127.0.1.1 or nowhere; the address its packets to the meeting point leave from is
    one that the others can answer.
    """
    if launch.local_address or launch.machines == (1, 1):
        return launch.local_address or "localhost"
    host, port = _endpoint(launch)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port or 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _endpoint(launch: Launch) -> tuple[str, int]:
    host, _, port = launch.rendezvous.endpoint.rpartition(":")
    if not host:
        host, port = port, ""
    if port and not (port.isdigit() and int(port) < 65536):
        raise CannotLaunch(f"{launch.rendezvous.endpoint} is no HOST:PORT where machines can meet")
    return host.strip("[]"), int(port or 0)


def rendezvous_of(launch: Launch, address: str | None) -> RendezvousParameters:
    """Where and under which name the agents meet, in torch's terms."""
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    options: dict[str, Any] = {"timeout": MEET_TIMEOUT, **dict(launch.rendezvous.options)}
    if launch.rendezvous.backend == "static":
        options["rank"] = launch.machine_rank or 0
    elif launch.rendezvous.backend == "c10d" and launch.machine_rank is not None:
        options.setdefault("is_host", str(launch.machine_rank == 0).lower())
    return RendezvousParameters(
        backend=launch.rendezvous.backend,
        endpoint=launch.rendezvous.endpoint,
        run_id=launch.rendezvous.run_id or str(uuid.uuid4()),
        min_nodes=launch.machines[0],
        max_nodes=launch.machines[1],
        local_addr=address,
        **options,
    )


def log_folder(launch: Launch) -> Path:
    """A folder of this launch's own that nobody else may read."""
    prefix = f"accelify-{time.strftime('%Y%m%d-%H%M%S')}-"
    try:
        if launch.log_dir is not None:
            launch.log_dir.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=launch.log_dir))
    except OSError as error:
        raise CannotLaunch(f"no folder for the ranks' output: {error.filename}: {error.strerror}") from None


def import_torch(*, quiet: bool) -> None:
    """Import torch so that its messages, which repeat ours in forty lines, stay out; `--debug` shows them.

    torch reads the level of its C++ messages once, at import. The ranks do not inherit it.
    """
    level = "TORCH_CPP_LOG_LEVEL"
    silenced = quiet and level not in os.environ
    if silenced:
        os.environ[level] = "FATAL"
    collects = gc.isenabled()
    gc.disable()  # it looks for garbage that no import makes: 0.13 s of 1.9 s
    importlib.import_module("torch.distributed.elastic.agent.server.local_elastic_agent")
    if collects:
        gc.enable()
    if silenced:
        del os.environ[level]
    if quiet:
        for name in list(logging.root.manager.loggerDict):  # most have a level of their own
            if name.startswith("torch.distributed"):
                logging.getLogger(name).setLevel(logging.CRITICAL)


def _name_interface(address: str) -> None:
    """Set for gloo which network interface the other machines are on: it asks for the machine's name otherwise, which
    leads to 127.0.1.1 on many.
    """
    interface = interface_of(address)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)


def interface_of(address: str) -> str | None:
    """The network interface that holds an IPv4 address; None when none does or the system does not show it."""
    if not sys.platform.startswith("linux"):
        return None
    import fcntl
    import struct

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        wanted = socket.inet_aton(socket.gethostbyname(address))
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if answer[20:24] == wanted:
                    return name
    return None


def first_of(result: RunResult) -> Failure:
    """The failure that came first among this machine's ranks."""
    host = socket.gethostname()
    return first_failure(
        read_failure(rank, failure.exitcode, failure.error_file, failure.timestamp, host)
        for rank, failure in result.failures.items()
    )


def _report(result: RunResult, logs: RankLogs) -> int:
    """Report what went wrong and return the first failing rank's status."""
    first = first_of(result)
    absent = {}
    if first.is_timeout:
        script = first.place.file if first.place is not None else None
        stacks = latest({logs.ranks[local]: path for local, path in logs.stacks.items()})
        where = {rank: stack.innermost(script) for rank, stack in stacks.items() if rank != first.rank}
        absent = {rank: place for rank, place in where.items() if place}
    print_line(describe(first, logs.files.get(first.rank), logs.folder, absent))
    return first.status


def _report_restart(result: RunResult, logs: RankLogs, restart: int, most: int) -> None:
    if result.is_failed():
        _report(result, logs)
        print_line(f"accelify: starting all ranks again, {restart} of at most {most} times")
    else:
        print_line("accelify: the machines that take part have changed; starting all ranks again")


def print_line(text: str) -> None:
    """A line of ours on standard error, where it does not mix with what the script prints."""
    with contextlib.suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
