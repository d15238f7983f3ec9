"""The process that touches the files: it reads nets and compares them, under limits.

It knows no database, no settings and no user; it is given folders and says what it does over a pipe. Its
worker ends it when time is out, when the job is cancelled, and by its own end.
"""

from __future__ import annotations

import base64
import gc
import json
import math
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from netweave import api, viewer
from netweave.errors import MAX_MESSAGE, CodeError, NetweaveError, SourceError, UsageError, shortened
from netweave.web import chosen_options

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from netweave.api import Comparison, Graph, SortedParts
    from netweave.comparison import Finding

MAX_FIXES = 100
"""Findings whose fix can be applied alone; more are applied all at once."""

MAX_CHANGED_BYTES = 8 << 20
"""A mended model that differs in more bytes from the one that was uploaded is not kept."""

COMPARED_BYTES = 1 << 20
"""Bytes of two files that are compared at once."""

TIMED_PASSES = 3
"""Forward passes that the time of layers is the mean of, after one to warm up."""

ALLOW_CODE = "which you have not allowed yet: press Read files with code, or export the net to ONNX"
"""How a message about code ends where a button of the pages allows it."""

FORKED = multiprocessing.get_context("fork")
"""Draws nets of thousands of nodes, which would take as long to hand over as to draw."""

MAX_OPEN_FILE_BYTES = 8 << 30

NET = "net-{}.json"
"""Name of the file of a net, by its number among those found."""

RESULT, DOCUMENT, FACTS = "result.json", "document.json", "facts.json"
VERDICT = "verdict.json"
FIXES = "fixes.json"
ARRAY = "array.npy"
"""Files that it leaves in its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The work of a child process.

    Attributes:
        folder: Where it writes; the files of a net lie in a folder of their own in it.
        nets: One net to read, or two to compare: names of their folders.
        read: The numbers of the two among the nets that the same child has read before; empty to read them.
        arrived: Names of the files of the one net in the order in which they came.
        stays: Whether the child waits afterwards for a request to compare what it has read.
        input_shapes: For each net, the sizes that the user gave.
        entries: For each net, the class or function that makes it, if the user named one.
        settings: Of the comparison (``web.chosen_options``).
        own_input: The file of inputs to run on; None for drawn ones.
        array: Key of the one stored array of a net that is wanted; None where the net is to be shown.
        code: Whether files that are code may be read.
        asks_for_code: Whether a button of the pages allows them.
        memory_bytes: Memory that it may take.
        unpacked_bytes: What an uploaded archive may unpack to.
    """

    folder: Path
    nets: tuple[str, ...]
    read: tuple[int, ...] = ()
    arrived: tuple[str, ...] = ()
    stays: bool = False
    input_shapes: tuple[Mapping[str, Sequence[int]], ...]
    entries: tuple[str, ...]
    settings: Mapping[str, Any]
    own_input: Path | None = None
    array: str | None = None
    code: bool
    asks_for_code: bool = False
    memory_bytes: int
    unpacked_bytes: int


def work(request: Request, told: Connection) -> None:
    """Carry out a request, and a second one on what the first has read if it ``stays``.

    The last thing said of each is ``("done", "")`` or ``("failed", why)``, with what the pages offer to do
    about it: ``open_inputs`` are the inputs whose sizes are missing, ``needs_code`` says that only code is
    not allowed.
    """
    _set_up_process(request)
    with suppress(BrokenPipeError, EOFError):  # the worker has lost the job, and nobody waits for the answer
        read = answer(request, told)
        if request.stays and read is not None:  # its worker ends it if it is not needed
            answer(told.recv(), told, read)


def _set_up_process(request: Request) -> None:
    gc.disable()  # this process ends with what it makes, and cycles that became garbage go with it
    os.setpgid(0, 0)  # ``supervise`` ends it with all processes that it has started
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _keep_scratch_in(request.folder)
    _limit(request.memory_bytes)


