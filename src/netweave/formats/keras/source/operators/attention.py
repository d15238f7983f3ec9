"""Attention with its dense layers: ``layers.MultiHeadAttention``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from netweave.files.source_code.steps import Field, Module, Step
from netweave.formats.keras.source.table import KerasNode, writes
from netweave.formats.lowering.nodes.attention import ProjectedAttention
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    import numpy as np

    from netweave.formats.keras.source.operators.weighted import State

_PARTS = ("query", "key", "value", "attention_output")
"""What Keras calls the four dense layers, in the order of their arrays."""


@writes("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: KerasNode) -> Step:
    """Attention with its dense layers."""
    projected = ProjectedAttention.of(node)
    heads, width, depth = projected.num_heads, projected.width, projected.value_width
    fields = (
        Field("num_heads", heads),
        Field("key_dim", width),
        Field("value_dim", depth, width),
        Field("use_bias", projected.has_bias, True),
        Field("output_shape", projected.num_outputs, projected.features),
    )
    state: State = {}
    for part, name in enumerate(_PARTS):
        sizes = (-1, heads, depth if part == 2 else width) if part < 3 else (heads, depth, -1)
        state[f"{name}/kernel"] = partial(_kernel, projected, part, sizes)
        if projected.has_bias:
            bias_sizes = sizes[1:] if part < 3 else (-1,)
            state[f"{name}/bias"] = partial(_bias, projected, part, bias_sizes)
    query, key, value = (node.value(index) for index in range(3))
    inputs = [0, 2, *([] if key is value else [1])]
    places = ", ".join(f"{{{place}}}" for place in range(len(inputs)))
    causal = ", use_causal_mask=True" if node.get("is_causal", 0) else ""
    module = Module("layers.MultiHeadAttention", fields, state)
    if query is key is value:
        return node.step(f"{{m}}({{0}}, {{0}}{causal})", module=module)
    return node.step(f"{{m}}({places}{causal})", inputs=inputs, module=module)


def _kernel(projected: ProjectedAttention, part: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Load the weight of a part with axes for the heads and the features of each."""
    return projected.weight(part).reshape(sizes)


def _bias(projected: ProjectedAttention, part: int, sizes: tuple[int, ...]) -> np.ndarray:
    return projected.bias(part).reshape(sizes)
