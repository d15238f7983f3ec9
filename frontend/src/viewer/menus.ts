/** Menus are `details` elements; they close by Escape, by a click elsewhere, and when another opens. */

/** Watch over the menus that match a selector, also those that are added later. */
export function startMenus(root: Document, selector: string): void {
  const close = (except?: Element): void => {
    for (const menu of root.querySelectorAll<HTMLDetailsElement>(`${selector}[open]`))
      if (menu !== except) menu.open = false;
  };
  const menuOf = (event: Event): HTMLDetailsElement | null =>
    event.target instanceof Element ? event.target.closest<HTMLDetailsElement>(selector) : null;
  root.addEventListener(
    "toggle",
    (event) => {
      const menu = menuOf(event);
      const opened = event.target;
      if (!menu || !(opened instanceof HTMLDetailsElement) || !opened.open) return;
      close(menu);
      const inner = opened.querySelectorAll<HTMLElement>(
        ":is(input:not([type=hidden]), select, button, a, summary)",
      );
      [...inner]
        .find((element) => element !== opened.firstElementChild && element.checkVisibility())
        ?.focus();
    },
    { capture: true }, // it does not bubble
  );
  root.addEventListener("keydown", (event) => {
    const menu = menuOf(event);
    if (event.key !== "Escape" || !menu?.open) return;
    menu.open = false;
    menu.querySelector<HTMLElement>("summary")?.focus();
    event.preventDefault(); // other keys of the page do not act on it
    event.stopImmediatePropagation();
  });
  root.addEventListener("click", (event) => close(menuOf(event) ?? undefined));
}
