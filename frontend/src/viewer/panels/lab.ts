/** The padding lab: every window of an axis drawn large, with settings and rules to play with, for both nets. */

import { scaleLinear } from "d3";

import { h, s } from "../dom.ts";
import { LOOKS } from "../model/looks.ts";
import type { Model } from "../model/model.ts";
import { type Choice, RULES, axisOf, rulesOf } from "../model/rules.ts";
import { type WindowedRow, windowedRows, windowsText } from "../model/windowed.ts";
import { type Axis, beyondEnd, lastEnd } from "../model/windows.ts";

/** Elements and windows that are drawn at once; of more, the beginning and the end. */
const MAX_SHOWN = 60;
const ROW = 13;
const MIN_CELL = 8;
const FIELDS: [keyof Choice, string, number][] = [
  ["size", "input size", 1],
  ["kernel", "kernel", 1],
  ["stride", "stride", 1],
  ["dilation", "dilation", 1],
  ["begin", "padding before", 0],
  ["end", "padding after", 0],
];

export class Lab {
  readonly element: HTMLDialogElement;
  private readonly table = h("div", {
    class: "nw-lab-table",
    tabindex: 0,
    role: "region",
    "aria-label": "Layers with windows",
  });
  private readonly benches = h("div", { class: "nw-lab-benches" });
  private readonly title = h("h2", {});
  private cell = 20;
  private shown: Bench[] = [];

  constructor(
    private readonly chosen: (id: number) => void,
    closed: () => void,
  ) {
    const zoom = (factor: number): void => {
      this.cell = Math.min(44, Math.max(7, this.cell * factor));
      for (const bench of this.shown) bench.draw(this.cell);
    };
    this.element = h(
      "dialog",
      { class: "nw-dialog nw-lab", "aria-label": "Padding lab", onclose: closed },
      h(
        "header",
        { class: "nw-dialog-head" },
        this.title,
        h(
          "button",
          { type: "button", class: "nw-button", "aria-label": "Smaller", onclick: () => zoom(1 / 1.25) },
          "−",
        ),
        h(
          "button",
          { type: "button", class: "nw-button", "aria-label": "Larger", onclick: () => zoom(1.25) },
          "+",
        ),
        h("button", { type: "button", class: "nw-button", onclick: () => this.element.close() }, "Close"),
      ),
      this.benches,
      h("h3", {}, "Convolutions and poolings, differences first"),
      this.table,
    );
  }

  /** Opens with the layers of a model, on one of them. */
  open(model: Model, id: number | null): void {
    const rows = windowedRows(model);
    const first = rows.find((row) => row.id === id) ?? rows[0];
    this.table.replaceChildren(rows.length ? this.rows(model, rows) : "No layer of this net has windows.");
    this.element.showModal();
    if (first) this.show(model, first, 0);
    else this.benches.replaceChildren();
  }

  private rows(model: Model, rows: WindowedRow[]): HTMLElement {
    const letters = model.nets.length > 1 ? ["A", "B"] : ["windows"];
    return h(
      "table",
      { class: "nw-table" },
      h(
        "thead",
        {},
        h("tr", {}, h("th", {}, "layer"), ...letters.map((letter) => h("th", { scope: "col" }, letter))),
      ),
      h(
        "tbody",
        {},
        ...rows.map((row) => {
          const name = [...new Set(row.names.filter(Boolean))].join(" · ");
          const button = h(
            "button",
            { type: "button", class: "nw-link", onclick: () => this.show(model, row, 0) },
            name,
          );
          const mark = h("span", { class: "nw-mark", "data-status": row.status }, LOOKS[row.status].mark);
          return h(
            "tr",
            { class: row.differs ? "nw-lab-differs" : "" },
            h("th", { scope: "row", "data-status": row.status }, mark, button),
            ...row.windows.map((windows) => h("td", {}, windowsText(windows))),
          );
        }),
      ),
    );
  }

