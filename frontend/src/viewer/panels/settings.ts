/** Settings of both sides: as computed, in ONNX's words and line by line; and as each source wrote them. */

import { h } from "../dom.ts";
import type { Item } from "../model/document.ts";

/** What ONNX takes where an attribute is missing; lists stand for any number of axes. */
const DEFAULTS: Record<string, string> = {
  strides: "1",
  dilations: "1",
  pads: "0",
  output_padding: "0",
  group: "1",
  ceil_mode: "0",
  count_include_pad: "0",
  storage_order: "0",
  auto_pad: "NOTSET",
  epsilon: "1e-05",
  momentum: "0.9",
  training_mode: "0",
  transA: "0",
  transB: "0",
  alpha: "1",
  beta: "1",
  keepdims: "1",
};

/** Pairs of nodes that are shown beside each other: those of one type, in order. */
export function pairNodes(a: Item[], b: Item[]): [Item | undefined, Item | undefined][] {
  const free = [...b];
  const pairs: [Item | undefined, Item | undefined][] = a.map((item) => {
    const place = free.findIndex((other) => plainType(other) === plainType(item));
    return [item, place < 0 ? undefined : free.splice(place, 1)[0]];
  });
  for (const pair of pairs) if (!pair[1] && free.length === 1 && pairs.length === 1) pair[1] = free.pop();
  return [...pairs, ...free.map((item): [undefined, Item] => [undefined, item])];
}

function plainType(item: Item): string {
  return item.type.replace(/^netweave::/, "");
}

/** A table of attributes, those that differ marked. */
export function computedTable(pair: [Item | undefined, Item | undefined], sides: number): HTMLElement | null {
  const maps = pair.map((item) => new Map(item?.settings));
  const names = [...new Set(pair.flatMap((item) => item?.settings.map(([name]) => name) ?? []))];
  const types = pair.map((item) => item?.type ?? "");
  const rows = names.map((name) => {
    const values = maps.map((map, side) => (pair[side] ? (map.get(name) ?? defaultOf(name)) : ""));
    const differs = sides > 1 && Boolean(pair[0] && pair[1]) && !isSame(values[0]!, values[1]!);
    return row(name, values.slice(0, sides), differs);
  });
  const differs = sides > 1 && Boolean(pair[0] && pair[1]) && types[0] !== types[1];
  const head = row("operator", types.slice(0, sides), differs, "th");
  return h("table", { class: "nw-table" }, h("thead", {}, head), h("tbody", {}, ...rows));
}

function defaultOf(name: string): string {
  return DEFAULTS[name] ?? "–";
}

/** Whether two values are the same, one number standing for a list of it. */
function isSame(a: string, b: string): boolean {
  if (a === b) return true;
  const [listA, listB] = [a.split(","), b.split(",")];
  const length = Math.max(listA.length, listB.length);
  const at = (list: string[], index: number): number => Number(list.length === 1 ? list[0] : list[index]);
  return Array.from({ length }, (_, index) => at(listA, index) === at(listB, index)).every(Boolean);
}

/** The settings as the sources wrote them; names that both know stand on one line. */
export function writtenTable(a: Item | undefined, b: Item | undefined, sides: number): HTMLElement | null {
  const maps = [new Map(a?.settings), new Map(b?.settings)];
  const names = [...new Set([...maps[0]!.keys(), ...maps[1]!.keys()])];
  if (!names.length) return null;
  const rows = names.map((name) =>
    row(
      name,
      maps.slice(0, sides).map((map) => map.get(name) ?? ""),
      false,
    ),
  );
  return h("table", { class: "nw-table" }, h("tbody", {}, ...rows));
}

/** A name of several words, which may be broken between them and not within one. */
function breakable(name: string): string {
  return name.replace(/([a-z])(?=[A-Z])/g, "$1\u200b");
}

/** A row with a name and the values of both sides; a difference is marked by a sign as well as by colour. */
export function row(name: string, values: string[], differs: boolean, cell: "td" | "th" = "td"): HTMLElement {
  const sign = differs ? h("span", { class: "nw-sign", role: "img", "aria-label": "differs" }, "≠") : null;
  return h(
    "tr",
    { class: differs ? "nw-differs" : null },
    h("th", { scope: "row" }, name, sign),
    ...values.map((value) =>
      h(cell, cell === "th" ? { scope: "col" } : {}, (cell === "th" ? breakable(value) : value) || "\u00a0"),
    ),
  );
}
