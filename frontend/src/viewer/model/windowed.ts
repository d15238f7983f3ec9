/** All convolutions and poolings of a document with the windows of both nets, those that differ first. */

import { LOOKS, type ItemStatus } from "./looks.ts";
import { type Model, type UnionItem, counterparts } from "./model.ts";
import type { Item } from "./document.ts";
import { type Axis, type Windows, windowsOf } from "./windows.ts";

export interface WindowedRow {
  id: number;
  status: ItemStatus;
  names: string[];
  windows: (Windows | null)[];
  /** Whether the two sides have other windows. */
  differs: boolean;
}

export function windowedRows(model: Model): WindowedRow[] {
  const rows = model.order.flatMap((id): WindowedRow[] => {
    const item = model.union[id]!;
    const windows = model.nets.map((net, side) => {
      const found = nodesOf(model, item, side).map((node) => windowsOf(net, node));
      return found.find((one) => one !== null && one.axes.some((axis) => axis.kernel > 1)) ?? null;
    });
    if (!windows.some(Boolean)) return [];
    const names = model.nets.map((_, side) =>
      item.members[side]!.map((index) => model.items[side]![index]!.name).join(", "),
    );
    return [{ id, status: item.status, names, windows, differs: windowsDiffer(windows) }];
  });
  const weight = (row: WindowedRow): number => (row.differs ? 100 : 0) + LOOKS[row.status].weight;
  return rows
    .map((row, place) => ({ row, place }))
    .sort((a, b) => Number(weight(b.row) >= 6) - Number(weight(a.row) >= 6) || a.place - b.place)
    .map(({ row }) => row);
}

/** Nodes of one side of an item, in the order of the net. */
export function nodesOf(model: Model, item: UnionItem, side: number): Item[] {
  if (!model.nets[side]) return [];
  if (model.view === "operators") return item.members[side]!.map((index) => model.items[side]![index]!);
  const grouped = [...new Set(item.groups.flatMap((group) => group.nodes[side]!))];
  if (grouped.length) return grouped.sort((a, b) => a - b).map((index) => model.nets[side]!.nodes[index]!);
  return item.members[side]!.flatMap((index) => counterparts(model, side, index));
}

/** An axis in one line: `k3 s2, pads 1 and 0, 32 → 16`. */
export function axisText(axis: Axis): string {
  const dilation = axis.dilation > 1 ? ` d${axis.dilation}` : "";
  const sizes = Number.isNaN(axis.size) ? "" : `, ${axis.size} → ${axis.count}`;
  return `k${axis.kernel} s${axis.stride}${dilation}, pads ${axis.begin} and ${axis.end}${sizes}`;
}

/** Both axes in one line, one of them where they are alike. */
export function windowsText(windows: Windows | null): string {
  if (!windows) return "–";
  const texts = windows.axes.map(axisText);
  return [...new Set(texts)].join("; ");
}

function windowsDiffer([a, b]: (Windows | null)[]): boolean {
  if (!a || !b) return false;
  // one net may see the image turned: then the axes have changed places
  const first = a.axes.map(axisText);
  const second = b.axes.map(axisText);
  return first.join() !== second.join() && first.join() !== [...second].reverse().join();
}
