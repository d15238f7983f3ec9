/** Padding as a picture: the first and the last window on the pixels of two corners of the border. */

import { s } from "../dom.ts";
import { type Axis, type Windows, beyondEnd, lastEnd } from "../model/windows.ts";

const CELL = 11;
const MOST_CELLS = 9;

type Kind = "pixel" | "padding" | "beyond" | "unread";

/** The two corners side by side, with their words as the picture's label. */
export function paddingPicture(windows: Windows): SVGSVGElement {
  const [down, across] = windows.axes.length > 1 ? windows.axes : [undefined, windows.axes[0]];
  const corners = [corner(down, across!, "begin")];
  if (!windows.isOpen) corners.push(corner(down, across!, "end"));
  const width = corners.reduce((sum, part) => sum + part.width, 0) + 26 * (corners.length - 1);
  const height = Math.max(...corners.map((part) => part.height));
  const label = paddingWords(windows);
  const svg = s("svg", {
    class: "nw-padding",
    viewBox: `-1 -1 ${width + 2} ${height + 2}`,
    width: width + 2,
    height: height + 2,
    role: "img",
    "aria-label": label,
  });
  let x = 0;
  corners.forEach((part, index) => {
    svg.append(s("g", { transform: `translate(${x} ${index ? height - part.height : 0})` }, ...part.shapes));
    x += part.width + 26;
    if (index === 0 && corners.length > 1) {
      svg.append(s("text", { x: part.width + 13, y: height / 2 + 4, class: "nw-dots" }, "⋯"));
    }
  });
  return svg;
}

/** The same in words. */
export function paddingWords(windows: Windows): string {
  const names = windows.axes.length > 1 ? ["down", "across"] : ["along"];
  const parts = windows.axes.map((axis, index) => {
    const padding = axis.begin === axis.end ? `${axis.begin}` : `${axis.begin} before, ${axis.end} after`;
    const text = `${names[index]}: padding ${padding}`;
    if (windows.isOpen) return text;
    const beyond = beyondEnd(axis);
    const rest =
      beyond < 0
        ? `, ${-beyond} of ${axis.size} pixels not read`
        : beyond > axis.end
          ? `, the last reaches ${beyond - axis.end} beyond the padding`
          : "";
    return `${text}, ${axis.count} windows${rest}`;
  });
  return parts[0]?.replace("down", "") === parts[1]?.replace("across", "")
    ? parts[0]!.replace("down", "down and across")
    : parts.join("; ");
}

interface Corner {
  shapes: SVGElement[];
  width: number;
  height: number;
}

function corner(down: Axis | undefined, across: Axis, end: "begin" | "end"): Corner {
  const columns = range(across, end);
  const rows = down ? range(down, end) : [0];
  const shapes: SVGElement[] = [];
  rows.forEach((row, y) => {
    columns.forEach((column, x) => {
      const kind = gravest(down ? kindOf(down, row) : "pixel", kindOf(across, column));
      const at = { x: x * CELL, y: y * CELL, width: CELL - 1, height: CELL - 1 };
      shapes.push(s("rect", { ...at, class: `nw-cell nw-cell-${kind}` }));
      if (kind === "padding") shapes.push(s("text", { x: at.x + 5, y: at.y + 8.2, class: "nw-zero" }, "0"));
    });
  });
  for (const place of end === "begin" ? ["second", "first"] : ["last"]) {
    const [x, width] = windowAt(across, columns, place);
    const [y, height] = down ? windowAt(down, rows, place) : [0, 1];
    const size = { x: x * CELL - 0.5, y: y * CELL - 0.5, width: width * CELL, height: height * CELL };
    if (width > 0 && height > 0)
      shapes.push(s("rect", { ...size, rx: 2, class: `nw-window nw-window-${place}` }));
  }
  return { shapes, width: columns.length * CELL, height: rows.length * CELL };
}

/** Elements of an axis that a corner shows. */
function range(axis: Axis, end: "begin" | "end"): number[] {
  const span = (axis.kernel - 1) * axis.dilation + 1;
  if (end === "begin") {
    const last = Math.min(-axis.begin + axis.stride + span, -axis.begin + MOST_CELLS - 1);
    return sequence(-axis.begin, Number.isNaN(axis.size) ? last : Math.min(last, axis.size + axis.end - 1));
  }
  const last = Math.max(lastEnd(axis), axis.size - 1 + axis.end);
  const first = Math.max(last - Math.min(axis.stride + span, MOST_CELLS - 1), -axis.begin);
  return sequence(first, last);
}

function sequence(first: number, last: number): number[] {
  return Array.from({ length: Math.max(last - first + 1, 1) }, (_, index) => first + index);
}

function kindOf(axis: Axis, element: number): Kind {
  if (element < 0) return "padding";
  if (Number.isNaN(axis.size)) return "pixel";
  if (element >= axis.size + axis.end) return "beyond";
  if (element >= axis.size) return "padding";
  return element > lastEnd(axis) ? "unread" : "pixel";
}

function gravest(a: Kind, b: Kind): Kind {
  const order: Kind[] = ["beyond", "padding", "unread", "pixel"];
  return order.find((kind) => kind === a || kind === b) ?? "pixel";
}

/** Where a window begins among the elements shown, and how many of them it covers. */
function windowAt(axis: Axis, shown: number[], place: string): [number, number] {
  const span = (axis.kernel - 1) * axis.dilation + 1;
  const start =
    place === "last" ? lastEnd(axis) - span + 1 : -axis.begin + (place === "second" ? axis.stride : 0);
  const first = shown[0]!;
  const last = shown.at(-1)!;
  const from = Math.max(start, first);
  return [from - first, Math.min(start + span - 1, last) - from + 1];
}
