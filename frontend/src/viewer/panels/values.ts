/** Values of a group: maps of the worst channel in A, in B and their difference, and how channels differ. */

import { interpolateRdBu, interpolateViridis, rgb } from "d3";

import { h, s } from "../dom.ts";
import { hotColour } from "../draw/paint.ts";
import type { Real, TensorValues, WeightDifference } from "../model/document.ts";
import { counted, ratioText, realText } from "../model/wording.ts";

/** Pixels of a map's side, at least. */
const MAP_SIDE = 96;
const UNDEFINED = 255;
const LEAST = 1e-7;

export function valueParts(values: TensorValues): HTMLElement[] {
  const [low, high] = values.range;
  const most = values.difference;
  const spread = `${numberText(low)} … ${numberText(high)}`;
  const maps = h(
    "div",
    { class: "nw-maps" },
    mapPart("A", values.a, values, interpolateViridis, spread),
    mapPart("B", values.b, values, interpolateViridis, spread),
    mapPart("A − B", values.a_minus_b, values, diverging, `± ${numberText(most)}`),
  );
  const parts: HTMLElement[] = [h("p", { class: "nw-quiet" }, placeWords(values)), maps];
  if (values.block[0] * values.block[1] > 1)
    parts.push(
      h(
        "p",
        { class: "nw-quiet" },
        `Each cell is the element that differs most among ${values.block[0]}×${values.block[1]}.`,
      ),
    );
  if (values.num_channels > 1)
    parts.push(
      strip("Largest difference by channel, relative to the rms of A", values.channels, values.num_channels),
    );
  parts.push(histograms(values));
  return parts;
}

export function weightPart(difference: WeightDifference): HTMLElement {
  const { role, channels, num_channels: count, transposed } = difference;
  const note = transposed ? " (B's array is transposed)" : "";
  const all = count > 1 ? ` in all ${counted(count, "channel")}` : "";
  if (!channels.length) return h("p", { class: "nw-quiet" }, `${role}: identical${all}${note}.`);
  return strip(
    `${role}: largest difference by output channel, relative to the largest element${note}`,
    channels,
    count,
  );
}

function placeWords(values: TensorValues): string {
  const [sample, channel, ...rest] = values.place;
  const isVector = values.shape.length < 3;
  const where = isVector
    ? `element ${values.place.slice(1).join(", ") || values.place[0]}`
    : `channel ${channel}, ${rest.length > 1 ? `row ${rest.at(-2)}, column ${rest.at(-1)}` : `position ${rest[0]}`}`;
  const [a, b] = values.at_place;
  if (values.difference === 0) return `No element differs in the channel shown (sample ${sample}, ${where}).`;
  return `Worst at sample ${sample}, ${where}: A has ${numberText(a)}, B has ${numberText(b)}; the rms of A is ${numberText(values.rms)}.`;
}

function mapPart(
  name: string,
  coded: string,
  values: TensorValues,
  colour: (share: number) => string,
  range: string,
): HTMLElement {
  const [rows, columns] = values.size;
  const canvas = h("canvas", {
    width: columns,
    height: rows,
    class: "nw-map",
    role: "img",
    "aria-label": `${name}: values from ${range}`,
  });
  const tall = Math.max(10, Math.min(MAP_SIDE, (MAP_SIDE * rows) / columns));
  canvas.style.height = `${tall}px`;
  canvas.style.width = `${Math.min(MAP_SIDE, Math.max(10, (tall * columns) / rows))}px`;
  fill(canvas, coded, colour);
  const box = h("span", { class: "nw-mapbox" }, canvas);
  if (values.difference !== 0) {
    const mark = h("i", { class: "nw-mapmark", "aria-hidden": "true" });
    mark.style.left = `${(100 * (values.worst[1] + 0.5)) / columns}%`;
    mark.style.top = `${(100 * (values.worst[0] + 0.5)) / rows}%`;
    box.append(mark);
  }
  return h(
    "figure",
    { class: "nw-figure" },
    h("figcaption", {}, h("b", {}, name)),
    box,
    ramp(colour),
    h("figcaption", { class: "nw-maprange" }, range),
  );
}

