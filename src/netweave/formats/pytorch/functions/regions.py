"""ROIPooling and PSROIPooling (``graph/ops/regions``)."""

from __future__ import annotations

BINS = '''\
def bins(first, last, num_bins, size):
    """Return where the bins of a region begin and what they end before, cut to the plane."""
    first, last = (int(abs(border) + 0.5) * (1 if border > 0 else -1) for border in (first, last))
    width = max(last - first + 1, 1) / num_bins
    borders = [(first + int(i * width), first - int(-(i + 1) * width // 1)) for i in range(num_bins)]
    return [[min(max(border, 0), size) for border in each] for each in borders]
'''

ROI_POOLING = '''\
def roi_pooling(x, regions, pooled_shape, spatial_scale):
    """Return the largest of each bin of regions, given as image and corners; 0 for an empty bin."""
    found = x.new_zeros(len(regions), x.shape[1], *pooled_shape)
    for number, (image, *corners) in enumerate(regions.tolist()):
        left, top, right, bottom = (corner * spatial_scale for corner in corners)
        columns = bins(left, right, pooled_shape[1], x.shape[3])
        for i, (y0, y1) in enumerate(bins(top, bottom, pooled_shape[0], x.shape[2])):
            for j, (x0, x1) in enumerate(columns):
                if y0 < y1 and x0 < x1:
                    found[number, :, i, j] = x[int(image), :, y0:y1, x0:x1].amax((1, 2))
    return found
'''

MEAN_BINS = '''\
def mean_bins(first, last, num_bins, size, scale):
    """Return where the bins of a region begin and what they end before; neighbours may overlap."""
    first, last = (int(abs(border) + 0.5) * (1 if border > 0 else -1) for border in (first, last))
    begin, end = first * scale, (last + 1) * scale
    width = max(end - begin, 0.1) / num_bins
    places = [(i * width + begin, (i + 1) * width + begin) for i in range(num_bins)]
    borders = [(int(low // 1), -int(-high // 1)) for low, high in places]
    return [[min(max(border, 0), size) for border in each] for each in borders]
'''

PSROI_POOLING = '''\
def psroi_pooling(x, regions, output_dim, group_size, spatial_scale):
    """Return the mean of each bin of regions over channels of its own; 0 for an empty bin."""
    planes = x.unflatten(1, (output_dim, group_size, group_size))
    found = x.new_zeros(len(regions), output_dim, group_size, group_size)
    for number, (image, left, top, right, bottom) in enumerate(regions.tolist()):
        columns = mean_bins(left, right, group_size, x.shape[3], spatial_scale)
        for i, (y0, y1) in enumerate(mean_bins(top, bottom, group_size, x.shape[2], spatial_scale)):
            for j, (x0, x1) in enumerate(columns):
                if y0 < y1 and x0 < x1:
                    cells = planes[int(image), :, i, j, y0:y1, x0:x1]
                    found[number, :, i, j] = cells.mean((1, 2))
    return found
'''

TEXTS = {
    "bins": BINS,
    "roi_pooling": ROI_POOLING,
    "mean_bins": MEAN_BINS,
    "psroi_pooling": PSROI_POOLING,
}
