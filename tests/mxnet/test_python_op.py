"""``NumpyOp`` and ``NDArrayOp`` against MXNet's values of the same ``CustomOp``: 1.9.1 crashes over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from tests.oracles.mxnet_api import arrays_of, numbers

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mxnet_api.npz")


def softmax_forward(x: np.ndarray) -> np.ndarray:
    y = np.exp(x - x.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


class WithLabels:
    """What both softmaxes have in common."""

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]]


class NumpySoftmax(WithLabels, mx.operator.NumpyOp):
    def forward(self, in_data: Any, out_data: Any) -> None:
        out_data[0][:] = softmax_forward(in_data[0])

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        in_grad[0][:] = out_data[0]
        in_grad[0][np.arange(len(out_data[0])), in_data[1].astype(int)] -= 1.0


class NDArraySoftmax(WithLabels, mx.operator.NDArrayOp):
    def forward(self, in_data: Any, out_data: Any) -> None:
        out_data[0][:] = mx.nd.array(softmax_forward(in_data[0].asnumpy()))

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        in_grad[0][:] = out_data[0] - mx.nd.one_hot(in_data[1], 3)


@pytest.mark.parametrize("kind", [NumpySoftmax, NDArraySoftmax])
def test_a_loss_trains_as_mxnet_s_custom_operator_does(kind: Any) -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    symbol = kind(need_top_grad=False)(data=x, name="softmax")
    assert symbol.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"]
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(arg_params=arrays_of(mx, symbol, data=(4, 5))[0], aux_params={})
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    batch = mx.io.DataBatch([mx.nd.array(numbers(4, 5))], [mx.nd.array([0, 1, 2, 1])])
    for _ in range(3):
        module.forward_backward(batch)
        module.update()
    found = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    found["output"] = module.get_outputs()[0].asnumpy()
    for name, array in found.items():
        np.testing.assert_allclose(array, GOLDEN[f"custom_operator/{name}"], rtol=2e-5, atol=2e-6)


def test_a_gradient_from_above_reaches_the_operator_and_instances_are_apart() -> None:
    class Scaled(mx.operator.NDArrayOp):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, in_data: Any, out_data: Any) -> None:
            out_data[0][:] = in_data[0] * self.factor

        def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
            in_grad[0][:] = out_grad[0] * self.factor

    symbol = Scaled(3.0)(Scaled(2.0)(mx.sym.Variable("data")))
    executor = symbol.simple_bind(mx.cpu(), data=(2, 3))
    executor.forward(is_train=True, data=mx.nd.ones((2, 3)))
    executor.backward([mx.nd.array([[1, 2, 3], [4, 5, 6]])])
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), np.full((2, 3), 6.0))
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), 6 * np.arange(1, 7).reshape(2, 3))


def test_images_in_folders_are_a_data_set(tmp_path: Path) -> None:
    from PIL import Image

    for label, name in enumerate(("bird", "cat")):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("RGB", (4, 3), (50 * label, 0, 0)).save(tmp_path / name / f"{number}.png")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "list.txt").write_text("no folder")
    with pytest.warns(UserWarning, match="is left out"):
        found = mx.gluon.data.vision.ImageFolderDataset(
            str(tmp_path), transform=lambda x, y: (x.asnumpy(), y)
        )
    assert (found.synsets, len(found)) == (["bird", "cat"], 4)
    assert [label for _, label in found.items] == [0, 0, 1, 1]
    image, label = found[3]
    assert (image.shape, image[0, 0].tolist(), label) == ((3, 4, 3), [50, 0, 0], 1)
