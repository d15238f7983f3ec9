/** How numbers, sizes and types are written; as netweave/graph/wording.py writes them. */

import type { Cost, Real, Size } from "./document.ts";

const PREFIXES = ["", "k", "M", "G", "T"];

/** A large number with three digits and a prefix: 27.0 k. */
export function amountText(amount: number): string {
  let value = amount;
  let power = 0;
  while (value >= 999.5 && power + 1 < PREFIXES.length) {
    value /= 1000;
    power += 1;
  }
  if (!power) return String(amount);
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${PREFIXES[power]}`;
}

export function bytesText(amount: number): string {
  const text = amountText(amount);
  return text.includes(" ") ? `${text}B` : `${text} B`;
}

/** A cost, of which the sizes that are not known give no more than a lower bound. */
export function costText(cost: Cost, key: "multiply_adds" | "activation_bytes"): string {
  const known = key === "multiply_adds" ? amountText(cost[key]) : bytesText(cost[key]);
  if (cost.exact) return known;
  return cost[key] ? `at least ${known}, the rest depends on the input size` : "depends on the input size";
}

/** An error relative to the rms, to one digit: more say nothing. */
export function ratioText(value: Real): string {
  if (value === null) return "";
  if (typeof value === "string") return value;
  if (value === 0) return "0";
  if (value >= 0.001 && value < 10) return String(Number(value.toPrecision(1)));
  return value.toExponential(0).replace("e", "e").replace("+", "");
}

/** How far two tensors are apart: those of unlike sizes are not infinitely far. */
export function apartText(error: Real): string {
  return error === "inf" ? "other sizes, or not finite" : ratioText(error);
}

/** A number of a statistic, to four digits. */
export function realText(value: number | undefined): string {
  if (value === undefined) return "";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2).replace("+", "");
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

/** Sizes: 1×3×24×24; a formula of unknown sizes is not known. */
export function sizesText(sizes: Size[] | null | undefined): string {
  if (!sizes) return "?";
  if (!sizes.length) return "scalar";
  return sizes.map((size) => (typeof size === "number" || size === "N" ? String(size) : "?")).join("×");
}

/** One word or the other, after a number. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Types with how often each occurs, the most frequent first: 4 Conv · 3 ReLU. */
export function typesText(types: Iterable<string>, most = 3): string {
  const counts = new Map<string, number>();
  for (const type of types) counts.set(type, (counts.get(type) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const shown = sorted.slice(0, most).map(([type, count]) => (count > 1 ? `${count} ${type}` : type));
  return shown.join(" · ") + (sorted.length > most ? " · …" : "");
}

const SHORT: Record<string, string> = {
  kernel_size: "k",
  kernel_shape: "k",
  kernel: "k",
  kernel_h: "kh",
  kernel_w: "kw",
  stride: "s",
  strides: "s",
  pad: "p",
  pads: "p",
  padding: "p",
  group: "g",
  num_group: "g",
  dilation: "d",
};

const SHORT_ORDER = ["k", "kh", "kw", "s", "p", "g", "d"];

/** Names of the settings that two layers have other values of, however these are written. */
export function differingNames(a: [string, string][], b: [string, string][]): Set<string> {
  const values = new Map(b);
  const differs = ([name, value]: [string, string]): boolean => {
    const other = values.get(name);
    return other !== undefined && plainNumbers(other) !== plainNumbers(value);
  };
  return new Set(a.filter(differs).map(([name]) => name));
}

/** The few settings that a box has room for: k3 s2 p1; first those that are always shown, whatever their values. */
export function shortSettings(
  settings: [string, string][],
  always: ReadonlySet<string> = new Set(),
): string[] {
  const first = settings.flatMap(([name, value]) => (always.has(name) ? [shortSetting(name, value)] : []));
  const others = usualSettings(settings.filter(([name]) => !always.has(name)));
  return [...first, ...others];
}

function shortSetting(name: string, value: string): string {
  const short = SHORT[name];
  return short === undefined ? `${name} ${value}` : short + plainNumbers(value);
}

function plainNumbers(value: string): string {
  const numbers = value
    .replace(/[()[\]\s]/g, "")
    .split(",")
    .filter((text) => text !== "");
  const isOne = numbers.length > 0 && numbers.every((text) => text === numbers[0]);
  return isOne ? numbers[0]! : numbers.join(",");
}

function usualSettings(settings: [string, string][]): string[] {
  const found = new Map<string, string>();
  for (const [name, value] of settings) {
    const short = SHORT[name];
    if (short === undefined) continue;
    const plain = plainNumbers(value);
    const isUsual = short === "p" ? plain === "0" : ["s", "g", "d"].includes(short) && plain === "1";
    if (!isUsual && plain) found.set(short, plain);
  }
  return SHORT_ORDER.filter((short) => found.has(short)).map((short) => `${short}${found.get(short)}`);
}
