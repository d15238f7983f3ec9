/**
 * The document: what Python says of a net or a comparison (netweave/viewer/net.py and comparison.py), as the viewer
 * has it in memory. It is stored as tables (tables.ts).
 */

export const VERSION = 3;

/** A number that JSON may lack: "nan", "inf" and "-inf" come as strings. */
export type Real = number | string | null;

export type Size = number | string | null;

export interface Cost {
  parameters: number;
  multiply_adds: number;
  activation_bytes: number;
  /** False if a size was unknown, so that the numbers are lower bounds. */
  exact: boolean;
}

/** What a layer and a node have in common. Values and parameters are numbers in the tables of the net. */
export interface Item {
  name: string;
  type: string;
  settings: [string, string][];
  inputs: number[];
  outputs: number[];
  parameters: number[];
  cost: Cost | null;
  /** Time of a forward pass, where it was measured. */
  seconds?: number | null;
}

export interface Layer extends Item {
  key: string;
  file: string | null;
  line: number | null;
  /** The lines of the file from there on; missing where the file was gone or holds no text. */
  text?: string | null;
  call: number;
}

export interface Node extends Item {
  constants: [string, Size[] | null][];
  layers: number[];
}

export interface Statistics {
  size: number;
  non_finite: number;
  min?: number;
  max?: number;
  mean?: number;
  std?: number;
  zeros?: number;
  histogram?: number[];
}

export interface Parameter {
  key: string;
  shape: number[] | null;
  role: string;
  loaded: boolean;
  statistics: Statistics | null;
}

export interface Net {
  name: string;
  format: string;
  files: string[];
  loaded: boolean;
  notes: string[];
  inputs: number[];
  outputs: number[];
  layers: Layer[];
  nodes: Node[];
  values: [string, Size[] | null][];
  parameters: Parameter[];
  totals: Cost | null;
  /** Types of layers that no reader knows, of a net that can only be looked at. */
  unknown?: string[];
}

export type Status =
  "EQUAL" | "MAPPED" | "STRUCTURE" | "LATENT" | "DIFFERENT" | "PROPAGATED" | "ONLY_A" | "ONLY_B" | "UNKNOWN";

export type Evidence = "VALUES" | "WEIGHTS" | "STRUCTURE" | "NAME" | "GUESS";

/** Nodes of A against nodes of B; the pairs are (of A, of B). */
export interface Group {
  nodes: [number[], number[]];
  layers: [number[], number[]];
  sides: [boolean, boolean];
  status: Status;
  evidence: Evidence;
  error: Real;
  isolated_error: Real;
  /** What rounding to fewer bits explains; absent in documents of earlier releases. */
  rounding_error?: Real;
  /** What people call what several layers of A, and of B, compute together, such as GELU; empty without a name. */
  functions?: [string, string] | null;
  mapping: string;
  finding: number | null;
  values?: TensorValues | null;
  weights?: WeightDifference[];
}

/** What the output of a group holds in both nets, in B's layout; maps are bytes in base64. */
export interface TensorValues {
  names: [string, string];
  shape: number[];
  /** Index of the element with the largest difference. */
  place: number[];
  at_place: [Real, Real];
  rms: Real;
  /** Largest difference by channel, relative to the rms of A; of many channels, of neighbours together. */
  channels: Real[];
  num_channels: number;
  /** Height and width of the blocks that an element of the maps stands for. */
  block: [number, number];
  size: [number, number];
  worst: [number, number];
  range: [Real, Real];
  /** The largest difference in the map. */
  difference: Real;
  a: string;
  b: string;
  a_minus_b: string;
  histogram: { range: [Real, Real]; a: number[]; b: number[] };
}

/** How two stored arrays differ by output channel, relative to their largest element; none: they are identical. */
export interface WeightDifference {
  role: string;
  keys: [string, string];
  channels: Real[];
  num_channels: number;
  transposed: boolean;
}

/** A change of B's text that fixes findings. */
export interface Patch {
  /** The change; empty if none can be made. */
  diff: string;
  /** Why fixes are not in it. */
  why: string;
  files: string[];
}

export interface Finding {
  mismatch: string | null;
  cause: string;
  fix: string;
  places: [string, string];
  layers: [string, string];
  error: Real;
  error_fixed: Real;
  latent: boolean;
  patch?: Patch | null;
}

/** A difference with all the places where it was made (comparison/result/causes.py). */
export interface Cause {
  text: string;
  fix: string;
  /** Numbers of the findings, in A's order. */
  findings: number[];
  /** How many of them the text is about: two where a setting moved from one layer to another. */
  num_described: number;
}

export interface Mapping {
  a: string;
  b: string;
  text: string;
}

export interface NetDocument {
  version: number;
  kind: "net";
  title: string;
  nets: [Net];
}

/** A verdict as it is shown (comparison/result/verdicts.py). */
export interface VerdictLook {
  words: string;
  /** The sign in front of the words. */
  mark: string;
  /** What the style sheet knows it by (`data-verdict`). */
  key: string;
  meaning: string;
}

export interface ComparisonDocument {
  version: number;
  kind: "comparison";
  title: string;
  nets: [Net, Net];
  verdict: string;
  /** All verdicts that there are. */
  verdicts: VerdictLook[];
  exit_status: number;
  sentence: string;
  /** The verdict in at most twenty words; documents of earlier releases lack it. */
  headline?: string;
  /** What the headline and the causes leave to be said; likewise. */
  detail?: string;
  error: Real;
  inputs: Mapping[];
  outputs: Mapping[];
  probes: string[];
  notes: string[];
  groups: Group[];
  findings: Finding[];
  /** Documents of earlier releases lack them: each finding is its own. */
  causes?: Cause[];
  /** All fixes at once. */
  patch?: Patch | null;
}

export type Document = NetDocument | ComparisonDocument;
