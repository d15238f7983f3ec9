"""Memory behaviour of operators on torch: overwritten inputs, saved tensors, workspaces.

A row says what the lowering in ``runtime/backends/torch`` does, which
``tests/runtime/memory_plan/test_measured.py`` holds against an allocator that counts. An operator without a
row is taken to keep its inputs and its output, so that a plan is rather too large than too small. To add a
row, see ``derivatives.yaml`` of PyTorch for what its gradient reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import onnx_ir as ir

from netweave.graph import DOMAIN, attributes_of, known_shape, parameter_key, ties_of
from netweave.graph.costs import num_bytes, sizes_of

Bytes = Callable[["ir.Node", int], int]
"""From a node and the batch size to a number of bytes."""


def _none(node: ir.Node, batch: int) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Memory behaviour of one operator.

    Attributes:
        view: Whether its output is the memory of its first input.
        keeps_inputs: Positions of the inputs that backward reads; None for all.
        keeps_output: Whether backward reads the first output.
        passes_gradient: Whether the gradient of an input is that of the output, or a view of it.
        slices_gradient: Whether it is a part of that, which a kernel that wants dense memory copies first.
        wants_dense: Whether its backward is such a kernel.
        owned: Whether the output is memory of its own, which its only reader may write over in inference.
        fresh: Whether that reader may do so in training as well, since backward does not read the output.
        overwrites: Positions of the inputs of which one may be written over; the first that can is.
        overwrites_in_training: Whether that holds in training too.
        repeatable: Whether it gives the same bits when it is computed a second time.
        kept: Bytes that backward needs besides inputs and outputs.
        workspace: Bytes that the kernel needs while it goes forward without gradients.
        training_workspace: The same with gradients.
        backward_workspace: Bytes that the kernel needs while it goes backward.
    """

    view: bool = False
    keeps_inputs: tuple[int, ...] | None = ()
    keeps_output: bool = False
    passes_gradient: bool = False
    slices_gradient: bool = False
    wants_dense: bool = False
    owned: bool = False
    fresh: bool = False
    overwrites: tuple[int, ...] = ()
    overwrites_in_training: bool = False
    repeatable: bool = True
    kept: Bytes = _none
    workspace: Bytes = _none
    training_workspace: Bytes = _none
    backward_workspace: Bytes = _none


