"""Nets whose port takes its input in another layout, and has one damaged layer: both are planted, so known.

A net reads one image, or an input that is sliced into several images with a first convolution each. It is
written as ONNX, Caffe or a PyTorch module, all of them by hand from the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.oracles.caffemodel import caffemodel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

HEIGHT, WIDTH = 16, 12
"""The image's sizes; even, so that a flipped image is pooled by two to a flipped one."""

POOLED = {"kernel_shape": [2, 2], "strides": [2, 2]}
SMOOTHED = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
"""The pooling of nets of one size, and of nets of any size: one by strides does not mirror an odd size."""

Arrays = dict[str, np.ndarray]

ORIENTATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": lambda x: x,
    "height and width swapped": lambda x: x.swapaxes(-1, -2),
    "rotated by 180 degrees": lambda x: x[..., ::-1, ::-1],
    "flipped left to right": lambda x: x[..., ::-1],
    "flipped top to bottom": lambda x: x[..., ::-1, :],
}
"""What is done to an image and to every filter that reads it or what is made of it."""


@dataclass(frozen=True)
class Net:
    """A net: what it is made of, and its arrays with (output, input, height, width) for filters.

    Attributes:
        arrays: By layer and role, as ``conv2.weight``.
        patches: Number of images that the input is sliced into.
        depth: Channels of each image.
        shape: Height and width of the input.
        dense: Whether it ends in a dense layer, and not in an average over the image.
        channels_last: Whether it takes its input as (N, H, W, C).
        split: Whether one layer cuts all images out of the input, and not one each.
    """

    arrays: Arrays
    patches: int = 1
    depth: int = 3
    shape: tuple[int, int] = (HEIGHT, WIDTH)
    dense: bool = True
    channels_last: bool = False
    split: bool = False

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return self.patches * self.depth

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Sizes of the input but for the batch."""
        return (*self.shape, self.channels) if self.channels_last else (self.channels, *self.shape)

    @property
    def firsts(self) -> list[str]:
        """Names of the first convolutions."""
        return ["conv1"] if self.patches == 1 else [f"conv1_{i}" for i in range(self.patches)]

    def changed(self, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Net:
        """Return the net with one array changed."""
        return replace(self, arrays={**self.arrays, name: np.ascontiguousarray(change(self.arrays[name]))})


def original(seed: int, *, patches: int = 1, depth: int = 3, dense: bool = True, alike: bool = False) -> Net:
    """Draw a net.

    Args:
        seed: Seed of its arrays.
        patches: Number of images in the input.
        depth: Channels of each.
        dense: Whether it ends in a dense layer.
        alike: Whether all first convolutions have as many filters, so that they are one in groups.
    """
    rng = np.random.default_rng(seed)

    def filters(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(np.prod(shape[1:]) ** -0.5)

    def bias(count: int) -> np.ndarray:
        return rng.uniform(-0.3, 0.3, count).astype(np.float32)

    net = Net({}, patches=patches, depth=depth, dense=dense)
    widths = [8 if alike or i % 2 == 0 else 6 for i in range(patches)]
    arrays: Arrays = {}
    for name, width in zip(net.firsts, widths, strict=True):
        arrays |= {f"{name}.weight": filters(width, depth, 3, 3), f"{name}.bias": bias(width)}
    arrays |= {"conv2.weight": filters(12, sum(widths), 3, 3), "conv2.bias": bias(12)}
    arrays |= {"conv3.weight": filters(10, 12, 3, 3), "conv3.bias": bias(10)}
    columns = 10 * (HEIGHT // 2) * (WIDTH // 2) if dense else 10
    arrays |= {"fc.weight": filters(7, columns), "fc.bias": bias(7)}
    return replace(net, arrays=arrays)


@dataclass(frozen=True)
class Relation:
    """How a port takes its input.

    Attributes:
        orientation: Key of ``ORIENTATIONS``.
        orders: For each image of the input the order of its channels; none where they stay.
        channels_last: Whether it takes (N, H, W, C).
    """

    orientation: str = ""
    orders: tuple[tuple[int, ...], ...] = ()
    channels_last: bool = False

    def order(self, net: Net) -> list[int]:
        """Return the order of all channels of the input."""
        own = tuple(range(net.depth))
        orders = self.orders or (own,) * net.patches
        return [i * net.depth + channel for i, order in enumerate(orders) for channel in order]

    def port(self, net: Net) -> Net:
        """Return the net that computes the same on an input in this layout."""
        reorient = ORIENTATIONS[self.orientation]
        arrays = dict(net.arrays)
        for key, array in net.arrays.items():
            if array.ndim == 4:
                arrays[key] = np.ascontiguousarray(reorient(array))
        for i, name in enumerate(net.firsts):
            if self.orders:
                arrays[f"{name}.weight"] = arrays[f"{name}.weight"][:, list(self.orders[i])]
        if net.dense:
            images = arrays["fc.weight"].reshape(7, 10, net.shape[0] // 2, net.shape[1] // 2)
            arrays["fc.weight"] = reorient(images).reshape(7, -1).copy()
        shape = net.shape[::-1] if self.orientation == "height and width swapped" else net.shape
        return replace(net, arrays=arrays, shape=shape, channels_last=self.channels_last)

    def image(self, net: Net, x: np.ndarray) -> np.ndarray:
        """Return the port's input for one of the net."""
        x = ORIENTATIONS[self.orientation](x[:, self.order(net)])
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1) if self.channels_last else x)


