"""PyTorch's words for the settings of modules: the arguments of their calls."""

from netweave.formats.dialect import Dialect, Editor, Padding, PoolCalls, Resizing

DIALECT = Dialect(
    names={
        "kernel_shape": "kernel_size", "pads": "padding", "strides": "stride", "dilations": "dilation",
        "group": "groups", "epsilon": "eps", "size": "size", "bias": "k", "axis": "dim",
        "LeakyRelu.alpha": "negative_slope",
    },
    sizes="({sizes})",
    is_one_size=True,
    booleans=("False", "True"),
    rounding={"floor": "ceil_mode=False", "ceil": "ceil_mode=True", "caffe": "ceil_mode=True"},
    padding=Padding(both="padding={begin}"),
    padding_layer="padding=({columns}, {rows})",
    filters="out_channels={}",
    units="out_features={}",
    bias=("bias=False", "bias=True"),
    slopes=("num_parameters=1", "num_parameters={count}"),
    resizing=Resizing(
        modes={"nearest": "mode='nearest'", "linear": "mode='bilinear'", "cubic": "mode='bicubic'"},
        rules={"align_corners": "align_corners=True", "": "align_corners=False"},
    ),
    activations={
        "Relu": "nn.ReLU()", "LeakyRelu": "nn.LeakyReLU()", "LeakyRelu.alpha": "nn.LeakyReLU({alpha})",
        "Elu": "nn.ELU()", "Elu.alpha": "nn.ELU({alpha})", "Sigmoid": "nn.Sigmoid()", "Tanh": "nn.Tanh()",
        "Softplus": "nn.Softplus()", "Softsign": "nn.Softsign()", "Mish": "nn.Mish()",
        "HardSwish": "nn.Hardswish()", "Gelu": "nn.GELU()", "Selu": "nn.SELU()",
    },
    bounded_rectifiers={"6": "nn.ReLU6()"},
    arithmetic={"Add": "the operator +", "Mul": "the operator *", "Sub": "the operator -"},
    functions={
        "Mish": "nn.Mish()", "Swish": "nn.SiLU()", "HardSwish": "nn.Hardswish()",
        "GELU (tanh)": 'nn.GELU(approximate="tanh")',
    },
    poolings=PoolCalls(
        max="nn.MaxPool{rank}d({sizes}, ceil_mode={up})",
        average="nn.AvgPool{rank}d({sizes}, ceil_mode={up}{counts})",
        global_max="nn.AdaptiveMaxPool{rank}d(1)",
        global_average="nn.AdaptiveAvgPool{rank}d(1)",
        without_padding=", count_include_pad=False",
    ),
    editor=Editor(name="python", endings=(".py",)),
)  # fmt: skip
