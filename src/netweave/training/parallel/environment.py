"""The environment of a rank: the variables of ``torchrun``, of ``srun``, or of ``mpirun``.

The launcher of Netweave sets those of ``torchrun``. Whoever starts the ranks, they join in one way: by the
address of a store. ``srun`` names the machines, so that the first of them holds it; ``mpirun`` names none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

LAUNCHED = "NETWEAVE_LAUNCHED"
"""The process of Netweave's own launcher, which reports the errors of its ranks."""

DEVICE = "NETWEAVE_DEVICE"
"""The device of a rank, where the launcher says it."""

MACHINE = "NETWEAVE_MACHINE"
"""Name of the machine, where it is not the host's: ranks of one machine share the fast links."""

RESTARTS = "NETWEAVE_RESTARTS"
"""Number of restarts that Netweave's own launcher allows."""

REJOINS = "NETWEAVE_REJOINS"
"""Set where a rank was started again alone, and the others go on."""

UNITS = "units"
"""Prefix of keys in the launcher's store: under its number a rank lists those to restart together with it."""

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Where a rank leaves its error for the launcher, as ``torch.distributed.elastic`` has it."""


INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a run that Ctrl-C has stopped, when a checkpoint was written."""

PREEMPTED = 128 + signal.SIGTERM
"""Exit status of a run that was told that its machine is taken away, when a checkpoint was written."""

STOP_SIGNALS = ("TERM", "USR1", "USR2", "HUP")
"""Names of signals that clusters send before they take a machine away: ``sbatch --signal=USR1@60``."""

GROUP_LOST = 75
"""Exit status of a rank that fails only because others did (``EX_TEMPFAIL``)."""


STOP_WEIGHTS = {0: 0.0, INTERRUPTED: 1.0, PREEMPTED: 2.0**20}
"""Weights of ranks that were asked to stop, by status, in a sum over all; there are never 2^20 ranks."""


_SAVE_WEIGHT = 2.0**40
"""The number that the first rank adds to it when all are to write a checkpoint after the update."""


def asked(stop: int, saves: bool) -> float:
    """Return the number by which a rank says in a sum over all what it was asked for; see ``told_by``."""
    return STOP_WEIGHTS[stop] + _SAVE_WEIGHT * saves


def told_by(total: float) -> dict[str, Any]:
    """Return the gravest exit status that any was asked to stop with, and whether a checkpoint is due."""
    saves = total >= _SAVE_WEIGHT - 0.5
    return {"stop": _stop_status(total - _SAVE_WEIGHT * saves), "saves": saves}


def _stop_status(total: float) -> int:
    return max((status for status, weight in STOP_WEIGHTS.items() if total >= weight - 0.5), default=0)


@dataclass(frozen=True, slots=True)
class RankEnvironment:
    """One rank, as its environment describes it.

    Attributes:
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process among those of its machine.
        is_one_machine: Whether all processes are known to be on one machine.
        address: Host of the store.
        port: Port of the store.
        agent_holds_store: Whether who started the processes holds the store; else rank 0 does.
        group: The processes that these are among several groups; empty for all.
        rejoins: Whether this process takes the place of one that has ended, while the others go on.
    """

    rank: int
    size: int
    local_rank: int
    is_one_machine: bool
    address: str
    port: int
    agent_holds_store: bool
    group: str = ""
    rejoins: bool = False

    @property
    def hosts_store(self) -> bool:
        """True if this process must host the store itself."""
        return self.rank == 0 and not self.agent_holds_store


@dataclass(frozen=True, slots=True)
class _Starter:
    """Names of the variables by which a program that starts ranks numbers them.

    Attributes:
        name: The program.
        size: Number of processes.
        rank: Number of the process.
        local_rank: Its number among those of its machine.
        local_size: Number of processes of its machine; none where the program says the number of machines.
        job: What is the same for all processes and no others, from which a port is chosen.
    """

    name: str
    size: str
    rank: str
    local_rank: str
    local_size: str = ""
    job: tuple[str, ...] = ()


