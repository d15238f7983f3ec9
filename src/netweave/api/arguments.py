"""Arguments of the API."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, UsageError, shortened
from netweave.files import Source, read_bytes
from netweave.files.npy import MAGIC, parse_npy, read_npz
from netweave.files.output_files import replacing_file
from netweave.formats.pytorch import is_module
from netweave.graph import Graph
from netweave.graph.passes.rewriting import likely_size, open_shapes
from netweave.installation import install_command

PHASES = ("TEST", "TRAIN", "VALIDATE")


def check_phase(phase: Any) -> str:
    """Return a phase.

    Raises:
        UsageError: There is no such phase.
    """
    if phase not in PHASES:
        raise UsageError(f"phase is {phase!r}, expected {' or '.join(PHASES)}")
    return str(phase)


def check_shapes(shapes: Any) -> dict[str, tuple[int, ...]]:
    """Return input sizes by name.

    Raises:
        UsageError: The value is not a mapping from names to sizes.
    """
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise UsageError(f"input_shapes is {shapes!r}, expected sizes by name: {{'data': (1, 3, 224, 224)}}")
    for name, sizes in shapes.items():
        listed = isinstance(sizes, Sequence) and not isinstance(sizes, str)
        if not isinstance(name, str) or not listed or not all(_is_size(size) for size in sizes):
            raise UsageError(
                f"input_shapes[{name!r}] is {sizes!r}, expected sizes such as (1, 3, 224, 224), each > 0"
            )
    return {name: tuple(int(size) for size in sizes) for name, sizes in shapes.items()}


def check_names(value: Any, *, what: str) -> list[str]:
    """Return a list of names; a single string is rejected.

    Raises:
        UsageError: The value is a string, or contains something other than strings.
    """
    if isinstance(value, str):
        raise UsageError(f"{what} is the string {value!r}, expected a list of names: [{value!r}]")
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{what} is {value!r}, expected a list of names")
    return list(value)


def check_arrays(value: Any, *, what: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Return arrays by name.

    Raises:
        UsageError: The value is something else, such as an array.
    """
    if not isinstance(value, Mapping):
        example = names[0] if names else "data"
        raise UsageError(
            f"{what} is of type {type(value).__name__}, expected arrays by name: {{{example!r}: array}}"
        )
    return value


def check_text(value: Any, *, what: str, example: str) -> str:
    """Return a name.

    Raises:
        UsageError: The value is no string.
    """
    if not isinstance(value, str):
        raise UsageError(f"{what} is {shortened(repr(value), 60)}, expected a name such as {example!r}")
    return value


def check_tolerance(value: Any) -> float:
    """Return a tolerance.

    Raises:
        UsageError: The value is not a number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value) or value <= 0:
        raise UsageError(f"tolerance is {value!r}, expected a number > 0, such as 0.001")
    return float(value)


def check_count(value: Any, what: str, *, least: int) -> int:
    """Return a whole number.

    Raises:
        UsageError: The value is something else, or is too small.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
        raise UsageError(f"{what} is {value!r}, expected a whole number >= {least}")
    return int(value)


def check_net(value: Any, *, what: str) -> Any:
    """Return a net: a Graph, the name of a file, or a PyTorch module in memory.

    Raises:
        UsageError: The value is something else.
    """
    if isinstance(value, Graph | str | Path) or is_module(value):
        return value
    raise UsageError(
        f"{what} is {shortened(repr(value), 60)} ({type(value).__name__}), expected the name of a file, "
        "a Graph, or a PyTorch nn.Module"
    )


def check_nets(values: Any, *, least: int, named: bool = False) -> list[Any]:
    """Return several nets as a list; ``named`` ones may be pairs of a name and a net.

    Raises:
        UsageError: The value is one net, or holds something that is none, or too few.
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise UsageError(f"nets is {shortened(repr(values), 60)}, expected a list of nets: [a, b]")
    if len(values) < least:
        raise UsageError(f"nets has {len(values)} entries, expected at least {least}: [a, b]")
    nets = [value[1] if named and isinstance(value, tuple) and len(value) == 2 else value for value in values]
    return [check_net(net, what=f"nets[{index}]") for index, net in enumerate(nets)]


def check_file(value: Any, *, what: str) -> Path:
    """Return the name of a file.

    Raises:
        UsageError: The value is neither a string nor a path.
    """
    if not isinstance(value, str | Path):
        raise UsageError(f"{what} is of type {type(value).__name__}, expected the name of a file")
    return Path(value)


def check_graph(value: Any) -> Graph:
    """Return a net.

    Raises:
        UsageError: The value is something else, such as a file name.
    """
    if not isinstance(value, Graph):
        raise UsageError(
            f"the net is of type {type(value).__name__}, expected a Graph: netweave.load reads one from files"
        )
    return value


def _is_size(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and int(value) > 0


def data_paths(data: Mapping[str, str | Path] | str | Path | None) -> dict[str, str]:
    """Return paths of records by phase; what is given for all phases is under ``""``."""
    paths = {"": data} if isinstance(data, str | Path) else data or {}
    return {phase: str(path) for phase, path in paths.items()}


ZIP_MAGIC = b"PK"


def load_arrays(file: str | Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read arrays by name.

    Args:
        file: An ``.npz`` with named arrays, or an ``.npy`` with a single array.
        names: The expected names; an ``.npy`` needs exactly one.

    Raises:
        ReadError: The file cannot be read, or has another format; pickled objects are never loaded.
        UsageError: An ``.npy`` is given but more than one name is expected.
    """
    path, place = Path(file), str(file)
    head = Source(path).head(8)
    if head.startswith(ZIP_MAGIC):
        return read_npz(path, place=place)
    if not head.startswith(MAGIC):
        raise ReadError(
            f"not an .npy or .npz of plain arrays (it begins with {head!r}); write one with numpy.save or "
            "numpy.savez",
            place=place,
        )
    content = parse_npy(read_bytes(path), place=place)
    if len(names) != 1:
        raise UsageError(
            f"{file}: holds one array, expected {', '.join(names)}; use an .npz with these names"
        )
    return {names[0]: content}


