"""Nodes of a slow network on this machine: network namespaces joined by a link of a given rate.

::

    python -m benchmarks parallel.network --rate 200mbit    # makes two nodes, says how to use them, waits
    python -m benchmarks parallel.network --remove          # removes what killed runs have left

Needs root, and ``ip`` and ``tc`` of iproute2. Two namespaces stand for two machines; a veth pair is the cable
between them, and ``tc tbf`` (a token bucket) at each end lets through so many bits per second and way. Inside
a namespace the loopback is as fast as ever. Everything is removed at the end, also after an error or a
signal; what a SIGKILL leaves behind is removed by the next run, as names carry the process that made them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import Namespace, Record, option

PREFIX = "nwbench"

BURST_BYTES = 256 * 1024
"""More than a packet before segmentation (64 KB): ``tbf`` would cut larger ones itself, on our processors."""

QUEUE = "50ms"
"""Longest that a packet waits for tokens, as in the buffer of a switch."""


@dataclass(frozen=True)
class Node:
    """A machine of the network.

    Attributes:
        namespace: Its name.
        device: Its end of the cable.
        address: Its IP address.
    """

    namespace: str
    device: str
    address: str

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one on this node."""
        return ["ip", "netns", "exec", self.namespace, *command]

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a rank on this node."""
        return {
            "GLOO_SOCKET_IFNAME": self.device,
            "TP_SOCKET_IFNAME": self.device,
            "NETWEAVE_MACHINE": self.namespace,
        }


def require_root() -> None:
    """End with a message unless this process may make networks."""
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if os.geteuid() or missing:
        reason = f"{' and '.join(missing)} not found, install iproute2" if missing else "not root"
        raise SystemExit(f"network namespaces and tc tbf need root and iproute2: {reason}")


@contextlib.contextmanager
def network(rate: str) -> Iterator[tuple[Node, Node]]:
    """Give two nodes with a link of this rate between them, such as ``1gbit``; remove them at the end."""
    require_root()
    remove_leftovers()
    own = f"{PREFIX}{os.getpid()}"
    nodes = tuple(Node(f"{own}-{end}", f"veth{end}", f"10.77.0.{end + 1}") for end in range(2))
    try:
        with _signals_as_exits():
            _make(own, nodes, rate)
            yield nodes[0], nodes[1]
    finally:
        remove([node.namespace for node in nodes])


def _make(own: str, nodes: Sequence[Node], rate: str) -> None:
    for node in nodes:
        _ip("netns", "add", node.namespace)
    first, second = nodes
    _ip(
        *("link", "add", first.device, "netns", first.namespace, "type", "veth"),
        *("peer", "name", second.device, "netns", second.namespace),
    )
    for node in nodes:
        _ip("-n", node.namespace, "link", "set", "lo", "up")
        _ip("-n", node.namespace, "addr", "add", f"{node.address}/24", "dev", node.device)
        _ip("-n", node.namespace, "link", "set", node.device, "up")
        _run(
            *("tc", "-n", node.namespace, "qdisc", "add", "dev", node.device, "root", "tbf"),
            *("rate", rate, "burst", str(BURST_BYTES), "latency", QUEUE),
        )


def remove(namespaces: Sequence[str]) -> None:
    """Remove namespaces, with their devices, and end what still runs in them."""
    known = existing()
    for name in namespaces:
        if name not in known:
            continue
        pids = subprocess.run(
            ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
        ).stdout
        for pid in pids.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", name], check=False)


def existing() -> list[str]:
    """Return the names of the namespaces that runs of this script have made."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if re.match(rf"{PREFIX}\d+-\d", line.split()[0])]


def remove_leftovers() -> None:
    """Remove the namespaces of runs whose process is gone."""
    gone = [
        name
        for name in existing()
        if not Path(f"/proc/{name.removeprefix(PREFIX).partition('-')[0]}").exists()
    ]
    remove(gone)


@contextlib.contextmanager
def _signals_as_exits() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, as Ctrl-C does."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")


OPTIONS = (
    option("--rate", default="1gbit", help="as tc takes it: 1gbit, 200mbit"),
    option("--remove", default=False),
)


def main(options: Namespace, record: Record) -> None:
    """Make a network and wait, or remove what is left of others; see the head of the file."""
    require_root()
    if options.remove:
        remove_leftovers()
        return
    with network(options.rate) as nodes, contextlib.suppress(KeyboardInterrupt):
        for node in nodes:
            print(f"{node.address}: {' '.join(node.command(['COMMAND']))}")
        print("Ctrl-C removes them", flush=True)
        signal.pause()
