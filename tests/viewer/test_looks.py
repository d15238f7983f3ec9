"""The page and Python name the same verdicts and statuses, with the same marks."""

from __future__ import annotations

import re
from pathlib import Path

from netweave.comparison import Status, Verdict

FRONT_END = Path(__file__).parents[2] / "frontend" / "src"
LOOKS = (FRONT_END / "viewer" / "model" / "looks.ts").read_text(encoding="utf-8")
VIEWER_STYLE = (FRONT_END / "viewer" / "viewer.css").read_text(encoding="utf-8")
WEB_STYLE = (FRONT_END / "web" / "web.css").read_text(encoding="utf-8")


def table(name: str) -> str:
    """The rows of a table of ``looks.ts``."""
    return LOOKS.split(f"export const {name}")[1].split("\n};")[0]


def test_every_verdict_has_a_colour_on_the_page_and_in_the_workbench():
    """Marks and words come with the document, and with the help page, from Python's own list."""
    for verdict in Verdict:
        assert f'[data-verdict="{verdict.key}"]' in VIEWER_STYLE
        assert f'.verdict[data-verdict="{verdict.key}"]' in WEB_STYLE


def test_a_document_brings_the_verdicts_along(port):
    from netweave.viewer import comparison_document

    document = comparison_document(port)
    assert [row["words"] for row in document["verdicts"]] == [verdict.value for verdict in Verdict]
    marks = {row["mark"] for row in document["verdicts"]}
    assert len(marks) == len(Verdict)


def test_every_status_of_a_group_has_a_look_and_a_colour():
    for status in Status:
        assert re.search(rf"\b{status.name}: look\(", table("LOOKS")), status
        assert f'[data-status="{status.name}"]' in VIEWER_STYLE


def test_a_verdict_has_one_colour_on_the_page_and_in_the_workbench():
    def colours(style: str, name: str) -> list[str]:
        return re.findall(rf"--{name}: (#[0-9a-f]+);", style)

    for suffix in ("", "-soft"):
        ours, theirs = (
            colours(VIEWER_STYLE, f"nw-structure{suffix}"),
            colours(WEB_STYLE, f"structure{suffix}"),
        )
        assert ours == theirs
        assert len(ours) == 2  # in light and in dark
