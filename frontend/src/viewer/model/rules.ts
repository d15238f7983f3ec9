/** How each framework gets from sizes and padding to the number of windows, along one axis. */

import type { Axis } from "./windows.ts";

export interface Choice {
  size: number;
  kernel: number;
  stride: number;
  dilation: number;
  begin: number;
  end: number;
}

interface Rule {
  words: string;
  /** Whether the rule itself says what the padding is. */
  pads: boolean;
  apply: (choice: Choice) => { begin: number; end: number; count: number };
}

const span = ({ kernel, dilation }: Choice): number => (kernel - 1) * dilation + 1;

const steps = (choice: Choice, round: (x: number) => number): number =>
  round((choice.size + choice.begin + choice.end - span(choice)) / choice.stride) + 1;

/** SAME pads so that there are ceil(size / stride) windows; the odd element is at one end. */
function same(choice: Choice, extraAtEnd: boolean): { begin: number; end: number; count: number } {
  const count = Math.ceil(choice.size / choice.stride);
  const total = Math.max((count - 1) * choice.stride + span(choice) - choice.size, 0);
  const [less, more] = [Math.floor(total / 2), Math.ceil(total / 2)];
  return { begin: extraAtEnd ? less : more, end: extraAtEnd ? more : less, count };
}

const explicit =
  (count: (choice: Choice) => number): Rule["apply"] =>
  (choice) => ({ begin: choice.begin, end: choice.end, count: count(choice) });

/** A window that would begin in the end padding is left out. */
function clipped(choice: Choice): number {
  const count = steps(choice, Math.ceil);
  return (count - 1) * choice.stride >= choice.size + choice.begin ? count - 1 : count;
}

export const RULES: Record<string, Rule> = {
  floor: {
    words: "rounds down: PyTorch, MXNet “valid”, ONNX, all convolutions",
    pads: false,
    apply: explicit((choice) => steps(choice, Math.floor)),
  },
  ceil: {
    words: "rounds up: PyTorch and ONNX ceil_mode",
    pads: false,
    apply: explicit(clipped),
  },
  caffe: {
    words: "rounds up: Caffe pooling",
    pads: false,
    // pooling_layer.cpp leaves the window out only if there is padding
    apply: explicit((choice) => (choice.begin || choice.end ? clipped(choice) : steps(choice, Math.ceil))),
  },
  full: {
    words: "rounds up, keeps every window: MXNet “full”, Chainer cover_all",
    pads: false,
    apply: explicit((choice) => steps(choice, Math.ceil)),
  },
  same: {
    words: "SAME, the odd element at the end: TensorFlow, Keras, ONNX SAME_UPPER",
    pads: true,
    apply: (choice) => same(choice, true),
  },
  "same-lower": {
    words: "SAME, the odd element at the beginning: ONNX SAME_LOWER",
    pads: true,
    apply: (choice) => same(choice, false),
  },
  valid: {
    words: "VALID, no padding: TensorFlow, Keras",
    pads: true,
    apply: (choice) => {
      const bare = { ...choice, begin: 0, end: 0 };
      return { begin: 0, end: 0, count: steps(bare, Math.floor) };
    },
  },
};

/** The axis that a rule makes of a choice; null if not one window fits. */
export function axisOf(rule: string, choice: Choice): Axis | null {
  const { begin, end, count } = RULES[rule]!.apply(choice);
  return count >= 1 ? { ...choice, begin, end, count } : null;
}

/** The rules that are a format's own, of poolings and of convolutions; of several that give the same numbers these are shown. */
const OWN: [format: RegExp, ofPoolings: string[], ofConvolutions: string[]][] = [
  [/caffe/i, ["caffe"], ["floor"]],
  [/mxnet|chainer/i, ["floor", "full"], ["floor"]],
  [/tensorflow|keras/i, ["same", "valid"], ["same", "valid"]],
];

/** The rules that make an axis of its own numbers, those of its format first. */
export function rulesOf(axis: Axis, format = "", isPooling = false): string[] {
  const found = OWN.find(([pattern]) => pattern.test(format));
  const own = found?.[isPooling ? 1 : 2] ?? [];
  return [...new Set([...own, ...Object.keys(RULES)])].filter((rule) => {
    const made = axisOf(rule, axis);
    return made && made.count === axis.count && made.begin === axis.begin && made.end === axis.end;
  });
}
