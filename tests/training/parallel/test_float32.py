"""In float32, ranks differ from one process as one process differs from exact arithmetic: by rounding alone.

In float64 they end where one process ends, to 1e-12, so that nothing else is left. LeNet's maxima and ReLUs
have steps in their derivative: where two elements of a window are equal but for rounding, float32 chooses one
and float64 the other, and from then on the two differ by far more than a rounding, with one process too.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")

from netweave.api.training import load_job  # noqa: E402 - after the checks for packages
from netweave.runtime.backends.torch import TorchNet  # noqa: E402
from netweave.training.parallel.plan import EXCHANGES  # noqa: E402
from tests.training.parallel import nets  # noqa: E402
from tests.training.parallel.ranks import Case, alone, run  # noqa: E402

pytestmark = [pytest.mark.multi, pytest.mark.slow]

NETS = ("mlp", "smooth", "lenet")
SLICES = {"mlp": 128, "smooth": 4096, "lenet": 4096}


def case(net, exchange, dtype):
    return Case(f"{net}-{exchange}-{dtype}", net, exchange, dtype=dtype, slice_elements=SLICES[net])


CASES = [
    case(net, exchange, dtype) for net in NETS for exchange in EXCHANGES for dtype in ("float32", "float64")
]


@pytest.fixture(scope="module", params=(1, 2, 3, 4))
def results(request, tmp_path_factory):
    return run(tmp_path_factory.mktemp(f"ranks{request.param}"), CASES, request.param), request.param


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    return cache(lambda net, dtype: alone(folder, case(net, "overlapped", dtype)))


def largest_difference(a, b):
    return max(np.abs(a[key].astype(np.float64) - b[key]).max() for key in a if key != "losses")


@pytest.mark.parametrize("net", NETS)
def test_float64_ranks_end_as_one_process(results, one_process, net):
    found, size = results
    for exchange in EXCHANGES:
        difference = largest_difference(found[f"{net}-{exchange}-float64"], one_process(net, "float64"))
        assert difference == 0 if size == 1 else difference < 1e-12, exchange


@pytest.mark.parametrize("net", ["mlp", "smooth"])
def test_float32_ranks_end_as_one_process_to_a_millionth(results, one_process, net):
    """20 steps with momentum, uneven parts on three ranks; one rank alone goes through the exchange too."""
    found, size = results
    for exchange in EXCHANGES:
        difference = largest_difference(found[f"{net}-{exchange}-float32"], one_process(net, "float32"))
        assert difference == 0 if size == 1 else difference < 1e-6, exchange


def test_float32_ranks_are_as_near_to_exact_arithmetic_as_one_process(results, one_process):
    """LeNet with its steps: twice the distance of one process is allowed, and no more."""
    found, _ = results
    exact = one_process("lenet", "float64")
    own = largest_difference(one_process("lenet", "float32"), exact)
    for exchange in EXCHANGES:
        difference = largest_difference(found[f"lenet-{exchange}-float32"], exact)
        assert difference <= max(1e-6, 2 * own), exchange


def accuracy_of(folder, arrays):
    job = load_job(nets.write(folder, "lenet", steps=1))
    net = TorchNet(job.phases["train"].graph).eval()
    for key in net.params:
        net.params[key] = torch.from_numpy(arrays[key])
    records = {key: torch.from_numpy(array).float() for key, array in nets.records("lenet").items()}
    with torch.no_grad():
        return float(net(**records)["accuracy"])


@pytest.mark.parametrize("size", [2, 3])
def test_compressed_gradients_reach_the_same_accuracy(tmp_path, size):
    """Digits after 16 epochs; 2-bit codes stand for 0.005, what they leave out is sent later.

    Without momentum: with 0.9, what is sent later goes on for ten updates more, and 2-bit codes reach 73 % in
    300 updates where whole gradients reach 99 %, at any threshold.
    """
    kinds = ("none", "fp16", "bf16", "2bit")
    settings = {"steps": 900, "dtype": "float32", "slice_elements": 4096, "momentum": 0.0}
    settings["base_lr"] = 0.1
    cases = [
        Case(kind, "lenet", compression=kind, threshold=0.005 if kind == "2bit" else None, **settings)
        for kind in kinds
    ]
    found = run(tmp_path, cases, size)
    reached = {kind: accuracy_of(tmp_path / "net", found[kind]) for kind in kinds}
    assert reached["none"] > 0.97
    for kind in kinds[1:]:
        assert reached[kind] > reached["none"] - 0.01, reached
        assert largest_difference(found[kind], found["none"]) > 1e-5
