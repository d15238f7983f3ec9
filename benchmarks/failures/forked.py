"""``netweave train --devices`` whose ranks are forked from a process that has imported torch already.

``python -m benchmarks.failures.forked RANKS RESTARTS ARGUMENTS`` takes the arguments of the command. A start
then costs a tenth of the time. All else is the command's own: launcher, environment, ranks.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import TYPE_CHECKING, Any

from netweave.training.parallel.environment import LAUNCHED
from netweave.training.parallel.launcher import Launcher

if TYPE_CHECKING:
    import subprocess
    from multiprocessing.process import BaseProcess

PRELOADED = [
    "netweave.cli",
    "netweave.api.training",
    "netweave.training.trainer",
    "netweave.training.parallel.world",
]


class Forked:
    """A process of the fork server, with what the launcher uses of ``subprocess.Popen``."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.exitcode

    def wait(self) -> None:
        """Wait for its end."""
        self._process.join()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()


class ForkingLauncher(Launcher):
    """The launcher, with forked ranks; it says their processes, which are not its children."""

    def _spawn(self, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        processes = multiprocessing.get_context("forkserver")
        process = processes.Process(target=be_rank, args=(list(self.command), variables))
        process.start()
        self.tell(f"rank {variables['RANK']} is process {process.pid}")
        found: Any = Forked(process)
        return found  # type: ignore[no-any-return]


def be_rank(arguments: list[str], variables: dict[str, str]) -> None:
    """Run the command as a rank."""
    from netweave.cli import main

    os.environ.update(variables)
    os.environ[LAUNCHED] = str(os.getppid())  # the fork server
    main(arguments)


def main() -> None:
    """Launch ranks of a command; the first arguments are the number of ranks and of restarts."""
    size, restarts, *arguments = sys.argv[1:]
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)

    def tell(text: str) -> None:
        print(f"netweave: {text}", file=sys.stderr, flush=True)

    sys.exit(ForkingLauncher(arguments, ["cpu"] * int(size), int(restarts), tell).run())


if __name__ == "__main__":
    main()
