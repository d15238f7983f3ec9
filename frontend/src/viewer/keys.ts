/** The keys of the page; none acts while something is typed. */

import type { App } from "./app.ts";
import type { Direction } from "./model/neighbours.ts";

const ARROWS: Record<string, Direction> = {
  ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left",
  ArrowRight: "right",
};

/** Listen to keys: on the whole page, or, where the page is somebody else's, while the viewer has the focus. */
export function listenToKeys(app: App, element: HTMLElement, isEmbedded: boolean): void {
  const keys: Record<string, () => void> = {
    "/": () => app.search(),
    n: () => void app.step(1),
    p: () => void app.step(-1),
    f: () => void app.toggleFold(),
    l: () => void app.setView("layers"),
    o: () => void app.setView("operators"),
    h: () => app.nextMeasure(),
    v: () => app.toggleOverlay(),
    "[": () => app.togglePanel("list"),
    "]": () => app.togglePanel("details"),
    c: () => void app.copyLink(),
    "+": () => app.stage.zoomBy(1.3),
    "=": () => app.stage.zoomBy(1.3),
    "-": () => app.stage.zoomBy(1 / 1.3),
    "0": () => app.stage.fit(),
    w: () => app.openLab(),
    "?": () => app.showHelp(),
    Escape: () => void app.select(null),
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))
      return;
    if (isEmbedded && !(event.target instanceof Node && element.contains(event.target))) return;
    if (!element.isConnected || document.querySelector("dialog[open]")) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  app.stage.panes.forEach((pane) => {
    pane.canvas.addEventListener("focus", () => app.moveToSide(pane.side));
    pane.canvas.addEventListener("keydown", (event) => {
      const direction = ARROWS[event.key];
      if (event.key === "Enter") app.focusDetails();
      else if (direction) void app.move(direction);
      else return;
      event.preventDefault();
    });
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea, [contenteditable]");
}
