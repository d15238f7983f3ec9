/** The panes, which move as one, and the minimap beside them. */

import {
  type D3ZoomEvent,
  type ZoomBehavior,
  type ZoomTransform,
  select,
  zoom,
  zoomIdentity,
  zoomTransform,
} from "d3";

import { h } from "../dom.ts";
import type { Net } from "../model/document.ts";
import { BOTH } from "../model/model.ts";
import type { Painting } from "./paint.ts";
import { Pane } from "./pane.ts";
import type { Box, Frame, Scene } from "./scene.ts";
import { Strip } from "./strip.ts";
import { Fitter } from "./surface.ts";
import { type Theme, readTheme } from "./theme.ts";

export interface StageActions {
  clicked: (hit: Box | Frame | undefined, side: number) => void;
  opened: (hit: Box | Frame) => void;
}

type Highlights = Pick<Painting, "selected" | "heatOf">;

const PADDED = 400;
const MIN_SCALE = 0.02;
const MAX_SCALE = 3;
const LEGIBLE_AT_FIRST = 0.72;

export class Stage {
  readonly element: HTMLElement;
  /** A pane for each net and, of two, one for both laid over each other. */
  readonly panes: Pane[];
  readonly fitter = new Fitter();
  theme!: Theme;
  private readonly strip: Strip;
  private readonly zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  private scene: Scene | undefined;
  private transform: ZoomTransform = zoomIdentity;
  private highlights: Highlights = { selected: null, heatOf: null };
  private frame = 0;
  private lastSize: { width: number; height: number } | undefined;
  private hasView = false;
  /** The least scale that was asked for when the whole width was last fitted; null once somebody moved. */
  private fittedTo: number | null = null;

