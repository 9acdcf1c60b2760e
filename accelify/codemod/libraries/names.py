"""What a qualified name stands for in training: an optimizer, a loader, a module? Asked of the table."""

from __future__ import annotations

import re
from functools import cache

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import DRAWS, SHOWN, Asks, Device, Effect, Role, Rows, Same, Trait

_KEPT_ROWS = (Rows.EACH, Rows.ALONG, Rows.SELECTS, Rows.CONCATENATES)


def is_optimizer(name: str | None) -> bool:
    """`torch.optim.AdamW` and the optimizers of other libraries, not schedulers."""
    return _has_role(name, Role.OPTIMIZER)


def is_scheduler(name: str | None) -> bool:
    """Learning-rate schedulers of torch and of transformers."""
    return _has_role(name, Role.SCHEDULER)


def is_loader(name: str | None) -> bool:
    """Whether this yields batches."""
    return _has_role(name, Role.LOADER)


def normalizes_observations(name: str | None) -> bool:
    """Wrappers of environments that keep running statistics: `gym.wrappers.NormalizeObservation`."""
    return _has_trait(name, Trait.NORMALIZES)


def is_torch_loader(name: str | None) -> bool:
    """Loaders that are `torch.utils.data.DataLoader` or a subclass of it."""
    return _has_trait(name, Trait.TORCH_LOADER)


def is_container(name: str | None) -> bool:
    """Classes of Python's whose objects hold others: `dict`, `list`, `typing.NamedTuple`."""
    row = table.function(name)
    return row is not None and any(table.is_kind(row.returns, kind) for kind in ("dict", "list", "tuple"))


def yields_graphs(name: str | None) -> bool:
    """Loaders whose batches are objects that move themselves: those of `torch_geometric` and `dgl`."""
    return _has_trait(name, Trait.YIELDS_GRAPHS)


def is_parameter(name: str | None) -> bool:
    """`torch.nn.Parameter`."""
    row = table.function(name)
    return row is not None and row.returns == "parameter"


def is_module(name: str | None) -> bool:
    """Classes and factories of `nn.Module`s, losses included; base classes, too."""
    row = table.function(name)
    return (
        row is not None and row.role in (Role.MODEL, Role.LOSS, Role.WRAPPER) and table.is_kind(row.returns, "module")
    )


def takes_no_arguments(name: str | None) -> bool:
    """Base classes whose subclasses are made without arguments if they have no constructor: `torch.nn.Module`."""
    return name == "torch.nn.Module" or is_operation(name)


def is_operation(name: str | None) -> bool:
    """The base class of a script's own operations, which has torch run their `forward` and `backward`."""
    return name in ("torch.autograd.Function", "torch.autograd.function.Function")


def is_loss(name: str | None) -> bool:
    """Loss modules: `torch.nn.CrossEntropyLoss`."""
    row = table.function(name)
    return row is not None and row.returns == "loss"


def gives_loss(name: str | None) -> bool:
    """Functions that compute a loss: `torch.nn.functional.mse_loss`."""
    row = table.function(name)
    return row is not None and row.role is Role.LOSS and row.returns == "tensor"


def has_weights(name: str | None) -> bool:
    """Modules that have weights, as far as can be seen: `torch.nn.Linear`, not `torch.nn.ReLU`, nor a loss."""
    return is_module(name) and not is_loss(name) and not _has_trait(name, Trait.HAS_NO_WEIGHTS)


@cache
def without_weights() -> frozenset[str]:
    """What the modules that have no weights are called, wherever they are: `ReLU`, `CrossEntropyLoss`."""
    return frozenset(n.rpartition(".")[2] for n in table.names(lambda row: row.has(Trait.HAS_NO_WEIGHTS)))


def is_wrapper(name: str | None) -> bool:
    """`nn.DataParallel` and `DistributedDataParallel`."""
    row = table.function(name)
    return row is not None and row.role is Role.WRAPPER and row.returns == "wrapper"


def divides_batches(name: str | None) -> bool:
    """`nn.DataParallel`, which divides each batch between the GPUs of one process."""
    return is_wrapper(name) and not _has_trait(name, Trait.SPREADS)


