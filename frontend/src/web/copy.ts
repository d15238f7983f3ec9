/** Buttons that copy what a field holds, or what lies at an address. */

export function startCopying(root: Document): void {
  for (const button of root.querySelectorAll<HTMLButtonElement>("[data-copy]"))
    button.addEventListener("click", () => {
      const field = root.querySelector<HTMLInputElement>(button.dataset.copy ?? "");
      if (!field) return;
      field.select();
      // the clipboard is there on https and on this machine only; else the field is selected, for Ctrl-C
      void copied(() => field.value).then((isCopied) => tell(button, isCopied ? "Copied" : "Press Ctrl-C"));
    });
  for (const button of root.querySelectorAll<HTMLButtonElement>("[data-copy-from]"))
    button.addEventListener("click", () => {
      void copied(async () => {
        const response = await fetch(button.dataset.copyFrom ?? "");
        if (!response.ok) throw new Error(response.statusText);
        return response.text();
      }).then((isCopied) => tell(button, isCopied ? "Copied" : "Not copied: download it"));
    });
}

async function copied(read: () => string | Promise<string>): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(await read());
    return true;
  } catch {
    return false;
  }
}

function tell(button: HTMLButtonElement, words: string): void {
  const label = button.textContent;
  button.textContent = words;
  setTimeout(() => (button.textContent = label), 1500);
}
