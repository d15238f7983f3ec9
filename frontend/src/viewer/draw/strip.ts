/** The minimap: a strip with everything on it, whatever its length, and the part in sight, which can be dragged. */

import { h } from "../dom.ts";
import { LOOKS } from "../model/looks.ts";
import type { Scene } from "./scene.ts";
import type { Theme } from "./theme.ts";

const WIDTH = 64;
const MARGIN = 6;

export class Strip {
  readonly canvas: HTMLCanvasElement;
  private readonly picture = document.createElement("canvas");
  private height = 0;
  private scene: Scene | undefined;

  constructor(private readonly moved: (x: number, y: number) => void) {
    this.canvas = h("canvas", { class: "nw-strip", role: "img", "aria-label": "Minimap" });
    const drag = (event: PointerEvent): void => {
      if (!event.buttons || !this.scene) return;
      const box = this.canvas.getBoundingClientRect();
      const { width, height } = this.scene.layout;
      const x = ((event.clientX - box.left - MARGIN) / (WIDTH - 2 * MARGIN)) * width;
      const y = (event.clientY - box.top - MARGIN) / this.scales()[1];
      this.moved(Math.min(Math.max(x, 0), width), Math.min(Math.max(y, 0), height));
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.canvas.addEventListener("pointermove", drag);
  }

  /** Draw everything once; what moves is drawn over it. */
  show(scene: Scene, theme: Theme): void {
    this.scene = scene;
    const ratio = window.devicePixelRatio || 1;
    this.height = this.canvas.parentElement?.clientHeight ?? 0;
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = WIDTH * ratio;
      canvas.height = Math.max(this.height * ratio, 1);
    }
    const context = this.picture.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, WIDTH, this.height);
    const [across, down] = this.scales();
    const ordered = [...scene.boxes].sort((a, b) => LOOKS[a.status].weight - LOOKS[b.status].weight);
    for (const box of ordered) {
      const look = LOOKS[box.status];
      const height = Math.max(box.height * down - 0.6, look.isDifference ? 3 : 0.6);
      context.fillStyle = theme.colour(look.colour);
      context.globalAlpha = look.isDifference ? 1 : 0.55;
      const width = Math.max(box.width * across, 3);
      context.fillRect(MARGIN + box.x * across, MARGIN + box.y * down, width, height);
    }
  }

  /** Draw what is in sight, in the layout's pixels. */
  drawView(left: number, top: number, right: number, bottom: number, theme: Theme): void {
    if (!this.scene || !this.height) return;
    const ratio = window.devicePixelRatio || 1;
    const context = this.canvas.getContext("2d")!;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = theme.colour("panel");
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [across, down] = this.scales();
    const x = Math.max(MARGIN + left * across, 2);
    const y = Math.max(MARGIN + top * down, 2);
    const width = Math.min(MARGIN + right * across, WIDTH - 2) - x;
    const height = Math.max(Math.min(MARGIN + bottom * down, this.height - 2) - y, 8);
    context.strokeStyle = theme.colour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(x, y, width, height);
    context.globalAlpha = 0.07;
    context.fillStyle = theme.colour("accent");
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
  }

  private scales(): [number, number] {
    const { width, height } = this.scene!.layout;
    const down = Math.min((this.height - 2 * MARGIN) / Math.max(height, 1), 0.12);
    return [(WIDTH - 2 * MARGIN) / Math.max(width, 1), down];
  }
}
