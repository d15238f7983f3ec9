"""The index of decision notes."""

from __future__ import annotations

import re
from pathlib import Path

NOTES = Path(__file__).parents[2] / "docs" / "decisions"

SUPERSEDED = re.compile(r"^\*\*Superseded\*\* by \[(\d{4})\]", re.MULTILINE)
"""The line below the title of a note that no longer holds."""

MAX_CHARACTERS = 150

HEAD = """# Decision notes

Generated from the notes. Each says in one page why something is as it is, what else was considered, and how
to undo it. A note that no longer holds is kept, and names the one that supersedes it in a line below its
title: `**Superseded** by [0000](...).`

"""

CHOICE = re.compile(r"^\*\*Choice\.\*\*\s+(.+?)(?=\n\s*\n|\n[-*1-9]|\n\*\*|\Z)", re.DOTALL | re.MULTILINE)
"""The first paragraph, or the first entry of the list, of what was chosen."""


def page() -> str:
    """Return the index: number, title, the first sentence of the choice, and whether it still holds."""
    rows = [_row(path) for path in sorted(NOTES.glob("[0-9]*.md"))]
    return HEAD + "\n".join(("| | decision | status |", "|---|---|---|", *rows)) + "\n"


def _row(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix(f"# {path.name[:4]} ")
    newer = SUPERSEDED.search(text)
    status = f"superseded by {newer[1]}" if newer else "accepted"
    return f"| [{path.name[:4]}]({path.name}) | **{title}.** {_choice(text)} | {status} |"


def _choice(text: str) -> str:
    """Return the first sentence of the choice, shortened."""
    choice = CHOICE.search(text)
    if choice is None:
        return ""
    words = " ".join(choice[1].split())
    words = words.removeprefix("- ")
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("|", "\\|")
    sentence = re.split(r"(?<=[.:;])\s", words)[0]
    if len(sentence) <= MAX_CHARACTERS:
        return sentence.rstrip(":;.") + "."
    shown = sentence[:MAX_CHARACTERS].rpartition(" ")[0].rstrip(",;:")
    return shown + (" ..." if shown.count("`") % 2 == 0 else "` ...")