def moves_its_inputs(name: str | None) -> bool:
    """Wrappers that bring what they are called with to their model's device: `nn.DataParallel`."""
    return _has_trait(name, Trait.MOVES_INPUTS)


def returns_its_model(name: str | None) -> bool:
    """Calls whose result is their first argument, seen as a model."""
    return _has_role(name, Role.WRAPPER)


def adds_up_itself(name: str | None) -> bool:
    """Metrics that, asked for their value, add up over all processes by themselves."""
    return _has_trait(name, Trait.REDUCES_ITSELF)


def iteration(name: str | None) -> str | None:
    """How a call passes on what its arguments yield: `same`, `enumerate`, `zip`, `chain` or `filter`."""
    row = table.function(name)
    return None if row is None else row.passes


def gives_iterator(name: str | None) -> bool:
    """Calls that return an iterator, which has no length: `zip`, `itertools.chain`."""
    row = table.function(name)
    return row is not None and row.returns == "iterator"


def is_device(name: str | None) -> bool:
    """Calls that return a device."""
    return _has_role(name, Role.DEVICE)


def stays_with_arguments(name: str | None) -> bool:
    """Functions whose result lives where the tensors that they are given do."""
    row = table.function(name)
    return row is not None and row.returns == "tensor" and row.device is Device.ARGUMENTS


def joins_tensors(name: str | None) -> bool:
    """Functions that put tensors together, with the values that they have: `torch.cat`, `torch.stack`."""
    row = table.function(name)
    return row is not None and row.rows is Rows.CONCATENATES and stays_with_arguments(name)


def is_cuda_test(name: str | None) -> bool:
    """Calls that ask whether there is an accelerator."""
    return _has_role(name, Role.DEVICE_TEST)


def is_autocast(name: str | None) -> bool:
    """`torch.autocast` and its older names."""
    return _has_role(name, Role.AUTOCAST)


def is_scaler(name: str | None) -> bool:
    """`GradScaler`, under its names."""
    return _has_role(name, Role.SCALER)


def is_distributed(name: str | None) -> bool:
    """Names whose use means that a script already spreads over processes by itself."""
    return _has_trait(name, Trait.SPREADS)


def is_for_tpu(name: str | None) -> bool:
    """Functions that train on a TPU, whether or not a script spreads over several: `xm.xla_device`."""
    return _has_trait(name, Trait.TPU)


def runs_beside(name: str | None) -> bool:
    """Processes and threads, and pools of them: what they are given runs beside the script."""
    row = table.function(name)
    return row is not None and any(table.is_kind(row.returns, kind) for kind in ("thread", "pool"))


def _has_role(name: str | None, role: Role) -> bool:
    row = table.function(name)
    return row is not None and row.role is role


def _has_trait(name: str | None, trait: Trait) -> bool:
    row = table.function(name)
    return row is not None and trait in row.traits


def is_dataset(name: str | None) -> bool:
    """Data sets of libraries, which may download themselves."""
    return _has_role(name, Role.DATASET)


def fetches(name: str | None) -> bool:
    """Data sets that download what is missing, unasked: those of `torch_geometric`."""
    return _has_trait(name, Trait.FETCHES)


def is_sampler(name: str | None) -> bool:
    """Samplers, of one process or of several."""
    return _has_role(name, Role.SAMPLER)


def is_plain_sampler(name: str | None) -> bool:
    """Samplers of one process."""
    return is_sampler(name) and not is_distributed(name)


def is_distributed_sampler(name: str | None) -> bool:
    """Samplers that give each process its shard: `DistributedSampler`."""
    return is_sampler(name) and is_distributed(name)


def is_plain_loader(name: str | None) -> bool:
    """Torch's own loader, no subclass of it."""
    return _has_trait(name, Trait.PLAIN_LOADER)


def memory_of_type(name: str | None) -> Device | None:
    """Where a type of tensors has them: the host for `torch.FloatTensor`, the GPU for `torch.cuda.FloatTensor`."""
    row = table.function(name)
    is_type = row is not None and row.role is Role.FACTORY and (name or "").endswith("Tensor")
    return row.device if row is not None and is_type else None


