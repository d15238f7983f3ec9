/** Menus are `details` elements; they close by Escape, by a click elsewhere, and when another opens. */

export function startMenus(root: Document): void {
  const menus = [...root.querySelectorAll<HTMLDetailsElement>("details.menu")];
  const close = (except?: HTMLDetailsElement): void => {
    for (const menu of menus) if (menu !== except) menu.open = false;
  };
  for (const menu of menus) {
    menu.addEventListener("toggle", () => {
      if (!menu.open) return;
      close(menu);
      menu.querySelector<HTMLElement>(".panel input:not([type=hidden]), .panel button, .panel a")?.focus();
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector<HTMLElement>("summary")?.focus();
      event.stopPropagation();
    });
  }
  root.addEventListener("click", (event) => {
    if (event.target instanceof Element && !event.target.closest("details.menu")) close();
  });
}
