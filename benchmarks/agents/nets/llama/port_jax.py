"""Port to JAX: the decoder as functions of a tree of arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

WIDTH = 32
HEADS = 4
GROUPS = 2
DEPTH = 2
WINDOW = 20
VOCABULARY = 71
THETA = 50000.0
SIZE = WIDTH // HEADS


def rms_norm(scale, x):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5) * scale


def rotary(x, positions):
    frequency = 1.0 / THETA ** (jnp.arange(0, SIZE, 2) / SIZE)
    angles = positions[:, None, None] * frequency
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        [a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1
    )


def attention(p, x):
    n, t, _ = x.shape
    q = jnp.einsum("ntw,hdw->nthd", x, p["q"])
    k = jnp.einsum("ntw,hdw->nthd", x, p["k"])
    v = jnp.einsum("ntw,hdw->nthd", x, p["v"])
    positions = jnp.arange(t)
    q, k = rotary(q, positions), rotary(k, positions)
    k = jnp.repeat(k, HEADS // GROUPS, axis=2)
    v = jnp.repeat(v, HEADS // GROUPS, axis=2)
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) * SIZE**-0.5
    behind = positions[:, None] - positions[None]
    scores = jnp.where((behind >= 0) & (behind < WINDOW), scores, -jnp.inf)
    y = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores, -1), v)
    return y.reshape(n, t, WIDTH) @ p["o"].T


def mlp(p, x):
    return (jax.nn.silu(x @ p["gate"].T) * (x @ p["up"].T)) @ p["down"].T


def forward(params, ids):
    x = jnp.take(params["embedding"], ids, axis=0)
    for p in params["blocks"]:
        x = x + attention(p, rms_norm(p["norm1"], x))
        x = x + mlp(p, rms_norm(p["norm2"], x))
    return rms_norm(params["norm"], x) @ params["head"].T


def load(path):
    w = {name: jnp.asarray(x) for name, x in load_file(path).items()}
    blocks = []
    for i in range(DEPTH):
        prefix = f"layers.{i}."
        block = {name: w[f"{prefix}{name}_proj.weight"] for name in ("o", "gate", "up", "down")}
        for name in "qkv":
            block[name] = w[f"{prefix}{name}_proj.weight"].reshape(-1, SIZE, WIDTH)
        block["norm1"] = w[f"{prefix}input_layernorm.weight"]
        block["norm2"] = w[f"{prefix}post_attention_layernorm.weight"]
        blocks.append(block)
    return {
        "embedding": w["embed_tokens.weight"],
        "blocks": blocks,
        "norm": w["norm.weight"],
        "head": w["lm_head.weight"],
    }


def run(params, ids):
    return np.asarray(forward(params, jnp.asarray(ids)))
