"""``netweave train`` on several ranks as processes: a small Job, starting it, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from netweave.training import read_checkpoint
from tests.training.parallel import nets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TIMEOUT_S = 240
"""Twenty times what a start takes on an idle machine."""

NET = f"""name: "command"
layer {{ name: "data" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param {{ source: "list.txt" batch_size: {nets.BATCH} }} }}
{nets.NETS["mlp"]}"""


def write(folder: Path, *, steps: int, snapshot: int = 10, display: int = 5, net: str = NET) -> None:
    """Write net, solver and records; without a seed, so that all ranks must agree on a fresh one."""
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "records.h5", "w") as file:
        for name, array in nets.records().items():
            file[name] = array.astype(np.float32)
    (folder / "list.txt").write_text("records.h5\n")
    (folder / "net.prototxt").write_text(net)
    (folder / "solver.prototxt").write_text(
        f'net: "net.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 max_iter: {steps}\n'
        f'display: {display} snapshot: {snapshot} snapshot_prefix: "out/net"\n'
    )


def start(folder: Path, *arguments: str, before: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
    """Start the command; ``before`` stands in the place of the interpreter."""
    command = [*(before or [sys.executable]), "-m", "netweave", "train", "solver.prototxt", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True, **options)


def start_rank(
    folder: Path,
    rank: int,
    size: int,
    port: int,
    *arguments: str,
    before: Sequence[str] = (),
    address: str = "127.0.0.1",
    **variables: str,
) -> subprocess.Popen[str]:
    """Start one rank as a scheduler does: by its environment alone; rank 0 holds the store."""
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        **variables,
    }
    return start(folder, *arguments, before=before, env=environment)


def finish(process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
    """Return the exit status, and all that was said."""
    output, _ = process.communicate(timeout=timeout_s)
    return process.returncode, output


def arrays(folder: Path, iteration: int) -> dict[str, np.ndarray]:
    """Return the parameters of a checkpoint."""
    found = read_checkpoint(folder / f"out/net_iter_{iteration}.checkpoint").arrays
    return {key: array for key, array in found.items() if key.startswith("param")}


def is_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    """Whether all arrays are the same, bit for bit."""
    return found.keys() == expected.keys() and all(
        found[key].tobytes() == expected[key].tobytes() for key in expected
    )


def ranks_of(launcher: subprocess.Popen[str]) -> list[int]:
    """Return the processes of a launcher, in the order of ranks; those that are there."""
    return children_of(launcher.pid)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started; those that are there."""
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def is_there(pid: int) -> bool:
    """Whether a process runs; a dead one that its parent has not asked about does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@contextlib.contextmanager
def ended(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """Kill at the end what is still there."""
    try:
        yield
    finally:
        for process in processes:
            for pid in ranks_of(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            process.kill()
            process.communicate()
