"""Programs for MXNet's API that run under MXNet and under ``netweave.mxnet``: what they find must agree.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_api

Writes ``tests/golden/mxnet_api.npz`` (MXNet 1.9.1). A program takes the package and returns arrays by
name; it draws nothing from the package's generators, which differ.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
PROGRAMS: dict[str, Any] = {}
BATCH, STEPS = 8, 50

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9, "wd": 1e-3},
    "nag": {"momentum": 0.9, "wd": 1e-3},
    "signum": {"momentum": 0.9, "learning_rate": 1e-3},
    "dcasgd": {"learning_rate": 0.05},
    "adam": {"learning_rate": 0.01, "wd": 1e-3},
    "adagrad": {"learning_rate": 0.05, "wd": 1e-3},
    "rmsprop": {"learning_rate": 0.005, "centered": True},
    "adadelta": {"wd": 1e-4},
    "ftrl": {"learning_rate": 0.1},
    "adamax": {"learning_rate": 0.01},
    "nadam": {"learning_rate": 0.005},
    "ftml": {"learning_rate": 0.01},
    "lamb": {"learning_rate": 0.01},
    "lars": {"momentum": 0.9, "learning_rate": 0.1, "eta": 0.01},
}


def program(function: Any) -> Any:
    """Enter a program under its name."""
    PROGRAMS[function.__name__] = function
    return function


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Return float32 numbers that every machine draws."""
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def net(mx: Any) -> Any:
    """Return a small classifier with default batch normalisation."""
    x = mx.sym.Variable("data")
    x = mx.sym.Convolution(x, num_filter=4, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="bn"), act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def arrays_of(mx: Any, symbol: Any, **shapes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return first values of all arrays of a net."""
    arguments, _, states = symbol.infer_shape(**shapes)
    args, seed = {}, 1
    for name, shape in zip(symbol.list_arguments(), arguments, strict=True):
        if name not in shapes and not name.endswith("label"):
            args[name] = mx.nd.array(numbers(*shape, seed=seed) * 0.5)
            seed += 1
    first = {"mean": 0.0, "var": 1.0}
    names = symbol.list_auxiliary_states()
    aux = {n: mx.nd.full(s, first[n.rpartition("_")[2]]) for n, s in zip(names, states, strict=True)}
    return args, aux


def fitted(mx: Any, optimizer: Any, settings: Any, steps: int = STEPS, **options: Any) -> Arrays:
    """Return all arrays after some steps of a Module, and how far each moved."""
    symbol = net(mx)
    module = mx.mod.Module(symbol, context=options.get("context", mx.cpu()))
    shapes = {"data": (BATCH, 2, 6, 6)}
    module.bind([("data", shapes["data"])], [("softmax_label", (BATCH,))])
    args, aux = arrays_of(mx, symbol, **shapes)
    module.init_params(arg_params=args, aux_params=aux)
    module.init_optimizer(optimizer=optimizer, optimizer_params=settings)
    for step in range(steps):
        data = mx.nd.array(numbers(*shapes["data"], seed=100 + step % 7))
        label = mx.nd.array(np.arange(BATCH) % 3)
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()
    found = {name: array.asnumpy() for arrays in module.get_params() for name, array in arrays.items()}
    return found | {f"moved:{name}": found[name] - array.asnumpy() for name, array in {**args, **aux}.items()}


def _optimizer(name: str) -> None:
    def run(mx: Any) -> Arrays:
        return fitted(mx, name, OPTIMIZERS[name])

    run.__name__ = f"optimizer_{name}"
    program(run)


for _name in OPTIMIZERS:
    _optimizer(_name)


def _schedule(name: str, make: Any) -> None:
    def run(mx: Any) -> Arrays:
        scheduler = make(mx.lr_scheduler)
        settings = {"learning_rate": 0.05, "momentum": 0.9, "lr_scheduler": scheduler}
        return fitted(mx, "sgd", settings)

    run.__name__ = f"schedule_{name}"
    program(run)


_schedule("factor", lambda s: s.FactorScheduler(10, 0.5))
_schedule("multifactor", lambda s: s.MultiFactorScheduler([5, 20], 0.3, warmup_steps=3, base_lr=0.05))
_schedule("poly", lambda s: s.PolyScheduler(40, base_lr=0.05, pwr=2))
_schedule("cosine", lambda s: s.CosineScheduler(40, base_lr=0.05, warmup_steps=5))


@program
def two_devices(mx: Any) -> Arrays:
    """Two contexts split each batch; each has statistics of its own."""
    return fitted(mx, "sgd", {"learning_rate": 0.05}, steps=10, context=[mx.cpu(0), mx.cpu(1)])


@program
def iterators(mx: Any) -> Arrays:
    """Every way to end an epoch, over two epochs."""
    found = {}
    data = np.arange(10, dtype=np.float32).reshape(10, 1)
    for last in ("pad", "discard", "roll_over"):
        batches = mx.io.NDArrayIter(data, data[:, 0], 4, last_batch_handle=last)
        for epoch in range(2):
            rows = [(b.data[0].asnumpy().ravel(), b.label[0].asnumpy(), b.pad) for b in batches]
            found[f"{last}{epoch}:data"] = np.stack([row[0] for row in rows])
            found[f"{last}{epoch}:label"] = np.stack([row[1] for row in rows])
            found[f"{last}{epoch}:pad"] = np.array([row[2] for row in rows])
            batches.reset()
    sized = mx.io.ResizeIter(mx.io.NDArrayIter(data, data[:, 0], 4), 5)
    found["resized"] = np.stack([b.data[0].asnumpy() for b in sized])
    return found


@program
def metrics(mx: Any) -> Arrays:
    """Every metric after two batches, one of which a reset of the local sums leaves out."""
    found = {}
    scores = np.abs(numbers(2, 6, 3, seed=3)) + 0.05
    probabilities = scores / scores.sum(-1, keepdims=True)
    labels = np.array([[0, 1, 2, 1, 0, 2], [1, 1, 0, 2, 2, 0]])
    real = numbers(2, 6, seed=4)
    two = probabilities[:, :, :2] / probabilities[:, :, :2].sum(-1, keepdims=True)
    made = mx.metric

    def hits(label: np.ndarray, pred: np.ndarray) -> float:
        return float((label == pred.argmax(1)).sum())

    rows = {
        "acc": (made.create("acc"), labels, probabilities),
        "top2": (made.TopKAccuracy(top_k=2), labels, probabilities),
        "f1": (made.F1(), labels % 2, two),
        "f1_micro": (made.F1(average="micro"), labels % 2, two),
        "mcc": (made.MCC(), labels % 2, two),
        "perplexity": (made.Perplexity(None), labels, probabilities),
        "perplexity_ignored": (made.Perplexity(1), labels, probabilities),
        "mae": (made.MAE(), real, numbers(2, 6, seed=5)),
        "mse": (made.MSE(), real, numbers(2, 6, seed=5)),
        "rmse": (made.RMSE(), real, numbers(2, 6, seed=5)),
        "ce": (made.create("ce"), labels, probabilities),
        "nll": (made.create("nll_loss"), labels, probabilities),
        "pearson": (made.create("pearsonr"), real, numbers(2, 6, seed=5)),
        "pcc": (made.create("pcc"), labels, probabilities),
        "loss": (made.create("loss"), labels, probabilities),
        "custom": (
            made.np(lambda label, pred: float((label == pred.argmax(1)).sum())),
            labels,
            probabilities,
        ),
        "composite": (made.create(["acc", "ce"]), labels, probabilities),
    }
    for name, (metric, wanted, predicted) in rows.items():
        for number in range(2):
            metric.update([mx.nd.array(wanted[number])], [mx.nd.array(predicted[number])])
            if number == 0:
                metric.reset_local()
        found[name] = np.array([value for _, value in metric.get_name_value()])
        found[f"{name}:all"] = np.array([value for _, value in metric.get_global_name_value()])
    return found


@program
def arrays(mx: Any) -> Arrays:
    """Making, indexing, arithmetic and types of arrays."""
    nd = mx.nd
    x = nd.array(np.arange(24).reshape(2, 3, 4))
    i = nd.array([7, -7, 2], dtype="int32")
    y = x.copy()
    y[0, 1:3] = 5
    y[1] = nd.arange(4)
    y[:, :, 3] *= 2
    z = nd.zeros((2, 3))
    z += 1
    z -= 0.25
    found = {
        "row": x[1],
        "element": x[1, 2, 3],
        "columns": x[:, 1:, ::2],
        "backwards": x[0, ::-1],
        "chosen": x[:, nd.array([2, 0], dtype="int32")],
        "assigned": y,
        "in_place": z,
        "divided": i / 2,
        "remainder": i % 3,
        "compared": x > 11,
        "equal": i == nd.array([7, 0, 2], dtype="int32"),
        "power": (x + 1) ** 0.5,
        "reversed": 1 - x,
        "reshaped": x.reshape((0, -3)),
        "split": x.reshape((-4, 1, 2, -2)),
        "sum": x.sum(),
        "mean": x.mean(axis=(0, 2)),
        "largest": x.argmax(axis=2),
        "norm": nd.norm(x),
        "top": nd.topk(x, k=2, axis=2, ret_typ="value"),
        "taken": nd.take(x, nd.array([1, 0]), axis=1),
        "picked": nd.pick(x.reshape((6, 4)), nd.array([0, 1, 2, 3, 0, 1])),
        "one_hot": nd.one_hot(nd.array([1, 0, 2]), 3),
        "dot": nd.dot(x.reshape((6, 4)), x.reshape((6, 4)), transpose_b=True),
        "largest_of_two": nd.maximum(x, 10),
        "joined": nd.concat(x, x, dim=1),
        "stacked": nd.stack(x[0], x[1], axis=1),
        "tiled": nd.tile(x[0], (2, 1)),
        "range": nd.arange(1, 7, 2, repeat=2),
        "full": nd.full((2, 2), 3),
    }
    kinds = {f"type:{name}": np.array(str(np.dtype(array.dtype))) for name, array in found.items()}
    return {name: array.asnumpy() for name, array in found.items()} | kinds


@program
def gradients(mx: Any) -> Arrays:
    """Autograd: write and add, a pause, gradients of gradients' heads, and a Function."""
    nd, autograd = mx.nd, mx.autograd
    x, w = nd.array(numbers(3, 4)), nd.array(numbers(4, 2, seed=1))
    total = nd.array(numbers(4, 2, seed=2))
    x.attach_grad()
    w.attach_grad()
    total.attach_grad("add")

    class Sigmoid(autograd.Function):
        def forward(self, x: Any) -> Any:
            y = 1 / (1 + nd.exp(-x))
            self.save_for_backward(y)
            return y

        def backward(self, dy: Any) -> Any:
            (y,) = self.saved_tensors
            return dy * y * (1 - y)

    for _ in range(2):
        with autograd.record():
            y = Sigmoid()(nd.dot(x, w)) + nd.dot(x, total)
            with autograd.pause():
                scale = y.sum()
            loss = (y * y).sum() / scale
        loss.backward()
    with autograd.record():
        z = nd.softmax(nd.dot(x, w))
    z.backward(nd.array(numbers(3, 2, seed=3)))
    with autograd.record():
        v = nd.tanh(x)
    one = autograd.grad(v, x, nd.ones((3, 4)), retain_graph=False)
    one = one[0] if isinstance(one, list) else one
    return {
        "x": x.grad.asnumpy(),
        "w": w.grad.asnumpy(),
        "added": total.grad.asnumpy(),
        "grad": one.asnumpy(),
    }


@program
def cells(mx: Any) -> Arrays:
    """Each cell over four steps, and the packed vector of a fused one."""
    found = {}
    rnn = mx.rnn
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.LSTMCell(3, prefix="s0_"))
    stack.add(rnn.ResidualCell(rnn.GRUCell(3, prefix="s1_")))
    both = rnn.BidirectionalCell(rnn.LSTMCell(3, prefix="l_"), rnn.GRUCell(2, prefix="r_"))
    fused = rnn.FusedRNNCell(3, num_layers=2, mode="lstm", bidirectional=True, prefix="f_")
    rows = {
        "rnn": rnn.RNNCell(3, prefix="rnn_"),
        "lstm": rnn.LSTMCell(3, prefix="lstm_"),
        "gru": rnn.GRUCell(3, prefix="gru_"),
        "stack": stack,
        "both": both,
        "fused": fused,
        "unfused": fused.unfuse(),
    }
    for name, cell in rows.items():
        outputs, _ = cell.unroll(4, mx.sym.Variable("data"), merge_outputs=True)
        args, _ = arrays_of(mx, outputs, data=(2, 4, 5))
        executor = outputs.bind(mx.cpu(), {"data": mx.nd.array(numbers(2, 4, 5)), **args})
        found[name] = executor.forward()[0].asnumpy()
        found[f"{name}:names"] = np.array(sorted(outputs.list_arguments()))
    outputs, _ = fused.unroll(4, mx.sym.Variable("data"), merge_outputs=True)
    args, _ = arrays_of(mx, outputs, data=(2, 4, 5))
    unpacked = fused.unpack_weights(args)
    found |= {f"unpacked:{name}": array.asnumpy() for name, array in unpacked.items()}
    found["packed"] = fused.pack_weights(unpacked)["f_parameters"].asnumpy()
    return found


