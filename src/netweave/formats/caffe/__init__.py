"""Caffe: ``.prototxt`` and ``.caffemodel`` of every age, without Caffe.

``match`` and ``read`` are the reader, ``write`` the writer; ``read_blob`` gives the array of a mean file.
Facts that the code follows are cited by the name of the file in BVLC's repository.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.caffe.weights import read_blob

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files import OutputFiles, Source
    from netweave.graph import Graph

__all__ = ["match", "read", "read_blob", "write"]

_OTHERS = (b"{", b"\x08")
"""First bytes of MXNet's symbols and of ONNX models: their content says what they are."""

_SUFFIXES = (".prototxt", ".caffemodel", ".caffemodel.h5", ".binaryproto", ".solverstate")


def match(source: Source) -> bool:
    """Whether a file is one of Caffe's, by its content; by its name only if the content says nothing."""
    from netweave.files.hdf5 import HDF5_MAGIC
    from netweave.formats.caffe.file_types import HEAD_BYTES, find_kind

    head = source.head(HEAD_BYTES)
    named = source.net.name.endswith(_SUFFIXES)
    if head.startswith(HDF5_MAGIC):
        return named
    return find_kind(head) is not None or (named and head.lstrip()[:1] not in _OTHERS)


def read(source: Source) -> Graph:
    """Read a Caffe net: text or bytes, of any age.

    Raises:
        SourceError: The files cannot be read, hold something unknown, or do not fit together.
    """
    from netweave.formats.caffe.reader import read_net

    return read_net(source)


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write a net as ``.prototxt`` and ``.caffemodel``; see ``netweave.formats.caffe.writer``."""
    from netweave.formats.caffe import writer

    return writer.write(graph, path, random_weights=random_weights)