  constructor(
    nets: Net[],
    private readonly actions: StageActions,
  ) {
    this.panes = nets.map((net, side) => new Pane(side, paneLabel(net, nets.length > 1 ? "AB"[side]! : "")));
    if (nets.length > 1) this.panes.push(new Pane(BOTH, overlayLabel(nets)));
    this.strip = new Strip((x, y) => this.centre(x, y, this.transform.k));
    this.element = h(
      "section", // the page around it, ours or the workbench's, has the main landmark
      { class: "nw-stage", "aria-label": nets.length > 1 ? "Both nets" : "The net" },
      ...this.panes.map((pane) => paneElement(pane, nets)),
      h("div", { class: "nw-stripbox" }, this.strip.canvas),
    );
    this.element.dataset["mode"] = "beside";
    this.element.style.setProperty("--panes", String(nets.length));
    this.zoom = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([MIN_SCALE, MAX_SCALE])
      .filter((event: MouseEvent) =>
        event.type === "wheel" ? event.ctrlKey || event.metaKey : !event.button,
      )
      .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => this.moved(event.transform));
    for (const pane of this.panes) this.listen(pane);
    new ResizeObserver(() => this.resized()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  /** Whether both nets are drawn as one graph. */
  get isOverlay(): boolean {
    return this.element.dataset["mode"] === "overlay";
  }

  /** The sides that are drawn now. */
  get sides(): number[] {
    return this.visible.map((pane) => pane.side);
  }

  setOverlay(isOn: boolean): void {
    if (this.panes.length < 2) return;
    this.element.dataset["mode"] = isOn ? "overlay" : "beside";
    this.element.style.setProperty("--panes", String(this.sides.length));
    this.resized();
  }

  get canvases(): HTMLCanvasElement[] {
    return this.visible.map((pane) => pane.canvas);
  }

  private get visible(): Pane[] {
    return this.panes.filter((pane) => (pane.side === BOTH) === this.isOverlay);
  }

  show(scene: Scene): void {
    this.scene = scene;
    this.theme ??= readTheme(this.element);
    const { width, height } = scene.layout;
    this.zoom.translateExtent([
      [-PADDED, -PADDED],
      [width + PADDED, height + PADDED],
    ]);
    for (const pane of this.panes) pane.resize();
    this.firstView();
    this.strip.show(scene, this.theme);
    this.redraw();
  }

  highlight(highlights: Partial<Highlights>): void {
    this.highlights = { ...this.highlights, ...highlights };
    this.redraw();
  }

  get selected(): number | null {
    return this.highlights.selected;
  }

  get heatOf(): Highlights["heatOf"] {
    return this.highlights.heatOf;
  }

  /** Show the whole, or as much of it as is legible at a scale. */
  fit(least = 0.25): void {
    const pane = this.visible[0];
    if (!pane?.width || !this.scene) return;
    this.setTransform(pane.fitted(this.scene, least));
    this.fittedTo = least;
  }

  zoomBy(factor: number): void {
    const pane = this.visible[0];
    if (pane) this.zoom.scaleBy(select(pane.canvas), factor);
  }

  /** Where on the screen a height of the layout is, and the way back; to keep things in place. */
  onScreen(y: number): number {
    return this.transform.applyY(y);
  }

  /** Move so that a height of the layout is at a height of the screen. */
  hold(y: number, screenY: number): void {
    const { k, x } = this.transform;
    this.setTransform(zoomIdentity.translate(x, screenY - y * k).scale(k));
  }

  /** Bring a box into sight, if it is not well in sight already. */
  reveal(box: Box): void {
    const pane = this.visible[0]!;
    if (!pane.width) return;
    const x = box.x + box.width / 2;
    const y = box.y + box.height / 2;
    const [screenX, screenY] = this.transform.apply([x, y]);
    const isLegible = this.transform.k >= 0.5;
    const isInSight =
      screenX > 90 && screenX < pane.width - 90 && screenY > 60 && screenY < pane.height - 60 && isLegible;
    const scale = isLegible ? this.transform.k : 0.9;
    if (!isInSight) this.centre(this.middleAround(y, scale) ?? x, y, scale);
  }

  /** The middle of what will be seen around a height, if a pane has room for the whole of it; else null. */
  private middleAround(y: number, scale: number): number | null {
    const pane = this.visible[0]!;
    const reach = pane.height / 2 / scale;
    const seen = this.scene!.boxes.filter((box) => box.y < y + reach && box.y + box.height > y - reach);
    const left = Math.min(...seen.map((box) => box.x));
    const right = Math.max(...seen.map((box) => box.x + box.width));
    return (right - left) * scale <= pane.width - 24 ? (left + right) / 2 : null;
  }

  centre(x: number, y: number, scale: number): void {
    const pane = this.visible[0];
    if (!pane) return;
    const { width } = this.scene!.layout;
    const fits = width * scale <= pane.width - 24;
    const left = fits ? (pane.width - width * scale) / 2 : pane.width / 2 - x * scale;
    this.setTransform(zoomIdentity.translate(left, pane.height / 2 - y * scale).scale(scale));
  }

  redraw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.scene) return;
      for (const pane of this.visible)
        pane.draw(this.scene, this.transform, this.theme, this.fitter, this.highlights);
      this.drawView();
    });
  }

  private recolour(): void {
    this.theme = readTheme(this.element);
    if (this.scene) this.strip.show(this.scene, this.theme);
    this.redraw();
  }

  private drawView(): void {
    const pane = this.visible[0]!;
    const [left, top] = this.transform.invert([0, 0]);
    const [right, bottom] = this.transform.invert([pane.width, pane.height]);
    this.strip.drawView(left, top, right, bottom, this.theme);
  }

  private resized(): void {
    const before = this.lastSize;
    for (const pane of this.panes) pane.resize();
    const pane = this.visible[0]!;
    if (!this.scene || !pane.width) return;
    this.lastSize = { width: pane.width, height: pane.height };
    if (!this.hasView) this.firstView();
    else if (before && (before.width !== pane.width || before.height !== pane.height)) this.refit(before);
    this.strip.show(this.scene, this.theme);
    this.redraw();
  }

  /** Show the beginning, once there is room to show it in. */
  private firstView(): void {
    const pane = this.visible[0]!;
    if (this.hasView || !pane.width) return;
    this.hasView = true;
    this.lastSize = { width: pane.width, height: pane.height };
    this.fit(LEGIBLE_AT_FIRST);
    const chosen = this.selected === null ? undefined : this.scene!.shown(this.selected);
    if (chosen) this.reveal(chosen);
  }

  /** After a change of size: fit anew what was fitted; else keep the middle, and the selected box in sight. */
  private refit(before: { width: number; height: number }): void {
    const pane = this.visible[0]!;
    const scene = this.scene!;
    if (this.fittedTo !== null) return this.fit(this.fittedTo);
    const { k } = this.transform;
    const room = (size: number): number => (size - 32) / Math.max(scene.layout.width, 1);
    // a net that was shown in its whole width is shown so again, as far as names stay legible
    const wasWhole = k <= room(before.width) + 0.01;
    const wanted = wasWhole ? Math.max(Math.min(1, room(pane.width)), Math.min(k, LEGIBLE_AT_FIRST)) : k;
    const [x, y] = this.transform.invert([before.width / 2, before.height / 2]);
    this.centre(x, y, wanted);
    const chosen = this.selected === null ? undefined : scene.shown(this.selected);
    if (chosen) this.reveal(chosen);
  }

  private moved(transform: ZoomTransform): void {
    this.transform = transform;
    this.fittedTo = null;
    // what d3 remembers of the other panes, so that a gesture there goes on from here
    // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- d3 keeps it there, untyped
    for (const pane of this.panes) (pane.canvas as { __zoom?: ZoomTransform }).__zoom = transform;
    this.redraw();
  }

  private setTransform(transform: ZoomTransform): void {
    const pane = this.visible[0];
    if (pane) this.zoom.transform(select(pane.canvas), transform);
  }

  private listen(pane: Pane): void {
    const { canvas } = pane;
    select(canvas).call(this.zoom).on("dblclick.zoom", null);
    const hitAt = (event: MouseEvent): Box | Frame | undefined => {
      const [x, y] = zoomTransform(canvas).invert([event.offsetX, event.offsetY]);
      return this.scene?.at(x, y, pane.side);
    };
    canvas.addEventListener("click", (event) => this.actions.clicked(hitAt(event), pane.side));
    canvas.addEventListener("dblclick", (event) => {
      const hit = hitAt(event);
      if (hit) this.actions.opened(hit);
    });
    canvas.addEventListener("mousemove", (event) =>
      this.hover(canvas, event.buttons ? undefined : hitAt(event), pane.side),
    );
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 18 : 1;
        const [dx, dy] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
        const { k } = this.transform;
        this.zoom.translateBy(select(canvas), (-dx * unit) / k, (-dy * unit) / k);
      },
      { passive: false },
    );
  }

  private hover(canvas: HTMLCanvasElement, hit: Box | Frame | undefined, side: number): void {
    canvas.style.cursor = hit ? "pointer" : "grab";
    const isBox = hit && "status" in hit;
    const rows = isBox ? this.scene!.rows(hit, side) : [];
    const text = rows.map((row) => row.words).join("\n\n");
    if (canvas.title !== text) canvas.title = text;
  }
}

