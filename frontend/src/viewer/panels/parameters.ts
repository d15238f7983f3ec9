/** Stored arrays: their sizes, statistics and histograms, side by side. */

import { h, s } from "../dom.ts";
import type { Net, Parameter, Statistics } from "../model/document.ts";
import { realText } from "../model/wording.ts";
import { row } from "./settings.ts";

const WIDTH = 132;
const HEIGHT = 34;

/** Returns the address of a stored array of one side, by its key. */
export type ArrayAddress = (side: number, key: string) => string;

/** A part for each stored array of either side, paired by role and order. */
export function parameterParts(
  nets: Net[],
  numbers: number[][],
  address: ArrayAddress | null,
): HTMLElement[] {
  const lists = numbers.map((list, side) => list.map((number) => nets[side]!.parameters[number]!));
  return pairUp(lists[0] ?? [], lists[1] ?? []).map((pair) => part(pair.slice(0, nets.length), address));
}

function pairUp(a: Parameter[], b: Parameter[]): (Parameter | undefined)[][] {
  const free = [...b];
  const pairs: (Parameter | undefined)[][] = a.map((parameter) => {
    const place = free.findIndex((other) => other.role === parameter.role);
    return [parameter, place < 0 ? undefined : free.splice(place, 1)[0]];
  });
  return [...pairs, ...free.map((parameter) => [undefined, parameter])];
}

function part(pair: (Parameter | undefined)[], address: ArrayAddress | null): HTMLElement {
  const role = pair.find((parameter) => parameter)?.role ?? "";
  const cells = (text: (parameter: Parameter) => string): string[] =>
    pair.map((parameter) => (parameter ? text(parameter) : ""));
  const statistics = (text: (found: Statistics) => string): string[] =>
    cells((parameter) => (parameter.statistics ? text(parameter.statistics) : ""));
  const rows: [string, string[]][] = [
    ["array", cells((parameter) => parameter.key)],
    ["sizes", cells((parameter) => parameter.shape?.join("×") ?? "?")],
    ["mean", statistics((found) => realText(found.mean))],
    ["std", statistics((found) => realText(found.std))],
    ["min", statistics((found) => realText(found.min))],
    ["max", statistics((found) => realText(found.max))],
    ["zeros", statistics((found) => (found.zeros ? found.zeros.toLocaleString("en") : ""))],
    ["nan, inf", statistics((found) => (found.non_finite ? found.non_finite.toLocaleString("en") : ""))],
  ];
  const shown = rows.filter(([, values]) => values.some(Boolean));
  const body = shown.map(([name, values]) => row(name, values, isCompared(name) && differ(pair, name)));
  const histograms = pair.map((parameter) => h("td", {}, parameter ? histogram(parameter, pair) : ""));
  const bars = pair.some((parameter) => parameter?.statistics?.histogram)
    ? h("tr", { class: "nw-bars" }, h("th", { scope: "row" }, "values"), ...histograms)
    : null;
  return h(
    "div",
    { class: "nw-array" },
    h("h4", {}, role),
    h("table", { class: "nw-table" }, h("tbody", {}, bars, ...body, address && savers(pair, address))),
  );
}

function savers(pair: (Parameter | undefined)[], address: ArrayAddress): HTMLElement {
  const cells = pair.map((parameter, side) =>
    h("td", {}, parameter?.loaded ? saver(parameter.key, address(side, parameter.key)) : ""),
  );
  return h("tr", {}, h("th", { scope: "row" }, "save"), ...cells);
}

function saver(key: string, href: string): HTMLElement {
  return h("a", { href, download: "", title: `Save ${key} for NumPy` }, ".npy");
}

const COMPARED = ["mean", "std", "min", "max"] as const;
type Compared = (typeof COMPARED)[number];

function isCompared(name: string): name is Compared {
  return COMPARED.some((key) => key === name);
}

/** Statistics that differ by more than a part in a thousand of the spread. */
function differ(pair: (Parameter | undefined)[], key: Compared): boolean {
  const [a, b] = pair.map((parameter) => parameter?.statistics);
  if (!a || !b) return false;
  const spread = Math.max(a.std ?? 0, b.std ?? 0) || Math.abs(a.mean ?? 0) || 1;
  return Math.abs((a[key] ?? 0) - (b[key] ?? 0)) > 1e-3 * spread;
}

/** Bars over the range that both sides share, so that they can be compared by eye. */
function histogram(parameter: Parameter, pair: (Parameter | undefined)[]): Element | string {
  const found = parameter.statistics;
  if (!found?.histogram) return parameter.loaded ? "" : "no values";
  const known = pair.flatMap((entry) => (entry?.statistics?.histogram ? [entry.statistics] : []));
  const low = Math.min(...known.map((entry) => entry.min ?? 0));
  const high = Math.max(...known.map((entry) => entry.max ?? 0));
  const most = Math.max(...found.histogram);
  const scale = (value: number): number =>
    high > low ? ((value - low) / (high - low)) * WIDTH : WIDTH / 2 - 2;
  const [from, to] = [scale(found.min ?? 0), scale(found.max ?? 0)];
  const step = Math.max((to - from) / found.histogram.length, 0.2);
  const bars = found.histogram.map((count, index) => {
    const height = count ? Math.max((count / most) * HEIGHT, 0.75) : 0;
    return s("rect", {
      x: from + index * step,
      y: HEIGHT - height,
      width: Math.max(step - 0.5, 0.4),
      height,
    });
  });
  const label = `histogram of ${parameter.key}: from ${realText(found.min)} to ${realText(found.max)}`;
  const zero = low < 0 && high > 0 ? s("line", { x1: scale(0), x2: scale(0), y1: 0, y2: HEIGHT }) : null;
  const base = s("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: "nw-base" });
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT + 1}`, role: "img", "aria-label": label };
  return s("svg", { class: "nw-histogram", ...box }, zero, ...bars, base);
}
