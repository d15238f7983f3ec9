"""Port to JAX: the encoder as functions of a tree of arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

WIDTH = 32
HEADS = 4
DEPTH = 2
VOCABULARY = 83


def dense(p, x):
    return jnp.dot(x, p["kernel"]) + p["bias"]


def layer_norm(p, x):
    x = x - jnp.mean(x, -1, keepdims=True)
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-12) * p["scale"] + p["bias"]


def self_attention(p, x, mask):
    n, t, _ = x.shape
    q, k, v = (dense(p[name], x).reshape(n, t, HEADS, -1) for name in ("query", "key", "value"))
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(mask[:, None, None, :] > 0, scores, -1e9)
    y = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores, -1), v)
    return dense(p["dense"], y.reshape(n, t, WIDTH))


def forward(params, ids, types, mask):
    positions = jnp.cumsum(mask, 1) * mask + 1
    x = params["words"][ids] + params["positions"][positions] + params["types"][types]
    x = layer_norm(params["norm"], x)
    for p in params["layers"]:
        x = layer_norm(p["norm1"], x + self_attention(p, x, mask))
        hidden = jax.nn.gelu(dense(p["intermediate"], x), approximate=False)
        x = layer_norm(p["norm2"], x + dense(p["output"], hidden))
    first = jnp.tanh(dense(params["pooler"], x[:, 0]))
    mean = (x * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
    return dense(params["score"], jnp.concatenate([first, mean], -1))


def load(path):
    w = {name: jnp.asarray(x) for name, x in load_file(path).items()}

    def norm(name):
        return {"scale": w[f"{name}.weight"], "bias": w[f"{name}.bias"]}

    def linear(name):
        return {"kernel": w[f"{name}.weight"].T, "bias": w[f"{name}.bias"]}

    layers = []
    for i in range(DEPTH):
        names = ("query", "key", "value", "dense", "intermediate", "output")
        layer = {name: linear(f"layers.{i}.{name}") for name in names}
        layer |= {name: norm(f"layers.{i}.{name}") for name in ("norm1", "norm2")}
        layers.append(layer)
    return {
        **{name: w[f"{name}.weight"] for name in ("words", "positions", "types")},
        "norm": norm("norm"),
        "layers": layers,
        "pooler": linear("pooler"),
        "score": linear("score"),
    }


def run(params, ids, types, mask):
    return np.asarray(forward(params, *(jnp.asarray(x) for x in (ids, types, mask))))
