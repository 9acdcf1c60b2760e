"""Settings: which source wins, what a file may hold, and that nothing here needs torch."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.launch.conftest import PATIENCE, Shell

WITHOUT_TORCH = """
import runpy, sys
sys.argv = ["accelify", *sys.argv[1:]]
try:
    runpy.run_module("accelify", run_name="__main__")
finally:
    found = sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "libcst", "rich", "yaml", "numpy"})
    print("HEAVY", found, file=sys.stderr)
"""


def origins(shell: Shell, *flags: str, **variables: str) -> dict[str, tuple[str, str]]:
    """What --dry-run says: name -> (value, origin)."""
    done = shell.run("launch", "--dry-run", *flags, "train.py", **variables)
    assert done.returncode == 0, done.stderr
    table = done.stdout.split("\n\n")[0].splitlines()
    return {line.split()[0]: (line.split()[1], " ".join(line.split()[2:])) for line in table}


def test_flag_then_variable_then_file_then_detected(shell: Shell) -> None:
    file = shell.script("num_processes = 3\nmixed_precision = 'bf16'\ncpu = true\nmax_restarts = 1\n", "accelify.toml")
    named = shell.script("max_restarts: 7\ndebug: yes\n", "named.yaml")
    told = origins(
        shell,
        "--num_processes=5",
        ACCELIFY_NUM_PROCESSES="4",
        ACCELIFY_MIXED_PRECISION="fp16",
        ACCELIFY_CONFIG=str(named),
    )
    assert told["num_processes"] == ("5", "flag --num-processes")
    assert told["mixed_precision"] == ("fp16", "variable ACCELIFY_MIXED_PRECISION")
    assert told["cpu"] == ("true", f"file {file}")
    assert told["max_restarts"] == ("1", f"file {file}")  # the project's own file stands above the named one
    assert told["debug"] == ("true", f"file {named}")
    assert told["num_cpu_threads_per_process"][1].startswith("detected: ")
    assert told["num_machines"] == ("1", "default")


def test_a_file_named_on_the_command_line_stands_alone(shell: Shell) -> None:
    shell.script("cpu = true\n", "accelify.toml")
    shell.script("max_restarts = 2\n", "other.toml")
    told = origins(shell, "--config-file", "other.toml")
    assert (told["cpu"][0], told["max_restarts"][0]) == ("false", "2")


def test_no_hidden_file_changes_a_run(shell: Shell) -> None:
    home = shell.folder / "home"
    shell.script("max_restarts = 9\n", "home/.config/accelify/accelify.toml")
    (shell.folder.parent / "accelify.toml").write_text("max_restarts = 8\n")  # above the repository
    variables = {"HOME": str(home), "XDG_CONFIG_HOME": ""}
    assert origins(shell, **variables)["max_restarts"] == ("0", "default")
    assert origins(shell, "--user-config", **variables)["max_restarts"][0] == "9"


def test_pyproject_and_a_folder_below(shell: Shell) -> None:
    shell.script("[tool.accelify.launch]\nnum_processes = 2\n", "pyproject.toml")
    below = shell.folder / "below"
    below.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "accelify", "config", "show"],
        cwd=below,
        env=shell.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"num_processes                2            file {shell.folder / 'pyproject.toml'}" in done.stdout


def test_a_table_of_ours_is_never_passed_over(shell: Shell) -> None:
    for text, reason in {
        "[tool.accelify]\nnum_processes = 2\n": "settings stand in [tool.accelify.launch]",
        "[tool.accelify.launch]\nnum_processes = \n": "is not TOML",
    }.items():
        shell.script(text, "pyproject.toml")
        done = shell.run("config", "show")
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr


def test_what_is_detected_says_so(shell: Shell) -> None:
    told = origins(shell, "--cpu")
    assert told["num_processes"] == ("1", "detected: asked to use the CPU")
    assert origins(shell, "--num-processes=auto", "--cpu")["num_processes"][1].startswith("flag --num-processes, det")
    assert origins(shell, "--nproc-per-node=2", "--cpu")["num_processes"] == ("2", "flag --nproc-per-node")


def test_dry_run_prints_a_torchrun_command_that_works(shell: Shell) -> None:
    shell.script("import os, sys; open('seen-' + os.environ['RANK'], 'w').write(' '.join(sys.argv[1:]))")
    done = shell.run("launch", "--dry-run", "--cpu", "--num-processes", "2", "train.py", "--flag", "a b")
    command = done.stdout.strip().splitlines()[-1]
    assert "ACCELIFY_CPU=1" in command
    assert "torchrun " in command
    binaries = os.path.dirname(sys.executable)  # noqa: PTH120  not resolved: the link is the environment
    env = shell.environment(PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(["sh", "-c", command], cwd=shell.folder, env=env, check=True, capture_output=True)
    assert shell.lines("seen-*") == ["--flag a b"] * 2


BAD = {
    "num_proceses = 2": "unknown key 'num_proceses'; did you mean 'num_processes'?",
    "zebra = 2": "unknown key 'zebra'",
    "num_processes = 'two'": "num_processes: 'two' is not a whole number",
    "num_processes = true": "num_processes: True is not a whole number",
    "num_processes = 0": "num_processes: 0 is less than 1",
    "mixed_precision = 'fp8'": "mixed_precision: 'fp8' is none of no, fp16, bf16",
    "cpu = 'perhaps'": "cpu: 'perhaps' is neither true nor false",
    "num_machines = '3:2'": "num_machines: '3:2' ends before it begins",
    "gpu_ids = '0,,1'": "gpu_ids: '0,,1' is not a list of GPUs such as 0,1",
    "main_process_ip = ''": "main_process_ip: '' is not a name or an address",
    "num_processes = ": "is not TOML",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_gets_one_line(shell: Shell, text: str) -> None:
    file = shell.script(text, "accelify.toml")
    done = shell.run("config", "validate")
    assert done.returncode == 2
    assert done.stderr.startswith(f"accelify: {file}: ")
    assert BAD[text] in done.stderr
    assert len(done.stderr.splitlines()) == 1


HOSTILE = {
    "accelify.yaml": {
        "[" * 20_000: "is nested too deeply",
        "a: " + "{a: " * 20_000 + "}" * 20_000: "is nested too deeply",
        "num_processes: " + "1" * 10_000: "is not YAML",
        "a: &a [*a]\nb: " + "[*a, " * 3000: "is ",
        "num_processes: 2020-99-99": "is not YAML: month must be in 1..12",
        "debug: !!bool perhaps": "is not YAML",
        "debug: !!timestamp never": "is not YAML",
        "debug: \x00": "is not YAML",
        "- debug": "is no table of settings",
        "? [1]\n: 2": "is not YAML",
    },
    "accelify.toml": {
        "a = " + "[" * 20_000 + "]" * 20_000: "is nested too deeply",
        "num_processes = " + "1" * 10_000: "is not TOML",
    },
    "pyproject.toml": {"[tool]\naccelify = 5": "'accelify' in [tool.accelify]"},
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in HOSTILE.items() for text in texts])
def test_a_hostile_file_gets_one_line(shell: Shell, name: str, text: str) -> None:
    file = shell.script(text, name)
    shell.script("raise SystemExit('must not run')")
    done = shell.run("launch", "--config-file", name, "--num-processes", "2", "train.py")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"accelify: {file.name}: {HOSTILE[name][text]}")
    assert "Traceback" not in shell.run("config", "validate").stderr


def test_validate(shell: Shell) -> None:
    assert shell.run("config", "validate").returncode == 2  # nothing there
    shell.script("mixed_precision: no\nnum_processes: auto\n", "accelify.yaml")
    done = shell.run("config", "validate")
    assert done.returncode == 0, done.stderr
    assert "2 settings, all good" in done.stdout


def test_default_asks_nothing(shell: Shell) -> None:
    assert shell.run("config", "--default").returncode == 0
    assert shell.run("config", "validate").returncode == 0


def test_the_questions_in_a_terminal(shell: Shell) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "accelify", "config"],
        cwd=shell.folder,
        env=shell.environment(CUDA_VISIBLE_DEVICES=""),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    answers = [
        ("machines?", "2"),
        ("together?", "four"),
        ("together?", "4"),
        ("machine 0?", "10.0.0.1"),
        ("free port", ""),
        ("from 0?", "1"),
        ("bf16?", "bf16"),
        ("step?", "8"),
    ]
    seen = ""
    for question, answer in answers:
        position = 0
        while question not in seen[position:]:
            seen += os.read(master, 1024).decode()
        os.write(master, f"{answer}\n".encode())
        seen = ""
    assert process.wait(PATIENCE) == 0
    os.close(master)
    told = shell.run("config", "show").stdout
    for line in ("num_machines 2", "num_processes 4", "main_process_ip 10.0.0.1", "machine_rank 1"):
        assert line in " ".join(told.split())
    text = (shell.folder / "accelify.toml").read_text()
    assert 'mixed_precision = "bf16"' in text
    assert "gradient_accumulation_steps = 8" in text
    assert "main_process_port = 29500" in text


def test_import_from_accelerate(shell: Shell) -> None:
    shell.script(
        """
compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config: {zero_stage: 2}
distributed_type: MULTI_GPU
downcast_bf16: 'no'
fsdp_config: {}
gpu_ids: 0,1
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
""",
        "peer.yaml",
    )
    done = shell.run("config", "import", "peer.yaml")
    assert done.returncode == 1  # something is left for a person
    assert done.stderr == "peer.yaml: deepspeed_config: {'zero_stage': 2} has no counterpart and was left out\n"
    text = (shell.folder / "accelify.toml").read_text()
    settings = [line.partition("  #")[0] for line in text.splitlines() if not line.startswith("#")]
    assert sorted(settings) == ['gpu_ids = "0,1"', 'mixed_precision = "bf16"', "num_processes = 2"]


def test_handed_to_the_script(shell: Shell) -> None:
    shell.script(
        "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('ACCELIFY_')}))"
    )
    done = shell.run("launch", "--mixed-precision", "bf16", "--gradient_accumulation_steps", "4", "--debug", "train.py")
    assert json.loads(done.stdout) == {
        "ACCELIFY_MIXED_PRECISION": "bf16",
        "ACCELIFY_GRADIENT_ACCUMULATION_STEPS": "4",
        "ACCELIFY_DEBUG": "1",
    }


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["launch", "--help"],
        ["launch", "--dry-run", "--num-processes", "2", "train.py"],
        ["config", "--help"],
        ["config", "show"],
        ["config", "--default"],
        ["env"],
        ["test", "--help"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(shell: Shell, command: list[str]) -> None:
    shell.script("num_processes = 2\n", "accelify.toml")
    done = shell.python("-c", WITHOUT_TORCH, *command)
    assert done.stderr.splitlines()[-1] == "HEAVY []", done.stderr


def test_env_tells_no_secrets(shell: Shell) -> None:
    shell.script("num_processes = 2\n", "accelify.toml")
    secrets = {"WANDB_API_KEY": "s3cr3t", "HF_TOKEN": "s3cr3t", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}
    done = shell.run("env", "--devices", **secrets, CUDA_VISIBLE_DEVICES="", ACCELIFY_DEBUG="1")
    assert done.returncode == 0, done.stderr
    assert "s3cr3t" not in done.stdout
    for expected in ("accelify", "python", "torch", "cores", "gpus", "torch backends", "file ", "torchrun --nnodes 1"):
        assert expected in done.stdout
    assert "variable ACCELIFY_DEBUG" in done.stdout


def test_env_when_the_file_is_bad(shell: Shell) -> None:
    shell.script("num_proceses = 2\n", "accelify.toml")
    done = shell.run("env")
    assert done.returncode == 2
    assert "did you mean 'num_processes'?" in done.stderr


def test_the_self_check_can_fail(shell: Shell) -> None:
    shell.script(
        """
from accelify.runtime.launch import selfcheck
from accelify.runtime.accelerator import Accelerator
Accelerator.prepare_model = lambda self, model, *rest, **options: model  # so that nobody averages the gradients,
Accelerator.prepare_optimizer = lambda self, optimizer, *rest, **options: optimizer  # not even those of what it steps
Accelerator.backward = lambda self, loss: loss.backward()
raise SystemExit(selfcheck.main())
""",
        "broken.py",
    )
    done = shell.run("launch", "--cpu", "--num-processes", "2", "broken.py")
    assert done.returncode == 1
    assert "FAILED on 2 of 2" in done.stdout
    assert "weights" in done.stdout


def test_the_self_check_notices_a_checkpoint_that_forgets(shell: Shell) -> None:
    shell.script(
        """
from accelify.runtime.launch import selfcheck
from accelify.runtime.accelerator import Accelerator
Accelerator.load_state = lambda self, folder: folder
raise SystemExit(selfcheck.main())
""",
        "broken.py",
    )
    done = shell.run("launch", "--cpu", "broken.py")
    assert done.returncode == 1
    assert "checkpoint       FAILED on 1 of 1" in done.stdout
