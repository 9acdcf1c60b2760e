"""What may a method or an attribute of this name do, of an object of whichever kind? Asked of the table.

For code that does not know the kind of an object. Where it is known, `table.member` says what this one does.
"""

from __future__ import annotations

import ast
from functools import cache

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import SHOWN, Device, Effect, Row, Rows, Same, Trait

_CONTAINERS = ("list", "dict", "set", "deque", "queue", "counter", "module", "container", "optimizer", "transform")
_PLOTS = ("figure", "axes", "animation")
_TRAINS_NOTHING = ("module", "tensor", "ndarray", "dict", "list", "string")  # by any of its methods, but `train`
_OPERATORS: dict[str, ast.operator] = {
    **dict.fromkeys(("add",), ast.Add()),
    **dict.fromkeys(("sub", "subtract"), ast.Sub()),
    **dict.fromkeys(("mul", "multiply"), ast.Mult()),
    **dict.fromkeys(("div", "divide", "true_divide"), ast.Div()),
}


@cache
def puts_in(name: str) -> bool:
    """Methods of containers that put their arguments in: `append`, `update`, `setdefault`, `add_module`."""
    rows = (table.member(kind, name) for kind in _CONTAINERS)
    return any(row is not None and bool(row.keeps) for row in rows) and name not in ("load_state_dict", "__setitem__")


def hands_over(name: str) -> bool:
    """Methods by which a process gives something to another: `put` of a queue, `send` of a pipe."""
    row = table.member("connection", name)
    return puts_in(name) or (row is not None and bool(row.keeps))


def receives(name: str) -> bool:
    """Methods by which a process gets what another has sent: `recv` of a pipe."""
    row = table.member("connection", name)
    return row is not None and row.same is Same.NO


@cache
def extends(name: str) -> bool:
    """Methods that put something into a list: `append`, `extend`, `insert`."""
    row = table.member("list", name)
    return row is not None and bool(row.keeps)


def takes_text(name: str) -> bool:
    """Methods of figures that write what they are given as text: `set_title`."""
    return _row_has(table.member("figure", name), Trait.TAKES_TEXT)


def changes_in_place(name: str) -> bool:
    """Methods of tensors that change the tensor itself, by the name that torch gives them: `add_`, `copy_`."""
    return name.endswith("_") and not name.endswith("__")


@cache
def takes_out(name: str) -> bool:
    """Methods of containers that take items out: `pop`, `popleft`, `remove`, `clear`."""
    rows = (table.member(kind, name) for kind in ("list", "dict", "set", "deque"))
    return any(row is not None and row.mutates == ("self",) and not row.keeps and row.rows is None for row in rows)


def empties(name: str) -> bool:
    """The method that removes all items of a list, a dictionary, a set or a deque."""
    return name == "clear"


def registers(name: str) -> bool:
    """Methods that give a module a buffer, a weight or a layer under a name: `register_buffer`."""
    row = table.member("module", name)
    return row is not None and "1" in map(str, row.keeps)


def takes_apart(name: str) -> bool:
    """Methods that give parts of a text: `split`, `partition`."""
    return _row_has(table.member("string", name), Trait.TAKES_APART)


@cache
def passes(name: str) -> str | None:
    """The part of a container or an iterator that a method of it returns: `element`, `items`, `same`."""
    rows = (table.member(kind, name) for kind in ("dict", "list", "iterator"))
    return next((row.passes for row in rows if row is not None and row.passes is not None), None)


@cache
def returns_itself(name: str, kind: str | None = None) -> bool:
    """Methods that return the object itself, or another that lives where it lives: `to`, `train`, `detach`, `sum`.

    Where the object's kind is known, it decides; else any kind may.
    """
    kinds = (kind,) if kind is not None else ("tensor", "module", "dict")
    rows = ((each, table.member(each, name)) for each in kinds)
    return any(row is not None and _gives_itself(row, each) for each, row in rows)


def _gives_itself(row: Row, kind: str) -> bool:
    is_view = row.returns == "iterator" and Trait.VIEW in row.traits
    return row.returns in ("self", kind) or is_view or row.passes == "same"


def passes_on(name: str) -> bool:
    """Methods that return the module itself, the next of an iterator, or the iterator: `to`, `eval`, `__next__`."""
    return returns_itself(name, "module") or takes_the_next(name) or name == "__iter__"


