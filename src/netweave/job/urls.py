"""URLs that a file names for its records: they are opened only if the user allows them.

A ``solver.prototxt`` from a stranger would otherwise make whoever trains with it send requests into their own
network, with their own credentials for stores (docs/decisions/0168). What the user names, on the command line
or in a program, is opened without asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.job.data import DataSource
    from netweave.job.job import Job, Phase
    from netweave.job.options import Probe

LISTS = ("images", "windows")
"""Kinds of sources whose files list names that may be URLs."""


def is_allowed(url: str, allowed: Sequence[str]) -> bool:
    """Whether a URL is, or lies below, one that is allowed.

    >>> is_allowed("s3://mine/a.rec", ["s3://mine"]), is_allowed("s3://mine-too/a.rec", ["s3://mine"])
    (True, False)
    >>> is_allowed("s3://any/a.rec", ["s3://"]), is_allowed("zip://a::http://b", ["zip://"])
    (True, False)
    """
    if "::" in url and url not in allowed:  # fsspec's chains: one store inside of another
        return False
    return any(
        url == one or url.startswith(one if one.endswith("/") else f"{one}/") for one in allowed if one
    )


def require_allowed(name: str, allowed: Sequence[str], place: str) -> None:
    """Check a name that a file gives; names without ``://`` are those of local files.

    Raises:
        UsageError: It is a URL, and not allowed.
    """
    if "://" in name and not is_allowed(name, allowed):
        scheme, _, rest = name.partition("://")
        store = f"{scheme}://{rest.partition('/')[0]}"
        raise UsageError(
            f"{place}: names {name!r:.200}; a URL in a file is opened only if you allow it: "
            f"--allow-url {store:.100} (load_job(allow_urls=...)), or name the records yourself with --data"
        )


def checked_source(source: DataSource, allowed: Sequence[str]) -> DataSource:
    """Return a source that opens no URL but those that are allowed, its lists included.

    Raises:
        UsageError: It names another.
    """
    for name in _texts((source.settings, source.transforms)):
        require_allowed(name, allowed, source.place)
    if source.kind not in LISTS:
        return source
    return replace(source, settings={**source.settings, "urls": list(allowed)})


def checked_phases(phases: Mapping[str, Phase], allowed: Sequence[str]) -> dict[str, Phase]:
    """Return phases whose sources are checked."""
    return {
        name: replace(phase, data=tuple(checked_source(source, allowed) for source in phase.data))
        for name, phase in phases.items()
    }


def checked_job(job: Job, allowed: Sequence[str]) -> Job:
    """Return a Job whose sources are checked."""
    return replace(job, phases=checked_phases(job.phases, allowed))


def checked_probe(probe: Probe, allowed: Sequence[str]) -> Probe:
    """Return a probe that opens no URL but those that are allowed."""
    return lambda source: probe(checked_source(source, allowed))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
