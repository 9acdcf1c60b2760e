"""A script that uses Hugging Face Accelerate becomes one that uses accelify, or is declined with line and reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.options import ACCELERATE, Options, Selection
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import rewrite_source, rewrite_together

TRAINS = """
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    accelerator.backward(model(x).sum())
    optimizer.step()
"""


def moved(text: str, options: Options | None = None) -> FileResult:
    return rewrite_source("train.py", text.encode(), options or Options())


def becomes(before: str, after: str) -> FileResult:
    result = moved(before)
    assert result.status is Status.MIGRATED, result.notes
    assert result.after.decode() == after
    assert moved(after).status is Status.UNCHANGED
    return result


def declined(text: str) -> list[tuple[int, str]]:
    result = moved(text)
    assert result.status is Status.DECLINED
    assert result.after == text.encode()
    return [(note.line, note.message) for note in result.notes]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from accelerate import Accelerator", "from accelify.runtime import Accelerator"),
        (
            "from accelerate import (\n    Accelerator,  # one\n    DistributedType,\n)",
            "from accelify.runtime import (\n    Accelerator,  # one\n    DistributedType,\n)",
        ),
        ("from accelerate.accelerator import Accelerator", "from accelify.runtime import Accelerator"),
        (
            "try:\n    from accelerate import Accelerator\nexcept ImportError:\n    Accelerator = None",
            "try:\n    from accelify.runtime import Accelerator\nexcept ImportError:\n    Accelerator = None",
        ),
        (
            "from accelerate import Accelerator\nfrom accelerate.utils import DeepSpeedPlugin, gather",
            "from accelify.runtime import Accelerator\nfrom accelify.runtime.utils import gather",
        ),
        (
            "from accelerate import Accelerator\nfrom accelerate.utils import DeepSpeedPlugin",
            "from accelify.runtime import Accelerator",
        ),
    ],
)
def test_imports(before: str, after: str) -> None:
    becomes(before + TRAINS, after + TRAINS)


def test_names_of_one_module_that_come_from_several() -> None:
    before = "from accelerate.utils.other import Accelerator, tqdm\n"
    after = "from accelify.runtime import Accelerator\nfrom accelify.runtime.utils import tqdm\n"
    rest = f"{TRAINS}print(tqdm)\n"
    becomes(before + rest, after + rest)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import accelerate\n{}accelerate.Accelerator()\n",
            "import accelify.runtime\n{}accelify.runtime.Accelerator()\n",
        ),
        ("import accelerate as a\n{}a.Accelerator()\n", "import accelify.runtime as a\n{}a.Accelerator()\n"),
        (
            "import accelerate\n{}accelerate.Accelerator()\naccelerate.utils.set_seed(1)\n",
            "import accelify.runtime\nimport accelify.runtime.utils\n{}accelify.runtime.Accelerator()\n"
            "accelify.runtime.utils.set_seed(1)\n",
        ),
        (
            "from accelerate import Accelerator, utils\n{}Accelerator()\nutils.set_seed(1)\n",
            "from accelify.runtime import Accelerator, utils\n{}Accelerator()\nutils.set_seed(1)\n",
        ),
    ],
)
def test_modules(before: str, after: str) -> None:
    becomes(before.replace("{}", "accelerator = "), after.replace("{}", "accelerator = "))


def test_what_lies_inside_a_wrapper_is_the_object_itself() -> None:
    before = TRAINS + "print(model.module.weight, optimizer.optimizer.state)\nwith model.no_sync():\n    pass\n"
    after = TRAINS + "print(model.weight, optimizer.state)\nwith accelerator.no_sync(model):\n    pass\n"
    before, after = f"{before}hold = model.no_sync\n", f"{after}hold = (lambda: accelerator.no_sync(model))\n"
    becomes(f"from accelerate import Accelerator{before}", f"from accelify.runtime import Accelerator{after}")


@pytest.mark.parametrize(
    "kept",
    [
        "inner = model.module if hasattr(model, 'module') else model",
        "inner = accelerator.unwrap_model(model)",
        "inner = other.module",
        "accelerator.extra = 1\nprint(accelerator.extra)",
        "x = accelerator.gather(x).sum().item()",
    ],
)
def test_what_is_right_already_stays(kept: str) -> None:
    becomes(
        f"from accelerate import Accelerator{TRAINS}{kept}\n",
        f"from accelify.runtime import Accelerator{TRAINS}{kept}\n",
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "from accelerate import init_empty_weights as empty; empty()",
            "accelify has no `init_empty_weights`: big-model inference",
        ),
        (
            "from accelerate.hooks import AlignDevicesHook; AlignDevicesHook()",
            "accelify has no `hooks.AlignDevicesHook`: it is not",
        ),
        (
            "Accelerator(deepspeed_plugin=plugin)",
            "accelify has no `Accelerator(deepspeed_plugin)`: DeepSpeed is not here",
        ),
        ("accelerator._models", "accelify has no `Accelerator._models`: it is not part of the public API"),
        ("accelerator.sync_gradients = False", "accelify's `sync_gradients` cannot be set"),
        ("accelerator.state.debug = True", "accelify's `debug` cannot be set"),
        ("from accelerate.utils import *", "`import *` may import any name"),
        (
            "if accelerator.is_main_process and model(x).sum() < 3: accelerator.save_state('x')",
            "`accelerator.save_state` waits for all processes",
        ),
        ("import transformers; transformers.Trainer()", "`transformers.Trainer` runs on Accelerate itself"),
    ],
)
def test_what_accelify_does_not_have_declines_at_its_line(line: str, reason: str) -> None:
    text = f"from accelerate import Accelerator{TRAINS}{line}\n"
    ((at, message),) = declined(text)
    assert at == text.count("\n")
    assert message.startswith(reason)


PLAIN = "from accelerate import Accelerator\nfor x in loader:\n    model(x).sum().backward()\n    optimizer.step()\n"


@pytest.mark.parametrize("made", ["a = Accelerator()\nprint(a.device)", "print(Accelerator().num_processes)"])
def test_an_accelerator_that_trains_nothing_declines(made: str) -> None:
    ((at, message),) = declined(f"{PLAIN}{made}\n")
    assert at == 5
    assert message.startswith("nothing is trained by this `Accelerator`")


@pytest.mark.parametrize(
    "used", ["model = a.prepare(model)", "a.backward(loss)", "model = nn.parallel.DistributedDataParallel(model)"]
)
def test_an_accelerator_that_trains_something_does_not(used: str) -> None:
    assert moved(f"{PLAIN}a = Accelerator()\n{used}\n").status is Status.MIGRATED
    assert moved("from accelerate import Accelerator\nprint(Accelerator().device)\n").status is Status.MIGRATED


def test_an_option_that_is_none_asks_for_nothing() -> None:
    assert moved("from accelerate import Accelerator\nAccelerator(fsdp_plugin=None)\n").status is Status.MIGRATED


def test_a_difference_that_matters_is_noted_once() -> None:
    result = moved(
        f"from accelerate import Accelerator{TRAINS}accelerator.load_state('a')\naccelerator.load_state('b')\n"
    )
    (note,) = result.notes
    assert note.line == 7
    assert "`load_state` differs from Accelerate's" in note.message


def test_with_accelerate_as_the_runtime_there_is_nothing_to_do() -> None:
    result = moved(f"from accelerate import Accelerator{TRAINS}", Options(runtime=ACCELERATE))
    assert result.status is Status.UNCHANGED
    assert result.because.startswith("written for Hugging Face Accelerate already")


def test_a_comment_or_a_setting_that_leaves_the_rule_out_declines() -> None:
    text = f"from accelerate import Accelerator  # accelify: ignore[accelerate]{TRAINS}"
    assert moved(text).status is Status.DECLINED
    ignoring = Options(selection=Selection(ignore=frozenset({"accelerate"})))
    assert moved(f"from accelerate import Accelerator{TRAINS}", ignoring).status is Status.DECLINED


def test_all_files_of_a_program_move_together(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"from setup import Accelerator, log{TRAINS}log.info('x')\n")
    own = "from accelerate import Accelerator\nfrom accelerate.logging import get_logger\n\nlog = get_logger('x')\n"
    (tmp_path / "setup.py").write_text(own)
    results = {Path(r.path).name: r for r in rewrite_together((str(tmp_path / "train.py"),), Options())}
    assert results["setup.py"].after.decode() == own.replace("accelerate", "accelify.runtime")
    assert results["train.py"].status is Status.UNCHANGED


GUARDED = """
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, x in enumerate(loader):
    loss = model(x).sum()
    accelerator.backward(loss)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    if accelerator.is_main_process: accelerator.save_state('x')", "    accelerator.save_state('x')"),
        (
            "    if step % 9 == 0 and accelerator.is_main_process:\n        accelerator.save_state('x')",
            "    if step % 9 == 0:\n        accelerator.save_state('x')",
        ),
        (
            "    if accelerator.is_main_process:\n        if step % 9 == 0:\n            print(loss)\n"
            "            path = f'x{step}'\n            accelerator.save_state(path)\n            print(path)",
            "    if step % 9 == 0:\n        if accelerator.is_main_process:\n            print(loss)\n"
            "        path = f'x{step}'\n        accelerator.save_state(path)\n"
            "        if accelerator.is_main_process:\n            print(path)",
        ),
    ],
)
def test_a_checkpoint_of_the_main_process_is_written_by_all(before: str, after: str) -> None:
    becomes(
        f"from accelerate import Accelerator{GUARDED}{before}\n",
        f"from accelify.runtime import Accelerator{GUARDED}{after}\n",
    )


@pytest.mark.parametrize(
    "guarded",
    [
        "if accelerator.is_main_process and loss < 3:\n        accelerator.save_state('x')",
        "if accelerator.is_main_process:\n        accelerator.save_state(f'x{loss}')",
        "if accelerator.is_main_process:\n        if step: break\n        accelerator.save_state('x')",
        "if accelerator.is_main_process:\n        path = tempfile.mkdtemp()\n        accelerator.save_state(path)",
        "if accelerator.is_main_process:\n        accelerator.save_state('x')\n    else:\n        print(step)",
        "if accelerator.is_main_process:\n        for k in range(3):\n            accelerator.save_state('x')",
    ],
)
def test_a_checkpoint_stays_where_processes_may_not_agree_on_it(guarded: str) -> None:
    ((_, message),) = declined(f"import tempfile\nfrom accelerate import Accelerator{GUARDED}    {guarded}\n")
    assert message.startswith("`accelerator.save_state` waits for all processes")