  private show(model: Model, row: WindowedRow, axis: number): void {
    this.chosen(row.id);
    this.title.textContent = [...new Set(row.names.filter(Boolean))].join(" · ");
    this.shown = row.windows.map((windows, side) => {
      const start = windows?.axes[Math.min(axis, windows.axes.length - 1)];
      const letter = model.nets.length > 1 ? "AB"[side]! : "";
      const { format } = model.nets[side]!;
      const rule = start && isWhole(start) ? rulesOf(start, format, windows.isPooling)[0] : undefined;
      return new Bench(letter, row.names[side] ?? "", rule ?? "floor", start ?? null);
    });
    const axes = Math.max(...row.windows.map((windows) => windows?.axes.length ?? 0));
    const names = axes > 1 ? ["down", "across"] : ["along"];
    const choice = h(
      "div",
      { class: "nw-group", role: "group", "aria-label": "Axis" },
      ...names.map((name, place) =>
        h(
          "button",
          {
            type: "button",
            class: "nw-button",
            "aria-pressed": String(place === axis),
            onclick: () => {
              this.show(model, row, place);
              this.benches.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
            },
          },
          name,
        ),
      ),
    );
    this.benches.replaceChildren(choice, ...this.shown.map((bench) => bench.element));
    this.cell = Math.max(MIN_CELL, Math.min(...this.shown.map((bench) => bench.fittingCell)));
    for (const bench of this.shown) bench.draw(this.cell);
  }
}

/** One net's windows along one axis, with the settings that they come from. */
class Bench {
  readonly element = h("section", { class: "nw-bench" });
  private choice: Choice;
  private rule: string;
  private readonly picture = h("div", { class: "nw-bench-picture", tabindex: 0, role: "region" });
  private readonly words = h("p", { role: "status" });
  private readonly inputs = new Map<keyof Choice, HTMLInputElement>();
  private cell = 20;

  constructor(letter: string, name: string, rule: string, start: Axis | null) {
    const known = start && isWhole(start) ? start : null;
    this.choice = { ...(known ?? { ...EXAMPLE, ...(start ? settingsOf(start) : {}) }) };
    this.rule = rule;
    this.picture.setAttribute("aria-label", `Windows of ${letter} ${name}`);
    const fields = FIELDS.map(([key, words, least]) => this.field(key, words, least));
    const options = Object.entries(RULES).map(([key, { words }]) =>
      h("option", { value: key, selected: key === this.rule }, words),
    );
    const select: HTMLSelectElement = h(
      "select",
      {
        "aria-label": `Rule of ${letter} ${name}`,
        onchange: () => {
          this.rule = select.value;
          this.draw(this.cell);
        },
      },
      ...options,
    );
    this.element.append(
      h("h3", {}, letter ? h("span", { class: "nw-letter" }, letter) : null, name || "not here"),
      h("div", { class: "nw-bench-fields" }, ...fields, select),
      this.words,
      this.picture,
    );
  }

  /** The size of an element at which the whole axis is in sight. */
  get fittingCell(): number {
    const axis = axisOf(this.rule, this.choice);
    const count = axis ? Math.min(axis.size + axis.begin + axis.end + 2, MAX_SHOWN + 1) : 20;
    return Math.min(26, (this.picture.clientWidth - 20) / count);
  }

  draw(cell: number): void {
    this.cell = cell;
    const axis = axisOf(this.rule, this.choice);
    const fixed = RULES[this.rule]!.pads;
    for (const key of ["begin", "end"] as const) {
      const input = this.inputs.get(key)!;
      input.disabled = fixed;
      if (fixed && axis) input.value = String(axis[key]);
    }
    this.words.textContent = axis ? wordsOf(axis) : "Not one window fits.";
    this.picture.replaceChildren(...(axis ? [drawing(axis, cell)] : []));
  }

  private field(key: keyof Choice, words: string, least: number): HTMLElement {
    const input: HTMLInputElement = h("input", {
      type: "number",
      min: least,
      max: 4096,
      value: this.choice[key],
      oninput: () => {
        const value = Math.trunc(Number(input.value));
        if (!(value >= least && value <= 4096)) return;
        this.choice = { ...this.choice, [key]: value };
        this.draw(this.cell);
      },
    });
    this.inputs.set(key, input);
    return h("label", {}, words, input);
  }
}

