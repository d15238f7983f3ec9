/** The windows of convolutions and poolings along each axis: what they read of the border, and what they do not. */

import type { Item, Net } from "./document.ts";

/** Windows along one axis, in elements of the input; the first element is 0. */
export interface Axis {
  size: number;
  kernel: number;
  dilation: number;
  stride: number;
  begin: number;
  end: number;
  /** How many windows there are. */
  count: number;
}

/** The two last axes of an operator with windows; one axis of one that has only one. */
export interface Windows {
  axes: Axis[];
  /** Whether its rule for the border is not numbers yet (auto_pad), or the input's size is open. */
  isOpen: boolean;
  isPooling: boolean;
}

const WITH_WINDOWS = /^(netweave::)?(Conv|MaxPool|AveragePool|LpPool|MaxUnpool)$/;

/** The windows of an operator; null if it has none. */
export function windowsOf(net: Net, node: Item): Windows | null {
  const settings = new Map(node.settings);
  const kernel = numbers(settings.get("kernel_shape"));
  if (!WITH_WINDOWS.test(node.type) || !kernel.length) return null;
  const rank = kernel.length;
  const strides = numbers(settings.get("strides"), rank, 1);
  const dilations = numbers(settings.get("dilations"), rank, 1);
  const pads = numbers(settings.get("pads"), 2 * rank, 0);
  const automatic = settings.get("auto_pad");
  const [input, output] = [sizesOf(net, node.inputs[0]), sizesOf(net, node.outputs[0])];
  let isOpen = automatic !== undefined && automatic !== "NOTSET" && automatic !== "VALID";
  const axes = kernel.map((length, axis): Axis => {
    const found: Axis = {
      size: input?.[axis + 2] ?? Number.NaN,
      ...{ kernel: length, dilation: dilations[axis]!, stride: strides[axis]! },
      ...{ begin: pads[axis]!, end: pads[axis + rank]!, count: output?.[axis + 2] ?? Number.NaN },
    };
    if (Number.isNaN(found.size) || Number.isNaN(found.count)) isOpen = true;
    return found;
  });
  return { axes: axes.slice(-2), isOpen, isPooling: !node.type.endsWith("Conv") };
}

/** Elements of the input that the last window reads beyond the end, padding included; below 0: left unread. */
export function beyondEnd(axis: Axis): number {
  return lastEnd(axis) - (axis.size - 1);
}

/** The last element that the last window reads. */
export function lastEnd(axis: Axis): number {
  return (axis.count - 1) * axis.stride - axis.begin + (axis.kernel - 1) * axis.dilation;
}

function sizesOf(net: Net, value: number | undefined): number[] | undefined {
  const sizes = value === undefined ? undefined : net.values[value]?.[1];
  return sizes?.map((size) => (typeof size === "number" ? size : Number.NaN));
}

function numbers(text: string | undefined, length = 0, otherwise = 0): number[] {
  if (!text) return new Array<number>(length).fill(otherwise);
  return text.split(",").map(Number);
}
