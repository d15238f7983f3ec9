/** Page 1: the place for files, the samples, and, folded away, two places that say which net is which. */

import { call, type Job, type Net, Refused } from "./http.ts";
import { startFront } from "./front.ts";
import { readSettings, startSettings } from "./settings.ts";
import { Side } from "./side.ts";

export function startPair(form: HTMLFormElement): void {
  const button = form.querySelector<HTMLButtonElement>("#compare")!;
  const why = form.querySelector<HTMLElement>("#why")!;
  let refusal = "";
  let isSent = false;

  const update = (): void => {
    const waits = sides.map((side) => side.waitsFor).filter(Boolean);
    button.disabled = !sides.every((side) => side.ready);
    why.textContent =
      refusal ||
      (waits.length === 2 && !anyFiles() ? "Waiting for the files of both nets." : (waits[0] ?? ""));
    why.classList.toggle("text-danger", refusal !== "");
    if (anyFiles() && apart) apart.open = true;
    remember(sides);
  };
  const anyFiles = (): boolean => sides.some((side) => side.net);
  const sides: Side[] = [];
  const apart = form.closest("details");
  for (const root of form.querySelectorAll<HTMLElement>("[data-side]"))
    sides.push(
      new Side(root, () => {
        refusal = "";
        update();
      }),
    );

  const fail = (error: unknown): void => {
    refusal = error instanceof Refused ? error.message : String(error);
    isSent = false;
    update();
  };

  startSettings(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSent) return; // the button is not disabled meanwhile, since it would lose the focus
    isSent = true;
    const [a, b] = sides.map((side) => side.net?.id);
    readSettings(form)
      .then((settings) => call<Job>("POST", "/api/comparisons", { a, b, ...settings }))
      .then((job) => location.assign(job.page), fail);
  });

  const samples = [...document.querySelectorAll<HTMLButtonElement>("[data-sample]")];
  const problem = document.querySelector<HTMLElement>("#front-problem");
  for (const sample of samples)
    sample.addEventListener("click", () => {
      if (samples.some((other) => other.ariaBusy)) return; // one that was pressed is on its way
      sample.ariaBusy = "true";
      call<{ a: Net; b: Net }>("POST", `/api/samples/${sample.dataset.sample}`)
        .then(({ a, b }) => call<Job>("POST", "/api/comparisons", { a: a.id, b: b.id }))
        .then((job) => location.assign(job.page))
        .catch((error: unknown) => {
          sample.ariaBusy = null;
          if (!problem) return;
          problem.hidden = false;
          problem.textContent = error instanceof Refused ? error.message : String(error);
        });
    });
  // a page that the browser kept, and that is come back to
  addEventListener("pageshow", () => samples.forEach((sample) => (sample.ariaBusy = null)));

  // a file that misses the places must not replace the page
  for (const name of ["dragover", "drop"] as const)
    document.addEventListener(name, (event) => event.preventDefault());

  const front = document.querySelector<HTMLElement>("#front");
  if (front)
    startFront(front, {
      filled: (nets) => {
        const free = [...nets];
        const placed = sides.flatMap((side) => (side.ready && side.net ? [side.net] : free.splice(0, 1)));
        return [...placed, ...free];
      },
      show: (net) => sides.find((side) => !side.net)?.show(net),
    });

  void restore(sides).then(update);
}

/** Keeps the two nets in the page's address, so that reloading loses nothing. */
function remember(sides: Side[]): void {
  const address = new URL(location.href);
  for (const side of sides) {
    const key = side.letter.toLowerCase();
    if (side.net) address.searchParams.set(key, side.net.id);
    else if (started) address.searchParams.delete(key);
  }
  if (started && address.href !== location.href) history.replaceState(null, "", address);
}

let started = false;

async function restore(sides: Side[]): Promise<void> {
  const wanted = new URL(location.href).searchParams;
  for (const side of sides) {
    const id = wanted.get(side.letter.toLowerCase());
    if (id && /^[0-9a-f-]{36}$/.test(id))
      await call<Net>("GET", `/api/nets/${id}`).then(
        (net) => side.show(net),
        () => undefined, // deleted meanwhile: the place stays empty
      );
  }
  started = true;
}
