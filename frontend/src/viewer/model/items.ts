/** What the union is made of: the layers or nodes of a net, and the groups that hold them together. */

import type { Document, Group, Item, Net } from "./document.ts";
import { LOOKS, type ItemStatus } from "./looks.ts";
import type { View } from "./model.ts";

/** Names of the inputs that a comparison gave to a net; labels are not among them. */
export function givenInputs(document: Document, side: number): Set<string> | null {
  if (document.kind === "net" || !document.groups.length) return null;
  return new Set(document.inputs.map((mapping) => (side === 0 ? mapping.a : mapping.b)));
}

/** Layers or nodes, and an item for each input of the net that none of them makes. */
export function itemsOf(net: Net, view: View, given: Set<string> | null): Item[] {
  const items: Item[] = [...(view === "layers" ? net.layers : net.nodes)];
  const made = new Set(items.flatMap((item) => item.outputs));
  const read = new Set(items.flatMap((item) => item.inputs));
  for (const value of net.inputs) {
    if (made.has(value) || !read.has(value)) continue;
    const name = net.values[value]?.[0] ?? "";
    if (given && !given.has(name)) continue;
    items.push({
      name,
      type: "input",
      settings: [],
      inputs: [],
      outputs: [value],
      parameters: [],
      cost: null,
    });
  }
  return items;
}

/** Groups that share a layer, together; in the operator view none do. */
export function joined(groups: Group[], key: "layers" | "nodes"): Group[][] {
  const parent = groups.map((_, index) => index);
  const find = (index: number): number => {
    let root = index;
    while (parent[root] !== root) root = parent[root]!;
    parent[index] = root;
    return root;
  };
  const first: Map<number, number>[] = [new Map<number, number>(), new Map<number, number>()];
  groups.forEach((group, index) => {
    group[key].forEach((list, side) => {
      for (const member of list) {
        const other = first[side]?.get(member);
        if (other === undefined) first[side]?.set(member, index);
        else parent[Math.max(find(other), find(index))] = Math.min(find(other), find(index));
      }
    });
  });
  const found = new Map<number, Group[]>();
  groups.forEach((group, index) => found.set(find(index), [...(found.get(find(index)) ?? []), group]));
  return [...found.values()];
}

export function unique(groups: Group[], key: "layers" | "nodes", side: 0 | 1): number[] {
  return [...new Set(groups.flatMap((group) => group[key][side]))].sort((a, b) => a - b);
}

export function findingsOf(groups: Group[]): number[] {
  return groups.map((group) => group.finding).filter((number) => number !== null);
}

export function statusOf(groups: Group[]): ItemStatus {
  const statuses = groups.map((group): ItemStatus => {
    const isGuess = group.evidence === "GUESS" && group.sides[0] && group.sides[1];
    return isGuess ? "GUESS" : group.status;
  });
  return statuses.reduce((worst, next) => (LOOKS[next].weight > LOOKS[worst].weight ? next : worst));
}
