"""Start of the workbench."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.web.options import DATA, FILE, LOOPBACK, RUNS, Options, make_data_folder, read_options
from netweave.web.supervised_processes import Part

if TYPE_CHECKING:
    from types import FrameType


# The parts hold the other end of a pipe: when this process ends, however it does, they end as well. A part
# that ends before is started again (``parts``). Nothing needs to be ended in order: what a worker had in
# hand is done again after the start (``work.leases``).

CHECK_SECONDS = 0.5
STATIC = "viewer/static/web.js"


def serve(
    data: Path,
    *,
    host: str,
    port: int,
    workers: int | None,
    runs: Path | None,
    ready: Callable[[str, Path], None],
) -> None:
    """Serve the workbench until Ctrl-C.

    Args:
        data: The data folder; it is made if it is not there.
        host: Address to listen at.
        port: Port to listen at.
        workers: Number of comparisons at the same time; None for the operator's choice.
        runs: Folder of training runs to show; None for the operator's choice.
        ready: Called once, when the workbench answers, with its address and the data folder.

    Raises:
        UsageError: The port is taken, the front end is not built, or the address is open to a network and
            nobody said under which names.
        ReadError: The operator's choices cannot be read.
        RunError: A part ends by itself, as soon as it is started, each time.
    """
    os.umask(0o077)  # database, uploads and results are the owner's, also in a folder that others may enter
    data = data.expanduser().resolve()
    options = read_options(data)
    _check(options, host, port)
    make_data_folder(data)
    environment = {**os.environ, DATA: str(data), "DJANGO_SETTINGS_MODULE": "netweave.web.settings"}
    if runs is not None:
        environment[RUNS] = str(runs.expanduser().resolve())
    os.environ.update(environment)
    _migrate()
    command = [sys.executable, "-m"]
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    server = [*command, "gunicorn", "--config", "python:netweave.web.gunicorn", "--bind", bind]
    numbers = range(1, 1 + (workers or options.workers))
    parts = [Part("the server", server)]
    parts += [Part(f"worker {number}", [*command, "netweave.web.work.worker"]) for number in numbers]
    with _until_signal() as stopped:
        _run(parts, stopped, lambda: _say_ready(host, port, data, ready))


def _check(options: Options, host: str, port: int) -> None:
    from importlib import resources

    if not resources.files("netweave").joinpath(STATIC).is_file():
        raise UsageError(
            "the front end is not built; run 'make frontend' in the clone of the repository (it needs Node "
            "20) and, if you installed Netweave from it, install it again"
        )
    if host not in LOOPBACK and host != "::1" and not options.hosts:
        raise UsageError(
            f"{host} can be reached from other machines: set their host names for it in "
            f"{options.data / FILE}, "
            'such as hosts = ["netweave.example.org"], and see docs/how-to/serve-a-team.md'
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --port"
            ) from error


def _migrate() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    from django.db import connections

    connections.close_all()


class _until_signal:  # noqa: N801 (a context manager, used as a word)
    """A context in which Ctrl-C and SIGTERM are a word that is asked for."""

    def __init__(self) -> None:
        self.stopped = False

    def __enter__(self) -> _until_signal:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True


def _run(parts: Sequence[Part], until: _until_signal, ready: Callable[[], bool]) -> None:
    said = False
    try:
        while not until.stopped:
            for part in parts:
                part.keep()
            said = said or ready()
            time.sleep(CHECK_SECONDS if said else 0.1)
    finally:
        for part in parts:
            part.end()


def _say_ready(host: str, port: int, data: Path, ready: Callable[[str, Path], None]) -> bool:
    """Say where the workbench is once it answers."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.settimeout(0.2)
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        if probe.connect_ex((reached, port)) != 0:
            return False
    ready(f"http://[{reached}]:{port}/" if ":" in reached else f"http://{reached}:{port}/", data)
    return True


DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def has_desktop() -> bool:
    """Return whether a browser would have a window.

    Without a desktop, Python would start a text browser in the terminal.
    """
    if os.environ.get("SSH_CONNECTION"):
        return False  # the window would be on the other machine, if anywhere
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in DISPLAYS)


def open_page(address: str) -> None:
    """Open an address, without waiting for the browser; that there is none is no error."""
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
