"""Options of the operator of a workbench; every one has a default that needs no set-up.

They stand in ``settings.toml`` in the data folder. The database's address is a secret and comes from the
environment (``DATABASE_URL``), as hosts of programs give it.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netweave.errors import ReadError, UsageError

DATA = "NETWEAVE_DATA"
"""The variable that tells the server and its workers where the data folder is."""

RUNS = "NETWEAVE_RUNS"
"""The variable that tells them of a folder of training runs named on the command line."""

FILE = "settings.toml"

SECRET_KEY_FILE = "secret-key"
"""In the data folder: what cookies are signed with."""

MAY_BE_ZERO = ("keep_days", "max_running")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names under which a workbench is reached on its own machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices.

    Attributes:
        data: The data folder: database, uploads, results, the secret key.
        hosts: Names under which the workbench is reached, besides those of its own machine.
        https: Whether browsers reach it by HTTPS, at a proxy before it.
        proxy: Whether a proxy before it sets ``X-Forwarded-For`` and ``X-Forwarded-Proto``.
        accounts: ``off``: without hosts one user, else every browser is its own; ``closed``: accounts
            made by the operator; ``open``: anybody signs up.
        code: Whether files that are code may be read, in the guarded process.
        storage: Where uploads and results lie: empty for the data folder, or ``s3://bucket/prefix``.
        runs: The folder of training runs to show; empty for none.
        training: The folder of data that trainings started from the page may read; empty: none are started.
        max_trainings: Trainings that are started from the page and run at the same time.
        workers: Number of comparisons that run at the same time, >= 1.
        max_seconds: Longest time of a comparison.
        max_running: Jobs of one user that run at the same time; 0 for one less than there are workers.
        max_waiting: Comparisons of one user that wait or run.
        max_memory_mb: Memory of a comparison, in MiB.
        max_file_mb: Size of an uploaded file, in MiB.
        max_total_mb: Size of all uploads of one user, in MiB.
        max_files: Files of one net.
        keep_days: Days after its last use that a net's files are deleted; 0 keeps them. Results stay.
        uploads_per_minute: Files that one user may upload in a minute.
        comparisons_per_minute: Comparisons that one user may start in a minute.
        sign_ins_per_minute: Tries to sign in, from one address, in a minute.
        nets_per_minute: Nets that one user may make in a minute.
        newcomers_per_minute: Browsers without an account that one address may bring in a minute.
    """

    data: Path
    hosts: tuple[str, ...] = ()
    https: bool = False
    proxy: bool = False
    accounts: str = "off"
    code: bool = False
    storage: str = ""
    runs: str = ""
    training: str = ""
    max_trainings: int = 1
    workers: int = max(1, min(4, os.cpu_count() or 1))
    max_seconds: float = 600.0
    max_running: int = 0
    max_waiting: int = 100
    max_memory_mb: int = 8192
    max_file_mb: int = 2048
    max_total_mb: int = 16384
    max_files: int = 32
    keep_days: float = 0.0
    uploads_per_minute: int = 120
    comparisons_per_minute: int = 30
    sign_ins_per_minute: int = 10
    nets_per_minute: int = 120
    newcomers_per_minute: int = 120

    @property
    def has_accounts(self) -> bool:
        """True if users sign in."""
        return self.accounts != "off"

    @property
    def running_limit(self) -> int:
        """Jobs of one user that run at the same time: where others come, a worker stays free for them."""
        if self.max_running or self.is_personal:
            return self.max_running or self.workers
        return max(1, self.workers - 1)

    @property
    def is_personal(self) -> bool:
        """True if the workbench is one person's, on their own machine (decision 0148)."""
        return not self.has_accounts and not self.hosts

    @property
    def asks_for_code(self) -> bool:
        """True if a button of the pages allows files that are code (decision 0181)."""
        return self.is_personal and not self.code


def default_data() -> Path:
    """Return the data folder of a user who names none."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "netweave"


def read_options(data: Path) -> Options:
    """Read the choices that stand in a data folder.

    Raises:
        ReadError: The file is no TOML, or has an unknown name or a value of another kind.
    """
    file = data / FILE
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as error:
        raise ReadError(f"is not valid TOML: {error}", place=str(file)) from error
    fields = {field.name: field for field in dataclasses.fields(Options) if field.name != "data"}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ReadError(
            f"has unknown settings: {', '.join(unknown)}; expected {', '.join(fields)}", place=str(file)
        )
    checked = {name: _checked(name, value, fields[name].default, file) for name, value in values.items()}
    return Options(data=data, **checked)


def make_data_folder(data: Path) -> None:
    """Make the data folder, for its owner only, and the secret key in it, if they are not there.

    Raises:
        UsageError: The folder cannot be made or written to.
    """
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(data / SECRET_KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:  # noqa: PTH123
            made.write(secrets.token_urlsafe(48))
    except FileExistsError:
        if data.is_dir():
            return
        raise UsageError(f"{data} is a file, expected a folder for the data of the workbench") from None
    except OSError as error:
        raise UsageError(f"{data}: cannot write to the data folder: {error.strerror}") from error


def _checked(name: str, value: Any, default: Any, file: Path) -> Any:
    if isinstance(default, tuple):
        value = tuple(value) if isinstance(value, list) else value
    elif isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise ReadError(f"{name} is {value!r}, expected a value such as {default!r}", place=str(file))
    if name == "accounts" and value not in {"off", "closed", "open"}:
        raise ReadError(f"accounts is {value!r}, expected 'off', 'closed' or 'open'", place=str(file))
    if type(value) in {int, float} and (value < 0 or (value == 0 and name not in MAY_BE_ZERO)):
        raise ReadError(f"{name} is {value!r}, expected more than 0", place=str(file))
    return value
