/** A line chart of some curves over the iterations. */

import { extent, line, scaleLinear, scaleLog } from "d3";

import { element } from "./element.ts";
import { apart } from "./ticks.ts";

export interface Curve {
  label: string;
  points: [number, number | null][];
}

const WIDTH = 480;
const HEIGHT = 240;
const MARGIN = { top: 10, right: 22, bottom: 30, left: 54 };
const COLOURS = ["var(--curve-1)", "var(--curve-2)", "var(--curve-3)", "var(--curve-4)"];

/** A loss that falls by more than this is drawn over a logarithmic axis. */
const WIDE = 100;

export function chart(name: string, curves: Curve[]): HTMLElement {
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": summary(name, curves),
  });
  const all = curves.flatMap((curve) => curve.points);
  const values = all.map(([, value]) => value).filter((value) => value !== null);
  const [first = 0, last = 1] = extent(all, ([iteration]) => iteration);
  const [low = 0, high = 1] = extent(values);
  const x = scaleLinear([first, Math.max(last, first + 1)], [MARGIN.left, WIDTH - MARGIN.right]);
  const range = [HEIGHT - MARGIN.bottom, MARGIN.top];
  const wide = low > 0 && high / low > WIDE;
  const pad = low === high ? Math.abs(low) * 0.1 || 1 : 0;
  const y = wide ? scaleLog([low, high], range) : scaleLinear([low - pad, high + pad], range).nice();

  for (const tick of wide ? apart(y.ticks(), y) : y.ticks(5)) {
    const height = String(y(tick));
    picture.append(
      svg("line", {
        class: "grid",
        x1: String(MARGIN.left),
        x2: String(WIDTH - MARGIN.right),
        y1: height,
        y2: height,
      }),
      svg(
        "text",
        { class: "tick", x: String(MARGIN.left - 7), y: height, "text-anchor": "end", dy: "0.32em" },
        short(tick),
      ),
    );
  }
  for (const tick of x.ticks(6).filter(Number.isInteger))
    picture.append(
      svg(
        "text",
        { class: "tick", x: String(x(tick)), y: String(HEIGHT - 9), "text-anchor": "middle" },
        short(tick),
      ),
    );
  const path = line<[number, number | null]>(
    ([iteration]) => x(iteration),
    ([, value]) => y(value as number),
  ).defined(([, value]) => value !== null && (!wide || value > 0));
  const legend = element("figcaption", {}, element("strong", { text: name.replaceAll("_", " ") }));
  curves.forEach((curve, index) => {
    const colour = COLOURS[index % COLOURS.length] as string;
    picture.append(
      svg("path", { d: path(curve.points) ?? "", fill: "none", stroke: colour, "stroke-width": "1.6" }),
    );
    const [iteration, value] = curve.points.at(-1) ?? [0, null];
    if (value !== null)
      picture.append(svg("circle", { cx: String(x(iteration)), cy: String(y(value)), r: "3", fill: colour }));
    const mark = svg("svg", { viewBox: "0 0 10 10", width: "10", height: "10", "aria-hidden": "true" });
    mark.append(svg("circle", { cx: "5", cy: "5", r: "4", fill: colour }));
    legend.append(element("span", { class: "key" }, mark, ` ${curve.label}`));
  });
  return element("figure", { class: "chart" }, legend, picture);
}

function summary(name: string, curves: Curve[]): string {
  const ends = curves.map((curve) => {
    const [iteration, value] = curve.points.at(-1) ?? [0, null];
    return `${curve.label} ${value === null ? "not a number" : short(value)} at iteration ${iteration}`;
  });
  return `${name}: ${ends.join(", ")}`;
}

function short(value: number): string {
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(0);
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function svg(name: string, attributes: Record<string, string>, text?: string): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
