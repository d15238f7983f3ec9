"""Finding out what kind of file it is, and opening it: a graph, a MetaGraph, a SavedModel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import ReadError
from netweave.files.prototext import parse_text
from netweave.files.source import is_file, is_folder, read_bytes
from netweave.files.wire import leading_fields
from netweave.formats.tensorflow.bundle import Bundle
from netweave.formats.tensorflow.nodes import program
from netweave.formats.tensorflow.schema import BYTES, TEXT
from netweave.formats.tensorflow.table import is_table

if TYPE_CHECKING:
    from netweave.files import Source
    from netweave.files.protobuf import Message
    from netweave.formats.tensorflow.nodes import Program

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
