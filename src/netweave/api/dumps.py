"""Dumps: the activations of a run in a file, and their capture from a module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.arguments import save_arrays
from netweave.api.reading import load
from netweave.errors import NetweaveError, SourceError, UsageError
from netweave.files.npy import parse_npy
from netweave.files.output_files import replacing_file
from netweave.files.printed_tensors import read_printed_tensors
from netweave.files.source import read_bytes, read_head
from netweave.formats.pytorch import is_module
from netweave.formats.pytorch.state import read_tensors
from netweave.graph import Graph, graph_of_weights
from netweave.graph.stored import stored_arrays

if TYPE_CHECKING:
    from netweave.comparison import Comparison

PREFIX = "dump:"
"""Prefix of the name of a file of activations, whatever else it may be taken for."""

MARK = "netweave.capture"
"""A tensor of this name says that the others are activations; ``capture`` adds it."""

Arrays = dict[str, np.ndarray]


def read_dump(name: Any) -> tuple[Graph, Arrays] | None:
    """Return the tensors of a file of activations; None for anything else.

    Args:
        name: A net as it was named: ``dump:FILE`` is a dump, and so is what ``capture`` saved. FILE is an
            ``.npz``, a ``.safetensors``, a ``.pt`` with a dict of tensors, or a folder of such files.

    Raises:
        ReadError: The file cannot be read.
    """
    text = str(name) if isinstance(name, str | Path) else ""
    path = Path(text.removeprefix(PREFIX))
    if not text.startswith(PREFIX) and not _is_marked(path):
        return None
    arrays = read_activations(path)
    arrays.pop(MARK, None)
    return graph_of_weights(arrays, format_name="arrays", file=str(path)), arrays


def _is_marked(path: Path) -> bool:
    """Return whether a file says that it holds activations, in its first or last bytes."""
    if path.is_dir():
        return (path / f"{MARK}.npy").is_file()
    if path.suffix not in {".npz", ".safetensors"} or not path.is_file():
        return False
    if path.suffix == ".npz":
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - (1 << 20)))
            return f"{MARK}.npy".encode() in stream.read()
    return f'"{MARK}"'.encode() in read_head(path, 1 << 20)


def compare_with_dump(a: Any, b: Any, settings: Mapping[str, Any], *, probe: Any = None) -> Comparison | None:
    """Compare a net with a dump, or two dumps; None if B is no dump.

    Args:
        a: The net, as for ``load``; or a dump.
        b: The dump.
        settings: Options of ``load`` for the net.
        probe: Inputs of the run, as an ``.npz`` or arrays by name; text that llama.cpp prints lacks them.

    Raises:
        SourceError: A file cannot be read.
        UsageError: The dump lacks inputs of the net, or has its own beside a probe, or A alone is a dump.
    """
    first, second = read_dump(a), read_dump(b)
    if second is None:
        if first is not None:
            raise UsageError(
                f"{a}: is a dump, which is compared with as the second net: netweave compare NET {a}"
            )
        return None
    from netweave.comparison.dumps import compare_dump, compare_dumps, compare_sequences, join_inputs

    graph, arrays = second
    is_printed = Path(graph.files[0]).suffix in PRINTED
    if probe is not None:
        if not is_printed:
            raise UsageError(
                "a dump holds one run with its own inputs; it is compared without the option probe"
            )
        given = probe if isinstance(probe, Mapping) else read_activations(Path(probe))
        arrays = arrays | {f"input.{name}": x for name, x in given.items()}
    elif is_printed and first is None:
        raise UsageError(f"{b}: llama.cpp prints no inputs; give those of the run with --probe FILE (.npz)")
    if first is not None:
        return compare_dumps(first[0], graph, first[1], arrays)

    def compare_part(part: Arrays) -> Comparison:
        net = _net(a, graph, join_inputs(part), dict(settings))
        return compare_dump(net, graph, part, is_printed=is_printed)

    return compare_sequences(arrays, compare_part)


def _net(a: Any, dump: Graph, arrays: Arrays, settings: dict[str, Any]) -> Graph:
    """Read a net at the sizes that its inputs have in a dump."""
    from netweave.comparison.dumps import choose_inputs

    if isinstance(a, Graph):
        return a
    given = dict(settings.pop("input_shapes", None) or {})
    file = dump.files[0]
    try:
        graph = load(a, input_shapes=given, **settings)
    except SourceError as error:
        shapes = {name: _shape_of(name, arrays) for name in error.open_shapes}
        known = {name: shape for name, shape in shapes.items() if shape is not None}
        if not known:
            raise
        return load(a, input_shapes=given | known, **settings)
    chosen = choose_inputs(graph, arrays, file=file)[0]
    wanted = {name: tuple(x.shape) for name, x in chosen.items()}
    if graph.trace is None or all(graph.declared.get(name) == shape for name, shape in wanted.items()):
        return graph
    try:
        return load(a, input_shapes=given | wanted, **settings)
    except NetweaveError:
        return graph


def _shape_of(name: str, arrays: Arrays) -> tuple[int, ...] | None:
    named = [x for key, x in arrays.items() if key == name or key.rpartition(".")[2] == name]
    return tuple(named[0].shape) if named else None


class capture:  # noqa: N801 (a context manager, used as a verb)
    """Record what the modules of a PyTorch module compute while it runs.

    >>> with netweave.capture(module) as dump:  # doctest: +SKIP
    ...     module(x)
    >>> dump.save("dump.npz")  # doctest: +SKIP

    Tensors are named after the modules that return them (``layers.0.attn``); further calls of a module end in
    ``#1``, parts of what it returns in ``.0``, ``.1`` or a key. Inputs are ``input.NAME``.

    Attributes:
        tensors: What was recorded so far, in the order in which it was computed.

    Raises:
        UsageError: It is no PyTorch module.
    """

    def __init__(self, module: Any) -> None:
        if not is_module(module):
            raise UsageError(f"capture takes a PyTorch nn.Module, not {type(module).__name__}")
        self._module = module
        self._hooks: list[Any] = []
        self._calls: dict[str, int] = {}
        self.tensors: Arrays = {}

    def __enter__(self) -> capture:
        forward = inspect.signature(self._module.forward)

        def on_inputs(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for name, value in forward.bind_partial(*args, **kwargs).arguments.items():
                self._keep(f"input.{name}", value)

        self._hooks.append(self._module.register_forward_pre_hook(on_inputs, with_kwargs=True))
        for name, module in self._module.named_modules():
            self._hooks.append(module.register_forward_hook(self._on_output(name or "output")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _on_output(self, name: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], output: Any) -> None:
            self._keep(name, output)

        return hook

    def _keep(self, name: str, value: Any) -> None:
        count = self._calls.get(name, 0)
        self._calls[name] = count + 1
        for key, tensor in captured_tensors(f"{name}#{count}" if count else name, value):
            self.tensors[key] = tensor

    def save(self, file: str | Path) -> None:
        """Write the tensors to an ``.npz`` or ``.safetensors``, marked as activations.

        Raises:
            UsageError: Nothing was recorded, or the file has another suffix.
            WriteError: The file cannot be written.
        """
        if not self.tensors:
            raise UsageError("nothing was recorded: run the module inside the with block, before save")
        marked = {**self.tensors, MARK: np.ones(1, np.int8)}
        if Path(file).suffix == ".safetensors":
            from safetensors.numpy import save_file

            with replacing_file(Path(file)) as new:
                save_file({name: np.ascontiguousarray(x) for name, x in marked.items()}, str(new))
        elif Path(file).suffix == ".npz":
            save_arrays(file, marked)
        else:
            raise UsageError(f"{file}: captured tensors are saved as .npz or .safetensors")


def captured_tensors(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors in what a module was given or returned; those of half precision as float32."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        yield name, np.array((tensor.float() if tensor.is_floating_point() else tensor).numpy())
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from captured_tensors(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from captured_tensors(f"{name}.{index}", item)


PICKLED = {".pt", ".pth", ".bin"}

PRINTED = {".txt", ".log"}
"""Text that llama.cpp prints."""

SUFFIXES = {".npy", ".npz", ".safetensors", ".pt", ".pth"}
"""Files of a folder that are read."""

OF_PROCESS = {"dump_index", "recompute_status"}
"""Tags in names of SGLang's dumper that say nothing of the tensor."""


