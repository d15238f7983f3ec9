"""Nets with channels last, written with channels first: shared by TensorFlow and Keras.

A ``Tensor`` is what the source sees, and remembers whether its value has the channels on axis 1 where the
source has them last. Operators follow that layout as long as they can; a Transpose is written only where the
order of the elements matters to the source: a flatten, a reshape, a product over the last axis, an output.
"""

from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer, ChannelsLastNet
from netweave.formats.lowering.channels_last.windows import Operand, Stored, Tensor

__all__ = ["ChannelsLastLayer", "ChannelsLastNet", "Operand", "Stored", "Tensor"]
