"""Caffe's words for the settings of layers: the field names of ``caffe.proto``."""

from netweave.formats.dialect import Dialect, Editor, FirstValues, Padding

DIALECT = Dialect(
    setting="{name}: {value}",
    names={
        "kernel_shape": "kernel_size", "pads": "pad", "strides": "stride", "dilations": "dilation",
        "group": "group", "epsilon": "eps", "size": "local_size", "bias": "k", "axis": "axis",
        "LeakyRelu.alpha": "negative_slope",
    },
    sizes="({sizes})",
    is_one_size=True,
    rounding={"floor": "round_mode: FLOOR", "ceil": "round_mode: CEIL", "caffe": "round_mode: CEIL"},
    padding=Padding(both="pad: {begin}", by_axis="pad_h: {rows} pad_w: {columns}"),
    filters="num_output: {}",
    units="num_output: {}",
    bias=("bias_term: false", "bias_term: true"),
    slopes=("channel_shared: true", "channel_shared: false"),
    operators=(
        {
            "MaxPool": "pool: MAX", "GlobalMaxPool": "pool: MAX",
            "AveragePool": "pool: AVE", "GlobalAveragePool": "pool: AVE",
        },
        {"Add": "operation: SUM", "Mul": "operation: PROD", "Max": "operation: MAX"},
        {"LRN": "norm_region: ACROSS_CHANNELS", "ChannelLRN": "norm_region: WITHIN_CHANNEL"},
        {
            "Abs": 'type: "AbsVal"', "Elu": 'type: "ELU"', "Relu": 'type: "ReLU"',
            "Sigmoid": 'type: "Sigmoid"', "Softplus": 'type: "BNLL"', "Tanh": 'type: "TanH"',
        },
    ),
    rectifier_slope="negative_slope: {alpha}",
    has_modes=False,
    first_values=FirstValues(by_role={"": 0.0, "gamma": 1.0, "slope": 0.25}),
    editor=Editor(name="prototxt", copies_layers=True),
)  # fmt: skip