function paneLabel(net: Net, letter: string): string {
  const name = `${letter ? `Net ${letter}: ` : ""}${net.name}, ${net.format}, ${net.layers.length} layers`;
  return `${name}. Arrow keys move along the net.`;
}

function overlayLabel(nets: Net[]): string {
  return `Both nets as one graph: ${nets.map(({ name }) => name).join(" and ")}. Arrow keys move along it.`;
}

function overlayElement(pane: Pane, nets: Net[]): HTMLElement {
  const key = (letter: string, status: string, words: string, name = ""): HTMLElement =>
    h(
      "span",
      { class: "nw-key", "data-status": status, title: name },
      h("span", { class: "nw-swatch" }),
      letter ? h("span", { class: "nw-letter" }, letter) : null,
      h("b", {}, words),
    );
  return h(
    "section",
    { class: "nw-pane", "data-side": pane.side, "aria-label": "Both nets" },
    h(
      "header",
      { class: "nw-panehead" },
      key("A", "ONLY_A", "only in A", nets[0]!.name),
      key("B", "ONLY_B", "only in B", nets[1]!.name),
      key("", "PLAIN", "in both"),
    ),
    h("div", { class: "nw-canvasbox" }, pane.canvas),
  );
}

function paneElement(pane: Pane, nets: Net[]): HTMLElement {
  const { side } = pane;
  if (side === BOTH) return overlayElement(pane, nets);
  const net = nets[side]!;
  const letter = nets.length > 1 ? h("span", { class: "nw-letter" }, "AB"[side]) : null;
  return h(
    "section",
    { class: "nw-pane", "data-side": side, "aria-label": nets.length > 1 ? `Net ${"AB"[side]}` : "Net" },
    h(
      "header",
      { class: "nw-panehead" },
      letter,
      h("b", {}, net.name),
      h("span", {}, net.format),
      h("span", { class: "nw-place", title: net.files.join(", ") }, net.files.join(", ")),
    ),
    h("div", { class: "nw-canvasbox" }, pane.canvas),
  );
}
