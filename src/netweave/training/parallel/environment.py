"""The environment of a rank: the variables of ``torchrun``.

The launcher of Netweave sets the same variables, so that there is one way to join. ``torchrun`` gives a
restarted worker the store of its dead predecessor; the number of the attempt keeps their keys apart
(pytorch/pytorch issues 135712, 167288).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

LAUNCHED = "NETWEAVE_LAUNCHED"
"""The process of Netweave's own launcher, which reports the errors of its ranks."""

DEVICE = "NETWEAVE_DEVICE"
"""The device of a rank, where the launcher says it."""

MACHINE = "NETWEAVE_MACHINE"
"""Name of the machine, where it is not the host's: ranks of one machine share the fast links."""

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


@dataclass(frozen=True, slots=True)
class RankEnvironment:
    """One rank, as its environment describes it.

    Attributes:
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process among those of its machine.
        local_size: Number of processes of its machine.
        address: Host of the store.
        port: Port of the store.
        agent_holds_store: Whether who started the processes holds the store; else rank 0 does.
        attempt: How often the processes were started again.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    address: str
    port: int
    agent_holds_store: bool
    attempt: int

    @property
    def hosts_store(self) -> bool:
        """True if this process must host the store itself."""
        return self.rank == 0 and not self.agent_holds_store


def rank_environment(variables: Mapping[str, str] | None = None) -> RankEnvironment | None:
    """Return what the environment says; None if this process is no rank of a group.

    Args:
        variables: The environment; that of the process by default.

    Raises:
        UsageError: A variable is missing, or no number in its range.
    """
    env = os.environ if variables is None else variables
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return None
    size = _number(env, "WORLD_SIZE", 1, None)
    rank = _number(env, "RANK", 0, size)
    if "MASTER_ADDR" not in env:
        raise UsageError("RANK is set and MASTER_ADDR is not; start with torchrun, or unset RANK")
    return RankEnvironment(
        rank,
        size,
        _number(env, "LOCAL_RANK", 0, size) if "LOCAL_RANK" in env else rank,
        _number(env, "LOCAL_WORLD_SIZE", 1, size + 1) if "LOCAL_WORLD_SIZE" in env else size,
        env["MASTER_ADDR"],
        _number(env, "MASTER_PORT", 1, 65536),
        agent_holds_store=env.get("TORCHELASTIC_USE_AGENT_STORE", "False") == "True",
        attempt=_number(env, "TORCHELASTIC_RESTART_COUNT", 0, None)
        if "TORCHELASTIC_RESTART_COUNT" in env
        else 0,
    )


def _number(variables: Mapping[str, str], name: str, least: int, end: int | None) -> int:
    text = variables.get(name, "")
    if not text.isdecimal() or int(text) < least or (end is not None and int(text) >= end):
        expected = f"at least {least}" if end is None else f"{least} to {end - 1}"
        raise UsageError(f"the environment variable {name} is {text!r}, expected a number, {expected}")
    return int(text)


def is_rank() -> bool:
    """Return whether the environment says that this process is one of several, completely or not."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_launched() -> bool:
    """Return whether Netweave's own launcher has started this process, and still watches it."""
    return os.environ.get(LAUNCHED) == str(os.getppid())


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