def answer(request: Request, told: Connection, read: _Read | None = None) -> _Read | None:
    """Carry out a request in this process, say how it ended, and return the nets that it has read.

    Args:
        request: What to do.
        told: Where it is said.
        read: The nets that an earlier request has read, in the same folder.
    """
    nets: _Read | None = None
    try:
        nets = _carry_out(request, told, read)
        told.send(("done", ""))
    except NetweaveError as error:
        text = str(error).replace("--input-shape ", "")  # a page has a field for them, not an option
        needs_code = isinstance(error, CodeError) and not request.code
        if needs_code and request.asks_for_code:
            text = text.replace(api.CODE_NOT_ALLOWED, ALLOW_CODE)
        open_inputs = error.open_inputs if isinstance(error, SourceError) else ()
        facts = {"open_inputs": list(open_inputs), "needs_code": needs_code}
        told.send(("failed", _without_folders(text, request.folder), facts))
    except MemoryError:
        told.send(("failed", _too_large(request)))
    except Exception as error:  # noqa: BLE001 (whatever a file brings about, the user is told, and the job ends)
        text = _too_large(request) if "bad_alloc" in str(error) else f"{type(error).__name__}: {error}"
        told.send(("failed", _without_folders(shortened(text, MAX_MESSAGE), request.folder)))
    return nets


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)


def _keep_scratch_in(folder: Path) -> None:
    """Have all temporary files made in the job's folder, which goes however this process ends."""
    scratch = folder / "scratch"
    scratch.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)


def _limit(memory_bytes: int) -> None:
    # the soft limits only: the guard around code sets its own, which may not be above the hard ones
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_OPEN_FILE_BYTES, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _carry_out(request: Request, told: Connection, read: _Read | None) -> _Read | None:
    if len(request.nets) == 1:
        return _read(request, told)
    if read is not None:
        if read.ahead is None or not read.ahead.answer(request, told):
            _compare(request, told, [read.graphs[number] for number in request.read])
        return None
    reading = {name: request.settings[name] for name in chosen_options.READ if name in request.settings}
    graphs = []
    for number, letter in enumerate("AB"):
        told.send(("stage", f"reading net {letter}"))
        graphs.append(api.load_parts(**_parts(request, number), **reading))
    _compare(request, told, graphs)
    return None


def _read(request: Request, told: Connection) -> _Read | None:
    """Read what is to be shown, and return it."""
    told.send(("stage", "reading"))
    parts = api.sort_parts(**_parts(request, 0))
    nets = [net for net, _ in parts.nets]
    if request.array is not None:
        _write_array(request, nets[0], request.array)
        return None
    _write(request, FACTS, _facts_of_all(parts))
    told.send(("stage", "drawing"))
    if not request.stays or len(nets) != 2 or parts.unread:
        _draw(request, nets)
        return _Read(nets)
    drawing = FORKED.Process(target=_draw, args=(request, nets))
    drawing.start()
    read = _Read(nets, _Ahead(request, nets, _in_order_of_arrival(parts, request.arrived)))
    drawing.join()
    if drawing.exitcode:
        _draw(request, nets)  # which says what is wrong
    return read


def _draw(request: Request, nets: Sequence[Graph]) -> None:
    for number, net in enumerate(nets):
        _write(request, NET.format(number), viewer.net_document(net))


