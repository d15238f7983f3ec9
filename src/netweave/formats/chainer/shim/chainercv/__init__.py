"""``chainercv.links``: its blocks and the nets that are made of them; importing this registers them all."""

from netweave.formats.chainer.shim.chainercv import blocks, resnet, segnet, ssd, vgg, yolo
from netweave.formats.chainer.shim.chainercv.table import CV_LINKS

__all__ = ["CV_LINKS", "blocks", "resnet", "segnet", "ssd", "vgg", "yolo"]
