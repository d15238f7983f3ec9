/** Colours and fonts of the canvases: those of the style sheet, read anew when light and dark change. */

const NAMES = [
  "ground",
  "panel",
  "text",
  "dim",
  "line",
  "edge",
  "box",
  "frame",
  "accent",
  ...[
    "plain",
    "idle",
    "equal",
    "mapped",
    "structure",
    "propagated",
    "guess",
    "latent",
    "different",
    "only-a",
    "only-b",
  ],
  ...["op-weights", "op-activation", "op-norm", "op-pool", "op-merge", "op-shape"],
  ...["propagated-soft", "guess-soft", "latent-soft", "different-soft", "only-a-soft", "only-b-soft"],
] as const;

export interface Theme {
  colour(name: string): string;
  sans: string;
  mono: string;
}

export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element);
  const colours = new Map<string, string>(
    NAMES.map((name) => [name, style.getPropertyValue(`--nw-${name}`).trim()]),
  );
  return {
    colour: (name) => colours.get(name) || colours.get("line") || "",
    sans: style.getPropertyValue("--nw-sans").trim(),
    mono: style.getPropertyValue("--nw-mono").trim(),
  };
}
