"""Nets of Chainer 7.8.1: its links, the classes of its examples, two of ChainerCV, and some of our own.

    ORACLES/bin/python -m tests.oracles.matrix.with_chainer FOLDER NET --sources SOURCES

A model of an example is copied as it is, and run in test mode; one that judges itself gives what it hands to
its loss.
"""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chainer
import numpy as np
import pkg_resources
from chainer import functions

from tests.oracles.matrix.making import Made, Sources, draw_inputs, drawn, import_file, main

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN = Path(__file__).with_name("chainer_nets.py")
"""Model classes of our own."""

VGG = """import chainer.links as L


def make():
    return L.VGG16Layers(pretrained_model=None)
"""


VISION = """from chainercv.links import {0}


def make():
    return {0}(n_fg_class=20)
"""


def example(folder: Path, sources: Sources, path: str, entry: str, shape: Sequence[int]) -> Made:
    """A model class of Chainer's examples."""
    path = f"examples/imagenet/{path}.py"
    return save(
        folder, sources.text("chainer/chainer", "v7.8.1", path), entry, {"x": (tuple(shape), "normal")}, path
    )


def own(folder: Path, sources: Sources, entry: str, shape: Sequence[int], kind: str = "normal") -> Made:
    """A model class of our own."""
    return save(folder, OWN.read_text(), entry, {"x": (tuple(shape), kind)}, "a class of our own")


def links(folder: Path, sources: Sources) -> Made:
    """VGG-16 as a link of Chainer's."""
    return save(
        folder, VGG, "make", {"x": ((1, 3, 224, 224), "normal")}, "chainer.links.VGG16Layers", raw=True
    )


def vision(folder: Path, sources: Sources, entry: str, side: int) -> Made:
    """A detection net of ChainerCV; what its compiled part does on a GPU is left out."""
    package = sources.unpack("chainer/chainercv", "v0.13.1", "chainercv", folder / "oracle")
    (package / "utils" / "bbox" / "_nms_gpu_post.py").write_text("_nms_gpu_post = None\n")
    told = package.with_name("chainercv.egg-info")
    told.mkdir(exist_ok=True)
    (told / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: chainercv\nVersion: 0.13.1\n")
    pkg_resources.working_set.add_entry(str(package.parent))
    sys.path.append(str(package.parent))
    inputs = {"x": ((1, 3, side, side), "normal")}
    return save(folder, VISION.format(entry), "make", inputs, f"ChainerCV 0.13.1, {entry}", raw=True)


def save(
    folder: Path, text: str, entry: str, inputs: dict[str, Any], source: str, *, raw: bool = False
) -> Made:
    """Write a model's file and weights, and run it."""
    file = folder / "net.py"
    file.write_text(text)
    model = getattr(import_file(file, "net"), entry)()
    x = draw_inputs(inputs)["x"]
    x = x.astype(np.int32) if inputs["x"][1] != "normal" else x
    labels = [np.zeros(len(x), np.int32)] * (len(inspect.signature(model.forward).parameters) > 1 and not raw)
    handed: list[Any] = []
    judge = functions.softmax_cross_entropy

    def noted(x: Any, t: Any, *args: Any, **kwargs: Any) -> Any:
        handed.append(x)
        return judge(x, t, *args, **kwargs)

    functions.softmax_cross_entropy = noted
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        run(model, x, labels)  # sizes of links are found at the first call
        draw(model)
        handed.clear()
        made = run(model, x, labels)
    found = handed or (list(made.values()) if isinstance(made, dict) else made)
    found = found if isinstance(found, list | tuple) else [found]
    chainer.serializers.save_npz(str(folder / "net.npz"), model)
    outputs = {f"y{index}": value.array for index, value in enumerate(found)}
    return Made(source, ("net.py", "net.npz"), inputs, outputs, entry=entry)


def run(model: Any, x: np.ndarray, labels: list[np.ndarray]) -> Any:
    """Call a model with its states at rest."""
    for link in model.links():
        if hasattr(link, "reset_state"):
            link.reset_state()
    return model(x, *labels)


def draw(model: Any) -> None:
    """Draw every array by its path."""
    for path, parameter in sorted(model.namedparams()):
        parameter.array[...] = drawn(path.strip("/"), parameter.shape)
    for path, link in sorted(model.namedlinks()):
        if getattr(link, "avg_var", None) is not None:
            link.avg_mean[...] = drawn(f"{path}/avg_mean".strip("/"), link.avg_mean.shape)
            link.avg_var[...] = drawn(f"{path}/avg_var".strip("/"), link.avg_var.shape)


NETS = {
    "lenet": partial(own, entry="LeNet", shape=(1, 1, 28, 28)),
    "alexnet": partial(example, path="alex", entry="Alex", shape=(1, 3, 227, 227)),
    "nin": partial(example, path="nin", entry="NIN", shape=(1, 3, 227, 227)),
    "vgg16": links,
    "googlenet": partial(example, path="googlenet", entry="GoogLeNet", shape=(1, 3, 224, 224)),
    "inception-bn": partial(example, path="googlenetbn", entry="GoogLeNetBN", shape=(1, 3, 224, 224)),
    "resnet18": partial(own, entry="ResNet18", shape=(1, 3, 224, 224)),
    "resnet50": partial(example, path="resnet50", entry="ResNet50", shape=(1, 3, 224, 224)),
    "squeezenet": partial(own, entry="SqueezeNet", shape=(1, 3, 224, 224)),
    "ssd300": partial(vision, entry="SSD300", side=300),
    "yolov3": partial(vision, entry="YOLOv3", side=416),
    "fcn8s": partial(own, entry="FCN8s", shape=(1, 3, 96, 128)),
    "unet": partial(own, entry="UNet", shape=(1, 3, 96, 128)),
    "lstm": partial(own, entry="LanguageModel", shape=(2, 7), kind="integers 200"),
}

if __name__ == "__main__":
    main(f"Chainer {chainer.__version__}", NETS)
