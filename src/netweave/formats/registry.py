"""Rows of formats, and the way from a source to its reader."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from netweave.deferred import collector_at_rest
from netweave.errors import CodeError, ReadError, UsageError
from netweave.files import OutputFiles
from netweave.files.checksums import CHANGED, is_as_written
from netweave.files.library_errors import reading
from netweave.files.source import Source, is_file, is_folder, refuse_pointer
from netweave.files.unrecognised_files import refusal
from netweave.job import Job, JobOptions, checked_job, checked_probe

if TYPE_CHECKING:
    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files in which a framework keeps a training run, where Netweave reads or writes them.

    The functions are those of the module ``training`` in the format's package: ``files_of(state, suffix,
    prefix)`` gives the files of a snapshot, ``read_state(path, graph, names)`` reads a solver's state,
    ``encode_weights(graph, suffix)`` gives the bytes of a file of weights, ``weights_for(path, graph)`` the
    arrays that one has for a net, ``unused_in(path, keys)`` the names in it that stand for none of some
    parameters.

    Attributes:
        weights: Ends of the names of files of weights that are written.
        states: Ends of the names of files of a solver's state that are read.
        fitting: Whether a net of the format can begin from a file of weights, layer by layer.
        ports: Whether weights alone can be written for a net of the format (``encode_weights``).
    """

    weights: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    fitting: bool = False
    ports: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """One row: a framework's files.

    Attributes:
        name: Name of the package and of the format in messages.
        title: Name for people.
        files: What its files are called, for people.
        archives: Whether its files may begin like ``FOREIGN`` ones; then it looks into them.
        code: Ends of the names of its files that are code, "" for all; these are read only if the source
            allows that.
        folders: Whether a net may be a folder.
        written: How the names of the files end that its writer makes; None if it has none.
        writer: The module that writes them.
        runs: What it keeps of a run of training.
        jobs: What its files are called that say how to train, for people; "" if it has none.
        structures: The module with ``read_structure``, which shows nets with unknown layers; "" for none.
    """

    name: str
    title: str
    files: str
    archives: bool = False
    code: tuple[str, ...] = ()
    folders: bool = False
    written: str | None = None
    writer: str = "writer"
    runs: RunFiles = RunFiles()
    jobs: str = ""
    structures: str = ""

    def match(self, source: Source) -> bool:
        """Return whether the format's reader takes a source: cheap, and without side effects."""
        takes: bool = self._load().match(source)
        return takes

    def read(self, source: Source) -> Graph:
        """Read a net.

        Raises:
            ReadError: A file cannot be read or is damaged, or a setting is not what its layer takes.
            UnsupportedError: The net has layers, operators or settings that Netweave does not read.
            ShapeError: Sizes do not fit, or are not known and needed.
            WeightError: The stored arrays are not those of the net.
            UsageError: The caller gave sizes for an input that the net does not have.
        """
        reader = self._load(".reader")
        with reading(str(source.net)):
            graph: Graph = reader.read(source)
        changed = [name for name in graph.files if Path(name).is_file() and not is_as_written(Path(name))]
        graph.notes += tuple(f"{name}: {CHANGED}" for name in changed)
        return graph

    def read_structure(self, source: Source) -> Graph:
        """Read a net to look at it, with layers as the file has them where they are not read.

        Raises:
            SourceError: A file is damaged.
        """
        with reading(str(source.net)):
            graph: Graph = self._load(f".{self.structures}").read_structure(source)
        return graph

    def write(self, graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
        """Write a net and its weights, as it predicts; old files stay whole until the new ones are.

        Args:
            graph: The net; it is not changed.
            path: The file, in a folder that is there, with a name that ends as ``written`` says.
            random_weights: Write a net without weights with the drawn ones that stand in for them.

        Raises:
            UnsupportedError: It has operators that the format has no form for, or open sizes of inputs.
            UsageError: The net has no weights, or a file cannot be written.
        """
        files: OutputFiles = self._load(f".{self.writer}").write(graph, path, random_weights=random_weights)
        return files

    def is_job(self, path: Path) -> bool:
        """Return whether a file is one of ``jobs``, by its first bytes."""
        takes: bool = self._load(".job").is_job(path)
        return takes

    def read_job(self, path: Path, options: JobOptions) -> Job:
        """Read how to train.

        Raises:
            SourceError: The file, a net or its data cannot be read, or they do not match.
            UsageError: An option does not fit the file, or it names a URL that is not allowed.
        """
        reader = self._load(".job")
        allowed = (*options.allow_urls, *options.data.values())
        if options.probe is not None:
            options = replace(options, probe=checked_probe(options.probe, allowed))
        with reading(str(path)):
            job: Job = reader.read_job(path, options)
        return checked_job(job, allowed)

    def load_training(self) -> ModuleType:
        """Import what reads and writes the files of ``runs``."""
        return self._load(".training")

    def _load(self, module: str = "") -> ModuleType:
        return importlib.import_module(f"netweave.formats.{self.name}{module}")


FORMATS = (
    Format(
        "caffe",
        "Caffe",
        "NET.prototxt with WEIGHTS.caffemodel",
        written=".prototxt",
        runs=RunFiles(
            ("caffemodel", "caffemodel.h5"), (".solverstate", ".solverstate.h5"), fitting=True, ports=True
        ),
        jobs="solver.prototxt",
        structures="reader",
    ),
    Format(
        "mxnet",
        "MXNet",
        "NET-symbol.json with NET-0000.params",
        written="-symbol.json",
        runs=RunFiles(("params",), ports=True),
    ),
    Format(
        "singa",
        "SINGA",
        "job.conf with step1000-worker0",
        runs=RunFiles(("worker0",), fitting=True),
        jobs="job.conf",
    ),
    Format(
        "darknet",
        "Darknet",
        "NET.cfg with NET.weights",
        runs=RunFiles(("weights",), fitting=True),
        jobs="NET.cfg with FILE.data",
    ),
    Format("chainer", "Chainer", "MODEL.py with WEIGHTS.npz", code=("",)),
    Format("arrays", "weights alone", "WEIGHTS.npy (a dict), .npz, .safetensors or .gguf", archives=True),
    Format("onnx", "ONNX", "NET.onnx", written=".onnx", structures="reader"),
    Format(
        "pytorch",
        "PyTorch",
        "MODEL.py with WEIGHTS.pt; NET.pt2; or a Hugging Face folder (config.json with model.safetensors)",
        archives=True,
        code=("",),
        folders=True,
        written=".py",
        writer="source",
        structures="reader",
    ),
    Format(
        "keras",
        "Keras",
        "NET.keras; NET.h5; NET.json with NET.weights.h5; or MODEL.py",
        archives=True,
        code=(".py",),
        written=".py",
        writer="source",
    ),
    Format("jax", "JAX", "MODEL.py", code=("",)),
    Format(
        "tensorflow",
        "TensorFlow",
        "SAVED_MODEL/; FROZEN.pb; FROZEN.pbtxt; or NET.meta with NET.index",
        folders=True,
    ),
    Format("tensorflow.lite", "TFLite", "NET.tflite"),
    Format("openvino", "OpenVINO", "NET.xml with NET.bin"),
)


FOREIGN = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"\xfd7zXZ\0", "an xz archive; unpack it first"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\x7fELF", "a program"),
)
"""First bytes of files that are no nets, whatever they are called, unless a format opens archives."""


