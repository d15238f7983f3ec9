"""A net as ``.prototxt`` and ``.caffemodel``, in layers that BVLC's Caffe 1.0 and OpenCV know.

To add an operator: a function under ``@written`` in the file of its subject in ``operators``.
"""

from netweave.formats.caffe.writer.net import write

__all__ = ["write"]
