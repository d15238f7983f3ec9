"""The networks of ``image-classification/symbols`` and of ``ssd``: a step on both sides, compared.

Releases share most of their files: each definition counts once, from the newest release that has it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PLACES = ("image-classification", "ssd")

FACTORY, BUILDER = "symbol_factory", "symbol_builder"
"""SSD's nets over another net's layers: the one names them, the other builds them."""

FACTORY_NETS = ("vgg16_reduced", "inceptionv3", "resnet50")

SIZES = {
    "inception-v3": 299,
    "inception-v4": 299,
    "inception-resnet-v2": 299,
    "googlenet": 256,
    "inception-bn": 224,
    "mobilenet": 224,
    "alexnet": 128,
    "alexnet_fp16": 128,
    "vgg": 64,
    "vgg16_reduced": 64,
    "inceptionv3": 299,
    "legacy_vgg16_ssd_300": 300,
    "symbol_vgg16_ssd_300": 300,
    "legacy_vgg16_ssd_512": 512,
    "symbol_vgg16_ssd_512": 512,
    FACTORY: 300,
}
"""Sizes of images: as small as the net allows."""

LAYERS = {"vgg": 11, "resnext": 50}


@dataclass(frozen=True, slots=True)
class Network:
    """A network of a symbol file.

    Attributes:
        release: The newest release that has this definition.
        script: Path below the folder of examples.
        network: Name of the net that SSD's factory builds; empty for the file's own.
        definition: Fingerprint of the code, without its comments.
    """

    release: str
    script: str
    network: str
    definition: str

    @property
    def name(self) -> str:
        """The module's name."""
        return self.script.rpartition("/")[2].removesuffix(".py")

    @property
    def is_half(self) -> bool:
        """Whether it computes in 16 bits, which MXNet does on GPUs only."""
        return self.name.endswith("fp16")


def networks(folders: dict[str, Path]) -> list[Network]:
    """Return each different network of some releases, from folders by the release's number."""
    newest: dict[tuple[str, str, str], Network] = {}
    for release in sorted(folders, key=lambda name: [int(part) for part in name.split(".")]):
        folder = folders[release]
        for path, network, definition in _definitions(folder / "example"):
            script = path.relative_to(folder / "example").as_posix()
            newest[script, network, definition] = Network(release, script, network, definition)
    return sorted(newest.values(), key=lambda one: (one.script, one.network, one.release))


def _definitions(example: Path) -> Iterator[tuple[Path, str, str]]:
    files = [path for place in PLACES for path in sorted((example / place).rglob("symbol*/*.py"))]
    builds = [
        path for path in files if "def get_symbol(" in path.read_text(encoding="utf-8", errors="replace")
    ]
    for path in builds:
        if path.stem == FACTORY:
            parts = [path.with_stem(name) for name in (FACTORY, BUILDER, "common")]
            for network in FACTORY_NETS:
                own = path.with_stem(network.removesuffix("50"))
                yield path, network, _fingerprint([*parts, own])
        elif path.stem != BUILDER:
            yield path, "", _fingerprint([path])


def _fingerprint(files: Iterable[Path]) -> str:
    """Return a fingerprint of code, whatever its comments and docstrings."""
    digest = hashlib.sha256()
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        try:
            tree = ast.parse(text)
        except SyntaxError:  # Python 2
            digest.update(text.encode())
            continue
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                node.body = body[1:] if isinstance(body[0].value, ast.Constant) else body  # type: ignore[attr-defined]  # it has one
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def settings(one: Network, *, package: str, folder: Path, out: Path, widen: bool) -> str:
    """Return what ``compat/network_step.py`` needs to run a network, as JSON.

    Args:
        one: The network.
        package: The package that it runs on.
        folder: Where its file is.
        out: Where the numbers go.
        widen: Whether what it casts to 16 bits is computed in 64.
    """
    return json.dumps(
        {
            "package": package,
            "folder": str(folder),
            "module": one.name,
            "network": one.network,
            "size": SIZES.get(one.name, 96),
            "batch": 1 if one.script.startswith("ssd/") else 2,
            "layers": LAYERS.get(one.name, 18),
            "out": str(out),
            "widen": widen,
            "kind": "float32" if one.is_half and not widen else "float64",
        }
    )


def compared(ours: Path, theirs: Path) -> str:
    """Return ``agrees`` with the differences of outputs and of gradients, or what differs.

    Outputs are compared by their largest difference, relative to the largest number; all gradients together
    by the root of the sum of the squares.
    """
    one, other = np.load(ours), np.load(theirs)
    if set(one.files) != set(other.files):
        return f"other arrays: {sorted(set(one.files) ^ set(other.files))[:4]}"
    worst, apart, whole = 0.0, 0.0, 0.0
    for name in one.files:
        mine, reference = (arrays[name].astype(np.float64) for arrays in (one, other))
        if mine.shape != reference.shape:
            return f"{name}: shape {mine.shape}, MXNet's {reference.shape}"
        if name.startswith("shape ") and (mine != reference).any():
            return f"{name}: {tuple(mine)}, MXNet's {tuple(reference)}"
        if not (np.isfinite(mine).all() and np.isfinite(reference).all()):
            return f"{name}: not all numbers are finite, so that differences cannot be told"
        if name.startswith("output "):
            worst = max(worst, float(np.abs(mine - reference).max() / max(np.abs(reference).max(), 1e-12)))
        if name.startswith("gradient "):
            apart, whole = apart + float(((mine - reference) ** 2).sum()), whole + float((reference**2).sum())
    gradients = (apart / whole) ** 0.5 if whole else 0.0
    verdict = "agrees" if worst < MOST and gradients < MOST else "differs"
    return f"{verdict} in 64 bits: outputs {worst:.1e}, gradients {gradients:.1e}"


MOST = 1e-6
"""So much may outputs and gradients differ."""
