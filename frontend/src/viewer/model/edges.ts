/** The edges of the union: which item reads what another makes, and what is better named than drawn. */

import type { Item } from "./document.ts";
import { pause } from "../pause.ts";
import { ownersReading } from "./flow.ts";
import type { Edge, Model } from "./model.ts";
import { sharedOrder } from "./order.ts";

/** Readers from which on a value is drawn as stubs. */
const MANY_READERS = 10;

/** Items between an input and a reader from which on its name stands for the edge. */
const FAR = 16;

/** Join the items of a model that has all of them, and put them in order. */
export async function connect(model: Model, makers: Map<number, number>[]): Promise<void> {
  const edges = new Map<number, Edge>();
  for (const [side, list] of model.items.entries()) {
    await pause();
    const readers = ownersReading(model, side);
    for (const item of list) {
      for (const value of item.outputs) {
        const maker = makers[side]!.get(value) ?? -1;
        const source = model.owner[side]![maker] ?? -1;
        connectValue(model, edges, { side, value, source, reading: readers.get(value) ?? [] });
      }
    }
  }
  await pause();
  model.edges = [...edges.values()];
  model.order = sharedOrder(model);
  await pause();
  shortenInputs(model);
}

interface Reading {
  side: number;
  value: number;
  source: number;
  reading: number[];
}

function connectValue(model: Model, edges: Map<number, Edge>, found: Reading): void {
  const { side, value, source } = found;
  const targets = found.reading.filter((target) => target !== source);
  targets.forEach((target, place) => {
    if (place > 0 && targets.length >= MANY_READERS) {
      const name = model.nets[side]?.values[value]?.[0] ?? "";
      model.stubs.push({ source, target, side, value: name });
      return;
    }
    const key = source * model.union.length + target;
    const edge = edges.get(key);
    if (edge) edge.sides |= 1 << side;
    else edges.set(key, { source, target, sides: 1 << side, back: false });
  });
}

/** Make stubs of edges that lead far from what reads nothing: labels and masks, which would frame the net. */
function shortenInputs(model: Model): void {
  const place = new Map(model.order.map((id, index) => [id, index]));
  const reads = new Set(model.edges.map((edge) => edge.target));
  const nearest = new Map<number, number>();
  const length = (edge: Edge): number => place.get(edge.target)! - place.get(edge.source)!;
  for (const edge of model.edges) {
    nearest.set(edge.source, Math.min(nearest.get(edge.source) ?? Infinity, length(edge)));
  }
  model.edges = model.edges.filter((edge) => {
    const isFar =
      !edge.back && !reads.has(edge.source) && length(edge) > FAR && length(edge) > nearest.get(edge.source)!;
    if (isFar) addStubs(model, edge);
    return !isFar;
  });
}

function addStubs(model: Model, edge: Edge): void {
  model.nets.forEach((net, side) => {
    if (!((edge.sides >> side) & 1)) return;
    const members = (number: number): Item[] =>
      model.union[number]!.members[side]!.map((index) => model.items[side]![index]!);
    const made = new Set(members(edge.source).flatMap((item) => item.outputs));
    const value = members(edge.target)
      .flatMap((item) => item.inputs)
      .find((input) => made.has(input));
    const name = value === undefined ? "" : net.values[value]![0];
    model.stubs.push({ source: edge.source, target: edge.target, side, value: name });
  });
}
