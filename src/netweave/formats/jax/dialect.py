"""JAX's words for the settings of functions of ``jax.lax`` and ``jax.nn``: the arguments of their calls."""

from netweave.formats.dialect import Dialect, Padding

DIALECT = Dialect(
    names={
        "kernel_shape": "window_dimensions", "pads": "padding", "strides": "window_strides",
        "dilations": "rhs_dilation", "group": "feature_group_count", "axis": "axis",
    },
    sizes="({sizes})",
    booleans=("False", "True"),
    rounding=None,
    padding=Padding(each="padding=[{pairs}]"),
    channels_last=True,
    activations={
        "Relu": "jax.nn.relu", "LeakyRelu": "jax.nn.leaky_relu",
        "LeakyRelu.alpha": "jax.nn.leaky_relu(negative_slope={alpha})", "Elu": "jax.nn.elu",
        "Elu.alpha": "jax.nn.elu(alpha={alpha})", "Sigmoid": "jax.nn.sigmoid", "Tanh": "jnp.tanh",
        "Softplus": "jax.nn.softplus", "Softsign": "jax.nn.soft_sign", "Mish": "jax.nn.mish",
        "HardSwish": "jax.nn.hard_swish", "Gelu": "jax.nn.gelu(approximate=False)", "Selu": "jax.nn.selu",
    },
    bounded_rectifiers={"6": "jax.nn.relu6"},
    arithmetic={"Add": "the operator +", "Mul": "the operator *", "Sub": "the operator -"},
    functions={
        "Mish": "jax.nn.mish", "Swish": "jax.nn.silu", "HardSwish": "jax.nn.hard_swish",
        "GELU (tanh)": "jax.nn.gelu(approximate=True)",
    },
    has_modes=False,
)  # fmt: skip
