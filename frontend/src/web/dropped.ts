/** What was dropped or chosen as plain files: folders are walked, and what systems leave in them is passed over. */

/** More files than any net has; what is dropped by mistake is often a whole disk. */
const MAX_FILES = 200;

/** A file of the system, not of a net: .DS_Store, .gitignore, Thumbs.db. */
const isHidden = (name: string): boolean => name.startsWith(".") || name === "Thumbs.db";

const folders = new WeakMap<File, string>();

/** Returns the folder that a file was brought in; empty for one that came alone. */
export function folderOf(file: File): string {
  const known = folders.get(file) ?? file.webkitRelativePath;
  return known.slice(0, Math.max(0, known.lastIndexOf("/")));
}

/** Returns the files of a drop. It has to be called while the event is being handled, before anything is awaited. */
export async function droppedFiles(transfer: DataTransfer | null): Promise<File[]> {
  const entries = [...(transfer?.items ?? [])].map((item) => item.webkitGetAsEntry());
  if (!entries.some((entry) => entry?.isDirectory)) return [...(transfer?.files ?? [])];
  const found: File[] = [];
  for (const entry of entries) if (entry) await walk(entry, found);
  return found;
}

/** Returns the files of a folder that was chosen. */
export function chosenFiles(list: FileList | null): File[] {
  return [...(list ?? [])].filter(({ webkitRelativePath, name }) =>
    webkitRelativePath ? !webkitRelativePath.split("/").some(isHidden) : name !== "",
  );
}

async function walk(entry: FileSystemEntry, found: File[]): Promise<void> {
  if (isHidden(entry.name) || found.length >= MAX_FILES) return;
  if (entry.isFile) {
    // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- `isFile` says so
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    folders.set(file, entry.fullPath ?? "");
    found.push(file);
    return;
  }
  // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- it is no file
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (!some.length) return; // a browser gives a hundred at a time
    for (const inner of some) await walk(inner, found);
  }
}
