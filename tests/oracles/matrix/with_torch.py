"""Nets of PyTorch: torchvision's models, and the rest as modules of our own, in two forms that PyTorch saves.

    PYTHON -m tests.oracles.matrix.with_torch FOLDER NET [--form onnx]

``net.pt2`` is what ``torch.export.save`` writes, ``net.onnx`` what ``torch.onnx.export`` does. PYTHON has
torch, torchvision and onnxscript. A torchvision without its own operators is enough: detection boxes are not
asked for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tests.oracles.matrix import torch_nets
from tests.oracles.matrix.making import Made, Sources, draw_inputs, drawn, main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

IMAGE = (1, 3, 224, 224)


def torchvision() -> Any:
    """Import torchvision, whether or not its own operators load."""
    register, torch.library.register_fake = torch.library.register_fake, lambda *a, **k: lambda made: made
    try:
        import torchvision.models
    finally:
        torch.library.register_fake = register
    return torchvision


def zoo(folder: Path, sources: Sources, name: str, shape: Sequence[int] = IMAGE) -> Made:
    """A classifier of torchvision's."""
    made = torchvision()
    settings = {"aux_logits": False, "init_weights": False} if name in {"googlenet", "inception_v3"} else {}
    model = getattr(made.models, name)(weights=None, **settings)
    return save(folder, model, {"x": (tuple(shape), "normal")}, f"torchvision {made.__version__}, {name}")


def ssd300(folder: Path, sources: Sources) -> Made:
    """SSD300 of torchvision up to its raw heads."""
    made = torchvision()
    model = made.models.detection.ssd300_vgg16(weights=None, weights_backbone=None)
    heads = torch_nets.Heads(model.backbone, model.head)
    source = f"torchvision {made.__version__}, ssd300_vgg16 up to its heads"
    return save(folder, heads, {"x": ((1, 3, 300, 300), "normal")}, source)


def own(folder: Path, sources: Sources, name: str, shape: Sequence[int], kind: str = "normal") -> Made:
    """A module of our own."""
    model = getattr(torch_nets, name)()
    return save(folder, model, {"x": (tuple(shape), kind)}, "a module of our own")


def save(folder: Path, model: Any, inputs: dict[str, Any], source: str) -> Made:
    """Draw a module's arrays, save it in both forms, and run it."""
    model.eval()
    for name, array in model.state_dict().items():
        if array.is_floating_point():
            array.copy_(torch.from_numpy(np.ascontiguousarray(_drawn(model, name, array))))
    x = torch.from_numpy(draw_inputs(inputs)["x"])
    x = x.to(torch.int64) if inputs["x"][1] != "normal" else x
    with torch.no_grad():
        made = model(x)
        torch.export.save(torch.export.export(model, (x,)), folder / "net.pt2")
        torch.onnx.export(
            model, (x,), str(folder / "net.onnx"), dynamo=True, external_data=False, verbose=False
        )
    made = made if isinstance(made, (tuple, list)) else [made]
    outputs = {f"y{index}": value.numpy() for index, value in enumerate(made)}
    return Made(source, ("net.pt2",), inputs, outputs)


def _drawn(model: Any, name: str, array: Any) -> np.ndarray:
    """Return an array; a transposed filter has its inputs first, and strides share them out."""
    owner = model.get_submodule(name.rpartition(".")[0]) if "." in name else model
    is_transposed = isinstance(owner, torch.nn.ConvTranspose2d)
    made: np.ndarray = drawn(name, tuple(array.shape), fan_in=array.shape[0] if is_transposed else None)
    return made


NETS = {
    "lenet": partial(own, name="LeNet", shape=(1, 1, 28, 28)),
    "alexnet": partial(zoo, name="alexnet"),
    "nin": partial(own, name="NIN", shape=(1, 3, 227, 227)),
    "vgg16": partial(zoo, name="vgg16"),
    "googlenet": partial(zoo, name="googlenet"),
    "inception-v3": partial(zoo, name="inception_v3", shape=(1, 3, 299, 299)),
    "resnet18": partial(zoo, name="resnet18"),
    "resnet50": partial(zoo, name="resnet50"),
    "densenet121": partial(zoo, name="densenet121"),
    "squeezenet": partial(zoo, name="squeezenet1_0"),
    "mobilenet-v2": partial(zoo, name="mobilenet_v2"),
    "ssd300": ssd300,
    "unet": partial(own, name="UNet", shape=(1, 3, 96, 128)),
    "lstm": partial(own, name="LanguageModel", shape=(2, 7), kind="integers 200"),
}

if __name__ == "__main__":
    main(f"PyTorch {torch.__version__.partition('+')[0]}", NETS)
