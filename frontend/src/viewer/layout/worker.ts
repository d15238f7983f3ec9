/** The Web Worker that lays out: it keeps the graph, and answers with layouts for what is unfolded. */

import { type Layout, type LayoutGraph, Layouter } from "./layout.ts";
import type { FoldTree } from "./folds.ts";

export type Request =
  { kind: "graph"; ticket: number; graph: LayoutGraph } | { kind: "open"; ticket: number; open: number[] };

export type Reply =
  | { kind: "laid out"; ticket: number; layout: Layout; tree?: FoldTree; open?: number[]; folded?: number[] }
  | { kind: "failed"; ticket: number; message: string };

let layouter: Layouter | undefined;

function answer(request: Request): Reply {
  const { ticket } = request;
  try {
    if (request.kind === "graph") {
      layouter = new Layouter(request.graph);
      const open = layouter.openAtFirst();
      return {
        kind: "laid out",
        ticket,
        layout: layouter.layout(open),
        tree: layouter.tree,
        open: [...open],
        folded: [...layouter.openWhenFolded()],
      };
    }
    if (!layouter) throw new Error("a layout was asked for before there was a graph");
    return { kind: "laid out", ticket, layout: layouter.layout(new Set(request.open)) };
  } catch (error) {
    return { kind: "failed", ticket, message: error instanceof Error ? error.message : String(error) };
  }
}

self.onmessage = (message: MessageEvent<Request>) => self.postMessage(answer(message.data));
