"""Packages and settings that are absent."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, tzinfo
from pathlib import Path
from types import ModuleType
from typing import Any

from netweave.errors import CodeError
from netweave.files.python_code import Settings, as_settings
from netweave.files.settings_file import read_settings

# A model's file reads its sizes from ``EasyDict``, ``CfgNode`` or OmegaConf's configurations. Unlike other
# absent packages, what these give decides about the net, and it is the same in all of them: what the code
# put in (decision 0193). What they do besides (interpolation, types, command lines) is refused.
#
# So have time zones, by which settings name folders of results: Python takes nothing else in their place.


class AttributeDict(Settings):
    """EasyDict, Munch and ConfigDict: made of a mapping, of names, or of both."""

    def __init__(self, values: Mapping[str, Any] | None = None, **named: Any) -> None:
        super().__init__({**(values or {}), **named})

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, as_settings(value))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)({name: deepcopy(value, memo) for name, value in self.items()})


class CfgNode(AttributeDict):
    """The node of yacs: settings that are overlaid with others, and then frozen."""

    def clone(self) -> Any:
        """Return a copy."""
        return deepcopy(self)

    def freeze(self) -> None:
        """Do nothing: who sets what is frozen has an error of their own."""

    defrost = freeze

    def merge_from_other_cfg(self, other: Mapping[str, Any]) -> None:
        """Overlay these settings with others."""
        _overlay(self, other)

    def merge_from_file(self, name: str) -> None:
        """Overlay these settings with those of a YAML file."""
        _overlay(self, _read(name))


class OmegaConf:
    """The functions of OmegaConf that make configurations, and bring them back to plain values."""

    @staticmethod
    def create(values: Any = None) -> Any:
        """Return settings."""
        if isinstance(values, str):
            raise CodeError("gives OmegaConf.create a text, which needs 'omegaconf': install it")
        return AttributeDict() if values is None else _attributes(values)

    structured = create

    @staticmethod
    def load(name: str) -> Any:
        """Return the settings of a YAML file."""
        return AttributeDict(_read(name))

    @staticmethod
    def merge(*settings: Mapping[str, Any]) -> Any:
        """Return settings overlaid with those behind them."""
        merged = AttributeDict()
        for each in settings:
            _overlay(merged, each)
        return merged

    @staticmethod
    def to_container(settings: Any, **_: Any) -> Any:
        """Return plain dicts and lists."""
        if isinstance(settings, dict):
            return {name: OmegaConf.to_container(value) for name, value in settings.items()}
        return [OmegaConf.to_container(item) for item in settings] if isinstance(settings, list) else settings

    @staticmethod
    def set_readonly(settings: Any, flag: bool) -> None:
        """Do nothing, as for frozen nodes."""

    set_struct = set_readonly


def _read(name: str) -> dict[str, Any]:
    """Read a file of settings that the code names; one that is not there is an error of the code's."""
    with Path(name).open("rb"):
        return read_settings(name)


def _attributes(value: Any) -> Any:
    if isinstance(value, dict):
        return AttributeDict(value)
    return [_attributes(item) for item in value] if isinstance(value, list) else value


def _overlay(settings: Settings, other: Mapping[str, Any]) -> None:
    for name, value in other.items():
        own = settings.get(name)
        if isinstance(own, Settings) and isinstance(value, dict):
            _overlay(own, value)
        else:
            settings[name] = deepcopy(value)


def timezone(name: str) -> tzinfo:
    """Return a time zone in the place of the named one: what time it is decides nothing about a net."""
    return UTC


SETTINGS: dict[str, Any] = {
    "easydict.EasyDict": AttributeDict,
    "ml_collections.ConfigDict": AttributeDict,
    "ml_collections.config_dict.ConfigDict": AttributeDict,
    "munch.Munch": AttributeDict,
    "omegaconf.DictConfig": AttributeDict,
    "omegaconf.ListConfig": list,
    "omegaconf.OmegaConf": OmegaConf,
    "pytz.UTC": UTC,
    "pytz.timezone": timezone,
    "pytz.utc": UTC,
    "yacs.config.CfgNode": CfgNode,
}
"""What stands for a name of such a package, by its full name."""


# A port often imports ``cv2`` or ``torchvision`` for what it does around the net. Such names may be
# imported, subclassed and used by decorators; a call of one, or a decision by one, while the net is made or
# run is an error.


