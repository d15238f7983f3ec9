/**
 * Which parts of the page are there. The list and the details can be closed; in a narrow window the details are a
 * drawer over the nets, and a phone shows one part at a time.
 */

import { h } from "./dom.ts";

export type Panel = "list" | "details";
/** What a phone shows. */
type Part = "list" | "nets" | "details";

const PHONE = "(max-width: 760px)";
/** As in viewer.css. */
const NARROW = "(max-width: 1000px)";
const KEPT = "netweave-closed-panels";

export class Arrangement {
  readonly body: HTMLElement;
  /** Leads from part to part on a phone. */
  readonly tabs: HTMLElement;
  private readonly buttons = new Map<Part, HTMLButtonElement>();
  private readonly closed: Set<Panel>;
  /** The details of a narrow window; they come when something is chosen, and cover the nets. */
  private isDrawerOpen = false;

  constructor(
    parts: { list: HTMLElement; nets: HTMLElement; details: HTMLElement },
    listName: string,
    netsName: string,
    private readonly changed: () => void,
  ) {
    this.body = h("div", { class: "nw-body" }, parts.list, parts.nets, parts.details);
    const tab = (part: Part, words: string): HTMLButtonElement => {
      const button = h("button", { type: "button", onclick: () => this.showPart(part) }, words);
      this.buttons.set(part, button);
      return button;
    };
    this.tabs = h(
      "div",
      { class: "nw-parts", role: "group", "aria-label": "Part of the page" },
      tab("list", listName),
      tab("nets", netsName),
      tab("details", "Details"),
    );
    this.closed = new Set(kept());
    this.showPart("list");
    this.apply();
    for (const query of [PHONE, NARROW]) matchMedia(query).addEventListener("change", () => this.apply());
  }

  get isPhone(): boolean {
    return matchMedia(PHONE).matches;
  }

  get isNarrow(): boolean {
    return matchMedia(NARROW).matches;
  }

  isOpen(panel: Panel): boolean {
    return this.isDrawer(panel) ? this.isDrawerOpen : !this.closed.has(panel);
  }

  private isDrawer(panel: Panel): boolean {
    return panel === "details" && this.isNarrow && !this.isPhone;
  }

  toggle(panel: Panel): void {
    if (this.isDrawer(panel)) {
      this.isDrawerOpen = !this.isDrawerOpen;
      return this.apply();
    }
    if (!this.closed.delete(panel)) this.closed.add(panel);
    try {
      localStorage.setItem(KEPT, [...this.closed].join());
    } catch {
      // a page from a file may keep nothing
    }
    this.apply();
  }

  open(panel: Panel): void {
    if (!this.isOpen(panel)) this.toggle(panel);
    if (this.isPhone) this.showPart(panel);
  }

  /** On a phone, go to a part; on a wide page all are there. */
  showPart(part: Part): void {
    this.body.dataset["part"] = part;
    for (const [name, button] of this.buttons) button.setAttribute("aria-pressed", String(name === part));
  }

  private apply(): void {
    for (const panel of ["list", "details"] as const)
      this.body.toggleAttribute(`data-no-${panel}`, !this.isOpen(panel));
    this.changed();
  }
}

function kept(): Panel[] {
  try {
    const names = (localStorage.getItem(KEPT) ?? "").split(",");
    return (["list", "details"] as const).filter((panel) => names.includes(panel));
  } catch {
    return [];
  }
}