def is_factory(name: str | None) -> bool:
    """Functions of torch that make a tensor of their own: `torch.zeros`, `torch.tensor`; not `torch.zeros_like`."""
    row = table.function(name)
    if row is None or row.returns != "tensor" or row.device is None:
        return False
    is_made = row.role is Role.FACTORY or Effect.DRAWS_TORCH in row.effects
    is_like = row.device in (Device.OPTION_OR_ARGUMENT, Device.ARGUMENTS) and Trait.SAME_VALUES not in row.traits
    return is_made and not is_like


def may_take_a_device(name: str) -> bool:
    """Functions for which a device will do where its name does: torch's, builtins, and those that print it."""
    row = table.function(name)
    if name.startswith("torch.") or "." not in name:
        return True
    return row is not None and (row.device is not None or row.role is not None or bool(row.effects & SHOWN))


def draws(name: str | None) -> bool:
    """Functions that draw random numbers, from whichever generator; those of training mode do not count."""
    row = table.function(name)
    return row is not None and bool(row.effects & (DRAWS - {Effect.DRAWS_IN_TRAINING}))


def is_seed(name: str | None) -> bool:
    """Functions that seed a generator of torch, of NumPy, of Python, or of all of them."""
    return _has_role(name, Role.SEED)


def is_clock(name: str | None) -> bool:
    """`time.time`, `datetime.now`."""
    return _has_role(name, Role.CLOCK)


def differs(name: str | None) -> bool:
    """Functions whose result is another in each process: `time.time`, `uuid.uuid4`, `os.getpid`, `tempfile.mkdtemp`."""
    row = table.function(name)
    return row is not None and row.same is Same.NO and Trait.SPREADS not in row.traits


def stops_run(name: str) -> bool:
    """Exceptions by which a run is ended from outside, not by an error: `KeyboardInterrupt`."""
    return name in ("KeyboardInterrupt", "SystemExit", "GeneratorExit", "StopIteration")


def is_any_exception(name: str) -> bool:
    """The exceptions that all errors are, and the end of an iterator: `Exception`."""
    return name in ("Exception", "BaseException")


def makes_temporary(name: str | None) -> bool:
    """Functions that make a file or a folder of a name of its own: `tempfile.mkstemp`."""
    return name is not None and name.startswith("tempfile.") and differs(name)


def is_without_gradient(name: str | None) -> bool:
    """`torch.no_grad`, `torch.inference_mode`."""
    return _has_trait(name, Trait.NO_GRADIENT)


def makes_generator(name: str | None) -> bool:
    """`numpy.random.default_rng`, `random.Random`: they make a random generator, seeded by their argument."""
    row = table.function(name)
    return row is not None and row.role is Role.GENERATOR


def sets_gradient(name: str | None) -> bool:
    """`torch.no_grad`, `torch.enable_grad`: contexts and decorators that say whether gradients are computed."""
    return _has_trait(name, Trait.SETS_GRADIENT)


def enables_gradients(name: str | None) -> bool:
    """`torch.enable_grad`, and `torch.set_grad_enabled` as its argument says."""
    return sets_gradient(name) and not is_without_gradient(name)


def is_context(name: str | None) -> bool:
    """Whether this affects nothing but the code that runs under it: `torch.no_grad`, `torch.autocast`."""
    row = table.function(name)
    is_for_itself = row is not None and (Trait.SETS_GRADIENT in row.traits or row.is_pure)
    return is_for_itself and row is not None and row.returns == "context"


def clips_gradients(name: str | None) -> bool:
    """`torch.nn.utils.clip_grad_norm_`."""
    return _has_trait(name, Trait.CLIPS_GRADIENTS)


def makes_items(name: str | None) -> bool:
    """Calls that make a dictionary of another, of pairs, and of what they are given by name."""
    row = table.function(name)
    return row is not None and Trait.ITEMS in row.traits


ATTRIBUTE_DICT = "munch.Munch"  # which stands for each class that does the same


def has_items_as_attributes(name: str | None) -> bool:
    """Calls that make a dictionary whose items are its attributes, too: `nets["critic"]`, `nets.critic`."""
    row = table.function(name)
    return row is not None and Trait.ATTRIBUTES in row.traits


