/** What the overlay shows as heat. */

import type { Cost, Item } from "./document.ts";
import type { Model, UnionItem } from "./model.ts";
import { amountText, bytesText, ratioText } from "./wording.ts";

export type Measure = "parameters" | "multiply_adds" | "activation_bytes" | "error";

export const MEASURES: Record<Measure, { words: string; text: (value: number) => string }> = {
  parameters: { words: "Parameters", text: amountText },
  multiply_adds: { words: "Multiply-adds", text: amountText },
  activation_bytes: { words: "Activation bytes", text: bytesText },
  error: { words: "Value error", text: ratioText },
};

/** The measure of an item on one side; null where nothing is known. */
export function measured(model: Model, item: UnionItem, side: number, measure: Measure): number | null {
  const members = item.members[side as 0 | 1].map((index) => model.items[side]?.[index] as Item);
  if (!members.length) return null;
  if (measure === "error") {
    const errors = item.groups.map((group) => group.error).filter((error) => error !== null);
    if (!errors.length) return null;
    return Math.max(...errors.map((error) => (typeof error === "number" ? error : Number.MAX_VALUE)));
  }
  const costs = members.map((member) => member.cost).filter((cost): cost is Cost => cost !== null);
  return costs.length ? costs.reduce((sum, cost) => sum + cost[measure], 0) : null;
}

/** The measure of several items: their sum, of errors the largest. */
export function combined(values: (number | null)[], measure: Measure): number | null {
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  return measure === "error" ? Math.max(...known) : known.reduce((sum, value) => sum + value, 0);
}

const LEAST_ERROR = 1e-8;

/** Heat from 0 to 1: by the square root, so that small amounts are seen; errors by their power of ten. */
export function heat(value: number | null, most: number, measure: Measure): number {
  if (value === null || most <= 0) return 0;
  if (measure !== "error") return Math.sqrt(value / most);
  const power = Math.log10(Math.min(Math.max(value, LEAST_ERROR), 1)) - Math.log10(LEAST_ERROR);
  return power / -Math.log10(LEAST_ERROR);
}
