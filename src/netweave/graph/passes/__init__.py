"""Passes over a Graph: each returns a changed copy; ``pass_.edit(graph)`` changes the Graph itself.

To add one: a function over a Graph under ``@Pass``, in a file of its own, made of what ``rewrite`` offers.
"""

from netweave.graph.passes.absorb import absorb, absorb_biases, absorb_scales
from netweave.graph.passes.attention import attention_fusion, fuse_attention
from netweave.graph.passes.branches import join_branches
from netweave.graph.passes.channels_first import channels_first, early_transposes
from netweave.graph.passes.compose import compose
from netweave.graph.passes.concats import flatten_concats, remove_concats
from netweave.graph.passes.extract import Extractor, extract
from netweave.graph.passes.fold import fold
from netweave.graph.passes.gelu import fuse_gelu
from netweave.graph.passes.inference import to_inference
from netweave.graph.passes.layer_norm import fuse_layer_norm
from netweave.graph.passes.pads import absorb_pads
from netweave.graph.passes.partial_sums import sum_of_parts
from netweave.graph.passes.prune import prune
from netweave.graph.passes.rewrite import Pass, chain
from netweave.graph.passes.rounded_windows import pad_rounded_windows
from netweave.graph.passes.scaffolding import see_through
from netweave.graph.passes.specialise import explicit, specialise

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
    "early_transposes",
    "explicit",
    "extract",
    "flatten_concats",
    "fold",
    "fuse_attention",
    "fuse_gelu",
    "fuse_layer_norm",
    "join_branches",
    "pad_rounded_windows",
    "prune",
    "remove_concats",
    "see_through",
    "specialise",
    "sum_of_parts",
    "to_inference",
]