_STARTERS = (
    _Starter("torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    # of a step: a batch script itself has SLURM_PROCID, too, and is one process
    _Starter(
        "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", job=("SLURM_JOB_ID", "SLURM_STEP_ID")
    ),
    _Starter(
        "mpirun",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE",),
    ),
    _Starter(
        "mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ("HYDRA_JOBID", "PMI_PORT")
    ),
)
"""``torchrun``; ``srun``; ``mpirun`` of Open MPI; that of MPICH and Intel MPI. The first that has numbered
this process: those further down may have started it."""

FIRST_PORT, NUM_PORTS = 20000, 10000
"""A port is chosen among these where nobody names one: below those that systems give to clients."""


def rank_environment(variables: Mapping[str, str] | None = None) -> RankEnvironment | None:
    """Return what the environment says; None if this process is no rank of a group.

    Args:
        variables: The environment; that of the process by default.

    Raises:
        UsageError: A variable is missing, or no number in its range, or it does not say where the ranks meet.
    """
    env = os.environ if variables is None else variables
    starter = _starter(env)
    if starter is None:
        return None
    size = _number(env, starter.size, 1, None)
    rank = _number(env, starter.rank, 0, size)
    if size == 1 and starter.name != "torchrun":
        return None
    local_rank = _number(env, starter.local_rank, 0, size) if starter.local_rank in env else rank
    if starter.local_size in env:
        is_one_machine = _number(env, starter.local_size, 1, size + 1) == size
    else:
        is_one_machine = starter.name == "torchrun" or env.get("SLURM_STEP_NUM_NODES") == "1"
    return RankEnvironment(
        rank,
        size,
        local_rank,
        is_one_machine,
        _address(env, starter, is_one_machine=is_one_machine),
        _port(env, starter),
        agent_holds_store=env.get("TORCHELASTIC_USE_AGENT_STORE", "False") == "True",
        rejoins=REJOINS in env,
    )


def _starter(env: Mapping[str, str]) -> _Starter | None:
    """Return who has numbered this process.

    Raises:
        UsageError: It is one of several, and its number is missing.
    """
    for starter in _STARTERS:
        if starter.rank in env and starter.size in env:
            return starter
        for name, missing, alone in (
            (starter.rank, starter.size, {"", "0"}),
            (starter.size, starter.rank, {"", "0", "1"}),
        ):
            if starter.name == "torchrun" and env.get(name, "") not in alone:
                raise UsageError(
                    f"{name} is {env[name]} and {missing} is not set: this process is one of several and "
                    f"cannot meet the others; start it with torchrun, or unset {name}"
                )
    return None


def _address(env: Mapping[str, str], starter: _Starter, *, is_one_machine: bool) -> str:
    """Return the host of the store."""
    if "MASTER_ADDR" in env:
        return env["MASTER_ADDR"]
    if starter.name == "torchrun":
        raise UsageError("RANK is set and MASTER_ADDR is not; start with torchrun, or unset RANK")
    if is_one_machine:
        return "127.0.0.1"
    # node[07-09,12],other: the first name, with the first number
    first = re.match(r"([^,\[\]]+)(?:\[(\w+)[^\]]*\]([^,]*))?", env.get("SLURM_STEP_NODELIST", ""))
    if starter.name == "srun" and first:
        return "".join(part or "" for part in first.groups())
    raise _nowhere(env, starter, "MASTER_ADDR", "to the name of the machine of the first one")


def _port(env: Mapping[str, str], starter: _Starter) -> int:
    """Return the port of the store."""
    job = [env[name] for name in starter.job if name in env]
    if "MASTER_PORT" in env or starter.name == "torchrun":
        return _number(env, "MASTER_PORT", 1, 65536)
    if job:
        return FIRST_PORT + zlib.crc32(" ".join(job).encode()) % NUM_PORTS
    raise _nowhere(env, starter, "MASTER_PORT", "to a number that is free there, such as 29500")


def _nowhere(env: Mapping[str, str], starter: _Starter, name: str, remedy: str) -> UsageError:
    rank, size = env[starter.rank], env[starter.size]
    return UsageError(
        f"{starter.name} has started this process as number {rank} of {size}, and nothing says where they "
        f"meet; set {name} {remedy}, or unset {starter.size} to train alone"
    )


def _number(variables: Mapping[str, str], name: str, least: int, end: int | None) -> int:
    text = variables.get(name, "")
    if not text.isdecimal() or int(text) < least or (end is not None and int(text) >= end):
        expected = f"at least {least}" if end is None else f"{least} to {end - 1}"
        raise UsageError(f"the environment variable {name} is {text!r}, expected a number, {expected}")
    return int(text)


def is_rank() -> bool:
    """Return whether the environment says that this process is one of several, completely or not."""
    with contextlib.suppress(UsageError):
        return rank_environment() is not None
    return True


def is_launched() -> bool:
    """Return whether Netweave's own launcher has started this process, and still watches it."""
    return os.environ.get(LAUNCHED) == str(os.getppid())


def is_restarted_by_torchrun() -> bool:
    """Return whether torchrun starts the ranks again when this one fails: it says itself which one it was."""
    count, most = (os.environ.get(f"TORCHELASTIC_{name}") for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    return bool(count and most) and int(count or 0) < int(most or 0)


def restarts_single_ranks() -> bool:
    """Return whether a launcher watches this process that starts ranks again, alone if they ask for it."""
    return is_launched() and os.environ.get(RESTARTS, "0") != "0"


def leave_error(message: str) -> bool:
    """Leave the message of an error for the launcher; say whether the launcher is to show it.

    The file has the form of ``torch.distributed.elastic``, so that ``torchrun`` shows it too.
    """
    path = os.environ.get(ERROR_FILE)
    if path and LAUNCHED in os.environ and not is_launched():  # it was killed: nobody else removes its folder
        shutil.rmtree(Path(path).parent, ignore_errors=True)
        return False
    if path:
        content = {"message": {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}}
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps(content))
    return bool(path) and is_launched()


def leave_at_once(status: int) -> NoReturn:
    """End a rank that has failed: collectives on their way would abort the process when it ends in order."""
    with contextlib.suppress(OSError, ValueError):  # whoever read what it says may be gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
