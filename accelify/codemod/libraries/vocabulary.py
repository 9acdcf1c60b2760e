"""Words of libraries that name no function: texts and options for devices, variables of launchers, whole libraries."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TypeGuard

from accelify.codemod.libraries.row import Asks

_DEVICE_TYPES = ("cuda", "cpu", "mps", "xpu")
_DEVICE_NAME = re.compile(r"(^|_)(devices?|dev|dvc|gpus?|cuda)(_?ids?)?$|^(local_)?rank$")
_DEVICE_WORD = re.compile(r"cpu|cuda|gpu|device|xpu|\bmps\b", re.IGNORECASE)
_OF_THE_MACHINE = ("torch.cuda", "torch.accelerator", "platform.", "sys.platform", "os.name")
_OPTIONS = re.compile(
    r"(self\.)?(args|arguments|opts?|options|conf|configs?|cfgs?|hp|hps|hyp|hparams?|params|settings|flags)",
    re.IGNORECASE,
)
_PARALLEL_OPTION = re.compile(r"(^|_)(n|num|multi|number_of)_?gpus?$|parallel$")
_DEVICE_OPTIONS = frozenset({"device", "dev", "use_cuda", "cuda", "gpu"})
_BATCH_SIZE = re.compile(r"(^|_)(batch_?size|bsz?)$", re.IGNORECASE)
_LOSS = re.compile(r"(loss|criterion|entropy)(_(fn|func|function|f))?$|mean$", re.IGNORECASE)
_AUTOCAST_DEFAULTS = {"cuda": "fp16", "cpu": "bf16"}
_LOW_PRECISION = {"torch.float16": "fp16", "torch.half": "fp16", "torch.bfloat16": "bf16"}
# Names that run the training itself, in libraries that hold much else besides.
_RUN_TRAINING = {
    "accelify.runtime": "*",
    "accelerate": "Accelerator PartialState notebook_launcher",
    "pytorch_lightning": "Trainer LightningModule LightningLite LightningCLI",
    "lightning": "Trainer LightningModule Fabric LightningCLI",
    "ignite": "Engine create_supervised_*",
    "fastai": "*[lL]earner fit* Recorder",
    "catalyst": "*Runner Experiment",
    "ray": "TorchTrainer",
}
# Libraries that run it where a file has no loop of its own, and the next step for such a file; {} stands for its path.
_TRAINERS = {"transformers": "*Trainer", "trl": "*Trainer"}
# Libraries that run it by a loop of their own, which does not know of processes.
_LOOPS = {"torchnet": "Engine", "skorch": "Neural*", "poutyne": "Model ModelBundle Experiment", "torchbearer": "Trial"}
_LOOP = "trained by a loop inside of {library}, which is not rewritten: write that loop into {}, and rewrite it"
_LIGHTNING = "trained by Lightning, which starts the processes itself: set `Trainer(devices=N)`"
_TRAINER = "trained by a Trainer, which needs no migration: start it with `torchrun --nproc-per-node=N {}`"
_NEXT_STEP = {
    "accelify.runtime": "migrated already: start it with `accelify launch {}`",
    "accelerate": "written for Hugging Face Accelerate already: start it with `accelerate launch {}`",
    "pytorch_lightning": _LIGHTNING,
    "lightning": _LIGHTNING,
    "ignite": "trained by Ignite, which distributes it: see `ignite.distributed.Parallel`",
    "fastai": "trained by fastai, which distributes it: see `Learner.distrib_ctx`",
    "catalyst": "trained by Catalyst, which distributes it: choose an engine for its runner",
    "ray": "trained by Ray Train, which starts the processes itself: set `ScalingConfig(num_workers=N)`",
    "transformers": _TRAINER,
    "trl": _TRAINER,
    **{library: _LOOP.replace("{library}", library) for library in _LOOPS},
}
# Libraries that know of no device: they make an array of what they take, or fail.
_OF_ARRAYS = frozenset(
    "numpy scipy pandas polars xarray sklearn skimage cv2 PIL imageio tifffile nibabel SimpleITK h5py pywt librosa "
    "soundfile resampy matplotlib mpl_toolkits pylab seaborn plotly bokeh altair statsmodels nltk umap hdbscan "
    "imblearn xgboost lightgbm catboost mlxtend scikitplot numba pycocotools medpy gym gymnasium".split()
)
# Those that write down what they are given, and take what is in the host's memory.
_WRITE_DOWN = frozenset("json csv pickle".split())
# The arguments of what `torch.distributed` exchanges between processes: in place, into a list.
_IN_PLACE = {
    "all_reduce": ("tensor", "op"),
    "reduce": ("tensor", "dst", "op"),
    "broadcast": ("tensor", "src"),
    "broadcast_object_list": ("object_list", "src"),
}
_GATHERED = {"all_gather": ("tensor_list", "tensor"), "all_gather_object": ("object_list", "obj")}
_ASKED_BY_VARIABLE = {
    **dict.fromkeys(("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"), Asks.RANK),
    **dict.fromkeys(("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"), Asks.LOCAL_RANK),
    **dict.fromkeys(("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), Asks.SIZE),
}

_DIFFERENTIATES = re.compile(
    r"^\s*(?:import|from)\s+(?:mxnet|paddle|jittor|oneflow|mindspore|tinygrad|chainer|needle)\b", re.MULTILINE
)
_DISTRIBUTES = re.compile(
    rb"torch\.distributed|import distributed|DistributedDataParallel|DistributedSampler|init_process_group|"
    rb"\baccelerate\b|\baccelify\b|\bhorovod\b"
)
_SHARES = re.compile(
    _DISTRIBUTES.pattern + rb"|rank|is_main|is_master|DataLoader|add_argument|torch\.save|\.backward\("
)
# Usual names of facts about the processes, where nothing else shows their value.
_ASKED_BY_NAME = {
    **dict.fromkeys(
        "rank global_rank world_rank process_index proc_id procid process_id get_rank ddp_rank dist_rank "
        "get_global_rank global_process_index".split(),
        Asks.RANK,
    ),
    **dict.fromkeys(
        "local_rank local_process_index ddp_local_rank get_local_rank local_process_rank".split(), Asks.LOCAL_RANK
    ),
    **dict.fromkeys(
        "is_main_process is_main is_master is_master_process main_process master_process is_rank_zero is_rank0 "
        "is_rank_0 is_root is_chief is_local_main_process is_local_master is_global_zero is_world_process_zero "
        "is_first_process is_primary is_global_primary is_local_primary is_leader is_main_proc is_master_proc".split(),
        Asks.IS_MAIN,
    ),
    **dict.fromkeys(
        "distributed is_distributed use_ddp ddp is_ddp use_distributed dist_train multiprocessing_distributed "
        "is_dist_avail_and_initialized is_dist distributed_run".split(),
        Asks.STARTED,
    ),
    **dict.fromkeys(
        "world_size num_processes nprocs n_procs get_world_size num_replicas ddp_world_size".split(), Asks.SIZE
    ),
}
_MAY_ASK = re.compile(
    r"rank|main|master|root|chief|zero|primary|leader|proc|gpu|worker|local|node|host|device|dist|ddp|verbose|logger|\bnr\b|"
    r"writer|wandb|board|rank0|first|coordinator",
    re.IGNORECASE,
)
_OWN_PATH = re.compile(
    r"rank|gpu|proc|worker|local|uuid|time|date|now|tmp|temp|host|pid|shard|rng|random|devnull|stdout|stderr|/dev/",
    re.IGNORECASE,
)
_ASKS_FOR_WRAPPER = re.compile(r"hasattr|isinstance|type\(|module|parallel|wrap", re.IGNORECASE)
_SENDS_WEIGHTS = re.compile("broadcast|Parallel|fully_shard|deepspeed|load_state_dict")
_SPREADS_MODELS = re.compile("FSDP|FullyShardedDataParallel|fully_shard|deepspeed|ZeroRedundancyOptimizer")
_UNEVEN = re.compile(r"even_batches\s*=\s*False|join_uneven_inputs")
_REDUCED = re.compile(r"reduce|gather|broadcast|sync", re.IGNORECASE)

_ENVIRONMENT = re.compile(r"(env|envs|environment)$", re.IGNORECASE)
_SETTINGS = frozenset("parse_args parse_known_args yaml.load safe_load json.load EasyDict edict Namespace".split())

_ANSWERED_BY_WRAPPER = frozenset(
    "train eval training parameters zero_grad to cuda cpu float double half requires_grad_ share_memory forward apply "
    "buffers __class__ module".split()
)
_KEPT_BY_OPTIMIZERS = frozenset(
    "step zero_grad param_groups state state_dict load_state_dict defaults add_param_group".split()
)
_WRITES = re.compile(
    r"(^|_)(save(?!_for_backward$)|saves|write|writes|dump|export|commit)(_|$|[A-Z])"
    r"|(^|_)to_(csv|json(?!_str(ing)?$)|file|disk|excel|parquet)(_|$|[A-Z])"  # `to_json_string` gives a text
    r"|^SummaryWriter$",
    re.ASCII,
)
_DOWNLOADS = re.compile(r"(^|_)(download|downloads)(_|$|[A-Z])")
_PLOTS = re.compile(r"(^|_)(plot|plots|draw|render|visualize|visualise|show|record|log)(_|$|[A-Z])")
_LOOKING = frozenset("nvidia-smi ls pwd cat head echo which whoami hostname uname lscpu free df du clear cls".split())
_REMOVING = frozenset("rm rmdir mv".split())
_TOUCHING = _REMOVING | frozenset("mkdir cp touch ln zip".split())
_FILE_NAME = re.compile(r"\w\.[A-Za-z]\w{1,4}$")


def is_device_text(value: object) -> TypeGuard[str]:
    """`"cuda"`, `"cuda:1"`, `"cpu"`, `"mps"`."""
    return isinstance(value, str) and value.partition(":")[0] in _DEVICE_TYPES


def mentions_devices(text: str) -> bool:
    """Code with a word for a device in it: `args.no_cuda`."""
    return _DEVICE_WORD.search(text) is not None


def is_about_the_machine(name: str) -> bool:
    """Whether this depends on the machine: `torch.cuda.is_available`, `platform.system`."""
    return name.startswith(_OF_THE_MACHINE)


def is_device_name(last: str) -> bool:
    """The last names of what holds devices: `device`, `gpu_id`, `teacher_device`, `rank`."""
    return _DEVICE_NAME.search(last) is not None


def is_device_option(name: str) -> bool:
    """Parameters of a script's own functions that say where to compute: `device`, `use_cuda`."""
    return name in _DEVICE_OPTIONS


