/** The head of the page: the verdict, and what can be done. */

import { h } from "../dom.ts";
import type { ComparisonDocument, Document } from "../model/document.ts";
import { verdictLook } from "../model/looks.ts";
import { MEASURES, type Measure, isMeasure, knownMeasures } from "../model/measures.ts";
import { MAX_BYTES } from "../model/owndata.ts";
import type { View } from "../model/model.ts";

export interface ToolbarActions {
  setView: (view: View) => void;
  /** Show a measure, the user's own data, or nothing as heat. */
  setHeat: (shown: Measure | "own" | null) => void;
  ownData: (text: string, name: string) => void;
  say: (text: string) => void;
  toggleOverlay: () => void;
  togglePanel: (panel: "list" | "details") => void;
  foldAll: (isOpen: boolean) => void;
  toggleIdle: () => void;
  zoomBy: (factor: number) => void;
  fit: () => void;
  step: (by: number) => void;
  save: (kind: "svg" | "png") => void;
  help: () => void;
  lab: () => void;
}

export class Toolbar {
  readonly element: HTMLElement;
  /** Stands in a corner of the drawing. */
  readonly drawing: HTMLElement;
  private readonly views = new Map<View, HTMLButtonElement>();
  private readonly position = h("span", { class: "nw-position", role: "status" });
  private readonly measure: HTMLSelectElement;
  private readonly file: HTMLInputElement;
  private readonly overlay: HTMLButtonElement;
  private readonly idle: HTMLButtonElement;
  private readonly panels: Record<"list" | "details", HTMLButtonElement>;

  constructor(
    document: Document,
    private readonly actions: ToolbarActions,
    /** What the sentence is: the heading of the page, if the page has no other. */
    heading: "h1" | "p",
  ) {
    this.measure = h(
      "select",
      { "aria-label": "Heat map of the layers", onchange: () => this.measureChosen() },
      h("option", { value: "" }, "Heat map: off"),
      ...knownMeasures({ document, nets: document.nets }).map((value) =>
        h("option", { value }, MEASURES[value].words),
      ),
    );
    this.file = h("input", {
      type: "file",
      accept: ".json,.csv,.tsv,.txt",
      class: "nw-hidden",
      tabindex: -1,
      "aria-label": "Your own data, JSON or CSV",
      onchange: () => void this.fileChosen(),
    });
    const { toggleOverlay, togglePanel } = this.actions;
    this.overlay = button("Overlay", "Overlay: both nets as one graph (v)", toggleOverlay, "v");
    this.idle = button("", "", () => this.actions.toggleIdle());
    this.drawing = h(
      "div",
      { class: "nw-tools nw-corner", role: "toolbar", "aria-label": "Drawing" },
      group(
        "Blocks",
        button("⊟", "Collapse all blocks", () => this.actions.foldAll(false)),
        button("⊞", "Expand all blocks", () => this.actions.foldAll(true)),
      ),
      group(
        "Zoom",
        button("−", "Zoom out (-)", () => this.actions.zoomBy(1 / 1.3), "-"),
        button("+", "Zoom in (+)", () => this.actions.zoomBy(1.3), "+"),
        button("Fit", "Fit to the window (0)", () => this.actions.fit(), "0"),
      ),
    );
    this.panels = {
      list: button("◧", "List (left bracket)", () => togglePanel("list"), "["),
      details: button("◨", "Details (right bracket)", () => togglePanel("details"), "]"),
    };
    this.showOverlay(false);
    this.element = h("div", { class: "nw-header" }, verdictPart(document, heading), this.tools(document));
  }

  showView(view: View): void {
    for (const [name, button] of this.views) button.setAttribute("aria-pressed", String(name === view));
  }

  /** Say how many items do nothing at inference, and whether they are drawn. */
  showIdle(count: number, isShown: boolean): void {
    this.idle.hidden = !count;
    const words = `${count.toLocaleString("en")} idle`;
    this.idle.textContent = words;
    this.idle.title = `${isShown ? "Hide" : "Show"} what does nothing at inference`;
    this.idle.setAttribute("aria-label", `${words}: what does nothing at inference`);
    this.idle.setAttribute("aria-pressed", String(isShown));
  }

