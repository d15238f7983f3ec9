"""Every function and link of Chainer that is recorded, with its options: models with an output for each."""

import chainer
import chainer.functions as F  # noqa: N812 (as everybody calls them)
import chainer.links as L  # noqa: N812
import numpy as np


def _weights(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _above(x):
    return F.absolute(x) + 0.2


FUNCTIONS = {
    "absolute": F.absolute,
    "add": lambda x: F.add(x, x, 2 * x),
    "argmax": lambda x: F.argmax(x, axis=1),
    "absolute_error": lambda x: F.absolute_error(x, 2 * x),
    "arccos": lambda x: F.arccos(0.9 * x),
    "arcsin": lambda x: F.arcsin(0.9 * x),
    "arctan": F.arctan,
    "arctanh": lambda x: F.arctanh(0.9 * x),
    "argmin": lambda x: F.argmin(x, axis=2),
    "batch_l2_norm_squared": F.batch_l2_norm_squared,
    "batch_matmul": lambda x: F.batch_matmul(x[:, 0], x[:, 1], transa=True),
    "cosh": F.cosh,
    "cumsum": lambda x: F.cumsum(x, axis=2),
    "expm1": F.expm1,
    "fliplr": F.fliplr,
    "flipud": F.flipud,
    "log10": lambda x: F.log10(_above(x)),
    "log1p": lambda x: F.log1p(_above(x)),
    "log2": lambda x: F.log2(_above(x)),
    "moveaxis": lambda x: F.moveaxis(x, (0, 2), (1, 3)),
    "repeat": lambda x: F.repeat(x, 3, axis=1),
    "repeat each": lambda x: F.repeat(x, (1, 0, 2, 3), axis=1),
    "select_item": lambda x: F.select_item(F.mean(x, axis=(2, 3)), np.array([3, 1], "i")),
    "sinh": F.sinh,
    "squared_difference": lambda x: F.squared_difference(x, 2 * x),
    "squared_error": lambda x: F.squared_error(x, 2 * x),
    "tan": F.tan,
    "average": lambda x: F.average(x, axis=(1, 2)),
    "average_pooling_1d": lambda x: F.average_pooling_1d(x[:, :, 0], 3, 2, 1),
    "average_pooling_2d": lambda x: F.average_pooling_2d(x, 3, stride=2, pad=1),
    "average_pooling_3d": lambda x: F.average_pooling_3d(F.expand_dims(x, 2), (1, 2, 3), (1, 2, 1)),
    "average_pooling_nd": lambda x: F.average_pooling_nd(x, (3, 2), 2, 1, pad_value=None),
    "bias": lambda x: F.bias(x, F.sum(x, axis=(0, 2, 3)), axis=1),
    "broadcast_to": lambda x: F.broadcast_to(x[:, :1], (2, 4, 6, 6)),
    "cast": lambda x: F.cast(F.cast(10 * x, "int32"), "float32"),
    "ceil": F.ceil,
    "clip": lambda x: F.clip(x, -0.3, 0.4),
    "clipped_relu": lambda x: F.clipped_relu(x, 0.5),
    "concat": lambda x: F.concat((x, x[:, :1])),
    "convolution_1d": lambda x: F.convolution_1d(x[:, :, 0], _weights(3, 4, 2), pad=1),
    "convolution_2d": lambda x: F.convolution_2d(
        x, _weights(6, 2, 3, 2), _weights(6), stride=(2, 1), pad=(1, 0), groups=2
    ),
    "convolution_2d dilate": lambda x: F.convolution_2d(x, _weights(3, 4, 2, 2), pad=1, dilate=2),
    "convolution_3d": lambda x: F.convolution_3d(F.expand_dims(x, 2), _weights(3, 4, 1, 2, 2)),
    "convolution_nd": lambda x: F.convolution_nd(x, _weights(3, 4, 3, 3), _weights(3), stride=2, pad=1),
    "copy": lambda x: F.copy(x, -1),
    "cos": F.cos,
    "crelu": F.crelu,
    "deconvolution_1d": lambda x: F.deconvolution_1d(x[:, :, 0], _weights(4, 3, 2), stride=2),
    "deconvolution_2d": lambda x: F.deconvolution_2d(
        x, _weights(4, 3, 3, 3), _weights(6), stride=2, pad=1, outsize=(12, 12), groups=2
    ),
    "deconvolution_3d": lambda x: F.deconvolution_3d(F.expand_dims(x, 2), _weights(4, 2, 1, 2, 2), stride=1),
    "deconvolution_nd": lambda x: F.deconvolution_nd(x, _weights(4, 2, 3, 2), stride=2, pad=1, dilate=2),
    "depth2space": lambda x: F.depth2space(x, 2),
    "depthwise_convolution_2d": lambda x: F.depthwise_convolution_2d(
        x, _weights(2, 4, 3, 3), _weights(8), pad=1
    ),
    "dilated_convolution_2d": lambda x: F.dilated_convolution_2d(x, _weights(3, 4, 2, 2), dilate=2, pad=1),
    "div": lambda x: 1 / (x / _above(x) + 3) + x // 0.4 + 2 // _above(x),
    "dropout": lambda x: F.dropout(x, 0.3),
    "elu": lambda x: F.elu(x, 0.7),
    "embed_id": lambda x: F.embed_id(F.argmax(x, axis=1), _weights(4, 3), ignore_label=2),
    "erf": F.erf,
    "exp": F.exp,
    "expand_dims": lambda x: F.expand_dims(x, 2),
    "fixed_batch_normalization": lambda x: F.fixed_batch_normalization(
        x, _weights(4), _weights(4), _weights(4), np.abs(_weights(4)), eps=0.1
    ),
    "fixed_batch_normalization axis": lambda x: F.fixed_batch_normalization(
        x, _weights(4, 6), _weights(4, 6), _weights(4, 6), np.abs(_weights(4, 6)), eps=0.1, axis=(0, 3)
    ),
    "flatten": lambda x: F.flatten(x),
    "flip": lambda x: F.flip(x, 2),
    "floor": F.floor,
    "get_item": lambda x: x[:, 1:, ..., ::-2, None],
    "get_item negative": lambda x: x[:, -1, -4:-1, 2],
    "group_normalization": lambda x: F.group_normalization(x, 2, _weights(4), _weights(4)),
    "hard_sigmoid": lambda x: F.hard_sigmoid(3 * x),
    "hstack": lambda x: F.hstack((x, x)),
    "identity": F.identity,
    "layer_normalization": lambda x: F.layer_normalization(F.reshape(x, (8, 36)), _weights(36), _weights(36)),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "linear": lambda x: F.linear(x, _weights(3, 144), _weights(3)),
    "linear axes": lambda x: F.linear(x, _weights(3, 6), n_batch_axes=3),
    "linear_interpolate": lambda x: F.linear_interpolate(F.sigmoid(x), x, 2 * x),
    "local_response_normalization": lambda x: F.local_response_normalization(
        x, n=3, k=1.5, alpha=0.3, beta=0.6
    ),
    "log": lambda x: F.log(_above(x)),
    "log_softmax": F.log_softmax,
    "logsumexp": lambda x: F.logsumexp(x, axis=1),
    "lstm": lambda x: F.lstm(F.reshape(x, (8, 36))[:, :5], F.reshape(x, (8, 36))[:, :20]),
    "matmul": lambda x: F.matmul(x, x, transa=True),
    "max": lambda x: F.max(x, axis=1, keepdims=True),
    "max_pooling_1d": lambda x: F.max_pooling_1d(x[:, :, 0], 2),
    "max_pooling_2d": lambda x: F.max_pooling_2d(x, 3, stride=2, pad=1),
    "max_pooling_2d floor": lambda x: F.max_pooling_2d(x, 3, stride=2, cover_all=False),
    "max_pooling_3d": lambda x: F.max_pooling_3d(F.expand_dims(x, 2), (1, 2, 3), 2),
    "max_pooling_nd": lambda x: F.max_pooling_nd(x, (3, 2), (2, 1), (1, 0)),
    "maximum": lambda x: F.maximum(x, 0.3 * x),
    "maxout": lambda x: F.maxout(x, 2),
    "mean": lambda x: F.mean(x, axis=(2, 3)),
    "mean_squared_error": lambda x: F.mean_squared_error(x, 2 * x),
    "min": lambda x: F.min(x, axis=(1, 3)),
    "minimum": lambda x: F.minimum(x, 0.3 * x),
    "mul": lambda x: x * (2 - x),
    "neg": lambda x: -x,
    "normalize": lambda x: F.normalize(x, axis=1),
    "pad": lambda x: F.pad(x, ((0, 0), (0, 1), (2, 0), (1, 1)), "constant", constant_values=0.5),
    "pad edge": lambda x: F.pad(x, ((0, 0), (0, 0), (1, 2), (1, 0)), "edge"),
    "permutate": lambda x: F.permutate(x, np.array([2, 0, 3, 1], "i"), axis=1),
    "permutate back": lambda x: F.permutate(x, np.array([2, 0, 3, 1], "i"), axis=1, inv=True),
    "pow": lambda x: _above(x) ** 1.5 + 2.0**x,
    "prelu": lambda x: F.prelu(x, _weights(4)),
    "prod": lambda x: F.prod(x, axis=1),
    "relu": F.relu,
    "relu6": lambda x: F.relu6(9 * x),
    "reshape": lambda x: F.reshape(x, (2, 6, -1)),
    "resize_images": lambda x: F.resize_images(x, (9, 4)),
    "rollaxis": lambda x: F.rollaxis(x, 3, 1),
    "rsqrt": lambda x: F.rsqrt(_above(x)),
    "scale": lambda x: F.scale(x, F.sum(x, axis=(0, 3)), axis=1),
    "selu": F.selu,
    "separate": lambda x: F.separate(x, axis=1)[2],
    "sigmoid": F.sigmoid,
    "sign": F.sign,
    "sin": F.sin,
    "softmax": lambda x: F.softmax(x, axis=2),
    "softplus": lambda x: F.softplus(x, beta=2.0),
    "space2depth": lambda x: F.space2depth(x, 2),
    "split_axis": lambda x: F.split_axis(x, [1, 3], axis=1)[1],
    "split_axis equal": lambda x: F.split_axis(x, 3, axis=2)[2],
    "sqrt": lambda x: F.sqrt(_above(x)),
    "square": F.square,
    "squeeze": lambda x: F.squeeze(x[:, :1], axis=1),
    "stack": lambda x: F.stack([x, 2 * x], axis=1),
    "sub": lambda x: 1 - x - 0.5,
    "sum": lambda x: F.sum(x, axis=-1),
    "swapaxes": lambda x: F.swapaxes(x, 1, 3),
    "swish": lambda x: F.swish(x, np.float32(1.5) * np.ones((4, 6, 6), "f")),
    "tanh": F.tanh,
    "tile": lambda x: F.tile(x, (1, 1, 2)),
    "transpose": lambda x: F.transpose(x, (0, 3, 1, 2)),
    "transpose_sequence": lambda x: F.concat(
        F.transpose_sequence([x[0, 0], x[0, 1, :4], x[1, 0, :2]]), axis=0
    ),
    "pad_sequence": lambda x: F.pad_sequence([x[0, 0], x[0, 1, :4]], 7, 0.5),
    "unpooling_2d": lambda x: F.unpooling_2d(x, 2, cover_all=False),
    "vstack": lambda x: F.vstack((x, x)),
    "where": lambda x: F.where(np.arange(6) < 3, x, 2 * x)[:, :, :, 1:],
}
"""A call of each function, with what is special about it behind its name."""


class Functions(chainer.Chain):
    """Every function."""

    def forward(self, x):
        made = []
        for call in FUNCTIONS.values():
            got = call(x)
            made += got if isinstance(got, tuple) else [got]
        return tuple(made)


LINKS = {
    "Linear": lambda: L.Linear(None, 3),
    "Linear plain": lambda: L.Linear(144, 3, nobias=True),
    "Bias": lambda: L.Bias(1, (4,)),
    "Scale": lambda: L.Scale(1, (4, 6), bias_term=True),
    "PReLU": lambda: L.PReLU((4,)),
    "Parameter": lambda: L.Parameter(np.zeros((2, 3), "f")),
    "BatchNormalization": lambda: L.BatchNormalization(4, eps=0.01),
    "BatchNormalization plain": lambda: L.BatchNormalization(use_gamma=False, use_beta=False, axis=(0, 2, 3)),
    "BatchNormalization axis": lambda: L.BatchNormalization((4, 6), axis=(0, 3)),
    "BatchNormalization later": lambda: L.BatchNormalization(axis=(0, 1)),
    "GroupNormalization": lambda: L.GroupNormalization(2),
    "Convolution1D": lambda: _First(L.Convolution1D(4, 3, 2, pad=1), lambda x: x[:, :, 0]),
    "Convolution2D": lambda: L.Convolution2D(None, 6, (3, 2), stride=2, pad=1),
    "Convolution2D groups": lambda: L.Convolution2D(4, 6, 3, groups=2, dilate=2, nobias=True),
    "Convolution3D": lambda: _First(L.Convolution3D(4, 3, (1, 3, 2)), lambda x: F.expand_dims(x, 2)),
    "ConvolutionND": lambda: L.ConvolutionND(2, 4, 3, 3, stride=2),
    "Deconvolution2D": lambda: L.Deconvolution2D(None, 3, 3, stride=2, pad=1, outsize=(12, 12)),
    "DeconvolutionND": lambda: L.DeconvolutionND(2, 4, 6, 2, stride=2, groups=2),
    "Deconvolution1D": lambda: _First(L.Deconvolution1D(4, 3, 2), lambda x: x[:, :, 0]),
    "Deconvolution3D": lambda: _First(L.Deconvolution3D(4, 3, (1, 2, 2)), lambda x: F.expand_dims(x, 2)),
    "DepthwiseConvolution2D": lambda: L.DepthwiseConvolution2D(4, 2, 3, stride=2, pad=1),
    "DilatedConvolution2D": lambda: L.DilatedConvolution2D(4, 3, 2, dilate=3, pad=2),
    "MLPConvolution2D": lambda: L.MLPConvolution2D(4, (6, 5, 3), 3, activation=F.sigmoid),
    "Inception": lambda: L.Inception(4, 2, 3, 4, 2, 3, 2),
    "InceptionBN": lambda: L.InceptionBN(4, 2, 3, 4, 2, 3, "avg", 2),
    "InceptionBN stride": lambda: L.InceptionBN(4, 0, 3, 4, 2, 3, "max", stride=2),
    "LayerNormalization": lambda: _First(L.LayerNormalization(), _rows),
    "Maxout": lambda: L.Maxout(144, 3, 2),
    "Highway": lambda: _First(L.Highway(36), _rows),
    "LSTM": lambda: _Thrice(L.LSTM(36, 5)),
    "StatefulGRU": lambda: _Thrice(L.StatefulGRU(36, 5)),
    "GRU": lambda: _Thrice(L.GRU(36, 5)),
    "StatelessLSTM": lambda: _Stateless(L.StatelessLSTM(36, 5), 2),
    "StatelessGRU": lambda: _Stateless(L.StatelessGRU(36, 5), 1),
    "EmbedID": lambda: _First(L.EmbedID(4, 3), lambda x: F.argmax(x, axis=1)),
    "Classifier": lambda: _First(_Predictor(L.Classifier(L.Linear(144, 3))), lambda x: x),
    **{
        name: lambda name=name: _Sequences(getattr(L, name)(2, 6, 5, 0.3))
        for name in (
            "NStepLSTM", "NStepBiLSTM", "NStepGRU", "NStepBiGRU", "NStepRNNTanh", "NStepBiRNNTanh",
            "NStepRNNReLU", "NStepBiRNNReLU",
        )
    },
}  # fmt: skip
"""Each link, with what is special about it behind its name."""


def _rows(x):
    return F.reshape(x, (8, 36))


class _First(chainer.Chain):
    """A link on what a function makes of the input."""

    def __init__(self, link, function):
        super().__init__()
        self.function = function
        with self.init_scope():
            self.link = link

    def forward(self, x):
        return self.link(self.function(x))


class _Predictor(_First):
    """What a classifier has inside."""

    def __init__(self, link):
        super().__init__(link, None)

    def forward(self, x):
        return self.link.predictor(x)


class _Thrice(_First):
    """Three steps of a link that keeps its state."""

    def __init__(self, link):
        super().__init__(link, None)

    def forward(self, x):
        rows = _rows(x)
        self.link(rows)
        self.link(2 * rows)
        return self.link(rows)


class _Stateless(_First):
    """Two steps of a link that is given its states."""

    def __init__(self, link, states):
        super().__init__(link, None)
        self.states = states

    def forward(self, x):
        rows = _rows(x)
        states = [rows[:, : 5 * (number + 1)][:, -5:] for number in range(self.states)]
        made = self.link(*states, rows)
        made = made if isinstance(made, tuple) else (made,)
        return self.link(*made, rows)


class _Sequences(_First):
    """Sequences of different lengths, from first states."""

    def __init__(self, link):
        super().__init__(link, None)

    def forward(self, x):
        xs = [x[0, 0], x[0, 1, :4], x[1, 0], x[1, 1, :2]]
        ways = 2 if "Bi" in type(self.link).__name__ else 1
        first = F.stack([F.stack([x[0, row, :5, column] for row in range(4)]) for column in range(2 * ways)])
        states = (first, 0.5 * first) if "LSTM" in type(self.link).__name__ else (first,)
        *last, ys = self.link(*states, xs)
        *ends, again = self.link(*(None for _ in states), xs)
        return (F.concat(ys, axis=0), F.concat(again, axis=0), *last, *ends)


class Links(chainer.Chain):
    """Every link."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            for name, make in LINKS.items():
                setattr(self, name.replace(" ", "_"), make())

    def forward(self, x):
        made = []
        for name in LINKS:
            link = self[name.replace(" ", "_")]
            got = link() if name == "Parameter" else link(x)
            made += got if isinstance(got, tuple) else [got]
        return tuple(made)