def is_parallel_option(name: str) -> bool:
    """Names that say whether one process computes on several GPUs: `multi_gpu`, `n_gpu`, `data_parallel`."""
    return _PARALLEL_OPTION.search(name) is not None


def holds_options(text: str) -> bool:
    """Whether scripts use such a name for the options of a run: `args`, `self.config`, `FLAGS`."""
    return _OPTIONS.fullmatch(text) is not None


def is_name_of_a_batch_size(name: str) -> bool:
    """Whether scripts use such a name for how many samples are in a batch: `batch_size`, `train_bs`."""
    return _BATCH_SIZE.search(name) is not None


def is_name_of_a_loss(name: str) -> bool:
    """Whether scripts use such a name for a loss that is a mean over the rows: `criterion`, `dice_loss`."""
    return _LOSS.search(name) is not None


def low_precision(name: str) -> str | None:
    """`fp16` for `torch.float16`, `bf16` for `torch.bfloat16`."""
    return _LOW_PRECISION.get(name)


def autocast_default(device: object) -> str | None:
    """The precision of `autocast` on a type of device, if it is not said."""
    return _AUTOCAST_DEFAULTS.get(str(device))


def training_library(module: str) -> str | None:
    """The library that can run the training, of which a module is a part: `lightning` of `lightning.pytorch`."""
    return next((each for each in _NEXT_STEP if module == each or module.startswith(f"{each}.")), None)


