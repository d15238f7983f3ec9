"""Attention: ``nn.MultiheadAttention`` where it says what the net computes, the function it calls otherwise.

E features of each step, H heads, D features of each head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.formats.lowering.nodes.windows import ProjectedAttention, is_usual_scale
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN


@writes("Attention", domain=DOMAIN)
def attention(node: PyTorchNode) -> Step:
    """Attention of three values, by a function of the file where the heads stand in their last axis."""
    num_heads = node.get("num_heads", 0)
    width = node.shape(0)[-1]
    if width is None:
        raise NotWritable("the number of its features is not known")
    inputs, mask, module = [0, 1, 2], "", None
    if node.has(3):
        mask, read, module = node.operand(3, 3)
        inputs += read
        mask = f", {mask}"
    settings = f", num_heads={num_heads}" if num_heads else ""
    settings += _scale(node.get("scale"), width // max(num_heads, 1)) + _causal(node)
    name = "attention" if num_heads else "F.scaled_dot_product_attention"
    return node.step(f"{name}({{0}}, {{1}}, {{2}}{mask}{settings})", inputs=inputs, module=module)


def _scale(scale: float, width: int) -> str:
    return "" if is_usual_scale(scale, width) else f", scale={number(scale)}"


def _causal(node: PyTorchNode) -> str:
    return ", is_causal=True" if node.get("is_causal", 0) else ""


@writes("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: PyTorchNode) -> Step | list[Step]:
    """Attention with its dense layers: PyTorch's module, or its parts where that does not fit."""
    projected = ProjectedAttention.of(node)
    widths = {projected.features, projected.num_heads * projected.width, projected.num_outputs}
    is_uniform = widths == {*projected.input_features} and len(widths) == 1
    if not is_uniform or projected.value_width != projected.width or node.get("is_causal", 0):
        return _in_parts(node, projected)
    fields = (
        Field("embed_dim", projected.features),
        Field("num_heads", projected.num_heads),
        Field("bias", projected.has_bias, True),
        Field("batch_first", True, False),
    )
    state: dict[str, Callable[[], np.ndarray]] = {
        "in_proj_weight": projected.packed_weight,
        "in_proj_bias": projected.packed_bias,
        "out_proj.weight": partial(projected.rows, 3),
        "out_proj.bias": partial(projected.bias, 3),
    }
    kept = {name: array for name, array in state.items() if projected.has_bias or not name.endswith("bias")}
    sources, places = _places(node)
    template = f"{{m}}({', '.join(places)}, need_weights=False)[0]"
    return node.step(template, inputs=sources, module=Module("nn.MultiheadAttention", fields, kept))


def _places(node: PyTorchNode) -> tuple[list[int], list[str]]:
    """Return the inputs that differ among query, key and value, and the placeholder of each of the three."""
    values = [node.value(index) for index in range(3)]
    sources = [index for index, value in enumerate(values) if values.index(value) == index]
    return sources, [f"{{{sources.index(values.index(value))}}}" for value in values]


@dataclass(frozen=True, slots=True)
class _Linear:
    """A dense layer of attention that is written by itself."""

    name: str
    weight: Callable[[], np.ndarray]
    bias: Callable[[], np.ndarray]
    num_inputs: int
    num_outputs: int

    def step(self, node: PyTorchNode, source: str, made: Sequence[str], template: str, *, bias: bool) -> Step:
        """Return the layer as a step, with the names of the source's layers for the first one only."""
        fields = (
            Field("in_features", self.num_inputs),
            Field("out_features", self.num_outputs),
            Field("bias", bias, True),
        )
        state = {"weight": self.weight} | ({"bias": self.bias} if bias else {})
        plain = node.step("{0}", inputs=[0])
        return replace(
            plain,
            name=f"{plain.name}.{self.name}",
            template=template,
            inputs=(source,),
            outputs=tuple(made),
            module=Module("nn.Linear", fields, state),
        )


def _in_parts(node: PyTorchNode, projected: ProjectedAttention) -> list[Step]:
    """Return attention as dense layers and a function between them."""
    sources, _ = _places(node)
    result = node.outputs[0].name or ""
    heads = [f"{result}/{part}" for part in ("query", "key", "value")]
    width, has_bias = projected.num_heads * projected.width, projected.has_bias
    steps: list[Step] = []
    if len(sources) == 1 and projected.value_width == projected.width:
        packed = _Linear("qkv", projected.packed_weight, projected.packed_bias, projected.features, 3 * width)
        joined = packed.step(node, node.value(0).name or "", heads, "{m}({0}).chunk(3, -1)", bias=has_bias)
        steps.append(replace(joined, variables=("q", "k", "v")))
    else:
        for index, made in enumerate(heads):
            layer = _Linear(
                ("query", "key", "value")[index],
                partial(projected.rows, index),
                partial(projected.bias, index),
                projected.input_features[index],
                width if index < 2 else projected.num_heads * projected.value_width,
            )
            steps.append(layer.step(node, node.value(index).name or "", [made], "{m}({0})", bias=has_bias))
    settings = f"num_heads={projected.num_heads}{_scale(projected.scale, projected.width)}{_causal(node)}"
    plain = node.step("{0}", inputs=[0])
    core = replace(
        plain,
        template=f"attention({{0}}, {{1}}, {{2}}, {settings})",
        inputs=tuple(heads),
        outputs=(f"{result}/heads",),
    )
    last = _Linear(
        "proj",
        partial(projected.rows, 3),
        partial(projected.bias, 3),
        projected.num_heads * projected.value_width,
        projected.num_outputs,
    )
    return [*steps, core, last.step(node, f"{result}/heads", [result], "{m}({0})", bias=has_bias)]