def behaviour_of(node: ir.Node) -> Behaviour:
    """Return how a node treats memory."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain == "" and node.op_type in {"Flatten", "Reshape"} and _is_rearranged(node):
        return _NOTHING
    if ties_of(node):
        return _UNKNOWN
    return _BEHAVIOUR.get((domain, node.op_type), _UNKNOWN)


def _is_rearranged(node: ir.Node) -> bool:
    """Return whether a change of shape is a copy.

    Images are stored with their channels last, so that no view of them is flat.
    """
    sizes = known_shape(node.inputs[0])
    return sizes is not None and len(sizes) == 4 and sizes[1] != 1 and sizes[2:] != (1, 1)


def pixel_strides(node: ir.Node) -> tuple[int, ...] | None:
    """Return by which steps a convolution with a window of one passes over pixels; None if it takes all."""
    if (node.domain, node.op_type) != ("", "Conv"):
        return None
    attributes, shape = attributes_of(node), known_shape(node.inputs[1])
    strides: tuple[int, ...] = tuple(attributes.get("strides", ()))
    return strides if _is_plain(node) and shape is not None and max(strides, default=1) > 1 else None


def _is_plain(node: ir.Node) -> bool:
    """Return whether a convolution has a window of one and no padding."""
    attributes, shape = attributes_of(node), known_shape(node.inputs[1])
    padded = any(attributes.get("pads", ())) or attributes.get("auto_pad", "NOTSET") not in {
        "NOTSET",
        "VALID",
    }
    return shape is not None and set(shape[2:]) == {1} and not padded


def is_product(node: ir.Node) -> bool:
    """Return whether a convolution is computed as a matrix product, which needs no copy of the filter."""
    return _is_plain(node) and attributes_of(node).get("group", 1) == 1


def _filter_bytes(node: ir.Node, batch: int) -> int:
    """OneDNN writes the filters in the order that its kernel wants."""
    return 0 if is_product(node) else num_bytes(node.inputs[1], batch)


def _filter_gradient_bytes(node: ir.Node, batch: int) -> int:
    """The filters once more for the gradient of the input; that of the filters before it is laid out."""
    return 2 * _filter_bytes(node, batch)


def _output_elements(node: ir.Node, batch: int) -> int:
    return prod(sizes_of(node.outputs[0], batch) or ())


def _places(node: ir.Node, batch: int) -> int:
    """Torch notes the place of each maximum in eight bytes, also where nobody goes backward."""
    return 8 * _output_elements(node, batch)


def _floats(node: ir.Node, batch: int) -> int:
    return 4 * _output_elements(node, batch)


def _response_chunks(node: ir.Node, batch: int) -> int:
    """The lowering takes 2**17 elements at a time, with three results that lie between."""
    return 3 * min(_floats(node, batch), 4 << 17)


def _channel_statistics(node: ir.Node, batch: int) -> int:
    return 2 * num_bytes(node.inputs[1], batch)


_UNKNOWN = Behaviour(keeps_inputs=None, keeps_output=True, repeatable=False)
_OUTPUT = Behaviour(keeps_output=True, owned=True, overwrites=(0,))
_INPUT = Behaviour(keeps_inputs=(0,))
_BOTH = Behaviour(keeps_inputs=(0, 1), owned=True, fresh=True)
_DIFFERENCE = Behaviour(passes_gradient=True, owned=True, fresh=True)
_SUM = replace(_DIFFERENCE, overwrites=(0, 1), overwrites_in_training=True)
_VIEW = Behaviour(view=True, passes_gradient=True)
_NOTHING = Behaviour()
_CONV = Behaviour(
    keeps_inputs=(0, 1),
    wants_dense=True,
    owned=True,
    fresh=True,
    workspace=_filter_bytes,
    training_workspace=_filter_bytes,
    backward_workspace=_filter_gradient_bytes,
)
_NORMALISATION = Behaviour(
    keeps_inputs=(0, 1),
    owned=True,
    fresh=True,
    overwrites=(0,),
    kept=_channel_statistics,
    backward_workspace=_floats,  # torch allocates the gradient twice, or copies a slice of one
)
_MAX_POOL = Behaviour(owned=True, kept=_places, workspace=_places)
_AVERAGE_POOL = Behaviour(keeps_inputs=(0,), owned=True)

_BEHAVIOUR: dict[tuple[str, str], Behaviour] = {
    **{
        ("", op_type): _VIEW
        for op_type in ("Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze")
    },
    **{("", op_type): _OUTPUT for op_type in ("Sigmoid", "Tanh")},
    **{("", op_type): replace(_INPUT, owned=True, overwrites=(0,)) for op_type in ("Elu", "LeakyRelu")},
    **{
        ("", op_type): replace(_OUTPUT, overwrites=()) for op_type in ("Exp", "LogSoftmax", "Softmax", "Sqrt")
    },
    **{
        ("", op_type): _INPUT
        for op_type in ("Abs", "Clip", "Gelu", "HardSigmoid", "HardSwish", "Log", "Mish")
    },
    **{("", op_type): _NOTHING for op_type in ("GlobalAveragePool", "Pad", "ReduceMean", "ReduceSum")},
    ("", "Add"): _SUM,
    ("", "AveragePool"): _AVERAGE_POOL,
    ("", "BatchNormalization"): _NORMALISATION,
    ("", "Concat"): replace(_DIFFERENCE, slices_gradient=True),
    ("", "Conv"): _CONV,
    ("", "ConvTranspose"): _CONV,
    ("", "Dropout"): Behaviour(kept=_floats),
    ("", "Gemm"): _BOTH,
    ("", "LRN"): Behaviour(
        keeps_inputs=(0,),
        owned=True,
        overwrites=(0,),
        kept=_floats,
        workspace=_response_chunks,
        training_workspace=_response_chunks,
        backward_workspace=_response_chunks,
    ),
    ("", "MatMul"): _BOTH,
    ("", "MaxPool"): _MAX_POOL,
    ("", "Mul"): _BOTH,
    ("", "Relu"): replace(_OUTPUT, overwrites_in_training=True),
    ("", "Sub"): _DIFFERENCE,
    ("", "Sum"): _SUM,
    (DOMAIN, "AveragePool"): _AVERAGE_POOL,
    (DOMAIN, "MaxPool"): _MAX_POOL,
}


def is_stored(value: ir.Value) -> bool:
    """Return whether a value is part of the net, not made by a run: a stored array or a constant."""
    maker = value.producer()
    if maker is not None:
        return maker.op_type == "Constant" and maker.domain in {"", "ai.onnx"}
    return value.const_value is not None or parameter_key(value) is not None
