/**
 * The user's own figures, laid over the nets by node name.
 *
 * Two forms: JSON as Model Explorer's custom node data has it, of one graph (`{"results": {...}}`) or of several
 * by name, with values, thresholds, a gradient and colours; or a plain `{"conv1": 0.5}`. And CSV of two columns,
 * a name and a value, with or without a head. Texts stay texts: they are drawn on a canvas, never as markup.
 */

import { color } from "d3";

import type { Item, Layer } from "./document.ts";
import { type Model, type UnionItem, counterparts } from "./model.ts";
import { realText } from "./wording.ts";

export const MAX_BYTES = 32_000_000;
const MAX_TEXT = 60;

export interface OwnValue {
  text: string;
  /** Missing for a value that is a text. */
  number: number | null;
  colour: string | undefined;
}

export interface OwnData {
  name: string;
  values: Map<string, OwnValue>;
  least: number;
  most: number;
  /** Colours from the file, by the share of the range, if it has them. */
  gradient: [stop: number, colour: string][];
}

/** Parse a file; whatever is wrong with it is an error that says what was expected. */
export function parseOwnData(text: string, name: string): OwnData {
  const rows = /^\s*[[{]/.test(text) ? jsonRows(text) : { ...NO_COLOURS, rows: csvRows(text) };
  const values = new Map<string, OwnValue>();
  for (const [key, value, colour] of rows.rows) {
    if (key) values.set(key, ownValue(value, colour ?? thresholdColour(value, rows.thresholds)));
  }
  if (!values.size) throw new Error(`It has no values. ${EXPECTED}`);
  let [least, most] = [Infinity, -Infinity];
  for (const { number } of values.values()) {
    if (number === null) continue;
    least = Math.min(least, number);
    most = Math.max(most, number);
  }
  if (least > most) [least, most] = [0, 0];
  return { name: name.slice(0, MAX_TEXT), values, least, most, gradient: rows.gradient };
}

/** How much of the data names something in the nets. */
export function matches(model: Model, data: OwnData): number {
  const names = new Set<string>();
  for (const net of model.nets) {
    for (const layer of net.layers) names.add(layer.key).add(layer.name);
    for (const node of net.nodes) names.add(node.name);
  }
  return [...data.values.keys()].filter((name) => names.has(name)).length;
}

/** The values for what stands in a box on one side: of the items themselves, else of their nodes or layers. */
export function ownValues(model: Model, items: UnionItem[], side: number, data: OwnData): OwnValue[] {
  return items.flatMap((item) =>
    item.members[side]!.flatMap((index) => {
      const own = named(model.items[side]![index]!, data);
      return own ? [own] : behind(model, side, index, data);
    }),
  );
}

/** Heat from 0 to 1 on a straight scale from the least to the most. */
export function ownHeat(value: number, { least, most }: OwnData): number {
  return most > least ? (value - least) / (most - least) : 1;
}

function named(item: Item, data: OwnData): OwnValue | undefined {
  const { key } = item as Partial<Layer>;
  return (key === undefined ? undefined : data.values.get(key)) ?? data.values.get(item.name);
}

function behind(model: Model, side: number, index: number, data: OwnData): OwnValue[] {
  const others = counterparts(model, side, index);
  return others.map((other) => named(other, data)).filter((value) => value !== undefined);
}

const EXPECTED =
  'Expected JSON such as {"results": {"conv1": {"value": 0.5}}} or {"conv1": 0.5}, or CSV lines such as conv1,0.5.';

type Row = [name: string, value: unknown, colour?: string | undefined];

interface Rows {
  rows: Row[];
  thresholds: [most: number, colour: string][];
  gradient: [stop: number, colour: string][];
}

const NO_COLOURS = { thresholds: [], gradient: [] };

function jsonRows(text: string): Rows {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new Error(
      `It is not valid JSON: ${error instanceof Error ? error.message : String(error)}. ${EXPECTED}`,
    );
  }
  if (!isRecord(content)) throw new Error(`It is not an object. ${EXPECTED}`);
  const graphs = isRecord(content["results"]) ? [content] : Object.values(content).filter(hasResults);
  if (!graphs.length) return { rows: rowsOf(content), ...NO_COLOURS };
  const [first] = graphs;
  return {
    rows: graphs.flatMap((graph) => (isRecord(graph["results"]) ? rowsOf(graph["results"]) : [])),
    thresholds: stopsOf(first?.["thresholds"], "value").sort((a, b) => a[0] - b[0]),
    gradient: stopsOf(first?.["gradient"], "stop").sort((a, b) => a[0] - b[0]),
  };
}

function rowsOf(results: Record<string, unknown>): Row[] {
  return Object.entries(results).map(([name, entry]) =>
    isRecord(entry) ? [name, entry["value"], safeColour(entry["bgColor"])] : [name, entry],
  );
}

function stopsOf(list: unknown, key: string): [number, string][] {
  if (!Array.isArray(list)) return [];
  return list.filter(isRecord).flatMap((entry): [number, string][] => {
    const colour = safeColour(entry["bgColor"]);
    return typeof entry[key] === "number" && colour ? [[entry[key], colour]] : [];
  });
}

/** The colour of the first threshold that a value is not above, as Model Explorer has it. */
function thresholdColour(value: unknown, thresholds: [number, string][]): string | undefined {
  return typeof value === "number" ? thresholds.find(([most]) => value <= most)?.[1] : undefined;
}

/** A colour, and nothing but that, through which the text under it stays legible. */
function safeColour(value: unknown): string | undefined {
  return typeof value === "string" ? color(value)?.copy({ opacity: 0.5 }).formatRgb() : undefined;
}

function csvRows(text: string): Row[] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const rows = lines.map((line, number): Row => {
    const cells = csvCells(line);
    if (cells.length < 2)
      throw new Error(`Line ${number + 1} has no value: “${line.slice(0, MAX_TEXT)}”. ${EXPECTED}`);
    const value = Number(cells[1]);
    return [cells[0]!, cells[1] !== "" && Number.isFinite(value) ? value : cells[1]];
  });
  // a head has a word where the other lines have a number
  const hasHead =
    rows.length > 1 &&
    typeof rows[0]![1] === "string" &&
    rows.slice(1).some(([, value]) => typeof value === "number");
  return hasHead ? rows.slice(1) : rows;
}

/** The cells of a line: a cell in quotes may hold the separator, and quotes twice. */
function csvCells(line: string): string[] {
  const separator = line.includes("\t") ? "\t" : line.includes(";") && !line.includes(",") ? ";" : ",";
  const cells: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at]!;
    if (letter === '"' && isQuoted && line[at + 1] === '"') {
      cell += letter;
      at += 1;
    } else if (letter === '"') isQuoted = !isQuoted;
    else if (letter === separator && !isQuoted) {
      cells.push(cell.trim());
      cell = "";
    } else cell += letter;
  }
  return [...cells, cell.trim()];
}

function ownValue(value: unknown, colour: string | undefined): OwnValue {
  if (typeof value === "number") return { number: value, text: realText(value), colour };
  const text =
    value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return { number: null, text: text.slice(0, MAX_TEXT), colour };
}

function hasResults(value: unknown): value is Record<string, unknown> {
  return isRecord(value) && isRecord(value["results"]);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
