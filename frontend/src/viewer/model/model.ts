/**
 * The union of two nets: items that hold what stands for each other on both sides, and edges between them.
 *
 * The page shows layers or operators. An item of the layer view holds the layers of one group, or of several
 * groups that share a layer; an item of the operator view holds the nodes of one group. What is in no group
 * (inputs, views, dropout) is an item by itself, joined with its like on the other side if it stands at the
 * same place. `union.ts` makes the items, `edges.ts` joins them, `order.ts` puts them in order.
 */

import type { Document, Group, Item, Layer, Net, Node } from "./document.ts";
import type { ItemStatus } from "./looks.ts";

export type View = "layers" | "operators";

/** A pane's side: 0 for A, 1 for B, and this for the two laid over each other. */
export const BOTH = 2;

export interface UnionItem {
  /** Indices into `Model.items`, of A and of B. */
  members: [number[], number[]];
  groups: Group[];
  status: ItemStatus;
  findings: number[];
}

export interface Edge {
  source: number;
  target: number;
  /** Bit 0: the edge is in A; bit 1: in B. */
  sides: number;
  /** Goes against the order that both nets share; it is drawn, but takes no part in the layout. */
  back: boolean;
}

/** A value that so many read that its edges would hide the net: its readers carry its name instead. */
export interface Stub {
  source: number;
  target: number;
  side: number;
  value: string;
}

export interface Model {
  view: View;
  document: Document;
  nets: Net[];
  /** Layers or nodes of each side; after those of the net, its inputs that no layer makes. */
  items: Item[][];
  /** Union item of each item, by side. */
  owner: number[][];
  union: UnionItem[];
  edges: Edge[];
  stubs: Stub[];
  /** Union items in an order in which both nets can be read. */
  order: number[];
}

/** The layer or node with its place in a file, whichever it is. */
export function placeOf(item: Item): string {
  if (!isLayer(item) || !item.file) return "";
  return item.line ? `${item.file}:${item.line}` : item.file;
}

export function isLayer(item: Item): item is Layer {
  return "key" in item;
}

export function isNode(item: Item): item is Node {
  return "layers" in item;
}

/** The nodes behind a layer, or the layers behind a node. */
export function counterparts(model: Model, side: number, index: number): Item[] {
  const net = model.nets[side]!;
  if (model.view === "operators") {
    return (net.nodes[index]?.layers ?? []).map((number) => net.layers[number]!);
  }
  return nodesOfLayers(net)[index] ?? [];
}

const nodesByNet = new WeakMap<Net, Node[][]>();

function nodesOfLayers(net: Net): Node[][] {
  let found = nodesByNet.get(net);
  if (!found) {
    found = net.layers.map(() => []);
    for (const node of net.nodes) for (const layer of node.layers) found[layer]?.push(node);
    nodesByNet.set(net, found);
  }
  return found;
}
