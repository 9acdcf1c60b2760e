"""The settings of a launch: where they may come from, and which one wins. Works without torch.

A value of one of the KEYS comes from the first of: a flag, a variable `ACCELIFY_<NAME>`, the project's
file, the file that `$ACCELIFY_CONFIG` names, what is detected. Each value remembers which it was.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelify import atomic
from accelify.errors import AccelifyError, did_you_mean
from accelify.runtime.world.environment import LONGEST, Environment

PROJECT_TABLES = ("launch", "rewrite", "check")  # of [tool.accelify] in a pyproject.toml
PROJECT_FILES = ("accelify.toml", "accelify.yaml", "accelify.yml", "pyproject.toml")

CONFIG_VARIABLE = "ACCELIFY_CONFIG"

Value = str | int | float | bool


PRECISIONS = ("no", "fp16", "bf16")

_GPU = re.compile(r"\d+|(GPU|MIG)-\S+")  # a number or, as the driver prints it, a UUID


class BadSetting(AccelifyError):
    """A setting whose name or value cannot be used; says where it was given and what would do."""

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin}: {reason}")


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: its name, what it means in one line, how a value is read, and its default."""

    name: str
    meaning: str
    parse: Callable[[Any], Value]
    default: Value | None = None

    @property
    def variable(self) -> str:
        return f"ACCELIFY_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def _integer(least: int, most: int | None = None) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{value!r} is not a whole number")
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a whole number") from None
        if number < least:
            raise ValueError(f"{number} is less than {least}")
        if most is not None and number > most:
            raise ValueError(f"{number} is more than {most}")
        return number

    return parse


def _seconds(least: int) -> Callable[[Any], Value]:
    def parse(value: Any) -> Value:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not least <= number <= LONGEST:
            raise ValueError(f"{value!r} is no number of seconds from {least} to {LONGEST}")
        return int(number) if number.is_integer() else number

    return parse


def _processes(value: Any) -> Value:
    return "auto" if value == "auto" else _integer(1)(value)


def _machines(value: Any) -> Value:
    """A number of machines, or a range `1:4`, as torchrun's `--nnodes` takes it."""
    least, colon, most = str(value).partition(":")
    if not colon:
        return _integer(1)(value)
    if _integer(1)(least) > _integer(1)(most):
        raise ValueError(f"{value!r} ends before it begins")
    return f"{int(least)}:{int(most)}"


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(value).lower() not in words:
        raise ValueError(f"{value!r} is neither true nor false")
    return words[str(value).lower()]


def _precision(value: Any) -> str:
    if value is False:  # YAML reads a bare `no` so
        return "no"
    if value not in PRECISIONS:
        raise ValueError(f"{value!r} is none of {', '.join(PRECISIONS)}")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a name or an address")
    return value.strip()


def _gpu_ids(value: Any) -> str:
    parts = [str(part).strip() for part in value] if isinstance(value, list) else str(value).split(",")
    names = [part.strip() for part in parts]
    if value is None or isinstance(value, bool) or not all(_GPU.fullmatch(name) for name in names):
        raise ValueError(f"{value!r} is not a list of GPUs such as 0,1")
    return ",".join(names)


KEYS = {
    key.name: key
    for key in (
        Key("num_processes", "processes on all machines together, or auto: one for each GPU", _processes, "auto"),
        Key("num_machines", "machines, or a range such as 1:4 that may change while it runs", _machines, 1),
        Key("machine_rank", "this machine's number, from 0", _integer(0)),
        Key("main_process_ip", "the address of machine 0, where the others meet", _text),
        Key("main_process_port", "the port of machine 0, where the others meet", _integer(1, 65535)),
        Key("cpu", "use no GPU even if there is one", _flag, False),
        Key("gpu_ids", "the GPUs of this machine to use, such as 0,1", _gpu_ids),
        Key("mixed_precision", "no, fp16 or bf16", _precision),
        Key("gradient_accumulation_steps", "micro-batches in one optimizer step", _integer(1)),
        Key("num_cpu_threads_per_process", "threads for one process's CPU work", _integer(1)),
        Key("max_restarts", "how often all processes start again after a failure", _integer(0), 0),
        Key("timeout", "seconds a rank waits for the others before it gives up; 600, or 120 with debug", _seconds(1)),
        Key("stall_timeout", "seconds without any progress until that is reported; 0: never", _seconds(0), 60),
        Key("shutdown_timeout", "seconds that ranks may take to end when they are asked to", _seconds(0), 30),
        Key(
            "debug", "compare parameters at each backward pass, and show the elastic agent's own messages", _flag, False
        ),
    )
}


