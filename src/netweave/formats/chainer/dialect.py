"""Chainer's words: the arguments of calls of its links and functions, and its packages."""

from netweave.formats.dialect import Dialect, Editor, Padding, PoolCalls

DIALECT = Dialect(
    names={
        "kernel_shape": "ksize", "pads": "pad", "strides": "stride", "dilations": "dilate",
        "group": "groups", "epsilon": "eps", "size": "n", "bias": "k", "LeakyRelu.alpha": "slope",
    },
    sizes="({sizes})",
    is_one_size=True,
    booleans=("False", "True"),
    rounding={"floor": "cover_all=False", "ceil": "cover_all=True", "full": "cover_all=True"},
    padding=Padding(both="pad={begin}"),
    filters="out_channels={}",
    units="out_size={}",
    bias=("nobias=True", "nobias=False"),
    slopes=("shape=()", "shape=({count},)"),
    activations={
        "Relu": "F.relu", "LeakyRelu": "F.leaky_relu", "LeakyRelu.alpha": "F.leaky_relu(slope={alpha})",
        "Elu": "F.elu", "Elu.alpha": "F.elu({alpha})", "Sigmoid": "F.sigmoid", "Tanh": "F.tanh",
        "Softplus": "F.softplus",
    },
    bounded_rectifier="F.clipped_relu(z={bound})",
    arithmetic={"Add": "the operator +", "Mul": "the operator *", "Sub": "the operator -"},
    poolings=PoolCalls(
        max="F.max_pooling_2d({sizes}, cover_all={up})",
        average="F.average_pooling_2d({sizes})",
        max_roundings=frozenset({"floor", "ceil", "caffe", "full"}),
        average_roundings=frozenset({"floor"}),
        ranks=frozenset({2}),
    ),
    sums_in_lrn=True,
    has_modes=False,
    editor=Editor(name="python", endings=(".py",)),
)  # fmt: skip

OWN_MODULES = ("chainer", "chainerx", "chainermn")
"""Packages of Chainer's distribution: a stand-in takes their place, and none is looked for beside a model."""
