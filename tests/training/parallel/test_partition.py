"""Nets that are cut by layer across ranks, or are pipelines of them, end where one process ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.training.parallel import nets
from tests.training.parallel.ranks import Case, alone, run

pytestmark = [pytest.mark.multi, pytest.mark.slow]

CONVOLUTIONS = "conv1 pool1 conv2 pool2"
DENSE = "ip1 act out"
RESIDUAL = "conv1 bn1 bn1_scale bn1_relu conv2 bn2 bn2_scale bn2_relu sum drop pool out"


def feature(names: str) -> str:
    return " ".join(f"{name}=feature" for name in names.split())


IMAGES = "conv1 bn1 bn1_scale bn1_relu conv2 bn2 bn2_scale bn2_relu sum drop"


def by(how: str, names: str) -> str:
    return " ".join(f"{name}={how}" for name in names.split())


CASES = [
    Case("rows-lenet", "lenet", cuts=f"{by('rows', 'conv1 pool1 conv2')} {feature(DENSE)}"),
    Case("columns-grouped", "grouped", cuts=by("columns", "conv1 relu1 norm1 pool1 conv2")),
    Case("rows-residual", "resnet", cuts=by("rows", IMAGES), exchange="owner", stages=4),
    Case("tiles-residual", "resnet", cuts=by("{grid}", IMAGES)),
    Case("rows-mixed", "resnet", cuts=f"conv1=columns bn1=1 {by('rows', 'bn1_scale conv2 bn2 sum')} out=0"),
    Case("mlp", cuts=feature("ip1 relu out"), stages=2),
    Case("mlp-owner", cuts=feature("ip1"), exchange="owner"),
    Case("mlp-located", cuts="ip1=1 relu=0 out=feature loss=0"),
    Case("clipped", cuts=feature("ip1 relu"), solver=nets.CLIPPED),
    Case("lenet", "lenet", cuts=feature(f"{CONVOLUTIONS} {DENSE}")),
    Case("hybrid", "lenet", cuts=feature(DENSE), exchange="prioritised"),
    Case("located", "lenet", cuts=f"conv1=1 pool1=1 {feature('conv2')} pool2=0 ip1=0 act=0"),
    Case("grouped", "grouped", cuts=feature("conv1 relu1 norm1 pool1 conv2 out")),
    Case("residual", "resnet", cuts=feature(RESIDUAL)),
    Case("mixed", "resnet", cuts="conv1=feature bn1=1 bn1_scale=1 bn2=feature drop=feature out=0"),
    Case("first", "resnet", steps=7, snapshot=7, cuts=feature(RESIDUAL), folder="resumed"),
    Case(
        "second",
        "resnet",
        cuts="conv1=1 bn1=feature out=0",
        resume="kept_iter_7.checkpoint",
        folder="resumed",
    ),
    Case("clipped-located", "lenet", cuts="conv1=1 out=0", solver=nets.CLIPPED),
    Case("foreign", "resnet", resume="kept_iter_7.solverstate", folder="resumed"),
    Case("batch", "resnet", resume="kept_iter_7.checkpoint", folder="resumed"),
]

SKIPS = {2: "conv1=0 conv2=1", 3: "conv1=0 conv2=1 sum=2", 4: "conv1=0 conv2=1 conv3=2 sum=3"}
"""Stages of a net whose connections skip one, or two."""

LAYERS = {2: "ip1=0 out=1", 3: "ip1=0 relu=1 out=2", 4: "ip1=0 relu=1 out=2 loss=3"}
"""Stages of a net of three layers, one of which has no parameters."""

NORMALISED = {2: "conv1=0 bn2=1", 3: "conv1=0 bn2=1 out=2", 4: "conv1=0 bn1=1 bn2=2 out=3"}


def pipelines(size):
    """Return trainings of pipelines of so many ranks."""
    skips = SKIPS[size]
    clipped = (
        "conv1=0 pool1=1 conv2=2" if size == 3 else ""
    )  # a stage without parameters, as 4 stages have one anyway
    resumed = {"folder": "pipeline", "micro_batches": 4}
    return [
        Case("p-mlp", micro_batches=1, cuts=LAYERS[size]),
        Case("p-lenet", "lenet", micro_batches=8),
        Case("p-clipped", "lenet", micro_batches=4, pipeline="gpipe", solver=nets.CLIPPED, cuts=clipped),
        Case("p-ignored", "ignored", micro_batches=5, cuts=LAYERS[size]),
        Case("p-skips", "skips", micro_batches=8, cuts=skips),
        Case("p-skips-gpipe", "skips", micro_batches=2, cuts=skips, pipeline="gpipe"),
        Case("p-normalised", "resnet", micro_batches=5, cuts=NORMALISED[size]),
        Case("p-first", "skips", steps=7, snapshot=7, cuts=skips, **resumed),
        Case("p-second", "skips", resume="kept_iter_7.checkpoint", **resumed),
        Case(
            "p-cut", "skips", cuts="conv2=feature out=0", resume="kept_iter_7.checkpoint", folder="pipeline"
        ),
    ]


SIZES = [pytest.param(2, marks=pytest.mark.exhaustive), 3, pytest.param(4, marks=pytest.mark.exhaustive)]


@pytest.fixture(scope="module", params=SIZES)
def results(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"ranks{request.param}")
    grid = {2: "1x2", 3: "3x1", 4: "2x2"}[request.param]
    cases = [replace(case, cuts=case.cuts.format(grid=grid)) for case in CASES]
    cases += pipelines(request.param)
    return run(folder, cases, request.param), folder, request.param


def difference(found, expected):
    assert found.keys() == expected.keys()
    return max(np.abs(found[key] - expected[key]).max() for key in found if found[key].size)


ENDING = [case for case in CASES if case.folder != "resumed"]


@pytest.mark.parametrize("case", ENDING, ids=lambda case: case.name)
def test_ranks_end_as_one_process(results, case):
    found, folder, _ = results
    expected = alone(folder / "alone", Case(case.name, case.net, solver=case.solver))
    assert difference(found[case.name], expected) < 1e-12


@pytest.mark.parametrize("name", ["second", "batch"])
def test_any_cut_resumes_the_checkpoint_of_another(results, name):
    found, folder, _ = results
    expected = alone(folder / "alone", Case("resnet", "resnet"))
    expected["losses"] = expected["losses"][7:]
    assert difference(found[name], expected) < 1e-12


def test_the_files_of_caffe_that_a_cut_run_writes_are_whole(results):
    """They hold numbers in single precision."""
    found, folder, _ = results
    expected = alone(folder / "alone", Case("resnet", "resnet"))
    expected["losses"] = expected["losses"][7:]
    assert difference(found["foreign"], expected) < 1e-5


@pytest.mark.parametrize("case", pipelines(3)[:7], ids=lambda case: case.name)
def test_a_pipeline_ends_as_one_process(results, case):
    """Micro-batches are normalised one by one, as in a process that accumulates batches of their size."""
    found, folder, _ = results
    batches = case.micro_batches if case.name == "p-normalised" else 1
    expected = alone(folder / "alone", Case(case.name, case.net, solver=case.solver, batches=batches))
    assert difference(found[case.name], expected) < 1e-12
    assert np.ptp(expected["losses"]) > 0.1


@pytest.mark.parametrize("name", ["p-second", "p-cut"])
def test_any_stages_or_cut_resume_the_checkpoint_of_others(results, name):
    found, folder, _ = results
    expected = alone(folder / "alone", Case("skips", "skips"))
    expected["losses"] = expected["losses"][7:]
    assert difference(found[name], expected) < 1e-12
