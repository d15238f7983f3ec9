/** Differences by cause: what was changed in every block of a net is one difference in many places. */

import type { Cause, Document } from "./document.ts";
import type { Model, UnionItem } from "./model.ts";

export function causesOf(document: Document): Cause[] {
  if (document.kind === "net") return [];
  const alone = document.findings.map(({ cause, fix }, number) => ({
    text: cause,
    fix,
    findings: [number],
    num_described: 1,
  }));
  return document.causes ?? alone;
}

/** The cause that each finding has, by its number. */
export function causeOfFinding(document: Document): Map<number, Cause> {
  return new Map(causesOf(document).flatMap((cause) => cause.findings.map((number) => [number, cause])));
}

/** Findings that another one with the same cause speaks for. */
export function repeatedFindings(document: Document): Set<number> {
  return new Set(causesOf(document).flatMap((cause) => cause.findings.slice(cause.num_described)));
}

/** The name of what several layers of a side compute together; empty for one layer, and where there is no name. */
export function functionOf({ groups, members }: UnionItem, side: number): string {
  return (groups.length === 1 && members[side]!.length > 1 && groups[0]!.functions?.[side]) || "";
}

/** How many layers have it: a module that is called twice is one place. */
export function numPlaces(document: Document, cause: Cause): number {
  if (document.kind === "net") return 0;
  const layers = cause.findings.map((number) => document.findings[number]!.layers);
  return new Set(layers.map(([a, b]) => b || a)).size;
}

/** Items in which a cause shows, in the order of the nets. */
export function itemsWith(model: Model, cause: Cause): number[] {
  const findings = new Set(cause.findings);
  return model.order.filter((id) => model.union[id]!.findings.some((number) => findings.has(number)));
}
