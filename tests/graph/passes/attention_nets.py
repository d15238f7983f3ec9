"""Attention as exporters take it apart, each in its own way, as small ONNX nets.

N examples, T steps, E features, H heads, D features of each head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.formats.onnx.models import model, node, normal

if TYPE_CHECKING:
    import onnx

T, E, H, D = 5, 12, 3, 4
ROWS = {"x": ["N", T, E]}
ROOT = np.float32(math.sqrt(D))


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def dense(name: str, inputs: int = E, outputs: int = E, seed: int = 0) -> dict[str, np.ndarray]:
    return {
        f"w{name}": normal(inputs, outputs, seed=seed) / np.float32(math.sqrt(inputs)),
        f"b{name}": normal(outputs, seed=seed + 50),
    }


ARRAYS = {name: array for i, part in enumerate("qkvo") for name, array in dense(part, seed=i).items()}
PACKED = {**dense("p", E, 3 * E, seed=7), **dense("o", seed=3)}
CAUSAL = np.where(np.tri(T, dtype=bool), np.float32(0), np.float32(-np.inf))[None, None]


def projected(part: str, source: str = "x") -> list[onnx.NodeProto]:
    return [node("MatMul", f"{source} w{part}", f"{part}m"), node("Add", f"{part}m b{part}", f"{part}d")]


def parted(part: str, perm: list[int]) -> list[onnx.NodeProto]:
    return [
        node("Reshape", f"{part}d heads", f"{part}r"),
        node("Transpose", f"{part}r", f"{part}h", perm=perm),
    ]


def core(*, mask: str = "") -> list[onnx.NodeProto]:
    """Return the scores of ``qh`` and ``kt``, divided by the root, and the weighted ``vh``."""
    masked = [node("Add", f"s {mask}", "sm")] if mask else []
    return [
        node("MatMul", "qh kt", "st"),
        node("Div", "st root", "s"),
        *masked,
        node("Softmax", "sm" if mask else "s", "a", axis=-1),
        node("MatMul", "a vh", "yh"),
    ]


def joined(result: str = "y") -> list[onnx.NodeProto]:
    return [
        node("Transpose", "yh", "yt", perm=[0, 2, 1, 3]),
        node("Reshape", "yt flat", "yj"),
        node("MatMul", "yj wo", "ym"),
        node("Add", "ym bo", result),
    ]


SIZES = {"heads": ints(0, 0, H, D), "flat": ints(0, 0, E), "root": ROOT}


def by_parts(*, mask: str = "", more: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """Return BERT's form: three dense layers, heads parted, keys transposed in the same step."""
    nodes = [
        *(each for part in "qkv" for each in projected(part)),
        *parted("q", [0, 2, 1, 3]),
        *parted("v", [0, 2, 1, 3]),
        node("Reshape", "kd heads", "kr"),
        node("Transpose", "kr", "kt", perm=[0, 2, 3, 1]),
        *core(mask=mask),
        *joined(),
    ]
    return model(nodes, ROWS, ["y"], {**ARRAYS, **SIZES, **(more or {})})


def packed() -> onnx.ModelProto:
    """Return timm's form: one dense layer for all three, an axis for which, half the scale on each."""
    root = np.float32(math.sqrt(1 / ROOT))
    nodes = [
        node("MatMul", "x wp", "pm"),
        node("Add", "bp pm", "pd"),
        node("Reshape", "pd three", "pr"),
        node("Transpose", "pr", "pt", perm=[2, 0, 3, 1, 4]),
        *(node("Gather", f"pt {at}", f"{part}h", axis=0) for part, at in zip("qkv", "012", strict=True)),
        node("Mul", "qh half", "qs"),
        node("Transpose", "kh", "kt", perm=[0, 1, 3, 2]),
        node("Mul", "half kt", "ks"),
        node("MatMul", "qs ks", "s"),
        node("Softmax", "s", "a", axis=-1),
        node("MatMul", "a vh", "yh"),
        *joined(),
    ]
    places = {str(at): np.array(at) for at in range(3)}
    arrays = {**PACKED, **places, "three": ints(0, 0, 3, H, D), "flat": ints(0, 0, E), "half": root}
    return model(nodes, ROWS, ["y"], arrays)


def steps_first() -> onnx.ModelProto:
    """Return torch.nn.MultiheadAttention's form: steps first, heads in the batch, rows at the end."""
    nodes = [
        node("Transpose", "x", "xt", perm=[1, 0, 2]),
        node("MatMul", "xt wp", "pm"),
        node("Add", "pm bp", "pd"),
        node("Reshape", "pd three", "pr"),
        node("Unsqueeze", "pr zero", "pu"),
        node("Transpose", "pu", "pt", perm=[3, 1, 2, 0, 4]),
        node("Squeeze", "pt minus", "ps"),
        *(node("Gather", f"ps {at}", f"{part}d", axis=0) for part, at in zip("qkv", "012", strict=True)),
        *(node("Reshape", f"{part}d rows", f"{part}r") for part in "qkv"),
        *(node("Transpose", f"{part}r", f"{part}b", perm=[1, 0, 2]) for part in "qkv"),
        *(node("Reshape", f"{part}b apart", f"{part}h") for part in "qkv"),
        node("Transpose", "kh", "kt", perm=[0, 1, 3, 2]),
        *core(),
        node("Transpose", "yh", "yt", perm=[2, 0, 1, 3]),
        node("Reshape", "yt joined", "yj"),
        node("Gemm", "yj wo bo", "yg"),
        node("Reshape", "yg steps", "ys"),
        node("Transpose", "ys", "y", perm=[1, 0, 2]),
    ]
    places = {str(at): np.array(at) for at in range(3)}
    sizes = {
        "three": ints(0, 0, 3, E), "rows": ints(T, -1, D), "apart": ints(-1, H, T, D), "joined": ints(-1, E),
        "steps": ints(T, -1, E), "zero": ints(0), "minus": ints(3), "root": ROOT,
    }  # fmt: skip
    return model(nodes, ROWS, ["y"], {**PACKED, **places, **sizes})


