"""The columns of the table: what can be said about one function, class, method or attribute of a library."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from functools import cache


class _Fact(Enum):
    """What a column may hold, hashed as an object: of `Enum`'s own hashes a rewrite takes thousands."""

    __hash__ = object.__hash__


class Role(_Fact):
    """The role of an object in training."""

    MODEL = "model"  # a module, or a function that builds one
    LOSS = "loss"
    WRAPPER = "wrapper"  # returns the model it is given, in another form
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    AUTOCAST = "autocast"
    LOADER = "loader"
    SAMPLER = "sampler"
    DATASET = "dataset"
    METRIC = "metric"
    LOGGER = "logger"
    PROGRESS = "progress"
    ITERATION = "iteration"  # passes on what its arguments yield; `passes` says how
    DEVICE = "device"
    DEVICE_TEST = "device_test"
    COLLECTIVE = "collective"
    SEED = "seed"
    GENERATOR = "generator"
    FACTORY = "factory"  # makes a tensor of values that stand in the call
    CLOCK = "clock"


class Effect(_Fact):
    """The effects of a call besides giving a value and changing its arguments in place."""

    DRAWS_TORCH = "draws_torch"
    DRAWS_NUMPY = "draws_numpy"
    DRAWS_PYTHON = "draws_python"
    DRAWS_GIVEN = "draws_given"  # from the generator it belongs to or is given, else from its library's
    DRAWS_IN_TRAINING = "draws_in_training"  # from torch's, while `training` is true
    UPDATES_IN_TRAINING = "updates_in_training"  # running statistics, while `training` is true
    DRAWS_SYSTEM = "draws_system"  # from the operating system: no seed repeats it
    SEEDS_TORCH = "seeds_torch"
    SEEDS_NUMPY = "seeds_numpy"
    SEEDS_PYTHON = "seeds_python"
    SEEDS_GIVEN = "seeds_given"
    READS_FILES = "reads_files"
    WRITES_FILES = "writes_files"
    PRINTS = "prints"
    LOGS = "logs"
    SHOWS = "shows"  # on a screen: a window, a progress bar
    PLOTS = "plots"  # draws into a figure in memory
    READS_CLOCK = "reads_clock"
    READS_ENVIRONMENT = "reads_environment"
    READS_INPUT = "reads_input"
    ASKS_NETWORK = "asks_network"
    WAITS = "waits"  # for other processes or threads
    STARTS = "starts"  # processes or threads
    EXITS = "exits"
    SLEEPS = "sleeps"
    CHANGES_LIBRARY = "changes_library"  # state of a library that later calls of it see
    SIMULATES = "simulates"  # asks a simulation for what comes next
    CALLS = "calls"  # functions it is given
    RUNS_CODE = "runs_code"  # text as code, or imports a module: unknown


class Rows(Enum):
    """The fate of the rows of a batch; for a call without `dim`, or whose `dim` is that of the rows."""

    EACH = "each"  # row i of the result comes from row i
    ALONG = "along"  # each value depends on all along `dim`, in order: cumsum, softmax, sort
    SUM = "sum"
    MEAN = "mean"  # also of what is no sum divided by a count: std, median
    EXTREME = "extreme"
    COUNT = "count"
    CONCATENATES = "concatenates"
    SHUFFLES = "shuffles"
    SELECTS = "selects"  # keeps some rows
    LAST = "last"


class Device(Enum):
    """Where the tensor lives that a call returns."""

    HOST = "host"
    ARGUMENTS = "arguments"
    OPTION = "option"  # where `device=` says, else on the default device
    OPTION_OR_ARGUMENT = "option_or_argument"
    GIVEN = "given"  # where its first argument says
    ACCELERATOR = "accelerator"
    NOTHING = "nothing"  # there is no tensor


class Same(Enum):
    """Is the result identical in all processes?"""

    YES = "yes"
    ARGUMENTS = "arguments"  # if its arguments are; where the environment or a file is read, if these are
    DRAW = "draw"  # if its arguments and the state of the generator are
    NO = "no"


class Asks(Enum):
    """The fact about the run that a call, an attribute or an environment variable gives: processes, GPUs, modes."""

    RANK = "rank"
    LOCAL_RANK = "local_rank"
    SIZE = "size"  # the number of processes
    IS_MAIN = "is_main"  # whether this is the main process
    STARTED = "started"  # whether a process group was started
    GPU = "gpu"  # whether there is one
    GPUS = "gpus"  # how many there are
    ON_GPU = "on_gpu"  # whether a tensor is on one
    TRAINING = "training"  # whether a model is in training mode
    YES = "yes"
    DEVICE = "device"  # the device that its first argument names
    VARIABLE = "variable"  # the environment variable that its first argument names
    VARIABLES = "variables"  # all environment variables


