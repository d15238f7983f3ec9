/**
 * Scopes: the modules that names tell (`/b.0/attn/c_attn/MatMul`), as nested stretches of an order.
 *
 * Each scope is a stretch of an order in which nothing comes before what it reads, so that folding it never makes a
 * cycle. A scope that other layers pass through, in between, is cut there into several.
 */

import { Heap } from "../model/heap.ts";
import type { Shape } from "./folds.ts";

/** A module with its items in order; what is directly in it: items, and scopes. */
export interface Scope {
  name: string;
  members: number[];
  children: Content[];
}

export type Content = Scope | number;

/** What lies between the parts of a path of scopes. */
export const BETWEEN = "\0";

interface Part {
  name: string | null;
  members: number[];
  /** Edges into it from parts of the same level that are not placed yet. */
  waiting: number;
}

/** The scopes of a graph; its items alone if no name tells a scope. */
export function scopesOf(shape: Shape, outgoing: readonly number[][]): Content[] {
  const paths = shape.scopes.map((text) => (text ? text.split(BETWEEN) : []));
  const incoming: number[][] = outgoing.map(() => []);
  outgoing.forEach((targets, source) => targets.forEach((target) => incoming[target]!.push(source)));
  const partOf = new Int32Array(shape.count);
  const level = new Int32Array(shape.count).fill(-1);
  let levels = 0;

  const arrange = (members: number[], depth: number): Content[] => {
    const stamp = levels++;
    const parts = partsOf(members, paths, depth);
    for (const member of members) level[member] = stamp;
    parts.forEach((part, index) => part.members.forEach((member) => (partOf[member] = index)));
    const leaving = function* (placed: number[]): Generator<number> {
      for (const member of placed)
        for (const target of outgoing[member]!)
          if (level[target] === stamp && partOf[target] !== partOf[member]) yield partOf[target]!;
    };
    for (const part of parts) for (const target of leaving(part.members)) parts[target]!.waiting += 1;
    const ready = new Heap(parts.flatMap((part, index) => (part.waiting ? [] : [index])));
    const pieces: { name: string | null; members: number[] }[] = [];
    const placed = new Set<number>();
    const emit = (index: number, some: number[]): void => {
      const part = parts[index]!;
      pieces.push({ name: part.name, members: some });
      for (const member of some) placed.add(member);
      part.members = part.members.length === some.length ? [] : part.members.filter((m) => !placed.has(m));
      for (const target of leaving(some))
        if (--parts[target]!.waiting === 0 && parts[target]!.members.length) ready.push(target);
    };
    let first = 0;
    while (placed.size < members.length) {
      const next = ready.pop();
      if (next !== undefined) {
        if (parts[next]!.members.length) emit(next, parts[next]!.members);
        continue;
      }
      // parts wait for each other: place what can be placed of the first
      while (placed.has(members[first]!)) first += 1;
      const index = partOf[members[first]!]!;
      const some = new Set<number>();
      for (const member of parts[index]!.members) {
        const isFree = incoming[member]!.every((s) => level[s] !== stamp || placed.has(s) || some.has(s));
        if (isFree) some.add(member);
      }
      emit(index, [...some]);
    }
    return pieces.flatMap(({ name, members: some }) => nested(name, some, depth));
  };

  const nested = (name: string | null, members: number[], depth: number): Content[] => {
    if (name === null || members.length === 1) return members;
    const children = arrange(members, depth + 1);
    const [only] = children;
    if (children.length === 1 && typeof only === "object") return [only];
    return [{ name, members, children }];
  };

  return paths.some((path) => path.length) ? arrange([...shape.order], 0) : [...shape.order];
}

/** Members by their scope at a depth, in the order of their first members; what is in none is by itself. */
function partsOf(members: number[], paths: string[][], depth: number): Part[] {
  const byName = new Map<string, Part>();
  const parts: Part[] = [];
  for (const member of members) {
    const name = paths[member]![depth] ?? null;
    const known = name === null ? undefined : byName.get(name);
    if (known) {
      known.members.push(member);
      continue;
    }
    const part = { name, members: [member], waiting: 0 };
    parts.push(part);
    if (name !== null) byName.set(name, part);
  }
  return parts;
}
