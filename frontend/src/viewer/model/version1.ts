/** Documents of earlier releases in the names of today: the workbench keeps what it compared before. */

import {
  type Document,
  type Finding,
  type Group,
  type Status,
  VERSION,
  type VerdictLook,
} from "./document.ts";

interface OldGroup extends Omit<Group, "status" | "isolated_error"> {
  status: Status | "CARRIED";
  graft_error: Group["isolated_error"];
}

interface OldFinding extends Omit<Finding, "mismatch"> {
  trap: Finding["mismatch"];
}

/** The verdicts when documents did not bring them along; of "equal, as stated" only the words have changed. */
const EARLIER: Record<string, VerdictLook> = {
  identical: { words: "identical", mark: "=", key: "identical", meaning: "" },
  "equal, as stated": { words: "equal under a mapping", mark: "≅", key: "equal", meaning: "" },
  "same structure, weights not compared": {
    words: "same structure, weights not compared",
    mark: "≟",
    key: "structure",
    meaning: "",
  },
  different: { words: "different", mark: "≠", key: "different", meaning: "" },
  "not decidable": { words: "not decidable", mark: "?", key: "undecided", meaning: "" },
};

/** The last version with an object for each layer, node and group (tables.ts). */
const LAST_WITH_ROWS = 2;

/** The document of today for one of an earlier release; any other one stays as it is. */
export function ofToday(shown: Document): Document {
  if (!(shown.version <= LAST_WITH_ROWS)) return shown;
  return { ...withVerdicts(shown.version === 1 ? ofVersion2(shown) : shown), version: VERSION };
}

function withVerdicts(shown: Document): Document {
  if (shown.kind === "net" || shown.verdicts) return shown;
  const verdict = EARLIER[shown.verdict]?.words ?? shown.verdict;
  return { ...shown, verdict, verdicts: Object.values(EARLIER) };
}

function ofVersion2(shown: Document): Document {
  if (shown.kind === "net") return shown;
  return {
    ...shown,
    // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- documents of version 1 hold these
    groups: (shown.groups as unknown as OldGroup[]).map(groupOfToday),
    // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- documents of version 1 hold these
    findings: (shown.findings as unknown as OldFinding[]).map(findingOfToday),
  };
}

function groupOfToday({ status, graft_error, ...rest }: OldGroup): Group {
  return { ...rest, status: status === "CARRIED" ? "PROPAGATED" : status, isolated_error: graft_error };
}

function findingOfToday({ trap, ...rest }: OldFinding): Finding {
  return { ...rest, mismatch: trap };
}
