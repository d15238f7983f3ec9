"""Nodes of windows, attention and recurrence that writers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netweave.files.node_writer import GraphNode, NotWritable
from netweave.formats.lowering.recurrent import DEFAULT_ACTIVATIONS, reorder_gates
from netweave.formats.lowering.windows import Window
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.windows import same_pads

_OPEN_SIZES = "sizes that are not known; give the input's sizes"


def spatial_sizes(node: GraphNode) -> list[int]:
    """Return the spatial sizes of a node's first input.

    Raises:
        NotWritable: One is open.
    """
    sizes = [size for size in node.shape(0)[2:] if size is not None]
    if len(sizes) != node.rank(0) - 2:
        raise NotWritable(f"its windows depend on {_OPEN_SIZES}")
    return sizes


def kernel_shape(node: GraphNode) -> list[int]:
    """Return the window of a node: its ``kernel_shape``, or the spatial sizes of its stored weights."""
    if node.get("kernel_shape"):
        return list(node.get("kernel_shape"))
    return list(node.stored_shape(1)[2:])


def window_of(node: GraphNode, *, keeps_same: bool = False) -> Window:
    """Return the window of a convolution, transposed or not, with ``auto_pad`` resolved.

    Args:
        node: A Conv or a ConvTranspose.
        keeps_same: Whether a padding of SAME_UPPER is left out, since the framework has a word for it.

    Raises:
        NotWritable: ``auto_pad`` or ``output_shape`` depends on sizes that are open.
    """
    if "output_shape" in node.attributes:
        raise NotWritable(f"its size is a rule (output_shape) that depends on {_OPEN_SIZES}")
    kernel = kernel_shape(node)
    rank = len(kernel)
    strides, dilations = (list(node.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = _explicit_pads(node, kernel, strides, dilations, keeps_same=keeps_same)
    return Window(kernel, strides, pads[:rank], pads[rank:], dilations)


def pool_windows_of(node: GraphNode, target: str = "", *, keeps_same: bool = False) -> PoolWindows:
    """Return the windows of a pooling, with ``auto_pad`` resolved.

    Args:
        node: A MaxPool or an AveragePool.
        target: A framework that pools without dilation; empty for one that has it.
        keeps_same: As for ``window_of``.

    Raises:
        NotWritable: ``auto_pad`` depends on sizes that are open, the windows are dilated, or somebody reads
            the places of the maxima, which no framework gives as ONNX does.
    """
    if any(node.is_used(index) for index in range(1, len(node.outputs))):
        raise NotWritable("the places of its maxima are used")
    windows = PoolWindows.of(node.domain, node.attributes)
    if target and set(windows.dilations) != {1}:
        raise NotWritable(f"{target} pools without dilation")
    rank = len(windows.kernel)
    pads = _explicit_pads(node, windows.kernel, windows.strides, windows.dilations, keeps_same=keeps_same)
    if node.get("auto_pad", "NOTSET") != "NOTSET":
        windows = replace(windows, rounding="floor")  # its windows are counted by the rule, not by ceil_mode
    return replace(windows, begin=pads[:rank], end=pads[rank:])


def _explicit_pads(
    node: GraphNode,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    keeps_same: bool,
) -> list[int]:
    rule = node.get("auto_pad", "NOTSET")
    if rule in {"NOTSET", "VALID"} or (keeps_same and rule == "SAME_UPPER"):
        given = node.get("pads") if rule == "NOTSET" else None
        return list(given or [0] * (2 * len(kernel)))
    if set(strides) == {1} and node.op_type != "ConvTranspose":
        sizes = [1] * len(kernel)  # with steps of 1 the rule is the same for every size
    elif None in node.shape(0)[2:] or node.op_type == "ConvTranspose":
        raise NotWritable(f"its padding is a rule (auto_pad) that depends on {_OPEN_SIZES}")
    else:
        sizes = spatial_sizes(node)
    return same_pads(sizes, kernel, strides=strides, dilations=dilations, upper=rule == "SAME_UPPER")


_FIRST = 3
"""The input that is the first array: weight and bias of query, key, value and output follow one another."""


def is_usual_scale(scale: float, width: int) -> bool:
    """Return whether a scale is one divided by the root of the features of a head, as frameworks take it."""
    return math.isclose(scale * math.sqrt(width), 1, rel_tol=1e-6)


@dataclass(frozen=True, slots=True)
class ProjectedAttention:
    """A MultiHeadAttention that is being written.

    Attributes:
        node: The node.
        num_heads: Number of heads.
        width: Features of each head of queries and keys.
        value_width: Features of each head of values.
        num_outputs: Features that it makes of each step.
        scale: What scores are multiplied by where no weight takes that over: the usual one.
        has_bias: Whether any of the dense layers has a bias.
    """

    node: GraphNode
    num_heads: int
    width: int
    value_width: int
    num_outputs: int
    scale: float
    has_bias: bool

    @classmethod
    def of(cls, node: GraphNode) -> ProjectedAttention:
        """Return what a node says.

        Raises:
            NotWritable: Its arrays are computed.
        """
        num_heads = node.get("num_heads")
        width = node.stored_shape(_FIRST)[1] // num_heads
        value_width = node.stored_shape(_FIRST + 4)[1] // num_heads
        num_outputs = node.stored_shape(_FIRST + 6)[1]
        has_bias = any(node.constant(_FIRST + 2 * part + 1).any() for part in range(4))
        return cls(node, num_heads, width, value_width, num_outputs, 1 / math.sqrt(width), has_bias)

    @property
    def input_features(self) -> list[int]:
        """Features of each step of query, key and value."""
        return [self.node.stored_shape(_FIRST + 2 * part)[0] for part in range(3)]

    @property
    def features(self) -> int:
        """Features of each step of the query."""
        return self.input_features[0]

    def weight(self, part: int) -> np.ndarray:
        """Load the weight (inputs, outputs) of query, key, value or output: 0 to 3."""
        return self._scaled(self.node.constant(_FIRST + 2 * part), part)

    def rows(self, part: int) -> np.ndarray:
        """Load the weight of query, key, value or output with a row for each output."""
        return self.weight(part).T

    def bias(self, part: int) -> np.ndarray:
        """Load the bias (outputs,) of query, key, value or output."""
        return self._scaled(self.node.constant(_FIRST + 2 * part + 1), part)

    def packed_weight(self) -> np.ndarray:
        """Load the weights of query, key and value below one another, a row for each output."""
        return np.concatenate([self.rows(part) for part in range(3)])

    def packed_bias(self) -> np.ndarray:
        """Load the biases of query, key and value after one another."""
        return np.concatenate([self.bias(part) for part in range(3)])

    def _scaled(self, array: np.ndarray, part: int) -> np.ndarray:
        """Take a scale that is not the usual one into the query's arrays."""
        factor = float(self.node.get("scale")) / self.scale
        if part or is_usual_scale(self.node.get("scale"), self.width):
            return array
        return (array * np.float64(factor)).astype(array.dtype)


