"""Port to JAX: the tagger with ``lax.scan``."""

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

WIDTH = 12
HIDDEN = 10
VOCABULARY = 53
TAGS = 7


def lstm(p, x, reverse=False):
    def step(carry, row):
        h, c = carry
        gates = p["ih"] @ row + p["hh"] @ h + p["bias"]
        i, f, g, o = jnp.split(gates, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros(HIDDEN)
    return jax.lax.scan(step, (zero, zero), x, reverse=reverse)[1]


def gru(p, x):
    def step(h, row):
        xr, xz, xn = jnp.split(p["ih"] @ row + p["bias_ih"], 3)
        hr, hz, hn = jnp.split(p["hh"] @ h + p["bias_hh"], 3)
        r = jax.nn.sigmoid(xr + hr)
        z = jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        return h, h

    return jax.lax.scan(step, jnp.zeros(HIDDEN), x)[1]


def forward_one(params, ids):
    x = params["embedding"][ids]
    x = jnp.concatenate([lstm(params["ahead"], x), lstm(params["back"], x, reverse=True)], -1)
    x = gru(params["gru"], x)
    mean = x.mean(-1, keepdims=True)
    x = (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    x = x * params["norm"]["scale"] + params["norm"]["bias"]
    return x @ params["out"]["kernel"] + params["out"]["bias"]


def forward(params, ids):
    return jax.vmap(forward_one, in_axes=(None, 0))(params, ids)


def load(path):
    w = {name: jnp.asarray(x) for name, x in load_file(path).items()}

    def lstm_of(end):
        return {
            "ih": w[f"lstm.weight_ih_{end}"],
            "hh": w[f"lstm.weight_hh_{end}"],
            "bias": w[f"lstm.bias_ih_{end}"] + w[f"lstm.bias_hh_{end}"],
        }

    return {
        "embedding": w["embedding.weight"],
        "ahead": lstm_of("l0"),
        "back": lstm_of("l0_reverse"),
        "gru": {
            "ih": w["gru.weight_ih_l0"],
            "hh": w["gru.weight_hh_l0"],
            "bias_ih": w["gru.bias_ih_l0"],
            "bias_hh": w["gru.bias_hh_l0"],
        },
        "norm": {"scale": w["norm.weight"], "bias": w["norm.bias"]},
        "out": {"kernel": w["out.weight"].T, "bias": w["out.bias"]},
    }


def run(params, ids):
    return np.asarray(forward(params, jnp.asarray(ids)))