def takes_the_next(name: str) -> bool:
    """`next` and `__next__` of an iterator."""
    row = table.member("iterator", name)
    return row is not None and row.passes == "element"


def adds_a_hook(name: str) -> bool:
    """Whether a call makes each forward pass, of a module or of all, call a function: `register_forward_hook`."""
    return hooks_a_pass(name) and "forward" in name


def hooks_a_backward_pass(name: str) -> bool:
    """Whether a call makes a backward pass give its gradients to a function: `register_hook` of a tensor, too."""
    return hooks_a_pass(name) and "forward" not in name


def hooks_a_pass(name: str) -> bool:
    """Whether a call makes each forward or backward pass call a function: `register_full_backward_hook`.

    `register_hook` of a tensor does so for the pass that made it.
    """
    if table.member("tensor", name) is not None:
        return name.startswith("register_")
    row = table.member("module", name) or table.function(f"torch.nn.modules.module.{name}")
    return row is not None and name.startswith("register_") and ("forward" in name or "backward" in name)


def operator(name: str) -> ast.operator | None:
    """The operator that a method of tensors stands for: `/` for `div` and `div_`."""
    return _OPERATORS.get(name.removesuffix("_"))


def gives_parameters(name: str) -> bool:
    """`parameters`, `named_parameters`."""
    return _has(name, Trait.PARAMETERS)


def gives_parts(name: str) -> bool:
    """`modules`, `named_children`."""
    return _has(name, Trait.PARTS)


def switches_mode(name: str) -> bool:
    """`train` and `eval`."""
    return _has(name, Trait.SWITCHES_MODE)


def ends_graph(name: str) -> bool:
    """Methods and attributes of a tensor through which no gradient flows: `detach`, `item`, `size`."""
    row = table.member("tensor", name)
    return row is not None and bool(row.traits & {Trait.LEAVES_GRAPH, Trait.SHAPE_ONLY})


def leaves_the_graph(name: str) -> bool:
    """Members of a tensor that give its value without its graph, as a tensor or a number: `item`, `data`, `detach`."""
    row = table.member("tensor", name)
    is_value = row is not None and {Trait.SAME_VALUES, Trait.LEAVES_GRAPH} <= row.traits
    return is_value and row is not None and row.returns in ("tensor", "number")


def keeps_values(name: str) -> bool:
    """Methods of a tensor that give the same values in another place, type or shape: `cpu`, `float`, `item`, `view`."""
    return _row_has(table.member("tensor", name), Trait.SAME_VALUES)


def is_attribute(name: str) -> bool:
    """Attributes of a tensor: `data`, `grad`, `shape`."""
    return _row_has(table.member("tensor", name), Trait.ATTRIBUTE)


def summarizes(name: str) -> bool:
    """Methods of a tensor or an array that make one value of all its values: `mean`, `std`, `max`."""
    rows = (table.member(kind, name) for kind in ("tensor", "ndarray"))
    return any(row is not None and row.rows in (Rows.MEAN, Rows.EXTREME) for row in rows)


def keeps_shape(name: str) -> bool:
    """Members of a tensor whose value has one of its own for each of the tensor's: `detach`, `data`, `clone`, `exp`."""
    row = table.member("tensor", name)
    is_each = row is not None and row.rows is Rows.EACH and row.returns == "tensor"
    return is_each and row is not None and (Trait.VIEW not in row.traits or Trait.LEAVES_GRAPH in row.traits)


def gives_numbers(name: str) -> bool:
    """Methods of a tensor that give its values as numbers: `item`, `tolist`."""
    row = table.member("tensor", name)
    return row is not None and Trait.SAME_VALUES in row.traits and row.returns in ("number", "list")


@cache
def is_view(name: str) -> bool:
    """Attributes of a tensor that are the tensor, seen in another way: `data`, `T`."""
    return _row_has(table.member("tensor", name), Trait.ATTRIBUTE, Trait.VIEW)


@cache
def gives_view(name: str) -> bool:
    """Methods of a tensor that give the tensor itself, or its memory in another shape: `view`, `detach`."""
    return _row_has(table.member("tensor", name), Trait.VIEW) and not is_attribute(name)


