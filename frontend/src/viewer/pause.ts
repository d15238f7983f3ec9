/** Waiting for the browser: it draws and answers between two steps of a long piece of work. */

export function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
