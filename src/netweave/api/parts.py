"""Nets from unlabelled files, as users drop them on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.api.nets import load
from netweave.errors import CodeError, NetweaveError, ReadError, SourceError, UsageError
from netweave.files.source import Source
from netweave.files.zipped import unpack
from netweave.formats import FORMATS, find_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from netweave.formats import Format
    from netweave.graph import Graph


def formats() -> tuple[Format, ...]:
    """Return the formats that can be read."""
    return FORMATS


def load_parts(
    files: Sequence[Path],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    code: bool = True,
    entry: str = "",
) -> Graph:
    """Read a net from several files, whichever of them holds the layers.

    Each file is tried as the net, with every other file as its weights and then alone. Small files come
    first, since layers take less space than weights. The first combination that can be read is returned, but
    one with weights is preferred.

    Args:
        files: The files of one net, all in one folder; Python code among them cannot import from other
            folders.
        input_shapes: Input sizes by name, if the files do not give them or to override them.
        code: Whether files that contain code may be read; see ``load``.
        entry: The class or function that constructs the net, if a Python file has several.

    Raises:
        SourceError: No combination can be read; this is the error of the most promising one.
        UsageError: There are no files, or sizes are given for an unknown input.
    """
    if not files:
        raise UsageError("no files to read a net from; give at least one")
    failures: list[NetweaveError] = []
    bare: Graph | None = None
    for net, weights in _choices(files):
        try:
            named = f"{net}:{entry}" if entry and net.suffix == ".py" else net
            graph = load(named, weights, input_shapes=input_shapes, code=code, around=False)
        except NetweaveError as error:
            failures.append(error)
            continue
        if not len(graph.nodes):
            failures.append(_weights_alone(net))
            continue
        if graph.loaded or len(files) == 1:
            return graph
        bare = bare or graph
    if bare is not None:
        return bare
    raise _telling(failures)


def unpack_parts(folder: Path, *, max_bytes: int) -> None:
    """Replace the zip archives in a folder by their contents, unless the archive itself is a net.

    Args:
        folder: The files of one net.
        max_bytes: Maximum unpacked size of an archive.

    Raises:
        ReadError: An archive is damaged, encrypted or too large, or its file names clash with other files.
    """
    for file in sorted(folder.glob("*.zip")):
        try:
            find_format(Source(file))
        except ReadError:
            unpack(file, folder, max_bytes=max_bytes)
            file.unlink()


def _choices(files: Sequence[Path]) -> Iterator[tuple[Path, Path | None]]:
    """Yield a file for the net and one for the weights; None to let the reader find them."""
    ordered = sorted(files, key=lambda file: (file.stat().st_size, file.name))
    for net in ordered:
        if len(ordered) > 1:
            yield from ((net, weights) for weights in ordered if weights != net)
        yield net, None


def _weights_alone(file: Path) -> ReadError:
    return ReadError("holds weights but no layers; add the file of the net", place=str(file))


def _telling(failures: Sequence[NetweaveError]) -> NetweaveError:
    """Return the most informative error: about the contents of a file whose format was recognised."""

    def rank(error: NetweaveError) -> int:
        if isinstance(error, CodeError):
            return -1
        if "not a net that Netweave knows" in str(error):
            return 3
        if "holds weights" in str(error):
            return 2
        return 0 if isinstance(error, SourceError) and ":" in (error.place or "") else 1

    return min(failures, key=rank)
