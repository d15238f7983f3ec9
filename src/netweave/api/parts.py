"""Nets from unlabelled files, as users drop them on a page."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from netweave.api.inspecting import as_far_as_known
from netweave.api.reading import load
from netweave.errors import CodeError, NetweaveError, ReadError, SourceError, UsageError
from netweave.files.checksums import SUFFIX as CHECKSUM_SUFFIX
from netweave.files.source import Source
from netweave.files.zipped import unpack
from netweave.formats import FORMATS, Format, find_format
from netweave.graph import Graph, known_shape

WEIGHTS = "weights that fit no net here"


def formats() -> tuple[Format, ...]:
    """Return the formats that can be read."""
    return FORMATS


def load_parts(
    files: Sequence[Path],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    code: bool = True,
    entry: str = "",
    phase: str = "TEST",
    stages: Sequence[str] = (),
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
        phase: As for ``load``.
        stages: As for ``load``.

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
            graph = load(
                named,
                weights,
                input_shapes=input_shapes,
                phase=phase,
                stages=stages,
                code=code,
                around=False,
            )
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


@dataclass(frozen=True, slots=True)
class SortedParts:
    """Files sorted into nets.

    Attributes:
        nets: Each net with its files: those that it was read from, and those that these name.
        unread: Files that are nets of their own but cannot be read as they are: they contain code, or lack
            the sizes of inputs. With sizes to try, which are those of the first net.
        unused: Files of no net, with what they are.
    """

    nets: tuple[tuple[Graph, tuple[Path, ...]], ...]
    unread: dict[Path, dict[str, list[int]]]
    unused: dict[Path, str]


def sort_parts(
    files: Sequence[Path],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    code: bool = True,
    entry: str = "",
) -> SortedParts:
    """Sort files into nets: each file of layers with the weights that fit it.

    Of a single file that is no net as a whole, what is known is returned (see ``load_for_inspection``).

    Args:
        files: The files of one net or more, all in one folder.
        input_shapes: Input sizes by name for the first net, as for ``load_parts``.
        code: Whether files that contain code may be read; see ``load``.
        entry: The class or function that constructs the first net, if a Python file has several.

    Raises:
        SourceError: No net can be read; this is the error of the most promising files.
        UsageError: There are no files, or sizes are given for an unknown input.
    """
    try:
        first = load_parts(files, input_shapes=input_shapes, code=code, entry=entry)
    except NetweaveError as error:
        asks_for_sizes = isinstance(error, SourceError) and bool(error.open_shapes or error.open_inputs)
        if len(files) > 1 or asks_for_sizes:
            raise
        first = as_far_as_known(files[0], error)
    nets = [(first, _files_of(first, files))]
    while rest := [file for file in files if not any(file in own for _, own in nets)]:
        try:
            graph = load_parts(rest, code=code)
        except NetweaveError:
            break
        nets.append((graph, _files_of(graph, rest)))
    return SortedParts(tuple(nets), *_sort_rest(first, rest, code=code))


def _sort_rest(
    first: Graph, rest: Sequence[Path], *, code: bool
) -> tuple[dict[Path, dict[str, list[int]]], dict[Path, str]]:
    """Return the nets that cannot be read as they are, and what is in no net; see ``SortedParts``."""
    unread: dict[Path, dict[str, list[int]]] = {}
    unused: dict[Path, str] = {}
    for file in rest:
        try:
            load_parts([file], code=code)
        except NetweaveError as error:
            open_inputs = error.open_inputs if isinstance(error, SourceError) else ()
            if open_inputs:
                unread[file] = _sizes_of(first, open_inputs)
            elif isinstance(error, CodeError) and not _are_weights(file, error):
                unread[file] = {}
            else:
                unused[file] = _what_it_is(error)
        else:
            unused[file] = "not needed"
    return unread, unused


def _sizes_of(first: Graph, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the sizes of a net's inputs for inputs of another, an open batch as 1; none without a match."""
    known = [known_shape(value) or () for value in first.inputs]
    if len(known) != len(names) or any(size is None for sizes in known for size in sizes[1:]):
        return {}
    filled = [[size or 1 for size in sizes] for sizes in known]
    return {name: sizes for name, sizes in zip(names, filled, strict=True) if sizes}


def _are_weights(file: Path, error: CodeError) -> bool:
    """Return whether a file that may contain code is seen without it to hold weights alone."""
    try:
        return not len(as_far_as_known(file, error).nodes)
    except NetweaveError:
        return False


def _files_of(graph: Graph, files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files that a net was read from, and those that one of these names, such as external data."""
    given = {file.resolve(): file for file in files}
    read = [Path(file).resolve() for file in graph.files]  # the net before its weights
    own = [given[path] for path in dict.fromkeys(read) if path in given]
    for known in list(own):
        own += [file for file in files if file not in own and _belongs(file, known)]
    return tuple(own)


def _belongs(file: Path, known: Path) -> bool:
    """Return whether a net's file names another file.

    The other file holds external data, shards of weights, or an imported module.
    """
    if file.name.startswith(f"{known.stem}.data-"):
        return True  # shards of TensorFlow's variables lie beside their index
    if file.name == known.name + CHECKSUM_SUFFIX:
        return True
    if file.suffix == known.suffix == ".py":
        return bool(re.search(rf"\b{re.escape(file.stem)}\b", known.read_text(errors="replace")))
    with known.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(file.name.encode()) >= 0


def _what_it_is(error: NetweaveError) -> str:
    if isinstance(error, CodeError) or "holds weights" in str(error) or "holds arrays" in str(error):
        return WEIGHTS
    return error.message if isinstance(error, SourceError) else str(error)


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
        others = [file for file in ordered if file != net]
        # where several nets have the same layers, the weights of the same name are meant
        others.sort(key=lambda file: -_same_beginning(file.name, net.name))
        yield from ((net, weights) for weights in others)
        yield net, None


def _same_beginning(a: str, b: str) -> int:
    """Return with how many characters two names begin alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


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
