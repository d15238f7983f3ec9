/** The items of the union: what stands for each other on both sides, each with the groups that say so. */

import { pause } from "../pause.ts";
import type { Document, Group, Item, Net } from "./document.ts";
import { connect } from "./edges.ts";
import { makersOf, ownersReading, readersOf } from "./flow.ts";
import { findingsOf, givenInputs, itemsOf, joined, statusOf, unique } from "./items.ts";
import type { ItemStatus } from "./looks.ts";
import type { Model, View } from "./model.ts";

/** Build what the page shows of a document, in steps between which the browser can do other things. */
export function buildModel(document: Document, view: View): Promise<Model> {
  return new Builder(document, view).build();
}

class Builder {
  private readonly model: Model;
  private readonly makers: Map<number, number>[];
  private readonly groups: Group[];

  constructor(
    private readonly document: Document,
    view: View,
  ) {
    const nets = document.nets as Net[];
    this.groups = document.kind === "comparison" ? document.groups : [];
    const items = nets.map((net, side) => itemsOf(net, view, givenInputs(document, side)));
    this.model = {
      view,
      document,
      nets,
      items,
      owner: items.map((list) => list.map(() => -1)),
      union: [],
      edges: [],
      stubs: [],
      order: [],
    };
    this.makers = items.map(makersOf);
  }

  async build(): Promise<Model> {
    this.takeGroups();
    this.joinInputs();
    await pause();
    this.takeWithin();
    await pause();
    this.takeTheRest();
    await connect(this.model, this.makers);
    return this.model;
  }

  private add(members: [number[], number[]], groups: Group[], status: ItemStatus): number {
    const number = this.model.union.length;
    this.model.union.push({ members, groups, status, findings: findingsOf(groups) });
    members.forEach((list, side) => list.forEach((index) => this.own(side, index, number)));
    return number;
  }

  private own(side: number, index: number, number: number): void {
    this.model.owner[side]![index] = number;
  }

  private takeGroups(): void {
    const key = this.model.view === "layers" ? "layers" : "nodes";
    for (const groups of joined(this.groups, key)) {
      const members: [number[], number[]] = [unique(groups, key, 0), unique(groups, key, 1)];
      if (members[0].length || members[1].length) this.add(members, groups, statusOf(groups));
    }
  }

  /** Join the inputs of both nets that are given the same. */
  private joinInputs(): void {
    if (this.document.kind !== "comparison") return;
    for (const mapping of this.document.inputs) {
      const inputOf = (name: string, side: number): number[] => {
        const net = this.model.nets[side]!;
        const value = net.inputs.find((number) => net.values[number]?.[0] === name);
        const index = value === undefined ? undefined : this.makers[side]?.get(value);
        return index !== undefined && this.model.owner[side]?.[index] === -1 ? [index] : [];
      };
      const members: [number[], number[]] = [inputOf(mapping.a, 0), inputOf(mapping.b, 1)];
      const status = mapping.text ? "MAPPED" : "EQUAL";
      if (members[0].length && members[1].length) this.add(members, [], status);
    }
  }

  /** Give views between the nodes of one group to its item: they would lead out of it and back. */
  private takeWithin(): void {
    this.model.items.forEach((list, side) => {
      const readers = readersOf(list);
      const owner = this.model.owner[side]!;
      const leadsOnlyTo = (index: number, wanted: number): boolean =>
        list[index]!.outputs.every((value) => {
          const next = readers.get(value) ?? [];
          const isInside = (reader: number): boolean =>
            owner[reader] === -1 ? reader > index && leadsOnlyTo(reader, wanted) : owner[reader] === wanted;
          return next.length > 0 && next.every(isInside);
        });
      list.forEach((item, index) => {
        if (owner[index] !== -1) return;
        const [first, ...others] = new Set(this.readsFrom(side, item));
        if (first === undefined || first < 0 || others.length) return;
        if (!leadsOnlyTo(index, first)) return;
        const members = this.model.union[first]!.members[side]!;
        members.push(index);
        members.sort((a, b) => a - b);
        this.own(side, index, first);
      });
    });
  }

  /** Give everything else an item; what stands between the same items on both sides shares it. */
  private takeTheRest(): void {
    // of nets that could not be compared nothing is said, not even that
    const status: ItemStatus = this.groups.length ? "IDLE" : "PLAIN";
    const free = new Map<string, number[]>();
    this.model.items.forEach((list, side) => {
      const readers = ownersReading(this.model, side);
      list.forEach((item, index) => {
        if (this.model.owner[side]?.[index] !== -1) return;
        const read = item.outputs.flatMap((value) => readers.get(value) ?? []);
        const place = `${this.readsFrom(side, item).join()} ${read.join()}`;
        const same = side === 1 ? free.get(place)?.shift() : undefined;
        if (same !== undefined) {
          this.model.union[same]?.members[1].push(index);
          this.own(1, index, same);
          return;
        }
        const own = this.isUnread(side, item) ? "UNREAD" : status;
        const number = this.add(side === 0 ? [[index], []] : [[], [index]], [], own);
        if (side === 0) free.set(place, [...(free.get(place) ?? []), number]);
      });
    });
  }

  /** Whether no reader knows the type of an item: of an operator, it stands without its domain. */
  private isUnread(side: number, { type }: Item): boolean {
    const unknown = this.model.nets[side]!.unknown ?? [];
    return unknown.some((name) => name === type || name.split("::").at(-1) === type);
  }

  private readsFrom(side: number, item: Item): number[] {
    const found = item.inputs.map((value) => this.makers[side]?.get(value));
    return found.map((index) => (index === undefined ? -1 : (this.model.owner[side]?.[index] ?? -1)));
  }
}
