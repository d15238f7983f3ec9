"""Caffe: ``.prototxt`` and ``.caffemodel`` of every age, without Caffe.

``reader`` reads nets and ``writer`` writes them; ``read_blob`` gives the array of a mean file.
Facts that the code follows are cited by the name of the file in BVLC's repository.
"""

from __future__ import annotations

from netweave.files import Source
from netweave.formats.caffe.weights import read_blob

__all__ = ["match", "read_blob"]

_OTHERS = (b"{", b"\x08")
"""First bytes of MXNet's symbols and of ONNX models: their content says what they are."""

_SUFFIXES = (".prototxt", ".caffemodel", ".caffemodel.h5", ".binaryproto", ".solverstate")


def match(source: Source) -> bool:
    """Return whether a file is one of Caffe's, by its content.

    The name decides only if the content does not.
    """
    from netweave.files.hdf5 import HDF5_MAGIC
    from netweave.formats.caffe.file_types import HEAD_BYTES, find_kind

    head = source.head(HEAD_BYTES)
    named = source.net.name.endswith(_SUFFIXES)
    if head.startswith(HDF5_MAGIC):
        return named
    return find_kind(head) is not None or (named and head.lstrip()[:1] not in _OTHERS)
