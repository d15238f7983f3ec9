/** The page: what is selected, folded and shown, and the parts that show it. */

import { h } from "./dom.ts";
import { Arrangement, type Panel } from "./arrangement.ts";
import type { Box, Frame } from "./draw/scene.ts";
import { Scene } from "./draw/scene.ts";
import { Stage } from "./draw/stage.ts";
import { savePng, saveSvg } from "./export.ts";
import { HeatMap, type Shown } from "./heatmap.ts";
import { LayoutClient } from "./layout/client.ts";
import { linkTo, readLink } from "./link.ts";
import type { Document } from "./model/document.ts";
import { idleItems } from "./model/idle.ts";
import { LOOKS } from "./model/looks.ts";
import type { Measure } from "./model/measures.ts";
import { type OwnData, matches, parseOwnData } from "./model/owndata.ts";
import { BOTH, type Model, type View, isNode } from "./model/model.ts";
import { type Direction, neighbour } from "./model/neighbours.ts";
import { buildModel } from "./model/union.ts";
import { helpDialog } from "./panels/help.ts";
import { Lab } from "./panels/lab.ts";
import { Inspector } from "./panels/inspector.ts";
import type { ArrayAddress } from "./panels/parameters.ts";
import type { FixActions } from "./panels/patch.ts";
import { Sidebar } from "./panels/sidebar.ts";
import { Toolbar } from "./panels/toolbar.ts";
import { pause } from "./pause.ts";

/** Where the page can be reached by others, and what whoever copies the address should know. */
export interface Address {
  /** Empty for the address of the page itself. */
  url: string;
  note: string;
  /** The page belongs to somebody else: its address is neither read nor changed. */
  isEmbedded?: boolean;
}

/** Pixels between a message and what is below it. */
const TOAST_GAP = 18;

export class App {
  readonly stage: Stage;
  readonly sidebar: Sidebar;
  private readonly toolbar: Toolbar;
  private readonly inspector: Inspector;
  private readonly arrangement: Arrangement;
  private readonly heatMap: HeatMap;
  private ownData: OwnData | null = null;
  private readonly help: HTMLDialogElement;
  private readonly lab = new Lab(
    (id) => void this.select(id),
    () => this.keepFocus(),
  );
  /** Says to a screen reader what is selected; those who see, see it. */
  private readonly live = h("div", { class: "nw-hidden", "aria-live": "polite" });
  private readonly toast = h("div", { class: "nw-toast", role: "status", hidden: true });
  private toastTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly busy = h("div", { class: "nw-busy", hidden: true }, "Laying out …");
  private readonly models = new Map<View, Model>();
  private readonly clients = new Map<View, LayoutClient>();
  private readonly scenes = new Map<View, { scene: Scene; open: Set<number>; folded: Set<number> }>();
  /** Items that do nothing at inference, by view, and whether they are drawn. */
  private readonly idle = new Map<View, Set<number>>();
  private showsIdle = false;
  /** The layer that was selected last; a fold that is opened around it selects it again. */
  private lastLayer: number | null = null;
  private scene!: Scene;
  private open = new Set<number>();
  private view: View = "layers";
  private selected: number | null = null;
  private side = 0;

  constructor(
    private readonly element: HTMLElement,
    private readonly document: Document,
    private readonly address: Address,
    /** Where the page stands in a workbench: what applies fixes, and has the arrays. */
    bench: { fixes: FixActions | null; arrays: ArrayAddress | null },
    /** Where a page that has a head of its own wants the verdict and the tools. */
    private readonly head: HTMLElement | null = null,
  ) {
    this.help = helpDialog(document);
    this.stage = new Stage(document.nets, {
      clicked: (hit, side) => this.clicked(hit, side),
      opened: (hit) => void this.opened(hit),
    });
    this.heatMap = new HeatMap(document.nets.length);
    this.sidebar = new Sidebar(
      (id) => void this.chosen(id),
      () => this.focusDetails(),
    );
    this.inspector = new Inspector({
      copyLink: () => void this.copyLink(),
      toggleFold: (id) => void this.toggleFold(id),
      select: (id) => void this.select(id),
      ...bench,
      openLab: (id) => this.openLab(id),
    });
    this.toolbar = new Toolbar(
      document,
      {
        setView: (view) => void this.setView(view),
        setHeat: (shown) => this.setHeat(shown === "own" ? this.ownData : shown),
        ownData: (text, name) => this.takeOwnData(text, name),
        say: (text) => this.say(text),
        toggleOverlay: () => this.toggleOverlay(),
        togglePanel: (panel) => this.togglePanel(panel),
        foldAll: (isOpen) => void this.foldAll(isOpen),
        toggleIdle: () => void this.toggleIdle(),
        zoomBy: (factor) => this.stage.zoomBy(factor),
        fit: () => this.stage.fit(),
        step: (by) => void this.step(by),
        save: (kind) => void this.save(kind),
        help: () => this.help.showModal(),
        lab: () => this.openLab(this.selected),
      },
      head ? "p" : "h1",
    );
    const isPair = document.kind === "comparison";
    this.arrangement = new Arrangement(
      { list: this.sidebar.element, nets: this.stage.element, details: this.inspector.element },
      isPair ? "Differences" : "Layers",
      isPair ? "Nets" : "Net",
      () => this.showPanels(),
    );
    this.build();
    this.showPanels();
    // two panes beside each other are too narrow to read on a phone
    if (isPair && this.arrangement.isPhone) this.toggleOverlay();
    // of one net the drawing comes first; of two, what differs
    if (!isPair) this.arrangement.showPart("nets");
  }