@cache
def keeps_memory(name: str) -> bool:
    """Members of a tensor that give the tensor itself, or another in its memory, on the CPU: `data`, `view`, `cpu`."""
    row = table.member("tensor", name)
    return row is not None and (Trait.VIEW in row.traits or moves(name) or name == "cpu")


@cache
def reorders(name: str) -> bool:
    """Methods and attributes of a tensor whose result may have other dimensions first: `t`, `permute`, `T`."""
    return _row_has(table.member("tensor", name), Trait.REORDERS)


def selects_rows(name: str) -> bool:
    """Methods of a tensor that keep some of its values, or take them by their numbers: `index_select`."""
    row = table.member("tensor", name)
    return row is not None and row.rows is Rows.SELECTS


def goes_along(name: str) -> bool:
    """Methods of a tensor whose values depend on all along a dimension, in order: `cumsum`, `flip`."""
    row = table.member("tensor", name)
    return row is not None and row.rows is Rows.ALONG


def may_share_memory(name: str) -> bool:
    """Methods of a tensor whose result may be the same memory: `view`, `detach`, `to`; not `clone`."""
    row = table.member("tensor", name)
    is_tensor = row is not None and row.returns == "tensor"
    return is_tensor and row is not None and Trait.SAME_VALUES in row.traits and Trait.COPIES not in row.traits


def brings_to_the_host(name: str) -> bool:
    """Methods of a tensor that give its values in the host's memory: `cpu`, `numpy`."""
    row = table.member("tensor", name)
    return row is not None and row.device is Device.HOST and Trait.SAME_VALUES in row.traits


def prepares_a_move(name: str) -> bool:
    """Methods of a tensor in the host's memory that give it in memory from where it is moved faster: `pin_memory`."""
    row = table.member("tensor", name)
    return row is not None and row.returns == "tensor" and Trait.NEEDS_HOST in row.traits


def moves(name: str) -> bool:
    """Methods that may bring a tensor or a module to another device: `to`, `cuda`, `cpu`."""
    row = table.member("module", name)
    return row is not None and row.device is not None


def is_plot(kind: str) -> bool:
    """Kinds of what plots are made of, as `plt.subplots` gives it."""
    return kind in _PLOTS


def may_train(name: str) -> bool:
    """Methods that train, and those that no object has which is known to train nothing."""
    return name in ("train", "backward") or not any(table.member(kind, name) for kind in _TRAINS_NOTHING)


def is_size(name: str) -> bool:
    """Methods of a tensor that ask for its shape or its type, not for its values: `size`, `dim`, `numel`."""
    row = table.member("tensor", name)
    return row is not None and Trait.SHAPE_ONLY in row.traits and Trait.ATTRIBUTE not in row.traits


def is_about(name: str) -> bool:
    """Attributes of a tensor that say something of it, and are no tensor: `shape`, `dtype`, `device`."""
    return _row_has(table.member("tensor", name), Trait.SHAPE_ONLY, Trait.ATTRIBUTE)


def says_where(name: str) -> bool:
    """Members of a tensor that say on which device it is: `device`, `is_cuda`."""
    return _row_has(table.member("tensor", name), Trait.SAYS_WHERE)


def shows_a_tensor(name: str) -> bool:
    """Members by whose use a value is known to be a tensor: `size`, `view`, `long`."""
    return _row_has(table.member("tensor", name), Trait.SHOWS_TENSOR)


def moves_to_device(name: str) -> bool:
    """Methods of a tensor that bring it to a device that they name, or to that of another: `to`, `cuda`, `type_as`."""
    row = table.member("tensor", name)
    return row is not None and row.device in (Device.GIVEN, Device.ACCELERATOR)


def names_accelerator(name: str) -> bool:
    """Methods of a tensor that bring it to an accelerator without an argument: `cuda`, `xpu`."""
    row = table.member("tensor", name)
    return row is not None and row.device is Device.ACCELERATOR


def is_module_tensor(name: str) -> bool:
    """Attributes of a library's modules that are parameters or buffers: `weight`, `running_mean`."""
    row = table.member("module", name)
    return row is not None and row.returns in ("parameter", "tensor") and row.has(Trait.ATTRIBUTE)


