/** Dark, light, or as the system has it; kept in this browser. */

import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const KEY = "comfyrail-theme";

export const theme = signal<Theme>(kept());

function kept(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto"; // a browser that keeps nothing
  }
}

effect(() => {
  const value = theme.value;
  if (value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  try {
    if (value === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
  } catch {
    // it counts until the page is closed
  }
});