@program
def initializers(mx: Any) -> Arrays:
    """The rules for names, and those that draw nothing."""
    init, found = mx.init, {}
    names = ("a_bias", "a_gamma", "a_beta", "a_moving_mean", "a_moving_var", "upsampling_weight", "a_weight")
    mixed = init.Mixed(["a_bias", ".*"], [init.One(), init.Constant(0.5)])
    for name in names:
        shape = (2, 1, 4, 4) if "upsampling" in name else (3,)
        for kind, rule in (
            ("constant", init.Constant(2.0)),
            ("mixed", mixed),
            ("uniform", init.Uniform(0.0)),
        ):
            array = mx.nd.full(shape, 9)
            rule(name, array)  # a plain name: the rules of all releases
            found[f"{kind}:{name}"] = array.asnumpy()
    array = mx.nd.zeros((8,))
    init.LSTMBias(forget_bias=2.0)(
        init.InitDesc("x_bias", {"__init__": '["lstmbias", {"forget_bias": 2.0}]'}), array
    )
    found["lstm"] = array.asnumpy()
    return found


@program
def blocks(mx: Any) -> Arrays:
    """A Gluon net with given weights: outputs, losses, and weights after some steps of the Trainer."""
    nn, nd = mx.gluon.nn, mx.nd
    model = nn.HybridSequential(prefix="model_")
    with model.name_scope():
        model.add(nn.Conv2D(4, 3, padding=1, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(2), nn.Dense(3))
    model.initialize()
    x, label = nd.array(numbers(BATCH, 2, 6, 6)), nd.array(np.arange(BATCH) % 3)
    model(x)
    for seed, (_, one) in enumerate(sorted(model.collect_params().items())):
        if not one.name.endswith(("running_mean", "running_var")):
            one.set_data(nd.array(numbers(*one.shape, seed=seed) * 0.5))
    trainer = mx.gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.01})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(10):
        with mx.autograd.record():
            value = loss(model(x), label)
        value.backward()
        trainer.step(BATCH)
        losses.append(value.asnumpy())
    found = {name: one.data().asnumpy() for name, one in model.collect_params().items()}
    return {**found, "losses": np.stack(losses), "output": model(x).asnumpy()}


