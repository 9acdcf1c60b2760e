"""`torch.cuda`, `torch.accelerator`, generators, loaders and files, as far as Python can see that a GPU is there."""

from __future__ import annotations

import contextlib
from functools import wraps
from types import SimpleNamespace
from typing import Any  # torch's functions take what they take

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.data import DataLoader

from accelify.runtime.checkpoint.format import Encoder
from accelify.verify.inside.pretend.functions import TYPES
from accelify.verify.inside.pretend.tensors import GPU, MADE_AT, MOVED_AT, NAMED, GpuTensor, as_gpu, inner_of, onto

MEMORY = 80 << 30  # Units: bytes
NOTHING = (
    *("synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect", "reset_max_memory_allocated", "init"),
    *("_lazy_init", "reset_max_memory_cached", "reset_accumulated_memory_stats", "set_per_process_memory_fraction"),
)
ZERO = (
    *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached"),
    *("max_memory_cached", "utilization"),
)


class Stream:
    """A queue of a GPU's work, all of which is done at once here."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cuda", GPU.index)
        self.cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        """All is done."""
        return True

    def elapsed_time(self, other: Any) -> float:
        """No time is measured. Units: milliseconds."""
        return 0.0

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or Stream()

    def record(self, *_: Any) -> None:
        """Happened."""

    def wait(self, *_: Any) -> None:
        """Nothing to wait for."""

    wait_stream = wait_event = synchronize = wait


class Generator(torch.Generator):
    """Random numbers of a device."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        """One on the CPU, whatever it says."""
        kind: Any = torch._C.Generator
        made: Generator = kind.__new__(cls, "cpu")
        return made

    def __init__(self, device: Any = "cpu") -> None:
        index = GPU.index_of(device)
        self._place = torch.device("cpu") if index is None else torch.device("cuda", index)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that it was made for."""
        return self._place


def install() -> None:
    """Have a GPU from here on."""
    _have_gpus()
    _have_types()
    _have_streams()
    known: Any = torch
    known.Generator = Generator
    _name_parameters()
    _keep_parameters()
    _watch_loaders()
    _watch_files()


def _have_gpus() -> None:
    cuda: Any = torch.cuda
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.device_count = lambda: GPU.count
    cuda.current_device = lambda: GPU.index
    cuda.set_device = _set_device
    for name in NOTHING:
        setattr(cuda, name, lambda *_, **__: None)
    for name in ZERO:
        setattr(cuda, name, lambda *_, **__: 0)
    cuda.get_device_name = lambda *_, **__: "pretend GPU"
    cuda.get_device_capability = lambda *_, **__: (8, 0)
    properties = SimpleNamespace(name="pretend GPU", total_memory=MEMORY, major=8, minor=0, multi_processor_count=108)
    cuda.get_device_properties = lambda *_, **__: properties
    cuda.mem_get_info = lambda *_, **__: (MEMORY, MEMORY)
    cuda.memory_stats = lambda *_, **__: {}
    cuda.is_bf16_supported = lambda *_, **__: True
    _have_random_numbers(cuda)
    accelerator: Any = torch.accelerator
    accelerator.is_available = cuda.is_available
    accelerator.device_count = cuda.device_count
    accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    accelerator.current_device_index = cuda.current_device
    accelerator.set_device_index = _set_device
    accelerator.synchronize = lambda *_: None


def _set_device(device: Any) -> None:
    index = GPU.index_of(device)
    if index is not None:
        GPU.index = index


def _have_random_numbers(cuda: Any) -> None:
    """A stream that is the GPU's own: its state can be read and set, and draws come from the CPU's."""
    state = [torch.get_rng_state()]

    def set_state(new: Any, *_: Any) -> None:
        state[0] = inner_of(new).clone()

    cuda.get_rng_state = lambda *_: state[0].clone()
    cuda.set_rng_state = set_state
    cuda.get_rng_state_all = lambda: [state[0].clone()] * GPU.count
    cuda.set_rng_state_all = lambda new: set_state(new[GPU.index])
    for name in ("manual_seed", "manual_seed_all", "seed", "seed_all"):
        setattr(cuda, name, lambda *_: None)


