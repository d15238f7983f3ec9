/** Buttons that copy what a field holds. */

export function startCopying(root: Document): void {
  for (const button of root.querySelectorAll<HTMLButtonElement>("[data-copy]"))
    button.addEventListener("click", () => {
      const field = root.querySelector<HTMLInputElement>(button.dataset.copy ?? "");
      if (!field) return;
      field.select();
      const said = button.textContent;
      const tell = (word: string): void => {
        button.textContent = word;
        setTimeout(() => (button.textContent = said), 1500);
      };
      // the clipboard is there on https and on this machine only; else the field is selected, for Ctrl-C
      if (!navigator.clipboard) return tell("Press Ctrl-C");
      navigator.clipboard.writeText(field.value).then(
        () => tell("Copied"),
        () => tell("Press Ctrl-C"),
      );
    });
}