  showPosition(text: string): void {
    this.position.textContent = text;
  }

  /** Take the next measure for heat, and after the last none. */
  nextMeasure(): void {
    this.measure.selectedIndex = (this.measure.selectedIndex + 1) % this.measure.options.length;
    this.measureChosen();
  }

  showOverlay(isOn: boolean): void {
    this.overlay.setAttribute("aria-pressed", String(isOn));
  }

  showPanel(panel: "list" | "details", isOpen: boolean): void {
    this.panels[panel].setAttribute("aria-pressed", String(isOpen));
  }

  /** Offer the user's own data among the measures, and choose it. */
  showOwnData(name: string): void {
    const known = [...this.measure.options].find(({ value }) => value === "own");
    const option = known ?? h("option", { value: "own" });
    option.textContent = `Own: ${name}`;
    if (!known) this.measure.append(option);
    this.measure.value = "own";
  }

  private measureChosen(): void {
    const { value } = this.measure;
    this.actions.setHeat(value === "own" || isMeasure(value) ? value : null);
  }

  private async fileChosen(): Promise<void> {
    const [file] = this.file.files ?? [];
    if (!file) return;
    if (file.size > MAX_BYTES)
      this.actions.say(
        `${file.name}: is larger than ${MAX_BYTES / 1e6} MB, the most that is laid over nets.`,
      );
    else this.actions.ownData(await file.text(), file.name);
    this.file.value = ""; // so that the same file may be chosen again
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
    return h(
      "div",
      { class: "nw-tools", role: "toolbar", "aria-label": "Tools" },
      steps,
      this.viewMenu(document),
      group("Panels", this.panels.list, this.panels.details),
      button("?", "Keys and marks (?)", () => actions.help(), "?"),
    );
  }

  /** What changes how the nets are shown, out of the way until it is wanted. */
  private viewMenu(document: Document): HTMLElement {
    const { actions } = this;
    const isPair = document.nets.length > 1;
    const hasNodes = document.nets.some((net) => net.nodes.length);
    const views = hasNodes
      ? group("View", this.viewButton("layers", "Layers"), this.viewButton("operators", "Operators"))
      : null;
    const words = "Your own data on the nets: JSON or CSV of values by node name";
    return h(
      "details",
      { class: "nw-menu" },
      h("summary", { title: "How the nets are shown" }, "View"),
      h(
        "div",
        { class: "nw-menu-panel" },
        views,
        isPair ? this.overlay : null,
        this.idle,
        this.measure,
        button("Own data …", words, () => this.file.click()),
        this.file,
        button(
          "Padding lab",
          "Padding lab: windows of convolutions and poolings (w)",
          () => actions.lab(),
          "w",
        ),
        group(
          "Save",
          button("SVG", "Save as SVG", () => actions.save("svg")),
          button("PNG", "Save as PNG", () => actions.save("png")),
        ),
      ),
    );
  }

  private viewButton(view: View, words: string): HTMLButtonElement {
    const key = view[0]!;
    const made = button(words, `Show ${view} (${key})`, () => this.actions.setView(view), key);
    this.views.set(view, made);
    return made;
  }
}

function verdictPart(document: Document, heading: "h1" | "p"): HTMLElement {
  if (document.kind === "net") {
    return h("div", { class: "nw-verdict" }, h(heading, { class: "nw-sentence" }, document.title));
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
    h(heading, { class: "nw-sentence", title: document.sentence }, withoutVerdict(document)),
  );
}

/** What the headline says besides the verdict, which stands in front of it. */
function withoutVerdict({ sentence, headline, verdict }: ComparisonDocument): string {
  const shown = headline ?? sentence;
  return shown.startsWith(`${verdict}:`) || shown.startsWith(`${verdict} in `)
    ? shown.slice(verdict.length).replace(/^:? /, "")
    : shown;
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
