/** How two layers compare, and how each status looks: never by colour alone. */

import type { ComparisonDocument, Group, Status, VerdictLook } from "./document.ts";

/** The status of an item of the page; beyond that of a group: */
export type ItemStatus =
  | Status
  /** Paired on little evidence: whatever was found is no fact. */
  | "GUESS"
  /** Computes nothing when the net predicts, and so is in no group. */
  | "IDLE"
  /** Of a type that no reader knows, in a net that can only be looked at. */
  | "UNREAD"
  /** Nothing was compared: a net alone. */
  | "PLAIN";

export interface Look {
  /** One character in front of a name. */
  mark: string;
  words: string;
  /** Name of the custom property of its colour. */
  colour: string;
  /** Border: drawn through, dashed or dotted. */
  dash: number[];
  /** The higher, the more it must be seen. */
  weight: number;
  /** A difference that "next" and "previous" step through. */
  isDifference: boolean;
}

function look(mark: string, words: string, colour: string, weight: number, dash: number[] = []): Look {
  return { mark, words, colour, dash, weight, isDifference: weight >= 6 };
}

export const LOOKS: Record<ItemStatus, Look> = {
  PLAIN: look("", "", "plain", 0),
  IDLE: look("·", "does nothing at inference", "idle", 1, [2, 3]),
  EQUAL: look("=", "equal", "equal", 2),
  MAPPED: look("≅", "equal under the mapping", "mapped", 3),
  STRUCTURE: look("≟", "same structure, weights not compared", "structure", 3.5),
  PROPAGATED: look("~", "propagates an earlier difference", "propagated", 4),
  GUESS: look("?", "paired by a guess", "guess", 5, [5, 4]),
  UNREAD: look("?", "not read", "guess", 5.5, [2, 3]),
  UNKNOWN: look("?", "not compared", "guess", 6, [2, 3]),
  LATENT: look("≈", "different, without effect here", "latent", 7),
  ONLY_A: look("−", "only in A", "only-a", 8, [7, 3]),
  ONLY_B: look("+", "only in B", "only-b", 9, [7, 3]),
  DIFFERENT: look("≠", "different", "different", 10),
};

/** The look of a document's verdict, as Python gives it; of one without a look, its name alone. */
export function verdictLook({ verdict, verdicts }: ComparisonDocument): VerdictLook {
  const found = verdicts.find(({ words }) => words === verdict);
  return found ?? { words: verdict, mark: "?", key: "undecided", meaning: "" };
}

/** Statuses, the gravest first. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the keys of a record
export const STATUSES = (Object.keys(LOOKS) as ItemStatus[]).sort(
  (a, b) => LOOKS[b].weight - LOOKS[a].weight,
);

const EVIDENCE: Record<string, string> = {
  VALUES: "paired because their values agree",
  WEIGHTS: "paired because their weights agree",
  STRUCTURE: "paired by their place in the nets",
  NAME: "paired by name",
  GUESS: "paired by a guess",
};

/** Why a group is a pair, in the words of the command line; values of a rounded net are told with its rounding. */
export function evidenceText({ evidence, status, rounding_error: rounding }: Group): string {
  const text = EVIDENCE[evidence] ?? "";
  if (evidence !== "VALUES" || rounding == null) return text;
  return `${text} ${status === "EQUAL" || status === "MAPPED" ? "within" : "before"} rounding`;
}
