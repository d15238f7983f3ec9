"""Recognition of Caffe's files by their first bytes; names of files lie."""

from __future__ import annotations

from dataclasses import dataclass

from netweave.files.hdf5 import HDF5_MAGIC
from netweave.files.protobuf_fields import outer_fields
from netweave.files.prototext import field_names
from netweave.formats.caffe.schema import caffe_schema

HEAD_BYTES = 1 << 16
"""How much of a file is looked at; licence texts come first in some."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: the message that it holds (empty for HDF5), as text or as bytes."""

    message: str
    text: bool


def find_kind(head: bytes) -> Kind | None:
    """Return what a file holds by its first bytes, or None if it is none of Caffe's."""
    if head.startswith(HDF5_MAGIC):
        return Kind("", text=False)
    if b"\0" not in head:
        name = _text_kind(head.decode("utf-8", "replace"))
        if name is not None:
            return Kind(name, text=True)
    name = _binary_kind(head)
    return Kind(name, text=False) if name is not None else None


_MARKS = {
    "NetParameter": {"layer", "layers", "input"},
    "SolverParameter": {
        "net",
        "train_net",
        "net_param",
        "train_net_param",
        "base_lr",
        "lr_policy",
        "max_iter",
    },
    "LabelMap": {"item"},
}
"""Outermost fields of which a text of each kind has at least one."""


def _text_kind(text: str) -> str | None:
    names = field_names(text)
    for kind, marks in _MARKS.items():
        known = sum(name in caffe_schema().messages[kind].fields for name in names)
        if marks.intersection(names) and 2 * known > len(names):
            return kind
    return None


def _binary_kind(head: bytes) -> str | None:
    fields = list(outer_fields(head))
    types = {(number, wire_type) for number, wire_type, _ in fields}
    if types & {(2, 2), (100, 2)} and types <= _NET_FIELDS and _is_name(fields):
        return "NetParameter"
    if types & {(5, 2), (5, 5), (8, 2)} and types <= _BLOB_FIELDS and ((1, 0) in types) == ((2, 0) in types):
        return "BlobProto"
    if any(number == 2 and text.endswith(_WEIGHT_SUFFIXES) for number, _, text in fields):
        return "SolverState"
    return None


_WEIGHT_SUFFIXES = (b".caffemodel", b".caffemodel.h5")
_NET_FIELDS = {
    (1, 2),
    (2, 2),
    (3, 2),
    (4, 0),
    (4, 2),
    (5, 0),
    (6, 2),
    (7, 0),
    (8, 2),
    (9, 2),
    (11, 0),
    (100, 2),
}
_BLOB_FIELDS = {(1, 0), (2, 0), (3, 0), (4, 0), (5, 2), (5, 5), (6, 2), (6, 5), (7, 2), (8, 2), (9, 2)}


def _is_name(fields: list[tuple[int, int, bytes]]) -> bool:
    """Return whether field 1, where it stands, stands once and is a text: a GraphDef has its nodes there."""
    names = [text for number, _, text in fields if number == 1]
    return len(names) <= 1 and all(byte >= 0x20 for name in names for byte in name)
