"""Nets of MXNet 1.9.1: its model zoo, the symbol scripts of its examples, and two symbols of our own.

ORACLES/bin/python -m tests.oracles.matrix.with_mxnet FOLDER NET --sources SOURCES
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision

from tests.oracles.matrix.making import Made, Sources, draw_inputs, drawn, import_file, main

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = (1, 3, 224, 224)
EXAMPLES = ("apache/mxnet", "1.9.1")
S = mx.sym


def zoo(folder: Path, sources: Sources, name: str, shape: tuple[int, ...] = IMAGE) -> Made:
    """A net of the model zoo, by its own export."""
    block = getattr(vision, name)()
    block.initialize()
    block.hybridize()
    block(mx.nd.zeros(shape))
    for parameter in block.collect_params().values():
        parameter.set_data(mx.nd.array(drawn(parameter.name, parameter.shape)))
    block.export(str(folder / "net"))
    image = draw_inputs({"data": (shape, "normal")})["data"]
    made = block(mx.nd.array(image)).asnumpy()
    return Made(
        f"gluon.model_zoo.vision.{name}",
        ("net-symbol.json", "net-0000.params"),
        {"data": (shape, "normal")},
        {"output": made},
    )


def script(
    folder: Path, sources: Sources, path: str, shape: tuple[int, ...] = IMAGE, **settings: Any
) -> Made:
    """A symbol script of the examples of image classification."""
    path = f"example/image-classification/symbols/{path}.py"
    file = folder / "symbol_script.py"
    file.write_text(sources.text(*EXAMPLES, path))
    symbol = import_file(file, "symbol_script").get_symbol(num_classes=1000, **settings)
    return save(folder, symbol, path, {"data": (shape, "normal")})


def fcn8s(folder: Path, sources: Sources) -> Made:
    """FCN-8s, by the script of the examples."""
    path = "example/fcn-xs/symbol_fcnxs.py"
    file = folder / "symbol_script.py"
    file.write_text(sources.text(*EXAMPLES, path))
    symbol = import_file(file, "symbol_script").get_fcn8s_symbol(numclass=21, workspace_default=64)
    return save(folder, symbol, path, {"data": ((1, 3, 96, 128), "normal")})


def ssd300(folder: Path, sources: Sources) -> Made:
    """SSD300 on VGG-16, by the script of the examples."""
    path = sources.unpack(*EXAMPLES, "example/ssd/symbol", folder / "scripts")
    sys.path.insert(0, str(path.parent))
    sys.modules.pop("symbol", None)  # a module of Python has the name
    from symbol.symbol_factory import get_symbol

    symbol = get_symbol("vgg16_reduced", 300, num_classes=20)
    return save(folder, symbol, "example/ssd/symbol", {"data": ((1, 3, 300, 300), "normal")})


def language_model(folder: Path, sources: Sources) -> Made:
    """The language model of the examples (word_lm): two layers of LSTM cells in one operator each."""
    path = "example/rnn/word_lm/model.py"
    file = folder / "symbol_script.py"
    file.write_text(sources.text(*EXAMPLES, path))
    steps, batch, units = 7, 2, 64
    symbol, _, states = import_file(file, "symbol_script").rnn(steps, 200, units, units, 2, 0.2, batch, True)
    zeros = dict.fromkeys(states, (1, batch, units))
    return save(folder, symbol, path, {"data": ((steps, batch), "integers 200")}, zeros)


def nin(folder: Path, sources: Sources) -> Made:
    """Network in Network, in MXNet's words, as its authors' prototxt has it."""
    x = S.Variable("data")
    widths = ((96, 11, 4, 0), (256, 5, 1, 2), (384, 3, 1, 1), (1024, 3, 1, 1))
    for block, (width, kernel, stride, pad) in enumerate(widths, start=1):
        last = 1000 if block == len(widths) else width
        window = {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (pad, pad)}
        for number, (filters, more) in enumerate(
            ((width, window), (width, {"kernel": (1, 1)}), (last, {"kernel": (1, 1)}))
        ):
            x = S.Convolution(x, num_filter=filters, name=f"conv{block}_{number}", **more)
            x = S.Activation(x, act_type="relu", name=f"relu{block}_{number}")
        if block < len(widths):
            x = S.Pooling(x, kernel=(3, 3), stride=(2, 2), pool_type="max", name=f"pool{block}")
    x = S.Dropout(x, p=0.5, name="drop")
    x = S.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg", name="pool4")
    symbol = S.SoftmaxOutput(S.Flatten(x, name="flatten"), name="softmax")
    return save(folder, symbol, "a symbol of our own", {"data": ((1, 3, 227, 227), "normal")})


def unet(folder: Path, sources: Sources) -> Made:
    """U-Net with padding, in MXNet's words."""

    def block(x: Any, filters: int, name: str) -> Any:
        for number in (1, 2):
            key = f"{name}_conv{number}"
            x = S.Convolution(x, num_filter=filters, kernel=(3, 3), pad=(1, 1), name=key)
            x = S.Activation(x, act_type="relu", name=f"{name}_relu{number}")
        return x

    x, skips = S.Variable("data"), []
    for level, filters in enumerate((64, 128, 256, 512)):
        x = block(x, filters, f"down{level}")
        skips.append(x)
        x = S.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{level}")
    x = block(x, 1024, "bottom")
    for level, filters in reversed(list(enumerate((64, 128, 256, 512)))):
        x = S.Deconvolution(
            x, num_filter=filters, kernel=(2, 2), stride=(2, 2), no_bias=False, name=f"up{level}"
        )
        x = block(S.Concat(skips[level], x, name=f"concat{level}"), filters, f"left{level}")
    symbol = S.Convolution(x, num_filter=2, kernel=(1, 1), name="score")
    return save(folder, symbol, "a symbol of our own", {"data": ((1, 3, 96, 128), "normal")})


