"""Boxes drawn by the rule of the oracles, for them and the tests: labels, and detections near to them."""

from __future__ import annotations

import numpy as np

from tests.oracles import recipe

CASES = {"few": (3, 5, 1), "many": (8, 9, 3), "crowded": (2, 30, 2)}
"""Images, boxes of an image, and classes."""


def drawn(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (image, class, difficult, corners) and detections (image, class, score, corners)."""
    images, boxes, classes = CASES[name]
    unit = recipe.uniform(f"boxes {name}", (images * boxes, 8)).astype(np.float64) / np.sqrt(3)
    image = np.repeat(np.arange(images), boxes)
    label = np.floor((unit[:, 0] + 1) / 2 * classes).clip(0, classes - 1)
    low = np.round((unit[:, 1:3] + 1) * 30)
    corners = np.concatenate([low, low + 10 + np.round((unit[:, 3:5] + 1) * 15)], axis=1)
    truth = np.column_stack([image, label, unit[:, 5] > 0.7, corners])
    moved = corners + np.round(recipe.uniform(f"moves {name}", corners.shape) * 2)
    again = corners + np.round(recipe.uniform(f"again {name}", corners.shape) * 3)
    scores = (recipe.uniform(f"scores {name}", (2 * len(truth),)).astype(np.float64) / np.sqrt(3) + 1) / 2
    found = np.column_stack([np.tile(image, 2), np.tile(label, 2), scores, np.concatenate([moved, again])])
    return truth, found[unit[:, 6].repeat(2) > -0.8]