def _in_order_of_arrival(parts: SortedParts, arrived: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the nets in the order in which the first file of each came, as the pages do."""
    place = {name: number for number, name in enumerate(arrived)}
    first = [min(place.get(file.name, len(place)) for file in files) for _, files in parts.nets]
    return tuple(sorted(range(len(first)), key=first.__getitem__))


@dataclass(frozen=True, slots=True)
class _Read:
    """The nets that were read.

    Attributes:
        graphs: The nets.
        ahead: The comparison of two of them, which was begun before it was asked for.
    """

    graphs: Sequence[Graph]
    ahead: _Ahead | None = None


class _AbandonedError(BaseException):
    """Nobody wants to know any more; no error of the work that says it."""


class _Ahead:
    """A comparison with the usual settings that begins before it is asked for.

    A page asks for it as soon as both nets are drawn.

    Args:
        request: The request to read the nets.
        graphs: The nets.
        order: Their numbers, A's first.
    """

    def __init__(self, request: Request, graphs: Sequence[Graph], order: tuple[int, ...]) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, ...]] = []
        self._told: Connection | None = None
        self._is_wanted = True
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(request, [graphs[number] for number in order]), daemon=True
        )
        self._thread.start()

    def answer(self, request: Request, told: Connection) -> bool:
        """Carry out a request; False, and nothing is left of this comparison, if it asks for another one."""
        is_this = request.read == self._order and not request.settings and request.own_input is None
        with self._lock:
            self._is_wanted = is_this
            if is_this:
                for message in self._waiting:
                    told.send(message)
                self._told = told
        self._thread.join()
        if is_this and self._error is not None:
            raise self._error
        return is_this

    def send(self, message: tuple[Any, ...]) -> None:
        """Keep what the comparison says until somebody asks."""
        with self._lock:
            if not self._is_wanted:
                raise _AbandonedError
            if self._told is None:
                self._waiting.append(message)
            else:
                self._told.send(message)

    def _run(self, request: Request, graphs: Sequence[Graph]) -> None:
        try:
            _compare(request, self, graphs)
        except BaseException as error:  # noqa: BLE001 (raised where it was asked for)
            self._error = error


class _Listener(Protocol):
    def send(self, message: tuple[Any, ...], /) -> None: ...


def _compare(request: Request, told: _Listener, graphs: Sequence[Graph]) -> None:
    chosen = request.settings
    is_told = False

    def tell(found: Comparison) -> None:
        nonlocal is_told
        is_told = True
        told.send(("verdict", found.verdict.value, _without_folders(found.sentence, request.folder)))

    a, b = graphs
    comparison = api.compare(
        a,
        b,
        **{name: chosen[name] for name in chosen_options.COMPARED if name in chosen},
        probe=_own_input(request, graphs[0]),
        keep_values=True,
        progress=lambda stage: told.send(("stage", f"comparing: {stage}")),
        on_verdict=tell,  # seen while values are kept and the rest is drawn
    )
    if not is_told:
        tell(comparison)
    times = _times(graphs, told) if chosen.get("times") else []
    told.send(("stage", "drawing"))
    sentence = _without_folders(comparison.sentence, request.folder)
    outcome = {
        "verdict": comparison.verdict.value,
        "sentence": sentence,
        "seconds": sum(comparison.seconds.values()),
    }
    _write(request, VERDICT, outcome)
    _write(request, RESULT, comparison.to_json())
    mender = api.Mender(comparison)
    _write(request, DOCUMENT, viewer.comparison_document(comparison, times=times, mender=mender))
    _write(request, FIXES, _fixes(comparison, mender))


ARRAYS = (b"PK", b"\x93NUMPY")
"""How files of arrays begin; any other own input is an image."""


def _own_input(request: Request, graph: Graph) -> Mapping[str, Any] | Path | None:
    """Return what to run on: a file of arrays, or what an image makes; None for drawn inputs."""
    file = request.own_input
    if file is None:
        return None
    with file.open("rb") as stream:
        if stream.read(6).startswith(ARRAYS):
            return file
    preparing = request.settings.get("preprocessing")
    if preparing is None:
        raise UsageError(f"{file.name} is not an .npz or .npy; for an image, say how its pixels are prepared")
    numbers = {name: tuple(preparing[name]) for name in ("mean", "std")}
    return api.image_input(graph, file, api.Preprocessing(**preparing | numbers))


def _times(graphs: Sequence[Graph], told: _Listener) -> list[dict[str, float]]:
    """Return how long each layer of each net takes, by key; empty for a net that cannot be timed."""
    times: list[dict[str, float]] = []
    for graph, letter in zip(graphs, "AB", strict=True):
        told.send(("stage", f"timing net {letter}"))
        try:
            measured = api.time_layers(graph, iterations=TIMED_PASSES, backward=False)
        except NetweaveError:
            times.append({})  # a net without sizes, or with operators that have no lowering
            continue
        # layers that one kernel computes count as the first of them
        times.append({layer.keys[0]: layer.forward_s for layer in measured.layers if layer.keys})
    return times


def _facts_of_all(parts: SortedParts) -> list[dict[str, Any]]:
    """Return what the pages say of each net, and with the first one what became of the files."""
    names = [[file.name for file in files] for _, files in parts.nets]
    sorting = {
        "nets": [*names, *([file.name] for file in parts.unread)],
        "sizes": {file.name: sizes for file, sizes in parts.unread.items() if sizes},
        "unused": [{"name": file.name, "why": why} for file, why in parts.unused.items()],
    }
    alone = [{"nets": [own], "sizes": {}, "unused": []} for own in names[1:]]
    graphs = [graph for graph, _ in parts.nets]
    return [facts(graph) | {"sorting": own} for graph, own in zip(graphs, [sorting, *alone], strict=True)]


def _fixes(found: Comparison, mender: api.Mender) -> dict[str, dict[str, Any]]:
    """Return the mended files by name: with all fixes, and with that of each finding by its number.

    Of a model, only what differs from the file that was uploaded is kept (``changed_bytes``).
    """
    findings = [group.finding for group in found.groups if group.finding]
    wanted: dict[str, list[Finding] | None] = {str(n): [f] for n, f in enumerate(findings[:MAX_FIXES])}
    files: dict[str, dict[str, Any]] = {}
    old = b""
    for key, some in ({"all": None} | wanted).items():
        mended = mender.mend(some)
        if mended.model is None:
            files[key] = {Path(file).name: text for file, text in mended.after.items()}
            continue
        for file, new in mended.contents.items():
            old = old or Path(file).read_bytes()
            files[key] = {Path(file).name: changed_bytes(old, new)}
    return {key: known for key, texts in files.items() if texts and None not in (known := texts).values()}


def changed_bytes(old: bytes, new: bytes) -> dict[str, Any] | None:
    """Return what is new between the same beginning and the same end; None if it is too much to keep.

    >>> changed_bytes(b"model: stride 1, weights", b"model: stride 2, weights")
    {'start': 14, 'new': 'Mg==', 'end': 9}
    """
    start = _num_equal(old, new, most=min(len(old), len(new)))
    end = _num_equal(old, new, most=min(len(old), len(new)) - start, from_end=True)
    middle = new[start : len(new) - end]
    if len(middle) > MAX_CHANGED_BYTES:
        return None
    return {"start": start, "new": base64.b64encode(middle).decode(), "end": end}


def _num_equal(old: bytes, new: bytes, *, most: int, from_end: bool = False) -> int:
    """Return with how many bytes two contents begin or end alike."""
    for done in range(0, most, COMPARED_BYTES):
        size = min(COMPARED_BYTES, most - done)
        starts = [len(content) - done - size if from_end else done for content in (old, new)]
        a, b = (content[start : start + size] for content, start in zip((old, new), starts, strict=True))
        if a != b:
            differ = np.flatnonzero(np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8))
            return done + int(size - 1 - differ[-1] if from_end else differ[0])
    return most


def _parts(request: Request, number: int) -> dict[str, Any]:
    """Return the files of a net, archives unpacked, and how they are read."""
    folder = request.folder / request.nets[number]
    api.unpack_parts(folder, max_bytes=request.unpacked_bytes)
    return {
        "files": sorted(folder.iterdir()),
        "input_shapes": request.input_shapes[number],
        "code": request.code,
        "entry": request.entries[number],
    }


def facts(graph: Graph) -> dict[str, Any]:
    """Return what the pages say of a net besides its picture."""
    known = {row.name: row for row in api.formats()}
    return {
        "format": graph.format,
        "title": api.format_text(graph),
        "kinds": known[graph.format].files if graph.format in known else "",
        "name": graph.name,
        "files": [Path(file).name for file in graph.files],
        "layers": len(graph.layers),
        "nodes": len(graph.nodes),
        "parameters": graph.num_parameters,
        "loaded": graph.loaded,
        "inputs": [f"{value.name} {_sizes(value.shape)}" for value in graph.inputs],
        "outputs": [f"{value.name} {_sizes(value.shape)}" for value in graph.outputs],
        "notes": list(graph.notes),
    }


def _sizes(shape: Any) -> str:
    """Return sizes as the viewer writes them: what is left open is N for the batch, else a question mark."""
    if shape is None:
        return "of unknown size"
    return "×".join(str(size) if isinstance(size, int) or str(size) == "N" else "?" for size in shape)


def _write_array(request: Request, graph: Graph, key: str) -> None:
    """Write the stored array that is wanted; types that NumPy does not have become float32."""
    array = viewer.stored_array(graph, key)
    if array is None:
        raise UsageError(f"the net's files hold no array {key!r}")
    kept = array if array.dtype.kind in "biufc" else array.astype(np.float32)
    np.save(request.folder / ARRAY, kept, allow_pickle=False)


def _write(request: Request, name: str, value: Any) -> None:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # numbers that JSON does not have; to look for them takes longer than to write
        text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    (request.folder / name).write_text(_without_folders(text, request.folder), encoding="utf-8")


def _finite(value: Any) -> Any:
    """Return JSON values with numbers that JSON does not have as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _without_folders(text: str, folder: Path) -> str:
    """Return a text in which files have the names that the user knows, and no folder of this machine."""
    for inner in [*(path for path in folder.iterdir() if path.is_dir()), folder]:
        text = text.replace(f"{inner}/", "")
    return text


def _too_large(request: Request) -> str:
    return (
        f"needs more than the {api.bytes_text(request.memory_bytes)} of memory that this workbench allows; "
        "use the command line for it, on a machine that has more"
    )