# T steps, N examples, H hidden units, D directions, G gates.

FIRST_STATES = (5, 6)
"""The inputs that are first states: of the output, and of the cell."""


class RecurrentNode:
    """An LSTM, GRU or RNN as a framework may write it.

    Args:
        node: The node.
        framework: Whose order the gates will have: a key of ``GATE_ORDERS``.
        target: The framework as messages name it.
        resets_after: Whether its GRU has the reset gate behind the product alone.

    Raises:
        NotWritable: It has something that no framework has: lengths, peepholes, clipped gates.
    """

    def __init__(self, node: GraphNode, framework: str, *, target: str, resets_after: bool) -> None:
        self.node = node
        self.kind = node.op_type
        self.hidden_size = int(node.get("hidden_size"))
        self.direction = str(node.get("direction", "forward"))
        self.num_directions = 2 if self.direction == "bidirectional" else 1
        self._framework = framework
        resets_before = self.kind == "GRU" and not node.get("linear_before_reset", 0)
        reasons = {
            f"its gates reset before the product, and {target}'s behind it": resets_before and resets_after,
            "its sequences have lengths": node.has(4),
            "it has peepholes": node.has(7),
            "it has the batch first by its layout": node.get("layout", 0) != 0,
            "its gates are clipped or coupled": "clip" in node.attributes
            or bool(node.get("input_forget", 0)),
        }
        for reason, applies in reasons.items():
            if applies:
                raise NotWritable(reason)

    @property
    def columns(self) -> int:
        """Size of the last axis of a sequence that has its directions joined: D * H."""
        return self.num_directions * self.hidden_size

    def require_all_states(self) -> None:
        """Reject an LSTM of which one first state is given and the other omitted."""
        if self.kind == "LSTM" and self.node.has(5) != self.node.has(6):
            raise NotWritable("one of its first states is omitted")

    def activations(self, direction: int) -> list[str]:
        """Return ONNX's names of the activations of a direction: of the gates, the candidate and the cell."""
        default = DEFAULT_ACTIVATIONS[self.kind]
        # ONNX's default for RNN names two, also where there is one direction
        names = list(self.node.attributes.get("activations") or default * self.num_directions)
        count = len(default)
        return [name.capitalize() for name in names[direction * count : (direction + 1) * count]]

    def nonlinearity(self) -> str:
        """Return ``tanh``, or ``relu`` of an RNN.

        Raises:
            NotWritable: It has other activations than cuDNN's.
        """
        names = [name for number in range(self.num_directions) for name in self.activations(number)]
        if self.kind == "RNN" and set(names) in ({"Relu"}, {"Tanh"}):
            return names[0].lower()
        if tuple(names) != DEFAULT_ACTIVATIONS[self.kind] * self.num_directions:
            raise NotWritable(f"its activations are {', '.join(names)}")
        return "tanh"

    def cudnn_mode(self) -> str:
        """Return cuDNN's name of the cell: a key of ``CUDNN_CELLS``."""
        nonlinearity = self.nonlinearity()
        return f"rnn_{nonlinearity}" if self.kind == "RNN" else self.kind.lower()

    def matrix(self, index: int, direction: int) -> Callable[[], np.ndarray]:
        """Return the function that loads a matrix of a direction, (G * H, columns), with the gates reordered.

        Args:
            index: 1 for the weights of the input, 2 for those of the state.
            direction: 0, or 1 for the one backwards.
        """
        load = self.node.lazy_array(index)
        return lambda: self._reordered(load()[direction])

    def bias(self, direction: int, *, half: int) -> Callable[[], np.ndarray]:
        """Return the function that loads a bias of a direction, (G * H,), with the gates reordered.

        Args:
            direction: 0, or 1 for the one backwards.
            half: 0 for the bias of the input, 1 for that of the state.
        """
        load = self.node.lazy_array(3)
        return lambda: self._reordered(np.split(load()[direction], 2)[half])

    def _reordered(self, array: np.ndarray) -> np.ndarray:
        return reorder_gates(array, self.kind, source="onnx", target=self._framework)