def runs_training(library: str, name: str, *, besides_loops: bool = True) -> bool:
    """Whether something of such a library runs the training: `Trainer`; a star may bring anything.

    besides_loops: whether it does so in files that have a loop of their own, too.
    """
    known = _RUN_TRAINING.get(library) or ("" if besides_loops else {**_TRAINERS, **_LOOPS}.get(library, ""))
    return bool(known) and (name == "*" or any(fnmatchcase(name, pattern) for pattern in known.split()))


def is_trainer(library: str, name: str) -> bool:
    """Whether something of a library trains by itself, on Hugging Face Accelerate."""
    return fnmatchcase(name, _TRAINERS.get(library, ""))


def next_step(library: str, path: str) -> str:
    """The next step for a file whose training such a library runs."""
    return _NEXT_STEP[library].replace("{}", path)


def is_on_host(name: str) -> bool:
    """Whether this belongs to a library that knows no device and needs its data in the host's memory."""
    return takes_arrays(name) or name.partition(".")[0] in _WRITE_DOWN


def takes_arrays(name: str) -> bool:
    """Whether this belongs to a library that makes arrays of its arguments: a tensor in the host's memory will do."""
    return name.partition(".")[0] in _OF_ARRAYS


def exchanged_in_place(name: str) -> tuple[str, ...]:
    """The arguments of a function of `torch.distributed` that changes the first: `("tensor", "op")` of `all_reduce`."""
    return _IN_PLACE.get(name, ())


def gathered(name: str) -> tuple[str, ...]:
    """The list, and what each process puts into it, of a function of `torch.distributed` that gathers."""
    return _GATHERED.get(name, ())


def asked_by_variable(name: str) -> Asks | None:
    """The fact about the run that an environment variable gives: the rank, the number of processes."""
    return _ASKED_BY_VARIABLE.get(name)


