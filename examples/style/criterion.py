"""Whether a picture has another one's style and still its content, by filters that no net has learnt.

The net that a picture is drawn with can be deceived: its distances fall while the picture shows nothing.
These numbers come from the picture alone, so that a drawing has to look right to pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

CONTENT = 0.3
"""Correlation with the edges of the content, at least."""

COPIED = 0.3
"""Correlation with the edges of the style, at most: its manner is wanted, not what it shows."""

STROKES = 0.15
"""Distance to the strokes of the style, at most: the rms over all numbers of ``strokes``."""

COLORS = 0.2
"""Distance to the colours of the style, at most, in parts of the content's own distance."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a drawing looks like.

    Attributes:
        content: Correlation of its edges with those of the content, place by place, from -1 to 1.
        copied: The same with the edges of the style.
        strokes: Its distance to the strokes of the style.
        colors: Its distance to the colours of the style, in parts of the distance that the content has.
    """

    content: float
    copied: float
    strokes: float
    colors: float

    @property
    def passed(self) -> bool:
        """Whether it shows the content in the style."""
        return (
            self.content >= CONTENT
            and self.copied <= COPIED
            and self.strokes <= STROKES
            and self.colors <= COLORS
        )

    def __str__(self) -> str:
        return (
            f"edges of the content {self.content:.2f} (at least {CONTENT}), of the style {self.copied:.2f} "
            f"(at most {COPIED}); distance to its strokes {self.strokes:.2f} (at most {STROKES}), to its "
            f"colours {self.colors:.2f} (at most {COLORS})"
        )


def judge(drawn: np.ndarray, content: np.ndarray, style: np.ndarray) -> Verdict:
    """Return what a drawing looks like; pictures are (height, width, 3), in 0 to 1."""
    height, width = drawn.shape[:2]
    return Verdict(
        content=_correlation(edges(drawn), edges(content)),
        copied=_correlation(edges(drawn), edges(cv2.resize(style, (width, height)))),
        strokes=float(np.sqrt(np.square(strokes(drawn) - strokes(style)).mean())),
        colors=_distance(colors(drawn), colors(style)) / _distance(colors(content), colors(style)),
    )


def edges(picture: np.ndarray) -> np.ndarray:
    """Return where brightness changes, over about four pixels: what a line drawing would show."""
    gray = cv2.GaussianBlur(cv2.cvtColor(picture.astype(np.float32), cv2.COLOR_RGB2GRAY), (0, 0), 2)
    return np.hypot(cv2.Sobel(gray, cv2.CV_32F, 1, 0), cv2.Sobel(gray, cv2.CV_32F, 0, 1))


def strokes(picture: np.ndarray) -> np.ndarray:
    """Return how strong bars of four directions and three widths are, and which go together.

    Strengths are logarithms, so that a faint hatching counts as much as a few strong lines; each width is
    twice the one before (a pyramid).
    """
    level, rows = picture.astype(np.float32).mean(2), []
    for _ in range(3):
        bars = np.stack([cv2.filter2D(level, cv2.CV_32F, kernel).ravel() for kernel in _bars()])
        energies = (bars @ bars.T / bars.shape[1]).astype(np.float64) + 1e-6 * np.eye(4)
        sizes = np.sqrt(np.diag(energies))
        rows += [np.log(sizes), (energies / np.outer(sizes, sizes))[np.triu_indices(4, 1)]]
        level = cv2.pyrDown(level)
    return np.concatenate(rows)


def colors(picture: np.ndarray) -> np.ndarray:
    """Return the mean colour, and by how much colours differ from it along their three main directions."""
    pixels = picture.reshape(-1, 3).astype(np.float64)
    return np.concatenate([pixels.mean(0), np.sqrt(np.linalg.eigvalsh(np.cov(pixels.T)).clip(0))])


def _bars() -> list[np.ndarray]:
    """Return second derivatives of a Gaussian, in four directions."""
    y, x = np.mgrid[-4:5, -4:5].astype(np.float32)
    kernels = []
    for angle in (0, 45, 90, 135):
        u = x * np.cos(np.deg2rad(angle)) + y * np.sin(np.deg2rad(angle))
        kernel = (u**2 / 2.25 - 1) * np.exp(-(x**2 + y**2) / 4.5)
        kernels.append((kernel - kernel.mean()) / np.abs(kernel).sum())
    return kernels


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return a correlation; 0 where one of the two is the same everywhere."""
    a, b = a - a.mean(), b - b.mean()
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float((a * b).sum()) / lengths if lengths > 1e-9 * a.size else 0.0
