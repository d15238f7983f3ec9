/** Links to an item: #layer=A:conv1, #operator=B:conv1/Conv. */

import type { Layer } from "./model/document.ts";
import type { Model, View } from "./model/model.ts";

export interface Link {
  view: View;
  side: number;
  name: string;
}

export function linkTo(model: Model, id: number, side: number): string {
  const { members } = model.union[id]!;
  const from = members[side]!.length ? side : 1 - side;
  const item = model.items[from]![members[from]![0]!]!;
  const name = (item as Partial<Layer>).key ?? item.name;
  return `#${model.view === "layers" ? "layer" : "operator"}=${"AB"[from]}:${encodeURIComponent(name)}`;
}

export function readLink(hash: string): Link | null {
  const found = /^#(layer|operator)=([AB]):(.+)$/.exec(hash);
  if (!found) return null;
  try {
    const name = decodeURIComponent(found[3]!);
    return { view: found[1] === "layer" ? "layers" : "operators", side: found[2] === "A" ? 0 : 1, name };
  } catch {
    return null;
  }
}
