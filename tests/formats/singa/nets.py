"""Small nets as text, read with weights that the oracle draws, and run beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import netweave
from netweave.files import Source
from netweave.formats.singa.reader import read
from tests.oracles.singa_net import Walk, checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

DATA = (
    'layer { name: "data" type: kRecordInput store_conf { backend: "kvfile" path: "x" batchsize: 2 %s } }\n'
)


def data(*sizes: int) -> str:
    """An input layer as text: records of some sizes."""
    return DATA % " ".join(f"shape: {size}" for size in sizes)


def layer(kind: str, settings: str = "", *, sources: str = "data", name: str = "y", params: str = "") -> str:
    """One layer as text; ``params`` are names of parameters."""
    ends = " ".join(f'srclayers: "{source}"' for source in sources.split())
    named = " ".join(f'param {{ name: "{param}" }}' for param in params.split())
    return f'layer {{ name: "{name}" type: {kind} {ends} {named} {settings} }}\n'


def conf(*layers: str, net: str = "", job: str = "") -> str:
    """A whole job.conf."""
    return f'name: "net"\n{job}\nneuralnet {{ {net}\n{"".join(layers)}}}\n'


def load(folder: Path, text: str, **wishes: object) -> Graph:
    """Write a net into a folder and read it."""
    path = folder / "job.conf"
    path.write_text(text)
    return read(Source(path, **wishes))


def check(
    folder: Path,
    text: str,
    arrays: dict[str, np.ndarray],
    *,
    phase: str = "TEST",
    prefix: str = "0#",
    given: dict[str, tuple[int, ...]] | None = None,
) -> Walk:
    """Hold every layer and metric of a net against the oracle, on its drawn weights."""
    walk = Walk(text, phase, arrays)
    weights = folder / "step9-worker0" if walk.weights else None
    if weights:
        weights.write_bytes(checkpoint(walk.weights, prefix=prefix))
    graph = load(folder, text, weights=weights, phase=phase, input_shapes=given or {})
    assert graph.loaded
    names = {value.name for value in graph.inputs}
    assert names == {name for name in arrays if name in names}
    expected = {name: array for name, array in walk.made.items() if name not in arrays} | walk.metrics
    values = graph.values()
    taps = [name for name in expected if name in values]
    assert set(walk.metrics) <= set(taps)
    found = netweave.run(graph, {name: arrays[name] for name in names}, taps=taps)
    for name in taps:
        array = np.asarray(expected[name])
        rms = float(np.sqrt(np.mean(array**2))) or 1.0
        np.testing.assert_allclose(
            np.asarray(found[name]).reshape(array.shape), array, atol=2e-5 * rms, err_msg=name
        )
    return walk


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normal numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)