def same_values(name: str | None) -> bool:
    """Functions of torch whose result has the values of their first argument: `torch.tensor`."""
    row = table.function(name)
    return row is not None and row.returns == "tensor" and Trait.SAME_VALUES in row.traits


def gives_its_argument(name: str | None) -> bool:
    """Functions whose result is their first argument by another name: `torch.autograd.Variable`."""
    return same_values(name) and _has_trait(name, Trait.VIEW) and not shares_memory(name)


def shares_memory(name: str | None) -> bool:
    """Functions whose result may be in the memory of the array, or tensor, that they are given: `torch.from_numpy`."""
    row = table.function(name)
    return row is not None and row.role is Role.FACTORY and Trait.VIEW in row.traits


def gives_an_array(name: str | None) -> bool:
    """Functions of NumPy whose result has values of what they are given, an array or a tensor: `numpy.argmax`."""
    row = table.function(name)
    is_array = row is not None and row.returns == "ndarray" and row.rows in _KEPT_ROWS
    return is_array and _has_trait(name, Trait.NEEDS_HOST) and not leaves_to_argument(name)


def leaves_to_argument(name: str | None) -> bool:
    """Functions of NumPy that leave it to a tensor what they do, and so give a tensor where it is: `numpy.squeeze`."""
    row = table.function(name)
    return row is not None and row.returns == "ndarray" and row.has(Trait.LIKE_ARGUMENT)


def takes_text(name: str | None) -> bool:
    """Functions that write what they are given as text: `matplotlib.pyplot.title`."""
    return _has_trait(name, Trait.TAKES_TEXT)


def makes_a_container(name: str | None) -> bool:
    """Builtins that make a container of what they are given, or pass it on: `list`, `zip`, `dict`, `reversed`."""
    row = table.function(name)
    is_one = row is not None and row.returns in ("list", "tuple", "set", "dict", "iterator") and row.is_pure
    return is_one and "." not in str(name) and not is_counter(name)


def read_on_host(name: str | None) -> tuple[str, ...]:
    """The arguments of a function that must be in the CPU's memory: the lengths for `pack_padded_sequence`."""
    row = table.function(name)
    return row.host if row is not None else ()


@cache
def needing_host() -> re.Pattern[str]:
    """What shows in a text that its code may need tensors in the CPU's memory: `x.numpy()`, `torch.LongTensor(x)`."""
    functions = {name.rpartition(".")[2] for name in table.names(lambda row: bool(row.host))}
    factories = table.names(lambda row: row.role is Role.FACTORY)
    types = (name for name in factories if memory_of_type(name) is Device.HOST or name == "numpy.asarray")
    called = "|".join(sorted(name.rpartition(".")[2] for name in types))
    return re.compile(rf"\b(?:{'|'.join(sorted(functions))})\b|\.numpy\(|\b(?:{called})(?:\(| as )")


def gives_on(name: str | None) -> bool:
    """What gives what it is given, one by one, together, or computed by it: `list`, `map`, `sum`, `numpy.squeeze`."""
    row = table.function(name)
    if row is None or "." in str(name):
        return leaves_to_argument(name)
    return Trait.LIKE_ARGUMENT in row.traits or row.role is Role.ITERATION or row.returns in ("dict", "iterator")


def may_compute(name: str | None) -> bool:
    """Functions that may compute with the tensors they are given: not those that save, seed, optimize or hold them."""
    row = table.function(name)
    if row is None or row.returns == "tensor" or row.role in (Role.LOSS, Role.MODEL, Role.WRAPPER):
        return True
    return row.role is None and row.returns not in ("context", "argument") and row.effects <= {Effect.CALLS}


def is_parser(name: str | None) -> bool:
    """Whether this reads the options of a run."""
    return str(name).startswith("argparse.")


def goes_over(name: str | None) -> bool:
    """Builtins for which any container will do: `len`, `map`, `zip`, `list`."""
    row = table.function(name)
    if row is None or "." in str(name):
        return False
    return row.rows is Rows.COUNT or row.role is Role.ITERATION or row.returns == "iterator"


