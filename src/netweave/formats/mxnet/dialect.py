"""MXNet's words for the settings of operators: the attributes of a symbol file."""

from netweave.formats.dialect import Dialect, Editor, FirstValues, Padding

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
    first_values=FirstValues(
        ignores_case=True,
        by_name=(
            (r"upsampling.*", ("bilinear", {})),
            (r"stn_loc.*weight", ("zeros", {})),
            (r"stn_loc.*bias", ("constant", {"value": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]})),
            (r".*bias", ("zeros", {})),
            (r".*gamma", ("ones", {})),
            (r".*beta", ("zeros", {})),
            (r".*moving_mean", ("zeros", {})),
            (r".*moving_var", ("ones", {})),
            (r".*moving_inv_var", ("zeros", {})),
            (r".*moving_avg", ("zeros", {})),
            (r".*min", ("zeros", {})),
            (r".*max", ("ones", {})),
        ),
        weights=("uniform", {"scale": 0.01}),
    ),
    editor=Editor(name="symbol_json", copies_layers=True),
)  # fmt: skip
