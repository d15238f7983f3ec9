/** Graphs to lay out: drawn by a seed, and of known structure. */

import { BETWEEN } from "../src/viewer/layout/scopes.ts";
import { type LayoutGraph } from "../src/viewer/layout/layout.ts";

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function graphOf(count: number, edges: [number, number][], kinds?: number[]): LayoutGraph {
  return {
    count,
    order: Int32Array.from({ length: count }, (_, index) => index),
    sources: Int32Array.from(edges, ([source]) => source),
    targets: Int32Array.from(edges, ([, target]) => target),
    sides: new Uint8Array(edges.length).fill(3),
    backSources: new Int32Array(0),
    backTargets: new Int32Array(0),
    backSides: new Uint8Array(0),
    kinds: Int32Array.from(kinds ?? new Array<number>(count).fill(0)),
    stores: new Uint8Array(count),
    heights: Float32Array.from({ length: count }, (_, index) => 40 + 36 * (index % 3)),
    matters: new Uint8Array(count),
    scopes: new Array<string>(count).fill(""),
  };
}

/**
 * A graph in which each item reads one or two of the eight before it, sometimes none; in every second, most items are
 * in modules of modules, some of which others pass through.
 */
export function drawn(seed: number): LayoutGraph {
  const next = random(seed);
  const count = 2 + Math.floor(next() * 90);
  const edges = new Map<string, [number, number]>();
  for (let target = 1; target < count; target++) {
    const readers = next() < 0.1 ? 0 : next() < 0.7 ? 1 : 2;
    for (let index = 0; index < readers; index++) {
      const source = Math.max(0, target - 1 - Math.floor(next() ** 2 * 8));
      edges.set(`${source} ${target}`, [source, target]);
    }
  }
  const kinds = Array.from({ length: count }, () => Math.floor(next() * 3));
  const scopes = kinds.map((_, id) => {
    if (seed % 2 || next() < 0.15) return "";
    const module = `m.${Math.floor(id / 20 + next() * 0.3)}`;
    return next() < 0.3 ? module : [module, `n${Math.floor(id / 4 + next() * 1.5) % 3}`].join(BETWEEN);
  });
  return { ...graphOf(count, [...edges.values()], kinds), scopes };
}

/** A stem, then blocks of three items with a way around them, each joined by one more; then a head. */
export function residual(numBlocks: number): LayoutGraph {
  const edges: [number, number][] = [];
  const kinds = [9];
  const add = (kind: number, ...sources: number[]): number => {
    const id = kinds.push(kind) - 1;
    for (const source of sources) edges.push([source, id]);
    return id;
  };
  let last = 0;
  for (let block = 0; block < numBlocks; block++) {
    last = add(4, last, add(3, add(2, add(1, last))));
  }
  add(8, last);
  return graphOf(kinds.length, edges, kinds);
}
