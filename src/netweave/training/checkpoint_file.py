"""Checkpoint files."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, WeightError
from netweave.files.decompression_limit import check_expansion
from netweave.files.json_text import checked, parse_json
from netweave.files.npy import parse_npy
from netweave.files.output_files import finish_all_moves, write_file, writing
from netweave.files.zipped import read_member, zip_errors

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.optim import Updater
    from netweave.training.parallel.plan import ExchangeSettings


# A line that says what it is, a line that says which run wrote it, a line with the SHA-256 of that and of
# all that follows, then a zip of ``state.json`` and ``.npy`` arrays.
#
# A folder may hold checkpoints of several runs under one prefix. Which is the latest is said by the
# generation of its run, not by its iteration (docs/decisions/0150).

MAGIC = b"netweave checkpoint 2\n"
MAGIC_WITHOUT_ORIGIN = b"netweave checkpoint 1\n"
SUFFIX = ".checkpoint"

RESUME_IF_ANY = "auto"
"""Asks for a run that goes on from the latest checkpoint, or begins where there is none yet."""

STATE = "state.json"
"""The member that holds the values that are no arrays."""

_ORIGIN = re.compile(rb"(?P<run>[!-~]+) (?P<generation>\d{1,18})")


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that wrote a checkpoint.

    Attributes:
        run: Name of the run; a run that is resumed keeps it. Empty where nobody says.
        generation: Of the start of the process that wrote it: higher than those of all checkpoints that were
            there before, so that the latest is known without a clock.
    """

    run: str = ""
    generation: int = 0

    def encode(self) -> bytes:
        """Return a line of the header; it has a checksum of its own, as it is read without the rest."""
        text = f"{self.run or '-'} {self.generation}".encode()
        return b"%s %08x\n" % (text, zlib.crc32(text))

    @classmethod
    def decode(cls, line: bytes, place: str) -> Origin:
        """Return what a line says.

        Raises:
            ReadError: The line is damaged.
        """
        text, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x\n" % zlib.crc32(text):
            raise ReadError("is damaged: the checksum of its header does not match", place=place)
        match = _ORIGIN.fullmatch(text)
        if match is None:
            raise ReadError(f"is damaged: its header says {text!r:.60}", place=place)
        run = match["run"].decode()
        return cls("" if run == "-" else run, int(match["generation"]))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that the rest of a run depends on.

    Attributes:
        state: JSON values.
        arrays: Arrays by name.
        origin: The run that wrote it.
    """

    state: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    origin: Origin = Origin()


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint; equal ones for equal checkpoints."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(_entry(STATE), json.dumps(checkpoint.state))
        for name, array in checkpoint.arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
    origin, body = checkpoint.origin.encode(), content.getvalue()
    return MAGIC + origin + _digest(origin, body) + body


def _digest(origin: bytes, body: bytes) -> bytes:
    digest = hashlib.sha256(origin)
    digest.update(body)
    return digest.hexdigest().encode() + b"\n"


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        WriteError: It cannot be written; what was there before is still there.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, encode(checkpoint))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        ReadError: The file is missing, is no checkpoint, or is not as it was written.
    """
    place = str(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=place) from error
    header = io.BytesIO(content)
    origin_line = _origin_line(header, place)
    digest = header.readline()
    body = content[header.tell() :]
    if _digest(origin_line, body) != digest:
        raise ReadError("is damaged: its checksum does not match; use an earlier one", place=place)
    origin = Origin.decode(origin_line, place) if origin_line else Origin()
    with zip_errors(place, "a complete checkpoint"), zipfile.ZipFile(io.BytesIO(body)) as archive:
        check_expansion(sum(member.file_size for member in archive.infolist()), len(body), place=place)
        arrays = {
            name.removesuffix(".npy"): parse_npy(read_member(archive, name), place=f"{place}: {name!r:.200}")
            for name in archive.namelist()
            if name.endswith(".npy")
        }
        state = parse_json(read_member(archive, STATE), file=f"{place}: {STATE}", allow_nan=True)
    return Checkpoint(checked(state, dict, what="its state", place=place), arrays, origin)