class Trait(_Fact):
    """Facts that are true or not."""

    REDUCES_ITSELF = "reduces_itself"  # a metric whose value is that of all processes
    TORCH_LOADER = "torch_loader"  # torch's DataLoader or a subclass of it
    YIELDS_GRAPHS = "yields_graphs"  # objects with a `to` of their own
    SPREADS = "spreads"  # its use shows a script that is spread over processes already
    TPU = "tpu"  # it runs on a TPU, in one process, too
    MOVES_INPUTS = "moves_inputs"  # a model that brings what it is called with to its own device
    HAS_NO_WEIGHTS = "has_no_weights"
    DIFFERS_IN_TRAINING = "differs_in_training"  # `train` and `eval` make a difference to it
    MAY_DIFFER_IN_TRAINING = "may_differ_in_training"
    IN_PLACE_OPTION = "in_place_option"  # changes its first argument if `inplace` says so
    OUT_OPTION = "out_option"  # writes to what is given as `out`
    LEAVES_GRAPH = "leaves_graph"  # the result has no graph of gradients
    SETS_UP_LOG = "sets_up_log"  # changes nothing but what is in a log, where its handler writes to a file
    OPENS_LOG = "opens_log"  # the file that it writes, if any, is a log for people
    TAKES_TEXT = "takes_text"  # writes what it is given as text, wherever that lives
    NEEDS_HOST = "needs_host"  # fails for a tensor that lives elsewhere than on the CPU
    NEEDS_NUMBER = "needs_number"  # of a GPU: fails for `torch.device("cuda")`
    SHAPE_ONLY = "shape_only"  # depends on shapes and types only, not on values
    ASKED_ALONE = "asked_alone"  # given nothing, it says of what sort its object is: `x.type()`
    ATTRIBUTE = "attribute"  # is read, not called
    SCALAR = "scalar"  # makes a number of one of its argument
    ON_DISK = "on_disk"  # works on a file on a disk alone, and not on the null device: `truncate`
    OPENS = "opens"  # returns what is written or read through; what returns nothing: for the functions of its module
    OPENS_TO_WRITE = "opens_to_write"  # it has no mode: its options say whether it makes and fills what it opens
    MAKES_FOLDERS = "makes_folders"
    REMOVES_FOLDERS = "removes_folders"
    PARAMETERS = "parameters"  # gives the parameters of a module
    PARTS = "parts"  # gives the modules that a module is made of
    ADDS = "adds"  # gives, or makes of its object, the sum of two arguments: the first and the last of its arguments
    GREATER = "greater"  # gives the greatest of its arguments
    LESS = "less"  # gives the least of its arguments
    TRUTH = "truth"  # says of each value whether something is so, or of which sign it is
    FINITE = "finite"  # asks of values whether they are numbers that are not infinite
    NOT_FINITE = "not_finite"  # asks of values whether they are infinite, or no numbers
    REPLACES = "replaces"  # gives its object other values, which have nothing to do with the last ones
    WITH_PLACES = "with_places"  # along a dim, gives two tensors: the values, and where they stand
    ZEROS = "zeros"  # the result is all zeros
    ONES = "ones"  # the result is all ones
    REORDERS = "reorders"  # other dimensions come first in the result
    VIEW = "view"  # the result shares its memory with the argument
    SETUP = "setup"  # prepares what comes later; has no part in a step
    STREAMS = "streams"  # a data set without positions, whose batches are divided whole
    YIELDS_TENSORS = "yields_tensors"  # a data set of tensors and numbers, which a loader collates
    NEEDS_NO_GROUP = "needs_no_group"  # says the same of any group of processes, and without one
    TAKES_APART = "takes_apart"  # gives parts of a text
    ENDS_LIKE_LAST = "ends_like_last"  # gives a path that ends like its last argument
    SAME_VALUES = "same_values"  # the result has its argument's values, perhaps elsewhere, in another type or shape
    COPIES = "copies"  # the result never shares its memory with the argument
    NO_GRADIENT = "no_gradient"  # no graph of gradients is built under it
    SETS_GRADIENT = "sets_gradient"  # says whether a graph of gradients is built
    CLIPS_GRADIENTS = "clips_gradients"
    SEVERAL_GPUS = "several_gpus"  # computes on several GPUs of one process
    OWN_GRADIENTS = "own_gradients"  # makes optimizers whose steps take gradients that they compute themselves
    GOES_OVER = "goes_over"  # computes something of all batches of the loader that is its first argument
    ACCUMULATES = "accumulates"  # adds up or multiplies values along a dimension: cumsum, softmax
    COUPLES = "couples"  # compares rows of what it is given with each other, or with all rows of another's
    REPEATS = "repeats"  # makes what it is given longer in some dimensions, by the same values again
    FINDS = "finds"  # with one argument alone it gives the places where that is true, as many as there are
    SPLITS = "splits"  # cuts what it is given into parts of so many rows
    NORMALIZES = "normalizes"  # what an environment gives, by statistics of what it gave before
    MULTIPLIES = "multiplies"  # the product of two matrices
    FOLDS = "folds"  # divides all rows into some to train on and others, time after time
    ITEMS = "items"  # what it is given becomes items of a dictionary, of others of the kind attributes
    ATTRIBUTES = "attributes"  # a dictionary whose items are its attributes, too
    COUNTS = "counts"  # yields numbers in their order
    ENDLESS = "endless"  # yields items without an end
    PICKS = "picks"  # gives one of the items of its first argument, or some of them
    KEEPS_ITEMS = "keeps_items"  # holds all items that it has gone over
    STOPS = "stops"  # yields no more items of one argument than another says or has
    PICKLES = "pickles"  # writes its first argument whole, with all that it holds
    COPIES_FILE = "copies_file"  # reads the file that its first argument names, and writes it somewhere else
    DOWNLOADS = "downloads"  # fetches a file, or unpacks one: one process does so for all
    FETCHES = "fetches"  # downloads what is missing, unasked, into a folder that all processes see
    FETCHES_VECTORS = "fetches_vectors"  # the same, of the vectors that `vectors` names
    CLOSES = "closes"  # the figure that it is given, or the current one, or empties it
    REMOVES = "removes"  # what its first argument, or its object, names is gone afterwards
    BLOCKS = "blocks"  # goes on once the user has closed a window
    UNBLOCKS = "unblocks"  # from there on, windows do not wait for the user, or there are none
    LISTS = "lists"  # says which files there are in a folder, or reads them all
    GIVES_PATHS = "gives_paths"  # what it lists, by a path that begins with that of the folder, or of the object
    BY_PATTERN = "by_pattern"  # what it lists, by a pattern that their names fit, its first argument
    GIVES_NAMES = "gives_names"  # gives the names of files, or their paths, as texts
    HANDLES_SIGNALS = "handles_signals"  # the function that it is given runs when a signal comes
    RUNS_APART = "runs_apart"  # its decorators run functions without the names of their file
    RESCALES_ROWS = "rescales_rows"  # with `max_norm`, a forward pass rescales the rows of its weights that it looks up
    LOCKS_PROCESSES = "locks_processes"  # makes a lock that one process at a time holds, whoever started it
    LOCKS_FILE = "locks_file"  # takes such a lock of the open file that it is given, or gives it back
    LOOKS = "looks"  # asks whether a file or a folder is there
    SWITCHES_MODE = "switches_mode"  # between training and evaluation
    PLAIN_LOADER = "plain_loader"  # torch's loader itself, of which the accelerator's is a copy
    TOGETHER = "together"  # returns once all processes of the group have called it
    GOES_FIRST = "goes_first"  # under it, one process runs code before the others
    GROUP = "group"  # starts or ends the group of the processes
    PICKS_DEVICE = "picks_device"  # sets the device that a process works on
    KEEPS_SIGNATURE = "keeps_signature"  # a decorator that leaves parameters and results as they are
    COMPILES = "compiles"  # makes TorchScript of a function, or of a module's forward pass
    LEFT_TO_PYTHON = "left_to_python"  # a decorator whose function TorchScript does not compile
    REMEMBERS = "remembers"  # a decorator whose function is not run again for arguments that it was given before
    READS_VARIABLES = "reads_variables"  # may read any variable that its caller sees
    READS_NAMED = "reads_named"  # may read the variables of its caller that its text names
    SHOWS_TENSOR = "shows_tensor"  # in scripts, what has a member of this name is a tensor
    SAYS_WHERE = "says_where"  # on which device its object is
    LIKE_ARGUMENT = "like_argument"  # asks its argument for the result, which may be a tensor as well as a number
    CONFIGURED = "configured"  # makes an object of a class, or calls a function, that a configuration names
    BINDS = "binds"  # makes a method of the function and the object that it gets
    IMPORTS = "imports"  # gives the module of the name that it gets
    OWN_SEED = "own_seed"  # without a seed it takes one that no other process has
    NO_SEED = "no_seed"  # a generator that draws from the system, whatever seed it is given
    SWEEPS = "sweeps"  # runs the script again with other settings
    BEGINS_RUN = "begins_run"  # a run of a tracker, one of each process that calls it
    OBSERVES_RUN = "observes_run"  # begins it later, when what it is added to is run
    OFF_BY_MODE = "off_by_mode"  # with `mode="disabled"` it goes on to work and sends nothing
    OFF_BY_FLAG = "off_by_flag"  # with `disabled=True`