def flattened() -> onnx.ModelProto:
    """Return GPT-2's form: rows of all examples through one product, then a split, and a causal mask."""
    nodes = [
        node("Reshape", "x rows", "xr"),
        node("Gemm", "xr wp bp", "pg"),
        node("Reshape", "pg wide", "pd"),
        node("Split", "pd widths", "qd kd vd", axis=2),
        *(each for part in "qkv" for each in parted(part, [0, 2, 1, 3])),
        node("Transpose", "kh", "kt", perm=[0, 1, 3, 2]),
        *core(mask="causal"),
        *joined(),
    ]
    arrays = {**PACKED, **SIZES, "causal": CAUSAL, "widths": ints(E, E, E), "rows": ints(-1, E)}
    return model(nodes, ROWS, ["y"], {**arrays, "wide": ints(-1, T, 3 * E)})


def chosen() -> onnx.ModelProto:
    """Return the form of older causal nets: scores of later keys are replaced by a low number."""
    nodes = [
        *(each for part in "qkv" for each in projected(part)),
        *(each for part in "qkv" for each in parted(part, [0, 2, 1, 3])),
        node("Transpose", "kh", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "qh kt", "st"),
        node("Div", "st root", "s"),
        node("Where", "seen s low", "sm"),
        node("Softmax", "sm", "a", axis=-1),
        node("MatMul", "a vh", "yh"),
        *joined(),
    ]
    arrays = {**ARRAYS, **SIZES, "seen": np.tri(T, dtype=bool)[None, None], "low": np.float32(-1e9)}
    return model(nodes, ROWS, ["y"], arrays)


def rotated() -> onnx.ModelProto:
    """Return attention whose queries and keys are changed for each head: normalised, here."""
    nodes = [
        *(each for part in "qkv" for each in projected(part)),
        *(each for part in "qkv" for each in parted(part, [0, 2, 1, 3])),
        node("LpNormalization", "qh", "qn", axis=-1),
        node("LpNormalization", "kh", "kn", axis=-1),
        node("Transpose", "kn", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "qn kt", "s"),
        node("Softmax", "s", "a", axis=-1),
        node("MatMul", "a vh", "yh"),
        *joined(),
    ]
    return model(nodes, ROWS, ["y"], {**ARRAYS, **SIZES})


def across() -> onnx.ModelProto:
    """Return attention of one sequence to another one of other length."""
    nodes = [
        *projected("q"),
        *(each for part in "kv" for each in projected(part, "z")),
        *(each for part in "qkv" for each in parted(part, [0, 2, 1, 3])),
        node("Transpose", "kh", "kt", perm=[0, 1, 3, 2]),
        *core(),
        *joined(),
    ]
    return model(nodes, {**ROWS, "z": ["N", 7, E]}, ["y"], {**ARRAYS, **SIZES})


def without_projections() -> onnx.ModelProto:
    """Return attention whose result goes on without a dense layer."""
    nodes = [
        *(each for part in "qkv" for each in projected(part)),
        *(each for part in "qkv" for each in parted(part, [0, 2, 1, 3])),
        node("Transpose", "kh", "kt", perm=[0, 1, 3, 2]),
        *core(),
        node("Transpose", "yh", "yt", perm=[0, 2, 1, 3]),
        node("Reshape", "yt flat", "yj"),
        node("Relu", "yj", "y"),
    ]
    return model(nodes, ROWS, ["y"], {**ARRAYS, **SIZES})


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write attention.

    Attributes:
        net: The net.
        op_type: What it is made of again.
        settings: Attributes that it must have.
    """

    net: onnx.ModelProto
    op_type: str
    settings: dict[str, int]


ALL = {"num_heads": H}

FORMS = {
    "by parts": Form(by_parts(), "MultiHeadAttention", ALL),
    "packed": Form(packed(), "MultiHeadAttention", ALL),
    "steps first": Form(steps_first(), "MultiHeadAttention", ALL),
    "flattened": Form(flattened(), "MultiHeadAttention", {**ALL, "is_causal": 1}),
    "chosen": Form(chosen(), "MultiHeadAttention", {**ALL, "is_causal": 1}),
    "across": Form(across(), "MultiHeadAttention", ALL),
    "with a bias of positions": Form(
        by_parts(mask="bias", more={"bias": normal(1, H, T, T, seed=9)}), "Attention", ALL
    ),
    "without projections": Form(without_projections(), "Attention", ALL),
    "changed by head": Form(rotated(), "Attention", {}),
}
"""By what is particular about each."""
