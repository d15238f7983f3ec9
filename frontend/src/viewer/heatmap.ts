/** The heat map: what of the document, or of the user's own data, is laid over the boxes, with its scale. */

import { interpolateRgb } from "d3";

import { h } from "./dom.ts";
import { type Heat, hotColour } from "./draw/paint.ts";
import type { Box, Scene } from "./draw/scene.ts";
import { MEASURES, type Measure, heat, measured, ticks } from "./model/measures.ts";
import { BOTH } from "./model/model.ts";
import { type OwnData, type OwnValue, ownHeat, ownValues } from "./model/owndata.ts";
import { realText } from "./model/wording.ts";

/** What is shown: a measure, own data, or nothing. */
export type Shown = Measure | OwnData | null;

export type HeatOf = (box: Box, side: number) => Heat;

const STEPS = 12;

export class HeatMap {
  readonly legend = h("aside", {
    class: "nw-heatlegend",
    "aria-label": "Scale of the heat map",
    hidden: true,
  });
  private shown: Shown = null;

  constructor(private readonly numNets: number) {}

  get current(): Shown {
    return this.shown;
  }

  /** What is laid over the boxes of a scene from now on; null for nothing. */
  over(scene: Scene, shown: Shown): HeatOf | null {
    this.shown = shown;
    this.legend.hidden = shown === null;
    if (shown === null) return null;
    return typeof shown === "string" ? this.ofMeasure(scene, shown) : this.ofOwnData(scene, shown);
  }

  private ofMeasure(scene: Scene, measure: Measure): HeatOf {
    const { words, meaning, scale, text } = MEASURES[measure];
    const sides = this.perBox(scene, (box, side) =>
      measured(
        scene.model,
        scene.leaves(box.id).map((leaf) => scene.model.union[leaf]!),
        side,
        measure,
      ),
    );
    const most = Math.max(...sides.flatMap((values) => [...values.values()].map((v) => v ?? 0)), 0);
    this.explain(words, `${meaning}; ${scale} scale`, ticks(most, scale).map(text), hotColour);
    return (box, side) => {
      const values = (side === BOTH ? [0, 1] : [side]).map((one) => sides[one]?.get(box.id) ?? null);
      const known = values.filter((value) => value !== null);
      const texts = known.map((value) => (value ? text(value) : ""));
      const worst = known.length ? Math.max(...known) : null;
      return { heat: heat(worst, most, scale), text: [...new Set(texts)].filter(Boolean).join(" ≠ ") };
    };
  }

  private ofOwnData(scene: Scene, data: OwnData): HeatOf {
    const sides = this.perBox(scene, (box, side) =>
      ownValues(
        scene.model,
        scene.leaves(box.id).map((leaf) => scene.model.union[leaf]!),
        side,
        data,
      ),
    );
    const colour = (share: number): string => gradientColour(data, share) ?? hotColour(share);
    const middle = (data.least + data.most) / 2;
    this.explain(
      data.name,
      "your own data; linear scale",
      [data.least, middle, data.most].map(realText),
      colour,
    );
    return (box, side) => {
      const found = (side === BOTH ? [0, 1] : [side]).flatMap((one) => sides[one]?.get(box.id) ?? []);
      return ownLook(found, data, colour);
    };
  }

  private perBox<T>(scene: Scene, value: (box: Box, side: number) => T): Map<number, T>[] {
    return Array.from(
      { length: this.numNets },
      (_, side) => new Map(scene.boxes.map((box) => [box.id, value(box, side)])),
    );
  }

  private explain(title: string, words: string, marks: string[], colour: (share: number) => string): void {
    const steps = Array.from({ length: STEPS }, (_, step) => {
      const cell = h("i", {});
      cell.style.background = colour(step / (STEPS - 1));
      return cell;
    });
    this.legend.replaceChildren(
      h("b", {}, title),
      h("span", { class: "nw-heatwords" }, words),
      h(
        "div",
        { class: "nw-heatscale" },
        h("div", { class: "nw-heatbar", "aria-hidden": "true" }, ...steps),
        h("div", { class: "nw-heatticks" }, ...marks.map((mark) => h("span", {}, mark || "0"))),
      ),
    );
  }
}

/** Of several values in one box the largest, which says how many there are. */
function ownLook(found: OwnValue[], data: OwnData, colour: (share: number) => string): Heat {
  const [first] = found;
  if (!first) return { heat: 0, text: "" };
  const worst = found.reduce((a, b) => ((b.number ?? -Infinity) > (a.number ?? -Infinity) ? b : a), first);
  const isSame = found.every(({ text }) => text === worst.text);
  const text = isSame ? worst.text : `≤ ${worst.text}`;
  if (worst.number === null) return { heat: 0, text, colour: worst.colour };
  const share = ownHeat(worst.number, data);
  return { heat: share, text, colour: worst.colour ?? (data.gradient.length ? colour(share) : undefined) };
}

function gradientColour({ gradient }: OwnData, share: number): string | null {
  const after = gradient.findIndex(([stop]) => stop >= share);
  if (!gradient.length) return null;
  if (after <= 0) return gradient.at(after === 0 ? 0 : -1)![1];
  const [[start, from], [end, to]] = [gradient[after - 1]!, gradient[after]!];
  return interpolateRgb(from, to)((share - start) / Math.max(end - start, 1e-9));
}