def read_origin(path: Path) -> Origin:
    """Read only which run wrote a checkpoint; the rest of the file is not checked.

    Raises:
        ReadError: The file is missing, is no checkpoint, or its header is damaged.
    """
    try:
        with path.open("rb") as file:
            line = _origin_line(file, str(path))
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=str(path)) from error
    return Origin.decode(line, str(path)) if line else Origin()


def _origin_line(file: IO[bytes], place: str) -> bytes:
    """Read a header up to the line of the origin, and return that; empty where the version has none."""
    magic = file.readline()
    if magic == MAGIC:
        return file.readline()
    if magic == MAGIC_WITHOUT_ORIGIN:
        return b""
    raise ReadError("is not a Netweave checkpoint, or its header is damaged", place=place)


def parameters_in(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Return what a checkpoint has for a net, by key; what only one of them has is left alone.

    Raises:
        ReadError: The file is missing, is no checkpoint, or is not as it was written.
        WeightError: An array is of another size than in the net.
    """
    known = graph.parameters
    arrays = {key: array for key, array in nested(read_checkpoint(path).arrays, "param") if key in known}
    for key, array in arrays.items():
        if array.shape != known[key].shape:
            raise WeightError(
                f"its {key} is {array.shape}, that of the net {known[key].shape}", place=str(path)
            )
    return arrays


def checkpoint_path(prefix: str, iteration: int) -> Path:
    """Return the name of the checkpoint of an iteration."""
    return Path(f"{prefix}_iter_{iteration}{SUFFIX}")


def kept(prefix: str) -> list[tuple[int, Path]]:
    """Return the checkpoints that are there, of any run, with their iterations, highest first."""
    start = Path(f"{prefix}_iter_")
    finish_all_moves(start)
    pattern = re.compile(re.escape(start.name) + r"(\d+)" + re.escape(SUFFIX))
    matches = ((pattern.fullmatch(path.name), path) for path in start.parent.glob(f"*{SUFFIX}"))
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def _by_age(prefix: str, tell: Callable[[ReadError], None]) -> list[tuple[Origin, Path]]:
    """Return the checkpoints whose origin can be read, latest first; tell of the others."""
    rows = []
    for iteration, path in kept(prefix):
        try:
            origin = read_origin(path)
        except ReadError as error:
            tell(error)
        else:
            rows.append((origin.generation, iteration, origin, path))
    return [(origin, path) for _, _, origin, path in sorted(rows, key=lambda row: row[:2], reverse=True)]


def last_generation(prefix: str) -> int:
    """Return the highest generation of the checkpoints that are there; 0 if there are none."""
    return max((origin.generation for origin, _ in _by_age(prefix, lambda error: None)), default=0)


def latest(
    prefix: str,
    tell: Callable[[str], None] = lambda text: None,
    accepts: Callable[[Origin], bool] = lambda origin: True,
) -> tuple[Path, Checkpoint] | None:
    """Return the latest checkpoint that is whole; None if there is none at all.

    The latest is that of the run that was started last, whatever the iterations of earlier runs.

    Args:
        prefix: Of the names of its files.
        tell: Told of each damaged one that is passed over.
        accepts: Says whether a checkpoint of such an origin will do.

    Raises:
        ReadError: All of them are damaged.
    """
    damaged: list[ReadError] = []

    def pass_over(error: ReadError) -> None:
        tell(str(error))
        damaged.append(error)

    for origin, path in _by_age(prefix, pass_over):
        if not accepts(origin):
            continue
        try:
            return path, read_checkpoint(path)
        except ReadError as error:
            pass_over(error)
    if damaged:
        raise damaged[-1]
    return None


def prune(prefix: str, most: int, run: str) -> None:
    """Remove all but the latest checkpoints of a run; those of other runs stay."""
    own = [path for origin, path in _by_age(prefix, lambda error: None) if origin.run == run]
    for path in own[most:]:
        path.unlink(missing_ok=True)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def nested(arrays: Mapping[str, np.ndarray], group: str) -> Iterator[tuple[str, np.ndarray]]:
    """Give the arrays of a group, ``group:name``, by their own names."""
    for name, array in arrays.items():
        head, _, rest = name.partition(":")
        if head == group:
            yield rest, array


# A checksum says that a file is as it was written, not that Netweave wrote it: whoever makes a checkpoint
# can give it a right checksum. Sizes of parameters and of the solver's state are compared with the net's
# where they are restored (``TrainState.restore``); here are types, signs and ranges.

MAX_COUNT = 1 << 53
"""More iterations, batches and points than any run has; JSON of other programs is exact up to here."""

MAX_SEED = 1 << 64

_KINDS = "fiub"


def read_run(path: Path) -> Checkpoint:
    """Read a checkpoint that a run resumes from.

    Raises:
        ReadError: It is missing, damaged, or holds what no run writes.
    """
    checkpoint = read_checkpoint(path)
    require_values(checkpoint, place=str(path))
    return checkpoint


def require_values(checkpoint: Checkpoint, *, place: str) -> None:
    """Check the values of a checkpoint of a run.

    Args:
        checkpoint: As it was read.
        place: Its file, for messages.

    Raises:
        ReadError: A value is missing, of another type, or out of its range.
    """
    state = _Values(checkpoint.state, place)
    seed = state.whole("seed", limit=MAX_SEED)
    if seed <= -MAX_SEED:
        raise state.error("seed", seed, "a number of 64 bits")
    state.numbers("losses")
    if "displayed batches" in checkpoint.state:
        state.count("displayed batches")
    solver = state.inside("solver")
    solver.count("iteration")
    for name in ("policy", "memory"):
        inner = solver.inside(name)
        for key in inner.values:
            inner.number(key)
    feeds = state.inside("feeds")
    for name in feeds.values:
        for row in feeds.rows(name):
            row.count("batch")
    _require_history(state.inside("history"))
    _require_kernels(state)
    if checkpoint.state.get("layout"):
        state.inside("layout").count("slice_elements", least=1)
    for name, array in checkpoint.arrays.items():
        _require_numbers(array, name, place)


def _require_kernels(state: _Values) -> None:
    for rank in state.rows("kernels") if "kernels" in state.values else []:
        for question in rank.values:
            rank.of(question, str)


def _require_history(history: _Values) -> None:
    for name in history.of("losses", list):
        if not isinstance(name, str):
            raise history.error("losses", name, "names of curves")
    curves = history.inside("curves")
    for name in curves.values:
        curve = curves.inside(name)
        points = curve.of("points", list)
        last = curve.values.get("last")
        for point in points if last is None else [*points, last]:
            if not _is_point(point):
                raise curve.error("points", point, "an iteration and a value")
        curve.count("stride", least=1)
        curve.count("count")
        if last is not None and not points:
            raise curve.error("points", points, "the first point of a curve that has a last")


def _require_numbers(array: np.ndarray, name: str, place: str) -> None:
    dtype = array.dtype
    if dtype.kind not in _KINDS or not dtype.isnative or dtype.itemsize > 8:
        raise ReadError(f"{name!r:.200} is an array of {dtype!s:.60}, expected numbers", place=place)


class _Values:
    """The values of an object by key, and where it stands in the checkpoint.

    Args:
        values: The object.
        place: The checkpoint.
        path: Keys that lead to the object.
    """

    def __init__(self, values: Mapping[str, Any], place: str, path: str = "") -> None:
        self.values = values
        self._place, self._path = place, path

    def error(self, key: str, value: Any, expected: str) -> ReadError:
        """Return the error for a value."""
        return ReadError(
            f"is no checkpoint of Netweave, or damaged: {self._path + key!r:.200} is {value!r:.60}, "
            f"expected {expected}",
            place=self._place,
        )

    def of(self, key: str, kind: type[Any]) -> Any:
        """Return a value of a type."""
        if key not in self.values:
            missing = f"{self._path + key!r:.200}"
            raise ReadError(f"is no checkpoint of Netweave: has no {missing}", place=self._place)
        return checked(self.values[key], kind, what=f"{self._path + key!r:.200}", place=self._place)

    def inside(self, key: str) -> _Values:
        """Return the values of an object."""
        return _Values(self.of(key, dict), self._place, f"{self._path}{key}.")

    def rows(self, key: str) -> list[_Values]:
        """Return the objects of a list."""
        rows = self.of(key, list)
        for row in rows:
            if not isinstance(row, Mapping):
                raise self.error(key, row, "an object")
        return [_Values(row, self._place, f"{self._path}{key}.") for row in rows]

    def whole(self, key: str, *, limit: int = MAX_COUNT) -> int:
        """Return a whole number below a limit."""
        number: int = self.of(key, int)
        if number >= limit:
            raise self.error(key, number, f"less than {limit:,}")
        return number

    def count(self, key: str, *, least: int = 0) -> int:
        """Return a number of things."""
        number = self.whole(key)
        if number < least:
            raise self.error(key, number, f"at least {least}")
        return number

    def number(self, key: str) -> float:
        """Return a number."""
        if not _is_number(self.values[key]):
            raise self.error(key, self.values[key], "a number")
        return float(self.values[key])

    def numbers(self, key: str) -> None:
        """Check a list of numbers."""
        for number in self.of(key, list):
            if not _is_number(number):
                raise self.error(key, number, "a number")


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and abs(value) < MAX_SEED and not isinstance(value, bool)
    )


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and _is_number(value[1])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT


# Ranks with other settings would begin other collectives: they would wait for each other until the timeout,
# or sum what does not belong together.


def exchange_in_common(settings: ExchangeSettings) -> dict[str, Any]:
    """Return how gradients are exchanged: groups are made by it, so it is compared before there are any."""
    return {f"the exchange's {name}": value for name, value in asdict(settings).items()}


def run_in_common(
    job: Job, *, seed: int, num_stages: int, num_batches: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return what a run does and when, as JSON values by what they are called in messages.

    Where files lie may differ from machine to machine, so paths are not among them.

    Args:
        job: The Job, with this run's batch.
        seed: Of what is drawn; ranks with different ones would shuffle records differently.
        num_stages: Stages of the training net.
        num_batches: Batches in an epoch, by phase.
    """
    schedule, checkpoints, solver = asdict(job.schedule), job.checkpoints, job.solver
    settings: dict[str, Any] = {name.replace("_", " "): value for name, value in schedule.items()}
    settings |= {f"the solver's {name}": value for name, value in solver.settings.items()}
    settings |= {f"the policy's {name}": repr(value) for name, value in asdict(solver.policy).items()}
    settings |= {
        "the seed": seed,
        "the solver": solver.kind,
        "batches in an update": solver.accumulate,
        "iterations between checkpoints": checkpoints.interval,
        "a checkpoint at the end": checkpoints.at_end,
        "stages": num_stages,
    }
    for name, phase in job.phases.items():
        settings |= {
            f"records in a batch of {name}": [source.batch_size for source in phase.data],
            f"the order of records of {name}": repr([sorted(source.order.items()) for source in phase.data]),
            f"batches of a pass of {name}": phase.num_batches,
            f"batches in an epoch of {name}": num_batches[name],
        }
    return settings


def values_in_common(
    nets: Mapping[str, TorchNet], updater: Updater, is_shared: Callable[[str], bool] = lambda key: True
) -> dict[str, Any]:
    """Return fingerprints of what the nets hold, by what they are called in messages.

    Args:
        nets: The nets.
        updater: The updater.
        is_shared: Returns whether all ranks have the same array, by key.
    """
    shapes, values = hashlib.sha256(), hashlib.sha256()
    for net in nets.values():
        for key, tensor in sorted(net.params.items()):
            if not is_shared(key):
                continue
            shapes.update(f"{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
            values.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    slices = [spans for spans in updater.layout.slices if is_shared(spans[0].key)]
    layout = hashlib.sha256(repr((slices, updater.rule)).encode())
    prints = {"a net": shapes, "slices": layout, "parameters": values}
    return {f"{what} with the fingerprint": digest.hexdigest()[:12] for what, digest in prints.items()} | {
        "the iteration": updater.iteration
    }
