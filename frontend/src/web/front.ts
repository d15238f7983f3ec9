/** The front door: files of any nets, which the workbench sorts; one net opens, two are compared. */

import { chosenFiles, droppedFiles, folderOf } from "./dropped.ts";
import { bytesText } from "../viewer/model/wording.ts";
import { element } from "./element.ts";
import { call, type Job, type Net, Refused, unfinished, upload } from "./http.ts";

const POLL_MS = [150, 250, 400, 500];

/** The two places below: what stands there besides nets that came, and what takes one that cannot be opened. */
export interface Places {
  /** Nets that came, in the places that are free, with those that stand in the other ones; A's is first. */
  filled: (nets: Net[]) => Net[];
  show: (net: Net) => void;
}

export function startFront(root: HTMLElement, places: Places): void {
  const list = root.querySelector<HTMLElement>(".files")!;
  const read = root.querySelector<HTMLElement>(".read")!;
  let isBusy = false;

  const say = (kind: "busy" | "bad" | "good", ...texts: string[]): void => {
    read.className = `read ${kind}`;
    read.replaceChildren(...texts.map((text) => element("p", { text })));
  };

  const take = async (files: File[]): Promise<void> => {
    if (!files.length) return;
    if (isBusy) return say("busy", "One moment: the files that came first are still being read.");
    isBusy = true;
    list.replaceChildren();
    try {
      const nets: Net[] = [];
      for (const group of inboxes(files)) nets.push(...(await bring(group, list, say)));
      await lead(nets, places, say);
    } catch (error) {
      say("bad", error instanceof Refused ? error.message : String(error));
    } finally {
      isBusy = false;
    }
  };

  const input = root.querySelector<HTMLInputElement>("input[type=file]");
  input?.addEventListener("change", () => {
    void take(chosenFiles(input.files));
    input.value = ""; // so that the same file may be chosen again
  });
  const over = (on: boolean) => (event: DragEvent) => {
    event.preventDefault();
    root.classList.toggle("over", on);
  };
  root.addEventListener("dragover", over(true));
  root.addEventListener("dragleave", over(false));
  // what misses the two places below is meant for this one
  document.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.target instanceof Element && event.target.closest("[data-side]")) return;
    void droppedFiles(event.dataTransfer).then(take);
  });
}

/** Files that may lie beside each other: all of them, or those of each folder where names come twice. */
export function inboxes(files: File[]): File[][] {
  if (new Set(files.map((file) => file.name)).size === files.length) return [files];
  const folders = new Map<string, File[]>();
  for (const file of files) folders.set(folderOf(file), [...(folders.get(folderOf(file)) ?? []), file]);
  return [...folders.values()];
}

type Say = (kind: "busy" | "bad" | "good", ...texts: string[]) => void;

/** Uploads files, has them sorted and read, and returns the nets that they are. */
async function bring(files: File[], list: HTMLElement, say: Say): Promise<Net[]> {
  const twice = files.find(({ name }, place) => files.findIndex((other) => other.name === name) < place);
  if (twice) throw new Refused(`Two files are called ${twice.name}. Drop them in folders of their own.`);
  say("busy", "Uploading …");
  const { id } = await call<Net>("POST", "/api/nets", {});
  const rows = new Map<string, HTMLElement>();
  for (const file of files) {
    const bar = element("progress", { max: "1", value: "0", "aria-label": `Uploading ${file.name}` });
    const row = element(
      "li",
      {},
      element("span", { class: "name", text: file.name, title: file.name }),
      element("span", { class: "size", text: bytesText(file.size) }),
      bar,
    );
    list.append(row);
    rows.set(file.name.normalize("NFC"), row);
    await upload(id, file, (part) => (bar.value = part));
    bar.remove();
  }
  say("busy", "Sorting and reading the files …");
  const first = await settled(id);
  const { unused = [], nets: sorted = [] } = first.facts.sorting ?? {};
  for (const { name, why } of unused)
    rows.get(name)?.append(element("span", { class: "reason", text: `not used: ${why}` }));
  for (const names of sorted)
    for (const name of names)
      rows.get(name)?.append(element("span", { class: "belongs", text: `→ ${names[0]}` }));
  return inGivenOrder([first, ...(await Promise.all((first.facts.split ?? []).map(settled)))], files);
}

/** Nets in the order in which the user gave their files: the workbench reads small files first. */
export function inGivenOrder(nets: Net[], files: { name: string }[]): Net[] {
  const given = files.map(({ name }) => name.normalize("NFC"));
  const place = ({ files: own }: Net): number =>
    Math.min(...own.map(({ name }) => given.indexOf(name)).map((at) => (at < 0 ? given.length : at)));
  return nets
    .map((net) => ({ net, at: place(net) }))
    .sort((one, other) => one.at - other.at)
    .map(({ net }) => net);
}

/** Returns a net once it is read, or cannot be. */
async function settled(id: string): Promise<Net> {
  for (let step = 0; ; step += 1) {
    const net = await call<Net>("GET", `/api/nets/${id}`);
    if (!unfinished(net.state)) return net;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS[Math.min(step, POLL_MS.length - 1)]));
  }
}

/** Goes on with the nets that came: to the one, to the comparison of two, or to the list. */
async function lead(nets: Net[], places: Places, say: Say): Promise<void> {
  const failed = nets.filter((net) => net.state !== "done");
  const [first, second, ...more] = places.filled(nets);
  if (failed.length === 1 && nets.length === 1) {
    const net = failed[0]!;
    // of other nets the reason says whether anything can be added
    const isOpen = Boolean(net.facts.open_inputs?.length);
    say(
      "bad",
      `This net cannot be read as it is; see below why${isOpen ? ", and add what is missing" : ""}.`,
    );
    return places.show(net);
  }
  if (failed.length && nets.length === 2) {
    // one may lack something that can be added, such as sizes or the word to read code
    say("bad", "Not all nets can be read as they are; see below why.");
    return nets.forEach((net) => places.show(net));
  }
  if (!failed.length && first && second && !more.length) {
    const job = await call<Job>("POST", "/api/comparisons", { a: first.id, b: second.id });
    return location.assign(job.page);
  }
  const isOne = nets.length === 1 && !failed.length;
  location.assign(isOne ? nets[0]!.page : "/nets/");
}