@program
def gluon_losses(mx: Any) -> Arrays:
    """Each loss of Gluon, by record."""
    nd, loss = mx.nd, mx.gluon.loss
    pred, real = nd.array(numbers(4, 3)), nd.array(numbers(4, 3, seed=1))
    signs, classes = nd.sign(real), nd.array([0, 2, 1, 1])
    share = nd.softmax(real)
    rows = {
        "l1": (loss.L1Loss(), pred, real),
        "l2": (loss.L2Loss(), pred, real),
        "sigmoid": (loss.SigmoidBCELoss(), pred, nd.abs(real)),
        "softmax": (loss.SoftmaxCELoss(), pred, classes),
        "softmax_dense": (loss.SoftmaxCELoss(sparse_label=False), pred, share),
        "divergence": (loss.KLDivLoss(from_logits=False), pred, share),
        "huber": (loss.HuberLoss(rho=0.3), pred, real),
        "hinge": (loss.HingeLoss(), pred, signs),
        "squared_hinge": (loss.SquaredHingeLoss(), pred, signs),
        "logistic": (loss.LogisticLoss(), pred, signs),
    }
    found = {name: own(*given).asnumpy() for name, (own, *given) in rows.items()}
    found["triplet"] = loss.TripletLoss()(pred, real, share).asnumpy()
    return found


