"""Passes over a Graph: each returns a changed copy; ``pass_.edit(graph)`` changes the Graph itself.

To add one: a function over a Graph under ``@Pass``, in a file of its own, made of what ``rewrite`` offers.
"""

from netweave.graph.passes.attention import attention_fusion, fuse_attention
from netweave.graph.passes.branches import flatten_concats, join_branches, remove_concats, sum_of_parts
from netweave.graph.passes.compose import compose, compose_group_norm
from netweave.graph.passes.decomposition import spread_group_norm
from netweave.graph.passes.extraction import Extractor, extract
from netweave.graph.passes.folding import absorb, absorb_biases, absorb_scales, fold
from netweave.graph.passes.inference import to_inference
from netweave.graph.passes.layer_normalization import fuse_gelu, fuse_layer_norm, fuse_rms_norm
from netweave.graph.passes.rewriting import Pass, chain, prune
from netweave.graph.passes.scaffolding import see_through
from netweave.graph.passes.views import channels_first, early_transposes
from netweave.graph.passes.windows import absorb_pads, explicit, pad_rounded_windows, specialise

__all__ = [
    "Extractor",
    "Pass",
    "absorb",
    "absorb_biases",
    "absorb_pads",
    "absorb_scales",
    "attention_fusion",
    "chain",
    "channels_first",
    "compose",
    "compose_group_norm",
    "early_transposes",
    "explicit",
    "extract",
    "flatten_concats",
    "fold",
    "fuse_attention",
    "fuse_gelu",
    "fuse_layer_norm",
    "fuse_rms_norm",
    "join_branches",
    "pad_rounded_windows",
    "prune",
    "remove_concats",
    "see_through",
    "specialise",
    "spread_group_norm",
    "sum_of_parts",
    "to_inference",
]