class Absent:
    """A name of a package that is not here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing, or as a decorator what it decorates, while a file is imported; else an error."""
        if is_importing() and self._may_be_called():
            if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
                return args[0]
            return type(self)(f"{self._name}()")
        raise CodeError(f"calls {self._name}, {self._why()}")

    def __bool__(self) -> bool:
        if is_importing():
            return False
        raise CodeError(f"decides by {self._name}, {self._why()}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(self)(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """A class of the net's own framework beside it stays the only base; else the first stands for one."""
        absent = [base for base in bases if isinstance(base, Absent)]
        return (_STAND_IN_BASE[-1](self._name),) if absent == list(bases) and absent[0] is self else ()

    def __getitem__(self, key: Any) -> Any:
        """A name still, as in annotations (``Tensor["n 3"]``)."""
        return type(self)(f"{self._name}[...]")

    def __iter__(self) -> Iterator[Any]:
        raise CodeError(f"iterates over {self._name}, {self._why()}")

    def __or__(self, other: Any) -> Any:
        return self  # an annotation: absent.Array | None

    __ror__ = __or__

    def _may_be_called(self) -> bool:
        """Return whether a call of it while a file is imported says nothing about the net."""
        return True

    def _why(self) -> str:
        """Say why it stands for nothing."""
        package = self._name.partition(".")[0]
        if package in _TEMPLATES:
            template = _TEMPLATES[package]
            return f"and {package}.py is not here: copy {template} to {package}.py, and fill it in"
        return (
            f"and {package!r} is not installed here: install it, or say where it lies (--root FOLDER of a "
            "repository; --trust for what PYTHONPATH names)"
        )


def plain_base(name: str) -> type:
    """Return a class with nothing that another one could inherit, whose constructor takes no arguments."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            Absent(name)(*args, **kwargs)

    return type(name.rpartition(".")[2], (), {"__init__": init})


_STAND_IN_BASE: list[Callable[[str], type]] = [plain_base]
"""The last gives the class that stands for an absent one as the base of another, by its name."""


@contextmanager
def with_bases(base: Callable[[str], type]) -> Iterator[None]:
    """Let classes of absent packages be other bases than ``plain_base`` gives, until the context ends.

    Args:
        base: Returns the class that stands for an absent one, by its full name.
    """
    _STAND_IN_BASE.append(base)
    try:
        yield
    finally:
        _STAND_IN_BASE.pop()


class AbsentModule(ModuleType):
    """A module with nothing in it; each of its names is absent, but for kinds of settings."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__" and is_importing():
            return "0.0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in SETTINGS:
            return SETTINGS[full]
        known = sys.modules.get(full)
        return Absent(full) if known is None else known


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each name of some packages.

    Args:
        names: The packages.
        kind: What their modules are.
    """

    def __init__(self, names: Collection[str], kind: type[ModuleType] = AbsentModule) -> None:
        self._names = names
        self._kind = kind

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module that is a package as well; None for one of other packages."""
        if not _is_of(name, self._names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one."""
        return self._kind(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def _is_of(name: str, packages: Collection[str]) -> bool:
    """Return whether a module is one of some packages or modules, or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


_IS_IMPORTING: list[bool] = []
"""Holds something while a file of code is imported."""


def is_importing() -> bool:
    """Return whether a file of code is being imported."""
    return bool(_IS_IMPORTING)


@contextmanager
def importing() -> Iterator[None]:
    """Let calls of what is absent give nothing, such as decorators, until the context ends."""
    _IS_IMPORTING.append(True)
    try:
        yield
    finally:
        _IS_IMPORTING.pop()


_TEMPLATES: dict[str, str] = {}
"""Files that the user is to copy to modules that are not here, by the modules' names."""


@contextmanager
def without(names: Collection[str], templates: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let packages that are not installed be imported all the same, until the context ends.

    Args:
        names: The packages.
        templates: Files that the user is to copy to some of them, by their names.
    """
    finder = Finder(frozenset(names))
    sys.meta_path.insert(0, finder)
    _TEMPLATES.clear()  # not at the end: a model is run, and decides by what is absent, after it is made
    _TEMPLATES.update(templates or {})
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_of(name, names)]:
            del sys.modules[name]