def read_activations(path: Path) -> Arrays:
    """Return the tensors of a file or of all files in a folder, by the file and the name in it.

    The layouts, and where they were taken from, are in decision 0247.

    Raises:
        UsageError: A folder holds no file of tensors.
        ReadError: A file is damaged.
    """
    if not path.is_dir():
        return _of_file(path)
    files = sorted((file for file in path.rglob("*") if file.suffix in SUFFIXES), key=_order)
    if not files:
        raise UsageError(
            f"{path}: holds no .npy, .npz, .pt or .safetensors; a dump is a folder of them, or one file"
        )
    arrays: Arrays = {}
    for file in files:
        name = _name_of(file.relative_to(path).with_suffix(""))
        for key, x in _of_file(file).items():
            arrays[f"{name}/{key}" if key not in {"", "value"} else name] = x
    return arrays


def _order(file: Path) -> tuple[int, int, str]:
    """Return where a file stands: by the number that SGLang's dumper gives it, else by its time."""
    index = re.search(r"dump_index=(\d+)", file.name)
    return (int(index[1]), 0, file.name) if index else (0, file.stat().st_mtime_ns, file.name)


def _of_file(file: Path) -> Arrays:
    if file.suffix == ".npy":
        return {"": parse_npy(read_bytes(file), place=str(file))}
    if file.suffix in PRINTED:
        return read_printed_tensors(file)
    if file.suffix in PICKLED:
        return read_tensors(file)
    return dict(stored_arrays(load(file)))


def _name_of(path: Path) -> str:
    """Return the name of a file's tensor: SGLang's dumper writes ``step=0___rank=1___name=h___layer_id=3``.

    >>> _name_of(Path("step=0___rank=1___dump_index=7___name=h___layer_id=3"))
    'step=0/rank=1/h/layer_id=3'
    """
    tags = dict(part.partition("=")[::2] for part in path.name.split("___"))
    if "name" not in tags:
        return path.as_posix()
    shown = [
        value if key == "name" else f"{key}={value}" for key, value in tags.items() if key not in OF_PROCESS
    ]
    return "/".join(shown)
