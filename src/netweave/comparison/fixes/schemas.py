"""The schemas of the text formats, in which the names of settings stand."""

from netweave.formats.caffe import schema as caffe
from netweave.formats.singa import schema as singa

__all__ = ["caffe", "singa"]
