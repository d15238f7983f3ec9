"""MXNet's MultiBoxDetection and BoxNMS (``graph/ops/multibox``)."""

from __future__ import annotations

MULTIBOX_DETECTION = '''\
def multibox_detection(
    probabilities, locations, anchors, clip=True, threshold=0.01, nms_threshold=0.5,
    force_suppress=False, variances=(0.1, 0.1, 0.2, 0.2), nms_topk=-1,
):
    """Return rows of class, score and corners, best first, as MXNet does: class -1 for none."""
    size = anchors[..., 2:] - anchors[..., :2]
    deltas = locations.reshape(len(locations), -1, 4) * torch.tensor(variances)
    centre = deltas[..., :2] * size + (anchors[..., :2] + anchors[..., 2:]) / 2
    half = deltas[..., 2:].exp() * size / 2
    boxes = torch.cat([centre - half, centre + half], -1)
    boxes = boxes.clamp(0, 1) if clip else boxes
    scores, labels = probabilities[:, 1:].max(1)
    tables = torch.cat([labels[..., None].to(scores.dtype), scores[..., None], boxes], -1)
    found = torch.full_like(tables, -1)
    for table, out in zip(tables, found):
        rows = table[(table[:, 1] > -1) & (table[:, 1] >= threshold)]
        count = min(nms_topk, len(rows)) if nms_topk > 0 else len(rows)
        if 0 < nms_threshold <= 1:
            order = rows[:, 1].argsort(descending=True, stable=True)
            rows = torch.cat([rows[order[:count]], rows[count:]])
            rows[count:, 0] = -1
            for number, row in enumerate(rows[:count]):
                later = rows[number + 1 : count]
                if row[0] >= 0:
                    rivals = (later[:, 0] == row[0]) | bool(force_suppress)
                    later[rivals & (overlaps(row[2:], later[:, 2:]) >= nms_threshold), 0] = -1
        out[: len(rows)] = rows
    return found
'''

BOX_NMS = '''\
def box_nms(
    table, overlap_thresh=0.5, valid_thresh=0.0, topk=-1, coord_start=2, score_index=1, id_index=-1,
    background_id=-1, force_suppress=False, in_format="corner", out_format="corner",
):
    """Return the rows that stay, best first, as MXNet does, and rows of -1 behind them."""
    found = table.new_full(table.shape, -1)
    own = slice(coord_start, coord_start + 4)
    for rows, out in zip(table.flatten(0, -3), found.view(-1, *table.shape[-2:])):
        valid = rows[:, score_index] > valid_thresh
        if id_index >= 0:
            valid &= rows[:, id_index] != background_id
        rows = rows[valid]
        order = rows[:, score_index].argsort(descending=True, stable=True)
        rows = rows[order[:topk] if topk > 0 else order]
        boxes = to_corners(rows[:, own]) if in_format == "center" else rows[:, own]
        stays = torch.ones(len(rows), dtype=torch.bool)
        for number in range(len(rows)):
            if stays[number]:
                rivals = overlaps(boxes[number], boxes) > overlap_thresh
                if id_index >= 0 and not force_suppress:
                    rivals &= rows[:, id_index] == rows[number, id_index]
                stays[number + 1 :] &= ~rivals[number + 1 :]
        rows = rows[stays]
        if in_format != out_format:
            old = rows[:, own]
            new = to_corners(old) if in_format == "center" else to_centres(old)
            rows[:, own] = torch.where(old[:, :1] < 0, old, new)
        out[: len(rows)] = rows
    return found
'''

TO_CORNERS = '''\
def to_corners(boxes):
    """Return boxes given by centre and size as corners."""
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    return torch.cat([centre - half, centre + half], 1)
'''

TO_CENTRES = '''\
def to_centres(boxes):
    """Return boxes given by corners as centre and size."""
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)
'''

TEXTS = {
    "to_corners": TO_CORNERS,
    "to_centres": TO_CENTRES,
    "box_nms": BOX_NMS,
    "multibox_detection": MULTIBOX_DETECTION,
}
