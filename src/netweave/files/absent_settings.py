"""Stand-ins for packages of settings that are not installed: dicts whose keys are attributes too.

A model's file reads its sizes from ``EasyDict``, ``CfgNode`` or OmegaConf's configurations. Unlike other
absent packages, what these give decides about the net, and it is the same in all of them: what the code put
in (decision 0193). What they do besides (interpolation, types, command lines) is refused.

So have time zones, by which settings name folders of results: Python takes nothing else in their place.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.files.argument_values import Settings, as_settings
from netweave.files.settings_file import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping


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
