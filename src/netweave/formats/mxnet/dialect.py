"""MXNet's words for the settings of operators: the attributes of a symbol file."""

from netweave.formats.dialect import Dialect, Editor, Padding

DIALECT = Dialect(
    names={
        "kernel_shape": "kernel", "pads": "pad", "strides": "stride", "dilations": "dilate",
        "group": "num_group", "epsilon": "eps", "size": "nsize", "bias": "knorm", "LeakyRelu.alpha": "slope",
    },
    sizes="({sizes})",
    rounding={
        "floor": "pooling_convention=valid",
        "ceil": "pooling_convention=full",
        "full": "pooling_convention=full",
    },
    padding=Padding(both="pad={begin}"),
    filters="num_filter={}",
    units="num_hidden={}",
    bias=("no_bias=True", "no_bias=False"),
    operators=(
        {
            "MaxPool": "pool_type=max", "GlobalMaxPool": "pool_type=max",
            "AveragePool": "pool_type=avg", "GlobalAveragePool": "pool_type=avg",
        },
        {
            "Relu": "act_type=relu", "Sigmoid": "act_type=sigmoid", "Softplus": "act_type=softrelu",
            "Softsign": "act_type=softsign", "Tanh": "act_type=tanh",
        },
        {"Add": "op=elemwise_add", "Mul": "op=elemwise_mul", "Sub": "op=elemwise_sub"},
    ),
    fixed_scale="fix_gamma",
    has_modes=False,
    editor=Editor(name="symbol_json", copies_layers=True),
)  # fmt: skip