def is_parameter(name: str) -> bool:
    """Attributes of modules that are parameters: `weight`, `bias`."""
    row = table.member("module", name)
    return row is not None and row.returns == "parameter"


def gives_state(name: str) -> bool:
    """Methods of a module that give more of its tensors than its parameters: `state_dict`, `buffers`."""
    row = table.member("module", name)
    is_given = row is not None and row.returns in ("state", "iterator")
    return is_given and row is not None and row.traits.isdisjoint({Trait.PARTS, Trait.PARAMETERS})


def is_optimizers_part(name: str) -> bool:
    """Attributes of an optimizer: `param_groups`, `state`."""
    return _row_has(table.member("optimizer", name), Trait.ATTRIBUTE)


def gives_part(name: str) -> bool:
    """Methods of a module that give the part of a name: `get_submodule`."""
    row = table.member("module", name)
    return row is not None and row.returns == "module" and not row.has(Trait.ATTRIBUTE)


def gives_tensor(name: str) -> bool:
    """Methods of a module that give one of its tensors: `get_parameter`, `get_buffer`."""
    return _row_has(table.member("module", name), Trait.VIEW)


def computes(name: str) -> bool:
    """Methods that compute with a tensor and what they are given; `append` does not, nor does `copy_`.

    A method that the table does not know may.
    """
    row = table.member("tensor", name)
    if row is not None:
        return Trait.REPLACES not in row.traits
    others = table.members(name)
    return not others or any(each.returns == "tensor" for each in others)


def gives_nothing(name: str) -> bool:
    """Methods that put something into a container, or compute gradients, and return nothing: `append`, `backward`."""
    row = table.member("tensor", name)
    if row is not None:
        return row.returns is None and bool(row.mutates)
    rows = (table.member(kind, name) for kind in _CONTAINERS)
    return puts_in(name) and all(each.returns is None for each in rows if each is not None)


def gives_no_tensor(name: str) -> bool:
    """Methods of a tensor that give something else: `numpy`, `tolist`, `item`, `size`."""
    row = table.member("tensor", name)
    is_method = row is not None and Trait.ATTRIBUTE not in row.traits
    return is_method and row is not None and row.returns not in ("tensor", "self", "argument", None)


@cache
def shows(name: str) -> bool:
    """Methods that print, log, plot or format: what they are given is not computed with."""
    rows = table.members(name)
    return any(row.effects & SHOWN or Effect.WRITES_FILES in row.effects for row in rows)


@cache
def only_writes_down(name: str) -> bool:
    """Methods that write or show something, of whichever kind, and change no object: `save_pretrained`."""
    rows = table.members(name)
    return bool(rows) and all(row.effects & {*SHOWN, Effect.WRITES_FILES} and not row.mutates for row in rows)


def only_fills_a_file(name: str) -> bool:
    """Methods of an open file that write to it, also where it is the null device: `write`, `flush`, `close`."""
    row = table.member("file", name)
    return row is not None and Effect.WRITES_FILES in row.effects and not _row_has(row, Trait.ON_DISK)


def is_of(kind: str, name: str) -> bool:
    """Whether a kind of object has a method or an attribute of this name."""
    return table.member(kind, name) is not None


def only_asks(name: str) -> bool:
    """Methods that say something of a text, or look something up: `startswith`, `lower`, `get`; not `pop`."""
    rows = [row for kind in ("string", "dict", "settings") if (row := table.member(kind, name)) is not None]
    return bool(rows) and all(row.is_pure for row in rows)


def is_used_of_scaler(name: str) -> bool:
    """Whether a training step calls this method of a scaler: `scale`, `unscale_`, `step`, `update`."""
    row = table.member("scaler", name)
    return row is not None and bool(row.mutates) and name != "load_state_dict"


def looks_for_a_file(name: str) -> bool:
    """Methods that ask whether a file or a folder is there: `exists`, `is_dir`, `isfile` of `os.path`."""
    return any(_row_has(row, Trait.LOOKS) for row in (table.member("path", name), table.function(f"os.path.{name}")))


def _has(name: str, trait: Trait) -> bool:
    return any(_row_has(row, trait) for row in table.members(name))


def _row_has(row: Row | None, *traits: Trait) -> bool:
    return row is not None and row.traits.issuperset(traits)