const EXAMPLE: Choice = { size: 12, kernel: 3, stride: 2, dilation: 1, begin: 0, end: 0 };

/** Whether an axis has a size, and so a number of windows. */
function isWhole({ size, count }: Axis): boolean {
  return !Number.isNaN(size) && !Number.isNaN(count);
}

function settingsOf({ kernel, stride, dilation, begin, end }: Axis): Partial<Choice> {
  return { kernel, stride, dilation, begin, end };
}

function wordsOf(axis: Axis): string {
  const beyond = beyondEnd(axis);
  const rest =
    beyond < 0
      ? `${-beyond} of ${axis.size} elements are not read`
      : beyond > axis.end
        ? `the last window reaches ${beyond - axis.end} beyond the padding`
        : beyond < axis.end
          ? `${axis.end - beyond} of the padding after is not read`
          : "everything is read";
  return `${axis.size} → ${axis.count} with padding ${axis.begin} before and ${axis.end} after; ${rest}`;
}

/** Elements in a row, and below them the windows, one a line; of a long axis the beginning and the end. */
function drawing(axis: Axis, cell: number): SVGSVGElement {
  const first = -axis.begin;
  const last = Math.max(lastEnd(axis), axis.size - 1 + axis.end);
  const total = last - first + 1;
  const isCut = total > MAX_SHOWN;
  const half = Math.floor(MAX_SHOWN / 2);
  const isShown = (element: number): boolean => !isCut || element < first + half || element > last - half;
  const x = (element: number): number =>
    place(isCut && element > last - half ? element - (total - 2 * half) + 1 : element);
  const place = scaleLinear([first, first + 1], [0, cell]);
  const windows = Array.from({ length: axis.count }, (_, index) => first + index * axis.stride).filter(
    (start) => isShown(start) && isShown(start + (axis.kernel - 1) * axis.dilation),
  );
  const width = (isCut ? 2 * half + 1 : total) * cell + 2;
  const height = cell + 8 + windows.length * ROW + 4;
  const svg = s("svg", {
    width,
    height,
    viewBox: `-1 -1 ${width} ${height}`,
    role: "img",
    "aria-label": wordsOf(axis),
  });
  for (let element = first; element <= last; element += 1) {
    if (!isShown(element)) continue;
    const kind = kindOf(axis, element);
    svg.append(
      s("rect", { x: x(element), y: 0, width: cell - 1, height: cell - 1, class: `nw-cell nw-cell-${kind}` }),
    );
    if (cell >= 14)
      svg.append(
        s(
          "text",
          { x: x(element) + (cell - 1) / 2, y: cell / 2 + 3, class: "nw-bench-number" },
          kind === "padding" ? "0" : kind === "beyond" ? "" : String(element),
        ),
      );
  }
  if (isCut) svg.append(s("text", { x: half * cell + cell / 2, y: cell / 2 + 4, class: "nw-dots" }, "⋯"));
  windows.forEach((start, line) => {
    const y = cell + 8 + line * ROW;
    const end = start + (axis.kernel - 1) * axis.dilation;
    svg.append(s("line", { x1: x(start) + 2, x2: x(end) + cell - 3, y1: y, y2: y, class: "nw-bench-span" }));
    for (let tap = 0; tap < axis.kernel; tap += 1) {
      const element = start + tap * axis.dilation;
      svg.append(
        s("circle", {
          cx: x(element) + (cell - 1) / 2,
          cy: y,
          r: 3,
          class: `nw-tap nw-tap-${kindOf(axis, element)}`,
        }),
      );
    }
  });
  return svg;
}

function kindOf(axis: Axis, element: number): "pixel" | "padding" | "beyond" | "unread" {
  if (element < 0) return "padding";
  if (element >= axis.size + axis.end) return "beyond";
  if (element >= axis.size) return "padding";
  return element > lastEnd(axis) ? "unread" : "pixel";
}
