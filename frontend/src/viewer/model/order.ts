/** The order in which the items of both nets are read. */

import { Heap } from "./heap.ts";
import type { Edge, Model } from "./model.ts";

/**
 * An order in which no item comes before one that it reads: Kahn's algorithm, by A's order where there is a choice.
 * Where the two nets contradict each other, an item of the contradiction is taken, and the edges against it go back.
 */
export function sharedOrder(model: Model): number[] {
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