def read_value(name: str, value: Any, origin: str) -> Value:
    """A value of the setting's own type.

    Raises: BadSetting naming the origin, the key and the reason.
    """
    if name not in KEYS:
        raise BadSetting(origin, f"unknown key {name!r}{did_you_mean(name, KEYS)}")
    try:
        return KEYS[name].parse(value)
    except ValueError as error:
        raise BadSetting(origin, f"{name}: {error}") from None


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it came from, as text."""

    value: Value | None
    origin: str


Settings = dict[str, Setting]


def read_config(path: Path) -> dict[str, Value]:
    """The settings of one file: TOML or YAML by its suffix, the table `tool.accelify.launch` of a pyproject.toml.

    Raises: BadSetting for a file that cannot be read, an unknown key or a value of the wrong kind.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not UTF-8 text"
        raise BadSetting(str(path), f"cannot be read: {reason}") from None
    table = _parse_yaml(path, text) if path.suffix in (".yaml", ".yml") else _parse_toml(path, text)
    if path.name == "pyproject.toml":
        tools = table.get("tool")
        ours = tools.get("accelify", {}) if isinstance(tools, dict) else {}
        strays = [name for name in ours if name not in PROJECT_TABLES] if isinstance(ours, dict) else ["accelify"]
        if strays:
            raise BadSetting(str(path), f"{strays[0]!r} in [tool.accelify]: settings stand in [tool.accelify.launch]")
        table = ours.get("launch", {})
    if not isinstance(table, dict):
        raise BadSetting(str(path), "is no table of settings")
    return {str(name): read_value(str(name), value, str(path)) for name, value in table.items()}


def _parse_toml(path: Path, text: str) -> dict[str, Any]:
    from accelify import toml  # 4 ms; most runs have no file

    try:
        return toml.parse(text)
    except toml.NotTOML as error:
        raise BadSetting(str(path), str(error)) from None


