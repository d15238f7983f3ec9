"""Starts the ranks of a measurement, on nodes of a slow network or on the loopback, and talks to them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.worker import hear

if TYPE_CHECKING:
    from benchmarks.parallel.network import Node


class Ranks:
    """The processes of a measurement.

    Args:
        net: Of ``nets.NETS``.
        batch: Images in the whole batch.
        nodes: The node of each rank; empty for the loopback.
        count: How many ranks.
    """

    def __init__(self, net: str, batch: int, *, nodes: Sequence[Node] = (), count: int = 2) -> None:
        address = nodes[0].address if nodes else "127.0.0.1"
        port = str(_free_port())
        self._processes = []
        for rank in range(count):
            command = [sys.executable, "-m", "benchmarks.parallel.rank", net, str(batch)]
            node = nodes[rank] if nodes else None
            variables = {
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
                "RANK": str(rank),
                "WORLD_SIZE": str(count),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "1" if nodes else str(count),
                "MASTER_ADDR": address,
                "MASTER_PORT": port,
                **(node.environment if node else {}),
            }
            command = node.command(command) if node else command
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=variables)
            self._processes.append(process)
        self.about = self._hear()[0]

    def ask(self, do: str, **arguments: Any) -> list[dict[str, Any]]:
        """Have all ranks do something; return their answers."""
        for process in self._processes:
            assert process.stdin is not None
            print(json.dumps({"do": do, **arguments}), file=process.stdin, flush=True)
        return self._hear()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _hear(self) -> list[dict[str, Any]]:
        return [hear(process) for process in self._processes]


@contextlib.contextmanager
def started(*arguments: Any, **options: Any) -> Iterator[Ranks]:
    """Give the processes of a measurement; end them at the end."""
    ranks = Ranks(*arguments, **options)
    try:
        yield ranks
    finally:
        ranks.close()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found: int = listener.getsockname()[1]
        return found
