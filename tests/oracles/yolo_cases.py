"""Heads of YOLO by themselves: what stands in their sections, and sizes."""

from __future__ import annotations

from dataclasses import dataclass

THRESHOLD = 0.3
"""Boxes and classes that are less likely are none."""


@dataclass(frozen=True)
class Case:
    """A head behind a convolution of one by one.

    Attributes:
        kind: ``yolo`` or ``region``.
        settings: Of its section.
        anchors: Number of boxes of a cell.
        overlap: Largest overlap of boxes of one class that stay.
    """

    kind: str
    settings: str
    anchors: int
    overlap: float = 0.4
    classes: int = 3

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sizes of the head: 6 by 5 cells."""
        return (1, self.anchors * (5 + self.classes), 5, 6)

    def text(self, more: str = "") -> str:
        """Return the net."""
        _, channels, height, width = self.shape
        return (
            f"[net]\nwidth={width}\nheight={height}\nchannels={channels}\n"
            f"[convolutional]\nfilters={channels}\nsize=1\nstride=1\nactivation=linear\n"
            f"[{self.kind}]\nclasses={self.classes}\n{self.settings}\n{more}\n"
        )


CASES = {
    "yolo": Case("yolo", "mask=1,2\nanchors=1,2, 2,2, 3,1.5\nnum=3", 2),
    "yolo-overlap": Case("yolo", "mask=0\nanchors=3,3\nnum=1", 1, overlap=0.1),
    "yolo-stretched": Case("yolo", "mask=0,1\nanchors=1,2, 2,2\nnum=2\nscale_x_y=1.2", 2),
    "yolo-new": Case("yolo", "mask=0,1\nanchors=1,2, 2,2\nnum=2\nscale_x_y=2\nnew_coords=1", 2),
    "region": Case("region", "anchors=1,1, 2,1.5\nnum=2\nsoftmax=1\ncoords=4", 2),
}
