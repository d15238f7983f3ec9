/** Items that do nothing at inference: copies, dropout, what only marks a place, and what a comparison left out. */

import { LOOKS } from "./looks.ts";
import type { Edge, Model } from "./model.ts";

const TYPES =
  /^(identity|_copy|copy|clone|contiguous|detach|blockgrad|stopgradient|noop|constant|split_copy|(alpha|feature_?alpha|spatial|gaussian)?_?dropout_?[123]?d?|droppath)$/i;

/** Items that are left out of the drawing at first: nothing is lost without them. */
export function idleItems(model: Model): Set<number> {
  const found = new Set<number>();
  model.union.forEach((item, id) => {
    if (LOOKS[item.status].isDifference || item.findings.length) return;
    const types = item.members.flatMap((members, side) =>
      members.map((index) => model.items[side]![index]!.type),
    );
    const isIdle = item.status === "IDLE" || types.every((type) => TYPES.test(type));
    if (types.length && isIdle) found.add(id);
  });
  return found.size < model.union.length ? found : new Set();
}

/** The edges around items that are left out: from what they read to what reads them. */
export function bypassed(edges: Edge[], leftOut: ReadonlySet<number>): Edge[] {
  if (!leftOut.size) return edges;
  const leaving = new Map<number, Edge[]>();
  for (const edge of edges)
    if (leftOut.has(edge.source)) leaving.set(edge.source, [...(leaving.get(edge.source) ?? []), edge]);
  const past = (edge: Edge): Edge[] => {
    if (!leftOut.has(edge.target)) return [edge];
    return (leaving.get(edge.target) ?? []).flatMap((next) => {
      const sides = edge.sides & next.sides;
      const joined = { source: edge.source, target: next.target, sides, back: edge.back || next.back };
      return sides ? past(joined) : [];
    });
  };
  return edges.filter((edge) => !leftOut.has(edge.source)).flatMap(past);
}
