/** The page's side of the worker that lays out. */

import { LOOKS } from "../model/looks.ts";
import type { Model } from "../model/model.ts";
import { boxHeight, numRows } from "../draw/scene.ts";
import { bypassed } from "../model/idle.ts";
import { scopesOfUnion } from "../model/scopes.ts";
import type { Layout, LayoutGraph } from "./layout.ts";
import type { FoldTree } from "./folds.ts";
import type { Reply, Request } from "./worker.ts";
import workerText from "./worker.ts?worker";

export interface LaidOut {
  layout: Layout;
  tree: FoldTree;
  open: Set<number>;
  /** The folds that stay open when everything is folded. */
  folded: Set<number>;
}

type LaidOutReply = Extract<Reply, { kind: "laid out" }>;

export class LayoutClient {
  private readonly worker: Worker;
  private readonly waiting = new Map<
    number,
    { resolve: (reply: LaidOutReply) => void; reject: (error: Error) => void }
  >();
  private tickets = 0;
  private tree: FoldTree | undefined;
  private folded = new Set<number>();

  constructor() {
    const url = URL.createObjectURL(new Blob([workerText], { type: "text/javascript" }));
    this.worker = new Worker(url);
    URL.revokeObjectURL(url);
    this.worker.onmessage = (message: MessageEvent<Reply>) => {
      const reply = message.data;
      const asked = this.waiting.get(reply.ticket);
      this.waiting.delete(reply.ticket);
      if (reply.kind === "failed") asked?.reject(new Error(reply.message));
      else asked?.resolve(reply);
    };
    this.worker.onerror = (event) => {
      for (const asked of this.waiting.values())
        asked.reject(new Error(event.message || "the worker failed"));
      this.waiting.clear();
    };
  }

  /** Lay out a model as it is shown at first, without the items that are left out. */
  async start(model: Model, leftOut: ReadonlySet<number>): Promise<LaidOut> {
    const reply = await this.ask({ kind: "graph", ticket: 0, graph: graphOf(model, leftOut) });
    this.tree = reply.tree!;
    this.folded = new Set(reply.folded);
    return { layout: reply.layout, tree: this.tree, open: new Set(reply.open), folded: this.folded };
  }

  /** Lay out the same model with other folds open. */
  async layout(open: Set<number>): Promise<LaidOut> {
    const reply = await this.ask({ kind: "open", ticket: 0, open: [...open] });
    return { layout: reply.layout, tree: this.tree!, open, folded: this.folded };
  }

  close(): void {
    this.worker.terminate();
  }

  private ask(request: Request): Promise<LaidOutReply> {
    const ticket = ++this.tickets;
    return new Promise((resolve, reject) => {
      this.waiting.set(ticket, { resolve, reject });
      this.worker.postMessage({ ...request, ticket });
    });
  }
}

function graphOf(model: Model, leftOut: ReadonlySet<number>): LayoutGraph {
  const kinds = new Map<string, number>();
  const kindOf = (text: string): number => {
    if (!kinds.has(text)) kinds.set(text, kinds.size);
    return kinds.get(text)!;
  };
  const types = (side: number, members: number[]): string =>
    members.map((index) => model.items[side]![index]!.type).join("+");
  const edges = bypassed(model.edges, leftOut);
  const forward = edges.filter((edge) => !edge.back);
  const back = edges.filter((edge) => edge.back);
  const { union } = model;
  return {
    count: union.length,
    order: Int32Array.from(model.order.filter((id) => !leftOut.has(id))),
    scopes: scopesOfUnion(model),
    sources: Int32Array.from(forward, (edge) => edge.source),
    targets: Int32Array.from(forward, (edge) => edge.target),
    sides: Uint8Array.from(forward, (edge) => edge.sides),
    backSources: Int32Array.from(back, (edge) => edge.source),
    backTargets: Int32Array.from(back, (edge) => edge.target),
    backSides: Uint8Array.from(back, (edge) => edge.sides),
    kinds: Int32Array.from(union, ({ members: [a, b] }) => kindOf(`${types(0, a)}|${types(1, b)}`)),
    stores: Uint8Array.from(union, ({ members }) =>
      members.some((list, side) => list.some((index) => model.items[side]![index]!.parameters.length))
        ? 1
        : 0,
    ),
    heights: Float32Array.from(union, (item) => boxHeight(Math.max(numRows(item, 0), numRows(item, 1)))),
    matters: Uint8Array.from(union, (item) =>
      LOOKS[item.status].isDifference || item.findings.length ? 1 : 0,
    ),
  };
}
