/**
 * Where the focus is on a page that has just opened: for whoever works by keyboard, at what the page is about.
 *
 * A browser starts at the top of every page, and says nothing when a page comes of itself, such as the verdict after
 * the wait. Who works by pointer would be shown a ring that means nothing (decision 0202).
 */

const BY_KEYS = "netweave-by-keys";

export function startArriving(root: Document): void {
  const isByKeys = kept();
  // sooner than what the key does, which may be to leave the page
  root.addEventListener("keydown", () => keep(true), { capture: true });
  root.addEventListener("pointerdown", () => keep(false), { capture: true });
  if (!isByKeys || root.activeElement !== root.body) return;
  const heading = root.querySelector<HTMLElement>("h1");
  if (heading) {
    heading.tabIndex = -1;
    heading.focus();
  }
  root.querySelector("netweave-viewer")?.addEventListener("netweave-shown", (event) => {
    if (root.activeElement === heading || root.activeElement === root.body)
      // eslint-disable-next-line @typescript-eslint/no-unsafe-type-assertion -- the viewer sends itself with it
      (event as CustomEvent<{ focusList: () => void }>).detail.focusList();
  });
}

function keep(isByKeys: boolean): void {
  try {
    sessionStorage.setItem(BY_KEYS, isByKeys ? "1" : "");
  } catch {
    // a browser that keeps nothing starts every page at its top
  }
}

function kept(): boolean {
  try {
    return Boolean(sessionStorage.getItem(BY_KEYS));
  } catch {
    return false;
  }
}
