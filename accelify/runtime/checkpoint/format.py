"""The format of a checkpoint: states as one JSON table, their tensors as safetensors; nothing in it can run.

What JSON lacks carries a tag: `{"~": "tuple", "v": [...]}`. Tensors and arrays are named by their place in the state
("state.0.exp_avg"), so that a model's file has the model's own keys.
"""

from __future__ import annotations

import base64
import collections
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any  # states are made of anything

import numpy
import torch

from accelify.errors import AccelifyError
from accelify.runtime.checkpoint.files import Entry, FolderWriter
from accelify.runtime.checkpoint.manifest import Manifest
from accelify.runtime.world.tensors import content_of

_TAG = "~"

_MAPPINGS = {"OrderedDict": collections.OrderedDict, "Counter": collections.Counter}

# Values that JSON can hold as well; a float may be infinite, which JSON cannot hold.
_PLAIN = frozenset((type(None), bool, int, str))

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}

TABLE = "states.json"

# A state as the table has it; where `tensors` is None they are in a file of their own.
Row = dict[str, Any]


class CannotEncode(AccelifyError, TypeError):
    """Something in a state that is neither data nor a tensor."""


class CannotDecode(AccelifyError):
    """The bytes that were read are no state that we wrote."""


class CannotWriteTensor(AccelifyError, TypeError):
    """A tensor of a kind that safetensors has no name for."""


class Encoder:
    """Turns one state into JSON values and `tensors` by name; a tensor met twice is kept once."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._kept: dict[tuple[Any, ...], str] = {}

    def encode(self, value: Any, path: str = "") -> Any:
        """The value for JSON. Raises: CannotEncode naming the place of what cannot be kept."""
        if type(value) in _PLAIN:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {_TAG: "float", "v": repr(value)}
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if isinstance(value, dict):
            return self._mapping(value, path)
        if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            return self._sequence(value, path)
        return self._other(value, path)

    def _sequence(self, value: Any, path: str) -> Any:
        # Python's random state alone is 625 numbers.
        is_plain = _PLAIN.issuperset(map(type, value))
        items = list(value) if is_plain else [self.encode(one, _join(path, at)) for at, one in enumerate(value)]
        if type(value) is list:
            return items
        if type(value) in (tuple, set, frozenset, torch.Size):
            return {_TAG: type(value).__name__, "v": items}
        if type(value) is collections.deque:
            return {_TAG: "deque", "v": items, "length": value.maxlen}
        raise self._refusal(value, path)

    def _mapping(self, value: dict[Any, Any], path: str) -> Any:
        is_plain = type(value) is dict and all(type(key) is str for key in value) and _TAG not in value
        if is_plain:
            return {key: self.encode(item, _join(path, key)) for key, item in value.items()}
        kind = type(value).__name__ if type(value).__name__ in _MAPPINGS else "dict"
        if type(value) is not dict and kind == "dict" and type(value) is not collections.defaultdict:
            raise self._refusal(value, path)
        pairs = [[self.encode(key, path), self.encode(item, _join(path, key))] for key, item in value.items()]
        return {_TAG: kind, "v": pairs}

    def _tensor(self, tensor: torch.Tensor, path: str) -> Any:
        is_dense = tensor.layout == torch.strided and not tensor.is_quantized and tensor.device.type != "meta"
        if not is_dense or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise self._refusal(tensor, path)
        tensor = tensor.detach()
        if tensor.dtype == torch.complex128:
            return {_TAG: "complex", "v": self._tensor(torch.view_as_real(tensor.resolve_conj()), path)}
        tensor = tensor.resolve_conj().resolve_neg()
        same = memory_of(tensor)
        if tensor.numel() and same in self._kept:
            return {_TAG: "tensor", "v": self._kept[same]}
        name = path
        while name in self.tensors:
            name += "'"
        self.tensors[name] = tensor
        self._kept[same] = name
        return {_TAG: "tensor", "v": name}

    def _other(self, value: Any, path: str) -> Any:
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "biuf" and value.dtype != numpy.longdouble:
            return {_TAG: "array", "v": self._tensor(torch.from_numpy(numpy.array(value)), path)}
        if isinstance(value, numpy.generic) and value.dtype.kind in "biuf":
            return {_TAG: "scalar", "dtype": value.dtype.str, "v": _bytes(value.tobytes())}
        if isinstance(value, (torch.dtype, torch.device)):
            return {_TAG: type(value).__name__, "v": str(value)}
        if type(value) in (bytes, bytearray):
            return {_TAG: type(value).__name__, "v": _bytes(value)}
        if type(value) is complex:
            return {_TAG: "number", "v": [self.encode(value.real), self.encode(value.imag)]}
        if type(value) is range:
            return {_TAG: "range", "v": [value.start, value.stop, value.step]}
        if isinstance(value, PurePath):
            return {_TAG: "path", "v": str(value)}
        # Subclasses of plain values (an IntEnum, a str of a library's own) are kept as the plain value.
        for plain in (bool, int, float, str):
            if isinstance(value, plain):
                return self.encode(plain(value), path)
        raise self._refusal(value, path)

    def _refusal(self, value: Any, path: str) -> CannotEncode:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return CannotEncode(
            f"{path or 'the state'}: a {kind} cannot be kept in a checkpoint, which holds data only. Have state_dict "
            "give tensors, numbers, strings and containers of them"
        )


def decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """The state that was encoded. Raises: CannotDecode for what no encoder wrote."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decode(item, tensors) for key, item in value.items()}
    kind, content = value[_TAG], value.get("v")
    if kind == "tensor":
        if content not in tensors:
            raise CannotDecode(f"the tensor {content!r} is missing")
        return tensors[content]
    if kind not in _DECODERS:
        raise CannotDecode(f"unknown kind {kind!r}")
    if kind == "scalar" and isinstance(content, str):
        return numpy.frombuffer(base64.b64decode(content), dtype=numpy.dtype(value["dtype"]))[0]
    if kind == "deque":
        return collections.deque(decode(content, tensors), maxlen=value["length"])
    return _DECODERS[kind](decode(content, tensors))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda tensor: tensor.numpy(),
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "bytes": lambda text: base64.b64decode(text),
    "complex": torch.view_as_complex,
    "Counter": lambda pairs: collections.Counter(dict(pairs)),
    "deque": collections.deque,
    "device": torch.device,
    "dict": dict,
    "dtype": lambda text: dtype_of(text),
    "float": lambda text: float(text),
    "frozenset": frozenset,
    "number": lambda parts: complex(*parts),
    "OrderedDict": collections.OrderedDict,
    "path": lambda text: text,
    "range": lambda parts: range(*parts),
    "scalar": lambda scalar: scalar,
    "set": set,
    "Size": torch.Size,
    "tuple": tuple,
}


