"""Tiny decoders of Transformers with drawn weights, and these weights under names of this benchmark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

Weights = dict[str, torch.Tensor]

LENGTH = 16
"""Tokens of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """What a decoder computes; the sizes are those of all families.

    Attributes:
        kind: Name of the classes in Transformers, without ``Config`` and ``ForCausalLM``.
        settings: Settings of the configuration that are its own.
        norm: ``rms``, ``rms1`` (multiplies by 1 + w) or ``layer``.
        eps: Epsilon of the normalisations.
        heads: Number of heads of the queries.
        kv_heads: Number of heads of keys and values.
        head_dim: Features of each head.
        rotary_dim: Features of each head that are rotated.
        thetas: Base of the rotary frequencies in each layer.
        scaling: Arguments of llama3's scaling of the frequencies: factor, low, high, original length.
        scale: Factor of the scores.
        windows: Keys that a query of each layer sees; 0 is all.
        activation: ``silu``, ``gelu_tanh`` or ``gelu``.
        is_gated: Whether the MLP multiplies by a gate.
        experts: Number of experts; 0 is a plain MLP.
        has_qk_norm: Whether each head of queries and keys is normalised.
        has_sandwich: Whether attention and MLP are normalised once more behind.
        is_parallel: Whether attention and MLP read the same residual.
        has_bias: Whether dense layers have a bias.
        embedding_scale: Factor of the embeddings.
        attention_cap: Soft cap of the scores; 0 is none.
        final_cap: Soft cap of the logits; 0 is none.
        is_tied: Whether the head's weights are the embedding's.
    """

    kind: str
    settings: Mapping[str, Any]
    norm: str = "rms"
    eps: float = 1e-6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    rotary_dim: int = 16
    thetas: tuple[float, float] = (10000.0, 10000.0)
    scaling: tuple[float, float, float, int] | None = None
    scale: float = 0.25
    windows: tuple[int, int] = (0, 0)
    activation: str = "silu"
    is_gated: bool = True
    experts: int = 0
    has_qk_norm: bool = False
    has_sandwich: bool = False
    is_parallel: bool = False
    has_bias: bool = False
    embedding_scale: float = 1.0
    attention_cap: float = 0.0
    final_cap: float = 0.0
    is_tied: bool = False


WIDTH, INNER, VOCABULARY, LAYERS = 64, 96, 97, 2

SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "vocab_size": VOCABULARY,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
    "use_cache": False,
}

FAMILIES = {
    "llama": Decoder(
        kind="Llama",
        settings={
            "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            "tie_word_embeddings": False,
        },
        eps=1e-5,
        thetas=(500000.0, 500000.0),
        scaling=(8.0, 1.0, 4.0, 64),
    ),
    "qwen3": Decoder(
        kind="Qwen3",
        settings={
            "head_dim": 16,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "tie_word_embeddings": True,
        },
        thetas=(1000000.0, 1000000.0),
        has_qk_norm=True,
        is_tied=True,
    ),
    "gemma2": Decoder(
        kind="Gemma2",
        settings={
            "head_dim": 16,
            "query_pre_attn_scalar": 24,
            "sliding_window": 5,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "attn_implementation": "eager",
        },
        norm="rms1",
        scale=24**-0.5,
        windows=(5, 0),
        activation="gelu_tanh",
        has_sandwich=True,
        embedding_scale=math.sqrt(WIDTH),
        attention_cap=2.0,
        final_cap=3.0,
        is_tied=True,
    ),
    "neox": Decoder(
        kind="GPTNeoX",
        settings={
            "layer_norm_eps": 1e-5,
            "hidden_act": "gelu",
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            },
            "tie_word_embeddings": False,
        },
        norm="layer",
        eps=1e-5,
        kv_heads=4,
        rotary_dim=8,
        activation="gelu",
        is_gated=False,
        is_parallel=True,
        has_bias=True,
    ),
    "gemma3": Decoder(
        kind="Gemma3",
        settings={
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
            },
        },
        norm="rms1",
        thetas=(10000.0, 1000000.0),
        windows=(5, 0),
        activation="gelu_tanh",
        has_qk_norm=True,
        has_sandwich=True,
        embedding_scale=math.sqrt(WIDTH),
        is_tied=True,
    ),
    "mixtral": Decoder(
        kind="Mixtral",
        settings={
            "head_dim": 16,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "experts_implementation": "batched_mm",
            "tie_word_embeddings": False,
        },
        eps=1e-5,
        thetas=(1000000.0, 1000000.0),
        experts=4,
    ),
    "mistral": Decoder(
        kind="Mistral",
        settings={
            "head_dim": 16,
            "rms_norm_eps": 1e-5,
            "sliding_window": 5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
            "tie_word_embeddings": False,
        },
        eps=1e-5,
        thetas=(100000.0, 100000.0),
        windows=(5, 5),
    ),
    "gemma": Decoder(
        kind="Gemma",
        settings={
            "head_dim": 16,
            "rms_norm_eps": 1e-6,
            "hidden_act": "gelu_pytorch_tanh",
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        norm="rms1",
        kv_heads=1,
        activation="gelu_tanh",
        embedding_scale=math.sqrt(WIDTH),
        is_tied=True,
    ),
    "stablelm": Decoder(
        kind="StableLm",
        settings={
            "layer_norm_eps": 1e-5,
            "use_qkv_bias": False,
            "use_parallel_residual": False,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.25,
            },
            "tie_word_embeddings": False,
        },
        norm="layer",
        eps=1e-5,
        kv_heads=4,
        rotary_dim=4,
    ),
}