@program
def custom_operator(mx: Any) -> Arrays:
    """A CustomOp in a Module and on arrays."""

    class Softmax(mx.operator.CustomOp):
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            x = in_data[0].asnumpy()
            y = np.exp(x - x.max(axis=1, keepdims=True))
            self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            y = out_data[0].asnumpy()
            y[np.arange(len(y)), in_data[1].asnumpy().astype(int)] -= 1.0
            self.assign(in_grad[0], req[0], mx.nd.array(y))

    @mx.operator.register("api_softmax")
    class SoftmaxProp(mx.operator.CustomOpProp):
        def __init__(self) -> None:
            super().__init__(need_top_grad=False)

        def list_arguments(self) -> list[str]:
            return ["data", "label"]

        def infer_shape(self, in_shape: Any) -> Any:
            return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], []

        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
            return Softmax()

    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    symbol = mx.sym.Custom(x, op_type="api_softmax", name="softmax")
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(arg_params=arrays_of(mx, symbol, data=(4, 5))[0], aux_params={})
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    batch = mx.io.DataBatch([mx.nd.array(numbers(4, 5))], [mx.nd.array([0, 1, 2, 1])])
    for _ in range(3):
        module.forward_backward(batch)
        module.update()
    found = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    return {**found, "output": module.get_outputs()[0].asnumpy()}