def find_format(source: Source) -> Format:
    """Return the format whose reader takes the source.

    Raises:
        ReadError: The file is missing, or no format knows it.
    """
    if is_folder(source.net):
        return _find_folder(source)
    head = source.head(64)
    refuse_pointer(head, str(source.net))
    is_foreign = _foreign(head) is not None
    for row in FORMATS:
        if (row.archives or not is_foreign) and row.match(source):
            return row
    known = "; ".join(f"{row.title}: {row.files}" for row in FORMATS)
    raise ReadError(
        refusal(source.net.name, head, foreign=_foreign(head), known=known), place=str(source.net)
    )


def _find_folder(source: Source) -> Format:
    for row in FORMATS:
        if row.folders and row.match(source):
            return row
    known = "; ".join(f"{row.title}: {row.files}" for row in FORMATS if row.folders)
    raise ReadError(
        f"is a folder, expected a file, or a folder that holds a net ({known})", place=str(source.net)
    )


def format_text(graph: Graph) -> str:
    """Return the format of a net's files for people; of a converted file also what it was converted from."""
    titles = {row.name: row.title for row in FORMATS}
    source = titles.get(graph.format, graph.format)
    files = [Path(file) for file in graph.files[:1] if is_file(Path(file))]
    row = next((row for file in files for row in FORMATS if row.match(Source(file))), None)
    return source if row is None or row.name == graph.format else f"{row.title}, converted from {source}"