HELD_OUT_FAMILIES = ("gemma3", "mixtral")
"""Not looked at before the mends were made."""

FRESH_FAMILIES = ("mistral", "gemma", "stablelm")
"""Of the draw of cases alone."""

OWN_SIZES = {"gemma": {"num_key_value_heads": 1}, "stablelm": {"num_key_value_heads": 4}}


def original(family: str) -> torch.nn.Module:
    """Return the model of Transformers, with weights that are drawn: those it starts with hide mistakes."""
    import transformers

    decoder = FAMILIES[family]
    kind = f"{decoder.kind}TextConfig" if family == "gemma3" else f"{decoder.kind}Config"
    config = getattr(transformers, kind)(**{**SIZES, **OWN_SIZES.get(family, {}), **decoder.settings})
    model = getattr(transformers, f"{decoder.kind}ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(len(family))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "embed" in name:
                parameter.copy_(0.02 * noise if not decoder.is_tied else 0.05 * noise)
            elif parameter.ndim == 1:
                is_scale = "norm" in name and name.endswith("weight") and decoder.norm != "rms1"
                parameter.copy_(float(is_scale) + 0.2 * noise)
            else:
                parameter.copy_(1.2 * noise / math.sqrt(parameter.shape[-1]))
    return model


def drawn_weights(family: str) -> Weights:
    """Return weights by our names, as ``own_names`` does, without a model of Transformers."""
    decoder = FAMILIES[family]
    rows, kv_rows = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
    dense = {"q": (rows, WIDTH), "k": (kv_rows, WIDTH), "v": (kv_rows, WIDTH), "o": (WIDTH, rows)}
    dense |= {"up": (INNER, WIDTH), "down": (WIDTH, INNER)}
    dense |= {"gate": (INNER, WIDTH)} if decoder.is_gated else {}
    norms = {"norm1": WIDTH, "norm2": WIDTH}
    norms |= {"after1": WIDTH, "after2": WIDTH} if decoder.has_sandwich else {}
    norms |= {"q_norm": decoder.head_dim, "k_norm": decoder.head_dim} if decoder.has_qk_norm else {}
    generator = torch.Generator().manual_seed(len(family))
    first = 0.0 if decoder.norm == "rms1" else 1.0

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    weights = {"embed": 0.05 * draw(VOCABULARY, WIDTH), "norm": first + 0.2 * draw(WIDTH)}
    weights["head"] = weights["embed"] if decoder.is_tied else draw(VOCABULARY, WIDTH) / 8
    for layer in range(LAYERS):
        weights |= {f"{layer}.{name}": first + 0.2 * draw(size) for name, size in norms.items()}
        for name, shape in dense.items():
            weights[f"{layer}.{name}"] = 1.2 * draw(*shape) / math.sqrt(shape[1])
            if decoder.has_bias:
                weights[f"{layer}.{name}.bias"] = 0.2 * draw(shape[0])
        if decoder.norm == "layer":
            weights |= {f"{layer}.{name}.bias": 0.2 * draw(size) for name, size in norms.items()}
    if decoder.norm == "layer":
        weights["norm.bias"] = 0.2 * draw(WIDTH)
    return weights


NAMES = {
    "model.embed_tokens.weight": "embed",
    "gpt_neox.embed_in.weight": "embed",
    "embed_out.weight": "head",
    "lm_head.weight": "head",
    "model.norm": "norm",
    "gpt_neox.final_layer_norm": "norm",
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.o_proj": "o",
    "self_attn.q_norm": "q_norm",
    "self_attn.k_norm": "k_norm",
    "attention.query_key_value": "qkv",
    "attention.dense": "o",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
    "mlp.dense_h_to_4h": "up",
    "mlp.dense_4h_to_h": "down",
    "mlp.gate.weight": "router",
    "mlp.experts.gate_up_proj": "gate_up",
    "mlp.experts.down_proj": "down",
    "input_layernorm": "norm1",
    "pre_feedforward_layernorm": "norm2",
    "post_feedforward_layernorm": "after2",
}
"""Names of Transformers, or their ends, and ours."""


def own_names(family: str, model: torch.nn.Module) -> Weights:
    """Return the weights by our names: ``0.q``, ``0.q.bias``, ``embed``."""
    decoder = FAMILIES[family]
    weights: Weights = {}
    for name, value in model.state_dict().items():
        layer = next((part for part in name.split(".") if part.isdigit()), "")
        end = name.partition(f".{layer}.")[2] if layer else name
        is_bias = end.endswith(".bias")
        plain = end.removesuffix(".bias")
        own = NAMES.get(plain) or NAMES.get(plain.removesuffix(".weight"))
        if plain.removesuffix(".weight") == "post_attention_layernorm":
            own = "after1" if decoder.has_sandwich else "norm2"
        if own is None:
            raise KeyError(name)
        weights[f"{layer}.{own}".lstrip(".") + ".bias" * is_bias] = value.clone()
    for layer in range(LAYERS):
        for bias in ("", ".bias"):
            joined = weights.pop(f"{layer}.qkv{bias}", None)
            if joined is not None:  # GPT-NeoX keeps query, key and value of a head together
                parts = joined.unflatten(0, (decoder.heads, 3, decoder.head_dim)).unbind(1)
                weights |= {
                    f"{layer}.{own}{bias}": part.flatten(0, 1) for own, part in zip("qkv", parts, strict=True)
                }
    return weights
