"""Copies of the examples for both sides, and running scripts in them."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.mxnet_scripts import symbols
from benchmarks.mxnet_scripts.arguments import ARGUMENTS, OUTSIDE
from benchmarks.mxnet_scripts.data import write_all

if TYPE_CHECKING:
    from benchmarks.mxnet_scripts.symbols import Network

IMPORT = re.compile(r"^(\s*)(import|from)(\s+)mxnet\b(?!\s*\()", re.MULTILINE)
COMPATIBILITY = Path(__file__).with_name("compat")
SOURCES = Path(__file__).parents[2] / "src"


PACKAGES = {"mxnet": "mxnet", "netweave": "netweave.mxnet"}
"""What each side imports."""


class Runner:
    """Runs scripts under MXNet and under Netweave.

    Args:
        scratch: An empty folder.
        pythons: The Python of each side, ``mxnet`` and ``netweave``.
        limit: Seconds for a script.
    """

    def __init__(self, scratch: Path, *, pythons: dict[str, str], limit: int) -> None:
        self._scratch, self._pythons, self._limit = scratch, pythons, limit
        self.folders: dict[str, Path] = {}
        write_all(scratch / "data")

    def add(self, folder: Path) -> None:
        """Add a release: a folder that holds ``example`` and, beside it, ``tests`` and ``tools``."""
        self.folders[folder.name] = folder

    def scripts(self) -> list[tuple[str, str]]:
        """Return the scripts that need no download, in Python 3, import MXNet and do something when run."""
        found = []
        for release, folder in self.folders.items():
            for path in sorted((folder / "example").rglob("*.py")):
                text = path.read_text(encoding="utf-8", errors="replace")
                name = str(path.relative_to(folder / "example"))
                outside = any(re.search(pattern, name) for pattern in OUTSIDE)
                if IMPORT.search(text) and acts(text) and not outside:
                    found.append((release, name))
        return found

    def lines(self, release: str, script: str) -> int:
        """Return how many lines of a script are changed."""
        path = self.folders[release] / "example" / script
        return len(IMPORT.findall(path.read_text(encoding="utf-8", errors="replace")))

    def script(self, side: str, release: str, script: str) -> str:
        """Return how a script ends: ``ends``, ``runs`` (until the limit), or the last line of its error."""
        path = self._copy(side, release) / "example" / script
        return self._run(
            side, path.parent, [path.name, *shlex.split(ARGUMENTS.get(script, ""))], limit=self._limit
        )

    def symbol(self, network: Network) -> dict[str, object]:
        """Return how a network runs on both sides, how long, and how its numbers compare.

        One of 16 bits, which MXNet computes on GPUs only, runs here as it is, and on both sides in 64 bits.
        """
        row: dict[str, object] = {}
        if network.is_half:
            row["netweave in 16 bits"] = self._network("netweave", network, widen=False)
        for side in PACKAGES:
            before = _processor_seconds()
            row[side] = self._network(side, network, widen=network.is_half)
            row[f"{side} processor_s"] = round(_processor_seconds() - before, 1)
        files = {side: self._numbers(side) for side in PACKAGES}
        if all(file.exists() for file in files.values()):
            row["numbers"] = symbols.compared(files["netweave"], files["mxnet"])
        return row

    def _network(self, side: str, network: Network, *, widen: bool) -> str:
        folder = self._copy(side, network.release) / "example" / Path(network.script).parent
        out = self._numbers(side)
        out.unlink(missing_ok=True)
        settings = symbols.settings(network, package=PACKAGES[side], folder=folder, out=out, widen=widen)
        return self._run(side, folder.parent, ["-m", "network_step", settings], limit=4 * self._limit)

    def _numbers(self, side: str) -> Path:
        return self._scratch / f"{side}.npz"

    def _copy(self, side: str, release: str) -> Path:
        target = self._scratch / side / release
        if not target.exists():
            shutil.copytree(self.folders[release], target, symlinks=True)
            for path in target.rglob("*.py"):
                text = path.read_text(encoding="utf-8", errors="replace")
                # this machine may have no GPU: both sides compute on the CPU
                text = re.sub(r"\b(mx|context)\.gpu\(", r"\1.cpu(", text)
                path.write_text(changed(text) if side == "netweave" else text, encoding="utf-8")
        return target

    def _run(self, side: str, folder: Path, arguments: list[str], *, limit: int) -> str:
        for place in (folder, folder / "data", folder.parent / "data"):
            if not (place / "rt-polaritydata").exists():
                shutil.copytree(self._scratch / "data", place, dirs_exist_ok=True)
        path = [str(COMPATIBILITY)] + ([str(SOURCES)] if side == "netweave" else [])
        environment = {
            **os.environ,
            "MPLBACKEND": "Agg",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(path),
            "GENERATED_DATA": str(self._scratch / "data"),
            "HOME": str(self._scratch),
            "MXNET_CUDNN_AUTOTUNE_DEFAULT": "0",
        }
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [self._pythons[side], *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                return "runs"
            finally:
                _end(process)
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        return "ends" if status == 0 else self._cause(status, text)

    def _cause(self, status: int, text: str) -> str:
        """Return the last line of an error, without this machine's folders."""
        lines = text.strip().splitlines() or [f"status {status}"]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
        line = (errors or lines)[-1].replace(str(self._scratch), "")
        return re.sub(r"(?<![\w.])(?:/[\w.+-]+){2,}/([\w.+-]+)", r"\1", line)[:300]


def _processor_seconds() -> float:
    """Return what all programs that have ended have used of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a script with the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def changed(text: str) -> str:
    """Return a script with ``mxnet`` replaced in its import lines."""
    text = re.sub(r"^(\s*)import\s+mxnet\s*$", r"\1import netweave.mxnet as mxnet", text, flags=re.MULTILINE)
    # a plain import of a submodule binds the package's name, too
    both = r"\1import netweave.\2; import netweave.mxnet as mxnet"
    text = re.sub(r"^(\s*)import\s+(mxnet\.[\w.]+)\s*$", both, text, flags=re.MULTILINE)
    return IMPORT.sub(r"\1\2\3netweave.mxnet", text)


def acts(text: str) -> bool:
    r"""Return whether a file does something when it is run: a script and not a module of definitions.

    >>> acts("import mxnet as mx\ndef f(): pass")
    False
    >>> acts("import mxnet as mx\nfor k in range(3): print(mx.nd.ones(k))")
    True
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    loops = any(isinstance(one, ast.For | ast.While | ast.With) for one in body)
    return (
        "__main__" in text or loops or bool(re.search(r"^\w.*\.(fit|forward)\(|^print\(", text, re.MULTILINE))
    )
