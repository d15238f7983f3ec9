/** Finding items by name, type, sizes, settings (`eps`, `strides=2`) or place. */

import type { Model } from "./model.ts";
import { counterparts, placeOf } from "./model.ts";
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
        // a layer as its framework has it, and the operators behind it as ONNX has them
        const settings = [item, ...counterparts(this.model, side, index)].flatMap((one) => one.settings);
        parts.push(item.name, item.type, ...sizes, placeOf(item), ...settings.map(settingText));
      }
    });
    return parts.join("\n").toLowerCase();
  }
}

/** A setting as people type it: `strides=2` for 2 on both axes, `pads=0,1,0,1` for others. */
function settingText([name, value]: [string, string]): string {
  const numbers = value
    .replace(/[()[\]\s]/g, "")
    .split(",")
    .filter(Boolean);
  return `${name}=${new Set(numbers).size === 1 ? numbers[0] : numbers.join(",")}`;
}
