"""Tables of what is read: formats, and the layers and operators of each."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from netweave.comparison import Verdict
from netweave.formats import FORMATS
from netweave.graph import all_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "netweave"

FILE_NAME = re.compile(r"[\w-]*(\.\w[\w.]*|/)|\w+-\w+")
"""A name in the files of a format: it has an ending, is a folder, or has a dash."""


def formats_table() -> str:
    """Return the table of formats."""
    rows = [
        f"| {row.title} | {FILE_NAME.sub(lambda name: f'`{name[0]}`', row.files)} | {HOLDS[row.name]()} |"
        for row in FORMATS
    ]
    return "\n".join(("| format | files | what is read |", "|---|---|---|", *rows))


def verdicts_table() -> str:
    """Return the table of verdicts: what each says, and the exit status of a command that finds it."""
    rows = [f"| `{each.value}` | {each.exit_status} | {each.look.meaning} |" for each in Verdict]
    return "\n".join(("| verdict | status | meaning |", "|---|---|---|", *rows))


def rooms_table() -> str:
    """Return the map of the code: rooms in the order in which they may import, with their first lines."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    rows = [f"| `{room}` | {_cell(line)} |" for room, line in _first_lines(layers)]
    return "\n".join(("| in `src/netweave` | |", "|---|---|", *rows))


def _first_lines(layers: Sequence[str]) -> Iterator[tuple[str, str]]:
    for room in (name.strip(" ()") for layer in layers for name in layer.split("|")):
        for path in (SOURCE / room / "__init__.py", SOURCE / f"{room}.py"):
            if path.exists():
                yield room, (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def page() -> str:
    """Return the page that lists each type of layer and operator, with its meaning."""
    sections = [
        f"## {row.title}\n\n{_table('type', TYPES[row.name]())}" for row in FORMATS if row.name in TYPES
    ]
    own = {name: operator.source for name, operator in all_operators().items()}
    parts = (
        "# Layers and operators",
        "Generated from the readers. Anything that is not listed raises an error with the file, the line and "
        "what to do.",
        *sections,
        f"## Operators of the domain netweave\n\nOperators that ONNX lacks.\n\n{_table('operator', own)}",
    )
    return "\n\n".join(parts) + "\n"


def _table(head: str, rows: Mapping[str, str]) -> str:
    lines = [f"| `{name}` | {_cell(text)} |" for name, text in rows.items()]
    return "\n".join((f"| {head} | |", "|---|---|", *lines))


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def _first_line(function: Any) -> str:
    if isinstance(function, partial):
        function = function.func
    return (function.__doc__ or "").strip().split("\n")[0]


def _read(readers: Mapping[str, Any], inputs: Iterable[str] = ()) -> dict[str, str]:
    """Return what the readers of a format say of themselves."""
    rows = dict.fromkeys(inputs, "An input of the net.")
    return _by_name(rows | {name: _first_line(reader.read) for name, reader in readers.items()})


def _by_name(rows: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(rows.items(), key=lambda item: (item[0].lower(), item[0])))


def _caffe() -> dict[str, str]:
    from netweave.formats.caffe.inputs import INPUTS
    from netweave.formats.caffe.layers import LAYERS

    return _read(LAYERS, INPUTS)


def _mxnet() -> dict[str, str]:
    from netweave.formats.mxnet.symbol.operators import READERS

    return _read(READERS)


def _chainer() -> dict[str, str]:
    from netweave.formats.chainer.shim.functions import FUNCTIONS
    from netweave.formats.chainer.shim.links import LINKS

    rules = {f"functions.{name}": _first_line(made) for name, made in FUNCTIONS.items()}
    return _by_name(rules | {f"links.{name}": _first_line(made) for name, made in LINKS.items()})


def _darknet() -> dict[str, str]:
    from netweave.formats.darknet.layers import LAYERS

    return _read(LAYERS)


def _singa() -> dict[str, str]:
    from netweave.formats.singa.inputs import INPUTS
    from netweave.formats.singa.layers import LAYERS

    return _read(LAYERS, INPUTS)


def _tensorflow() -> dict[str, str]:
    from netweave.formats.tensorflow.operators import READERS

    return _read(READERS)


def _keras() -> dict[str, str]:
    from netweave.formats.keras.layers import READERS

    return _read(READERS)


def _tflite() -> dict[str, str]:
    from netweave.formats.tensorflow.lite.operators import LITE_READERS

    return _by_name({name: _first_line(reader.read.args[0]) for name, reader in LITE_READERS.items()})


def _openvino() -> dict[str, str]:
    from netweave.formats.openvino.operators import READERS

    return _read(READERS)


TYPES: dict[str, Callable[[], dict[str, str]]] = {
    "caffe": _caffe,
    "mxnet": _mxnet,
    "darknet": _darknet,
    "singa": _singa,
    "keras": _keras,
    "tensorflow": _tensorflow,
    "tensorflow.lite": _tflite,
    "openvino": _openvino,
    "chainer": _chainer,
}
"""What the types of a format are read as; ONNX's own list is in its specification."""

HOLDS: dict[str, Callable[[], str]] = {
    "caffe": lambda: (
        f"{len(_caffe())} layer types, in every generation of the format (V0, V1, V2), with phases and stages"
    ),
    "mxnet": lambda: f"{len(_mxnet())} operators, in files of every MXNet version",
    "arrays": lambda: "arrays by name; pickles are parsed without running code",
    "darknet": lambda: f"{len(_darknet())} layer types; YOLO v1 to v4 and the classifiers",
    "singa": lambda: (
        f"{len(_singa())} layer types of SINGA 0.1 to 0.3, with phases, unrolled recurrent layers and RBMs"
    ),
    "chainer": lambda: f"{len(_chainer())} functions and links, traced in a sandbox",
    "jax": lambda: (
        "functions of a tree of parameters, models of Flax and Equinox, "
        "traced to a jaxpr in a sandbox; needs JAX"
    ),
    "onnx": lambda: f"every operator of opset 1 to {onnx.defs.onnx_opset_version()}; also written",
    "keras": lambda: (
        f"{len(_keras())} layers and operations of Keras 2 and 3, and code with layers of its own or "
        "of KerasHub; source is also written"
    ),
    "tensorflow": lambda: f"{len(_tensorflow())} operators, in frozen graphs, checkpoints and SavedModels",
    "tensorflow.lite": lambda: (
        f"{len(_tflite())} operators; integers of quantised nets are read as the real numbers that they "
        "stand for"
    ),
    "openvino": lambda: f"{len(_openvino())} operators of OpenVINO IR, versions 10 and 11",
    "pytorch": lambda: (
        "model files with state dicts, TorchScript, exported programs, modules in memory; source is also "
        "written"
    ),
}
"""What is read of each format, in words."""
