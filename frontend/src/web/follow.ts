/** A page that waits for a job: it says what is being done, and loads anew when it is done. */

import { call, type Job, unfinished } from "./http.ts";

/** The stages of a comparison in their order, to draw how far it is. */
const STAGES = ["starting", "reading net A", "reading net B", "normalise", "copy weights", "match weights"];
STAGES.push("run", "match values", "align", "judge", "check another size", "drawing");

const POLL_MS = [300, 300, 500, 700, 1000, 1500];

export function follow(root: HTMLElement): void {
  const text = root.querySelector<HTMLElement>(".stage-text");
  const bar = root.querySelector<HTMLElement>(".progress-bar");
  const frame = root.querySelector<HTMLElement>(".progress");
  let part = 0;

  const show = (job: Job): void => {
    if (text) text.textContent = job.state === "queued" ? "Waiting for a worker …" : words(job.stage);
    const stage = STAGES.findIndex((name) => job.stage.endsWith(name));
    part = Math.max(part, stage < 0 ? part : (100 * (stage + 1)) / (STAGES.length + 1));
    if (bar) bar.style.width = `${part}%`;
    frame?.setAttribute("aria-valuenow", String(Math.round(part)));
  };

  const ask = async (step: number): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS[Math.min(step, POLL_MS.length - 1)]));
    try {
      const job = await call<Job>("GET", root.dataset.follow ?? "");
      if (!unfinished(job.state)) return location.reload();
      show(job);
    } catch (error) {
      if (text) text.textContent = `${error instanceof Error ? error.message : error} Retrying …`;
    }
    return ask(step + 1);
  };
  void ask(0);
}

function words(stage: string): string {
  const plain = stage.replace(/^comparing: /, "");
  return plain ? `${plain[0]?.toUpperCase()}${plain.slice(1)} …` : "Starting …";
}