  /** Lay out and show; resolves when the first picture is on the page. */
  async start(): Promise<void> {
    const link = readLink(this.hash());
    await this.setView(link?.view ?? "layers");
    addEventListener("hashchange", () => void this.arrive());
    await this.arrive();
    performance.mark("netweave-shown");
    this.element.dataset["state"] = "shown";
    this.element.dispatchEvent(new CustomEvent("netweave-shown", { detail: this }));
  }

  /** Select an item or a fold, and bring it into sight; null selects nothing. */
  async select(
    id: number | null,
    options: { side?: number; keepsLink?: boolean; stays?: boolean; isStep?: boolean } = {},
  ): Promise<void> {
    if (id !== null && !this.scene.isFold(id)) {
      this.lastLayer = id;
      if (this.leftOut.has(id)) return this.toggleIdle(id);
      if (!this.scene.byId.has(id)) await this.unfoldTo(id);
    }
    this.selected = id;
    const box = id === null ? undefined : this.scene.shown(id);
    if (box) {
      const side = options.side !== undefined && box.present[options.side]! ? options.side : null;
      this.side = side ?? (box.present[this.side]! ? this.side : box.present[0] ? 0 : 1);
      if (!options.stays) this.stage.reveal(box);
    }
    this.stage.highlight({ selected: id });
    this.sidebar.select(id);
    this.inspector.show(this.scene, id);
    this.showPosition();
    this.announce();
    if (!this.address.isEmbedded && !options.keepsLink && (id === null || !this.scene.isFold(id))) {
      const address = id === null ? location.pathname + location.search : this.link();
      // the browser's own keys lead back through the findings, and not through every box that was looked at
      if (options.isStep && address !== location.hash) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
  }

  async step(by: number): Promise<void> {
    const { differences } = this.sidebar;
    if (!differences.length) return this.say("There are no differences.");
    const order = new Map(this.scene.model.order.map((id, place) => [id, place]));
    const at = this.selected === null ? -1 : (order.get(this.firstOf(this.selected)) ?? -1);
    const places = differences.map((id) => order.get(id)!);
    const next =
      by > 0 ? places.findIndex((place) => place > at) : places.findLastIndex((place) => place < at);
    const wrapped = next >= 0 ? next : by > 0 ? 0 : differences.length - 1;
    await this.select(differences[wrapped]!, { isStep: true });
  }

  async move(direction: Direction): Promise<void> {
    const from = this.selected === null ? undefined : this.scene.shown(this.selected);
    const next = neighbour(this.scene, from, direction, this.stage.isOverlay ? BOTH : this.side);
    if (next) await this.select(next.id);
  }

  moveToSide(side: number): void {
    if (side === BOTH) return;
    const box = this.selected === null ? undefined : this.scene.shown(this.selected);
    if (!box || box.present[side]!) this.side = side;
  }

  async setView(view: View): Promise<void> {
    if (view === this.view && this.scenes.has(view)) return;
    const names = this.selectedNames();
    this.view = view;
    if (!this.scenes.has(view)) {
      await this.working(async () => {
        await pause();
        const model = this.models.get(view) ?? (await buildModel(this.document, view));
        await pause();
        const client = this.clients.get(view) ?? new LayoutClient();
        this.models.set(view, model);
        this.clients.set(view, client);
        if (!this.idle.has(view)) this.idle.set(view, idleItems(model));
        const { layout, tree, ...rest } = await client.start(model, this.leftOut);
        this.scenes.set(view, { scene: new Scene(model, tree, layout), ...rest });
      });
    }
    const kept = this.scenes.get(view)!;
    this.scene = kept.scene;
    this.open = kept.open;
    this.toolbar.showView(view);
    this.toolbar.showIdle(this.idle.get(view)?.size ?? 0, this.showsIdle);
    this.sidebar.show(this.scene.model, this.leftOut);
    this.showScene();
    await this.select(this.named(names), { keepsLink: true });
  }

  /** Draw what does nothing at inference, or leave it out; then select an item. */
  async toggleIdle(selected: number | null = this.selected): Promise<void> {
    this.showsIdle = !this.showsIdle;
    this.scenes.clear();
    const chosen = selected !== null && this.scene.isFold(selected) ? null : selected;
    this.selected = null;
    await this.setView(this.view);
    await this.select(chosen !== null && this.leftOut.has(chosen) ? null : chosen);
  }

  /** What is not drawn now. */
  private get leftOut(): ReadonlySet<number> {
    return (this.showsIdle ? undefined : this.idle.get(this.view)) ?? new Set();
  }

  async toggleFold(id: number | null = this.selected): Promise<void> {
    if (id === null) return;
    const fold = this.scene.isFold(id) ? id : this.scene.parents[id]!;
    if (fold < 0) return this.say("This layer is not in a block.");
    const isOpen = this.open.has(fold) && !this.scene.byId.has(fold);
    const open = new Set(this.open);
    if (isOpen) open.delete(fold);
    else open.add(fold);
    const leaf = this.chiefLayer(fold);
    await this.relay(open, leaf);
    await this.select(isOpen ? fold : (this.scene.shown(leaf)?.id ?? leaf), { stays: true });
  }

  async foldAll(isOpen: boolean): Promise<void> {
    const count = this.scene.model.union.length;
    const { folded } = this.scenes.get(this.view)!;
    const open = isOpen ? new Set(this.scene.tree.folds.map((_, index) => count + index)) : folded;
    const leaf = this.selected === null ? null : this.chiefLayer(this.selected);
    await this.relay(open, leaf ?? 0);
    if (!isOpen) this.stage.fit();
    const shown = leaf === null ? undefined : this.scene.shown(leaf);
    await this.select(shown?.id ?? null, { keepsLink: true });
  }

  /** Show a measure or the user's own data as heat; null for neither. */
  setHeat(shown: Shown | Measure): void {
    this.stage.highlight({ heatOf: this.heatMap.over(this.scene, shown) });
    this.placeToast();
  }

  /** Lay the user's own figures over the nets. */
  takeOwnData(text: string, name: string): void {
    let data: OwnData;
    try {
      data = parseOwnData(text, name);
    } catch (error) {
      return this.say(`${name} cannot be shown. ${error instanceof Error ? error.message : String(error)}`);
    }
    const found = matches(this.scene.model, data);
    if (!found) {
      const [first] = data.values.keys();
      return this.say(
        `${name}: none of its ${data.values.size} names is a layer or operator here; the first is “${first}”.`,
      );
    }
    this.ownData = data;
    this.toolbar.showOwnData(data.name);
    this.setHeat(data);
    this.say(`${name}: ${found} of ${data.values.size} names are in the nets.`);
  }

  toggleOverlay(): void {
    if (this.document.nets.length < 2) return;
    this.stage.setOverlay(!this.stage.isOverlay);
    this.toolbar.showOverlay(this.stage.isOverlay);
    this.keepFocus();
  }

  togglePanel(panel: Panel): void {
    this.arrangement.toggle(panel);
    this.keepFocus();
  }

  focusList(): void {
    this.arrangement.open("list");
    this.sidebar.focusList();
  }

  search(): void {
    this.arrangement.open("list");
    this.sidebar.focusSearch();
  }

  nextMeasure(): void {
    this.toolbar.nextMeasure();
  }

  openLab(id: number | null = this.selected): void {
    this.lab.open(this.scene.model, id);
  }

  showHelp(): void {
    this.help.showModal();
  }

  focusDetails(): void {
    this.arrangement.open("details");
    this.inspector.element.focus();
  }

  async copyLink(): Promise<void> {
    if (this.selected === null) return this.say("Nothing is selected.");
    const { url, note, isEmbedded } = this.address;
    if (isEmbedded && !url) return this.say("This drawing has no address of its own.");
    const link = new URL(this.link(), url || location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      this.say(`Link copied. ${note}`);
    } catch {
      this.say(`The browser does not allow copying. The link is ${link} ${note}`);
    }
  }

  async save(kind: "svg" | "png"): Promise<void> {
    const name = this.document.title.replace(/[^\w.-]+/g, "-").slice(0, 80) || "net";
    try {
      if (kind === "svg") saveSvg(this.scene, this.stage, name);
      else {
        const pages = await savePng(this.scene, this.stage, name);
        if (pages > 1) this.say(`Saved as ${pages} pictures, since the net is too large for one.`);
      }
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
  }

  private build(): void {
    const hint = h(
      "p",
      { id: "nw-keys-hint", class: "nw-hidden" },
      "Arrow keys move along the net, n and p step through differences, f collapses or expands a block, Enter moves to the details, ? lists all keys.",
    );
    this.element.classList.add("nw-viewer");
    this.stage.element.append(hint, this.busy, this.heatMap.legend, this.toolbar.drawing);
    if (this.head) {
      this.head.classList.add("nw-head");
      this.head.replaceChildren(this.toolbar.element);
    }
    this.element.replaceChildren(
      ...(this.head ? [] : [this.toolbar.element]),
      this.arrangement.body,
      this.arrangement.tabs,
      this.help,
      this.lab.element,
      this.live,
      this.toast,
    );
  }

  private async unfoldTo(id: number): Promise<void> {
    const open = new Set(this.open);
    for (let at = this.scene.parents[id]!; at >= 0; at = this.scene.parents[at]!) open.add(at);
    await this.relay(open, id);
  }

  /** Lay out anew with other folds open, and keep an item where it is on the screen. */
  private async relay(open: Set<number>, anchor: number): Promise<void> {
    const before = this.scene.shown(anchor);
    const screenY = before ? this.stage.onScreen(before.y) : 0;
    try {
      await this.working(async () => {
        const { tree, layout, folded } = await this.clients.get(this.view)!.layout(open);
        this.scene = new Scene(this.scene.model, tree, layout);
        this.open = open;
        this.scenes.set(this.view, { scene: this.scene, open, folded });
      });
    } catch (error) {
      // what is drawn stays, and can be used
      return this.say(
        `The blocks could not be laid out anew. ${error instanceof Error ? error.message : ""}`,
      );
    }
    this.showScene();
    const after = this.scene.shown(anchor);
    if (before && after) this.stage.hold(after.y, screenY);
  }

  private showScene(): void {
    this.stage.show(this.scene);
    this.setHeat(this.heatMap.current);
    this.element.dataset["boxes"] = String(this.scene.boxes.length);
  }

  private async working(task: () => Promise<void>): Promise<void> {
    const timer = setTimeout(() => (this.busy.hidden = false), 150);
    try {
      await task();
    } finally {
      clearTimeout(timer);
      this.busy.hidden = true;
    }
  }

  private clicked(hit: Box | Frame | undefined, side: number): void {
    if (side !== BOTH) this.side = side;
    const isFrame = hit !== undefined && !("status" in hit);
    if (isFrame) void this.toggleFold(hit.id);
    else void this.select(hit?.id ?? null, { side: this.side, stays: true });
  }

  /** Something was chosen in the list; on a phone its details come, which say what is wrong. */
  private async chosen(id: number): Promise<void> {
    await this.select(id, { isStep: true });
    if (!this.arrangement.isNarrow) return;
    this.arrangement.open("details");
    if (this.arrangement.isPhone) this.keepFocus();
  }

  /** Give the focus to what is in sight, if what had it is hidden or gone. */
  private keepFocus(): void {
    const focused = document.activeElement;
    if (focused !== document.body && focused?.checkVisibility()) return;
    const { canvases, element: nets } = this.stage;
    const details = this.inspector.element;
    const places = [
      ...(nets.contains(focused) ? [...canvases, details] : [details, ...canvases]),
      this.sidebar.element,
    ];
    const place = places.find((element) => element.checkVisibility());
    if (place === this.sidebar.element) this.sidebar.focusList();
    else place?.focus();
  }

  private showPanels(): void {
    if (!this.arrangement) return; // while it is being made
    for (const panel of ["list", "details"] as const)
      this.toolbar.showPanel(panel, this.arrangement.isOpen(panel));
  }

  private async opened(hit: Box | Frame): Promise<void> {
    if ("status" in hit && hit.isFold) await this.toggleFold(hit.id);
  }

  /** The layer that stands for a fold: the one selected last, else the gravest difference in it, else the first. */
  private chiefLayer(id: number): number {
    const leaves = this.scene.leaves(id);
    if (this.lastLayer !== null && leaves.includes(this.lastLayer)) return this.lastLayer;
    const weight = (leaf: number): number => LOOKS[this.scene.model.union[leaf]!.status].weight;
    return leaves.reduce((worst, leaf) => (weight(leaf) > weight(worst) && weight(leaf) >= 6 ? leaf : worst));
  }

  private firstOf(id: number): number {
    return this.scene.leaves(id)[0]!;
  }

  private hash(): string {
    return this.address.isEmbedded ? "" : location.hash;
  }

  private link(): string {
    return linkTo(this.scene.model, this.selected!, this.side);
  }

  /** Go where the address says, else to the first difference. */
  private async arrive(): Promise<void> {
    if (await this.follow()) return;
    const [first] = this.sidebar.differences;
    if (first !== undefined) await this.select(first, { keepsLink: true });
  }

  /** Go where the address says; say whether it names something here. */
  private async follow(): Promise<boolean> {
    const link = readLink(this.hash());
    if (!link) return false;
    await this.setView(link.view);
    const id = this.idOf(link.side, link.name);
    if (id === null) {
      this.say(`There is no ${link.name} here.`);
      return false;
    }
    await this.select(id, { side: link.side, keepsLink: true });
    return true;
  }

  private idOf(side: number, name: string): number | null {
    const { items, owner } = this.scene.model;
    const list = items[side] ?? [];
    const index = list.findIndex((item) => ("key" in item ? item.key : item.name) === name);
    return owner[side]?.[index] ?? null;
  }

  /** Names of what is selected, so that it is found again in the other view. */
  private selectedNames(): string[][] {
    if (this.selected === null || this.scene.isFold(this.selected)) return [];
    return this.document.nets.map((net, side) => {
      const { model } = this.scene;
      return model.union[this.selected!]!.members[side]!.flatMap((index) => {
        const item = model.items[side]![index]!;
        if (isNode(item)) return item.layers.map((number) => net.layers[number]!.key);
        return net.nodes.filter((node) => node.layers.includes(index)).map((node) => node.name);
      });
    });
  }

  private named(names: string[][]): number | null {
    for (const [side, list] of names.entries()) {
      for (const name of list) {
        const id = this.idOf(side, name);
        if (id !== null) return id;
      }
    }
    return null;
  }

  private showPosition(): void {
    const { differences } = this.sidebar;
    const at = this.selected === null ? -1 : differences.indexOf(this.selected);
    const total = differences.length;
    this.toolbar.showPosition(total ? `${at < 0 ? "–" : at + 1} / ${total}` : "none");
  }

  private announce(): void {
    if (this.selected === null) return;
    const { model } = this.scene;
    if (this.scene.isFold(this.selected)) {
      this.tell(
        `${this.scene.foldTitle(this.selected, this.side)}, ${this.scene.leaves(this.selected).length} items`,
      );
      return;
    }
    const item = model.union[this.selected]!;
    const names = item.members.map((members, side) =>
      members
        .map((index) => `${model.items[side]![index]!.name}, ${model.items[side]![index]!.type}`)
        .join(" and "),
    );
    const sides = names.map((name, side) =>
      name && model.nets.length > 1 ? `${"AB"[side]}: ${name}` : name,
    );
    this.tell([...sides.filter(Boolean), LOOKS[item.status].words].join("; "));
  }

  /** Above the scale of the heat map, which is read at the same moment. */
  private placeToast(): void {
    const { legend } = this.heatMap;
    const bottom = this.element.getBoundingClientRect().bottom;
    const covered = legend.checkVisibility() ? bottom - legend.getBoundingClientRect().top : 0;
    this.toast.style.bottom = `${covered + TOAST_GAP}px`;
  }

  private tell(text: string): void {
    this.live.textContent = text;
  }

  /** Answers whoever pressed a button, for as long as it takes to read. */
  private say(text: string): void {
    this.toast.textContent = text;
    this.toast.hidden = false;
    this.placeToast();
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => (this.toast.hidden = true), 3000 + 50 * text.length);
  }
}
