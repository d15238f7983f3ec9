"""SINGA's words for the settings of layers: the field names of ``job.proto``."""

from netweave.formats.dialect import Dialect, Editor, FirstValues, Padding

_UP = "rounding up, which no pooling of SINGA's does"

DIALECT = Dialect(
    setting="{name}: {value}",
    names={
        "kernel_shape": "kernel", "pads": "pad", "strides": "stride", "size": "local_size", "bias": "knorm",
    },
    sizes="({sizes})",
    is_one_size=True,
    rounding={"ceil": _UP, "caffe": _UP, "full": _UP},
    padding=Padding(both="pad: {begin}", by_axis="pad_y: {rows} pad_x: {columns}"),
    filters="num_filters: {}",
    units="num_output: {}",
    operators=(
        {
            "MaxPool": "pool: MAX", "GlobalMaxPool": "pool: MAX",
            "AveragePool": "pool: AVG", "GlobalAveragePool": "pool: AVG",
        },
        {"Relu": "type: kReLU", "Sigmoid": "type: kSigmoid"},
    ),
    rectifier_slope="negative_slope: {alpha}",
    has_modes=False,
    first_values=FirstValues(setting="an 'init'"),
    log="step",
    editor=Editor(name="prototxt"),
)  # fmt: skip
