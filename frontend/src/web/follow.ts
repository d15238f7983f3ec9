/** A page that waits for a job: what is being done and since when, the verdict when it is there, then the page anew. */

import { call, type Job, unfinished } from "./http.ts";

/** The stages of a comparison in their order, to draw how far it is, and what each does in plain words. */
const STAGES: Record<string, string> = {
  starting: "Starting",
  "reading net A": "Reading net A",
  "reading net B": "Reading net B",
  "take roundings apart": "Finding where one net is rounded to fewer bits",
  normalise: "Bringing both nets into the same form",
  "copy weights": "Copying weights to the net that has none",
  "match weights": "Finding layers with the same weights",
  "compare weights": "Comparing the weights",
  run: "Running both nets on the same inputs",
  "match values": "Finding layers with the same outputs",
  align: "Pairing the remaining layers",
  judge: "Running the differing layers on their own, and trying explanations",
  review: "Checking the explanations",
  "keep values": "Keeping what each layer computes, to be shown",
  "check another size": "Running both nets on inputs of another size",
  "check other integers": "Running both nets on other integers than masks and positions hold",
  "check longer sequences": "Running the code of both nets on longer sequences",
  "check steps through caches": "Running decoders one token at a time",
  "measure coverage": "Looking for settings that the inputs did not exercise",
  "measure rounding": "Measuring how much of the difference is rounding",
  "timing net A": "Measuring how long each layer of net A takes",
  "timing net B": "Measuring how long each layer of net B takes",
  drawing: "Drawing both nets",
};
const NAMES = Object.keys(STAGES);

const POLL_MS = [300, 300, 500, 700, 1000, 1500];
const NEAR_END_MS = 500;
const NEAR_END = NAMES.indexOf("judge");
const SECOND_MS = 1000;

export function follow(root: HTMLElement): void {
  const find = (selector: string): HTMLElement | null => root.querySelector<HTMLElement>(selector);
  const begun = Date.now();
  let part = 0;
  let isNearEnd = false;

  const showTime = (): void => {
    const time = find(".elapsed");
    if (time) time.textContent = elapsed(Date.now() - begun);
  };

  const show = (job: Job): void => {
    const text = find(".stage-text");
    const words = job.state === "queued" ? "Waiting for a worker" : stageWords(job.stage);
    if (text && text.textContent !== `${words} …`) text.textContent = `${words} …`;
    const stage = NAMES.findIndex((name) => job.stage.endsWith(name));
    isNearEnd ||= stage >= NEAR_END || job.verdict !== "";
    part = Math.max(part, stage < 0 ? part : (100 * (stage + 1)) / (NAMES.length + 1));
    const bar = find(".progress-bar");
    if (bar) bar.style.width = `${part}%`;
    find(".progress")?.setAttribute("aria-valuenow", String(Math.round(part)));
    const early = find(".early");
    if (early?.hidden && job.verdict) {
      early.hidden = false;
      early.textContent = job.sentence;
    }
  };

  const ask = async (step: number): Promise<void> => {
    const pause = POLL_MS[Math.min(step, POLL_MS.length - 1)]!;
    await new Promise((resolve) => setTimeout(resolve, isNearEnd ? Math.min(pause, NEAR_END_MS) : pause));
    try {
      const job = await call<Job>("GET", root.dataset.follow ?? "");
      if (!unfinished(job.state)) return location.reload();
      show(job);
    } catch (error) {
      const text = find(".stage-text");
      if (text) text.textContent = `${error instanceof Error ? error.message : String(error)} Retrying …`;
    }
    return ask(step + 1);
  };
  setInterval(showTime, SECOND_MS);
  void ask(0);
}

/** A stage in plain words; one that is not known, as it is. */
export function stageWords(stage: string): string {
  const plain = stage.replace(/^comparing: /, "");
  return STAGES[plain] ?? (plain ? `${plain[0]?.toUpperCase()}${plain.slice(1)}` : "Starting");
}

export function elapsed(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
