"""What other people's scripts for MXNet do, run by MXNet 1.9.1.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_habits

Writes ``tests/golden/mxnet_habits.npz``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def one_slope(mx: Any) -> Arrays:
    """A ``PReLU`` with one slope for all channels, before and after ``hybridize``, and as a symbol.

    After ``hybridize``, MXNet's gradient of a slope behind a convolution is a quarter of the one before, and
    that is the one of the formula. It is not compared.
    """
    found: Arrays = {}
    x = mx.nd.array(np.random.RandomState(0).normal(size=(2, 3, 6, 6)))
    for is_hybrid in (False, True):
        net = mx.gluon.nn.HybridSequential(prefix="n_")
        with net.name_scope():
            net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.PReLU(), mx.gluon.nn.Dense(2))
        net.initialize(mx.init.One())
        if is_hybrid:
            net.hybridize()
        with mx.autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
        alpha = net[1].alpha
        found |= {f"output {is_hybrid}": y.asnumpy(), f"alpha {is_hybrid}": alpha.data().asnumpy()}
        if not is_hybrid:
            found["gradient"] = alpha.grad().asnumpy()
    one = mx.sym.LeakyReLU(mx.sym.var("data"), mx.sym.var("g", shape=(1,)), act_type="prelu")
    for name, symbol in {"one": one, "all": mx.sym.LeakyReLU(mx.sym.var("data"), act_type="prelu")}.items():
        found[f"sizes {name}"] = np.array(symbol.infer_shape(data=(2, 3, 6, 6))[0][1])
    return found


def priors(mx: Any) -> Arrays:
    """Anchors for settings that are drawn; each bit counts, because anchors tie."""
    generator, found = np.random.RandomState(40), {}
    for case in range(12):
        rows, columns = generator.randint(1, 40, 2)
        settings = {
            "sizes": tuple(generator.uniform(0.05, 0.9, generator.randint(1, 4)).round(3)),
            "ratios": tuple(generator.uniform(0.3, 3, generator.randint(1, 4)).round(2)),
            "clip": bool(generator.randint(2)),
        }
        if case % 3 == 2:
            settings |= {"steps": tuple(generator.uniform(0.01, 0.1, 2).round(3)), "offsets": (0.5, 0.4)}
        x = mx.nd.zeros((1, 1, int(rows), int(columns)))
        boxes = mx.nd.contrib.MultiBoxPrior(x, **settings).asnumpy()
        found[str(case)] = boxes.view(np.int32).reshape(-1, 4).sum(axis=0, dtype=np.int64)
    return found


def _heads(mx: Any, maps: Any, classes: int) -> tuple[Any, Any, Any]:
    """Return what an SSD's heads say of places and classes, and the anchors."""
    parts: dict[str, list[Any]] = {"loc": [], "cls": [], "anchor": []}
    for number, (x, sizes) in enumerate(maps):
        for kind, count in (("loc", 16), ("cls", 4 * (classes + 1))):
            y = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=count, name=f"{kind}{number}")
            parts[kind].append(mx.sym.Flatten(mx.sym.transpose(y, axes=(0, 2, 3, 1))))
        boxes = mx.sym.contrib.MultiBoxPrior(x, sizes=sizes, ratios=(1, 2, 0.5), name=f"anchor{number}")
        parts["anchor"].append(mx.sym.Flatten(boxes))
    loc, scores, anchors = (mx.sym.Concat(*parts[kind], dim=1) for kind in ("loc", "cls", "anchor"))
    scores = mx.sym.Reshape(scores, shape=(0, -1, classes + 1))
    return loc, mx.sym.transpose(scores, axes=(0, 2, 1)), mx.sym.Reshape(anchors, shape=(0, -1, 4))


