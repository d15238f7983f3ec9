/** Who makes a value and who reads it. */

import type { Item } from "./document.ts";
import type { Model } from "./model.ts";

/** The layer or node that makes each value. */
export function makersOf(items: Item[]): Map<number, number> {
  const made = new Map<number, number>();
  items.forEach((item, index) => item.outputs.forEach((value) => made.set(value, index)));
  return made;
}

/** Layers or nodes that read each value. */
export function readersOf(items: Item[]): Map<number, number[]> {
  const found = new Map<number, number[]>();
  items.forEach((item, index) => {
    for (const value of item.inputs) {
      const readers = found.get(value);
      if (readers) readers.push(index);
      else found.set(value, [index]);
    }
  });
  return found;
}

/** Union items that read each value, each once, in the order of the net. */
export function ownersReading(model: Model, side: number): Map<number, number[]> {
  const owner = model.owner[side]!;
  const found = new Map<number, Set<number>>();
  model.items[side]!.forEach((item, index) => {
    for (const value of item.inputs) {
      const readers = found.get(value);
      if (readers) readers.add(owner[index]!);
      else found.set(value, new Set([owner[index]!]));
    }
  });
  return new Map([...found].map(([value, readers]) => [value, [...readers]]));
}
