"""Port to JAX: the language model as functions of a tree of arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

WIDTH = 32
HEADS = 4
DEPTH = 3
WINDOW = 12
CONTEXT = 40
VOCABULARY = 67


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * p["scale"] + p["bias"]


def attention(p, x, reach):
    n, t, _ = x.shape
    qkv = dense(p["qkv"], x).reshape(n, t, 3, HEADS, WIDTH // HEADS)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    i = jnp.arange(t)[:, None]
    j = jnp.arange(t)[None, :]
    visible = (j <= i) & (i - j < reach)
    scores = jnp.where(visible, scores, jnp.finfo(scores.dtype).min)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
    return dense(p["out"], y.reshape(n, t, WIDTH))


def forward(params, ids):
    x = params["tokens"][ids] + params["places"][: ids.shape[1]]
    for index, p in enumerate(params["layers"]):
        x = x + attention(p, layer_norm(p["norm1"], x), WINDOW if index % 2 else CONTEXT)
        hidden = jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x)), approximate=True)
        x = x + dense(p["down"], hidden)
    x = layer_norm(params["norm"], x)
    return x @ params["tokens"].T


def load(path):
    w = {name: jnp.asarray(x) for name, x in load_file(path).items()}

    def linear(name):
        return {"kernel": w[f"{name}.weight"].T, "bias": w[f"{name}.bias"]}

    def norm(name):
        return {"scale": w[f"{name}.weight"], "bias": w[f"{name}.bias"]}

    layers = [
        {
            "norm1": norm(f"h.{i}.ln_1"),
            "qkv": linear(f"h.{i}.attn.c_attn"),
            "out": linear(f"h.{i}.attn.c_proj"),
            "norm2": norm(f"h.{i}.ln_2"),
            "up": linear(f"h.{i}.c_fc"),
            "down": linear(f"h.{i}.c_proj"),
        }
        for i in range(DEPTH)
    ]
    return {"tokens": w["wte.weight"], "places": w["wpe.weight"], "layers": layers, "norm": norm("ln_f")}


def run(params, ids):
    return np.asarray(forward(params, jnp.asarray(ids)))
