"""PyTorch nets: ports of Caffe's and MXNet's, written layer by layer, and some of our own as files."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch

from benchmarks.faults.arrays import Stored
from benchmarks.faults.model import Net
from benchmarks.faults.torch_source import Port, lines_of, word
from benchmarks.source_module import source_module

if TYPE_CHECKING:
    from benchmarks.faults.caffe_nets import CaffeNet
    from benchmarks.faults.mxnet_faults import MxnetNet, Node
    from tests.oracles.caffe_net import Layer

Arrays = dict[str, np.ndarray]

MODELS = Path(__file__).with_name("torch_models")


@dataclass(frozen=True)
class TorchNet:
    """A net of PyTorch: its source and its arrays by their names in the state dict.

    Attributes:
        source: The source.
        arrays: The state dict.
        shape: Size of the input, without the batch.
        names: What the original calls a layer, by its name here.
        images: Channels, height and width that a matrix reads flattened, by the matrix's layer.
    """

    source: str
    arrays: Arrays
    shape: tuple[int, ...]
    names: dict[str, str] = field(default_factory=dict)
    images: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def having(self, *, source: str | None = None, arrays: Arrays | None = None) -> TorchNet:
        """Return the net with another source or other arrays."""
        return replace(self, source=source or self.source, arrays=arrays or self.arrays)

    def net(self) -> Net:
        """Return the net's files."""
        written = io.BytesIO()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in self.arrays.items()}
        torch.save(tensors, written)
        files = {"model.py": self.source.encode(), "weights.pt": written.getvalue()}
        return Net("pytorch", files, {"data": self.shape})

    def stored(self) -> list[Stored]:
        """Return what is stored, by role."""
        kinds = {line.target: line.function for line in lines_of(self.source) if not line.member}
        found = []
        for key in self.arrays:
            layer, _, last = key.rpartition(".")
            role = ROLES.get((kinds[layer].removeprefix("nn."), last))
            if role is not None:
                found.append(Stored(key, layer, role, self.images.get(layer)))
        return found


ROLES = {
    ("Conv2d", "weight"): "filter", ("Conv2d", "bias"): "bias", ("Linear", "weight"): "matrix",
    ("Linear", "bias"): "bias", ("BatchNorm2d", "weight"): "gamma", ("BatchNorm2d", "bias"): "bias",
    ("BatchNorm2d", "running_mean"): "mean", ("BatchNorm2d", "running_var"): "variance",
    ("PReLU", "weight"): "slope", ("LayerNorm", "bias"): "bias", ("ConvTranspose2d", "bias"): "bias",
}  # fmt: skip


def exported(net: TorchNet, folder: Path) -> Net:
    """Return a net as PyTorch's exporter writes it, with all its optimisations."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "net.onnx"
    if not path.exists():
        net.net().write(folder)
        open_axes = ({0: torch.export.Dim("batch")},)
        x = torch.zeros(2, *net.shape)
        torch.onnx.export(
            module(folder), (x,), path, dynamo=True, verbose=False, dynamic_shapes=open_axes,
            external_data=False,
        )  # fmt: skip
    return Net("onnx", {"net.onnx": path.read_bytes()}, {"data": net.shape})


def exported_names(net: Net) -> dict[str, str]:
    """Return what the exporter calls the layers of a net, by its own record of their scopes."""
    found = {}
    for node in onnx.load_from_string(net.files["net.onnx"]).graph.node:
        record = {entry.key: entry.value for entry in node.metadata_props}
        scopes = ast.literal_eval(record.get("pkg.torch.onnx.name_scopes", "[]"))
        for name in scopes[1:]:
            found[name] = node.name
    return found


def exported_norms(net: Net) -> frozenset[str]:
    """Return the normalisations that the exporter left, by the names of their nodes."""
    nodes = onnx.load_from_string(net.files["net.onnx"]).graph.node
    return frozenset(node.name for node in nodes if node.op_type == "BatchNormalization")


def module(folder: Path) -> torch.nn.Module:
    """Return the module that a net's files make, as it predicts."""
    made: torch.nn.Module = source_module(folder / "model.py").Net()
    made.load_state_dict(state(folder / "weights.pt"), strict=True)
    return made.eval()


