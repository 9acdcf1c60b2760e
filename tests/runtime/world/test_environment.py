import subprocess
import sys

import pytest

from accelify.runtime.world.environment import BadEnvironment, Environment, cache_folders

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node7",
    "MASTER_PORT": "1234",
}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_NTASKS": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "gpu[003-004,012]",
    "SLURM_JOB_ID": "77",
}
MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def place(environment):
    return (
        environment.launcher,
        environment.rank,
        environment.world_size,
        environment.local_rank,
        environment.local_world_size,
    )


def test_no_variables_mean_one_process():
    assert place(Environment.read({})) == ("none", 0, 1, 0, 1)
    assert Environment.read({}).write() == {}


def test_torchrun():
    environment = Environment.read(TORCHRUN)
    assert place(environment) == ("torchrun", 3, 4, 1, 2)
    assert (environment.address, environment.port) == ("node7", 1234)
    assert (environment.process_index, environment.num_processes, environment.is_main_process) == (3, 4, False)


def test_slurm_step():
    environment = Environment.read(SLURM)
    assert place(environment) == ("slurm", 3, 5, 1, 2)
    assert environment.address == "gpu003"
    assert environment.port == Environment.read({**SLURM, "SLURM_PROCID": "0"}).port
    assert environment.port != Environment.read({**SLURM, "SLURM_JOB_ID": "78"}).port


def test_an_sbatch_script_is_one_process_although_it_has_a_task_count():
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "ENVIRONMENT": "BATCH"}
    assert place(Environment.read(batch)) == ("none", 0, 1, 0, 1)


def test_an_allocation_without_a_step_is_one_process():
    assert place(Environment.read({"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"})) == ("none", 0, 1, 0, 1)


def test_slurm_by_its_plain_variables():
    environment = Environment.read({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1"})
    assert place(environment) == ("slurm", 1, 2, 1, 2)
    assert environment.address == "localhost"


def test_mpi():
    assert place(Environment.read(MPI)) == ("mpi", 1, 2, 1, 2)
    intel = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert place(Environment.read(intel)) == ("mpi", 1, 2, 1, 2)


def test_torchrun_comes_before_slurm_and_slurm_before_mpi():
    assert Environment.read({**SLURM, **TORCHRUN}).launcher == "torchrun"
    assert Environment.read({**SLURM, "PMI_RANK": "3", "PMI_SIZE": "5"}).launcher == "slurm"


def test_mpirun_inside_a_slurm_step_is_its_own_world():
    assert place(Environment.read({**SLURM, **MPI})) == ("mpi", 1, 2, 1, 2)


def test_a_world_size_exported_for_slurm_does_not_hide_slurms_rank():
    exported = {"WORLD_SIZE": "5", "MASTER_ADDR": "gpu003", "MASTER_PORT": "4000"}
    environment = Environment.read({**SLURM, **exported})
    assert (environment.launcher, environment.rank, environment.port) == ("slurm", 3, 4000)


def test_mpi_over_machines_needs_an_address():
    spread = {**MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    with pytest.raises(BadEnvironment, match="MASTER_ADDR"):
        Environment.read(spread)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({**TORCHRUN, "RANK": "x"}, "RANK='x'"),
        ({**TORCHRUN, "RANK": "4"}, "rank 4"),
        ({"ACCELIFY_MIXED_PRECISION": "fp61"}, "ACCELIFY_MIXED_PRECISION='fp61'"),
        ({"ACCELIFY_CPU": "maybe"}, "ACCELIFY_CPU='maybe'"),
        ({"ACCELIFY_TIMEOUT": "soon"}, "ACCELIFY_TIMEOUT='soon'"),
        ({"ACCELIFY_TIMEOUT": "nan"}, "ACCELIFY_TIMEOUT='nan'"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}, "MASTER_PORT"),
    ],
)
def test_nonsense_is_named(variables, says):
    with pytest.raises(BadEnvironment, match=says):
        Environment.read(variables)


@pytest.mark.parametrize(
    "environment",
    [
        Environment(),
        Environment(cpu=True, debug=True, mixed_precision="bf16", timeout=7.5),
        Environment(launcher="torchrun", rank=1, world_size=2, local_rank=1, local_world_size=2, address="a", port=5),
    ],
)
def test_what_is_written_reads_back(environment):
    assert Environment.read(environment.write()) == environment


def test_folders_for_caches():
    variables = {
        "XDG_CACHE_HOME": "/scratch/cache",
        "TORCH_HOME": "/scratch/torch",
        "PIP_NO_CACHE_DIR": "1",
        "PROJECT_HOME": "/scratch/me",
    }
    assert cache_folders(variables) == ["/scratch/cache", "/scratch/torch"]


def test_the_module_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import accelify.runtime.world.environment"
    subprocess.run([sys.executable, "-c", code], check=True)
