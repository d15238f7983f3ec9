"""Further programs for MXNet's API: networks of Gluon's zoo, SVRG, sparse kinds, and a step of a ResNet.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_more

Writes ``tests/golden/mxnet_more.npz`` (MXNet 1.9.1, with SciPy beside it for its sparse arrays).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
NETWORKS = {
    "resnet18_v1": 32,
    "resnet50_v1": 32,
    "resnet18_v2": 32,
    "resnet50_v2": 32,
    "vgg11": 32,
    "vgg13_bn": 32,
    "alexnet": 64,
    "mobilenet0.25": 32,
    "mobilenetv2_0.5": 32,
    "squeezenet1.0": 224,
    "squeezenet1.1": 224,
    "densenet121": 224,
    "inceptionv3": 299,
}
"""Networks of the zoo, with the size of an image for each."""


def by_name(name: str, shape: Any) -> np.ndarray:
    """Return values that follow from a parameter's name: steady through a deep net."""
    generator = np.random.RandomState(sum(map(ord, name)) % 9999)
    values = generator.uniform(-1, 1, shape)
    if name.endswith(("var", "gamma")):
        return np.abs(values) + 0.5
    return values * (3 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else values * 0.1


def zoo(mx: Any, name: str) -> Arrays:
    """Return what a network of the zoo computes, and names and sizes of its parameters."""
    net = mx.gluon.model_zoo.vision.get_model(name, classes=7, prefix="x_")
    net.initialize(mx.init.One())
    image = mx.nd.array(np.random.RandomState(0).uniform(0, 1, (1, 3, NETWORKS[name], NETWORKS[name])))
    net(image)  # the sizes of the parameters follow from it
    shapes = {}
    for key, parameter in net.collect_params().items():
        parameter.set_data(mx.nd.array(by_name(key, parameter.shape)))
        shapes[key] = "x".join(map(str, parameter.shape))
    return {
        "output": net(image).asnumpy(),
        "parameters": np.array([f"{key} {shapes[key]}" for key in sorted(shapes)]),
    }


def svrg(mx: Any) -> Arrays:
    """Return the arrays after five epochs with a full pass every second one."""
    package = importlib.import_module(f"{mx.__name__}.contrib.svrg_optimization.svrg_module")
    x = np.random.RandomState(0).uniform(-1, 1, (40, 5)).astype(np.float32)
    batches = mx.io.NDArrayIter(x, x.sum(1) + 0.1, 8, label_name="wanted")
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("wanted"), name="out")
    module = package.SVRGModule(net, data_names=["data"], label_names=["wanted"], update_freq=2)
    module.fit(
        batches,
        eval_metric="mse",
        optimizer="sgd",
        optimizer_params=(("learning_rate", 0.05),),
        num_epoch=5,
        arg_params={"fc_weight": mx.nd.ones((1, 5)) * 0.1, "fc_bias": mx.nd.zeros((1,))},
        aux_params={},
    )
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def masks(mx: Any) -> Arrays:
    """Return ones in the places of the largest elements, and what is sorted without an axis."""
    x = mx.nd.array(np.random.RandomState(0).uniform(-1, 1, (3, 4, 5)))
    settings: Any = ({"axis": None, "k": 7}, {"axis": 1, "k": 2}, {"k": 2}, {"axis": 0, "is_ascend": True})
    found = {f"mask{n}": mx.nd.topk(x, ret_typ="mask", **one).asnumpy() for n, one in enumerate(settings)}
    found["values"] = mx.nd.topk(x, axis=None, k=7, ret_typ="value").asnumpy()
    return found | {
        "sort": mx.nd.sort(x, axis=None).asnumpy(),
        "places": mx.nd.argsort(x, axis=None).asnumpy(),
    }


def sparse(mx: Any) -> Arrays:
    """Return the parts of sparse arrays."""
    matrix = mx.nd.sparse.csr_matrix(([1.0, 2, 3], ([0, 0, 2], [1, 3, 0])), shape=(3, 4))
    same = mx.nd.sparse.csr_matrix(([1.0, 2, 3], [1, 3, 0], [0, 2, 2, 3]), shape=(3, 4))
    rows = mx.nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 3]), shape=(5, 2))
    kinds = [one.stype for one in (matrix, rows, rows.tostype("default"), mx.nd.ones((2, 2)).tostype("csr"))]
    return {
        "matrix": matrix.asnumpy(),
        "same": same.asnumpy(),
        "indices": matrix.indices.asnumpy(),
        "indptr": matrix.indptr.asnumpy(),
        "data": matrix.data.asnumpy(),
        "rows": rows.asnumpy(),
        "row numbers": rows.indices.asnumpy(),
        "row data": rows.data.asnumpy(),
        "kinds": np.array(kinds),
    }


