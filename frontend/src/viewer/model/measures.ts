/** What the heat map shows: figures of the document, each with the scale that it is read on. */

import type { Item, Size } from "./document.ts";
import type { Model, UnionItem } from "./model.ts";
import { amountText, bytesText, ratioText, realText } from "./wording.ts";

export type Measure =
  "parameters" | "multiply_adds" | "activation_bytes" | "bytes" | "intensity" | "seconds" | "error";

/** By the square root, so that small amounts are seen; or by powers of ten. */
export type Scale = "square root" | "logarithmic";

export interface MeasureLook {
  words: string;
  /** What exactly is counted. */
  meaning: string;
  scale: Scale;
  text: (value: number) => string;
}

export const MEASURES: Record<Measure, MeasureLook> = {
  parameters: {
    words: "Parameters",
    meaning: "numbers that are stored",
    scale: "square root",
    text: amountText,
  },
  multiply_adds: {
    words: "Multiply-adds",
    meaning: "for one sample",
    scale: "square root",
    text: amountText,
  },
  activation_bytes: {
    words: "Activation bytes",
    meaning: "bytes of the outputs of one sample",
    scale: "square root",
    text: bytesText,
  },
  bytes: {
    words: "Bytes moved",
    meaning: "inputs, outputs and parameters of one sample in float32",
    scale: "square root",
    text: bytesText,
  },
  intensity: {
    words: "Multiply-adds per byte",
    meaning: "what is low waits for memory, what is high for arithmetic (roofline)",
    scale: "square root",
    text: realText,
  },
  seconds: {
    words: "Time",
    meaning: "of a forward pass, measured where the nets were read",
    scale: "square root",
    text: secondsText,
  },
  error: {
    words: "Value error",
    meaning: "largest difference, relative to the rms of A",
    scale: "logarithmic",
    text: ratioText,
  },
};

export function isMeasure(text: string): text is Measure {
  return text in MEASURES;
}

/** The measures that a document has figures for. */
export function knownMeasures(model: Pick<Model, "document" | "nets">): Measure[] {
  const items = model.nets.flatMap((net) => [...net.layers, ...net.nodes]);
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the keys of a record
  return (Object.keys(MEASURES) as Measure[]).filter((measure) => {
    if (measure === "error") return model.document.kind === "comparison";
    if (measure === "seconds") return items.some((item) => typeof item.seconds === "number");
    return items.some((item) => item.cost);
  });
}

/** The measure of several items of one side as a whole; null where nothing is known. */
export function measured(model: Model, items: UnionItem[], side: number, measure: Measure): number | null {
  if (measure === "error") return worstError(items, side);
  const members = items.flatMap((item) => item.members[side]!.map((index) => model.items[side]![index]!));
  if (measure === "seconds") return sum(members.map((member) => member.seconds ?? null));
  if (measure === "bytes") return sum(members.map((member) => bytesMoved(model, member, side)));
  const cost = (key: "parameters" | "multiply_adds" | "activation_bytes"): number | null =>
    sum(members.map((member) => member.cost?.[key] ?? null));
  if (measure !== "intensity") return cost(measure);
  const [work, bytes] = [cost("multiply_adds"), measured(model, items, side, "bytes")];
  return work === null || !bytes ? null : work / bytes;
}

function worstError(items: UnionItem[], side: number): number | null {
  const groups = items.filter((item) => item.members[side]!.length).flatMap((item) => item.groups);
  const errors = groups.map(({ error }) => error).filter((error) => error !== null);
  if (!errors.length) return null;
  return Math.max(...errors.map((error) => (typeof error === "number" ? error : Number.MAX_VALUE)));
}

/** What a layer reads and writes, with its parameters; null where a size is not known. */
function bytesMoved(model: Model, item: Item, side: number): number | null {
  if (!item.cost) return null;
  const { values } = model.nets[side]!;
  const moved = [...new Set([...item.inputs, ...item.outputs])].map((value) => elements(values[value]?.[1]));
  if (moved.some((count) => count === null)) return null;
  return 4 * (moved.reduce<number>((total, count) => total + count!, 0) + item.cost.parameters);
}

/** Elements of one sample: an open batch counts once. */
function elements(sizes: Size[] | null | undefined): number | null {
  if (!sizes) return null;
  const known = sizes.map((size) => (size === "N" ? 1 : size));
  if (!known.every((size) => typeof size === "number")) return null;
  return known.reduce((product, size) => product * size, 1);
}

function sum(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((total, value) => total + value, 0) : null;
}

const LEAST_ERROR = 1e-8;

/** Heat from 0 to 1. */
export function heat(value: number | null, most: number, scale: Scale): number {
  if (value === null || most <= 0) return 0;
  if (scale === "square root") return Math.sqrt(value / most);
  const power = Math.log10(Math.min(Math.max(value, LEAST_ERROR), 1)) - Math.log10(LEAST_ERROR);
  return power / -Math.log10(LEAST_ERROR);
}

/** The values at the beginning, the middle and the end of a scale. */
export function ticks(most: number, scale: Scale): [number, number, number] {
  return scale === "square root" ? [0, most / 4, most] : [LEAST_ERROR, Math.sqrt(LEAST_ERROR), 1];
}

export function secondsText(value: number): string {
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${Number((value * 1e6).toPrecision(3))} µs`;
  return value < 1 ? `${Number((value * 1e3).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`;
}