def asked_by_name(name: str) -> Asks | None:
    """The fact about the run that an otherwise unknown name suggests: `is_main_process`."""
    return _ASKED_BY_NAME.get(name.lstrip("_").lower())


def may_ask_for_rank(text: str) -> bool:
    """Whether a condition may be about which process this is, or about what one process alone has: `if writer:`."""
    return _MAY_ASK.search(text) is not None


def may_be_one_ranks_path(text: str) -> bool:
    """Whether a path may be another one in each process: it names the rank, the time, a temporary folder."""
    return _OWN_PATH.search(text) is not None


def may_be_reduced(text: str) -> bool:
    """Whether an expression may give what all processes agree on: `reduce_tensor(loss)`, `accelerator.gather(loss)`."""
    return _REDUCED.search(text) is not None


def may_leave_ends_uneven(text: str) -> bool:
    """Whether a script may have its accelerator not complete the last round: `Accelerator(even_batches=False)`."""
    return _UNEVEN.search(text) is not None


def may_ask_for_wrapper(text: str) -> bool:
    """Whether a condition may be about a wrapper round a model: `if hasattr(model, "module"):`."""
    return _ASKS_FOR_WRAPPER.search(text) is not None


def may_send_weights(text: str) -> bool:
    """Whether a script may give all processes the weights of one: it broadcasts, wraps its model, or loads a state."""
    return _SENDS_WEIGHTS.search(text) is not None


def may_spread_models(text: str) -> bool:
    """Whether a script may keep parts of a state on each process, so that all of them have to gather it."""
    return _SPREADS_MODELS.search(text) is not None


def may_differentiate(text: str) -> bool:
    """Whether a file imports another library than torch whose losses have a `backward`."""
    return _DIFFERENTIATES.search(text) is not None


def may_distribute(data: bytes) -> bool:
    """Whether a file may be a script of several processes, or part of one."""
    return _DISTRIBUTES.search(data) is not None


def may_share_processes(data: bytes) -> bool:
    """Whether a file that such a script imports may matter to what its processes do together."""
    return _SHARES.search(data) is not None


def is_accelerator_name(name: str) -> bool:
    """Whether scripts use such a name for Accelerate's object, where nothing else shows its class."""
    return name.lstrip("_") in ("accelerator", "accelerate")


def is_environment_name(text: str) -> bool:
    """The names of what simulates: `env`, `self.train_envs`."""
    return _ENVIRONMENT.search(text) is not None


def reads_settings(name: str) -> bool:
    """Calls, as they are spelled or by their last name, that give the options of a run."""
    return name in _SETTINGS


def is_answered_by_wrapper(attribute: str) -> bool:
    """Members of a module that the wrapper of `torch.nn.parallel` answers as the module itself would."""
    return attribute in _ANSWERED_BY_WRAPPER


def is_kept_by_optimizers(attribute: str) -> bool:
    """Members of an optimizer that an optimizer wrapped by an accelerator has, too."""
    return attribute in _KEPT_BY_OPTIMIZERS


def may_write(name: str) -> bool:
    """Whether the name of an unknown function suggests that it writes a file: `save_grid`, `to_csv`, `saveResults`."""
    return _WRITES.search(name) is not None


def only_looks(command: str) -> bool:
    """Whether a command shows something and changes no file: `nvidia-smi -L`."""
    return ">" not in command and _programs(command) <= _LOOKING


def only_touches_files(command: str) -> bool:
    """Whether a command makes, copies, moves or removes files, and does nothing else: `rm -rf runs && mkdir runs`."""
    return _programs(command) <= _TOUCHING


def removes_files(command: str) -> bool:
    """Whether a command removes or moves files: `mv last.pt best.pt`."""
    return not _programs(command).isdisjoint(_REMOVING)


def _programs(command: str) -> set[str]:
    """The programs that a command runs; an empty name where nothing tells which."""
    return {(part.split() or [""])[0] for part in re.split(r"[|;&]+", command)}


def may_plot(name: str) -> bool:
    """Whether the name of an unknown function suggests that it makes a picture: `plot_losses`."""
    return _PLOTS.search(name) is not None


def is_for_images(name: str) -> bool:
    """Whether a function is named for images: `save_image`, `writer.add_images`."""
    return "image" in name.lower()


def may_download(name: str) -> bool:
    """Whether the name of an unknown function suggests that it fetches files: `maybe_download`."""
    return _DOWNLOADS.search(name) is not None


def is_file_name(text: str) -> bool:
    """Whether a text reads like the name of a file: it ends in a dot and letters."""
    return _FILE_NAME.search(text) is not None
