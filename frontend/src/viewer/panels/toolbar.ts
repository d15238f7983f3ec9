/** The head of the page: the verdict, and what can be done. */

import { h } from "../dom.ts";
import type { ComparisonDocument, Document } from "../model/document.ts";
import { verdictLook } from "../model/looks.ts";
import { MEASURES, type Measure } from "../model/measures.ts";
import type { View } from "../model/model.ts";

export interface ToolbarActions {
  setView: (view: View) => void;
  setMeasure: (measure: Measure | null) => void;
  foldAll: (isOpen: boolean) => void;
  zoomBy: (factor: number) => void;
  fit: () => void;
  step: (by: number) => void;
  save: (kind: "svg" | "png") => void;
  help: () => void;
  lab: () => void;
}

export class Toolbar {
  readonly element: HTMLElement;
  private readonly views = new Map<View, HTMLButtonElement>();
  private readonly position = h("span", { class: "nw-position", role: "status" });
  private readonly measure: HTMLSelectElement;

  constructor(
    document: Document,
    private readonly actions: ToolbarActions,
  ) {
    this.measure = h(
      "select",
      { "aria-label": "Heat map of the layers", onchange: () => this.measureChosen() },
      h("option", { value: "" }, "Heat map: off"),
      ...Object.entries(MEASURES)
        .filter(([name]) => document.kind === "comparison" || name !== "error")
        .map(([value, { words }]) => h("option", { value }, words)),
    );
    this.element = h("header", { class: "nw-header" }, verdictPart(document), this.tools(document));
  }

  showView(view: View): void {
    for (const [name, button] of this.views) button.setAttribute("aria-pressed", String(name === view));
  }

  showPosition(text: string): void {
    this.position.textContent = text;
  }

  /** Take the next measure for heat, and after the last none. */
  nextMeasure(): void {
    this.measure.selectedIndex = (this.measure.selectedIndex + 1) % this.measure.options.length;
    this.measureChosen();
  }

  private measureChosen(): void {
    this.actions.setMeasure((this.measure.value || null) as Measure | null);
  }

  private tools(document: Document): HTMLElement {
    const { actions } = this;
    const steps =
      document.kind === "comparison"
        ? group(
            "Differences",
            button("‹", "Previous difference (p)", () => actions.step(-1), "p"),
            this.position,
            button("›", "Next difference (n)", () => actions.step(1), "n"),
          )
        : null;
    const hasNodes = document.nets.some((net) => net.nodes.length);
    const views = hasNodes
      ? group("View", this.viewButton("layers", "Layers"), this.viewButton("operators", "Operators"))
      : null;
    return h(
      "div",
      { class: "nw-tools", role: "toolbar", "aria-label": "Tools" },
      steps,
      views,
      this.measure,
      group(
        "Blocks",
        button("⊟", "Collapse all blocks", () => actions.foldAll(false)),
        button("⊞", "Expand all blocks", () => actions.foldAll(true)),
      ),
      group(
        "Zoom",
        button("−", "Zoom out (-)", () => actions.zoomBy(1 / 1.3), "-"),
        button("+", "Zoom in (+)", () => actions.zoomBy(1.3), "+"),
        button("Fit", "Fit to the window (0)", () => actions.fit(), "0"),
      ),
      group(
        "Export",
        button("SVG", "Save as SVG", () => actions.save("svg")),
        button("PNG", "Save as PNG", () => actions.save("png")),
      ),
      button("Padding", "Padding lab: windows of convolutions and poolings (w)", () => actions.lab(), "w"),
      button("?", "Keys and marks (?)", () => actions.help(), "?"),
    );
  }

  private viewButton(view: View, words: string): HTMLButtonElement {
    const key = view[0]!;
    const made = button(words, `Show ${view} (${key})`, () => this.actions.setView(view), key);
    this.views.set(view, made);
    return made;
  }
}

function verdictPart(document: Document): HTMLElement {
  if (document.kind === "net") {
    return h("div", { class: "nw-verdict" }, h("h1", { class: "nw-sentence" }, document.title));
  }
  const { mark, words, key } = verdictLook(document);
  return h(
    "div",
    { class: "nw-verdict" },
    h(
      "span",
      { class: "nw-chip nw-chip-large", "data-verdict": key },
      h("span", { class: "nw-mark" }, mark),
      `${words[0]!.toUpperCase()}${words.slice(1)}`,
    ),
    h("h1", { class: "nw-sentence", title: document.sentence }, withoutVerdict(document)),
  );
}

/** What the sentence says besides the verdict, which stands in front of it. */
function withoutVerdict({ sentence, verdict }: ComparisonDocument): string {
  return sentence.startsWith(`${verdict}: `) ? sentence.slice(verdict.length + 2) : sentence;
}

function button(text: string, label: string, act: () => void, key?: string): HTMLButtonElement {
  const attributes = {
    type: "button",
    title: label,
    "aria-label": label,
    "aria-keyshortcuts": key,
    onclick: act,
  };
  return h("button", attributes, text);
}

function group(label: string, ...parts: HTMLElement[]): HTMLElement {
  return h("div", { class: "nw-group", role: "group", "aria-label": label }, ...parts);
}
