/**
 * The document as it is stored (version 3): tables with a list for each field, what repeats written once
 * (netweave/viewer/tables.py). The viewer makes an object of each row when it opens one.
 */

import type {
  ComparisonDocument,
  Cost,
  Document,
  Group,
  Layer,
  Net,
  Node,
  Parameter,
  Size,
  Statistics,
  WeightDifference,
} from "./document.ts";
import { pause } from "../pause.ts";

/** An entry for each row; or values and the place of each row's; or one value that all rows share. */
export type Column<T> = T[] | { values: T[]; at?: number[] };

/** A table without rows may lack its columns. */
export interface Table<Row> {
  count: number;
  columns: { [Name in keyof Row]?: Column<Row[Name]> };
}

type CostTable = Table<Cost> | { values: [null] };

type LayerRow = Omit<Layer, "cost" | "name" | "seconds" | "text"> & {
  /** Null where it is the key. */
  name: string | null;
  text: string | null;
};

type NodeRow = Omit<Node, "cost" | "constants" | "seconds"> & { constants: number[] };

type StatisticsRow = {
  [Name in keyof Required<Statistics>]: Required<Statistics>[Name] | null;
} & { parameter: number };

type WeightRow = Omit<WeightDifference, "keys"> & { group: number; keys: [number, number] };

/** Documents of earlier releases have no names of functions. */
type GroupRow = Required<Omit<Group, "weights" | "functions">> & Pick<Group, "functions">;

export interface StoredNet extends Omit<Net, "layers" | "nodes" | "values" | "parameters"> {
  layers: Table<LayerRow> & { columns: { cost: CostTable; seconds?: Column<number | null> } };
  nodes: Table<NodeRow> & { columns: { cost?: CostTable } };
  values: Table<{ name: string; sizes: Size[] | null }>;
  parameters: Table<Omit<Parameter, "statistics">>;
  statistics: Table<StatisticsRow>;
}

export interface StoredDocument {
  version: number;
  kind: Document["kind"];
  title: string;
  nets: StoredNet[];
  groups?: Table<GroupRow>;
  weights?: Table<WeightRow>;
}

/** The entries of a column, one for each row. */
export function entriesOf<T>(column: Column<T> | undefined, count: number): T[] {
  if (column === undefined) return [];
  if (Array.isArray(column)) return column;
  const { values, at } = column;
  return at ? at.map((place) => values[place]!) : new Array<T>(count).fill(values[0]!);
}

type Entries<Row> = { [Name in keyof Row]: Row[Name][] };

/** The columns of a table by name, each with an entry for each row; not those that are tables. */
function columnsOf<Row>(table: Table<Row>): Entries<Row> {
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- each column has a type of its own
  const columns = Object.entries(table.columns as Record<string, Column<unknown>>);
  const plain = columns.filter(([, column]) => !("columns" in column));
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the names are those of the columns
  return Object.fromEntries(
    plain.map(([name, column]) => [name, entriesOf(column, table.count)]),
  ) as Entries<Row>;
}

/** A row for each number below a count, made by a function: objects of one shape, which are quick to read. */
function rowsOf<T>(count: number, row: (index: number) => T): T[] {
  const rows: T[] = [];
  for (let index = 0; index < count; index += 1) rows.push(row(index));
  return rows;
}

/** Make an object of each row; of large nets in several tasks. */
export async function withRows(stored: StoredDocument): Promise<Document> {
  const nets: Net[] = [];
  for (const net of stored.nets) {
    await pause();
    nets.push(netOf(net));
  }
  await pause();
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- what else is in it stays as it is stored
  if (stored.kind === "net") return { ...stored, nets } as unknown as Document;
  const { weights, groups, ...rest } = stored;
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- what else is in it stays as it is stored
  return { ...rest, nets, groups: groupsOf(groups!, weights!, nets) } as unknown as ComparisonDocument;
}

function netOf(net: StoredNet): Net {
  const { statistics, ...rest } = net;
  const values = valuesOf(net);
  return {
    ...rest,
    values,
    layers: layersOf(net.layers),
    nodes: nodesOf(net.nodes, values),
    parameters: parametersOf(net.parameters, statistics),
  };
}