def state(path: Path) -> dict[str, torch.Tensor]:
    """Return a state dict, by PyTorch's own restricted reader: the benchmark's nets are not Netweave's."""
    found: dict[str, torch.Tensor] = torch.load(path, weights_only=True)  # noqa: TID251
    return found


def own(name: str, shape: tuple[int, ...], arrays: Arrays, **more: Any) -> TorchNet:
    """Return a net whose source is one of the files beside this one."""
    return TorchNet((MODELS / f"{name}.py").read_text(), arrays, shape, **more)


def drawn(name: str, shape: tuple[int, ...]) -> TorchNet:
    """Return a net of one of the files with seeded arrays."""
    from tests.oracles import recipe

    net, arrays = own(name, shape, {}), {}
    for key, tensor in source_module(MODELS / f"{name}.py").Net().state_dict().items():
        role = DRAWN.get(key.rpartition(".")[2], "filter" if tensor.ndim > 1 else "scale")
        size = tuple(tensor.shape)
        arrays[key] = recipe.weight(f"{name} {key}", size, role) if size else np.array(0)
    return net.having(arrays=arrays)


DRAWN = {"bias": "bias", "running_mean": "mean", "running_var": "variance"}
"""How arrays are drawn, by the end of their names; filters and gammas by their axes."""


def from_caffe(title: str, net: CaffeNet) -> TorchNet:
    """Return a port of a Caffe net."""
    return _CaffePort(title, net).port()


