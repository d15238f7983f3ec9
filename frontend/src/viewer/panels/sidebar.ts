/** The left side: search, the list of differences or of everything, and the legend, which filters the list. */

import { h } from "../dom.ts";
import { causeOfFinding, functionOf, numPlaces, repeatedFindings } from "../model/causes.ts";
import type { Cause } from "../model/document.ts";
import { LOOKS, STATUSES, type ItemStatus } from "../model/looks.ts";
import type { Model } from "../model/model.ts";
import { SearchIndex } from "../model/search.ts";
import { counted } from "../model/wording.ts";
import { type ListRow, VirtualList } from "./list.ts";

type Filter = ItemStatus | "differences" | "all";

export class Sidebar {
  readonly element: HTMLElement;
  /** Items that "next" and "previous" step through, in the order of the nets: of each cause its first place. */
  differences: number[] = [];
  private readonly list: VirtualList;
  private readonly search: HTMLInputElement;
  private readonly tabs: HTMLElement;
  private readonly legend: HTMLElement;
  private readonly count: HTMLElement;
  /** The verdict, where the head of the page has no room for it. */
  private readonly said: HTMLElement;
  private model!: Model;
  private drawn: number[] = [];
  private index!: SearchIndex;
  private causes = new Map<number, Cause>();
  private filter: Filter = "all";
  private buttons: { filter: Filter; element: HTMLElement }[] = [];
  private selected: number | null = null;

  constructor(
    private readonly chosen: (id: number) => void,
    opened: () => void,
  ) {
    this.list = new VirtualList("Layers", chosen, opened);
    this.search = h("input", {
      class: "nw-search",
      type: "search",
      placeholder: "Search",
      "aria-label": "Search layers by name, type or shape",
      "aria-keyshortcuts": "/",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.refresh(),
      onkeydown: (event: KeyboardEvent) => this.searchKey(event),
    });
    this.tabs = h("div", { class: "nw-tabs", role: "group", "aria-label": "What the list shows" });
    this.count = h("p", { class: "nw-count", role: "status" });
    this.legend = h("div", { class: "nw-legend", role: "group", "aria-label": "Show only" });
    const searchBox = h(
      "div",
      { class: "nw-searchbox" },
      this.search,
      h("kbd", { "aria-hidden": "true" }, "/"),
    );
    this.said = h("p", { class: "nw-said", "aria-hidden": "true" });
    this.element = h(
      "nav",
      { class: "nw-sidebar", "aria-label": "Layers and differences" },
      ...[this.said, searchBox, this.tabs, this.count, this.list.element, this.legend],
    );
  }

  /** Show the items of a model, without those that are not drawn unless they are searched. */
  show(model: Model, leftOut: ReadonlySet<number>): void {
    this.model = model;
    const shown = model.document;
    this.said.textContent = shown.kind === "comparison" ? (shown.headline ?? shown.sentence) : "";
    this.causes = causeOfFinding(shown);
    const repeated = repeatedFindings(shown);
    this.drawn = model.order.filter((id) => !leftOut.has(id));
    this.index = new SearchIndex(model);
    this.differences = model.order.filter((id) => {
      const item = model.union[id]!;
      if (item.findings.length) return item.findings.some((number) => !repeated.has(number));
      return LOOKS[item.status].isDifference;
    });
    this.filter = this.differences.length ? "differences" : "all";
    const hadFocus = this.buttons.some(({ element }) => element === document.activeElement);
    this.buttons = [];
    this.showTabs();
    this.showLegend();
    if (hadFocus) this.focusList();
    this.refresh();
  }

  select(id: number | null): void {
    this.selected = id;
    this.list.select(id);
  }

  focusList(): void {
    this.list.element.focus();
  }

  focusSearch(): void {
    this.search.focus();
    this.search.select();
  }

  private searchKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.search.value = "";
      this.refresh();
      this.focusList();
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      const [first] = this.found();
      if (first !== undefined) {
        this.focusList(); // first, since on a phone the details then take the place of the list
        this.chosen(first);
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private found(): number[] {
    const query = this.search.value.trim();
    if (query) return this.index.find(query);
    if (this.filter === "all") return this.drawn;
    if (this.filter === "differences") return this.differences;
    return this.model.order.filter((id) => this.model.union[id]!.status === this.filter);
  }

  private refresh(): void {
    const found = this.found();
    this.list.show(
      found.map((id) => this.row(id)),
      this.selected,
    );
    const query = this.search.value.trim();
    this.count.textContent = query ? `${counted(found.length, "match", "matches")} of “${query}”` : "";
    for (const { filter, element } of this.buttons)
      element.setAttribute("aria-pressed", String(query === "" && this.filter === filter));
  }

  private showTabs(): void {
    const noun = this.model.view === "layers" ? "layers" : "operators";
    const tabs = [
      ["differences", "Differences", this.differences.length],
      ["all", noun[0]!.toUpperCase() + noun.slice(1), this.drawn.length],
    ] as const;
    const shown = this.model.document.kind === "comparison" ? tabs : tabs.slice(1);
    this.tabs.replaceChildren(
      ...shown.map(([filter, words, count]) =>
        this.filterButton(filter, words, ` ${count.toLocaleString("en")}`),
      ),
    );
  }

  private showLegend(): void {
    const counts = new Map<ItemStatus, number>();
    for (const { status } of this.model.union) counts.set(status, (counts.get(status) ?? 0) + 1);
    const shown = STATUSES.filter((status) => counts.has(status) && LOOKS[status].words);
    this.legend.replaceChildren(
      ...shown.map((status) => {
        const { mark, words } = LOOKS[status];
        const button = this.filterButton(status, words, ` ${counts.get(status)}`);
        button.dataset["status"] = status;
        button.prepend(h("span", { class: "nw-mark", "aria-hidden": "true" }, mark));
        return button;
      }),
    );
  }

  private filterButton(filter: Filter, words: string, count: string): HTMLElement {
    const act = (): void => {
      this.search.value = "";
      this.filter = this.filter === filter ? "all" : filter;
      this.refresh();
    };
    const number = h("span", { class: "nw-number" }, count);
    const element = h("button", { type: "button", onclick: act }, words, number);
    this.buttons.push({ filter, element });
    return element;
  }

  private row(id: number): ListRow {
    const { union, items, document } = this.model;
    const item = union[id]!;
    const names = item.members.map((members, side) => members.map((index) => items[side]![index]!));
    const titles = names.map((list) => list.map((entry) => entry.name).join(", ")).filter(Boolean);
    const types = names.map((list) => list.map((entry) => entry.type).join(", ")).filter(Boolean);
    const cause = this.causes.get(item.findings[0] ?? -1);
    const count = cause ? numPlaces(document, cause) : 0;
    const places = count > 1 ? `${count} places: ` : "";
    const title = [...new Set(titles)].join("  ·  ");
    const [a, b] = item.groups[0]?.functions ?? [];
    if (cause && a && b && a !== b)
      return { id, status: item.status, title: `${a} ≠ ${b}`, note: `${places}${title}` };
    const name = functionOf(item, item.members[0].length ? 0 : 1);
    return {
      id,
      status: item.status,
      title: [name, title].filter(Boolean).join(": "),
      note: cause ? `${places}${cause.text}` : [...new Set(types)].join("  ·  "),
    };
  }
}
