"""Mistakes that are planted, and what a comparison must say of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake.

    Attributes:
        families: Where it is planted.
        place: A pattern of the name of A's layer, or B's, that the first finding must be at.
        words: Patterns of which one must occur in the cause of the first finding.
    """

    families: tuple[str, ...]
    place: str
    words: tuple[str, ...]


ALL = ("llama", "qwen3", "gemma2", "neox", "gemma3", "mixtral")
RMS = ("llama", "qwen3", "gemma2", "gemma3", "mixtral")
GEMMA = ("gemma2", "gemma3")

ATTENTION = r"(layers|blocks|h)\.0\.(self_attn|attention|attn|mixer)|rotary|rope"
NORM = r"(layers|blocks|h)\.0\.(input_layernorm|norm|ln)"
MLP = r"(layers|blocks|h)\.0\.(mlp|ffn|feed)"

MISTAKES = {
    "theta": Mistake(ALL, ATTENTION, (r"theta", r"base of the rotary")),
    "pairing": Mistake(("llama", "qwen3", "neox", "mixtral"), ATTENTION, (r"rotary.*pairs",)),
    "partial": Mistake(("llama", "neox", "gemma3"), ATTENTION, (r"rotary.*features", r"rotates")),
    "offset": Mistake(("llama", "gemma2", "mixtral"), ATTENTION, (r"rotary.*position", r"offset")),
    "no-rotary-k": Mistake(("llama", "qwen3", "gemma3"), ATTENTION, (r"rotary",)),
    "sign": Mistake(("llama", "neox", "mixtral"), ATTENTION, (r"rotary.*(sign|direction|sine)",)),
    "scaling": Mistake(("llama",), ATTENTION, (r"rotary.*(scal|frequenc)", r"scal.*frequenc")),
    "weight-plus-one": Mistake(("llama", "gemma2", "gemma3"), NORM, (r"1 \+ w",)),
    "eps": Mistake(("llama", "neox", "mixtral"), NORM, (r"\beps\b", r"epsilon")),
    "layer-norm": Mistake(("llama", "qwen3", "mixtral"), NORM, (r"LayerNorm.*RMS|RMS.*LayerNorm", r"mean")),
    "swapped-norms": Mistake(("llama", "gemma2", "gemma3"), NORM, (r"layernorm|norm", r"weights")),
    "tile": Mistake(("llama", "qwen3", "gemma2", "gemma3", "mixtral"), ATTENTION, (r"tile|repeat",)),
    "scale": Mistake(ALL, ATTENTION, (r"scale|scor|factor",)),
    "attention-cap": Mistake(("gemma2",), ATTENTION, (r"cap|tanh|Tanh",)),
    "final-cap": Mistake(("gemma2",), r"head|^model$|^$|norm", (r"cap|tanh|Tanh",)),
    "window": Mistake(GEMMA, ATTENTION, (r"window|sees|see ",)),
    "window-off": Mistake(GEMMA, ATTENTION, (r"window|sees|see ",)),
    "mask": Mistake(ALL, ATTENTION, (r"causal|mask|later",)),
    "embedding-scale": Mistake(GEMMA, r"embed|wte|tok|^model$", (r"scal|multipl|factor|Mul",)),
    "activation": Mistake(ALL, MLP, (r"(?i)gelu|silu|sigmoid|swish|tanh",)),
    "gate-up": Mistake(RMS[:-1], MLP, (r"gate|swap|other order|weights",)),
    "untied": Mistake(("qwen3", "gemma2"), r"head|embed", (r"weights|tied",)),
    "post-norm": Mistake(("llama", "qwen3", "mixtral"), NORM, (r"norm|Norm|residual|order",)),
    "dropped-layer": Mistake(ALL, r"\.1(\.|$)", (r"layer|lacks|only|missing",)),
    "reversed-layers": Mistake(("llama", "neox"), r"\.0\.", (r"order|weights|layer",)),
    "no-qk-norm": Mistake(("qwen3", "gemma3"), ATTENTION, (r"norm|Norm",)),
    "norm-behind-rotary": Mistake(("qwen3", "gemma3"), ATTENTION, (r"norm|Norm|order|rotary",)),
    "merged-heads": Mistake(("llama", "neox", "mixtral"), ATTENTION, (r"head|transpos|axes|order",)),
    "qkv-order": Mistake(("neox",), ATTENTION, (r"order|weights|quer",)),
    "no-bias": Mistake(("neox",), ATTENTION, (r"bias",)),
    "sequential": Mistake(("neox",), r"\.0\.", (r"parallel|residual|reads|input",)),
    "router-norm": Mistake(("mixtral",), MLP, (r"normal|sum|Div|divide",)),
    "router-one": Mistake(("mixtral",), MLP, (r"top|expert|\bk\b|TopK",)),
}
"""Mistakes by name."""

FRESH = {
    "mistral": (
        "theta pairing partial offset no-rotary-k sign eps layer-norm swapped-norms tile scale window"
        " window-off mask activation gate-up post-norm dropped-layer reversed-layers merged-heads"
    ),
    "gemma": (
        "theta pairing partial offset no-rotary-k sign weight-plus-one eps layer-norm swapped-norms scale"
        " mask embedding-scale activation gate-up untied post-norm dropped-layer reversed-layers merged-heads"
    ),
    "stablelm": (
        "theta pairing partial offset no-rotary-k sign eps swapped-norms scale mask activation gate-up"
        " post-norm dropped-layer reversed-layers merged-heads"
    ),
}
"""Mistakes of the families of the draw alone."""
