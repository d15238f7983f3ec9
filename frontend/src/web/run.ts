/** The page of training runs: their curves over each other; of one run figures, goodput and checkpoints too, live. */

import { bytesText } from "../viewer/model/wording.ts";
import { element } from "./element.ts";
import { type Axis, Chart, type Curve, type Point } from "./chart.ts";
import { call } from "./http.ts";

type Curves = Record<string, Point[]>;

interface Answer {
  since: string;
  state: string;
  curves?: Curves;
  goodput?: Goodput | null;
  checkpoints?: { name: string; iteration: number | null; num_bytes: number; modified: string }[];
}

/** Shares of the time of a run, over all its starts (``training/goodput.py``). */
interface Goodput {
  elapsed_s: number;
  num_starts: number;
  kept: number;
  causes: Record<string, number>;
}

/** What takes time besides updates that are kept, in the words of the page. */
const CAUSES: Record<string, string> = {
  start: "starts, until their first updates",
  data: "waiting for data",
  exchange: "waiting for the exchange of gradients",
  checkpoint: "writing checkpoints",
  test: "tests",
  lost: "updates that were lost",
  waiting: "waiting to be started again",
};

/** One of the runs that are shown. */
interface Run {
  title: string;
  address: string;
  since: string;
  state: string;
  curves: Curves;
}

const LIVE_MS = 2000;
const REST_MS = 15_000;

/** Curves of one name, of several phases (train/loss, test/loss) and runs, share a chart. */
export function byName(runs: Pick<Run, "title" | "curves">[]): Map<string, Curve[]> {
  const found = new Map<string, Curve[]>();
  for (const { title, curves } of runs)
    for (const [tag, points] of Object.entries(curves)) {
      const cut = tag.indexOf("/");
      const phase = cut < 0 ? tag : tag.slice(0, cut);
      const name = cut < 0 ? tag : tag.slice(cut + 1);
      const label = runs.length > 1 ? `${title} ${phase}` : phase;
      found.set(name, [...(found.get(name) ?? []), { label, points }]);
    }
  const rank = (name: string): number => ["objective", "loss", "accuracy"].indexOf(name) + 1 || 9;
  return new Map([...found].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b)));
}

export function followRuns(root: HTMLElement): void {
  const find = (selector: string): HTMLElement => root.querySelector<HTMLElement>(selector)!;
  const status = find(".read");
  const runs = [...root.querySelectorAll<HTMLElement>("[data-curves]")].map((item): Run => {
    const { curves: address = "", title = "", state = "" } = item.dataset;
    return { title, address, since: "", state, curves: {} };
  });
  const charts = new Map<string, Chart>();
  const axis = (): Axis =>
    // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the values of the radio buttons
    (root.querySelector<HTMLInputElement>("[name=axis]:checked")?.value ?? "automatic") as Axis;

  const draw = (): void => {
    const groups = byName(runs);
    status.hidden = groups.size > 0;
    status.className = "read";
    const isUnderWay = runs.some((run) => run.state === "running");
    status.textContent = `The event files contain no values${isUnderWay ? " yet" : ""}.`;
    for (const [name, curves] of groups) {
      const chart = charts.get(name) ?? new Chart(name);
      charts.set(name, chart);
      chart.show(curves, axis());
    }
    const wanted = [...groups.keys()].map((name) => charts.get(name)!.element);
    const here = [...find(".charts").children];
    // what has the focus keeps it, as long as nothing is moved
    if (wanted.length !== here.length || wanted.some((chart, place) => chart !== here[place]))
      find(".charts").replaceChildren(...wanted);
  };

  /** Ask for what is new of a run; whether there is something. */
  const ask = async (run: Run): Promise<boolean> => {
    const answer = await call<Answer>("GET", `${run.address}&since=${run.since}`);
    // what stands on the page besides the curves, such as why it failed, is the server's
    if (run.state === "running" && answer.state !== "running") location.reload();
    [run.since, run.state] = [answer.since, answer.state];
    if (!answer.curves) return false;
    run.curves = answer.curves;
    if (runs.length === 1) {
      find(".figures").replaceChildren(...figures(answer.curves));
      showGoodput(find("[data-goodput]"), answer.goodput ?? undefined);
      showCheckpoints(find("[data-checkpoints]"), answer.checkpoints ?? []);
    }
    return true;
  };

  const askAll = async (): Promise<void> => {
    let pause = REST_MS;
    try {
      if (!document.hidden) {
        const news = await Promise.all(runs.map(ask));
        if (news.includes(true)) draw();
        if (news.includes(true) || runs.some((run) => run.state === "running")) pause = LIVE_MS;
      }
    } catch (error) {
      status.hidden = false;
      status.className = "read bad";
      status.textContent = error instanceof Error ? error.message : String(error);
    }
    setTimeout(() => void askAll(), document.hidden ? LIVE_MS : pause);
  };
  for (const choice of root.querySelectorAll("[name=axis]")) choice.addEventListener("change", draw);
  void askAll();
}

function showGoodput(section: HTMLElement, found: Goodput | undefined): void {
  section.hidden = found === undefined;
  if (!found) return;
  const seconds = (share: number): string =>
    (share * found.elapsed_s).toLocaleString("en", { maximumFractionDigits: 1 });
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
  const starts = found.num_starts === 1 ? "1 start" : `${found.num_starts} starts`;
  section.querySelector("p")!.textContent =
    `${percent(found.kept)} of the ${seconds(1)} s since the run began, over ${starts}, ` +
    "went into updates that were kept.";
  const causes = Object.entries(found.causes).map(
    ([cause, share]) => [CAUSES[cause] ?? cause, share] as const,
  );
  const rows = [["updates that were kept", found.kept] as const, ...causes].map(([name, share]) => {
    const bar = element("span", { class: "share" });
    bar.style.width = `${Math.min(1, share) * 100}%`;
    return element(
      "tr",
      {},
      element("th", { scope: "row", text: name }),
      element("td", { class: "text-end", text: percent(share) }),
      element("td", { class: "text-end", text: seconds(share) }),
      element("td", { "aria-hidden": "true" }, bar),
    );
  });
  section.querySelector("tbody")!.replaceChildren(...rows);
}

function showCheckpoints(section: HTMLElement, files: NonNullable<Answer["checkpoints"]>): void {
  const cell = (text: string, right = false): HTMLElement =>
    element("td", { text, class: right ? "text-end" : "" });
  const rows = files.map((file) => {
    const iteration = file.iteration === null ? "" : file.iteration.toLocaleString("en");
    return element(
      "tr",
      {},
      cell(file.name),
      cell(iteration, true),
      cell(bytesText(file.num_bytes), true),
      cell(new Date(file.modified).toLocaleString()),
    );
  });
  section.querySelector("tbody")?.replaceChildren(...rows);
  section.hidden = rows.length === 0;
}

/** The latest value of what one looks at first. */
function figures(curves: Curves): HTMLElement[] {
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
