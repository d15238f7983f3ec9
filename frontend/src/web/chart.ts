/** A line chart of some curves over the iterations, with a mark that says the values at one of them. */

import { bisector, extent, line, scaleLinear, scaleLog } from "d3";

import { element } from "./element.ts";
import { apart } from "./ticks.ts";

export type Point = [iteration: number, value: number | null];

export interface Curve {
  label: string;
  points: Point[];
}

export type Axis = "automatic" | "linear" | "logarithmic";

const WIDTH = 480;
const HEIGHT = 240;
const MARGIN = { top: 10, right: 22, bottom: 30, left: 54 };
const COLOURS = ["var(--curve-1)", "var(--curve-2)", "var(--curve-3)", "var(--curve-4)"];
/** Beyond the colours, curves are told apart by their dashes as well. */
const DASHES = ["", "6 3", "2 3", "9 3 2 3"];

/** A loss that falls by more than this is drawn over a logarithmic axis. */
const WIDE = 100;

type Place = (value: number) => number;

export class Chart {
  readonly element: HTMLElement;
  private readonly picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  private readonly legend = element("figcaption");
  private readonly values = element("output", { class: "values" });
  private readonly slider: HTMLInputElement;
  private mark = svg("g", { class: "mark" });
  private curves: Curve[] = [];
  private iterations: number[] = [];
  private x: Place = () => 0;
  private y: Place = () => 0;

  constructor(private readonly name: string) {
    this.slider = element("input", {
      type: "range",
      min: "0",
      step: "1",
      "aria-label": `Iteration of ${readable(name)}`,
    });
    this.slider.addEventListener("input", () => this.point(Number(this.slider.value)));
    this.picture.addEventListener("pointermove", (event) => this.pointAt(event.clientX));
    this.picture.addEventListener("pointerleave", () => this.unpoint());
    this.slider.addEventListener("blur", () => this.unpoint());
    this.element = element("figure", { class: "chart" }, this.legend, this.values, this.slider);
    this.values.before(this.picture);
  }

  /** Draw curves, in place of those that were there; what is pointed at stays pointed at. */
  show(curves: Curve[], axis: Axis): void {
    const pointed = this.values.textContent ? this.iterations[Number(this.slider.value)] : undefined;
    const isAtEnd = Number(this.slider.value) >= this.iterations.length - 1;
    this.curves = curves;
    this.iterations = [...new Set(curves.flatMap(({ points }) => points.map(([at]) => at)))].sort(
      (a, b) => a - b,
    );
    this.draw(axis);
    this.slider.max = String(Math.max(0, this.iterations.length - 1));
    if (pointed !== undefined && !isAtEnd) this.point(nearest(this.iterations, pointed));
    else this.slider.value = this.slider.max;
  }

  private draw(axis: Axis): void {
    const all = this.curves.flatMap((curve) => curve.points);
    const values = all.map(([, value]) => value).filter((value) => value !== null);
    const [first = 0, last = 1] = extent(all, ([iteration]) => iteration);
    const x = scaleLinear([first, Math.max(last, first + 1)], [MARGIN.left, WIDTH - MARGIN.right]);
    const isLog = usesLog(values, axis);
    const shown = isLog ? values.filter((value) => value > 0) : values;
    const [low = 0, high = 1] = extent(shown);
    const range = [HEIGHT - MARGIN.bottom, MARGIN.top];
    const pad = low === high ? Math.abs(low) * 0.1 || 1 : 0;
    const y = isLog
      ? scaleLog([low === high ? low / 2 : low, low === high ? high * 2 : high], range)
      : scaleLinear([low - pad, high + pad], range).nice();
    [this.x, this.y] = [x, y];
    this.picture.setAttribute("aria-label", summary(this.name, this.curves));
    const ticks = isLog ? apart(y.ticks(), y) : y.ticks(5);
    this.mark = svg("g", { class: "mark" });
    this.picture.replaceChildren(
      ...ticks.flatMap((tick) => gridLine(y(tick), short(tick))),
      ...x
        .ticks(6)
        .filter(Number.isInteger)
        .map((tick) => label(x(tick), short(tick))),
      ...this.curves.flatMap((curve, index) => this.drawn(curve, index, isLog)),
      this.mark,
    );
    const title = element("strong", { text: readable(this.name) });
    const note = isLog ? [element("span", { class: "axis", text: "logarithmic" })] : [];
    this.legend.replaceChildren(title, ...note, ...this.curves.map((curve, index) => key(curve, index)));
  }

