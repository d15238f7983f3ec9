"""Ranks by the variables of torchrun, srun and mpirun; the variables are those of their documentation."""

from __future__ import annotations

import pytest

from netweave.errors import UsageError
from netweave.training.parallel.environment import is_rank, is_restarted_by_torchrun, rank_environment

SLURM = {
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-host-77@1",
}
MPICH = {
    "PMI_SIZE": "4",
    "PMI_RANK": "2",
    "MPI_LOCALRANKID": "0",
    "MPI_LOCALNRANKS": "2",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "29500",
}
TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "b",
    "MASTER_PORT": "29400",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "3",
}


@pytest.mark.parametrize(
    ("variables", "numbers", "is_one_machine", "address"),
    [
        (SLURM, (3, 4, 1), False, "gpu07"),
        ({**SLURM, "SLURM_STEP_NUM_NODES": "1"}, (3, 4, 1), True, "127.0.0.1"),
        ({**SLURM, "SLURM_STEP_NODELIST": "login,gpu[1-2]"}, (3, 4, 1), False, "login"),
        ({**SLURM, "SLURM_STEP_NODELIST": "r[3,7]n.x,z"}, (3, 4, 1), False, "r3n.x"),
        ({**SLURM, "MASTER_ADDR": "10.0.0.1"}, (3, 4, 1), False, "10.0.0.1"),
        (OPEN_MPI, (1, 2, 1), True, "127.0.0.1"),
        (MPICH, (2, 4, 0), False, "a"),
        (TORCHRUN, (1, 2, 0), False, "b"),
        ({**SLURM, **TORCHRUN}, (1, 2, 0), False, "b"),  # srun starts torchrun
    ],
)
def test_ranks_are_numbered_by_whoever_started_them(variables, numbers, is_one_machine, address):
    found = rank_environment(variables)
    assert found is not None
    assert (found.rank, found.size, found.local_rank) == numbers
    assert (found.is_one_machine, found.address) == (is_one_machine, address)
    assert found.hosts_store == (found.rank == 0 and "TORCHELASTIC_USE_AGENT_STORE" not in variables)


@pytest.mark.parametrize("variables", [SLURM, OPEN_MPI])
def test_all_ranks_of_a_job_and_no_others_choose_one_port(variables):
    rank = "SLURM_PROCID" if variables is SLURM else "OMPI_COMM_WORLD_RANK"
    job = "SLURM_STEP_ID" if variables is SLURM else "PMIX_NAMESPACE"
    ports = [rank_environment({**variables, rank: str(number)}).port for number in range(2)]
    assert ports[0] == ports[1]
    assert ports[0] != rank_environment({**variables, job: "9"}).port
    assert 20000 <= ports[0] < 30000


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "0"},
        {"WORLD_SIZE": "1"},
        # a batch script that asks for several tasks is one process
        {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
    ],
)
def test_one_process_trains_alone(variables):
    assert rank_environment(variables) is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "2"}, r"RANK is 2 and WORLD_SIZE is not set: this process is one of several"),
        ({"WORLD_SIZE": "2"}, r"WORLD_SIZE is 2 and RANK is not set: .* start it with torchrun"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, r"RANK is set and MASTER_ADDR is not"),
        (
            {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
            r"mpirun has started this process as number 1 of 2, and nothing says where they meet; "
            r"set MASTER_ADDR to the name of the machine of the first one, or unset OMPI_COMM_WORLD_SIZE",
        ),
        (
            {**MPICH, "MASTER_PORT": "0"},
            r"the environment variable MASTER_PORT is '0', expected a number, 1 to 65535",
        ),
        (
            {name: value for name, value in MPICH.items() if name != "MASTER_PORT"},
            r"mpirun has started this process as number 2 of 4, .* set MASTER_PORT to a number that is free",
        ),
        ({**SLURM, "SLURM_PROCID": "4"}, r"SLURM_PROCID is '4', expected a number, 0 to 3"),
    ],
)
def test_one_of_several_that_cannot_meet_the_others_says_so(variables, message, monkeypatch):
    with pytest.raises(UsageError, match=message):
        rank_environment(variables)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_rank()


@pytest.mark.parametrize(
    ("count", "most", "starts_again"),
    [("0", "3", True), ("3", "3", False), ("0", "0", False), (None, None, False)],
)
def test_torchrun_starts_ranks_again_until_it_has_done_so_as_often_as_it_may(
    monkeypatch, count, most, starts_again
):
    for name, value in (("RESTART_COUNT", count), ("MAX_RESTARTS", most)):
        if value is None:
            monkeypatch.delenv(f"TORCHELASTIC_{name}", raising=False)
        else:
            monkeypatch.setenv(f"TORCHELASTIC_{name}", value)
    assert is_restarted_by_torchrun() is starts_again
