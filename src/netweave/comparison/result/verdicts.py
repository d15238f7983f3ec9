"""The verdicts: what each is called, its mark, its colour, and the exit status of a command that finds it.

This is the only list of them. Text, JSON, HTML, the pages and the exit status take everything from here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypedDict


@dataclass(frozen=True, slots=True)
class Look:
    """Appearance of a verdict.

    Attributes:
        words: What a person reads; a comparison's sentence begins with it where it can.
        mark: The sign that stands for it wherever verdicts are shown, so that none is told by colour alone.
        colour: Name of its colour, another one for each verdict.
        exit_status: Of a command that finds it; 2 is for files that cannot be read.
        meaning: What it says, in a sentence.
    """

    words: str
    mark: str
    colour: str
    exit_status: int
    meaning: str


class VerdictJson(TypedDict):
    """A verdict as the pages know it."""

    words: str
    mark: str
    key: str
    meaning: str


class Verdict(enum.Enum):
    """The result for the whole pair; the value is the text that a person reads."""

    IDENTICAL = "identical"
    EQUAL = "equal under a mapping"
    LATENT = "equal for these weights and inputs"
    STRUCTURE = "same structure, weights not compared"
    DIFFERENT = "different"
    UNDECIDED = "not decidable"

    @property
    def look(self) -> Look:
        """Its appearance."""
        return _LOOKS[self]

    @property
    def key(self) -> str:
        """Its name in style sheets."""
        return self.name.lower()

    @property
    def mark(self) -> str:
        """The sign that stands for it wherever verdicts are shown."""
        return self.look.mark

    @property
    def exit_status(self) -> int:
        """The exit status of a command that finds it; 2 is for files that cannot be read."""
        return self.look.exit_status

    def to_json(self) -> VerdictJson:
        """Return what the pages need to show it."""
        return {"words": self.value, "mark": self.mark, "key": self.key, "meaning": self.look.meaning}


_ROWS = (
    Look(
        Verdict.IDENTICAL.value,
        "=",
        "green",
        0,
        "The outputs agree to within rounding on every input that was tried. Each layer is written alike in "
        "both nets, or was tested on inputs aimed at what it decides by.",
    ),
    Look(
        Verdict.EQUAL.value,
        "≅",
        "teal",
        0,
        "The outputs agree after a mapping of inputs or outputs, such as swapping height and width or red "
        "and blue, or within what the precision of one net can hold, such as float16 or int8. The verdict "
        "includes the mapping or the precision.",
    ),
    Look(
        Verdict.LATENT.value,
        "≈",
        "orange",
        0,
        "The outputs agree, but a setting, operator or constant differs that has no effect with these "
        "weights and inputs, or that these did not exercise; with others it may have one.",
    ),
    # a status of its own (decision 0126): a job that asks for equality must not pass on it
    Look(
        Verdict.STRUCTURE.value,
        "≟",
        "blue",
        4,
        "One net lacks some or all of its weights. The outputs agree with weights copied from the other net, "
        "but the weights themselves were not compared.",
    ),
    Look(
        Verdict.DIFFERENT.value,
        "≠",
        "red",
        1,
        "The outputs differ. Layers that are wrong are told apart from layers that only propagate an earlier "
        "difference.",
    ),
    Look(
        Verdict.UNDECIDED.value,
        "?",
        "yellow",
        3,
        "The two nets cannot be run on the same inputs, or what was found says nothing; the verdict includes "
        "the reason.",
    ),
)

_LOOKS = {Verdict(row.words): row for row in _ROWS}
