/** Elements from code; text is always text, never markup. */

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: { class?: string; text?: string } & Record<string, string | undefined> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
