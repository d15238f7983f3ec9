"""Overlaps of boxes as corners, and which of them stay (``graph/ops/boxes``)."""

from __future__ import annotations

OVERLAPS = '''\
def overlaps(boxes, others):
    """Return intersection over union of boxes as corners; boxes without an area overlap nothing."""
    low = torch.maximum(boxes[..., :2], others[..., :2])
    high = torch.minimum(boxes[..., 2:], others[..., 2:])
    common = (high - low).prod(-1)
    areas = [(each[..., 2:] - each[..., :2]).clamp(min=0).prod(-1) for each in (boxes, others)]
    return torch.where((high > low).all(-1), common / (areas[0] + areas[1] - common), 0.0)
'''

SUPPRESS = '''\
def suppress(boxes, order, threshold, eta=1.0):
    """Return which boxes stay of candidates best first: those that overlap no better one by more."""
    kept, most = [], torch.zeros(len(order))
    while len(order):
        kept.append(order[:1])
        most = torch.maximum(most[1:], overlaps(boxes[order[0]], boxes[order[1:]]))
        if eta < 1 and threshold > 0.5:
            threshold *= eta
        stays = most <= threshold
        order, most = order[1:][stays], most[stays]
    return torch.cat([*kept, order])
'''

TEXTS = {"overlaps": OVERLAPS, "suppress": SUPPRESS}
