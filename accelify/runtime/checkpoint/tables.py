"""The states of a checkpoint as files: safetensors for tensors, and one JSON table for all that is not a tensor.

What every run has little of, random states and positions of loaders, stands in the table whole.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any  # states are made of anything

import torch

from accelify.errors import AccelifyError
from accelify.runtime.checkpoint.codec import CannotDecode, CannotEncode, Encoder, decode, dtype_of
from accelify.runtime.checkpoint.durable import Manifest
from accelify.runtime.checkpoint.tensorfile import bytes_of, read_tensors, write_tensors
from accelify.runtime.checkpoint.writing import Entry, Writing

TABLE = "states.json"
# A state as the table has it; `tensors` stands for a file of its own where it is None.
Row = dict[str, Any]


def write_state(writing: Writing, name: str, state: Any) -> tuple[Row, list[Entry]]:
    """The table's row of a state, and the file of its tensors, if it has any."""
    row, tensors = _encoded(name, state)
    return row, [write_tensors(writing, f"{name}.safetensors", tensors)] if tensors else []


def whole_row(name: str, state: Any) -> Row:
    """The table's row of a state that is small, its tensors in it."""
    row, tensors = _encoded(name, state)
    return {**row, "tensors": {key: _packed(tensor) for key, tensor in tensors.items()}}


def write_table(writing: Writing, rows: Mapping[str, Row]) -> Entry:
    """The table of all states."""
    return writing.file(TABLE, [json.dumps(rows).encode()])


class States:
    """What a committed checkpoint holds. Raises: CannotDecode for a table that is none."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._rows: dict[str, Row] = json.loads((manifest.folder / TABLE).read_bytes())

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> Any:
        if name not in self._rows:
            raise CannotDecode(f"{self._manifest.folder} has no {name}")
        row, file = self._rows[name], f"{name}.safetensors"
        packed = row["tensors"]
        if packed is not None:
            tensors = {key: _unpacked(one) for key, one in packed.items()}
        else:
            tensors = read_tensors(self._manifest.folder / file) if file in self._manifest.files else {}
        return decode(row["state"], tensors)

    def is_same(self, names: list[str]) -> bool:
        """Whether these states are all the same."""
        return all(self._rows[name] == self._rows[names[0]] for name in names)


def _encoded(name: str, state: Any) -> tuple[Row, dict[str, torch.Tensor]]:
    encoder = Encoder()
    try:
        table = encoder.encode(state)
    except AccelifyError as error:
        raise CannotEncode(f"{name}: {error}") from error
    return {"state": table, "tensors": None}, encoder.tensors


def _packed(tensor: torch.Tensor) -> list[Any]:
    return [str(tensor.dtype), list(tensor.shape), base64.b64encode(bytes_of(tensor)).decode()]


def _unpacked(packed: list[Any]) -> torch.Tensor:
    dtype, shape, content = packed
    if not content:
        return torch.empty(shape, dtype=dtype_of(dtype))
    flat = torch.frombuffer(bytearray(base64.b64decode(content)), dtype=torch.uint8)
    return flat.view(dtype_of(dtype)).reshape(shape)
