/** Where a picture that is far taller than wide is cut, so that it becomes columns beside each other. */

/** A picture of at most this height stays one column. */
const ONE_COLUMN = 2400;

/** Height of all columns to their width together, about that of a screen. */
const ASPECT = 0.7;

/**
 * Cut a height into columns of about equal height, between boxes where that is possible.
 *
 * @param height Height of the picture.
 * @param width Width of a column.
 * @param boxes Top and bottom of all boxes.
 */
export function columnsOf(height: number, width: number, boxes: [number, number][]): [number, number][] {
  const count = height <= ONE_COLUMN ? 1 : Math.max(1, Math.round(Math.sqrt(height / (width * ASPECT))));
  const gaps = gapsBetween(boxes);
  const cuts = [0];
  for (let index = 1; index < count; index += 1) {
    const wanted = (index * height) / count;
    const cut = nearest(gaps, wanted);
    cuts.push(cut !== undefined && Math.abs(cut - wanted) < height / count / 2 ? cut : wanted);
  }
  const ends = [...cuts.slice(1), height];
  return cuts
    .map((top, index): [number, number] => [top, ends[index]!])
    .filter(([top, bottom]) => bottom > top);
}

/**
 * Return how many columns a page holds.
 *
 * @param columns Number of columns in all.
 * @param width Width of a column.
 * @param height Height of a page.
 * @param limits Most pixels along a side and in all; null for no limits.
 */
export function perPage(
  columns: number,
  width: number,
  height: number,
  limits: { side: number; area: number } | null,
): number {
  if (!limits) return columns;
  const most = Math.min(limits.side / width, limits.area / (width * height));
  return Math.max(1, Math.min(columns, Math.floor(most)));
}

/** Return heights that no box covers: the middles of the gaps. */
function gapsBetween(boxes: [number, number][]): number[] {
  const sorted = [...boxes].sort(([a], [b]) => a - b);
  const gaps: number[] = [];
  let end = 0;
  for (const [top, bottom] of sorted) {
    if (top > end && end > 0) gaps.push((top + end) / 2);
    end = Math.max(end, bottom);
  }
  return gaps;
}

function nearest(sorted: number[], wanted: number): number | undefined {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [sorted[low - 1], sorted[low]];
  if (before === undefined || after === undefined) return before ?? after;
  return wanted - before <= after - wanted ? before : after;
}
