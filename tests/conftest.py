"""Shared fixtures: where the corpus of real nets lies; how property tests run."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from pathlib import Path

import hypothesis
import pytest

from benchmarks.hostile.zygote import forked_programs
from netweave.files import hdf5
from netweave.formats.chainer.reader import CHILD as CHAINER_CHILD
from netweave.formats.jax.reader import CHILD as JAX_CHILD
from netweave.formats.keras.code import CHILD as KERAS_CHILD
from netweave.formats.pytorch.reader import CHILD
from netweave.runtime.engine.malloc import M_MMAP_MAX, M_TRIM_THRESHOLD, set_malloc
from tests.warm_children import FORKS, forked_children

# How long an example takes is a matter of the machine and of what else it does. Examples are the same in
# every run, so that a test fails because of a change and of nothing else; new ones are looked for with
# `tools/test --hypothesis-profile=explore`.
hypothesis.settings.register_profile("netweave", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("netweave")


@pytest.fixture(scope="session", autouse=True)
def own_register(tmp_path_factory):
    """Keep the jobs that tests train out of the user's register."""
    folder = tmp_path_factory.mktemp("jobs")
    os.environ["NETWEAVE_JOBS"] = str(folder)
    yield folder
    del os.environ["NETWEAVE_JOBS"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Read the code of each test anew, and leave the user's cache of readings alone."""
    folder = tmp_path_factory.getbasetemp() / f"cache-{uuid.uuid4().hex}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def first_child():
    """Fork the children that read code of PyTorch or Keras from one that has imported it.

    Imported in this fixture, the readers would look for packages that are not here, on behalf of every test
    (tests/alike.py).
    """
    with forked_children(CHILD, KERAS_CHILD, JAX_CHILD, CHAINER_CHILD):
        yield


@pytest.fixture(scope="session", autouse=True)
def first_hdf5_program():
    """Fork the programs that read HDF5 from one that has imported h5py; yield what turns that on or off."""
    with forked_programs(hdf5) as (_, announce):
        yield announce


@pytest.fixture(autouse=True)
def own_child(request, monkeypatch, first_hdf5_program):
    """Start a real child where a test is about its guard or its limits."""
    is_guarded = request.node.get_closest_marker("guarded") is not None
    is_here = sys.platform == "linux" and "FRESH_CHILDREN" not in os.environ
    monkeypatch.setattr(FORKS, "are_on", is_here and not is_guarded)
    first_hdf5_program(int(is_here and not is_guarded))


@pytest.fixture(scope="module")
def memory_kept():
    """Use freed memory again, in a module of large nets: the system clears each page that is asked for anew.

    Of 240 MB of weights there are several copies, and three quarters of the time were the system's.
    """
    set_malloc({M_MMAP_MAX: 0, M_TRIM_THRESHOLD: -1})
    yield
    set_malloc({M_MMAP_MAX: 65_536, M_TRIM_THRESHOLD: 128 << 10})  # glibc's own


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real nets, named by ``NETWEAVE_CORPUS``; tests that need it are skipped without."""
    folder = os.environ.get("NETWEAVE_CORPUS")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the corpus is not here: set NETWEAVE_CORPUS to its folder")
    return Path(folder)


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests, since a process can start Playwright only once."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs the browser chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    switches = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=switches)
        yield browser
        browser.close()