def residual_net(mx: Any) -> Any:
    """Return a ResNet of three stages of two units, with MXNet's default batch normalisation."""

    def norm(x: Any, name: str) -> Any:
        return mx.sym.Activation(mx.sym.BatchNorm(x, name=f"{name}_bn"), act_type="relu")

    x = mx.sym.Variable("data")
    x = mx.sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv0")
    for stage, width in enumerate((8, 16, 32)):
        for unit in range(2):
            name, stride = f"s{stage}u{unit}", 2 if stage and not unit else 1
            before = norm(x, f"{name}a")
            shapes: Any = {"num_filter": width, "no_bias": True, "stride": (stride, stride)}
            inner = mx.sym.Convolution(before, kernel=(3, 3), pad=(1, 1), name=f"{name}_conv1", **shapes)
            inner = mx.sym.Convolution(
                norm(inner, f"{name}b"),
                kernel=(3, 3),
                pad=(1, 1),
                num_filter=width,
                no_bias=True,
                name=f"{name}_conv2",
            )
            if unit == 0:
                x = mx.sym.Convolution(before, kernel=(1, 1), name=f"{name}_short", **shapes)
            x = x + inner
    x = mx.sym.Pooling(norm(x, "last"), global_pool=True, kernel=(4, 4), pool_type="avg")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def residual_step(mx: Any, dtype: str = "float32") -> Arrays:
    """Return how far each array moves in one step of SGD, and the moving statistics after it."""
    net = residual_net(mx)
    shapes = {"data": (8, 3, 16, 16), "softmax_label": (8,)}
    kinds = dict.fromkeys(net.list_arguments(), dtype)
    executor = net.simple_bind(mx.cpu(), grad_req="write", type_dict=kinds, **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = by_name(name, array.shape).astype(np.float32)
    executor.arg_dict["data"][:] = np.random.RandomState(1).normal(size=shapes["data"]).astype(np.float32)
    executor.arg_dict["softmax_label"][:] = np.arange(8) % 10
    for name, array in executor.aux_dict.items():
        array[:] = 1.0 if name.endswith("var") else 0.0
    executor.forward(is_train=True)
    executor.backward()
    update = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=0.1, rescale_grad=1 / 8))
    found = {}
    for number, (name, array) in enumerate(sorted(executor.arg_dict.items())):
        if name not in shapes:
            before = array.asnumpy().astype(np.float64)
            update(number, executor.grad_dict[name], array)
            found[name] = array.asnumpy().astype(np.float64) - before
    return found | {name: array.asnumpy() for name, array in executor.aux_dict.items()}


def custom_states(mx: Any) -> Arrays:
    """A custom operator that keeps a running mean and counts its passes in auxiliary states."""

    class Centered(mx.operator.CustomOp):  # type: ignore[misc,name-defined]
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            if is_train:
                aux[0][:] = 0.75 * aux[0] + 0.25 * mx.nd.mean(in_data[0], axis=0)
            self.assign(out_data[0], req[0], mx.nd.broadcast_sub(in_data[0], aux[0].reshape((1, -1))))

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            aux[1][:] = aux[1] + 1
            self.assign(in_grad[0], req[0], out_grad[0])

    @mx.operator.register("centered")
    class CenteredProp(mx.operator.CustomOpProp):  # type: ignore[misc,name-defined]
        def list_auxiliary_states(self) -> list[str]:
            return ["running", "passes"]

        def infer_shape(self, in_shape: Any) -> Any:
            return in_shape, [in_shape[0]], [[in_shape[0][1]], [1]]

        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
            return Centered()

    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    x = mx.sym.Custom(x, op_type="centered", name="center")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=3, name="fc2")
    net = mx.sym.SoftmaxOutput(x, name="softmax")
    generator = np.random.RandomState(3)
    shapes, _, of_states = net.infer_shape(data=(6, 5))
    names = net.list_arguments()
    found: Arrays = {"arguments": np.array(names), "states": np.array(net.list_auxiliary_states())}
    found["sizes of states"] = np.array([list(one) for one in of_states])
    args = {
        name: mx.nd.array(generator.uniform(-1, 1, shape))
        for name, shape in zip(names, shapes, strict=True)
        if name not in {"data", "softmax_label"}
    }
    aux = {"center_running": mx.nd.array([0.5, 0, -0.5, 1]), "center_passes": mx.nd.zeros((1,))}
    module = mx.mod.Module(net)
    module.bind([("data", (6, 5))], [("softmax_label", (6,))])
    module.init_params(arg_params=args, aux_params=aux)
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    for step in range(4):
        data = mx.nd.array(np.random.RandomState(step).normal(size=(6, 5)))
        module.forward(mx.io.DataBatch([data], [mx.nd.array([0, 1, 2, 0, 1, 2])]), is_train=True)
        module.backward()
        module.update()
        mx.nd.waitall()
    module.forward(mx.io.DataBatch([data], None), is_train=False)
    found["output"] = module.get_outputs()[0].asnumpy()
    args, aux = module.get_params()
    found |= {name: array.asnumpy() for name, array in {**args, **aux}.items()}
    running = mx.nd.array([1.0, 2.0])
    with mx.autograd.record():
        mx.nd.Custom(mx.nd.ones((2, 2)), running, mx.nd.zeros((1,)), op_type="centered").wait_to_read()
    return found | {"of an array": running.asnumpy()}


def main() -> None:
    """Run everything under MXNet."""
    import mxnet as mx  # type: ignore[import-not-found]

    found = {f"zoo {name}": zoo(mx, name) for name in NETWORKS}
    found |= {one.__name__: one(mx) for one in (svrg, masks, sparse, custom_states)}
    found |= {"residual 64": residual_step(mx, "float64"), "residual 32": residual_step(mx)}
    arrays = {f"{program}/{key}": array for program, row in found.items() for key, array in row.items()}
    np.savez_compressed(Path(__file__).parents[1] / "golden" / "mxnet_more.npz", **arrays)


if __name__ == "__main__":
    main()