def _have_types() -> None:
    for name in TYPES:
        plain = getattr(torch, f"{name}Tensor")

        def make(*data: Any, plain: Any = plain, **options: Any) -> GpuTensor:
            return as_gpu(plain(*tree_map_only(GpuTensor, inner_of, data)))

        make.pretended = f"torch.cuda.{name}Tensor"  # type: ignore[attr-defined]
        setattr(torch.cuda, f"{name}Tensor", make)


def _have_streams() -> None:
    cuda: Any = torch.cuda
    cuda.Stream = type("Stream", (Stream,), {})
    cuda.Event = type("Event", (Stream,), {})
    cuda.current_stream = cuda.default_stream = lambda *_, **__: cuda.Stream()
    cuda.stream = lambda stream: contextlib.nullcontext()
    cuda.device = lambda device: contextlib.nullcontext()
    torch.Tensor.record_stream = lambda tensor, stream: None  # type: ignore[method-assign, assignment]


def _name_parameters() -> None:
    """Remember where parameters and buffers were made, and what they are called."""
    for name in ("register_parameter", "register_buffer"):
        real = getattr(nn.Module, name)

        @wraps(real)
        def register(module: nn.Module, name: str, tensor: Any, *rest: Any, real: Any = real, **options: Any) -> None:
            if isinstance(tensor, torch.Tensor):
                vars(tensor).setdefault(MADE_AT, GPU.place())
                vars(tensor).setdefault(NAMED, f"`{name}` of {type(module).__name__}")
            real(module, name, tensor, *rest, **options)

        setattr(nn.Module, name, register)


def _keep_parameters() -> None:
    """A module that moves to a GPU keeps its parameters, the objects, as optimizers and scripts refer to them."""
    torch.__future__.set_swap_module_params_on_conversion(True)

    def swap(one: Any, other: Any) -> None:
        marks = {name: value for name, value in vars(one).items() if name in (MADE_AT, NAMED)}
        for name in ("__class__", "__dict__"):
            kept = getattr(one, name)
            setattr(one, name, getattr(other, name))
            setattr(other, name, kept)
        if isinstance(one, GpuTensor):
            vars(one).update(marks, **{MOVED_AT: GPU.place()})
        torch._C._swap_tensor_impl(one, other)

    torch.utils.swap_tensors = swap


def _watch_loaders() -> None:
    """Loaders pin what is on the CPU, in this process."""
    start: Any = DataLoader.__init__

    @wraps(start)
    def started(loader: Any, *given: Any, **options: Any) -> None:
        start(loader, *given, **options)
        object.__setattr__(loader, "pin_memory", False)

    DataLoader.__init__ = started  # type: ignore[method-assign, assignment]

    def forward(module: Any, *given: Any, **options: Any) -> Any:
        to_gpu = tree_map_only(torch.Tensor, lambda each: onto(each, GPU.index), (given, options))
        return module.module(*to_gpu[0], **to_gpu[1])

    nn.DataParallel.forward = forward  # type: ignore[method-assign, assignment]


def _watch_files() -> None:
    """Files hold the CPU's tensors, and are read onto the device that the script names."""
    load, save = torch.load, torch.save

    @wraps(load)
    def read(file: Any, map_location: Any = None, *rest: Any, **options: Any) -> Any:
        is_named = isinstance(map_location, (str, torch.device, int))
        found = load(file, "cpu" if is_named or map_location is None else map_location, *rest, **options)
        index = GPU.index_of(map_location) if is_named else None
        return found if index is None else tree_map_only(torch.Tensor, lambda each: onto(each, index), found)

    @wraps(save)
    def write(thing: Any, file: Any, *rest: Any, **options: Any) -> None:
        save(tree_map_only(GpuTensor, inner_of, thing), file, *rest, **options)

    torch.load, torch.save = read, write  # type: ignore[assignment]
    keep = Encoder._tensor

    def kept(encoder: Encoder, tensor: Any, path: str) -> Any:
        return keep(encoder, inner_of(tensor) if isinstance(tensor, GpuTensor) else tensor, path)

    Encoder._tensor = kept  # type: ignore[method-assign, assignment]
