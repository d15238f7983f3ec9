/** Finding items by name, type, sizes or place. */

import type { Model } from "./model.ts";
import { placeOf } from "./model.ts";
import { sizesText } from "./wording.ts";

export class SearchIndex {
  private texts: string[] | undefined;

  constructor(private readonly model: Model) {}

  /** Union items in which every word of a query occurs, in the order of the nets. */
  find(query: string): number[] {
    const words = query
      .toLowerCase()
      .replace(/(\d)\s*x\s*(?=\d|\?)/g, "$1×")
      .split(/\s+/)
      .filter(Boolean);
    this.texts ??= this.model.union.map((_, id) => this.text(id));
    const { texts } = this;
    return this.model.order.filter((id) => words.every((word) => texts[id]!.includes(word)));
  }

  private text(id: number): string {
    const parts: string[] = [];
    this.model.union[id]!.members.forEach((members, side) => {
      const { values } = this.model.nets[side] ?? { values: [] };
      for (const index of members) {
        const item = this.model.items[side]![index]!;
        const sizes = [...item.inputs, ...item.outputs].map((value) => sizesText(values[value]?.[1]));
        parts.push(item.name, item.type, ...sizes, placeOf(item));
      }
    });
    return parts.join("\n").toLowerCase();
  }
}
