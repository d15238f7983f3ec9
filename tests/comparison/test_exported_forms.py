"""What exporters write around the layers of a module: sizes, scalings by 1, choices that are never taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict
from netweave.comparison.metric import comparable
from tests.comparison.onnx_text import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.comparison import Comparison


def stored(name: str, *shape: int, values: np.ndarray | None = None) -> str:
    """Return an array as ONNX's text declares it, drawn by its name unless its values are given."""
    seed = sum(map(ord, name))
    array = np.random.default_rng(seed).standard_normal(shape) / 4 if values is None else values
    kind = "int64" if array.dtype.kind == "i" else "float"
    numbers = ", ".join(f"{each}" if kind == "int64" else f"{each:.7g}" for each in array.reshape(-1))
    return f"{kind}[{','.join(map(str, shape))}] {name} = {{{numbers}}}"


def whole(name: str, *numbers: int) -> str:
    """Return a row of whole numbers as ONNX's text declares it."""
    return stored(name, len(numbers), values=np.array(numbers))


TOKENS = """
g (float[N,3,16,24] x) => (float[N,6] y)
<{arrays}>
{{
  image = Conv<strides=[8,8]>(x, patch)
  rows = Reshape(image, by_channel)
  tokens = Transpose<perm=[0,2,1]>(rows)
  {expand}
  all = Concat<axis=1>(class, tokens)
  {positions}
  placed = Add(all, position)
  {norm}
  score = MatMul(normed, head)
  y = ReduceMean<axes=[1], keepdims=0>(score)
}}
"""

TRACED = {
    "expand": """
  sizes = Shape(tokens)
  batch = Gather<axis=0>(sizes, first)
  one = Unsqueeze(batch, begin)
  wanted = Concat<axis=0>(one, keep, keep)
  row = Reshape(wanted, keep)
  count = Shape(row)
  ones = ConstantOfShape<value=int64[1] {1}>(count)
  kept = Mul(ones, keep)
  is_kept = Equal(row, kept)
  chosen = Where(is_kept, ones, row)
  class = Expand(token, chosen)""",
    "positions": """
  whole = Shape(all)
  length = Gather<axis=0>(whole, second)
  end = Unsqueeze(length, begin)
  position = Slice(table, begin, end, along, along)""",
    "norm": """
  mean = ReduceMean<axes=[-1]>(placed)
  apart = Sub(placed, mean)
  square = Pow(apart, two)
  variance = ReduceMean<axes=[-1]>(square)
  more = Add(variance, epsilon)
  deviation = Sqrt(more)
  ratio = Div(apart, deviation)
  scaled = Mul(ratio, gamma)
  normed = Add(scaled, beta)""",
}
"""As PyTorch's exporter based on TorchScript writes it: ``expand`` keeps where a size is -1."""

OF_ONE = TRACED | {
    "expand": """
  row = Constant<value_ints=[1,-1,-1]>()
  count = Constant<value_ints=[3]>()"""
    + TRACED["expand"].partition("count = Shape(row)")[2],
    "positions": "position = Slice(table, begin, seven, along, along)",
}
"""Of one example: no node asks for a size, and all of them follow from constants."""

EXPORTED = {
    "expand": """
  batch = Shape<start=0, end=1>(x)
  wanted = Concat<axis=0>(batch, along, along)
  class = Expand(token, wanted)""",
    "positions": """
  height = Shape<start=2, end=3>(x)
  width = Shape<start=3, end=4>(x)
  high = Div(height, side)
  wide = Div(width, side)
  count = Mul(high, wide)
  end = Add(count, along)
  position = Slice(table, begin, end, along, along)""",
    "norm": "normed = LayerNormalization<axis=-1, epsilon=1e-5>(placed, gamma, beta)",
}
"""As the exporter based on ``torch.export`` does."""


def with_a_class_token(folder: Path, name: str, written: dict[str, str]) -> netweave.Graph:
    """A token for the class before those of an image, and the places of all, of a table."""
    arrays = [
        stored("patch", 8, 3, 8, 8),
        stored("token", 1, 1, 8),
        stored("table", 1, 9, 8),
        stored("gamma", 8, values=np.ones(8)),
        stored("beta", 8, values=np.zeros(8)),
        stored("head", 8, 6),
        "float two = {2.0}",
        "float epsilon = {1e-5}",
        "int64 first = {0}",
        "int64 second = {1}",
        whole("by_channel", 0, 8, -1),
        whole("begin", 0),
        whole("along", 1),
        whole("keep", -1),
        whole("side", 8),
        whole("seven", 7),
    ]
    text = TOKENS.format(arrays=", ".join(arrays), **written)
    return read_text(text.replace("float[N,", "float[1,") if written is OF_ONE else text, folder, name)