def ends_like_last(name: str | None) -> bool:
    """Whether this gives a path that ends like its last argument: `os.path.join`, `pathlib.Path`."""
    return _has_trait(name, Trait.ENDS_LIKE_LAST)


def is_set_up(name: str | None) -> bool:
    """Whether this only prepares a model for later, or wraps it: `wandb.watch`, `torch.compile`, `nn.DataParallel`."""
    return _has_trait(name, Trait.SETUP)


def yields_tensors(name: str | None) -> bool:
    """Data sets of tensors and numbers, which a loader collates: `TensorDataset`, those of torchvision."""
    return _has_trait(name, Trait.YIELDS_TENSORS)


def is_stream(name: str | None) -> bool:
    """Data sets without positions: `IterableDataset`."""
    return _has_trait(name, Trait.STREAMS)


def holds_data(name: str | None) -> bool:
    """Data sets that are made of their first argument: `Subset`, `random_split`."""
    row = table.function(name)
    return row is not None and row.role is Role.DATASET and bool(row.keeps)


def holds_tensors(name: str | None) -> bool:
    """Data sets that are made of tensors: `TensorDataset`."""
    return holds_data(name) and _has_trait(name, Trait.YIELDS_TENSORS)


def needs_no_group(name: str | None) -> bool:
    """Whether this has one answer for any group of processes, and without one: `torch.distributed.is_available`."""
    return _has_trait(name, Trait.NEEDS_NO_GROUP)


def asks_for_group(name: str | None) -> bool:
    """`torch.distributed.is_initialized`, `is_available`: in a started group, both are true."""
    row = table.function(name)
    return row is not None and row.asks in (Asks.STARTED, Asks.YES)


def instead_of(name: str | None) -> str | None:
    """The accelerator's method that does the same: `accelerator.reduce(x)` for `torch.distributed.reduce`."""
    row = table.function(name)
    return None if row is None else row.instead


def gives_a_number(name: str | None) -> bool:
    """Builtins that compute a number of numbers, and do nothing else: `int`, `max`, `round`."""
    row = table.function(name)
    is_number = row is not None and row.returns == "number" and row.is_pure and row.same is not Same.NO
    return is_number and "." not in str(name)


def is_length(name: str | None) -> bool:
    """`len`."""
    row = table.function(name)
    return row is not None and row.rows is Rows.COUNT


def gives_what_it_is_given(name: str | None) -> bool:
    """Builtins that give a number of numbers, and a tensor of tensors: `max`, `abs`, `round`."""
    return gives_a_number(name) and _has_trait(name, Trait.LIKE_ARGUMENT)


def gives_values(name: str | None) -> bool:
    """Functions that give numbers, arrays or tensors: `torch.cat`, `numpy.mean`."""
    row = table.function(name)
    return row is not None and row.returns in ("tensor", "ndarray", "number")


def makes_of_values(name: str | None) -> bool:
    """Functions that make a tensor or an array of numbers: `torch.tensor`, `torch.FloatTensor`, `numpy.array`."""
    row = table.function(name)
    return row is not None and row.role is Role.FACTORY and gives_values(name)


def sums_up(name: str | None) -> bool:
    """`sum`, `numpy.sum`."""
    row = table.function(name)
    return row is not None and row.rows is Rows.SUM


def summarizes(name: str | None) -> bool:
    """Whether this makes one value of many, in whatever order they come: `len`, `max`, `numpy.mean`."""
    row = table.function(name)
    return row is not None and row.rows in (Rows.MEAN, Rows.EXTREME, Rows.COUNT)


def is_counter(name: str | None) -> bool:
    """Whether this yields numbers in their order: `range`, `itertools.count`."""
    return _has_trait(name, Trait.COUNTS)


def is_range(name: str | None) -> bool:
    """Whether this yields numbers up to an end: `range`, `tqdm.trange`."""
    return is_counter(name) and not _has_trait(name, Trait.ENDLESS)


def makes_folds(name: str | None) -> bool:
    """Whether this divides rows for a cross-validation: `KFold`, whose `split` yields rows to train on and others."""
    return _has_trait(name, Trait.FOLDS)


