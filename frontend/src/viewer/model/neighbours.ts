/** Where an arrow key leads: along the edges up and down, to what stands beside it left and right. */

import { type Box, type Scene, isDrawn, isPresent } from "../draw/scene.ts";

export type Direction = "up" | "down" | "left" | "right";

export function neighbour(
  scene: Scene,
  from: Box | undefined,
  direction: Direction,
  side: number,
): Box | undefined {
  const isHere = (box: Box): boolean => isPresent(box, side);
  if (!from) return scene.boxes.find(isHere);
  if (direction === "left" || direction === "right") {
    const sign = direction === "left" ? -1 : 1;
    const beside = scene.boxes.filter((box) => isHere(box) && sign * (box.x - from.x) > 1);
    const near = beside.filter((box) => Math.abs(centre(box) - centre(from)) < 120);
    return nearest(near, (box) => Math.abs(box.x - from.x) + 2 * Math.abs(centre(box) - centre(from)));
  }
  const isDown = direction === "down";
  const along = scene.edges
    .filter((edge) => isDrawn(edge, side) && (isDown ? edge.source : edge.target) === from.id)
    .map((edge) => scene.byId.get(isDown ? edge.target : edge.source)!);
  const found = nearest(along, (box) => Math.abs(box.x - from.x));
  if (found) return found;
  const beyond = scene.boxes.filter((box) => isHere(box) && (isDown ? box.y > from.y : box.y < from.y));
  return nearest(beyond, (box) => Math.abs(box.y - from.y) + 0.1 * Math.abs(box.x - from.x));
}

function centre(box: Box): number {
  return box.y + box.height / 2;
}

function nearest(boxes: Box[], distance: (box: Box) => number): Box | undefined {
  return boxes.reduce<Box | undefined>(
    (best, box) => (best === undefined || distance(box) < distance(best) ? box : best),
    undefined,
  );
}
