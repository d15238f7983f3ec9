"""The nets that come with Chainer compute what Chainer 7.8.1 computes, with weights that it drew."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import netweave

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "tests" / "formats" / "chainer" / "nets" / "zoo.py"
NETS = ("VGG16", "GoogLeNet", "ResNet50", "FineTuned", "ResNeXt50")
SIDE = 224


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_a_net_computes_what_chainer_computes(name, tmp_path):
    """NETWEAVE_ORACLES names an environment with Chainer."""
    oracles = os.environ.get("NETWEAVE_ORACLES")
    if not oracles:
        pytest.skip("NETWEAVE_ORACLES names no environment with Chainer")
    sizes = f"1x3x{SIDE}x{SIDE}"
    script = [
        f"{oracles}/bin/python",
        "-m",
        "tests.oracles.chainer_models",
        str(ZOO),
        name,
        sizes,
        str(tmp_path),
    ]
    subprocess.run(script, check=True, capture_output=True, cwd=ROOT, timeout=900)
    golden = np.load(tmp_path / f"{name}-made.npz")
    shapes = {"x": (1, 3, SIDE, SIDE)}
    net = netweave.load(f"{ZOO}:{name}", tmp_path / f"{name}.npz", trust=True, input_shapes=shapes)
    found = list(netweave.run(net, {"x": golden["x"]}).values())
    assert len(golden.files) == 1 + len(found)
    for number, made in enumerate(found):
        wanted = golden[f"y{number}"]
        rms = float(np.sqrt(np.mean(np.square(wanted))))
        np.testing.assert_allclose(made, wanted, atol=1e-4 * rms)