def asks_about(name: str | None) -> bool:
    """Builtins that describe a value or make one number of it: `len`, `isinstance`, `int`."""
    row = table.function(name)
    return row is not None and "." not in str(name) and bool(row.traits & {Trait.SHAPE_ONLY, Trait.SCALAR})


def describes(name: str | None) -> bool:
    """Builtins that say something about a value, or make a text of it: `len`, `str`; not `int`, which computes."""
    row = table.function(name)
    is_builtin = row is not None and "." not in str(name) and row.is_pure
    return is_builtin and row is not None and (Trait.SHAPE_ONLY in row.traits or row.returns == "string")


def asks_what_it_is(name: str) -> bool:
    """Functions that ask what their first argument is: `isinstance`, `hasattr`, `type`, `torch.is_tensor`."""
    return name in ("isinstance", "hasattr", "type", "torch.is_tensor")


def is_pure_builtin(name: str | None) -> bool:
    """Builtins that only give a value of their arguments: `int`, `len`, `vars`, `getattr`; not `input`, nor `open`."""
    row = table.function(name)
    return row is not None and "." not in str(name) and row.is_pure


def keeps_signature(name: str | None) -> bool:
    """Decorators that leave a function's parameters and results as they are: `torch.no_grad`, `torch.compile`."""
    row = table.function(name)
    is_context = row is not None and row.returns == "context"
    return is_context or _has_trait(name, Trait.KEEPS_SIGNATURE)


def compiles(name: str | None) -> bool:
    """Functions and decorators that make TorchScript of what they get: `torch.jit.script`."""
    return _has_trait(name, Trait.COMPILES)


def is_left_to_python(name: str | None) -> bool:
    """Decorators of functions that TorchScript does not compile, but calls: `torch.jit.ignore`."""
    return _has_trait(name, Trait.LEFT_TO_PYTHON)


def runs_command(name: str | None) -> bool:
    """Functions that run another program: `os.system`, `subprocess.run`."""
    row = table.function(name)
    return row is not None and {Effect.STARTS, Effect.RUNS_CODE} <= row.effects


def reads_command(name: str | None) -> bool:
    """Functions that run another program for what it prints: `subprocess.check_output`."""
    row = table.function(name)
    return runs_command(name) and row is not None and row.returns in ("string", "tuple")


def makes_folder(name: str | None) -> bool:
    """`os.makedirs`, `os.mkdir`."""
    return _has_trait(name, Trait.MAKES_FOLDERS)


def exits(name: str | None) -> bool:
    """Functions after which nothing else runs: `sys.exit`."""
    return _has_effect(name, Effect.EXITS)


def asks_the_user(name: str | None) -> bool:
    """`input`."""
    return _has_effect(name, Effect.READS_INPUT)


def runs_code(name: str | None) -> bool:
    """`import_module`, `__import__`, `exec`."""
    return _has_effect(name, Effect.RUNS_CODE)


def imports(name: str | None) -> bool:
    """Gives the module of a name: `import_module`, `__import__`."""
    return _has_trait(name, Trait.IMPORTS)


def is_mock(name: str | None) -> bool:
    """What stands for any object in a test: `MagicMock`."""
    return table.kind_made_by(name) == "mock"


def binds_method(name: str | None) -> bool:
    """Makes a method of a function, for an object: `types.MethodType`."""
    return _has_trait(name, Trait.BINDS)


def is_configured(name: str | None) -> bool:
    """Makes objects of classes that a configuration names: `hydra.utils.instantiate`."""
    return _has_trait(name, Trait.CONFIGURED)


def says(name: str | None) -> bool:
    """Functions that print or log."""
    return _has_effect(name, Effect.PRINTS) or _has_effect(name, Effect.LOGS)


def starts_group(name: str | None) -> bool:
    """`torch.distributed.init_process_group`, `destroy_process_group`."""
    return _has_trait(name, Trait.GROUP)


def picks_device(name: str | None) -> bool:
    """`torch.cuda.set_device`."""
    return _has_trait(name, Trait.PICKS_DEVICE)


