/** Pixels from one number at an axis to the next. */
const TICK_ROOM = 22;

/** Returns the ticks of a logarithmic axis that do not overprint each other: whole powers of ten before others. */
export function apart(ticks: number[], place: (tick: number) => number): number[] {
  const digits = (tick: number): number => [1, 5, 2].indexOf(Number(tick.toExponential()[0]));
  const rank = (tick: number): number => (digits(tick) < 0 ? 3 : digits(tick));
  const kept: number[] = [];
  for (const tick of [...ticks].sort((a, b) => rank(a) - rank(b)))
    if (kept.every((other) => Math.abs(place(other) - place(tick)) >= TICK_ROOM)) kept.push(tick);
  return kept.sort((a, b) => a - b);
}
