"""What the checks say of small scripts: source text in, lines out."""

from __future__ import annotations

from collections.abc import Mapping

from accelify.codemod.check import CheckOptions, fix_file
from accelify.codemod.checks import CHECKS
from accelify.codemod.checks.processes import Processes
from accelify.codemod.files.project import Project
from tests.codemod.facts import MARK, Facts

DDP = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("nccl")
rank = dist.get_rank()
"""
ACCELERATE = """\
import torch
from accelerate import Accelerator
accelerator = Accelerator()
"""


def found(rule: str, text: str | Mapping[str, str]) -> list[tuple[int, str]]:
    """The lines that a rule reports, with what it says."""
    facts = Facts(text)
    processes = Processes(facts.program)
    return [(processes.program.line(f.node), f.message) for f in dict(CHECKS)[rule](processes)]


def reports(rule: str, text: str) -> None:
    """A rule reports the marked lines, and no other."""
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]
    assert marked, "mark the lines that are to be reported"
    assert [line for line, _ in found(rule, text)] == marked, text


def leaves(rule: str, text: str | Mapping[str, str]) -> None:
    """A rule reports nothing."""
    assert found(rule, text) == []


def fixed(text: str) -> str:
    """A script with all that can be fixed."""
    result = fix_file("main.py", CheckOptions(), Project({"main.py": text.encode()}))
    return result.after.decode() if result.after else text
