"""Hooks of the build: wheels hold the built pages, and the description has no link into the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = "src/netweave/viewer/static/viewer.js"


class PagesBuildHook(BuildHookInterface):
    """Builds the pages of the viewer where they are missing, or says what to do."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make sure that a wheel has the pages; an editable installation can get them later."""
        root = Path(self.root)
        if version == "editable" or (root / PAGES).is_file():
            return
        if shutil.which("npm") is None:
            raise RuntimeError(
                f"{PAGES} is missing: a wheel holds the pages of --html and of the workbench, which are not "
                "built. Install Node 20 or newer with npm and try again (it builds them), or run "
                "'pip install --editable .', which works without the pages"
            )
        subprocess.run([root / "tools" / "frontend"], check=True)


class DescriptionHook(MetadataHookInterface):
    """Makes the description of the package from the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}


def description(readme: str) -> str:
    r"""Return a README as a page elsewhere: no pictures, and no links to files of the repository.

    >>> description("![A page](docs/a.png)\\n\\nSee [the tutorial](docs/tutorial.md), [ONNX](https://onnx.ai).")
    'See the tutorial, [ONNX](https://onnx.ai).'
    """
    without_pictures = re.sub(r"^!\[[^]]*\]\([^)]*\)\n+", "", readme, flags=re.MULTILINE)
    without_comments = re.sub(r"^<!--.*?-->\n", "", without_pictures, flags=re.MULTILINE)
    return re.sub(r"\[([^]]*)\]\((?!https?://)[^)]*\)", r"\1", without_comments)