def mined_net(mx: Any) -> Any:
    """A small SSD with hard negative mining, as MXNet's example trains it."""
    x = mx.sym.var("data")
    for number, (channels, stride) in enumerate(((8, 2), (16, 2), (16, 1))):
        x = mx.sym.Convolution(
            x, kernel=(3, 3), pad=(1, 1), stride=(stride,) * 2, num_filter=channels, name=f"conv{number}"
        )
        x = mx.sym.Activation(x, act_type="relu")
    second = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    loc, scores, anchors = _heads(mx, ((x, (0.2, 0.35)), (second, (0.5, 0.7))), 3)
    target = mx.sym.contrib.MultiBoxTarget(
        anchors, mx.sym.var("label"), scores, negative_mining_ratio=3, negative_mining_thresh=0.5
    )
    classes = mx.sym.SoftmaxOutput(
        scores, target[2], use_ignore=True, ignore_label=-1, multi_output=True, normalization="valid"
    )
    places = mx.sym.smooth_l1(target[1] * (loc - target[0]), scalar=1.0)
    return mx.sym.Group(
        [classes, mx.sym.MakeLoss(places, normalization="valid"), mx.sym.BlockGrad(target[2])]
    )


def mined(mx: Any) -> Arrays:
    """Which anchors are trained in 12 steps of an SSD, and its parameters at the end."""
    generator, found = np.random.RandomState(0), {}
    symbol = mined_net(mx)
    executor = symbol.simple_bind(mx.cpu(), data=(4, 3, 64, 64), label=(4, 3, 5))
    weights = {name: array for name, array in executor.arg_dict.items() if name not in {"data", "label"}}
    for name, array in sorted(weights.items()):
        array[:] = 0 if name.endswith("bias") else generator.normal(0, 0.08, array.shape)
    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.05, momentum=0.9, wd=5e-4))
    for step in range(12):
        label = -np.ones((4, 3, 5))
        for image, count in enumerate(generator.randint(0, 4, 4)):
            for number in range(count):
                corner, size = generator.uniform(0, 0.6, 2), generator.uniform(0.15, 0.5, 2)
                label[image, number] = [generator.randint(3), *corner, *np.minimum(corner + size, 1)]
        executor.arg_dict["data"][:] = generator.normal(size=(4, 3, 64, 64))
        executor.arg_dict["label"][:] = label
        executor.forward(is_train=True)
        executor.backward()
        for number, name in enumerate(sorted(weights)):
            update(number, executor.grad_dict[name], weights[name])
        found[f"classes {step}"] = executor.outputs[2].asnumpy().astype(np.int8)
    return found | {name: array.asnumpy() for name, array in weights.items()}


def moving(mx: Any) -> Arrays:
    """The moving statistics of a normalisation after each of three updates, read once MXNet is done."""
    x = mx.sym.BatchNorm(mx.sym.var("data"), fix_gamma=False, name="norm")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3), name="softmax"))
    module.bind([("data", (8, 16, 5, 5))], [("softmax_label", (8,))])
    module.init_params(mx.init.One())
    module.init_optimizer()
    data, found = np.random.RandomState(0).uniform(1, 3, (8, 16, 5, 5)), {}
    for step in range(3):
        module.forward_backward(mx.io.DataBatch([mx.nd.array(data)], [mx.nd.zeros((8,))]))
        module.update()
        mx.nd.waitall()  # MXNet's backward changes them, and get_params does not wait for it
        states = module.get_params()[1]
        found |= {f"{name} {step}": array.asnumpy() for name, array in states.items()}
    return found


PROGRAMS = (one_slope, priors, mined, moving)


def main() -> None:
    """Run everything under MXNet."""
    import mxnet as mx  # type: ignore[import-not-found]

    found = {one.__name__: one(mx) for one in PROGRAMS}
    arrays = {f"{program}/{key}": array for program, row in found.items() for key, array in row.items()}
    np.savez_compressed(Path(__file__).parents[1] / "golden" / "mxnet_habits.npz", **arrays)


if __name__ == "__main__":
    main()
