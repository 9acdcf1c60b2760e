"""The options of an Accelerator that come in groups, under the names that Hugging Face Accelerate's users know."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from typing import Any  # what torch.autocast, GradScaler and the profiler take

# The dtypes to which gradients can be rounded for their way between the ranks.
COMPRESSED = ("fp16", "bf16")


class KwargsHandler:
    """Options that `kwargs_handlers` may hold; what they are, as dicts."""

    def to_dict(self) -> dict[str, Any]:
        """All of them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # dataclasses

    def to_kwargs(self) -> dict[str, Any]:
        """Those that differ from the defaults."""
        defaults = type(self)().to_dict()
        return {name: value for name, value in self.to_dict().items() if value != defaults[name]}


@dataclass
class AutocastKwargs(KwargsHandler):
    """How autocast runs in mixed precision."""

    enabled: bool = True
    cache_enabled: bool | None = None


@dataclass
class GradScalerKwargs(KwargsHandler):
    """How the loss is scaled in fp16. Units: growth_interval in steps."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    enabled: bool = True


@dataclass
class InitProcessGroupKwargs(KwargsHandler):
    """How the process group starts. Backend and address follow from the device and the launcher, whatever is given;
    `timeout` is how long a rank waits.
    """

    backend: str | None = None
    init_method: str | None = None
    timeout: timedelta | None = None


@dataclass
class DistributedDataParallelKwargs(KwargsHandler):
    """Accepted for scripts that have it; none is needed: unused parameters and buffers are always taken care of."""

    dim: int = 0
    broadcast_buffers: bool = True
    bucket_cap_mb: int = 25
    find_unused_parameters: bool = False
    check_reduction: bool = False
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    comm_hook: Any = None
    comm_wrapper: Any = None
    comm_state_option: dict[str, Any] = field(default_factory=dict)


@dataclass
class GradientAccumulationPlugin(KwargsHandler):
    """How micro-batches make up a step. Units: num_steps in micro-batches."""

    num_steps: int = 1
    adjust_scheduler: bool = True
    sync_with_dataloader: bool = True
    sync_each_batch: bool = False


@dataclass
class DataLoaderConfiguration:
    """How loaders are divided.

    The last four are accepted for scripts that have them: every process reads for itself, copies to the device never
    block, the order of any sampler is shared, and every loader can go on in the middle of an epoch.
    """

    split_batches: bool = False
    dispatch_batches: bool | None = None
    even_batches: bool = True
    use_seedable_sampler: bool = False
    data_seed: int | None = None
    non_blocking: bool = True
    use_stateful_dataloader: bool = False

    @classmethod
    def settle(cls, given: DataLoaderConfiguration | None, **own: Any) -> DataLoaderConfiguration:
        """The configuration, or one of the accelerator's own arguments. Raises: ValueError where both speak."""
        own = {name: value for name, value in own.items() if value is not None}
        if given is not None and own:
            raise ValueError(f"{', '.join(own)} and dataloader_config: give one of them")
        return given or cls(**own)


@dataclass
class TorchDynamoPlugin(KwargsHandler):
    """How `torch.compile` compiles the models that are prepared."""

    backend: str = "inductor"
    mode: str | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    options: dict[str, Any] | None = None
    disable: bool = False
    use_regional_compilation: bool | None = None

    def __post_init__(self) -> None:
        if self.use_regional_compilation:
            raise ValueError("use_regional_compilation is not here: compile the blocks yourself, before prepare")

    @property
    def compile_options(self) -> dict[str, Any]:
        """The arguments of `nn.Module.compile`."""
        return {name: value for name, value in asdict(self).items() if name != "use_regional_compilation"}

    @classmethod
    def settle(cls, given: TorchDynamoPlugin | None, backend: object) -> TorchDynamoPlugin | None:
        """The plugin, or one for this backend; None where nothing is compiled."""
        name = str(getattr(backend, "value", backend) or "no").lower()
        if given is None and name != "no":
            given = cls(backend=name)
        return given


@dataclass
class ProfileKwargs(KwargsHandler):
    """Settings of `accelerator.profile()`; `activities` are any of "cpu", "cuda" and "xpu", None for all there are.

    `schedule_option` is what `torch.profiler.schedule` takes (Units: steps), `output_trace_dir` where each process
    writes its trace as `profile_<rank>.json`, for chrome://tracing.
    Source: https://docs.pytorch.org/docs/stable/profiler.html
    """

    activities: list[str] | None = None
    schedule_option: dict[str, int] | None = None
    on_trace_ready: Callable[..., Any] | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    output_trace_dir: str | None = None

    def build(self) -> Any:
        """The profiler, a context. Raises: ValueError for an activity that torch does not know."""
        from torch import profiler  # a second of import, for who profiles

        options = self.to_dict()
        del options["output_trace_dir"]
        if self.activities is not None:
            known = profiler.ProfilerActivity.__members__
            unknown = [name for name in self.activities if name.upper() not in known]
            if unknown:
                raise ValueError(f"activities={unknown}: choose from {', '.join(name.lower() for name in known)}")
            options["activities"] = [known[name.upper()] for name in self.activities]
        steps = options.pop("schedule_option")
        return profiler.profile(schedule=None if steps is None else profiler.schedule(**steps), **options)


@dataclass
class ProjectConfiguration:
    """Where a run keeps its files."""

    project_dir: str | None = None
    logging_dir: str | None = None
    automatic_checkpoint_naming: bool = False
    total_limit: int | None = None
    iteration: int = 0
    save_on_each_node: bool = False

    def set_directories(self, project_dir: str | None = None) -> None:
        """Keep everything there, unless `logging_dir` is another."""
        self.project_dir = project_dir
        self.logging_dir = self.logging_dir or project_dir


def project_configuration(
    project_dir: str | os.PathLike[str] | None, given: ProjectConfiguration | None
) -> ProjectConfiguration:
    """The configuration with its folders; an argument of its own wins. The given one stays as it is."""
    project = replace(given or ProjectConfiguration())
    if project_dir is not None:
        project.project_dir = os.fspath(project_dir)
    project.logging_dir = project.logging_dir or project.project_dir
    return project


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """The objects in `kwargs_handlers`, by their purpose."""

    autocast: dict[str, Any] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)
    process_group: InitProcessGroupKwargs = field(default_factory=InitProcessGroupKwargs)
    comm_hook: str | None = None
    profile: ProfileKwargs = field(default_factory=ProfileKwargs)

    @classmethod
    def sort(cls, handlers: Iterable[object] | None) -> Handlers:
        """The handlers, each in its place. Raises: TypeError for one that is none of ours."""
        sorted_ones: dict[str, Any] = {}
        for handler in handlers or ():
            if isinstance(handler, AutocastKwargs):
                sorted_ones["autocast"] = {key: value for key, value in asdict(handler).items() if value is not None}
            elif isinstance(handler, GradScalerKwargs):
                sorted_ones["scaler"] = asdict(handler)
            elif isinstance(handler, InitProcessGroupKwargs):
                sorted_ones["process_group"] = handler
            elif isinstance(handler, DistributedDataParallelKwargs):
                hook = getattr(handler.comm_hook, "value", handler.comm_hook)
                if hook not in (None, "no", *COMPRESSED):
                    raise ValueError(f"comm_hook={hook!r}: choose no, {' or '.join(COMPRESSED)}")
                sorted_ones["comm_hook"] = hook if hook in COMPRESSED else None
            elif isinstance(handler, ProfileKwargs):
                sorted_ones["profile"] = handler
            else:
                raise TypeError(f"kwargs_handlers: {type(handler).__name__} is none of accelify's")
        return cls(**sorted_ones)
