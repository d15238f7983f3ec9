"""Pages of the viewer in a real browser: Debian's chromium."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import netweave
from examples.padding import demo
from netweave.graph import Graph
from netweave.viewer import comparison_page, net_page
from tests.viewer import nets

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="session")
def front_end():
    """The front end, built from its sources."""
    if shutil.which("npm") is None:
        pytest.skip("the front end needs Node 20 to be built")
    subprocess.run([ROOT / "tools" / "frontend"], check=True, capture_output=True)


@dataclass
class Shown:
    """A page that is open, with what went wrong on it."""

    page: object
    url: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def selected(self) -> list[str]:
        """Names in the head of the details, A's before B's."""
        return self.page.locator(".nw-inspector .nw-title h2").all_inner_texts()

    @property
    def num_boxes(self) -> int:
        return int(self.page.locator(".nw-viewer").get_attribute("data-boxes"))

    def saved(self, button: str) -> bytes:
        """Press a button that saves a file, and return the file."""
        with self.page.expect_download() as download:
            self.view(button)
        return Path(download.value.path()).read_bytes()

    def view(self, button: str) -> None:
        """Press a button of the menu View."""
        self.page.locator(".nw-menu > summary").click()
        self.page.get_by_role("button", name=button).click()
        self.page.locator(".nw-menu > summary").click()

    def heat(self, *chosen: str, **by: str) -> None:
        """Choose a measure in the menu View."""
        self.page.locator(".nw-menu > summary").click()
        self.page.get_by_label("Heat map of the layers").select_option(*chosen, **by)
        self.page.locator(".nw-menu > summary").click()

    def svg(self) -> ET.Element:
        return ET.fromstring(self.saved("Save as SVG"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(120)


@pytest.fixture
def show(front_end, chromium, tmp_path):
    """Open a net or a comparison as one file, in a window of 1280 by 720 unless another is asked for."""
    contexts = []

    def show(shown, *, hash_="", dark=False, viewport=(1280, 720)) -> Shown:
        file = tmp_path / f"page{len(contexts)}.html"
        html = net_page(shown) if isinstance(shown, Graph) else comparison_page(shown)
        file.write_text(html, encoding="utf-8")
        scheme = "dark" if dark else "light"
        size = dict(zip(("width", "height"), viewport, strict=True))
        context = chromium.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(
            "addEventListener('netweave-shown', (event) => { window.app = event.detail; }, true)"
        )
        opened = Shown(page, f"{file.as_uri()}")
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("console", lambda m: opened.errors.append(m.text) if m.type == "error" else None)
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(opened.url + hash_)
        page.wait_for_selector(".nw-viewer[data-state=shown]", timeout=20_000)
        return opened

    yield show
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """A folder with the example of the repository, and its net with three mistakes."""
    folder = tmp_path_factory.mktemp("example")
    nets.write_example(folder)
    nets.write_faulty(folder)
    return folder


@pytest.fixture(scope="session")
def port(example):
    """The example of the repository, compared."""
    return netweave.compare(example / demo.NET.name, example / demo.PORT.name)


@pytest.fixture(scope="session")
def faulty(example):
    """The example's net and the same with three mistakes, compared."""
    return netweave.compare(example / demo.NET.name, example / "faulty.prototxt")


@pytest.fixture(scope="session")
def residual_pair():
    """A net of blocks in blocks against itself."""
    return nets.compared(nets.residual(), nets.residual(), {})
