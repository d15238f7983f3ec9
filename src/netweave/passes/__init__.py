"""Passes over a Graph: each returns a changed copy; ``pass_.edit(graph)`` changes the Graph itself.

To add one: a function over a Graph under ``@Pass``, in a file of its own, made of what ``rewrite`` offers.
"""

from netweave.passes.absorb import absorb, absorb_biases, absorb_scales
from netweave.passes.attention import attention_fusion, fuse_attention
from netweave.passes.branches import join_branches
from netweave.passes.channels_first import channels_first, early_transposes
from netweave.passes.compose import compose
from netweave.passes.concats import flatten_concats, remove_concats
from netweave.passes.extract import Extractor, extract
from netweave.passes.fold import fold
from netweave.passes.gelu import fuse_gelu
from netweave.passes.inference import to_inference
from netweave.passes.layer_norm import fuse_layer_norm
from netweave.passes.pads import absorb_pads
from netweave.passes.partial_sums import sum_of_parts
from netweave.passes.prune import prune
from netweave.passes.rewrite import Pass, chain
from netweave.passes.rounded_windows import pad_rounded_windows
from netweave.passes.scaffolding import see_through
from netweave.passes.specialise import explicit, specialise

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
