/** Numbers, the smallest first. */

export class Heap {
  private readonly values: number[] = [];

  constructor(values: number[]) {
    values.forEach((value) => this.push(value));
  }

  push(value: number): void {
    const { values } = this;
    let index = values.push(value) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (values[above]! <= value) break;
      values[index] = values[above]!;
      index = above;
    }
    values[index] = value;
  }

  pop(): number | undefined {
    const { values } = this;
    const top = values[0];
    const last = values.pop();
    if (last === undefined || !values.length) return top;
    let index = 0;
    for (;;) {
      let below = 2 * index + 1;
      if (below >= values.length) break;
      if (below + 1 < values.length && values[below + 1]! < values[below]!) below += 1;
      if (values[below]! >= last) break;
      values[index] = values[below]!;
      index = below;
    }
    values[index] = last;
    return top;
  }
}
