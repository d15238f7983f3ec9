/** Light or dark, as the system says; Bootstrap wants it as an attribute, before anything is drawn. */

const dark = matchMedia("(prefers-color-scheme: dark)");

function show(): void {
  document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light";
}

show();
dark.addEventListener("change", show);