  private drawn(curve: Curve, index: number, isLog: boolean): SVGElement[] {
    const isShown = ([, value]: Point): boolean => value !== null && (!isLog || value > 0);
    const path = line<Point>(
      ([iteration]) => this.x(iteration),
      ([, value]) => this.y(value ?? 0),
    ).defined(isShown);
    const stroke = { fill: "none", stroke: colour(index), "stroke-dasharray": dash(index) };
    const parts = [svg("path", { d: path(curve.points) ?? "", "stroke-width": "1.6", ...stroke })];
    const end = curve.points.at(-1);
    if (end && isShown(end)) parts.push(dot(this.x(end[0]), this.y(end[1] ?? 0), index));
    return parts;
  }

  private pointAt(clientX: number): void {
    const box = this.picture.getBoundingClientRect();
    const at = ((clientX - box.left) / box.width) * WIDTH;
    const places = this.iterations.map((iteration) => this.x(iteration));
    if (places.length) this.point(nearest(places, at));
  }

  /** Say the values at an iteration, by its place among all. */
  private point(place: number): void {
    const iteration = this.iterations[place];
    if (iteration === undefined) return;
    this.slider.value = String(place);
    const found = this.curves.map((curve) => valueAt(curve.points, iteration));
    const texts = this.curves.flatMap(({ label: name }, index) => {
      const value = found[index];
      return value === undefined ? [] : [`${name} ${value === null ? "not a number" : precise(value)}`];
    });
    this.values.textContent = `${iteration.toLocaleString("en")}: ${texts.join(", ")}`;
    this.slider.setAttribute("aria-valuetext", `iteration ${this.values.textContent}`);
    const x = String(this.x(iteration));
    const height = { y1: String(MARGIN.top), y2: String(HEIGHT - MARGIN.bottom) };
    const dots = found.flatMap((value, index) => {
      const y = value === null || value === undefined ? NaN : this.y(value);
      return Number.isFinite(y) ? [dot(this.x(iteration), y, index)] : [];
    });
    this.mark.replaceChildren(svg("line", { class: "pointer", x1: x, x2: x, ...height }), ...dots);
  }

  private unpoint(): void {
    if (document.activeElement === this.slider) return;
    this.values.textContent = "";
    this.mark.replaceChildren();
  }
}

/** Whether values are drawn over a logarithmic axis. */
export function usesLog(values: number[], axis: Axis): boolean {
  const [low = 0, high = 1] = extent(values);
  if (axis === "logarithmic") return high > 0;
  return axis === "automatic" && low > 0 && high / low > WIDE;
}

/** The value of a curve at an iteration; undefined where it has no point. */
export function valueAt(points: Point[], iteration: number): number | null | undefined {
  const place = bisector<Point, number>(([at]) => at).left(points, iteration);
  const point = points[place];
  return point && point[0] === iteration ? point[1] : undefined;
}

/** The place of the number that is nearest, of numbers in order. */
export function nearest(numbers: number[], wanted: number): number {
  return bisector((value: number) => value).center(numbers, wanted);
}

function gridLine(y: number, text: string): SVGElement[] {
  const height = { y1: String(y), y2: String(y) };
  const sides = { x1: String(MARGIN.left), x2: String(WIDTH - MARGIN.right) };
  const place = { x: String(MARGIN.left - 7), y: String(y), "text-anchor": "end", dy: "0.32em" };
  return [
    svg("line", { class: "grid", ...sides, ...height }),
    svg("text", { class: "tick", ...place }, text),
  ];
}

function label(x: number, text: string): SVGElement {
  const place = { x: String(x), y: String(HEIGHT - 9), "text-anchor": "middle" };
  return svg("text", { class: "tick", ...place }, text);
}

function key(curve: Curve, index: number): HTMLElement {
  const mark = svg("svg", { viewBox: "0 0 18 10", width: "18", height: "10", "aria-hidden": "true" });
  const stroke = { stroke: colour(index), "stroke-width": "2.4", "stroke-dasharray": dash(index) };
  mark.append(svg("line", { x1: "0", x2: "18", y1: "5", y2: "5", ...stroke }));
  return element("span", { class: "key" }, mark, ` ${curve.label}`);
}

function dot(x: number, y: number, index: number): SVGElement {
  return svg("circle", { cx: String(x), cy: String(y), r: "3", fill: colour(index) });
}

const colour = (index: number): string => COLOURS[index % COLOURS.length]!;
const dash = (index: number): string => DASHES[Math.floor(index / COLOURS.length) % DASHES.length]!;
const readable = (name: string): string => name.replaceAll("_", " ");

function summary(name: string, curves: Curve[]): string {
  const ends = curves.map((curve) => {
    const [iteration, value] = curve.points.at(-1) ?? [0, null];
    return `${curve.label} ${value === null ? "not a number" : short(value)} at iteration ${iteration}`;
  });
  return `${name}: ${ends.join(", ")}`;
}

function precise(value: number): string {
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(4);
  return value.toLocaleString("en", { maximumSignificantDigits: 6 });
}

function short(value: number): string {
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(0);
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function svg(name: string, attributes: Record<string, string>, text?: string): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) if (value) made.setAttribute(attribute, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