function valuesOf({ values }: StoredNet): Net["values"] {
  const { name, sizes } = columnsOf(values);
  return rowsOf(values.count, (i) => [name[i]!, sizes[i]!]);
}

function costsOf(table: CostTable | undefined): (Cost | null)[] {
  if (!table || !("columns" in table)) return [];
  const { parameters, multiply_adds, activation_bytes, exact } = columnsOf(table);
  return rowsOf(table.count, (i) => ({
    parameters: parameters[i]!,
    multiply_adds: multiply_adds[i]!,
    activation_bytes: activation_bytes[i]!,
    exact: exact[i]!,
  }));
}

function layersOf(table: StoredNet["layers"]): Layer[] {
  const all = columnsOf<LayerRow>(table);
  const costs = costsOf(table.columns.cost);
  const seconds = entriesOf(table.columns.seconds, table.count);
  return rowsOf(table.count, (i) => ({
    key: all.key[i]!,
    name: all.name[i] ?? all.key[i]!,
    type: all.type[i]!,
    settings: all.settings[i]!,
    inputs: all.inputs[i]!,
    outputs: all.outputs[i]!,
    parameters: all.parameters[i]!,
    file: all.file[i]!,
    line: all.line[i]!,
    text: all.text[i]!,
    call: all.call[i]!,
    cost: costs[i] ?? null,
    seconds: seconds[i] ?? null,
  }));
}

function nodesOf(table: StoredNet["nodes"], values: Net["values"]): Node[] {
  const all = columnsOf<NodeRow>(table);
  const costs = costsOf(table.columns.cost);
  return rowsOf(table.count, (i) => ({
    name: all.name[i]!,
    type: all.type[i]!,
    settings: all.settings[i]!,
    inputs: all.inputs[i]!,
    outputs: all.outputs[i]!,
    parameters: all.parameters[i]!,
    constants: all.constants[i]!.map((number) => values[number]!),
    layers: all.layers[i]!,
    cost: costs[i] ?? null,
  }));
}

function parametersOf(table: StoredNet["parameters"], statistics: StoredNet["statistics"]): Parameter[] {
  const { key, shape, role, loaded } = columnsOf(table);
  const rows: Parameter[] = rowsOf(table.count, (i) => ({
    key: key[i]!,
    shape: shape[i]!,
    role: role[i]!,
    loaded: loaded[i]!,
    statistics: null,
  }));
  const all = columnsOf<StatisticsRow>(statistics);
  for (let i = 0; i < statistics.count; i += 1) {
    rows[all.parameter[i]!]!.statistics = all.histogram[i]
      ? {
          size: all.size[i]!,
          non_finite: all.non_finite[i]!,
          min: all.min[i]!,
          max: all.max[i]!,
          mean: all.mean[i]!,
          std: all.std[i]!,
          zeros: all.zeros[i]!,
          histogram: all.histogram[i]!,
        }
      : { size: all.size[i]!, non_finite: all.non_finite[i]! };
  }
  return rows;
}

function groupsOf(table: Table<GroupRow>, weights: Table<WeightRow>, nets: Net[]): Group[] {
  const all = columnsOf(table);
  const groups = rowsOf(table.count, (i) => ({
    nodes: all.nodes[i]!,
    layers: all.layers[i]!,
    sides: all.sides[i]!,
    status: all.status[i]!,
    evidence: all.evidence[i]!,
    error: all.error[i]!,
    isolated_error: all.isolated_error[i]!,
    rounding_error: all.rounding_error[i]!,
    mapping: all.mapping[i]!,
    finding: all.finding[i]!,
    values: all.values[i]!,
    functions: all.functions?.[i] ?? null,
    weights: [] as WeightDifference[],
  }));
  const rows = columnsOf<WeightRow>(weights);
  for (let i = 0; i < weights.count; i += 1) {
    const [a, b] = rows.keys[i]!;
    groups[rows.group[i]!]!.weights.push({
      role: rows.role[i]!,
      keys: [nets[0]!.parameters[a]!.key, nets[1]!.parameters[b]!.key],
      channels: rows.channels[i]!,
      num_channels: rows.num_channels[i]!,
      transposed: rows.transposed[i]!,
    });
  }
  return groups;
}
