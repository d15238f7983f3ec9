/** The pages of the workbench around the viewer: uploading, following a job, small helps. */

import "bootstrap/dist/css/bootstrap.min.css";
import "./web.css";

import { startArriving } from "./arrive.ts";
import { follow } from "./follow.ts";
import { startMenus } from "../viewer/menus.ts";
import { startPair } from "./pair.ts";
import { followRuns } from "./run.ts";
import { startAgain } from "./settings.ts";
import { startCopying } from "./copy.ts";

const form = document.querySelector<HTMLFormElement>("#pair");
if (form) startPair(form);

const waiting = document.querySelector<HTMLElement>("[data-follow]");
if (waiting) follow(waiting);

const run = document.querySelector<HTMLElement>("[data-runs]");
if (run) followRuns(run);

for (const again of document.querySelectorAll<HTMLFormElement>("form[data-again]")) startAgain(again);

startArriving(document);
startMenus(document, "details.menu");
startCopying(document);
