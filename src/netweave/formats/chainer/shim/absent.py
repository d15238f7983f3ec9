"""What is imported and not recorded: modules with nothing in them, and names that stand for nothing."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netweave.files.absent import Absent as AbsentName
from netweave.formats.chainer.shim.chainercv import CV_LINKS
from netweave.formats.chainer.shim.functions import FUNCTIONS
from netweave.formats.chainer.shim.links import LINKS

if TYPE_CHECKING:
    from collections.abc import Mapping


class Absent(AbsentName):
    """Something that is not recorded: it may be imported, subclassed, and used while a file is imported."""

    def _may_be_called(self) -> bool:
        return not self._name.startswith(("chainer.functions.", "chainer.links."))

    def _why(self) -> str:
        return "which is not supported; see docs/how-to/read-a-chainer-model.md"


class Module(ModuleType):
    """A module whose other names are absent, unless it is one of functions or of links."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        own = self.__name__
        if (known := sys.modules.get(f"{own}.{name}")) is not None:
            return known
        if own.startswith(("chainercv.links", "chainercv.experimental.links")) and name in CV_LINKS:
            return CV_LINKS[name]
        family, _, rest = own.removeprefix("chainer.").partition(".")
        if rest and name in _TABLES.get(family, {}):
            return _TABLES[family][name] if "." in rest else importlib.import_module(f"{own}.{name}")
        return Absent(f"{own}.{name}")


_TABLES: dict[str, Mapping[str, Any]] = {"functions": FUNCTIONS, "links": LINKS}
"""What the modules in the packages of a family hold: each what it is called after."""