def test_sizes_that_are_written_otherwise_are_no_layers(tmp_path: Path) -> None:
    """Untrained, the normalisation's scaling changes nothing, and its parts hold the same values."""
    found = netweave.compare(
        with_a_class_token(tmp_path, "a", EXPORTED), with_a_class_token(tmp_path, "b", TRACED)
    )
    assert found.verdict is Verdict.IDENTICAL, found.sentence
    assert not any("Shape" in node for group in found.groups for node in group.nodes_a)


def test_sizes_that_follow_from_constants_are_known(tmp_path: Path) -> None:
    nets = with_a_class_token(tmp_path, "a", OF_ONE), with_a_class_token(tmp_path, "b", EXPORTED)
    assert netweave.compare(*nets).verdict is Verdict.IDENTICAL
    assert any(node.op_type == "LayerNormalization" for node in comparable(nets[0]).nodes)


def test_a_size_that_is_computed_wrongly_shows_where_it_is_used(tmp_path: Path) -> None:
    text = EXPORTED["positions"].replace("Slice(table, begin, end", "Slice(table, along, later")
    wrong = EXPORTED | {"positions": text.replace("position =", "later = Add(end, along)\n  position =")}
    found = netweave.compare(
        with_a_class_token(tmp_path, "a", EXPORTED), with_a_class_token(tmp_path, "b", wrong)
    )
    assert found.verdict is Verdict.DIFFERENT


SQUEEZED = """
g (float[N,8,6,5] x) => (float[N,3] y)
<{arrays}>
{{
  image = Conv<pads=[1,1,1,1]>(x, filters)
  {norm}
  {softplus}
  mean = ReduceMean(soft, spatial)
  weight = Sigmoid(mean)
  weighted = Mul(soft, weight)
  pooled = ReduceMean<keepdims=0>(weighted, spatial)
  y = MatMul(pooled, head)
}}
"""

GROUP_NORM = "normed = GroupNormalization<num_groups=4, epsilon=1e-5>(image, gamma, beta)"

PARTED_GROUP_NORM = """
  groups = Reshape(image, by_group)
  plain = InstanceNormalization<epsilon=1e-5>(groups, ones, zeros)
  sizes = Shape(image)
  apart = Reshape(plain, sizes)
  scaled = Mul(apart, scale)
  normed = Add(scaled, shift)"""

SOFTPLUS = "soft = Softplus(normed)"

CHOSEN_SOFTPLUS = """
  log = Softplus(normed)
  is_large = Greater(normed, twenty)
  soft = Where(is_large, normed, log)"""

DIVIDED_SOFTPLUS = CHOSEN_SOFTPLUS.replace("log)", "divided)").replace(
    "is_large =", "divided = Div(log, one)\n  is_large ="
)


def squeezed(folder: Path, name: str, norm: str, softplus: str, *, threshold: float = 20) -> netweave.Graph:
    """An untrained normalisation and a softplus before a mean, which hides what is wrong with them."""
    arrays = [
        stored("filters", 8, 8, 3, 3),
        stored("gamma", 8, values=np.ones(8)),
        stored("beta", 8, values=np.zeros(8)),
        stored("ones", 4, values=np.ones(4)),
        stored("zeros", 4, values=np.zeros(4)),
        stored("scale", 8, 1, 1, values=np.ones(8)),
        stored("shift", 8, 1, 1, values=np.zeros(8)),
        stored("head", 8, 3),
        "float one = {1.0}",
        f"float twenty = {{{threshold:.1f}}}",
        whole("by_group", 0, 4, -1),
        whole("spatial", 2, 3),
    ]
    text = SQUEEZED.format(arrays=", ".join(arrays), norm=norm, softplus=softplus)
    return read_text(text, folder, name, opset=21)


def compared(folder: Path, norm: str, softplus: str, *, threshold: float = 20) -> Comparison:
    a = squeezed(folder, "a", GROUP_NORM, SOFTPLUS)
    return netweave.compare(a, squeezed(folder, "b", norm, softplus, threshold=threshold))


@pytest.mark.parametrize(
    ("norm", "softplus"),
    [(PARTED_GROUP_NORM, SOFTPLUS), (GROUP_NORM, CHOSEN_SOFTPLUS)],
    ids=["scaled by 1", "a choice never taken"],
)
def test_parts_without_effect_before_a_mean_are_no_difference(
    tmp_path: Path, norm: str, softplus: str
) -> None:
    found = compared(tmp_path, norm, softplus)
    assert found.equal, found.sentence


def test_a_division_by_1_is_no_layer(tmp_path: Path) -> None:
    # PyTorch divides a softplus by its beta; another layer of the other net alone must not stand for that
    a = squeezed(tmp_path, "a", GROUP_NORM, DIVIDED_SOFTPLUS)
    found = netweave.compare(a, squeezed(tmp_path, "b", PARTED_GROUP_NORM, CHOSEN_SOFTPLUS))
    assert found.equal, found.sentence


def test_a_choice_that_is_taken_is_a_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, GROUP_NORM, CHOSEN_SOFTPLUS, threshold=0.5)
    assert found.verdict is Verdict.DIFFERENT
