/** One of the two places for files: what is dropped is uploaded and read, and the place says what it is. */

import { chosenFiles, droppedFiles } from "./dropped.ts";
import { bytesText } from "../viewer/model/wording.ts";
import { element } from "./element.ts";
import { call, type Facts, type Net, Refused, unfinished, upload } from "./http.ts";

const POLL_MS = [150, 250, 400, 500];

export class Side {
  net: Net | undefined;
  /** Files that are on their way. */
  private uploading = 0;
  private making: Promise<Net> | undefined;
  private round = 0;
  private readonly files: HTMLElement;
  private readonly read: HTMLElement;
  private readonly clear: HTMLButtonElement;
  private readonly sizes: HTMLInputElement;
  private readonly sizesProblem: HTMLElement;
  /** Where the operator lets code be read. */
  private readonly entry: HTMLInputElement | null;

  constructor(
    private readonly root: HTMLElement,
    private readonly changed: () => void,
  ) {
    const find = <T extends HTMLElement>(selector: string): T => root.querySelector<T>(selector)!;
    this.files = find(".files");
    this.read = find(".read");
    this.clear = find(".clear");
    this.sizes = find(".sizes input");
    this.sizesProblem = find(".sizes .invalid-feedback");
    for (const input of root.querySelectorAll<HTMLInputElement>("input[type=file]"))
      input.addEventListener("change", () => {
        void this.add(chosenFiles(input.files));
        input.value = ""; // so that the same file may be chosen again
      });
    this.clear.addEventListener("click", () => this.forget());
    this.sizes.addEventListener("change", () => void this.setSizes());
    this.entry = root.querySelector<HTMLInputElement>(".entry input");
    this.entry?.addEventListener("change", () => void this.setEntry());
    this.takeDrops(find(".drop"));
  }

  get letter(): string {
    return this.root.dataset.side ?? "";
  }

  /** Whether there is a net that can be compared, or will be once it is read. */
  get ready(): boolean {
    return this.uploading === 0 && this.net !== undefined && this.net.state === "done";
  }

  /** What the place waits for, in words. */
  get waitsFor(): string {
    if (this.uploading) return `Net ${this.letter} is being uploaded.`;
    if (!this.net || this.net.state === "empty") return `Waiting for the files of net ${this.letter}.`;
    if (this.net.state === "failed") return `Net ${this.letter} cannot be read.`;
    return unfinished(this.net.state) ? `Net ${this.letter} is being read.` : "";
  }

  /** Shows a net that is there already, and follows it until it is read. */
  show(net: Net): void {
    this.round += 1;
    this.net = net;
    this.making = Promise.resolve(net);
    this.files.replaceChildren();
    this.list();
    this.render();
    void this.follow(this.round);
  }

  async add(files: File[]): Promise<void> {
    if (!files.length) return;
    const twice = files.find(({ name }, place) => files.findIndex((other) => other.name === name) < place);
    if (twice) return this.say("bad", `Two files are called ${twice.name}; drop the files of one net only.`);
    this.uploading += files.length;
    this.render();
    for (const file of files) await this.addOne(file);
    this.render();
    this.round += 1;
    void this.follow(this.round);
  }

  private async addOne(file: File): Promise<void> {
    const bar = element("progress", { max: "1", value: "0", "aria-label": `Uploading ${file.name}` });
    const row = this.row(file.name, file.size, bar);
    this.files.append(row);
    try {
      this.making ??= call<Net>("POST", "/api/nets", {});
      const net = await this.making;
      this.net ??= net;
      this.net = await upload(net.id, file, (part) => (bar.value = part));
      row.remove();
      this.list();
    } catch (error) {
      if (!this.net) this.making = undefined;
      row.classList.add("refused");
      bar.replaceWith(element("span", { class: "reason", role: "alert", text: message(error) }));
    } finally {
      this.uploading -= 1;
    }
  }

