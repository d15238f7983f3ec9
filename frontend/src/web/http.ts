/** The HTTP API, called with the session of this browser. */

export interface Facts {
  title: string;
  layers: number;
  parameters: number;
  loaded: boolean;
  files: string[];
  kinds: string;
  inputs: string[];
  /** Of a net that could not be read: the inputs whose sizes are missing. */
  open_inputs: string[];
  /** Of a net that could not be read: only files without code are allowed here. */
  needs_code: boolean;
  /** What became of the files. */
  sorting: { nets: string[][]; unused: { name: string; why: string }[] };
  /** Further nets that were among the files. */
  split: string[];
}

export type State = "empty" | "queued" | "running" | "done" | "failed" | "cancelled";

export interface Net {
  id: string;
  name: string;
  state: State;
  error: string;
  files: { name: string; num_bytes: number }[];
  input_shapes: Record<string, number[]>;
  facts: Partial<Facts>;
  page: string;
}

export interface Job {
  state: State;
  stage: string;
  error: string;
  page: string;
  /** There before the drawing is. */
  verdict: string;
  sentence: string;
}

/** A call that the workbench refused; the message is for people. */
export class Refused extends Error {}

export const unfinished = (state: State): boolean => state === "queued" || state === "running";

function token(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csrf-token"]')?.content ?? "";
}

/** Returns what a refused call says, whatever form it has. */
function reason(status: number, text: string): string {
  try {
    // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- checked below
    const found = JSON.parse(text) as { detail?: unknown };
    if (typeof found.detail === "string") return found.detail;
    if (Array.isArray(found.detail))
      return found.detail.map((row: { msg?: string }) => row.msg ?? "").join("; ");
  } catch {
    // not JSON: the status has to do
  }
  if (status === 413) return "The file is larger than the server allows.";
  return status
    ? `The workbench responded with status ${status}.`
    : "The workbench does not respond. Is it running?";
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: { "X-CSRFToken": token(), "Content-Type": "application/json", Accept: "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch {
    throw new Refused(reason(0, ""));
  }
  const text = await response.text();
  if (!response.ok) throw new Refused(reason(response.status, text));
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the workbench answers so
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Uploads a file of inputs to run a comparison on. */
export async function uploadInput(file: File): Promise<{ id: string; name: string }> {
  const path = `/api/inputs/${encodeURIComponent(file.name)}`;
  const headers = { "X-CSRFToken": token(), "Content-Type": "application/octet-stream" };
  const response = await fetch(path, { method: "PUT", headers, body: file }).catch(() => null);
  const text = (await response?.text()) ?? "";
  if (!response?.ok) throw new Refused(reason(response?.status ?? 0, text));
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the workbench answers so
  return JSON.parse(text) as { id: string; name: string };
}

/** Uploads a file of a net; `progress` is told the part that has gone, 0 to 1. */
export function upload(net: string, file: File, progress: (part: number) => void): Promise<Net> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not tell how far an upload is
    request.open("PUT", `/api/nets/${net}/files/${encodeURIComponent(file.name)}`);
    request.setRequestHeader("X-CSRFToken", token());
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => progress(event.lengthComputable ? event.loaded / event.total : 0);
    request.onerror = () => reject(new Refused(reason(0, "")));
    request.onload = () =>
      request.status < 300
        ? // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the workbench answers so
          resolve(JSON.parse(request.responseText) as Net)
        : reject(new Refused(reason(request.status, request.responseText)));
    request.send(file);
  });
}