def source_formats() -> tuple[str, ...]:
    """Return the names of the formats that are written as source code of Python, the default first."""
    return tuple(row.name for row in FORMATS if row.written == ".py")


def find_written(path: Path, to: str | None = None) -> Format:
    """Return the format that writes files of such a name.

    Args:
        path: The file.
        to: Name of the format, where several write such files; else it is the first of them.

    Raises:
        UsageError: None does, or ``to`` is no such format.
    """
    formats = [row.name for row in FORMATS if row.written]
    if to not in {None, *formats}:
        raise UsageError(f"to is {to!r}, expected one of {', '.join(formats)}")
    for row in FORMATS:
        if row.written is not None and path.name.endswith(row.written) and to in {None, row.name}:
            return row
    known = ", ".join(f"{row.written} ({row.title})" for row in FORMATS if row.written)
    if to is not None:
        raise UsageError(
            f"cannot write {str(path)!r} for {to!r}: unknown file name for a net, expected {known}"
        )
    raise UsageError(f"cannot write {str(path)!r}: unknown file name for a net, expected {known}")


CODE_NOT_ALLOWED = "which is not allowed here; export the net to ONNX and use that file"
"""How the message ends for code that the caller does not allow."""


def read(source: Source) -> Graph:
    """Read a net.

    Raises:
        SourceError: The files cannot be read, hold something unknown, or do not fit together.
    """
    row = find_format(source)
    if source.net.name.endswith(row.code) and not source.code:
        raise CodeError(
            f"contains code ({row.title}), {CODE_NOT_ALLOWED}",
            place=str(source.net),
        )
    with collector_at_rest():
        return row.read(source)


def read_structure(source: Source) -> Graph | None:
    """Read a net to look at it, as far as it is known; None for formats that can only be read as a whole.

    No code in the files runs.

    Raises:
        SourceError: The files cannot be read.
    """
    row = find_format(source)
    if not row.structures:
        return None
    with collector_at_rest():
        return row.read_structure(source)


UNMARKED = "caffe"
"""Reads what no format knows for a training, and says what is wrong with it: a solver is free text."""


def find_job_format(path: Path) -> Format | None:
    """Return the format whose reader takes a file that says how to train; None if none does."""
    if not is_file(path):
        return None
    return next((row for row in FORMATS if row.jobs and row.is_job(path)), None)


def read_job(path: Path, options: JobOptions) -> Job:
    """Read how to train.

    Raises:
        SourceError: The file, a net or its data cannot be read, or they do not match.
        UsageError: An option does not fit the file.
    """
    unmarked = next(row for row in FORMATS if row.name == UNMARKED)
    return (find_job_format(path) or unmarked).read_job(path, options)


def find_run_writer(suffix: str) -> Format:
    """Return the format that writes weights under names with such an end.

    Raises:
        UsageError: None does.
    """
    for row in FORMATS:
        if suffix in row.runs.weights:
            return row
    known = ", ".join(suffix for row in FORMATS for suffix in row.runs.weights)
    raise UsageError(f"no format {suffix!r} to write weights in; expected one of {known}")


def find_state_reader(path: Path) -> Format | None:
    """Return the format that such a file of a solver's state is of, by its name."""
    return next((row for row in FORMATS if path.name.endswith(row.runs.states or ("\0",))), None)


def find_weights_reader(format_name: str) -> Format | None:
    """Return the format of a net that can begin from a file of weights."""
    return next((row for row in FORMATS if row.name == format_name and row.runs.fitting), None)


def _foreign(head: bytes) -> str | None:
    """Return what a file is that is surely no net, by its first bytes."""
    if head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05":
        return "it looks like a Python pickle, which is never opened"
    return next((f"it looks like {what}" for magic, what in FOREIGN if head.startswith(magic)), None)
