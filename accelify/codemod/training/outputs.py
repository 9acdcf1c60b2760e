"""Which calls write to files, screens and services, and which only read and compute?"""

from __future__ import annotations

import ast
import re
from enum import Enum

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Element, Generated, Made, Member, Value, Values
from accelify.codemod.training.roles import Roles


class Effect(Enum):
    """What a call does. DRAWS: only to a figure or another thing that is good for nothing but being written."""

    NOTHING = 0
    DRAWS = 1
    WRITES = 2


OPEN = {"open", "io.open", "codecs.open"}
_VIDEOS = ("cv2.VideoWriter", "imageio.get_writer", "imageio.v2.get_writer")
_EVENTS = (
    *("torch.utils.tensorboard.", "tensorboardX.", "tensorflow.summary.FileWriter"),
    *("tensorflow.compat.v1.summary.FileWriter", "tensorflow.summary.create_file_writer"),
)
_PAGES = ("matplotlib.backends.backend_pdf.PdfPages",)
_WRITERS = (  # whose every method writes
    *_EVENTS,
    *_VIDEOS,
    *_PAGES,
    "tensorboard_logger.",
    "visdom.Visdom",
    "csv.writer",
    "csv.DictWriter",
    "open",
    "io.open",
    "codecs.open",
    "logging.FileHandler",
    "logging.handlers.",
)
_FOURCC = ("cv2.VideoWriter_fourcc", "cv2.VideoWriter.fourcc")
_MAKE_WRITERS = (*_EVENTS, *_VIDEOS, *_PAGES, "tensorboard_logger.Logger", "visdom.Visdom", "logging.FileHandler")
_WRITE = frozenset(
    "numpy.save numpy.savez numpy.savez_compressed numpy.savetxt json.dump pickle.dump cPickle.dump _pickle.dump "
    "dill.dump joblib.dump sklearn.externals.joblib.dump torchvision.utils.save_image scipy.io.savemat "
    "scipy.io.wavfile.write scipy.misc.imsave imageio.imwrite imageio.imsave imageio.mimsave imageio.mimwrite "
    "imageio.v2.imwrite imageio.v2.imsave imageio.v2.mimsave cv2.imwrite cv2.imshow skimage.io.imsave soundfile.write "
    "torchaudio.save torch.save shutil.copy shutil.copyfile shutil.copy2 shutil.copytree shutil.move "
    "os.remove os.unlink os.rename os.replace safetensors.torch.save_file tensorboard_logger.log_value "
    "tensorboard_logger.configure matplotlib.pyplot.savefig matplotlib.pyplot.show matplotlib.pyplot.pause "
    "nibabel.save SimpleITK.WriteImage tifffile.imwrite tifffile.imsave imageio.v3.imwrite torchvision.io.write_png "
    "torchvision.io.write_jpeg torchvision.io.write_video pandas.to_pickle scipy.sparse.save_npz "
    "matplotlib.pyplot.imsave tensorflow.summary.scalar tensorflow.summary.image tensorflow.summary.histogram "
    "tensorflow.summary.text".split()
)
_WRITING_METHODS = frozenset(
    "add_scalar add_scalars add_histogram add_image add_images add_figure add_hparams to_csv to_excel to_pickle "
    "savefig write_text write_bytes tofile save_pretrained".split()
)
_IMAGES = ("PIL.Image.", "torchvision.transforms.")
_PICTURES = ("resize", "convert", "crop", "rotate", "transpose", "copy", "close")  # methods that write nothing
_DEPTH = 4
_DRAW = ("matplotlib.pyplot.", "matplotlib.animation.", "seaborn.", "wandb.")
_SET_UP = frozenset(  # of all processes
    "matplotlib.pyplot.switch_backend matplotlib.pyplot.style.use matplotlib.pyplot.ion matplotlib.pyplot.ioff "
    "matplotlib.pyplot.rc seaborn.set seaborn.set_style seaborn.set_theme wandb.init wandb.agent wandb.sweep".split()
)
_COMPUTE = (
    *("os.path.", "os.listdir", "os.getcwd", "math.", "time.time", "time.strftime", "datetime.", "copy.", "json.dumps"),
    *(
        "pathlib.",
        "glob.",
        "imageio.imread",
        "imageio.v2.imread",
        "cv2.imread",
        "PIL.Image.open",
        "itertools.",
        "collections.",
        "re.",
        "PIL.Image.fromarray",
        "pandas.",
        "sklearn.metrics.",
    ),
    *("torchvision.utils.make_grid", "torchvision.transforms.functional.", "torchvision.transforms.ToPILImage"),
    *("torch.device", "torch.cuda.is_", "torch.cuda.device_count", "torch.cuda.get_device", "torch.backends.mps.is_"),
    *("torch.cuda.memory", "torch.cuda.max_memory", "torch.nn.functional.softmax", "torch.nn.functional.sigmoid"),
    *("torch.nn.functional.interpolate", "torch.nn.functional.one_hot", "logging.getLogger", "warnings.warn"),
    *(
        "tensorflow.Summary",
        "tensorflow.compat.v1.Summary",
        "logging.debug",
        "logging.info",
        "logging.warning",
        "logging.error",
    ),
)
_TORCH = frozenset(
    "tensor from_numpy as_tensor cat stack zeros ones zeros_like ones_like full arange linspace eye no_grad mean sum "
    "max min argmax argmin sqrt exp log log10 log2 abs clamp clip sigmoid tanh softmax round squeeze unsqueeze reshape "
    "flatten transpose norm pow where std var numel is_tensor topk sort argsort eq".split()
)
_BUILTINS = frozenset(
    "str int float bool len round max min sum abs list dict tuple set sorted zip range enumerate format repr type "
    "isinstance hasattr getattr print any all divmod pow reversed vars".split()
)
_METHODS = frozenset(
    "item detach cpu numpy mean sum view reshape permute squeeze unsqueeze clone argmax argmin max min float int long "
    "double half bool tolist transpose size dim numel t state_dict parameters named_parameters items keys values get "
    "format join split strip rstrip lstrip lower upper title replace startswith endswith copy astype abs norm std var "
    "sqrt exp round mul div sub expand expand_as flatten contiguous index_select narrow to cuda isoformat strftime "
    "total_seconds index count get_lr get_last_lr exists is_file is_dir joinpath with_suffix clamp clip repeat eq gt "
    "lt ne ge le topk sort unbind chunk swapaxes ravel encode decode add_argument_group ljust rjust zfill type "
    "isnan isinf byte nelement data_ptr cumsum dot groupby to_dense to_sparse".split()
)
_CODES = ("encode", "decode")  # a text, or with an autoencoder
_MODEL = re.compile(r"(?i)(model|net|network|vae|vae\w|autoencoder|ae|gan|module)$")
_ITERATE = frozenset("list tuple set sorted zip enumerate sum max min any all dict reversed".split())


