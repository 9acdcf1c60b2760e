"""The keys of a launch's settings: their names, what they mean and what a value may be. Works without torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any  # a value arrives as a flag, a variable or whatever a file has

from accelify.errors import AccelifyError

Value = str | int | bool
PRECISIONS = ("no", "fp16", "bf16")
_GPU = re.compile(r"\d+|(GPU|MIG)-\S+")  # a number or, as the driver prints it, a UUID


class BadSetting(AccelifyError):
    """A setting whose name or value cannot be used; says where it was given and what would do."""

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin}: {reason}")


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


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: its name, what it means in one line, how a value is read, and what holds if nobody says."""

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
        import difflib

        near = difflib.get_close_matches(name, KEYS, n=1, cutoff=0.5)
        raise BadSetting(origin, f"unknown key {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    try:
        return KEYS[name].parse(value)
    except ValueError as error:
        raise BadSetting(origin, f"{name}: {error}") from None
