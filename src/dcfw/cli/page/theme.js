// Applies the theme that the reader chose last time, before anything is drawn.
// Without a choice the page follows the system (color-scheme: light dark in the style sheet).
(() => {
  try {
    const theme = localStorage.getItem("dcfw-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden, for instance in a private window: then nothing is remembered.
  }
})();