  private row(name: string, bytes: number, bar?: HTMLElement): HTMLElement {
    const remove = element("button", { type: "button", class: "btn-close", "aria-label": `Remove ${name}` });
    const row = element(
      "li",
      {},
      element("span", { class: "name", text: name, title: name }),
      element("span", { class: "size", text: bytesText(bytes) }),
      ...(bar ? [bar] : []),
      remove,
    );
    remove.addEventListener("click", () => void this.remove(row, name));
    return row;
  }

  /** Shows the files that have arrived, under the names that the workbench gave them. */
  private list(): void {
    for (const row of this.files.querySelectorAll("[data-stored]")) row.remove();
    const rows = (this.net?.files ?? []).map((file) => this.row(file.name, file.num_bytes));
    for (const row of rows) row.dataset.stored = "";
    this.files.prepend(...rows);
  }

  private async remove(row: HTMLElement, name: string): Promise<void> {
    row.remove();
    this.focusFiles();
    if (!this.net || row.dataset.stored === undefined) return this.render();
    const id = this.net.id;
    await this.attempt(() => call<Net>("DELETE", `/api/nets/${id}/files/${encodeURIComponent(name)}`));
  }

  private async setSizes(): Promise<void> {
    if (!this.net) return;
    const shapes = parseSizes(this.sizes.value, inputNames(this.net.facts));
    const isWrong = typeof shapes === "string";
    this.sizes.classList.toggle("is-invalid", isWrong);
    this.sizesProblem.textContent = isWrong ? shapes : "";
    if (isWrong) return;
    await this.attempt(() => call<Net>("PATCH", `/api/nets/${this.net?.id}`, { input_shapes: shapes }));
  }

  private async setEntry(): Promise<void> {
    if (!this.net || !this.entry?.reportValidity()) return;
    const entry = this.entry.value;
    await this.attempt(() => call<Net>("PATCH", `/api/nets/${this.net?.id}`, { entry }));
  }

  private async attempt(action: () => Promise<Net>): Promise<void> {
    try {
      this.net = await action();
      this.round += 1;
      this.render();
      void this.follow(this.round);
    } catch (error) {
      this.say("bad", message(error));
    }
  }

  private forget(): void {
    this.round += 1;
    this.net = undefined;
    this.making = undefined;
    this.files.replaceChildren();
    this.sizes.value = "";
    if (this.entry) this.entry.value = "";
    this.render();
    this.focusFiles();
  }

  /** Where the focus goes from what is not there any more. */
  private focusFiles(): void {
    this.root.querySelector<HTMLInputElement>("input[type=file]")?.focus();
  }

