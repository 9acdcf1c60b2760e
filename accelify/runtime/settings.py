"""What holds for this accelerator: the script's own argument, else the environment, else the project's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any  # a setting's value, of its own kind

from accelify.runtime.launch.config import CONFIG_VARIABLE, config_files, read_config
from accelify.runtime.world.environment import Environment


@dataclass(frozen=True)
class Settled:
    """The settings that an accelerator has in common with the launcher."""

    mixed_precision: str
    gradient_accumulation_steps: int
    cpu: bool


def settle(given: Environment | None, mixed_precision: str | None, steps: int | None, cpu: bool) -> Settled:
    """The strongest value of each. Files count only where the environment is the process's own, not one handed in.

    Raises: BadSetting, BadEnvironment.
    """
    environment = given or Environment.read()
    file = _project(environment) if given is None else {}
    precision = mixed_precision or environment.mixed_precision or file.get("mixed_precision") or "no"
    window = steps or environment.gradient_accumulation_steps or file.get("gradient_accumulation_steps") or 1
    return Settled(precision, window, cpu or environment.cpu or bool(file.get("cpu")))


def _project(environment: Environment) -> dict[str, Any]:
    """What the files say, the project's own before the one that a variable names."""
    found: dict[str, Any] = {}
    variables = {CONFIG_VARIABLE: environment.config} if environment.config else {}
    for path in reversed(config_files(variables, Path.cwd())):
        found.update(read_config(path))
    return found
