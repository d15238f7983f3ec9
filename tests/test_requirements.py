"""The lock files of the release agree with pyproject.toml, and have hashes and no addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

RELEASED = {
    "release.txt": sorted(EXTRAS.keys() - {"dev", "test"}),
    "workbench.txt": ["web-team", "hdf5"],
}
"""The extras that a lock file covers, besides what every installation needs."""


def locked(name: str) -> dict[str, list[tuple[Requirement, int]]]:
    """Return the pinned versions of each package with the number of their hashes."""
    entries = re.split(r"\n(?=\S)", (FOLDER / name).read_text().replace("\\\n", ""))
    found: dict[str, list[tuple[Requirement, int]]] = {}
    for entry in entries:
        if entry.startswith("#"):
            continue
        text, *hashes = entry.split("--hash=")
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", one) for one in hashes), text
        requirement = Requirement(text.strip())
        found.setdefault(canonicalize_name(requirement.name), []).append((requirement, len(hashes)))
    return found


def required(extras: list[str]) -> list[Requirement]:
    """Return what pyproject.toml asks for directly, the extras within extras unfolded."""
    waiting, done = list(extras), set()
    rows = [Requirement(row) for row in PROJECT["dependencies"]]
    while waiting:
        extra = waiting.pop()
        if extra in done:
            continue
        done.add(extra)
        for row in map(Requirement, EXTRAS[extra]):
            if row.name == PROJECT["name"]:
                waiting += row.extras
            else:
                rows.append(row)
    return rows


@pytest.mark.parametrize("name", [*RELEASED, "build.txt"])
def test_every_package_is_pinned_with_hashes_and_without_addresses(name):
    text = (FOLDER / name).read_text()
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "no options: an index would be an address"
    for rows in locked(name).values():
        for requirement, num_hashes in rows:
            assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
            assert num_hashes, requirement


@pytest.mark.parametrize("name", RELEASED)
def test_the_lock_files_satisfy_pyproject(name):
    """If this fails, run ``make lock``."""
    pinned = locked(name)
    for wanted in required(RELEASED[name]):
        rows = pinned.get(canonicalize_name(wanted.name), [])
        assert rows, f"{name} lacks {wanted.name}: run make lock"
        for row, _ in rows:
            (version,) = (one.version for one in row.specifier)
            assert wanted.specifier.contains(version, prereleases=True), f"{wanted}, {name} has {row}"


def test_the_container_gets_the_versions_of_the_release():
    release, container = locked("release.txt"), locked("workbench.txt")
    assert container.keys() <= release.keys()
    for name, rows in container.items():
        assert {str(row) for row, _ in rows} <= {str(row) for row, _ in release[name]}


def test_the_build_is_pinned_too():
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {canonicalize_name(Requirement(row).name) for row in backend} <= locked("build.txt").keys()


def test_the_container_installs_nothing_without_a_hash():
    lines = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    installs = re.findall(r"pip (?:install|wheel)[^&\n]*", lines)
    assert len(installs) >= 3
    for command in installs:
        pinned = "--require-hashes" in command and "requirements/" in command
        ours = "--no-deps" in command and ("--no-build-isolation" in command or "/wheels/netweave" in command)
        assert pinned or ours, command
