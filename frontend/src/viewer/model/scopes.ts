/** What names tell of the modules that a layer or an operator is in, and what it is called there. */

import { BETWEEN } from "../layout/scopes.ts";
import type { Item } from "./document.ts";
import type { Model } from "./model.ts";

/** Share of a net's names that must tell a module, for the modules to be taken for its structure. */
const ENOUGH = 0.5;

/**
 * The modules of a name, the outermost first, without the layer itself.
 *
 * `/layer1/layer1.0/conv1/Conv` is in layer1, layer1.0 and conv1; `layer1.0.conv1` in layer1 and layer1.0.
 */
export function modulesOf(name: string): string[] {
  const parts = name.replace(/^\/+/, "").split("/").filter(Boolean);
  if (parts.length > 1) return parts.slice(0, -1);
  const found: string[] = [];
  for (const part of name.split(".")) {
    const last = found.at(-1);
    if (/^\d+$/.test(part) && last !== undefined) found.push(`${last}.${part}`);
    else found.push(part);
  }
  return found.slice(0, -1);
}

/**
 * What a layer is called inside the innermost of some modules that it is in: conv1 of `/layer1/layer1.0/conv1/Conv`.
 *
 * Empty where the name says no more than the type does.
 */
export function leafName(item: Item, isShown: (module: string) => boolean): string {
  const modules = modulesOf(item.name);
  const own = item.name.includes("/") ? item.name.slice(item.name.lastIndexOf("/") + 1) : lastPart(item.name);
  if (own.toLowerCase() !== item.type.toLowerCase() && !isNumbered(own, item.type)) return own;
  const inner = modules.at(-1);
  if (inner === undefined || isShown(inner)) return own.toLowerCase() === item.type.toLowerCase() ? "" : own;
  return `${inner}${/_\d+$/.exec(own)?.[0] ?? ""}`;
}

/** Whether a name is a type with a number: Relu_2. */
function isNumbered(name: string, type: string): boolean {
  return name.replace(/_\d+$/, "").toLowerCase() === type.toLowerCase();
}

/** The last part of a name with dots, with the part before it where it is a number: conv.0 of features.conv.0. */
function lastPart(name: string): string {
  return /(?:^|\.)([^.]*[^.\d][^.]*(?:\.\d+)*)$/.exec(name)?.[1] ?? name;
}

/**
 * The modules of each item of a union, joined; empty where names tell none.
 *
 * Those of the net whose names tell more are taken; what only the other net has goes where its own neighbours in its
 * module went.
 */
export function scopesOfUnion(model: Model): string[] {
  const sides = model.nets.map((_, side) => {
    const paths = (model.items[side] ?? []).map((item) => modulesOf(item.name));
    const named = paths.filter((path) => path.length).length;
    return { paths, share: paths.length ? named / paths.length : 0 };
  });
  const best = (sides[1]?.share ?? 0) > sides[0]!.share ? 1 : 0;
  if (sides[best]!.share < ENOUGH) return model.union.map(() => "");
  const pathOn = (id: number, side: number): string | null => {
    const index = model.union[id]!.members[side]![0];
    return index === undefined ? null : sides[side]!.paths[index]!.join(BETWEEN);
  };
  const moved = new Map<string, Map<string, number>>();
  model.union.forEach((_, id) => {
    const [own, other] = [pathOn(id, best), pathOn(id, 1 - best)];
    if (own === null || other === null) return;
    const counts = moved.get(other) ?? new Map<string, number>();
    counts.set(own, (counts.get(own) ?? 0) + 1);
    moved.set(other, counts);
  });
  return model.union.map((_, id) => {
    const own = pathOn(id, best);
    if (own !== null) return own;
    const counts = moved.get(pathOn(id, 1 - best) ?? "");
    return [...(counts ?? [])].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
  });
}
