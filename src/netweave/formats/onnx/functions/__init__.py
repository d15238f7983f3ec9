"""Netweave's operators as functions of the model, so that every runtime of ONNX runs a written file.

A node of the domain ``netweave`` stays what it is; the file carries a function of its name, whose body is
standard ONNX. The reader knows the operator and leaves the function aside; a runtime puts the body in its
place. To add one: write ``@body("Name")`` in the file of its family, with the arithmetic of its forward in
``graph/ops``.
"""

from netweave.formats.lowering import import_families
from netweave.formats.onnx.functions.tape import why_without, with_functions

__all__ = ["why_without", "with_functions"]

import_families(__name__)
