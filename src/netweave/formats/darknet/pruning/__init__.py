"""Removing channels of a Darknet net by their scales of batch normalisation (network slimming, Liu 2017).

``channels`` says which channels of which layers are one and the same; ``choice`` which of them stay; ``cut``
writes the text and the arrays of what is left.
"""

from netweave.formats.darknet.pruning.channels import PrunedNet, prune_channels

__all__ = ["PrunedNet", "prune_channels"]