def _doubled(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[2] *= 2
    return x


def _filters_swapped(x: np.ndarray) -> np.ndarray:
    return x[[3, 1, 2, 0, *range(4, len(x))]]


def _channel_scaled(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[:, 1] *= 1.5
    return x


def _channels_swapped(x: np.ndarray) -> np.ndarray:
    return x[:, [1, 0, *range(2, x.shape[1])]]


DAMAGES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str, str]] = {
    "transposed": (lambda x: x.swapaxes(2, 3), "axis-order", "swapped"),
    "mirrored": (lambda x: x[..., ::-1], "axis-order", "flipped"),
    "rotated": (lambda x: x[..., ::-1, ::-1], "axis-order", "rotated by 180 degrees"),
    "filter doubled": (_doubled, "weights", "differ"),
    "filters swapped": (_filters_swapped, "channel-order", "3, 1, 2, 0"),
    "channel scaled": (_channel_scaled, "weights", "differ"),
}
"""By name: what is done to filters, the mismatch that explains it, and a part of its words."""


def onnx_file(net: Net, path: Path) -> Path:
    """Write a net as ONNX."""
    nodes, stored = [], dict(net.arrays)

    def add(op_type: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, list(inputs), [output], name, **attributes))
        return output

    source = "data"
    if net.channels_last:
        source = add("Transpose", ["data"], "image", "transpose", perm=[0, 3, 1, 2])
    pieces = [source] if net.patches == 1 else [f"patch{i}" for i in range(net.patches)]
    if net.patches > 1 and net.split:
        stored["sizes"] = np.full(net.patches, net.depth, np.int64)
        nodes.append(helper.make_node("Split", [source, "sizes"], pieces, "cut", axis=1))
    elif net.patches > 1:
        for i, piece in enumerate(pieces):
            for key, number in (("start", i * net.depth), ("end", (i + 1) * net.depth), ("axis", 1)):
                stored[f"{key}{i}"] = np.array([number], np.int64)
            add("Slice", [source, f"start{i}", f"end{i}", f"axis{i}"], piece, f"slice{i}")
    made = []
    for piece, name in zip(pieces, net.firsts, strict=True):
        x = add("Conv", [piece, f"{name}.weight", f"{name}.bias"], f"{name}.y", name, pads=[1] * 4)
        made.append(add("Relu", [x], f"{name}.z", f"relu_{name}"))
    x = made[0] if len(made) == 1 else add("Concat", made, "joined", "join", axis=1)
    window = POOLED if net.dense else SMOOTHED
    x = add("MaxPool", [x], "pooled", "pool", **window)
    for name in ("conv2", "conv3"):
        x = add("Conv", [x, f"{name}.weight", f"{name}.bias"], f"{name}.y", name, pads=[1] * 4)
        x = add("Relu", [x], f"{name}.z", f"relu_{name}")
    if not net.dense:
        x = add("GlobalAveragePool", [x], "average", "average")
    x = add("Flatten", [x], "flat", "flatten")
    add("Gemm", [x, "fc.weight", "fc.bias"], "y", "fc", transB=1)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", *net.input_shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, key) for key, array in stored.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def caffe_files(net: Net, path: Path) -> Path:
    """Write a net as ``.prototxt``, its arrays beside it; Caffe takes no channels last."""
    assert not net.channels_last
    sizes = " ".join(f"dim: {size}" for size in (1, *net.input_shape))
    text = [f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {sizes} }} }} }}']

    def layer(name: str, kind: str, bottoms: Sequence[str], more: str = "", tops: Sequence[str] = ()) -> str:
        ends = "".join(f' bottom: "{b}"' for b in bottoms) + "".join(f' top: "{t}"' for t in tops or [name])
        text.append(f'layer {{ name: "{name}" type: "{kind}"{ends} {more} }}')
        return name

    def convolution(name: str, bottom: str) -> str:
        window = f"num_output: {len(net.arrays[f'{name}.bias'])} kernel_size: 3 pad: 1"
        layer(name, "Convolution", [bottom], f"convolution_param {{ {window} }}")
        return layer(f"relu_{name}", "ReLU", [name])

    pieces = ["data"]
    if net.patches > 1:
        pieces = [f"patch{i}" for i in range(net.patches)]
        points = " ".join(f"slice_point: {i * net.depth}" for i in range(1, net.patches))
        layer("cut", "Slice", ["data"], f"slice_param {{ axis: 1 {points} }}", pieces)
    made = [convolution(name, piece) for name, piece in zip(net.firsts, pieces, strict=True)]
    x = made[0] if len(made) == 1 else layer("join", "Concat", made)
    window = "kernel_size: 2 stride: 2" if net.dense else "kernel_size: 3 pad: 1"
    x = layer("pool", "Pooling", [x], f"pooling_param {{ pool: MAX round_mode: FLOOR {window} }}")
    x = convolution("conv3", convolution("conv2", x))
    if not net.dense:
        x = layer("average", "Pooling", [x], "pooling_param { pool: AVE global_pooling: true }")
    layer("fc", "InnerProduct", [x], "inner_product_param { num_output: 7 }")
    path.write_text("\n".join(text))
    stored = [
        (name, "innerproduct" if name == "fc" else "convolution",
         [net.arrays[f"{name}.weight"], net.arrays[f"{name}.bias"]])
        for name in (*net.firsts, "conv2", "conv3", "fc")
    ]  # fmt: skip
    path.with_suffix(".caffemodel").write_bytes(caffemodel(stored, generation=2))
    return path


