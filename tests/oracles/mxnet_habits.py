"""What other people's scripts for MXNet do, run by MXNet 1.9.1.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_habits

Writes ``tests/golden/mxnet_habits.npz``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
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


def written_to(mx: Any) -> Arrays:
    """States of optimizers by hand: arrays that operators make and scripts write to."""
    weight, found = mx.nd.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]]), {}
    weight.attach_grad()
    states = {
        "zeros": weight.zeros_like(),
        "ones": weight.ones_like(),
        "broadcast": mx.nd.array([[1.0, 2.0]]).broadcast_to((3, 2)),
        "axis": mx.nd.broadcast_axis(mx.nd.array([[1.0, 2.0]]), axis=0, size=3),
        "tiled": mx.nd.tile(mx.nd.array([[1.0, 2.0]]), reps=(3, 1)),
    }
    for _ in range(3):
        with mx.autograd.record():
            loss = (weight * weight).sum()
        loss.backward()
        for state in states.values():
            state[:] = 0.9 * state + weight.grad
            state[1] += 1
        weight[:] = weight - 0.1 * states["zeros"]
    found |= {name: state.asnumpy() for name, state in states.items()}
    return found | {"weight": weight.asnumpy()}


def numbers_alone(mx: Any) -> Arrays:
    """Sums and products without what is not a number, and their gradients."""
    x, found = mx.nd.array([[1.0, np.nan, 3.0], [np.nan, 0.5, 2.0]]), {}
    for name in ("nansum", "nanprod"):
        for settings in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
            found[f"{name} {settings}"] = getattr(mx.nd, name)(x, **settings).asnumpy()
    x.attach_grad()
    with mx.autograd.record():
        y = (mx.nd.nansum(x, axis=1) * mx.nd.array([2.0, 3.0])).sum()
    y.backward()
    return found | {"gradient": x.grad.asnumpy()}


def by_place(mx: Any) -> Arrays:
    """Settings of operators without their names, on arrays and on symbols."""
    x = mx.nd.array(np.random.RandomState(0).normal(size=(2, 4, 6, 6)))
    rows, wide = x.reshape((2, -1)), (0, 0, 0, 0, 1, 1, 2, 2)
    arrays = {
        "Activation": mx.nd.Activation(x, "tanh"),
        "Dropout": mx.nd.Dropout(x, 0.5),
        "L2Normalization": mx.nd.L2Normalization(x, 1e-3, "channel"),
        "Pad": mx.nd.pad(x, "constant", wide, 3),
        "Pooling": mx.nd.Pooling(x, (2, 2), "avg"),
        "SoftmaxActivation": mx.nd.SoftmaxActivation(x, "channel"),
        "SequenceMask": mx.nd.SequenceMask(x, mx.nd.array([1, 2, 1, 2]), True, -1),
        "hard_sigmoid": mx.nd.hard_sigmoid(x, 0.3, 0.4),
        "reverse": mx.nd.reverse(x, 2),
        "slice_like": mx.nd.slice_like(x, mx.nd.ones((1, 2)), (1,)),
        "depth_to_space": mx.nd.depth_to_space(x, 2),
        "gemm2": mx.nd.linalg.gemm2(rows, rows, False, True, 0.5),
        "dense": mx.nd.FullyConnected(rows, mx.nd.ones((3, 144)), mx.nd.ones((3,)), 3),
    }
    data = mx.sym.var("data")
    symbols = {
        "convolved": mx.sym.Convolution(
            data, mx.sym.var("w"), mx.sym.var("b"), (3, 3), (1, 1), (1, 1), (1, 1), 5
        ),
        "dense": mx.sym.FullyConnected(data, mx.sym.var("w"), mx.sym.var("b"), 7),
    }
    found = {name: array.asnumpy() for name, array in arrays.items()}
    return found | {
        f"sizes {name}": np.array(one.infer_shape(data=(2, 4, 6, 6))[1][0]) for name, one in symbols.items()
    }


def chained(mx: Any) -> Arrays:
    """Methods of symbols with settings by place, and their sizes."""
    x = mx.sym.var("data")
    symbols = {
        "reshape": x.reshape((-1, 6)),
        "transpose": x.transpose((1, 0, 2)),
        "sum": x.sum(1),
        "slice": x.slice_axis(2, 0, 2).expand_dims(0),
        "clip": x.clip(-1, 1).mean(0, True),
        "swap": x.swapaxes(0, 2).flatten(),
    }
    return {name: np.array(one.infer_shape(data=(2, 3, 4))[1][0]) for name, one in symbols.items()}


class _Batch:
    """A batch of a script: data and labels, and nothing that says what they are."""

    def __init__(self, mx: Any, seed: int, count: int) -> None:
        generator = np.random.RandomState(seed)
        self.data = [mx.nd.array(generator.normal(size=(count, 5)))]
        self.label = [mx.nd.array(generator.randint(3, size=count))]
        self.pad = 0


def own_batches(mx: Any) -> Arrays:
    """A module on batches of a class of the script, with spare arrays among its first values."""
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.BatchNorm(x, name="norm"), name="softmax"))
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    weight = mx.nd.array(np.random.RandomState(1).normal(size=(3, 5)))
    values = {"fc_weight": weight, "fc_bias": mx.nd.ones((3,)), "spare": mx.nd.ones((7,))}
    values |= {"norm_gamma": mx.nd.ones((3,)), "norm_beta": mx.nd.zeros((3,))}
    module.init_params(mx.init.One(), arg_params=values)
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    for step, count in enumerate((4, 4, 4)):
        module.forward(_Batch(mx, step, count), is_train=True)
        module.backward()
        module.update()
    mx.nd.waitall()
    return {name: array.asnumpy() for group in module.get_params() for name, array in group.items()}


def cells(mx: Any) -> Arrays:
    """A cell of a script that calls the activation of its base, and looks at arrays of parameters."""

    class Cell(mx.gluon.rnn.RNNCell):  # type: ignore[misc,name-defined]
        def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:
            weight, bias = parameters["i2h_weight"], parameters["i2h_bias"]
            x = F.FullyConnected(inputs, weight, bias, num_hidden=self._hidden_size)
            output = self._get_activation(F, x + states[0], self._activation)
            return output, [output]

    cell = Cell(3, activation="relu", input_size=2, prefix="c_")
    cell.initialize(mx.init.One())
    with mx.autograd.record():
        output, _ = cell(mx.nd.array([[1.0, -2.0], [3.0, 0.5]]), [mx.nd.ones((2, 3))])
    output.backward()
    weight = cell.i2h_weight
    counts = [weight._data is None, len(weight._data), len(weight._grad)]
    return {
        "output": output.asnumpy(),
        "counts": np.array(counts, int),
        "gradient": weight._grad[0].asnumpy(),
    }


def imported(mx: Any) -> Arrays:
    """A net that is exported, imported as a block, trained, exported and imported again."""
    nn, found = mx.gluon.nn, {}
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(2))
    net.initialize(mx.init.One())
    net.hybridize()
    x = mx.nd.array(np.random.RandomState(0).normal(size=(2, 3, 6, 6)))
    net(x)
    with tempfile.TemporaryDirectory() as folder:
        net.export(f"{folder}/net", epoch=3)
        files = f"{folder}/net-symbol.json", f"{folder}/net-0003.params"
        block = mx.gluon.SymbolBlock.imports(files[0], ["data"], files[1], ctx=mx.cpu())
        found["names"] = np.array(sorted(block.collect_params()))
        found["before"] = block(x).asnumpy()
        trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
        for _ in range(2):
            with mx.autograd.record():
                loss = (block(x) ** 2).sum()
            loss.backward()
            trainer.step(2)
        mx.nd.waitall()
        found["after"] = block(x).asnumpy()
        block.export(f"{folder}/again")
        files = f"{folder}/again-symbol.json", f"{folder}/again-0000.params"
        found["again"] = mx.gluon.SymbolBlock.imports(files[0], "data", files[1])(x).asnumpy()
    inner = net(mx.sym.var("data"))
    features = mx.gluon.SymbolBlock(inner, mx.sym.var("data"), params=net.collect_params())
    net[4].weight.set_data(net[4].weight.data() + 1)
    return found | {"shared": features(x).asnumpy()}


def pictures(mx: Any) -> Arrays:
    """Transforms of images, with chance only where its bounds leave none."""
    make = mx.gluon.data.vision.transforms
    pixels = np.random.RandomState(0).randint(0, 256, (6, 7, 3))
    pixels = np.kron(pixels, np.ones((5, 5, 1), int)).astype(np.uint8)
    x = mx.nd.array(pixels, dtype="uint8")
    chain = [make.Resize((20, 16)), make.ToTensor(), make.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.1))]
    transforms = {
        "compose": make.Compose(chain),
        "cast": make.Cast("float16"),
        "middle": make.CenterCrop(16),
        "middle of more": make.CenterCrop((40, 20)),
        "window": make.CropResize(3, 4, 20, 12),
        "window in a size": make.CropResize(3, 4, 20, 12, (10, 6), 1),
        "short side": make.Resize(15, keep_ratio=True),
    }
    found = {name: one(x).asnumpy().astype(np.float32) for name, one in transforms.items()}
    kinds = ("Brightness", "Contrast", "Saturation")
    return found | {kind: _jittered(mx, kind, x).asnumpy().astype(np.float32) for kind in kinds}


def _jittered(mx: Any, kind: str, x: Any) -> Any:
    """Return an image after a jitter whose factor is 1.3."""
    if mx.__name__ == "mxnet":
        return getattr(mx.nd.image, f"random_{kind.lower()}")(x, 1.3, 1.3)
    jitter = getattr(mx.gluon.data.vision.transforms, f"Random{kind}")(0.3)
    draw = mx.nd.random.generator
    mx.nd.random.generator = lambda: SimpleNamespace(uniform=lambda low, high: high)
    try:
        return jitter(x)
    finally:
        mx.nd.random.generator = draw


def losses(mx: Any) -> Arrays:
    """Losses of scores so far apart that bounds and ties decide."""
    scores = np.array([[200.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, -300.0], [3.0, 3.0, 1.0]])
    x, labels, found = mx.nd.array(scores), mx.nd.array([1, 2, 2, 1]), {}
    signs = mx.nd.array([[-1, 1, 1]] * 4)
    gluon = mx.gluon.loss
    calls = {
        "operator": lambda: mx.nd.softmax_cross_entropy(x, labels),
        "block": lambda: gluon.SoftmaxCrossEntropyLoss()(x, labels),
        "binary": lambda: gluon.SigmoidBCELoss()(x, (signs + 1) / 2),
        "logistic": lambda: gluon.LogisticLoss()(x, signs),
        "hinge": lambda: gluon.HingeLoss()(x, signs),
    }
    for name, call in calls.items():
        x.attach_grad()
        with mx.autograd.record():
            loss = call()
        loss.backward()
        found |= {name: loss.asnumpy(), f"{name} gradient": x.grad.asnumpy()}
    for name in ("Accuracy", "CrossEntropy"):
        metric = getattr(mx.metric, name)()
        metric.update([labels], [mx.nd.softmax(x)])
        found[name] = np.array(metric.get()[1])
    return found


def image_batches(mx: Any) -> Arrays:
    """``ImageIter`` over a list in memory, a list in a file, and records, with augmenters without chance."""
    found: Arrays = {}
    generator = np.random.RandomState(0)
    with tempfile.TemporaryDirectory() as folder:
        rows, lines = [], []
        records = mx.recordio.MXIndexedRecordIO(f"{folder}/a.idx", f"{folder}/a.rec", "w")
        for number in range(5):
            small = generator.randint(0, 256, (5, 6 + number % 2, 3))
            pixels = np.kron(small, np.ones((4, 4, 1), int)).astype(np.uint8)
            header = mx.recordio.IRHeader(0, number + 0.5, number, 0)
            record = mx.recordio.pack_img(header, pixels, 9, ".png")
            records.write_idx(number, record)
            Path(f"{folder}/{number}.png").write_bytes(mx.recordio.unpack(record)[1])
            rows.append([float(number), f"{number}.png"])
            lines.append(f"{number}\t{number}.25\t{number}.png\n")
        records.close()
        Path(f"{folder}/a.lst").write_text("".join(lines))
        record, index = f"{folder}/a.rec", f"{folder}/a.idx"
        mean = np.array([1.0, 2.0, 3.0])
        settings = {
            "memory": {"imglist": rows, "path_root": folder, "resize": 24, "inter_method": 0, "mean": mean},
            "list": {"path_imglist": f"{folder}/a.lst", "path_root": folder, "mean": True, "std": True},
            "records": {"path_imgrec": record},
            "indexed": {"path_imgrec": record, "path_imgidx": index, "last_batch_handle": "discard"},
            "part": {"path_imgrec": record, "path_imgidx": index, "num_parts": 2, "part_index": 1},
            "own": {
                "imglist": rows,
                "path_root": folder,
                "aug_list": [mx.image.ForceResizeAug((16, 12), 0), mx.image.CastAug()],
            },
        }
        for name, given in settings.items():
            batches = mx.image.ImageIter(2, (3, 12, 16), **given)
            found[f"{name} names"] = np.array([batches.provide_data[0][0], batches.provide_label[0][0]])
            for epoch in range(2):
                for number, batch in enumerate(batches):
                    key = f"{name} {epoch}.{number}"
                    found |= {
                        f"{key} data": batch.data[0].asnumpy(),
                        f"{key} label": batch.label[0].asnumpy(),
                    }
                    found[f"{key} pad"] = np.array(batch.pad)
                batches.reset()
    return found


PROGRAMS = (
    image_batches,
    by_place,
    losses,
    imported,
    pictures,
    one_slope,
    priors,
    mined,
    moving,
    written_to,
    numbers_alone,
    chained,
    own_batches,
    cells,
)


def main() -> None:
    """Run everything under MXNet."""
    import mxnet as mx  # type: ignore[import-not-found]

    found = {one.__name__: one(mx) for one in PROGRAMS}
    arrays = {f"{program}/{key}": array for program, row in found.items() for key, array in row.items()}
    np.savez_compressed(Path(__file__).parents[1] / "golden" / "mxnet_habits.npz", **arrays)


if __name__ == "__main__":
    main()
