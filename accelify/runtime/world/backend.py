"""The backend that joins the processes: torch.distributed's process group, or XLA where `$PJRT_DEVICE` asks for it."""

from __future__ import annotations

from datetime import timedelta

from accelify.runtime.world import process_group, xla
from accelify.runtime.world.collectives import Collectives, GroupCollectives
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.process_group import TIMEOUT, World
from accelify.runtime.world.transport import Processes

DEBUG_TIMEOUT = timedelta(minutes=2)


def join(environment: Environment, *, cpu: bool = False, timeout: timedelta | None = None) -> World:
    """The world that the environment describes, joined with the other processes."""
    if timeout is None and environment.timeout is not None:
        timeout = timedelta(seconds=environment.timeout)
    timeout = timeout or (DEBUG_TIMEOUT if environment.debug else TIMEOUT)
    uses_cpu = cpu or environment.cpu
    if environment.pjrt is not None and not uses_cpu:
        return xla.join(environment, timeout)
    return process_group.join(environment, cpu=uses_cpu, timeout=timeout)


def collectives_of(world: World) -> Collectives:
    """The collectives for this world."""
    if world.size == 1:
        return Collectives()
    transport = xla.Devices(world) if world.device.type == "xla" else Processes(world.size)
    return GroupCollectives(world=world, transport=transport)