@dataclass(frozen=True, slots=True)
class Row:
    """The facts about one function, class, method or attribute."""

    role: Role | None = None
    returns: str | None = None  # kind of the result; `self`: the object itself; `argument`: the first argument itself
    effects: frozenset[Effect] = frozenset()
    mutates: tuple[str, ...] = ()  # `self`, positions from "0", keywords; a class's own object is no argument
    keeps: tuple[str, ...] = ()  # the arguments that `self` (or what it returns) holds afterwards
    rows: Rows | None = None
    device: Device | None = None
    host: tuple[str, ...] = ()  # the arguments whose tensors must be in the CPU's memory, wherever the others are
    same: Same = Same.ARGUMENTS
    passes: str | None = None  # what it passes on of what its object or its arguments hold: `same`, `element`, ...
    asks: Asks | None = None
    instead: str | None = None  # what does the same in a script that has an accelerator, also in one process
    traits: frozenset[Trait] = frozenset()

    @property
    def is_pure(self) -> bool:
        """Whether a call only gives a value: nothing else is changed, read, written, drawn or called."""
        return not self.effects and not self.mutates

    @property
    def draws(self) -> bool:
        """Whether a call draws random numbers, from any generator, perhaps only in training mode."""
        return not self.effects.isdisjoint(DRAWS)

    @property
    def seeds(self) -> bool:
        """Whether a call seeds a generator or sets its state."""
        return not self.effects.isdisjoint(SEEDS)

    def has(self, what: Effect | Trait) -> bool:
        """Whether a row has an effect or a trait."""
        return what in self.effects or what in self.traits


