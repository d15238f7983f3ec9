"""Files of settings that a model's constructor is given: JSON, TOML and YAML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.source import is_file, read_bytes

MAX_BYTES = 1 << 22
"""A larger file is no settings that somebody wrote; YAML's aliases could make it far larger in memory."""


def read_settings(name: str | Path) -> dict[str, Any]:
    """Read ``FILE`` or ``FILE:KEY.KEY``, the mapping under these keys.

    Raises:
        ReadError: The file cannot be read, or holds no mapping.
        UnsupportedError: It is YAML, and PyYAML is not installed.
        UsageError: A key is not there.
    """
    file, _, keys = (str(name), "", "") if is_file(Path(name)) else str(name).rpartition(":")
    path = Path(file or keys)
    value = _parse(path)
    for key in filter(None, keys.split(".") if file else ()):
        if not isinstance(value, dict) or key not in value:
            has = ", ".join(map(str, value)) if isinstance(value, dict) else f"a {type(value).__name__}"
            raise UsageError(f"{path}: has no key {key!r} of {keys!r}; there is: {has}")
        value = value[key]
    if not isinstance(value, dict):
        raise ReadError(f"holds a {type(value).__name__}, expected settings by name", place=str(name))
    try:  # the child process is told in JSON; dates become text
        plain: dict[str, Any] = json.loads(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError) as error:
        raise ReadError(f"its settings are not plain values: {error}", place=str(name)) from error
    return plain


def _parse(path: Path) -> Any:
    content = read_bytes(path)
    if len(content) > MAX_BYTES:
        raise ReadError(
            f"has {len(content):,} bytes, expected settings of at most {MAX_BYTES:,}", place=str(path)
        )
    try:
        text = content.decode("utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix == ".toml":
            return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"cannot be read as settings: {error}", place=str(path)) from error
    return _parse_yaml(text, path)


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise UnsupportedError(
            "is read with PyYAML, which is not installed: pip install pyyaml, or give the settings as JSON",
            place=str(path),
        ) from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ReadError(f"cannot be read as YAML: {reason}", place=str(path)) from error