def _parse_yaml(path: Path, text: str) -> dict[str, Any]:
    import yaml  # 12 ms; most projects have TOML

    try:
        table: dict[str, Any] = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # the others of `!!int x`, `!!bool x`
        raise BadSetting(str(path), f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise BadSetting(str(path), "is nested too deeply") from None
    return table


def project_file(folder: Path) -> Path | None:
    """The project's own file: in this folder or the nearest one above, no further than the repository's top."""
    for place in (folder, *folder.parents):  # os.access, as Path.exists raises where a folder may not be looked into
        for name in PROJECT_FILES:
            path = place / name
            is_there = os.access(path, os.F_OK) and path.is_file()
            if is_there and (name != "pyproject.toml" or _concerns_launches(path)):
                return path
        if os.access(place / ".git", os.F_OK):
            return None
    return None


def _concerns_launches(path: Path) -> bool:
    """Whether a pyproject.toml has settings of launches, or some that must be a mistake."""
    tables = re.findall(r"^\s*\[tool\.accelify(?:\.(\w+))?", _peek(path), re.MULTILINE)
    return any(table != "rewrite" for table in tables)


def _peek(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def user_file(variables: Mapping[str, str]) -> Path:
    """Where `accelify config --user` writes; read only when `--user-config` asks for it."""
    base = variables.get("XDG_CONFIG_HOME") or str(Path(variables.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "accelify" / "accelify.toml"


def config_files(variables: Mapping[str, str], folder: Path, explicit: Path | None = None) -> list[Path]:
    """The files that count, the first one strongest; a file named on the command line is the only one."""
    if explicit is not None:
        return [explicit]
    named = variables.get(CONFIG_VARIABLE)
    found = [project_file(folder), Path(named) if named else None]
    return [path for path in found if path is not None]


def resolve(flags: Mapping[str, Any], variables: Mapping[str, str], files: list[Path]) -> Settings:
    """Every setting with its origin; detection is left to the caller, who sees `default` as the origin.

    Raises: BadSetting for the first value that cannot be used, wherever it is given.
    """
    layers = [(str(path), read_config(path)) for path in files]
    settings: Settings = {}
    for name, key in KEYS.items():
        settings[name] = Setting(key.default, "default")
        if flags.get(name) is not None:
            settings[name] = Setting(read_value(name, flags[name], f"flag {key.flag}"), f"flag {key.flag}")
        elif variables.get(key.variable):
            origin = f"variable {key.variable}"
            settings[name] = Setting(read_value(name, variables[key.variable], origin), origin)
        else:
            for path, table in layers:
                if name in table:
                    settings[name] = Setting(table[name], f"file {path}")
                    break
    return settings


def write_config(path: Path, values: Mapping[str, Value]) -> None:
    """Write a TOML or YAML file with a line of explanation for each value; an existing file is replaced atomically.

    Raises: BadSetting for an unknown key or a value of the wrong kind, before anything is written.
    """
    checked = {name: read_value(name, value, str(path)) for name, value in values.items()}
    yaml_style = path.suffix in (".yaml", ".yml")
    lines = ["# accelify launch reads this file; `accelify config show` tells what each value comes to."]
    for name, value in checked.items():
        text = (
            str(value).lower()
            if isinstance(value, bool)
            else str(value)
            if isinstance(value, int | float)
            else f'"{value}"'
        )
        lines.append(f"{name}{': ' if yaml_style else ' = '}{text}  # {KEYS[name].meaning}")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "\n".join(lines) + "\n"
    atomic.write(path, lambda file: file.write(content.encode()), mode=0o644)


def format_settings(settings: Settings) -> str:
    """One line for each setting: its name, its value, where that came from."""
    lines = []
    for name, setting in settings.items():
        value = setting.value
        text = "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        lines.append(f"{name:<28} {text:<12} {setting.origin}")
    return "\n".join(lines)


# Another launcher's key -> ours; values are read as ours are.
# Source: https://huggingface.co/docs/accelerate/package_reference/cli#accelerate-config
IMPORTED = {
    "num_processes": "num_processes",
    "num_machines": "num_machines",
    "machine_rank": "machine_rank",
    "main_process_ip": "main_process_ip",
    "main_process_port": "main_process_port",
    "use_cpu": "cpu",
    "gpu_ids": "gpu_ids",
    "mixed_precision": "mixed_precision",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "debug": "debug",
}

SILENT: dict[str, tuple[object, ...]] = {
    "compute_environment": ("LOCAL_MACHINE",),
    "distributed_type": ("NO", "MULTI_GPU", "MULTI_CPU"),
    "rdzv_backend": ("static", "c10d"),
    "same_network": (True, False),
    "main_training_function": ("main",),
    "downcast_bf16": ("no", False),
    "enable_cpu_affinity": (False,),
    "tpu_use_cluster": (False,),
    "tpu_use_sudo": (False,),
    "tpu_env": ([],),
}  # what says nothing that we would do differently


def import_accelerate(path: Path) -> tuple[dict[str, Value], list[str]]:
    """Our settings from a Hugging Face Accelerate YAML, and a line for each of its keys that has no counterpart.

    Raises: BadSetting when the file is not YAML or one of its values cannot be used.
    """
    try:
        table = _parse_yaml(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(str(path), f"cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    if not isinstance(table, dict) or "distributed_type" not in table:
        raise BadSetting(str(path), "is no Accelerate configuration: it has no distributed_type")
    values, left = {}, []
    for name, value in table.items():
        ours = IMPORTED.get(name)
        if ours is None:
            if value not in SILENT.get(name, (None, {}, "")):
                left.append(f"{name}: {value!r} has no counterpart and was left out")
        elif value is not None and value != "all":
            values[ours] = read_value(ours, value, str(path))
    if table["distributed_type"] == "NO":
        values["num_processes"] = 1
    if values.get("num_machines", 1) == 1:
        values.pop("machine_rank", None)
    return {name: value for name, value in values.items() if value != KEYS[name].default}, left


@dataclass(frozen=True)
class Settled:
    """The settings that an accelerator has in common with the launcher."""

    mixed_precision: str
    gradient_accumulation_steps: int
    cpu: bool


def accelerator_settings(
    given: Environment | None, mixed_precision: str | None, steps: int | None, cpu: bool
) -> Settled:
    """The strongest value of each. Files count only where the environment is the process's own, not one handed in.

    Raises: BadSetting, BadEnvironment.
    """
    environment = given or Environment.read()
    file = _project(environment) if given is None else {}
    precision = mixed_precision or environment.mixed_precision or file.get("mixed_precision") or "no"
    if precision not in PRECISIONS:
        raise BadSetting(f"mixed_precision={precision!r}", f"choose one of {', '.join(PRECISIONS)}")
    window = steps or environment.gradient_accumulation_steps or file.get("gradient_accumulation_steps") or 1
    return Settled(precision, window, cpu or environment.cpu or bool(file.get("cpu")))


def _project(environment: Environment) -> dict[str, Any]:
    """The settings in the files, the project's own before those of the file that a variable names."""
    found: dict[str, Any] = {}
    variables = {CONFIG_VARIABLE: environment.config} if environment.config else {}
    for path in reversed(config_files(variables, Path.cwd())):
        found.update(read_config(path))
    return found
