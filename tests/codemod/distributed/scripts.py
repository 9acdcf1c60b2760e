"""Scripts that run on several processes by themselves, in a few lines."""

from __future__ import annotations

from accelify.codemod.distributed.branches import Branches
from accelify.codemod.distributed.distribution import Distributions
from accelify.codemod.distributed.findings import Distribution
from accelify.codemod.distributed.launched import LauncherEdits
from accelify.codemod.distributed.launcher_changes import LauncherChanges
from accelify.codemod.distributed.launching import Launching
from tests.codemod.facts import Facts

IMPORTS = """\
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
"""


def distributed(text: str) -> Facts:
    return Facts(IMPORTS + text)


def found(facts: Facts) -> Distribution:
    """What a script does to run on several processes."""
    return Distributions(facts.program, facts.tracer, ["main.py"]).find()


def launching(facts: Facts) -> Launching:
    return Launching(facts.program, facts.tracer)


def branches(facts: Facts) -> Branches:
    return Branches(launching(facts), facts.roles)


def edits(facts: Facts) -> LauncherEdits:
    """What must change so that a launcher can start the script."""
    asked = branches(facts)
    return LauncherChanges(asked.launching, asked).find()
