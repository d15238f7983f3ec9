"""Caffe's DetectionOutput (``graph/ops/detection``)."""

from __future__ import annotations

DETECTION_OUTPUT = '''\
def detection_output(
    boxes, scores, background_label_id=0, confidence_threshold=-3.4028235e38,
    nms_threshold=0.3, top_k=-1, keep_top_k=-1, eta=1.0,
):
    """Return a row for each detection, as Caffe does: image, class, score and corners."""
    images = []
    for image, (all_boxes, all_scores) in enumerate(zip(boxes, scores)):
        rows = [scores.new_empty(0, 7)]
        for label, score in enumerate(all_scores.T):
            if label == background_label_id:
                continue
            own = all_boxes[:, min(label, all_boxes.shape[1] - 1)]
            order = score.argsort(descending=True, stable=True)
            order = order[score[order] > confidence_threshold]
            order = suppress(own, order[:top_k] if top_k >= 0 else order, nms_threshold, eta)
            place = scores.new_tensor([image, label]).expand(len(order), 2)
            rows.append(torch.cat([place, score[order, None], own[order]], 1))
        rows = torch.cat(rows)
        if 0 <= keep_top_k < len(rows):
            best = rows[:, 2].argsort(descending=True, stable=True)[:keep_top_k]
            rows = rows[best.sort().values]
        images.append(rows)
    found = torch.cat(images)
    if len(found) == 0:  # then a row for each image, of its number and -1
        found = F.pad(torch.arange(len(scores), dtype=scores.dtype)[:, None], (0, 6), value=-1)
    return found[None, None]
'''

TEXTS = {"detection_output": DETECTION_OUTPUT}