@program
def temporal_classification(mx: Any) -> Arrays:
    """CTC losses and gradients: both blanks, repeats, lengths, a label that is too long; gluon's loss."""
    steps, batch, classes = 6, 4, 5
    rows = {
        "first": [[1, 2, 0, 0], [3, 3, 1, 0], [4, 0, 0, 0], [1, 1, 1, 1]],
        "last": [[0, 1, -1, -1], [2, 2, 3, -1], [-1, -1, -1, -1], [1, 0, 2, 3]],
    }
    found = {}
    for blank, labels in rows.items():
        for key, lengths in {"whole": (None, None), "parts": ([6, 5, 4, 6], [2, 3, 1, 2])}.items():
            data, label = mx.nd.array(numbers(steps, batch, classes)), mx.nd.array(labels)
            data.attach_grad()
            given = (
                {}
                if lengths[0] is None
                else {
                    "data_lengths": mx.nd.array(lengths[0]),
                    "label_lengths": mx.nd.array(lengths[1]),
                    "use_data_lengths": True,
                    "use_label_lengths": True,
                }
            )
            if blank == "last" and given:
                label = mx.nd.array([[0, 1, 0, 0], [2, 2, 3, 0], [1, 0, 0, 0], [1, 0, 2, 3]])
            with mx.autograd.record():
                loss = mx.nd.contrib.ctc_loss(data, label, blank_label=blank, **given)
            loss.backward(mx.nd.array([1.0, 2.0, 0.5, 1.0]))
            found[f"{blank} {key}"] = loss.asnumpy()
            found[f"{blank} {key} gradient"] = data.grad.asnumpy()
    pred = mx.nd.array(numbers(batch, steps, classes))
    found["gluon"] = mx.gluon.loss.CTCLoss(weight=2.0)(pred, mx.nd.array(rows["last"])).asnumpy()
    x = mx.sym.contrib.ctc_loss(mx.sym.Variable("data"), mx.sym.Variable("label"))
    found["symbol"] = np.array([str(one) for one in x.infer_shape(data=(6, 4, 5), label=(4, 3))[1]])
    return found


@program
def checkpoint(mx: Any) -> Arrays:
    """The bytes of a checkpoint's arrays, and of records."""
    with tempfile.TemporaryDirectory() as folder:
        symbol = net(mx)
        args, aux = arrays_of(mx, symbol, data=(BATCH, 2, 6, 6))
        mx.model.save_checkpoint(f"{folder}/net", 3, symbol, args, aux)
        record = mx.recordio.MXRecordIO(f"{folder}/a.rec", "w")
        record.write(mx.recordio.pack(mx.recordio.IRHeader(0, 4.0, 7, 0), b"one"))
        record.write(mx.recordio.pack(mx.recordio.IRHeader(0, [1.0, 2.0], 8, 0), b"another"))
        record.close()
        files = {"params": "net-0003.params", "symbol": "net-symbol.json", "records": "a.rec"}
        return {
            key: np.frombuffer((Path(folder) / file).read_bytes(), np.uint8) for key, file in files.items()
        }


def main() -> None:
    """Write what MXNet finds."""
    import mxnet as mx

    from tests.oracles import mxnet_api, mxnet_steps  # noqa: F401 - enters its own into that module, not __main__

    rows = mxnet_api.PROGRAMS.items()
    found = {f"{name}/{key}": array for name, run in rows for key, array in run(mx).items()}
    np.savez_compressed(Path(__file__).parents[1] / "golden" / "mxnet_api.npz", **found)


if __name__ == "__main__":
    main()