def reads_files(name: str | None) -> bool:
    """`json.load`, `torch.load`."""
    return _has_effect(name, Effect.READS_FILES)


def reads_settings(name: str | None) -> bool:
    """`os.environ`, `os.getenv`, `sys.argv`, `yaml.safe_load`, `ConfigParser`: what users say outside the program."""
    row = table.function(name)
    outside = {Effect.READS_ENVIRONMENT, Effect.READS_INPUT, Effect.READS_FILES}
    return row is not None and (not outside.isdisjoint(row.effects) or row.returns == "settings")


def reads_named(name: str | None) -> bool:
    """`eval`."""
    return _has_trait(name, Trait.READS_NAMED)


def reads_variables(name: str | None) -> bool:
    """Calls that may read any variable that their caller sees: `exec`, `globals`."""
    return _has_trait(name, Trait.READS_VARIABLES)


def steps_by_own_gradients(name: str | None) -> bool:
    """`opacus.PrivacyEngine`: its optimizers clip, add noise and sum gradients in `step`, after all was averaged."""
    return _has_trait(name, Trait.OWN_GRADIENTS)


def begins_run(name: str | None) -> bool:
    """`wandb.init`, `mlflow.start_run`: they begin a run of a tracker."""
    return _has_trait(name, Trait.BEGINS_RUN)


def observes_run(name: str | None) -> bool:
    """`sacred.observers.MongoObserver`: it records each run of the experiment that it is added to."""
    return _has_trait(name, Trait.OBSERVES_RUN)


def switched_off_by(name: str | None) -> tuple[str, str] | None:
    """The keyword with which a run of a tracker sends nothing, and its value then; None where there is none."""
    if _has_trait(name, Trait.OFF_BY_MODE):
        return "mode", '"disabled"'
    return ("disabled", "True") if _has_trait(name, Trait.OFF_BY_FLAG) else None


def may_differ_in_training(name: str | None) -> bool:
    """Modules for which training mode makes a difference, and those of libraries for which it may."""
    return _has_trait(name, Trait.DIFFERS_IN_TRAINING) or _has_trait(name, Trait.MAY_DIFFER_IN_TRAINING)


def runs_apart(name: str | None) -> bool:
    """What has decorators that run functions without the names of their file: `marimo.App`."""
    return _has_trait(name, Trait.RUNS_APART)


def may_rescale_rows(name: str | None) -> bool:
    """Modules whose forward pass, where they are made with `max_norm`, rescales the rows that it looks up."""
    return _has_trait(name, Trait.RESCALES_ROWS)


def may_keep_statistics(name: str | None) -> bool:
    """Modules that keep statistics of their batches, as batch normalisation does, and those of libraries that may."""
    row = table.function(name)
    is_one = row is not None and row.returns == "normalization"
    return is_one or _has_trait(name, Trait.MAY_DIFFER_IN_TRAINING)


def _has_effect(name: str | None, effect: Effect) -> bool:
    row = table.function(name)
    return row is not None and effect in row.effects


def is_progress(name: str | None) -> bool:
    """Progress bars round what is iterated over: `tqdm`."""
    return _has_role(name, Role.PROGRESS)


def is_copy(name: str | None) -> bool:
    """`list`, `tuple`, `sorted`: containers of all that their argument yields."""
    row = table.function(name)
    return row is not None and row.passes == "same" and row.returns in ("list", "tuple")


def copies(name: str | None) -> bool:
    """`copy.deepcopy`: functions that give another object like their argument."""
    return _has_trait(name, Trait.COPIES)


def converts(name: str | None) -> bool:
    """`int`, `float`, `bool`, `str`: another kind of number, or a text, of one value."""
    row = table.function(name)
    is_builtin = row is not None and "." not in str(name)
    return is_builtin and row is not None and (Trait.SCALAR in row.traits or row.returns == "string") and row.is_pure


def reads_variable(name: str | None) -> bool:
    """`os.environ.get`, `os.getenv`: the environment variable that their first argument names."""
    row = table.function(name)
    return (
        row is not None
        and Effect.READS_ENVIRONMENT in row.effects
        and str(name).startswith(("os.environ.", "os.getenv"))
    )