def torch_module(net: Net) -> Any:
    """Return a net as a PyTorch module."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Ported(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in (*net.firsts, "conv2", "conv3"):
                width, depth = net.arrays[f"{name}.weight"].shape[:2]
                setattr(self, name, nn.Conv2d(depth, width, 3, padding=1))
            self.fc = nn.Linear(net.arrays["fc.weight"].shape[1], 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.permute(0, 3, 1, 2) if net.channels_last else x
            depth = net.depth
            pieces = [x]
            if net.patches > 1:
                cut = [x[:, i * depth : (i + 1) * depth] for i in range(net.patches)]
                pieces = list(x.split(depth, 1)) if net.split else cut
            made = [
                functional.relu(getattr(self, name)(y)) for name, y in zip(net.firsts, pieces, strict=True)
            ]
            window = {"kernel_size": 2} if net.dense else {"kernel_size": 3, "stride": 1, "padding": 1}
            x = functional.max_pool2d(made[0] if len(made) == 1 else torch.cat(made, 1), **window)
            x = functional.relu(self.conv3(functional.relu(self.conv2(x))))
            return self.fc(x.flatten(1) if net.dense else x.mean((2, 3)))

    module = Ported()
    module.load_state_dict({key: torch.from_numpy(array.copy()) for key, array in net.arrays.items()})
    return module.eval()


def load(net: Net, form: str, folder: Path, name: str) -> Any:
    """Write a net in a form, ``onnx``, ``caffe`` or ``pytorch``, and read it."""
    import netweave

    if form == "onnx":
        return netweave.load(onnx_file(net, folder / f"{name}.onnx"))
    if form == "caffe":
        return netweave.load(caffe_files(net, folder / f"{name}.prototxt"))
    return netweave.load(torch_module(net), input_shapes={"x": (1, *net.input_shape)})


def load_pair(nets: tuple[Net, Net], forms: tuple[str, str], folder: Path) -> tuple[Any, Any]:
    """Write two nets, each in its form, and read them; their inputs are cut alike."""
    a, b = (replace(net, split="caffe" in forms) for net in nets)
    return load(a, forms[0], folder, "a"), load(b, forms[1], folder, "b")


def run_onnx(net: Net, x: np.ndarray, folder: Path) -> np.ndarray:
    """Return what ONNX Runtime makes of an input, without Netweave."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        onnx_file(net, folder / "oracle.onnx"), providers=["CPUExecutionProvider"]
    )
    found: np.ndarray = session.run(None, {"data": x})[0]
    return found


def run_torch(net: Net, x: np.ndarray) -> np.ndarray:
    """Return what PyTorch makes of an input, without Netweave."""
    import torch

    with torch.no_grad():
        found: np.ndarray = torch_module(net)(torch.from_numpy(x)).numpy()
    return found


def applied(mapping: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """Apply a mapping as its JSON says it, without Netweave."""
    x = x.transpose(mapping["axes"]) if mapping["axes"] else x
    for axis, order in mapping["orders"]:
        x = np.take(x, order, axis=axis)
    return np.ascontiguousarray(x * np.float32(mapping["scale"]))