/** The colours of a map from its least to its most. */
function ramp(colour: (share: number) => string): HTMLElement {
  const bar = h("span", { class: "nw-mapramp", "aria-hidden": "true" });
  const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => colour(share));
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return bar;
}

function fill(canvas: HTMLCanvasElement, coded: string, colour: (share: number) => string): void {
  const context = canvas.getContext("2d")!;
  const picture = context.createImageData(canvas.width, canvas.height);
  const bytes = atob(coded);
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes.charCodeAt(at);
    const { r, g, b } = byte === UNDEFINED ? rgb("#ff00ff") : rgb(colour(byte / 254));
    picture.data.set([r, g, b, 255], 4 * at);
  }
  context.putImageData(picture, 0, 0);
}

/** Red where A is larger, blue where B is. */
function diverging(share: number): string {
  return interpolateRdBu(1 - share);
}

/** A row of cells, a channel each, by the power of ten of its difference. */
function strip(words: string, channels: Real[], count: number): HTMLElement {
  const numbers = channels.map((value) => (typeof value === "number" ? value : Infinity));
  const worst = numbers.reduce((best, value, index) => (value > numbers[best]! ? index : best), 0);
  const share = Math.ceil(count / channels.length);
  const perRow = Math.min(64, channels.length);
  const size = 320 / perRow;
  const rows = Math.ceil(channels.length / perRow);
  const tall = Math.max(5, Math.min(size, 12));
  const cells = channels.map((value, index) => {
    const cell = s(
      "rect",
      {
        x: (index % perRow) * size,
        y: Math.floor(index / perRow) * tall,
        width: Math.max(size - 0.5, 0.5),
        height: tall - 0.5,
        fill: hotColour(strength(numbers[index]!)),
      },
      s("title", {}, `channel ${index * share}: ${ratioText(value)}`),
    );
    return cell;
  });
  const label = `${words}. The worst is ${ratioText(channels[worst]!)}, in channel ${worst * share}.`;
  return h(
    "figure",
    { class: "nw-figure nw-channels" },
    h("figcaption", {}, label),
    s(
      "svg",
      { viewBox: `0 0 320 ${rows * tall}`, class: "nw-channelmap", role: "img", "aria-label": label },
      ...cells,
    ),
    h(
      "figcaption",
      { class: "nw-mapscale" },
      h("span", {}, `≤ ${ratioText(LEAST)}`),
      ramp(hotColour),
      h("span", {}, "≥ 1"),
    ),
  );
}

function strength(value: number): number {
  if (value === 0) return 0;
  return Math.min(1, Math.max(0, 1 - Math.log10(Math.min(Math.max(value, LEAST), 1)) / Math.log10(LEAST)));
}

function histograms(values: TensorValues): HTMLElement {
  const { range, a, b } = values.histogram;
  const most = Math.max(...a, ...b, 1);
  const width = 132;
  const bars = (counts: number[], words: string): SVGElement =>
    s(
      "svg",
      {
        viewBox: `0 0 ${width} 34`,
        class: "nw-histogram",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Values of ${words} from ${numberText(range[0])} to ${numberText(range[1])}`,
      },
      ...counts.map((count, index) =>
        s("rect", {
          x: (index * width) / counts.length,
          y: 34 - 33 * Math.sqrt(count / most),
          width: width / counts.length - 0.6,
          height: 33 * Math.sqrt(count / most),
        }),
      ),
    );
  return h(
    "figure",
    { class: "nw-figure" },
    h(
      "figcaption",
      {},
      `How the values spread, from ${numberText(range[0])} to ${numberText(range[1])}: A, B (height by the square root of the count)`,
    ),
    h("div", { class: "nw-sides" }, bars(a, "A"), bars(b, "B")),
  );
}

function numberText(value: Real): string {
  return typeof value === "number" ? realText(value) : (value ?? "");
}
