/** The text of a module bundled by itself, to start a Web Worker from (see build.mjs). */
declare module "*?worker" {
  const text: string;
  export default text;
}

declare module "*.css";
