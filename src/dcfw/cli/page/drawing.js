// What charts are drawn with: elements and shapes, the look of a series, the path of a line.

const COLOURS = 7; // the style sheet has the classes colour-0 to colour-6
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
const MARKERS = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  (r) => `M0,${-1.2 * r}L${1.15 * r},${0.9 * r}H${-1.15 * r}Z`,
  (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0Z`,
];

const styleOf = (k) => ({
  colour: `colour-${k % COLOURS}`,
  // Neighbours differ in dash and marker too, and so do all that share a colour: each turn through the seven
  // colours shifts them by 7 + 2, which is 1 of the four.
  dash: DASHES[(k + 2 * Math.floor(k / COLOURS)) % DASHES.length],
  marker: MARKERS[(k + 2 * Math.floor(k / COLOURS)) % MARKERS.length],
});

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

// A path through points; null interrupts it.  A step goes right first, then up or down.
function linePath(points, stepped) {
  let path = "";
  let last = null;
  for (const point of points) {
    if (point) {
      const [px, py] = point.map((v) => v.toFixed(1));
      if (!last) path += `M${px},${py}`;
      else path += stepped ? `H${px}V${py}` : `L${px},${py}`;
    }
    last = point;
  }
  return path;
}
