/** A list of any length of which only the rows in sight are elements; one tab stop, arrows move in it. */

import { h } from "../dom.ts";
import { LOOKS, type ItemStatus } from "../model/looks.ts";

export interface ListRow {
  id: number;
  status: ItemStatus;
  title: string;
  note: string;
}

const ROW_HEIGHT = 46;
const SPARE = 6;

export class VirtualList {
  readonly element: HTMLElement;
  private rows: ListRow[] = [];
  private active = -1;
  private readonly inner = h("div", { class: "nw-list-inner", role: "presentation" });
  private readonly prefix = `nw-row-${Math.random().toString(36).slice(2, 7)}`;

  constructor(
    label: string,
    private readonly chosen: (id: number) => void,
    private readonly opened: () => void,
  ) {
    this.element = h(
      "div",
      {
        class: "nw-list",
        role: "listbox",
        tabindex: 0,
        "aria-label": label,
        onscroll: () => this.render(),
        onkeydown: (event: KeyboardEvent) => this.key(event),
      },
      this.inner,
    );
    new ResizeObserver(() => this.render()).observe(this.element);
  }

  show(rows: ListRow[], selected: number | null): void {
    this.rows = rows;
    this.inner.style.height = `${Math.max(rows.length * ROW_HEIGHT, 1)}px`;
    this.element.scrollTop = 0;
    this.select(selected);
  }

  select(id: number | null): void {
    this.active = id === null ? -1 : this.rows.findIndex((row) => row.id === id);
    if (this.active >= 0) this.scrollTo(this.active);
    this.render();
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 1);
    const last = this.rows.length - 1;
    const targets: Record<string, number> = {
      ArrowDown: Math.min(this.active + 1, last),
      ArrowUp: Math.max(this.active - 1, 0),
      PageDown: Math.min(this.active + page, last),
      PageUp: Math.max(this.active - page, 0),
      Home: 0,
      End: last,
    };
    const target = targets[event.key];
    if (event.key === "Enter" && this.active >= 0) this.opened();
    else if (target !== undefined && target >= 0) this.chosen(this.rows[target]!.id);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private scrollTo(index: number): void {
    const { scrollTop, clientHeight } = this.element;
    const top = index * ROW_HEIGHT;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW_HEIGHT > scrollTop + clientHeight) {
      this.element.scrollTop = top + ROW_HEIGHT - clientHeight;
    }
  }

  private render(): void {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - SPARE);
    const end = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + SPARE);
    const shown = this.rows.slice(first, end).map((row, index) => this.row(row, first + index));
    const isHidden = this.active >= 0 && (this.active < first || this.active >= end);
    if (isHidden) shown.push(this.row(this.rows[this.active]!, this.active));
    this.inner.replaceChildren(...shown);
    if (this.active >= 0) this.element.setAttribute("aria-activedescendant", `${this.prefix}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private row(row: ListRow, index: number): HTMLElement {
    const look = LOOKS[row.status];
    const element = h(
      "div",
      {
        class: "nw-row",
        id: `${this.prefix}-${index}`,
        role: "option",
        "aria-selected": String(index === this.active),
        "aria-setsize": this.rows.length,
        "aria-posinset": index + 1,
        "data-id": row.id,
        "data-status": row.status,
        onclick: () => this.chosen(row.id),
      },
      h("span", { class: "nw-mark", "aria-hidden": "true" }, look.mark),
      h("span", { class: "nw-row-title", title: row.title }, row.title),
      h("span", { class: "nw-row-note", title: row.note }, row.note),
      h("span", { class: "nw-hidden" }, look.words),
    );
    element.style.top = `${index * ROW_HEIGHT}px`;
    return element;
  }
}