def save(
    folder: Path,
    symbol: Any,
    source: str,
    inputs: dict[str, tuple[tuple[int, ...], str]],
    zeros: dict[str, tuple[int, ...]] | None = None,
) -> Made:
    """Draw a symbol's arrays, save both, and run it."""
    zeros = dict(zeros or {})
    sizes = {name: shape for name, (shape, _) in inputs.items()}
    args, _, states = symbol.infer_shape(**sizes, **zeros)
    shapes = dict(zip(symbol.list_arguments(), args, strict=True))
    zeros |= {name: shapes[name] for name in shapes if name.endswith("label")}
    given = draw_inputs(inputs) | {name: np.zeros(shape, np.float32) for name, shape in zeros.items()}
    stored = {f"arg:{name}": drawn(name, shape) for name, shape in shapes.items() if name not in given}
    names = symbol.list_auxiliary_states()
    stored |= {f"aux:{name}": drawn(name, shape) for name, shape in zip(names, states, strict=True)}
    symbol.save(str(folder / "net-symbol.json"))
    mx.nd.save(str(folder / "net-0000.params"), {key: mx.nd.array(value) for key, value in stored.items()})
    bound = {key.partition(":")[2]: mx.nd.array(array) for key, array in stored.items()}
    bound |= {name: mx.nd.array(array) for name, array in given.items()}
    aux = {name: bound.pop(name) for name in names}
    found = symbol.bind(mx.cpu(), bound, aux_states=aux).forward(is_train=False)
    made = dict(zip(symbol.list_outputs(), (array.asnumpy() for array in found), strict=True))
    return Made(source, ("net-symbol.json", "net-0000.params"), inputs, made, zeros)


NETS = {
    "lenet": partial(script, path="lenet", shape=(1, 1, 28, 28)),
    "alexnet": partial(zoo, name="alexnet"),
    "nin": nin,
    "vgg16": partial(zoo, name="vgg16"),
    "googlenet": partial(script, path="googlenet"),
    "inception-bn": partial(script, path="inception-bn", image_shape="3,224,224"),
    "inception-v3": partial(zoo, name="inception_v3", shape=(1, 3, 299, 299)),
    "resnet18": partial(zoo, name="resnet18_v1"),
    "resnet50": partial(zoo, name="resnet50_v1"),
    "resnet50-v2": partial(zoo, name="resnet50_v2"),
    "densenet121": partial(zoo, name="densenet121"),
    "squeezenet": partial(zoo, name="squeezenet1_0"),
    "mobilenet": partial(zoo, name="mobilenet1_0"),
    "mobilenet-v2": partial(zoo, name="mobilenet_v2_1_0"),
    "ssd300": ssd300,
    "fcn8s": fcn8s,
    "unet": unet,
    "lstm": language_model,
}

if __name__ == "__main__":
    main(f"MXNet {mx.__version__}", NETS)
