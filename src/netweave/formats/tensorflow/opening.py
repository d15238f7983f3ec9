"""Saved models and checkpoints of TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from netweave.errors import ReadError, UnsupportedError, WeightError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.files.protobuf_fields import leading_fields
from netweave.files.prototext import parse_text
from netweave.files.source import is_file, is_folder, read_bytes
from netweave.formats.lowering.channels_last import Stored
from netweave.formats.tensorflow.attributes import BYTES, DTYPES, TEXT, from_bytes, sizes
from netweave.formats.tensorflow.nodes import Body, Node, Program, Ref, program
from netweave.formats.tensorflow.table import is_table, read_table
from netweave.graph.summary import names_text

MAX_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """The place of an array."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool


class Bundle:
    """The arrays of a checkpoint, read when they are asked for.

    Args:
        prefix: Path of the checkpoint without ``.index``.

    Raises:
        ReadError: The index cannot be read or is damaged.
    """

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self.file = f"{prefix}.index"
        entries = read_table(read_bytes(Path(self.file)), place=self.file)
        header = BYTES.decode("BundleHeaderProto", entries.pop(b"", b""), place=self.file)
        self._num_shards = header["num_shards"]
        if not 1 <= self._num_shards <= MAX_SHARDS or header["endianness"]:
            raise ReadError(
                f"declares {self._num_shards} files of arrays"
                f"{' in big endian' if header['endianness'] else ''}, which is not supported",
                place=self.file,
            )
        self._entries = {
            key.decode("utf-8", "backslashreplace"): self._entry(value) for key, value in entries.items()
        }

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def keys(self) -> list[str]:
        """Return the keys of all arrays."""
        return list(self._entries)

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the sizes of an array."""
        return self._entries[key].shape

    def array(self, key: str) -> np.ndarray:
        """Return an array.

        Raises:
            WeightError: There is none of this name, or its bytes are not there.
            UnsupportedError: It is cut into slices, or is no array of numbers.
        """
        entry = self._entries.get(key)
        if entry is None:
            raise WeightError(
                f"contains no array {key!r}; it contains {names_text(self.keys(), most=3)}",
                place=self.file,
            )
        if entry.sliced or entry.dtype not in DTYPES:
            what = "is cut into slices (a partitioned variable)" if entry.sliced else f"is of {entry.dtype}"
            raise UnsupportedError(f"the array {key!r} {what}, which is not supported", place=self.file)
        return from_bytes(
            self._bytes(entry, key), DTYPES[entry.dtype], entry.shape, place=f"{self.file}: {key!r}"
        )

    def _bytes(self, entry: _Entry, key: str) -> bytes:
        name = f"{self._prefix}.data-{entry.shard:05d}-of-{self._num_shards:05d}"
        path = Path(name)
        if not is_file(path):
            raise WeightError(
                f"the file {path.name!r} with the values of {key!r} is missing", place=self.file
            )
        length = path.stat().st_size
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > length:
            raise WeightError(
                f"has {length:,} bytes, but {key!r} ends at {entry.offset + entry.size:,}; "
                f"was it copied completely?",
                place=name,
            )
        with path.open("rb") as file:
            file.seek(entry.offset)
            return file.read(entry.size)

    def _entry(self, content: bytes) -> _Entry:
        message: Message = BYTES.decode("BundleEntryProto", content, place=self.file)
        shape = sizes(message["shape"]) or ()
        return _Entry(
            str(message["dtype"]),
            tuple(size or 0 for size in shape),
            message["shard_id"],
            message["offset"],
            message["size"],
            "slices" in message,
        )


SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")
TAG = "serve"
"""The tag of the graph of a SavedModel that predicts."""

_TEXT = re.compile(
    rb"^(\s|#[^\n]*\n)*(node|library|versions|meta_info_def|saved_model_schema_version|meta_graphs)\s*[:{]"
)
_LENIENT = frozenset(TEXT.messages)
_SHARD = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


@dataclass(frozen=True, slots=True)
class Opened:
    """A net as its files hold it.

    Attributes:
        program: The nodes.
        bundle: The checkpoint, if there is one.
        inputs: What a signature calls inputs, by ``node:0``.
        outputs: What a signature calls outputs, by name; none where there is no signature.
        files: The files.
    """

    program: Program
    bundle: Bundle | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()


def match(source: Source) -> bool:
    """Return whether a source is a net of TensorFlow."""
    if is_folder(source.net):
        return _saved_model(source.net) is not None
    head = source.head()
    return (
        _TEXT.match(head.removeprefix(b"\xef\xbb\xbf")) is not None
        or _is_graph(head)
        or _is_meta_graph(head)
        or _is_saved_model(source.net, head)
        or _is_index(source.net)
    )


def open_net(source: Source) -> Opened:
    """Open a net.

    Raises:
        ReadError: A file cannot be read or is damaged.
    """
    net = source.net
    if is_folder(net) or _is_saved_model(net, source.head()) or net.name in SAVED_MODEL:
        return _open_saved_model(net, source.weights)
    content = read_bytes(net)
    file = str(net)
    if is_table(content):
        raise ReadError(
            f"is the index of a checkpoint and contains no net; put the file of the net first, as in "
            f"{net.stem}.meta,{net.name}",
            place=file,
        )
    if _TEXT.match(content.removeprefix(b"\xef\xbb\xbf")):
        if b"meta_info_def" in content[:4096]:
            message = parse_text(content, TEXT, "MetaGraphDef", place=file, lenient=_LENIENT)
            return _open_meta(message, file, _checkpoint(source))
        graph = parse_text(content, TEXT, "GraphDef", place=file, lenient=_LENIENT)
        return _open_graph(graph, file, _given(source))
    if _is_meta_graph(content[:4096]):
        return _open_meta(BYTES.decode("MetaGraphDef", content, place=file), file, _checkpoint(source))
    return _open_graph(BYTES.decode("GraphDef", content, place=file), file, _given(source))


def _open_graph(graph: Message, file: str, prefix: Path | None) -> Opened:
    bundle = Bundle(prefix) if prefix else None
    return Opened(program(graph, file=file), bundle, files=(file, bundle.file) if bundle else (file,))


def _open_meta(meta: Message, file: str, prefix: Path | None) -> Opened:
    graph = meta["graph_def"]
    if isinstance(graph, bytes):
        graph = BYTES.decode("GraphDef", graph, place=file)
    bundle = Bundle(prefix) if prefix else None
    inputs, outputs = _signature(meta)
    return Opened(
        program(graph, file=file),
        bundle,
        inputs,
        outputs,
        (file, bundle.file) if bundle else (file,),
    )


def _open_saved_model(net: Path, weights: Path | None) -> Opened:
    path = _saved_model(net) if is_folder(net) else net
    if path is None:
        raise ReadError(f"contains no {SAVED_MODEL[0]}", place=str(net))
    content, file = read_bytes(path), str(path)
    if path.suffix == ".pbtxt":
        saved = parse_text(content, TEXT, "SavedModel", place=file, lenient=_LENIENT)
    else:
        saved = BYTES.decode("SavedModel", content, place=file)
    graphs = [
        item if not isinstance(item, bytes) else BYTES.decode("MetaGraphDef", item, place=file)
        for item in saved["meta_graphs"]
    ]
    if not graphs:
        raise ReadError("is a SavedModel without a graph", place=file)
    meta = next((graph for graph in graphs if TAG in graph["meta_info_def"]["tags"]), graphs[0])
    prefix = weights or path.parent / "variables" / "variables"
    exists = is_file(Path(f"{_bare(prefix)}.index"))
    if weights is not None and not exists:
        raise ReadError("there is no such checkpoint; check the name and the folder", place=f"{weights}")
    return _open_meta(meta, file, _bare(prefix) if exists else None)


def _signature(meta: Message) -> tuple[dict[str, str], dict[str, str]]:
    """Return the inputs and outputs of the signature that predicts."""
    signatures = {
        item["key"]: item["value"] for item in meta["signature_def"] if not item["key"].startswith("__")
    }
    if not signatures:
        return {}, {}
    chosen = signatures.get("serving_default") or signatures[min(signatures)]
    inputs = {item["value"]["name"]: item["key"] for item in chosen["inputs"]}
    outputs = {item["key"]: item["value"]["name"] for item in chosen["outputs"]}
    return inputs, dict(sorted(outputs.items()))


def _given(source: Source) -> Path | None:
    """Return the checkpoint that the caller named."""
    return _bare(source.weights) if source.weights else None


def _checkpoint(source: Source) -> Path | None:
    """Return the checkpoint that the caller named, or the one beside a MetaGraph."""
    prefix = _given(source) or _bare(source.net)
    if is_file(Path(f"{prefix}.index")):
        return prefix
    if source.weights is not None:
        raise ReadError("there is no such checkpoint; expected a file ending in .index", place=str(prefix))
    return None


def _bare(path: Path) -> Path:
    return path.with_name(_SHARD.sub("", path.name))


def _saved_model(folder: Path) -> Path | None:
    return next((folder / name for name in SAVED_MODEL if is_file(folder / name)), None)


def _is_index(path: Path) -> bool:
    return path.suffix == ".index" and is_table(path.read_bytes()[-8:])


def _is_graph(head: bytes) -> bool:
    """Return whether bytes begin like a GraphDef: a node with a name and an operator."""
    node = leading_fields(head, 1)
    parts = leading_fields(node[0], 1, 2) if node else None
    return parts is not None and re.fullmatch(rb"[A-Z_][A-Za-z0-9_>.]*", parts[1]) is not None


def _is_meta_graph(head: bytes) -> bool:
    """Return whether bytes begin like a MetaGraphDef: notes that hold a list of operators, or tags."""
    info = leading_fields(head, 1)
    if info is None or _is_graph(head):
        return False
    parts = leading_fields(info[0], 1, 2) or leading_fields(info[0], 2)
    return parts is not None and leading_fields(parts[-1], 1) is not None


def _is_saved_model(path: Path, head: bytes) -> bool:
    if is_folder(path):
        return False
    graph = leading_fields(head[2:], 2) if head.startswith(b"\x08\x01") else None
    return graph is not None and _is_meta_graph(graph[0])


ASSIGN = frozenset({"AssignVariableOp", "Assign"})


class Variables:
    """Gives the array of a variable by the name of its node.

    Args:
        program: The net; what it does to restore a checkpoint says which key is whose.
        bundle: The checkpoint; without one the arrays are drawn.
    """

    def __init__(self, program: Program, bundle: Bundle | None) -> None:
        self._program = program
        self._bundle = bundle
        self._keys = restored_keys(program) if bundle is not None else {}
        self._made: dict[str, Stored] = {}

    def value(self, name: str, place: str) -> Stored:
        """Return the array of a variable.

        Raises:
            WeightError: The checkpoint does not hold it, or holds another size.
        """
        if name not in self._made:
            self._made[name] = self._make(name, place)
        return self._made[name]

    def _make(self, name: str, place: str) -> Stored:
        node = self._program.main.nodes.get(name)
        declared = node.attributes.get("shape") if node else None
        if self._bundle is None:
            if declared is None or None in declared:
                raise WeightError(f"the variable {name!r} has neither values nor sizes", place=place)
            return Stored.parameter(name, None, tuple(declared))
        key = self._keys.get(name, name)
        if key not in self._bundle:
            raise WeightError(
                f"does not contain the variable {name!r}"
                + (f" under the key {key!r}" if key != name else "")
                + f"; it contains {names_text(self._bundle.keys(), most=3)}",
                place=self._bundle.file,
            )
        array = self._bundle.array(key)
        if declared is not None and not _fits(array.shape, declared):
            raise WeightError(
                f"contains {key!r} with the shape {list(array.shape)}, expected {list(declared)}",
                place=self._bundle.file,
            )
        return Stored.parameter(name, array, array.shape)


def _fits(shape: tuple[int, ...], declared: tuple[int | None, ...]) -> bool:
    return len(shape) == len(declared) and all(
        b is None or a == b for a, b in zip(shape, declared, strict=True)
    )


def restored_keys(program: Program) -> dict[str, str]:
    """Return the key in a checkpoint of each variable, as the net's own restoring says it.

    ``RestoreV2`` reads a list of keys; its outputs are assigned to variables, in the main graph or in a
    function that is given them.
    """
    keys = _assigned(program.main, {})
    for node in program.main.nodes.values():
        function = node.attributes.get("f")
        body = program.functions.get(getattr(function, "name", ""))
        if body is not None and any(inner.op == "RestoreV2" for inner in body.nodes.values()):
            given = {name: ref[0] for name, ref in zip(body.arguments, node.inputs, strict=False)}
            keys |= _assigned(body, given)
    return keys


def _assigned(body: Body, given: Mapping[str, str]) -> dict[str, str]:
    keys = {}
    for node in body.nodes.values():
        if node.op in ASSIGN and len(node.inputs) > 1:
            key = _key(node.inputs[1], body)
            name = node.inputs[0][0]
            if key is not None:
                keys[given.get(name, name)] = key
    return keys


def _key(ref: Ref, body: Body) -> str | None:
    """Return the key that a value was restored from."""
    node = body.nodes.get(ref[0])
    while node is not None and node.op in {"Identity", "Cast", "Reshape"} and node.inputs:
        ref = node.inputs[0]
        node = body.nodes.get(ref[0])
    if node is None or node.op != "RestoreV2" or len(node.inputs) < 2:
        return None
    keys = _strings(body.nodes.get(node.inputs[1][0]))
    return keys[ref[1]] if ref[1] < len(keys) else None


def _strings(node: Node | None) -> list[str]:
    value = node.attributes.get("value") if node is not None else None
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return []
    return [item.decode("utf-8", "backslashreplace") for item in value.reshape(-1)]
