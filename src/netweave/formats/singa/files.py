"""Files of SINGA: told by their first bytes; the message of a ``job.conf``, and the paths in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netweave.errors import ReadError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.files.protobuf_fields import BYTES, VARINT, outer_fields
from netweave.files.prototext import field_names, parse_text
from netweave.files.source import read_bytes
from netweave.formats.singa.schema import singa_schema
from netweave.job import DataSource, root_of_names

HEAD_BYTES = 1 << 16
"""How much of a file is looked at; licence texts come first."""

JOB = "job.conf"
CHECKPOINT = "checkpoint"

LENIENT = ("LayerProto",)
"""Kinds with unknown fields that do no harm: a layer of the user's own is named by its type."""

_OTHERS = {
    "model.conf": "has the words of before SINGA 0.1 (model.conf), which are not read; write it as a "
    "job.conf: the learning rate in 'updater { learning_rate }', and first values in 'init'",
    "cluster.conf": "says which machines there are, and no net; give the job.conf",
    "scheduler.conf": "configures SINGA's scheduler for Mesos, and has no net; give the job.conf",
    "singa.conf": "configures SINGA's installation (ZooKeeper, logs), and has no net; give the job.conf",
}

_OTHER_FIELDS = {
    "scheduler.conf": {"namenode", "master", "job_counter"},  # tool/mesos/scheduler.proto, SchedulerConf
    "singa.conf": {"zookeeper_host", "log_dir"},  # singa.proto, SingaProto
}
"""All fields of texts that hold something else than a job."""


def match(source: Source) -> bool:
    """Return whether a file is one of SINGA's, by its content."""
    return find_kind(source.head(HEAD_BYTES)) is not None


def find_kind(head: bytes) -> str | None:
    """Return what a file of SINGA's holds by its first bytes; None if it is none."""
    if head.startswith((b"\x10", b"\x18")) and _is_checkpoint(head):  # worker.cc writes no ids
        return CHECKPOINT
    if b"\0" in head:
        return None
    names = field_names(head.decode("utf-8", "replace"))
    if "net" in names and "train_one_batch" in names:
        return JOB  # whose error says that the field is called 'neuralnet'
    if "neuralnet" in names:
        return "model.conf" if "train_one_batch" not in names and _is_old(names, head) else JOB
    if "model" in names and b"neuralnet" in head:
        return "model.conf"
    fields = _OTHER_FIELDS | {"cluster.conf": set(singa_schema().messages["ClusterProto"].fields)}
    if set(names) <= {"layer"}:  # which nets of Caffe consist of, too
        return None
    return next((kind for kind, known in fields.items() if known.issuperset(names)), None)


def _is_old(names: Sequence[str], head: bytes) -> bool:
    """Return whether a text has the words that went with 0.1."""
    old = {"alg", "test_frequency", "display_frequency", "checkpoint_frequency", "checkpoint"}
    return bool(old.intersection(names)) or any(word in head for word in (b"lr_change", b"init_method"))


def _is_checkpoint(head: bytes) -> bool:
    """Return whether bytes begin as a BlobProtos: numbers in fields 2 and 3, then a name in field 4."""
    has_numbers = False
    for number, wire_type, _ in outer_fields(head):
        if wire_type != VARINT or number not in {2, 3}:
            return has_numbers and (number, wire_type) == (4, BYTES)
        has_numbers = True
    return False


def parse_job(path: Path) -> Message:
    """Return the message of a ``job.conf``.

    Raises:
        ReadError: The file cannot be read, is of another kind, or has no net.
    """
    place = str(path)
    content = read_bytes(path)
    kind = find_kind(content[:HEAD_BYTES])
    if kind in _OTHERS:
        raise ReadError(_OTHERS[kind], place=place)
    job = parse_text(content, singa_schema(), "JobProto", place=place, lenient=LENIENT)
    if not job["neuralnet"]["layer"]:
        raise ReadError("has no layers in its 'neuralnet', expected a net", place=place)
    for layer in job["neuralnet"]["layer"]:
        if not layer["name"]:
            raise ReadError("a layer without a name", place=f"{place}:{layer.line}")
    return job


_FILES = {
    "store_conf": ("path", "mean_file", "std_file"),
    "sharddata_conf": ("path",),
    "lmdbdata_conf": ("path",),
    "rgbimage_conf": ("meanfile",),
    "char_rnn_conf": ("path", "vocab_path"),
}
"""The fields of a layer that name files, by its message."""

_PATHS = ("path", "vocab_path")
"""The settings of a source of data, and of a transform, that are such names."""


def root_of(message: Message, path: Path) -> Path:
    """Return the folder that names in a file are relative to.

    It is the working folder, or the nearest folder above the file, in which one of the files is; the working
    folder where there are none.
    """
    names = [
        layer[field][name]
        for layer in message["neuralnet"]["layer"]
        for field, fields in _FILES.items()
        if field in layer
        for name in fields
        if name in layer[field]
    ]
    names += list(message["checkpoint_path"])
    return root_of_names(path, names)


def below(source: DataSource, root: Path) -> DataSource:
    """Return a source whose files are below a folder."""
    return replace(
        source,
        settings=_joined(source.settings, root),
        transforms=tuple(_joined(row, root) for row in source.transforms),
    )


def _joined(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    return {
        name: str(root / value) if name in _PATHS and value else value for name, value in settings.items()
    }
