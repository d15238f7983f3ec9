"""Nets whose input sizes are open, or known in one of them alone: at which sizes they are compared."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import netweave
from netweave.api.writing import convert_and_verify
from netweave.comparison import Verdict
from netweave.comparison.execution.sizes import sizes_to_run
from netweave.comparison.size_search import COSTLY_MULTIPLY_ADDS, usual_samples
from tests.comparison.onnx_text import read_text
from tests.comparison.test_exported_forms import stored as drawn
from tests.comparison.test_exported_forms import whole
from tests.formats.onnx.models import model, node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def stored(*shape: int) -> np.ndarray:
    values = np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)
    return values * np.float32(np.prod(shape[1:]) ** -0.5)


UNET = (
    [
        node("Conv", "x w", "c", name="conv", pads=[1, 1, 1, 1]),
        node("MaxPool", "c", "p", name="pool", kernel_shape=[8, 8], strides=[8, 8]),
        node("ConvTranspose", "p u", "t", name="up", strides=[8, 8]),
        node("Concat", "c t", "y", name="join", axis=1),
    ],
    {"w": stored(4, 3, 3, 3), "u": stored(4, 2, 8, 8)},
    ["N", 3, "H", "W"],
)
"""Halves an image three times and joins it with what is doubled as often."""

CLIPS = (
    [
        node("Conv", "x w", "c", name="conv", pads=[1] * 6),
        node("MaxPool", "c", "p", name="pool", kernel_shape=[4, 16, 16], strides=[4, 16, 16]),
        node("Flatten", "p", "f", name="flat"),
        node("MatMul", "f d", "y", name="dense"),
    ],
    {"w": stored(2, 3, 3, 3, 3), "d": stored(2 * 4 * 7 * 7, 5)},
    ["N", 3, "D", "H", "W"],
)
"""A dense layer over clips of 16 images of 112 by 112: no cube fits."""

SEQUENCE = (
    [
        node("Add", "x positions", "s", name="add"),
        node("MatMul", "s w", "y", name="dense"),
    ],
    {"positions": stored(16, 4), "w": stored(4, 5)},
    ["N", "L", 4],
)
"""A table of 16 positions."""


def written(
    folder: Path,
    name: str,
    case: tuple[list[Any], Mapping[str, np.ndarray], Sequence[int | str]],
    *,
    changed: str = "",
) -> Path:
    nodes, arrays, shape = case
    arrays = {key: values.copy() for key, values in arrays.items()}
    if changed:
        arrays[changed].flat[0] += 1
    path = folder / f"{name}.onnx"
    path.write_bytes(model(nodes, {"x": shape}, ["y"], arrays).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("case", "size"),
    [(UNET, "3x64x96"), (CLIPS, "3x16x112x112"), (SEQUENCE, "16x4")],
    ids=["unet", "clips", "sequence"],
)
@pytest.mark.parametrize("is_damaged", [False, True])
def test_open_sizes_that_the_usual_one_does_not_fit_are_found(tmp_path, case, size, is_damaged):
    damaged = "" if not is_damaged else next(key for key in case[1] if key != "positions")
    found = netweave.compare(
        written(tmp_path, "a", case), written(tmp_path, "b", case, changed=damaged), num_samples=1
    )
    assert found.verdict is (Verdict.DIFFERENT if is_damaged else Verdict.IDENTICAL), found.sentence
    assert found.probes == (f"x 1x{size}",)
    assert [finding.mismatch for finding in found.findings] == ["weights"] * is_damaged


def test_a_net_that_is_written_is_traced_at_a_size_that_it_takes(tmp_path):
    graph = netweave.load(written(tmp_path, "a", UNET))
    assert sizes_to_run(graph) == {"x": (1, 3, 64, 96)}
    pytest.importorskip("torch")
    assert convert_and_verify(graph, tmp_path / "port.py").equal


def test_sizes_that_are_given_for_open_ones_are_those_of_the_comparison(tmp_path):
    files = [written(tmp_path, name, UNET) for name in "ab"]
    given = netweave.load(files[0], input_shapes={"x": (1, 3, 32, 48)})
    assert given.declared == {"x": (1, 3, 32, 48)}
    for pair in (files, [given, netweave.load(files[1])], [netweave.load(files[0]), given]):
        shapes = {"x": (1, 3, 32, 48)} if pair is files else None
        assert netweave.compare(*pair, input_shapes=shapes).probes == ("x 3x3x32x48",)


def test_sizes_of_the_port_are_those_of_the_original_too(tmp_path):
    """The input is called ``x`` in A and ``clip`` in B, and the sizes are given for B's alone."""
    nodes, arrays, shape = UNET
    port = tmp_path / "b.onnx"
    renamed = [node("Conv", "clip w", "c", name="conv", pads=[1, 1, 1, 1]), *nodes[1:]]
    port.write_bytes(model(renamed, {"clip": shape}, ["y"], arrays).SerializeToString())
    found = netweave.compare(written(tmp_path, "a", UNET), port, input_shapes={"clip": (1, 3, 32, 48)})
    assert (found.verdict, found.probes) == (Verdict.IDENTICAL, ("x 3x3x32x48",))