DRAWS = frozenset(e for e in Effect if e.value.startswith("draws_"))
SHOWN = frozenset({Effect.PRINTS, Effect.LOGS, Effect.SHOWS, Effect.PLOTS})  # to people, and not computed with
SEEDS = frozenset(e for e in Effect if e.value.startswith("seeds_"))
_UNSEEDED = (Effect.READS_CLOCK, Effect.DRAWS_SYSTEM, Effect.READS_INPUT)


@cache
def row_of(facts: str) -> Row | None:
    """A row from the text of its facts; `unknown` takes names out of a pattern."""
    if facts == "unknown":
        return None
    given: dict[str, str] = {}
    for fact in facts.split():
        column, _, values = fact.partition("=")
        if column != "-":
            given[column] = f"{given[column]}+{values}" if column in given else values
    unknown = given.keys() - {f.name for f in dataclasses.fields(Row)}
    if unknown:
        raise ValueError(f"no such column: {', '.join(sorted(unknown))} in {facts!r}")
    effects = frozenset(Effect(e) for e in _parts(given, "effects"))
    return Row(
        role=Role(given["role"]) if "role" in given else None,
        returns=given.get("returns"),
        effects=effects,
        mutates=_parts(given, "mutates"),
        keeps=_parts(given, "keeps"),
        rows=Rows(given["rows"]) if "rows" in given else None,
        device=Device(given["device"]) if "device" in given else None,
        host=_parts(given, "host"),
        same=Same(given["same"]) if "same" in given else _same(effects),
        passes=given.get("passes"),
        asks=Asks(given["asks"]) if "asks" in given else None,
        instead=given.get("instead"),
        traits=frozenset(Trait(t) for t in _parts(given, "traits")),
    )


def _parts(given: dict[str, str], column: str) -> tuple[str, ...]:
    return tuple(given[column].split("+")) if column in given else ()


def _same(effects: frozenset[Effect]) -> Same:
    """Whether the result is the same on all ranks, as it follows from the effects where the data do not say it."""
    if any(e in effects for e in _UNSEEDED):
        return Same.NO
    return Same.DRAW if effects & DRAWS or Effect.SIMULATES in effects else Same.ARGUMENTS
