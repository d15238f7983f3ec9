/**
 * The union of two nets: items that hold what stands for each other on both sides, and edges between them.
 *
 * The page shows layers or operators. An item of the layer view holds the layers of one group, or of several
 * groups that share a layer; an item of the operator view holds the nodes of one group. What is in no group
 * (inputs, views, dropout) is an item by itself, joined with its like on the other side if it stands at the
 * same place.
 */

import type { Document, Group, Item, Layer, Net, Node } from "./document.ts";
import { LOOKS, type Standing } from "./looks.ts";

export type View = "layers" | "operators";

export interface UnionItem {
  /** Indices into `Model.items`, of A and of B. */
  members: [number[], number[]];
  groups: Group[];
  standing: Standing;
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

/** Readers from which on a value is drawn as stubs. */
export const MANY_READERS = 10;

/** Items between an input and a reader from which on its name stands for the edge. */
export const FAR = 16;

export function buildModel(document: Document, view: View): Model {
  return new Builder(document, view).build();
}

/** The layer or node with its place in a file, whichever it is. */
export function placeOf(item: Item): string {
  const layer = item as Layer;
  return layer.file ? (layer.line ? `${layer.file}:${layer.line}` : layer.file) : "";
}

/** The nodes behind a layer, or the layers behind a node. */
export function counterparts(model: Model, side: number, index: number): Item[] {
  const net = model.nets[side] as Net;
  if (model.view === "operators") {
    return ((net.nodes[index] as Node | undefined)?.layers ?? []).map((number) => net.layers[number] as Item);
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

class Builder {
  private readonly model: Model;
  private readonly makers: Map<number, number>[] = [];
  private readonly groups: Group[];

  constructor(
    private readonly document: Document,
    view: View,
  ) {
    const nets = document.nets as Net[];
    this.groups = document.kind === "comparison" ? document.groups : [];
    const items = nets.map((net, side) => itemsOf(net, view, givenInputs(document, side)));
    this.model = {
      view,
      document,
      nets,
      items,
      owner: items.map((list) => list.map(() => -1)),
      union: [],
      edges: [],
      stubs: [],
      order: [],
    };
    for (const list of items) {
      const made = new Map<number, number>();
      list.forEach((item, index) => item.outputs.forEach((value) => made.set(value, index)));
      this.makers.push(made);
    }
  }

  build(): Model {
    this.takeGroups();
    this.joinInputs();
    this.takeWithin();
    this.takeTheRest();
    this.connect();
    return this.model;
  }

  private add(members: [number[], number[]], groups: Group[], standing: Standing): number {
    const number = this.model.union.length;
    this.model.union.push({ members, groups, standing, findings: findingsOf(groups) });
    members.forEach((list, side) => list.forEach((index) => this.own(side, index, number)));
    return number;
  }

  private own(side: number, index: number, number: number): void {
    (this.model.owner[side] as number[])[index] = number;
  }

  private takeGroups(): void {
    const key = this.model.view === "layers" ? "layers" : "nodes";
    for (const groups of joined(this.groups, key)) {
      const members: [number[], number[]] = [unique(groups, key, 0), unique(groups, key, 1)];
      if (members[0].length || members[1].length) this.add(members, groups, standingOf(groups));
    }
  }

  /** Join the inputs of both nets that are given the same. */
  private joinInputs(): void {
    if (this.document.kind !== "comparison") return;
    for (const mapping of this.document.inputs) {
      const members = [mapping.a, mapping.b].map((name, side) => {
        const net = this.model.nets[side] as Net;
        const value = net.inputs.find((number) => net.values[number]?.[0] === name);
        const index = value === undefined ? undefined : this.makers[side]?.get(value);
        return index !== undefined && this.model.owner[side]?.[index] === -1 ? [index] : [];
      });
      const standing = mapping.text ? "MAPPED" : "EQUAL";
      if (members[0]?.length && members[1]?.length) this.add(members as [number[], number[]], [], standing);
    }
  }

  /** Give views between the nodes of one group to its item: they would lead out of it and back. */
  private takeWithin(): void {
    this.model.items.forEach((list, side) => {
      const readers = this.readingItems(side);
      const owner = this.model.owner[side]!;
      const leadsOnlyTo = (index: number, wanted: number): boolean =>
        list[index]!.outputs.every((value) => {
          const next = readers.get(value) ?? [];
          const isInside = (reader: number): boolean =>
            owner[reader] === -1 ? reader > index && leadsOnlyTo(reader, wanted) : owner[reader] === wanted;
          return next.length > 0 && next.every(isInside);
        });
      list.forEach((item, index) => {
        const [first, ...others] = new Set(this.readsFrom(side, item));
        if (owner[index] !== -1 || first === undefined || first < 0 || others.length) return;
        if (!leadsOnlyTo(index, first)) return;
        const members = this.model.union[first]!.members[side as 0 | 1];
        members.push(index);
        members.sort((a, b) => a - b);
        this.own(side, index, first);
      });
    });
  }

  /** Layers or nodes that read each value. */
  private readingItems(side: number): Map<number, number[]> {
    const found = new Map<number, number[]>();
    this.model.items[side]!.forEach((item, index) => {
      for (const value of item.inputs) found.set(value, [...(found.get(value) ?? []), index]);
    });
    return found;
  }

  /** Give everything else an item; what stands between the same items on both sides shares it. */
  private takeTheRest(): void {
    // of nets that could not be compared nothing is said, not even that
    const standing: Standing = this.groups.length ? "IDLE" : "PLAIN";
    const free = new Map<string, number[]>();
    this.model.items.forEach((list, side) => {
      const readers = this.readersByValue(side);
      list.forEach((item, index) => {
        if (this.model.owner[side]?.[index] !== -1) return;
        const read = item.outputs.flatMap((value) => readers.get(value) ?? []);
        const place = `${this.readsFrom(side, item).join()} ${read.join()}`;
        const same = side === 1 ? free.get(place)?.shift() : undefined;
        if (same !== undefined) {
          this.model.union[same]?.members[1].push(index);
          this.own(1, index, same);
          return;
        }
        const number = this.add(side === 0 ? [[index], []] : [[], [index]], [], standing);
        if (side === 0) free.set(place, [...(free.get(place) ?? []), number]);
      });
    });
  }

  private readsFrom(side: number, item: Item): number[] {
    const found = item.inputs.map((value) => this.makers[side]?.get(value));
    return found.map((index) => (index === undefined ? -1 : (this.model.owner[side]?.[index] ?? -1)));
  }

  private connect(): void {
    const edges = new Map<string, Edge>();
    this.model.items.forEach((list, side) => {
      const readers = this.readersByValue(side);
      list.forEach((item) => {
        for (const value of item.outputs) {
          const reading = readers.get(value) ?? [];
          const source = this.ownerOfMaker(side, value);
          this.connectValue(edges, side, value, source, reading);
        }
      });
    });
    this.model.edges = [...edges.values()];
    this.model.order = sharedOrder(this.model);
    this.shortenInputs();
  }

  /** Make stubs of edges that lead far from what reads nothing: labels and masks, which would frame the net. */
  private shortenInputs(): void {
    const { model } = this;
    const place = new Map(model.order.map((id, index) => [id, index]));
    const reads = new Set(model.edges.map((edge) => edge.target));
    const nearest = new Map<number, number>();
    const length = (edge: Edge): number => place.get(edge.target)! - place.get(edge.source)!;
    for (const edge of model.edges) {
      nearest.set(edge.source, Math.min(nearest.get(edge.source) ?? Infinity, length(edge)));
    }
    model.edges = model.edges.filter((edge) => {
      const isFar =
        !edge.back &&
        !reads.has(edge.source) &&
        length(edge) > FAR &&
        length(edge) > nearest.get(edge.source)!;
      if (isFar) this.addStubs(edge);
      return !isFar;
    });
  }

  private addStubs(edge: Edge): void {
    this.model.nets.forEach((net, side) => {
      if (!((edge.sides >> side) & 1)) return;
      const members = (number: number): Item[] =>
        this.model.union[number]!.members[side as 0 | 1].map((index) => this.model.items[side]![index]!);
      const made = new Set(members(edge.source).flatMap((item) => item.outputs));
      const value = members(edge.target)
        .flatMap((item) => item.inputs)
        .find((input) => made.has(input));
      const name = value === undefined ? "" : net.values[value]![0];
      this.model.stubs.push({ source: edge.source, target: edge.target, side, value: name });
    });
  }

  private connectValue(
    edges: Map<string, Edge>,
    side: number,
    value: number,
    source: number,
    reading: number[],
  ): void {
    const targets = reading.filter((target) => target !== source);
    targets.forEach((target, place) => {
      if (place > 0 && targets.length >= MANY_READERS) {
        const name = this.model.nets[side]?.values[value]?.[0] ?? "";
        this.model.stubs.push({ source, target, side, value: name });
        return;
      }
      const key = `${source} ${target}`;
      const edge = edges.get(key);
      if (edge) edge.sides |= 1 << side;
      else edges.set(key, { source, target, sides: 1 << side, back: false });
    });
  }

  private ownerOfMaker(side: number, value: number): number {
    const maker = this.makers[side]?.get(value) ?? -1;
    return this.model.owner[side]?.[maker] ?? -1;
  }

  /** Union items that read each value, each once, in the order of the net. */
  private readersByValue(side: number): Map<number, number[]> {
    const found = new Map<number, Set<number>>();
    this.model.items[side]?.forEach((item, index) => {
      for (const value of item.inputs) {
        const readers = found.get(value) ?? new Set();
        readers.add(this.model.owner[side]?.[index] ?? -1);
        found.set(value, readers);
      }
    });
    return new Map([...found].map(([value, readers]) => [value, [...readers]]));
  }
}

/** Names of the inputs that a comparison gave to a net; labels are not among them. */
function givenInputs(document: Document, side: number): Set<string> | null {
  if (document.kind === "net" || !document.groups.length) return null;
  return new Set(document.inputs.map((mapping) => (side === 0 ? mapping.a : mapping.b)));
}

/** Layers or nodes, and an item for each input of the net that none of them makes. */
function itemsOf(net: Net, view: View, given: Set<string> | null): Item[] {
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
function joined(groups: Group[], key: "layers" | "nodes"): Group[][] {
  const parent = groups.map((_, index) => index);
  const find = (index: number): number => {
    let root = index;
    while (parent[root] !== root) root = parent[root] as number;
    parent[index] = root;
    return root;
  };
  const first: Map<number, number>[] = [new Map(), new Map()];
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

function unique(groups: Group[], key: "layers" | "nodes", side: 0 | 1): number[] {
  return [...new Set(groups.flatMap((group) => group[key][side]))].sort((a, b) => a - b);
}

function findingsOf(groups: Group[]): number[] {
  return groups.map((group) => group.finding).filter((number) => number !== null);
}

function standingOf(groups: Group[]): Standing {
  const standings = groups.map((group): Standing => {
    const isGuess = group.evidence === "GUESS" && group.sides[0] && group.sides[1];
    return isGuess ? "GUESS" : group.status;
  });
  return standings.reduce((worst, next) => (LOOKS[next].weight > LOOKS[worst].weight ? next : worst));
}

/**
 * An order in which no item comes before one that it reads: Kahn's algorithm, by A's order where there is a choice.
 * Where the two nets contradict each other, an item of the contradiction is taken, and the edges against it go back.
 */
function sharedOrder(model: Model): number[] {
  const count = model.union.length;
  const rank = ranks(model);
  const outgoing: Edge[][] = Array.from({ length: count }, () => []);
  const incoming: number[][] = Array.from({ length: count }, () => []);
  for (const edge of model.edges) {
    outgoing[edge.source]!.push(edge);
    incoming[edge.target]!.push(edge.source);
  }
  const waiting = Int32Array.from(incoming, (sources) => sources.length);
  const byRank = Array.from({ length: count }, (_, index) => index).sort((a, b) => rank[a]! - rank[b]!);
  const place = new Int32Array(count);
  byRank.forEach((index, position) => (place[index] = position));
  const ready = new Heap(byRank.filter((index) => !waiting[index]).map((index) => place[index]!));
  const done = new Uint8Array(count);
  const order: number[] = [];
  let first = 0;
  while (order.length < count) {
    const next = ready.pop();
    while (done[byRank[first]!]) first += 1;
    const index = next === undefined ? firstOfCycle(byRank[first]!, incoming, done, place) : byRank[next]!;
    done[index] = 1;
    order.push(index);
    for (const edge of outgoing[index]!) {
      if (done[edge.target]) edge.back = true;
      else if (--waiting[edge.target]! === 0) ready.push(place[edge.target]!);
    }
  }
  return order;
}

/** The first item of a cycle that leads to an item, where everything left waits for something left. */
function firstOfCycle(start: number, incoming: number[][], done: Uint8Array, place: Int32Array): number {
  const earlier = (a: number, b: number): number => (place[a]! < place[b]! ? a : b);
  const path: number[] = [];
  const seen = new Map<number, number>();
  let at = start;
  while (!seen.has(at)) {
    seen.set(at, path.length);
    path.push(at);
    at = incoming[at]!.filter((source) => !done[source]).reduce(earlier);
  }
  return path.slice(seen.get(at)).reduce(earlier);
}

/** Where each item stands in A; what is only in B stands after what comes before it in B. */
function ranks(model: Model): number[] {
  const rank = model.union.map((item) => (item.members[0].length ? item.members[0][0]! : Number.NaN));
  let last = -1;
  let step = 0;
  model.owner[1]?.forEach((number) => {
    if (!Number.isNaN(rank[number]!)) {
      if (Number.isInteger(rank[number]!)) {
        last = rank[number]!;
        step = 0;
      }
    } else {
      step += 1;
      rank[number] = last + 1 - 1 / (1 + step);
    }
  });
  const known = rank.map((value) => (Number.isNaN(value) ? Number.MAX_SAFE_INTEGER : value));
  return beforeReaders(model, known);
}

/** Put what reads nothing right before its first reader, wherever its net names it. */
function beforeReaders(model: Model, rank: number[]): number[] {
  const isSource = new Uint8Array(rank.length).fill(1);
  const first = new Float64Array(rank.length).fill(Infinity);
  for (const { source, target } of model.edges) {
    isSource[target] = 0;
    first[source] = Math.min(first[source]!, rank[target]!);
  }
  return rank.map((value, id) => (isSource[id] && first[id] !== Infinity ? first[id]! - 0.25 : value));
}

/** Numbers, the smallest first. */
class Heap {
  private readonly values: number[] = [];

  constructor(values: number[]) {
    values.forEach((value) => this.push(value));
  }

  push(value: number): void {
    const { values } = this;
    let index = values.push(value) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (values[above]! <= value) break;
      values[index] = values[above]!;
      index = above;
    }
    values[index] = value;
  }

  pop(): number | undefined {
    const { values } = this;
    const top = values[0];
    const last = values.pop();
    if (last === undefined || !values.length) return top;
    let index = 0;
    for (;;) {
      let below = 2 * index + 1;
      if (below >= values.length) break;
      if (below + 1 < values.length && values[below + 1]! < values[below]!) below += 1;
      if (values[below]! >= last) break;
      values[index] = values[below]!;
      index = below;
    }
    values[index] = last;
    return top;
  }
}