class _CaffePort:
    """Writes a port layer by layer; a Scale behind a BatchNorm becomes its gamma and beta."""

    def __init__(self, title: str, net: CaffeNet) -> None:
        from tests.oracles import caffe_net

        self._net = net
        self._shapes, _ = caffe_net.stored(net.body, net.inputs)
        self._port = Port(f"{title}, after Caffe's.", ["data"])
        self._blobs = {net.body.inputs[0]: "data"}
        self._arrays: Arrays = {}
        self._names: dict[str, str] = {}
        self._images: dict[str, tuple[int, int, int]] = {}
        self._sizes: dict[str, tuple[int, ...]] = {"data": net.shape}
        self._norms: dict[str, str] = {}

    def port(self) -> TorchNet:
        for layer in self._net.body.inner:
            self._add(layer)
        read = {name for layer in self._net.body.inner for name in layer.bottoms}
        tops = [top for layer in self._net.body.inner for top in layer.tops]
        outputs = [self._blobs[top] for top in dict.fromkeys(tops) if top not in read or top == tops[-1]]
        source = self._port.text(list(dict.fromkeys(outputs)))
        return TorchNet(source, self._arrays, self._net.shape, self._names, self._images)

    def _add(self, layer: Layer) -> None:
        name, top = word(layer.name), layer.tops[0]
        given = [self._blobs[bottom] for bottom in layer.bottoms]
        sizes = [self._shapes_of(blob) for blob in given]
        if layer.kind == "scale" and given[0] in self._norms:
            self._scale(layer, self._norms[given[0]])
            self._blobs[top] = given[0]
            return
        output = word(top) if layer.kind != "split" else given[0]
        expression = CAFFE[layer.kind](self, layer, name, given, sizes)
        self._port.call(output, expression)
        self._names[name] = layer.name
        self._blobs[top] = output
        self._sizes[output] = self._after(layer, sizes)
        self._norms.pop(output, None)
        if layer.kind == "batchnorm":
            self._norms[output] = name

    def _shapes_of(self, name: str) -> tuple[int, ...]:
        return self._sizes[name]

    def _after(self, layer: Layer, sizes: list[tuple[int, ...]]) -> tuple[int, ...]:
        from tests.oracles.caffe_net import _outputs

        return tuple(_outputs(layer, [(1, *size) for size in sizes])[0][1:])

    def _blob(self, layer: Layer, index: int) -> np.ndarray:
        return self._net.arrays[f"{layer.name}/{index}"]

    def _scale(self, layer: Layer, norm: str) -> None:
        self._arrays[f"{norm}.weight"] = self._blob(layer, 0)
        self._arrays[f"{norm}.bias"] = self._blob(layer, 1)
        made = next(i for i, line in enumerate(self._port.modules) if line.startswith(f"self.{norm} ="))
        self._port.modules[made] = self._port.modules[made].replace(", affine=False", "")

    def convolution(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        weight = self._blob(layer, 0)
        settings = {
            "kernel_size": layer.number("kernel_size"), "stride": layer.number("stride", 1),
            "padding": layer.number("pad", 0), "groups": layer.number("group", 1),
        }  # fmt: skip
        biased = self._keep(layer, name)
        made = _called("nn.Conv2d", sizes[0][0], len(weight), **settings, bias=biased)
        return f"{self._port.module(name, made)}({given[0]})"

    def dense(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        weight = self._blob(layer, 0)
        if len(sizes[0]) == 3:
            self._images[name] = (sizes[0][0], sizes[0][1], sizes[0][2])
            self._port.call(f"{given[0]}_flat", f"torch.flatten({given[0]}, 1)")
            given = [f"{given[0]}_flat"]
        made = _called("nn.Linear", weight.shape[1], len(weight), bias=self._keep(layer, name))
        return f"{self._port.module(name, made)}({given[0]})"

    def _keep(self, layer: Layer, name: str) -> bool:
        """Store weights and bias; return whether there is a bias."""
        self._arrays[f"{name}.weight"] = self._blob(layer, 0)
        biased = f"{layer.name}/1" in self._net.arrays
        if biased:
            self._arrays[f"{name}.bias"] = self._blob(layer, 1)
        return biased

    def pooling(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        kind = "Avg" if layer.settings.get("pool", ["MAX"])[-1] == "AVE" else "Max"
        if layer.settings.get("global_pooling") == ["true"]:
            made = f"nn.Adaptive{kind}Pool2d(1)"
        else:
            kernel, stride, pad = (layer.number(key, 0) for key in ("kernel_size", "stride", "pad"))
            made = _called(
                f"nn.{kind}Pool2d", kernel_size=kernel, stride=stride or 1, padding=pad, ceil_mode=True
            )
        return f"{self._port.module(name, made)}({given[0]})"

    def normalised(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        mean, variance, factor = (self._blob(layer, index) for index in range(3))
        self._arrays[f"{name}.running_mean"] = mean / factor
        self._arrays[f"{name}.running_var"] = variance / factor
        self._arrays[f"{name}.num_batches_tracked"] = np.array(0)
        eps = float(layer.settings.get("eps", ["1e-5"])[-1])
        made = _called("nn.BatchNorm2d", sizes[0][0], eps=eps, affine=False)
        return f"{self._port.module(name, made)}({given[0]})"

    def local(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        size = layer.number("local_size", 5)
        defaults = {"alpha": "1", "beta": "0.75"}
        alpha, beta = (float(layer.settings.get(key, [value])[-1]) for key, value in defaults.items())
        if layer.settings.get("norm_region", [""])[-1] == "WITHIN_CHANNEL":
            assert size is not None
            made = _called("nn.AvgPool2d", kernel_size=size, stride=1, padding=(size - 1) // 2)
            mean = f"{self._port.module(name, made)}({given[0]} * {given[0]})"
            return f"{given[0]} / torch.pow(1.0 + {alpha} * {mean}, {beta})"
        k = float(layer.settings.get("k", ["1"])[-1])
        made = _called("nn.LocalResponseNorm", size, alpha=alpha, beta=beta, k=k)
        return f"{self._port.module(name, made)}({given[0]})"

    def joined(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        return f"torch.cat([{', '.join(given)}], dim=1)"

    def summed(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        return f"torch.add({', '.join(given)})"

    def plain(self, layer: Layer, name: str, given: list[str], sizes: list[tuple[int, ...]]) -> str:
        return f"{self._port.module(name, PLAIN[layer.kind])}({given[0]})"


PLAIN = {
    "relu": "nn.ReLU()", "sigmoid": "nn.Sigmoid()", "tanh": "nn.Tanh()", "dropout": "nn.Dropout()",
    "softmax": "nn.Softmax(dim=1)", "flatten": "nn.Flatten()",
}  # fmt: skip
"""Modules without arguments of their own, by the kind of Caffe's layer."""

CAFFE: dict[str, Callable[..., str]] = {
    "convolution": _CaffePort.convolution, "innerproduct": _CaffePort.dense, "pooling": _CaffePort.pooling,
    "batchnorm": _CaffePort.normalised, "lrn": _CaffePort.local, "concat": _CaffePort.joined,
    "eltwise": _CaffePort.summed,
} | dict.fromkeys(PLAIN, _CaffePort.plain)  # fmt: skip


def _called(function: str, *arguments: Any, **settings: Any) -> str:
    """Return a call as source; settings that are PyTorch's own defaults are left out."""
    defaults = {"stride": 1, "padding": 0, "groups": 1, "bias": True}
    pooled = "Pool" in function
    kept = {k: v for k, v in settings.items() if (pooled and k == "stride") or defaults.get(k) != v}
    given = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in kept.items())]
    return f"{function}({', '.join(given)})"


def from_mxnet(title: str, net: MxnetNet) -> TorchNet:
    """Return a port of an MXNet net."""
    return _MxnetPort(title, net).port()


@dataclass(frozen=True)
class _Read:
    """A node on its way into a port.

    Attributes:
        name: What it is called there.
        inputs: What the port calls the signals that it reads.
        sources: The nodes that it reads, arrays among them.
        settings: Its settings as text.
    """

    name: str
    inputs: list[str]
    sources: list[Node]
    settings: Mapping[str, str]


class _MxnetPort:
    """Writes a port node by node; a method returns an expression and its channels, 0 if as before."""

    def __init__(self, title: str, net: MxnetNet) -> None:
        self._net = net
        self._nodes: list[Node] = net.symbol["nodes"]
        self._port = Port(f"{title}, after MXNet's.", ["data"])
        self._arrays: Arrays = {}
        self._names: dict[str, str] = {}
        self._channels: dict[str, int] = {"data": net.shape[0]}

    def port(self) -> TorchNet:
        for node in self._nodes:
            if node["op"] != "null":
                self._add(node)
        outputs = [word(self._nodes[head[0]]["name"]) for head in self._net.symbol["heads"]]
        return TorchNet(self._port.text(outputs), self._arrays, self._net.shape, self._names)

    def _add(self, node: Node) -> None:
        name = word(node["name"])
        sources = [self._nodes[source] for source, *_ in node["inputs"]]
        given = [word(source["name"]) for source in sources if self._is_signal(source)]
        expression, channels = MXNET[node["op"]](self, _Read(name, given, sources, node.get("attrs", {})))
        self._port.call(f"{name}_", expression)
        self._port.calls[-1] = f"{name} = {expression}"
        self._names[name] = node["name"]
        self._channels[name] = channels or self._channels.get(given[0], 0)

    def _is_signal(self, node: Node) -> bool:
        return node["op"] != "null" or node["name"] == "data"

    def _array(self, sources: list[Node], index: int) -> np.ndarray:
        name = sources[index]["name"]
        found = self._net.arrays.get(f"arg:{name}")
        return self._net.arrays[f"aux:{name}"] if found is None else found

    def convolution(self, one: _Read) -> tuple[str, int]:
        kernel, stride, pad, dilate = (
            _pair(one.settings.get(key, ""), default)
            for key, default in (("kernel", 1), ("stride", 1), ("pad", 0), ("dilate", 1))
        )
        outputs, groups = int(one.settings["num_filter"]), int(one.settings.get("num_group", "1"))
        biased = len(one.sources) > 2
        self._keep(one.name, one.sources, biased=biased)
        made = _called(
            "nn.Conv2d", self._channels[one.inputs[0]], outputs, kernel_size=kernel, stride=stride,
            padding=pad, groups=groups, bias=biased, **({"dilation": dilate} if dilate != 1 else {}),
        )  # fmt: skip
        return f"{self._port.module(one.name, made)}({one.inputs[0]})", outputs

    def dense(self, one: _Read) -> tuple[str, int]:
        biased = len(one.sources) > 2
        self._keep(one.name, one.sources, biased=biased)
        weight = self._array(one.sources, 1)
        made = _called("nn.Linear", weight.shape[1], len(weight), bias=biased)
        self._port.call(f"{one.inputs[0]}_flat", f"torch.flatten({one.inputs[0]}, 1)")
        return f"{self._port.module(one.name, made)}({one.inputs[0]}_flat)", len(weight)

    def _keep(self, name: str, sources: list[Node], *, biased: bool) -> None:
        self._arrays[f"{name}.weight"] = self._array(sources, 1)
        if biased:
            self._arrays[f"{name}.bias"] = self._array(sources, 2)

    def normalised(self, one: _Read) -> tuple[str, int]:
        gamma, beta, mean, variance = (self._array(one.sources, index) for index in range(1, 5))
        if one.settings.get("fix_gamma", "True") == "True":
            gamma = np.ones_like(gamma)
        own = one.name
        self._arrays |= {
            f"{own}.weight": gamma, f"{own}.bias": beta, f"{own}.running_mean": mean,
            f"{own}.running_var": variance, f"{own}.num_batches_tracked": np.array(0),
        }  # fmt: skip
        made = _called("nn.BatchNorm2d", len(gamma), eps=float(one.settings.get("eps", "1e-3")))
        return f"{self._port.module(own, made)}({one.inputs[0]})", len(gamma)

    def pooling(self, one: _Read) -> tuple[str, int]:
        kind = {"max": "Max", "avg": "Avg"}[one.settings.get("pool_type", "max")]
        if one.settings.get("global_pool", "False") in {"True", "1"}:
            made = f"nn.Adaptive{kind}Pool2d(1)"
        else:
            kernel, stride, pad = (
                _pair(one.settings.get(key, ""), default)
                for key, default in (("kernel", 1), ("stride", 1), ("pad", 0))
            )
            full = one.settings.get("pooling_convention", "valid") == "full"
            more = {"ceil_mode": True} if full else {}
            made = _called(f"nn.{kind}Pool2d", kernel_size=kernel, stride=stride, padding=pad, **more)
        return f"{self._port.module(one.name, made)}({one.inputs[0]})", 0

    def activation(self, one: _Read) -> tuple[str, int]:
        return f"{self._port.module(one.name, PLAIN[one.settings['act_type']])}({one.inputs[0]})", 0

    def clip(self, one: _Read) -> tuple[str, int]:
        low, high = float(one.settings["a_min"]), float(one.settings["a_max"])
        made = "nn.ReLU6()" if (low, high) == (0, 6) else f"nn.Hardtanh({low}, {high})"
        return f"{self._port.module(one.name, made)}({one.inputs[0]})", 0

    def plain(self, one: _Read) -> tuple[str, int]:
        return f"{self._port.module(one.name, 'nn.Flatten()')}({one.inputs[0]})", 0

    def dropped(self, one: _Read) -> tuple[str, int]:
        return f"{self._port.module(one.name, 'nn.Dropout()')}({one.inputs[0]})", 0

    def summed(self, one: _Read) -> tuple[str, int]:
        return f"torch.add({', '.join(one.inputs)})", 0

    def joined(self, one: _Read) -> tuple[str, int]:
        channels = sum(self._channels[source] for source in one.inputs)
        return f"torch.cat([{', '.join(one.inputs)}], dim=1)", channels


MXNET: dict[str, Callable[..., tuple[str, int]]] = {
    "Convolution": _MxnetPort.convolution, "FullyConnected": _MxnetPort.dense,
    "BatchNorm": _MxnetPort.normalised, "Pooling": _MxnetPort.pooling, "Activation": _MxnetPort.activation,
    "clip": _MxnetPort.clip, "Flatten": _MxnetPort.plain, "Dropout": _MxnetPort.dropped,
    "elemwise_add": _MxnetPort.summed, "Concat": _MxnetPort.joined,
}  # fmt: skip


def _pair(text: str, default: int) -> int | tuple[int, ...]:
    """Return a setting of MXNet's: one number where both axes have the same."""
    values = tuple(json.loads(text.replace("(", "[").replace(")", "]").replace(",]", "]"))) if text else ()
    return default if not values else values[0] if len(set(values)) == 1 else values