def save_arrays(file: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to an ``.npz`` or ``.h5``, or a single one to an ``.npy``, ``.txt`` or ``.csv``.

    In text, each row holds one entry of the first axis, separated by spaces or commas.

    Raises:
        UsageError: The suffix is unknown, the format holds only one array and there are more, or h5py is not
            installed.
        WriteError: The file cannot be written; the old one is untouched.
    """
    suffix = Path(file).suffix
    if suffix not in _WRITERS:
        raise UsageError(f"{file}: unknown suffix, expected {', '.join(_WRITERS)}")
    if suffix not in {".npz", ".h5"} and len(arrays) != 1:
        raise UsageError(
            f"{file}: an {suffix} holds one array, but there are {len(arrays)}; write an .npz or .h5"
        )
    with replacing_file(Path(file)) as new, new.open("wb") as stream:
        _WRITERS[suffix](stream, arrays)


def _write_text(stream: BinaryIO, arrays: Mapping[str, np.ndarray], between: str) -> None:
    (array,) = arrays.values()
    # nine digits round-trip every float32
    np.savetxt(stream, array.reshape(len(array), -1) if array.ndim else array[None], "%.9g", between)


def _write_hdf5(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    try:
        import h5py
    except ImportError as error:
        raise UsageError(f"HDF5 needs h5py; install it with: {install_command('hdf5')}") from error
    content = io.BytesIO()  # HDF5 does not survive a disk that fills up
    with h5py.File(content, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    stream.write(content.getbuffer())


def _write_archive(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    # numpy.savez takes the names as keywords, and so refuses an array called "file"
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


_WRITERS: dict[str, Callable[[BinaryIO, Mapping[str, np.ndarray]], None]] = {
    ".npz": _write_archive,
    ".npy": lambda stream, arrays: np.save(stream, next(iter(arrays.values()))),
    ".h5": _write_hdf5,
    ".txt": lambda stream, arrays: _write_text(stream, arrays, " "),
    ".csv": lambda stream, arrays: _write_text(stream, arrays, ","),
}
"""The writer for each file suffix."""


def draw_inputs(graph: Graph, seed: int, *, batch: int | None = None) -> dict[str, np.ndarray]:
    """Return random inputs for a net: normal noise, and zeros for integer inputs.

    The batch size is the one that the source declares for this input or, if it declares none, for any other
    input; otherwise 1. A height or width that the source leaves open gets a value that fits the dense layers
    that follow.

    Args:
        graph: The net.
        seed: Seed of the random values; equal seeds give equal values.
        batch: Batch size, instead of the declared one.

    Raises:
        UsageError: A size is unknown.
    """
    generator = np.random.default_rng(seed)
    size = likely_size(graph) if open_shapes(graph) else None
    shared = [
        v for v in graph.inputs if v.shape is not None and len(v.shape) and not isinstance(v.shape[0], int)
    ]
    declared = (graph.declared.get(value.name or "") for value in shared)
    usual = next((sizes[0] for sizes in declared if sizes and sizes[0]), 1)
    return {
        value.name or "": _drawn(value, _sizes(value, graph, size, batch, usual), generator)
        for value in graph.inputs
    }


def _drawn(value: ir.Value, sizes: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    noise = generator.standard_normal(sizes, dtype=np.float32)
    dtype = value.dtype.numpy() if value.dtype else np.dtype(np.float32)
    return noise.astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(sizes, dtype)


def _sizes(
    value: ir.Value, graph: Graph, open_size: int | None, batch: int | None, usual_batch: int
) -> tuple[int, ...]:
    declared = graph.declared.get(value.name or "", ())
    sizes = [dim if isinstance(dim, int) else open_size for dim in value.shape or ()]
    if sizes and value.shape and not isinstance(value.shape[0], int):
        sizes[0] = batch or (declared[0] if declared else None) or usual_batch
    if value.shape is None or None in sizes:
        raise UsageError(
            f"the size of input {value.name!r} is unknown ({value.shape}); "
            f"set it with --input-shape {value.name}=SIZES, or pass the array"
        )
    return tuple(size for size in sizes if size is not None)
