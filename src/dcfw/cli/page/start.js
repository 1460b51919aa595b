// Sets up the page: its charts, its tables, the theme button, and the current section in the contents.

document.querySelectorAll("figure.table").forEach(enhanceTable);
document.querySelectorAll("figure.chart").forEach((figure) => new Chart(figure));
addThemeButton();
foldContents();
followContents();

function addThemeButton() {
  const root = document.documentElement;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "theme";
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => {
    button.textContent = isDark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("dcfw-theme", root.dataset.theme);
    } catch {
      // Not remembered, but applied.
    }
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
  document.querySelector("header.top").prepend(button);
}

// On a narrow screen the list of contents would push the page away: it starts folded.  (The width is that
// at which the style sheet puts the list beside the page.)
function foldContents() {
  const contents = document.querySelector("nav details");
  const wide = matchMedia("(min-width: 68rem)");
  const fold = () => {
    contents.open = wide.matches;
  };
  wide.addEventListener("change", fold);
  fold();
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a") && !wide.matches) contents.open = false;
    // Beside the page it is always there.
    if (event.target.closest("summary") && wide.matches) event.preventDefault();
  });
}

// Marks the section that is being read in the list of contents.
function followContents() {
  const links = new Map(
    [...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]),
  );
  const headings = [...links.keys()].map((name) => document.getElementById(name)).filter(Boolean);
  const mark = () => {
    let current = null;
    for (const heading of headings) {
      if (heading.getBoundingClientRect().top > 120) break;
      current = heading;
    }
    links.forEach((link, name) => {
      if (current && name === current.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  let waiting = false;
  addEventListener(
    "scroll",
    () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        mark();
      });
    },
    { passive: true },
  );
  mark();
}