class Outputs:
    """Tell what calls do besides giving a value."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles
        self._known: dict[ast.Call, Effect | None] = {}

    def effect(self, call: ast.Call) -> Effect | None:
        """What a library's call does; None where that is not known, or is something that every process must do."""
        if call not in self._known:
            self._known[call] = self._effect(call)
        return self._known[call]

    def _effect(self, call: ast.Call) -> Effect | None:
        if self.program.flow.callees.get(call):
            return None
        called = self.program.called(call)
        if called:
            effects = {self._of_name(call, name) for name in called}
            if None not in effects:
                return max((e for e in effects if e is not None), key=lambda e: e.value)
        if isinstance(call.func, ast.Attribute):
            return self._of_method(call, call.func)
        converters = origins(self.program.values(call.func))
        is_known = bool(converters) and all(name.endswith((".ToPILImage", ".ToTensor")) for name in converters)
        return Effect.NOTHING if is_known else None

    def _of_name(self, call: ast.Call, name: str) -> Effect | None:
        if name in _SET_UP:
            return None
        if name in OPEN:
            return Effect.WRITES if opens_to_write(call) else Effect.NOTHING
        if name == "yaml.dump":
            return Effect.WRITES if len(call.args) > 1 else Effect.NOTHING
        if name == "logging.basicConfig":
            return Effect.WRITES if any(k.arg == "filename" for k in call.keywords) else None
        if name in _FOURCC:
            return Effect.NOTHING
        if name in _WRITE or name.startswith(_MAKE_WRITERS):
            return Effect.WRITES
        if name.startswith(_DRAW) or name in ("csv.writer", "csv.DictWriter", "logging.Formatter"):
            return Effect.DRAWS
        if name == "print":
            given = next((k.value for k in call.keywords if k.arg == "file"), None)
            return Effect.WRITES if given is not None and self.is_a_writer(given) else Effect.NOTHING
        if name in _BUILTINS:
            is_harmless = name not in _ITERATE or not any(self.hands_out_data(a) for a in call.args)
            return Effect.NOTHING if is_harmless else None
        if name.startswith("torch.") and name.removeprefix("torch.") in _TORCH:
            return Effect.NOTHING
        if name.startswith("numpy.") and not name.startswith("numpy.random."):
            return Effect.NOTHING
        return Effect.NOTHING if name.startswith(_COMPUTE) else None

    def _of_method(self, call: ast.Call, function: ast.Attribute) -> Effect | None:
        if self._trains(call):
            return None
        if opens_itself(call):
            return Effect.WRITES if opens_to_write(call) else Effect.NOTHING
        made = origins(self.program.values(function.value))
        if function.attr in _WRITING_METHODS or self.is_a_writer(function.value):
            return Effect.WRITES
        if any(name.startswith(_DRAW) or name == "matplotlib.figure.Figure" for name in made):
            return Effect.WRITES if function.attr in ("savefig", "show", "save") else Effect.DRAWS
        if function.attr in ("save", *_PICTURES) and self._is_image(function.value):
            return Effect.WRITES if function.attr == "save" else Effect.NOTHING
        if function.attr == "addHandler" and all(map(self.is_a_writer, call.args)):
            return Effect.WRITES
        if any(name.startswith("logging.getLogger") for name in made):
            return Effect.NOTHING if function.attr in ("info", "debug", "warning", "error") else None
        if function.attr in _CODES and _MODEL.search(ast.unparse(function.value)):
            return None  # of a model that this knows by its name only
        return Effect.NOTHING if function.attr in _METHODS else None

    def _is_image(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether something may be a picture, as what `ToPILImage()(x)` and `Image.fromarray(x).resize(size)` give."""
        values = self.program.values(node)
        if any(name.startswith(_IMAGES) for name in origins(values)):
            return True
        calls = [v.node for v in values if isinstance(v, Made) and isinstance(v.node, ast.Call)] if depth else []
        makers = (c.func.value if isinstance(c.func, ast.Attribute) else c.func for c in calls)
        return any(self._is_image(maker, depth - 1) for maker in makers)

    def _trains(self, call: ast.Call) -> bool:
        """Whether a writer is handed a model, which it may run."""
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "add_graph"
            and any(self.roles.is_model(v) for a in call.args for v in self.program.values(a))
        )

    def is_a_writer(self, node: ast.expr) -> bool:
        opened = opened_round(self.program, node) or node
        made = [v for v in self.program.values(opened) if isinstance(v, Made)]
        if not made:
            return isinstance(opened, ast.Call) and opens_itself(opened) and opens_to_write(opened)
        return all(self._writes(v) for v in made)

    def _writes(self, made: Made) -> bool:
        call = made.node if isinstance(made.node, ast.Call) else None
        if call is not None and (made.name in OPEN or opens_itself(call)):
            return opens_to_write(call)
        return made.name is not None and made.name.startswith(_WRITERS)

    def hands_out_data(self, node: ast.expr) -> bool:
        """Whether going over an expression draws random numbers, or uses something up: a loader, a generator."""
        return any(isinstance(v, Generated) or self.roles.is_loader(v) for v in self.program.values(node))


def opens_to_write(call: ast.Call) -> bool:
    """Whether an `open` is for writing."""
    return any(set(mode) & set("wax+") for mode in _modes(call, 0 if opens_itself(call) else 1))


def opens_itself(call: ast.Call) -> bool:
    """Whether a path opens itself: `path.open("wb")`."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "open"
    return is_method and any(set(mode) <= set("rwaxbt+") for mode in _modes(call, 0))


def _modes(call: ast.Call, place: int) -> list[str]:
    """The mode that is given to an `open`, at its place or by its name."""
    given = [*call.args[place : place + 1], *[k.value for k in call.keywords if k.arg == "mode"]]
    return [m.value for m in given if isinstance(m, ast.Constant) and isinstance(m.value, str) and m.value]


def opened_round(program: Program, node: ast.expr) -> ast.expr | None:
    """The call that a name stands for inside `with open(path) as name`."""
    if not isinstance(node, ast.Name):
        return None
    for around in program.ancestors(node):
        if isinstance(around, (ast.With, ast.AsyncWith)):
            for item in around.items:
                if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == node.id:
                    return item.context_expr
    return None


def origins(values: Values) -> set[str]:
    """The library calls that values come from, as parts of what they returned, too."""
    found: set[str] = set()
    for value in values:
        current: Value | None = value
        while isinstance(current, (Member, Element)):
            current = current.owner
        if isinstance(current, Made) and current.name is not None:
            found.add(current.name)
    return found


__all__ = ["OPEN", "Effect", "Outputs", "opened_round", "opens_itself", "opens_to_write", "origins"]