  /** Asks for the net until it is read; a later change ends this round. */
  private async follow(round: number): Promise<void> {
    for (let step = 0; this.net && unfinished(this.net.state); step += 1) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS[Math.min(step, POLL_MS.length - 1)]));
      if (round !== this.round) return;
      try {
        const net = await call<Net>("GET", `/api/nets/${this.net.id}`);
        if (round !== this.round) return;
        this.net = net;
      } catch (error) {
        this.say("bad", message(error));
        return;
      }
      this.render();
    }
    this.list();
    this.render();
  }

  private render(): void {
    const state = this.uploading ? "uploading" : (this.net?.state ?? "empty");
    this.root.dataset.state = state;
    this.clear.hidden = state === "empty" && !this.files.children.length;
    if (state === "done") this.sayWhatItIs(this.net?.facts ?? {});
    else if (state === "failed") this.sayWhy(this.net?.error ?? "");
    else if (state === "queued" || state === "running") this.say("busy", "Reading the net …");
    else if (state === "uploading") this.say("busy", "Uploading …");
    else this.read.replaceChildren();
    this.changed();
  }

  private sayWhatItIs(facts: Partial<Facts>): void {
    const count = (number: number | undefined, noun: string): string =>
      `${(number ?? 0).toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
    const lines: (Node | string)[] = [
      element("p", { class: "is" }, element("strong", { text: facts.title ?? "" }), ` net, recognised`),
      element("p", {
        class: "counts",
        text: `${count(facts.layers, "layer")} · ${count(facts.parameters, "parameter")} · ${(facts.inputs ?? []).join(", ")}`,
      }),
    ];
    if (facts.parameters && !facts.loaded)
      lines.push(
        element("p", {
          class: "missing",
          text: `The weights are missing (${facts.title}: ${facts.kinds}). Drop the weights here too; without them only the structure is compared.`,
        }),
      );
    for (const { name, why } of facts.sorting?.unused ?? [])
      lines.push(element("p", { class: "missing", text: `${name} is not used: ${why}` }));
    if (facts.split?.length) {
      const text = `The files held ${facts.split.length + 1} nets; the other ones are in `;
      lines.push(
        element("p", { class: "missing" }, text, element("a", { href: "/nets/", text: "your nets" }), "."),
      );
    }
    this.read.className = "read good";
    this.read.replaceChildren(...lines);
  }

  private sayWhy(error: string): void {
    const [what = "", known] = error.split(/(?<=\.) (?=It reads [A-Z])/); // the formats that there are
    this.say("bad", what);
    if (known) this.read.append(element("a", { href: "/help/#formats", text: "Supported formats" }));
    if (/that construct a model/.test(error)) this.entry?.closest("details")?.setAttribute("open", "");
    if (this.net?.facts.needs_code && "asksForCode" in this.root.dataset) this.askForCode(this.net.id);
    const [open] = this.net?.facts.open_inputs ?? [];
    if (open === undefined) return;
    this.read.append(
      element("p", {
        class: "hint",
        text: "Drop the weights, which may contain them, or enter them below.",
      }),
    );
    this.sizes.placeholder = `such as ${open}=1x3x224x224`;
    this.root.querySelector<HTMLDetailsElement>(".sizes")!.open = true;
  }

  /** On one's own machine one button allows files that contain code. */
  private askForCode(net: string): void {
    const text =
      "Netweave can run it in a sandbox, without network and without access to your files. Allow it only if you trust where the file comes from.";
    const button = element("button", {
      type: "button",
      class: "btn btn-sm btn-primary",
      text: "Read files with code",
    });
    button.addEventListener("click", () => {
      this.focusFiles();
      void this.attempt(() => call<Net>("POST", `/api/nets/${net}/allow-code`));
    });
    this.read.append(element("p", { text }), button);
  }

  private say(kind: "busy" | "bad", text: string): void {
    this.read.className = `read ${kind}`;
    this.read.replaceChildren(element("p", { text }));
  }

  private takeDrops(target: HTMLElement): void {
    const over = (on: boolean) => (event: DragEvent) => {
      event.preventDefault();
      this.root.classList.toggle("over", on);
    };
    this.root.addEventListener("dragover", over(true));
    this.root.addEventListener("dragleave", over(false));
    this.root.addEventListener("drop", (event) => {
      over(false)(event);
      void droppedFiles(event.dataTransfer).then((files) => this.add(files));
    });
    target.addEventListener("dragenter", over(true));
  }
}

/** Returns the names of the inputs that sizes may be given for, as far as they are known. */
function inputNames(facts: Partial<Facts>): string[] {
  const read = (facts.inputs ?? []).map((text) => text.slice(0, text.lastIndexOf(" ")));
  return facts.open_inputs?.length ? facts.open_inputs : read;
}

/** Parses `data=1x3x224x224, mask=1x10`, or `1x3x224x224` for an only input; else returns what is wrong. */
export function parseSizes(text: string, names: string[]): Record<string, number[]> | string {
  const found: Record<string, number[]> = {};
  for (const part of text.split(/[\s;]+|,(?=\s*[^\d\s])/).filter(Boolean)) {
    const match = /^(?:(.+)=)?(\d+(?:[x×,]\d+)*),?$/.exec(part);
    if (!match) return `“${part}” is not NAME=SIZES, such as ${names[0] ?? "data"}=1x3x224x224.`;
    const name = match[1] ?? (names.length === 1 ? names[0] : undefined);
    if (name === undefined) {
      const example = names.map((known) => `${known}=${match[2]}`).join(", ");
      return `Say which input has the sizes ${match[2]}: ${example || `data=${match[2]}`}.`;
    }
    found[name] = match[2]!.split(/[x×,]/).map(Number);
  }
  return found;
}

function message(error: unknown): string {
  return error instanceof Refused ? error.message : String(error);
}
