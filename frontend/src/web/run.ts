/** The page of a training run: curves, the latest figures and checkpoints, live while it runs. */

import { element, sizeText } from "./element.ts";
import { chart, type Curve } from "./chart.ts";
import { call } from "./http.ts";

interface Answer {
  since: string;
  live: boolean;
  curves?: Record<string, [number, number | null][]>;
  checkpoints?: { name: string; iteration: number | null; num_bytes: number; modified: string }[];
}

const LIVE_MS = 2000;
const REST_MS = 15_000;

/** Curves of one name in several phases (train/loss, test/loss) share a chart. */
function byName(curves: Record<string, [number, number | null][]>): Map<string, Curve[]> {
  const found = new Map<string, Curve[]>();
  for (const [tag, points] of Object.entries(curves)) {
    const cut = tag.indexOf("/");
    const phase = cut < 0 ? tag : tag.slice(0, cut);
    const name = cut < 0 ? tag : tag.slice(cut + 1);
    found.set(name, [...(found.get(name) ?? []), { label: phase, points }]);
  }
  const rank = (name: string): number => ["objective", "loss", "accuracy"].indexOf(name) + 1 || 9;
  return new Map([...found].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b)));
}

export function followRun(root: HTMLElement): void {
  const find = (selector: string): HTMLElement => root.querySelector<HTMLElement>(selector) as HTMLElement;
  const status = find(".read");
  let since = "";

  const show = (answer: Answer): void => {
    find("[data-live]").hidden = !answer.live;
    if (!answer.curves) return;
    const groups = byName(answer.curves);
    status.hidden = groups.size > 0;
    status.className = "read";
    status.textContent = "The event files contain no values yet.";
    find(".charts").replaceChildren(...[...groups].map(([name, curves]) => chart(name, curves)));
    find(".figures").replaceChildren(...figures(answer.curves));
    const rows = (answer.checkpoints ?? []).map((file) => {
      const cell = (text: string, right = false): HTMLElement =>
        element("td", { text, class: right ? "text-end" : "" });
      const iteration = file.iteration === null ? "" : file.iteration.toLocaleString("en");
      return element(
        "tr",
        {},
        cell(file.name),
        cell(iteration, true),
        cell(sizeText(file.num_bytes), true),
        cell(new Date(file.modified).toLocaleString()),
      );
    });
    find("tbody").replaceChildren(...rows);
    find("section").hidden = rows.length === 0;
  };

  const ask = async (): Promise<void> => {
    let pause = REST_MS;
    try {
      if (!document.hidden) {
        const answer = await call<Answer>("GET", `${root.dataset.run}&since=${since}`);
        since = answer.since;
        pause = answer.live ? LIVE_MS : REST_MS;
        show(answer);
      }
    } catch (error) {
      status.hidden = false;
      status.className = "read bad";
      status.textContent = error instanceof Error ? error.message : String(error);
    }
    setTimeout(() => void ask(), document.hidden ? LIVE_MS : pause);
  };
  void ask();
}

/** The latest value of what one looks at first. */
function figures(curves: Record<string, [number, number | null][]>): HTMLElement[] {
  const last = (tag: string): [number, number] | undefined => {
    const point = curves[tag]?.at(-1);
    return point && point[1] !== null ? [point[0], point[1]] : undefined;
  };
  const iteration = Math.max(0, ...Object.values(curves).map((points) => points.at(-1)?.[0] ?? 0));
  const rows: [string, string][] = [["iteration", iteration.toLocaleString("en")]];
  const names = { "train/objective": "loss", "test/accuracy": "test accuracy", "test/loss": "test loss" };
  for (const [tag, name] of Object.entries({ ...names, "train/images_per_s": "images/s" })) {
    const found = last(tag);
    if (found) rows.push([name, found[1].toLocaleString("en", { maximumSignificantDigits: 4 })]);
  }
  return rows.map(([name, value]) =>
    element("div", {}, element("dt", { text: name }), element("dd", { text: value })),
  );
}