def dtype_of(text: str) -> torch.dtype:
    """The dtype of this name, such as `torch.float32`."""
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise CannotDecode(f"unknown dtype {text!r}")
    return found


def memory_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Equal for tensors that are the same numbers in the same place; XLA does not give addresses."""
    place = tensor.data_ptr() or object()
    return tensor.device, place, tensor.dtype, tuple(tensor.shape), tensor.stride()


def _bytes(content: bytes | bytearray) -> str:
    return base64.b64encode(content).decode()


def _join(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)


def tensor_chunks(
    tensors: Mapping[str, torch.Tensor], about: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """The content of a safetensors file of these tensors, one piece after the other; `about` goes into its metadata.

    Source: https://huggingface.co/docs/safetensors/index#format
    """
    # Widest first, as the library does: every tensor then starts at a multiple of its element's size.
    order = sorted(tensors, key=lambda key: (-tensors[key].element_size(), key))
    header: dict[str, object] = {"__metadata__": {"format": "pt", **(about or {})}}
    end = 0
    for key in order:
        tensor = tensors[key]
        if tensor.dtype not in _NAMES:
            raise CannotWriteTensor(f"{key}: safetensors has no {tensor.dtype}: keep it in another dtype")
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[key] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for key in order:
        if tensors[key].numel():
            yield bytes_of(tensors[key])


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, on the CPU, each in memory of its own.

    Where it lies in the file's, a sum over it may be rounded otherwise: kernels begin at other places.
    """
    from safetensors import safe_open  # only who loads needs it

    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  # it is no dict


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """A tensor's numbers as they stand in memory, one after the other."""
    flat = content_of(tensor.detach().cpu())
    return memoryview(flat.numpy())  # type: ignore[arg-type]  # an array is a buffer before Python 3.12, too


def write_state(writing: FolderWriter, name: str, state: Any) -> tuple[Row, list[Entry]]:
    """The table's row of a state, and the file of its tensors, if it has any."""
    row, tensors = _encoded(name, state)
    return row, [writing.file(f"{name}.safetensors", tensor_chunks(tensors))] if tensors else []


def inline_row(name: str, state: Any) -> Row:
    """The table's row of a state that is small, its tensors in it."""
    row, tensors = _encoded(name, state)
    return {**row, "tensors": {key: _packed(tensor) for key, tensor in tensors.items()}}


def write_table(writing: FolderWriter, rows: Mapping[str, Row]) -> Entry:
    """The table of all states."""
    return writing.file(TABLE, [json.dumps(rows).encode()])


class States:
    """The states that a committed checkpoint holds. Raises: CannotDecode for a table that is damaged."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        if TABLE not in manifest.files:
            raise CannotDecode(f"{manifest.folder} has no {TABLE}")
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
        if 0 not in shape:
            raise CannotDecode(f"a tensor of shape {shape} without its numbers")
        return torch.empty(shape, dtype=dtype_of(dtype))
    flat = torch.frombuffer(bytearray(base64.b64decode(content)), dtype=torch.uint8)
    return flat.view(dtype_of(dtype)).reshape(shape)
