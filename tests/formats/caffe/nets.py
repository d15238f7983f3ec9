"""Small nets as text, read and run; arrays as Caffe stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files import Source
from netweave.formats.caffe.reader import read
from netweave.graph import parameter_key, parameter_layout
from netweave.graph.parameters import undo_layout
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph


def inputs(**shapes: tuple[int, ...]) -> str:
    """Input layers as text."""
    rows = []
    for name, shape in shapes.items():
        dims = " ".join(f"dim: {size}" for size in shape)
        rows.append(
            f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}'
        )
    return "\n".join(rows) + "\n"


def layer(kind: str, settings: str = "", *, bottoms: str = "x", tops: str = "y") -> str:
    """One layer as text, named after its type."""
    ends = [f'bottom: "{name}"' for name in bottoms.split()] + [f'top: "{name}"' for name in tops.split()]
    return f'layer {{ name: "{kind}" type: "{kind}" {" ".join(ends)} {settings} }}\n'


def load(folder: Path, text: str, **wishes: object) -> Graph:
    """Write a net into a folder and read it."""
    path = folder / "net.prototxt"
    path.write_text(text)
    return read(Source(path, **wishes))


def run(graph: Graph, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Run a graph on ONNX Runtime."""
    return prepare(graph).run({name: np.asarray(x, np.float32) for name, x in arrays.items()})


def stored(graph: Graph) -> dict[str, np.ndarray]:
    """Return the stored arrays by key, in Caffe's layout."""
    found = {}
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        if key is not None:
            array = value.const_value.numpy()
            found[key] = undo_layout(array, parameter_layout(value), graph.parameters[key].shape)
    return found


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normal numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)
