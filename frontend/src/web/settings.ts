/** The settings of a comparison: from the fields of a form to what the HTTP API takes. */

import { call, type Job, Refused, uploadInput } from "./http.ts";
import { parseSizes } from "./side.ts";

/** What the form says beside the two nets; empty fields are left out. */
export type Settings = Record<string, unknown>;

/** Reads the fields; throws what is wrong with one, in words. Uploads an own input that was chosen. */
export async function readSettings(root: HTMLElement): Promise<Settings> {
  const field = (name: string): string =>
    root.querySelector<HTMLInputElement | HTMLSelectElement>(`[name=${name}]`)?.value.trim() ?? "";
  for (const input of root.querySelectorAll<HTMLInputElement>("input[type=number]"))
    if (!input.validity.valid)
      throw new Refused(
        `${input.labels?.[0]?.textContent?.trim() ?? input.name}: ${input.validationMessage}`,
      );
  const file = root.querySelector<HTMLInputElement>("[name=own_file]")?.files?.[0];
  const sizes = {
    input_shapes_a: sizesOf(field("input_shapes_a")),
    input_shapes_b: sizesOf(field("input_shapes_b")),
  };
  const isImage = file ? !/\.(npz|npy)$/i.test(file.name) : Boolean(field("scale") && field("own_input"));
  const preprocessing = isImage ? preprocessingOf(field) : null;
  const own = file ? (await uploadInput(file)).id : field("own_input");
  const numbers = ["tolerance", "num_samples", "seed"].map((name): [string, number | null] => [
    name,
    field(name) === "" ? null : Number(field(name)),
  ]);
  return {
    first: field("first") || null,
    last: field("last") || null,
    ...Object.fromEntries(numbers),
    ...sizes,
    phase: field("phase") || null,
    stages: field("stages")
      .split(/[\s,]+/)
      .filter(Boolean),
    own_input: own || null,
    preprocessing,
    times: root.querySelector<HTMLInputElement>("[name=times]")?.checked ?? false,
  };
}

function sizesOf(text: string): Record<string, number[]> {
  const found = parseSizes(text, []);
  if (typeof found === "string") throw new Refused(found);
  return found;
}

function preprocessingOf(field: (name: string) => string): Settings {
  const numbers = (name: string, usual: number): number[] => {
    const values = field(name)
      ? field(name)
          .split(/[\s,;]+/)
          .map(Number)
      : [usual];
    if (!values.every(Number.isFinite) || ![1, 3].includes(values.length))
      throw new Refused(`${name} is “${field(name)}”; expected one number, or three such as 104, 117, 123.`);
    return values;
  };
  return {
    color: field("color"),
    fit: field("fit"),
    scale: numbers("scale", 1)[0],
    mean: numbers("mean", 0),
    std: numbers("std", 1),
  };
}

/** Fields that fill in others: a preset of the preprocessing, and the own input that is not wanted any more. */
export function startSettings(root: HTMLElement): void {
  const field = (name: string): HTMLInputElement => root.querySelector<HTMLInputElement>(`[name=${name}]`)!;
  const preset = root.querySelector<HTMLSelectElement>("[name=preset]");
  preset?.addEventListener("change", () => {
    const values = preset.value.split(" ");
    if (values.length < 5) return;
    ["color", "fit", "scale", "mean", "std"].forEach((name, place) => (field(name).value = values[place]!));
  });
  root.querySelector("[data-forget-input]")?.addEventListener("click", () => {
    field("own_input").value = "";
    root.querySelector(".kept-input")?.remove();
    field("own_file").focus();
  });
}

export function sayProblem(root: HTMLElement, error: unknown): void {
  const place = root.querySelector<HTMLElement>(".problem");
  if (place) place.textContent = error instanceof Refused ? error.message : String(error);
}

/** "Again with other settings": the form on the page of a comparison. */
export function startAgain(form: HTMLFormElement): void {
  startSettings(form);
  let isSent = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSent) return; // the button is not disabled meanwhile, since it would lose the focus
    isSent = true;
    sayProblem(form, new Refused(""));
    readSettings(form)
      .then((settings) =>
        call<Job>("POST", "/api/comparisons", { a: form.dataset.a, b: form.dataset.b, ...settings }),
      )
      .then(
        (job) => location.assign(job.page),
        (error: unknown) => {
          isSent = false;
          sayProblem(form, error);
        },
      );
  });
}