def test_inputs_that_differ_in_size_are_named_before_the_layer_that_counts_pixels(tmp_path):
    def bound(name: str, side: int) -> Path:
        nodes = [
            node("Conv", "x w", "c", name="conv", pads=[1, 1, 1, 1]),
            node("Flatten", "c", "f", name="flat"),
            node("MatMul", "f d", "y", name="dense"),
        ]
        arrays = {"w": stored(4, 3, 3, 3), "d": stored(4 * side * side, 5)}
        return written(tmp_path, name, (nodes, arrays, ["N", 3, side, side]))

    found = netweave.compare(bound("a", 8), bound("b", 12))
    assert found.verdict is Verdict.UNDECIDED
    assert found.sentence.startswith("not decidable: A takes x Nx3x8x8, and B takes x Nx3x12x12, so that")


@pytest.mark.parametrize(("width", "samples"), [(40, 3), (48, 2)])
def test_of_an_open_batch_costly_nets_are_given_fewer_samples(tmp_path, width, samples):
    """Four convolutions of 3 by 3 over 512 by 512 pixels, which cost what follows from these numbers."""
    nodes = [
        node("Conv", f"{before} w", after, name=after, pads=[1, 1, 1, 1])
        for before, after in pairwise(["x", "a", "b", "c", "y"])
    ]
    case = nodes, {"w": stored(width, width, 3, 3)}, ["N", width, 512, 512]
    graph = netweave.load(written(tmp_path, "a", case))
    is_costly = 3 * 4 * 512 * 512 * 9 * width * width > COSTLY_MULTIPLY_ADDS
    assert is_costly == (width == 48)
    assert usual_samples(graph) == samples


PATCHES = """
g (float[N,3,H,W] x) => (float[N,6] y) <ARRAYS> {
  image = Conv<strides=[8,8]>(x, patch) rows = Reshape(image, sizes) tokens = Transpose<perm=[0,2,1]>(rows)
  score = MatMul(tokens, head) y = ReduceMean<axes=[1], keepdims=0>(score)
}"""


def test_a_size_at_which_a_net_makes_other_examples_of_the_batch_is_none_of_its_sizes(tmp_path):
    """As dynamo exports a vision transformer: -1 for the batch, and the patches of one size of images."""
    arrays = [drawn("patch", 8, 3, 8, 8), drawn("head", 8, 6)]
    takes_any, takes_one = (
        read_text(
            PATCHES.replace("H,W", image).replace("ARRAYS", ", ".join([*arrays, whole("sizes", *sizes)])),
            tmp_path,
            image,
        )
        for image, sizes in (("H,W", (0, 8, -1)), ("48,24", (-1, 8, 18)))
    )
    assert netweave.compare(takes_any, takes_one).verdict is Verdict.IDENTICAL
