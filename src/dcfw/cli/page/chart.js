// Charts in SVG: lines, steps and points on linear or logarithmic axes.
//
// A chart reads its data from the JSON in its figure and adds, in this order: a row of zoom buttons, the
// drawing, a legend whose buttons hide and show a series, and the numbers as a table behind a disclosure.
//
// mouse      drag a rectangle to zoom, double-click to see everything, point to read a value
// touch      pinch to zoom, tap to read a value
// wheel      with Ctrl (which is also what a pinch on a touchpad sends); alone it scrolls the page
// keyboard   left and right go along a series, up and down change it; + and - zoom, 0 resets
//
// Text from the data only ever becomes textContent or an attribute's value, never markup.

const FEW_POINTS = 30; // lines with few points show them
const DRAG = 6; // pixels before a press becomes a rectangle
const REACH = 48; // how far from a point the pointer still reads it


class Chart {
  constructor(figure) {
    this.figure = figure;
    this.data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    this.series = this.data.series.map((series) => ({
      ...series,
      ...styleOf(series.style),
      hidden: series.hidden === true,
    }));
    this.view = null; // units [x low, x high, y low, y high]; null means everything
    this.pointers = new Map();
    this.build();
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  // ---------------------------------------------------------------------------------------- building

  build() {
    const { title, alt } = this.data;
    this.tools = element("div", { class: "tools", role: "group", "aria-label": `Zoom: ${title}` });
    for (const [text, label, action] of [
      ["+", "Zoom in", () => this.zoom(0.5)],
      ["−", "Zoom out", () => this.zoom(2)],
      ["Reset", "Reset the zoom", () => this.reset()],
    ]) {
      const button = element("button", { type: "button", "aria-label": label, title: label }, text);
      button.addEventListener("click", action);
      this.tools.append(button);
    }
    this.svg = shape("svg", { role: "img", "aria-label": alt });
    this.tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.plot = element(
      "div",
      { class: "plot", tabindex: "0", role: "group", "aria-label": `${title}. Arrow keys read the points.` },
      this.svg,
      this.tip,
    );
    this.spoken = element("p", { class: "unseen", "aria-live": "polite" });
    this.legend = element("div", { class: "legend", role: "group", "aria-label": `Shown in: ${title}` });
    for (const series of this.series) this.legend.append(this.legendButton(series));
    this.figure.append(this.tools, this.plot, this.spoken, this.legend, this.numbers());
    this.listen();
  }

  legendButton(series) {
    const key = shape("svg", { class: `key ${series.colour}`, viewBox: "0 0 30 12", "aria-hidden": "true" });
    if (this.data.kind !== "scatter") {
      key.append(shape("path", { class: "line", d: "M1,6H29", "stroke-dasharray": series.dash }));
    }
    if (this.data.kind === "scatter" || this.isSparse(series)) {
      key.append(shape("path", { class: "dot", d: series.marker(4), transform: "translate(15,6)" }));
    }
    const button = element("button", { type: "button", "aria-pressed": String(!series.hidden) }, key, series.name);
    button.addEventListener("click", () => {
      series.hidden = !series.hidden;
      button.setAttribute("aria-pressed", String(!series.hidden));
      this.point(null);
      this.draw();
    });
    return button;
  }

  // The table is built only when it is opened: it can be long, and most readers never open it.
  numbers() {
    const details = element("details", { class: "numbers" }, element("summary", {}, "The numbers of this chart"));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(this.numberTable());
    });
    return details;
  }

  numberTable() {
    const { title, x, y } = this.data;
    const labelled = this.series.some((series) => series.labels);
    const names = ["series", ...(labelled ? ["point"] : []), x.label, y.label];
    const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
    const body = element("tbody");
    for (const series of this.series) {
      series.x.forEach((value, k) => {
        if (value === null || series.y[k] === null) return;
        const row = element("tr", {}, element("th", { scope: "row" }, series.name));
        if (labelled) row.append(element("td", {}, series.labels ? series.labels[k] : ""));
        row.append(
          element("td", { class: "number" }, formatNumber(value, 6)),
          element("td", { class: "number" }, formatNumber(series.y[k], 6)),
        );
        body.append(row);
      });
    }
    const table = element("table", { "aria-label": `Numbers: ${title}` }, element("thead", {}, head), body);
    return element(
      "div",
      { class: "scroll", role: "group", tabindex: "0", "aria-label": `Numbers of the chart: ${title}` },
      table,
    );
  }

  isSparse(series) {
    return series.x.length <= FEW_POINTS;
  }

  // ----------------------------------------------------------------------------------------- drawing

  visible() {
    return this.series.filter((series) => !series.hidden);
  }

  everything() {
    // With every series hidden the axes stay where they were.
    const shown = this.visible().length ? this.visible() : this.series;
    const gather = (names) => shown.flatMap((series) => names.flatMap((name) => series[name] ?? []));
    const { x, y } = this.data;
    const floor = y.floor ?? -Infinity;
    const heights = gather(["y", "low", "high"]).filter((value) => value === null || value >= floor);
    return [...extent(x.scale, gather(["x"])), ...extent(y.scale, heights, this.data.kind === "scatter")];
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const height = Math.round(Math.min(Math.max(0.62 * width, 280), 400));
    const [x0, x1, y0, y1] = this.view ?? this.everything();
    const { x, y } = this.data;
    const yTicks = makeScale(y.scale, [y0, y1], [1, 0]).ticks(Math.max(3, Math.floor(height / 45)));
    const widest = Math.max(...yTicks.map(({ text }) => text.length), 2);
    this.box = { left: 30 + 7.2 * widest, right: width - 12, top: 10, bottom: height - 46 };
    const { left, right, top, bottom } = this.box;
    this.x = makeScale(x.scale, [x0, x1], [left, right]);
    this.y = makeScale(y.scale, [y0, y1], [bottom, top]);

    const clip = `${this.figure.id}-clip`;
    const clipPath = shape("clipPath", { id: clip });
    clipPath.append(shape("rect", { x: left, y: top, width: right - left, height: bottom - top }));
    const axes = shape("g", { class: "axes" });
    for (const { value, text } of this.x.ticks(Math.max(2, Math.floor((right - left) / 62)))) {
      const at = this.x.pixel(value);
      axes.append(shape("line", { x1: at, x2: at, y1: top, y2: bottom }));
      axes.append(shape("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, text));
    }
    for (const { value, text } of yTicks) {
      const at = this.y.pixel(value);
      axes.append(shape("line", { x1: left, x2: right, y1: at, y2: at }));
      axes.append(shape("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, text));
    }
    const middle = (top + bottom) / 2;
    axes.append(
      shape("text", { class: "label", x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, x.label),
      shape(
        "text",
        { class: "label", "text-anchor": "middle", transform: `translate(13,${middle}) rotate(-90)` },
        y.label,
      ),
    );
    this.marks = shape("g", { "clip-path": `url(#${clip})` });
    for (const series of this.visible()) this.drawSeries(series);
    this.ring = shape("path", { class: "ring", d: MARKERS[0](6) });
    this.ring.style.display = "none";
    this.band = shape("rect", { class: "rubber" });
    this.band.style.display = "none";
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(clipPath, axes, this.marks, this.ring, this.band);
    this.tools.classList.toggle("zoomed", this.view !== null);
  }

  // The points of a series in pixels; null where one cannot be drawn.
  pixels(series, name = "y") {
    // Where the chart ends at a floor, a line that drops to 0 leaves it like one that drops to rounding errors.
    const zero = this.data.y.scale === "log" && this.data.y.floor ? Number.MIN_VALUE : 0;
    return series.x.map((value, k) => {
      const other = series[name][k] === 0 ? zero : series[name][k];
      if (value === null || other === null) return null;
      const [px, py] = [this.x.pixel(value), this.y.pixel(other)];
      return Number.isFinite(px) && Number.isFinite(py) ? [px, py] : null;
    });
  }

  drawSeries(series) {
    const group = shape("g", { class: series.colour });
    const points = this.pixels(series);
    if (series.low) group.append(shape("path", { class: "area", d: this.areaPath(series) }));
    if (this.data.kind !== "scatter") {
      const d = linePath(points, this.data.kind === "step");
      group.append(shape("path", { class: "line", d, "stroke-dasharray": series.dash }));
    }
    if (this.data.kind === "scatter" || (this.data.kind === "line" && this.isSparse(series))) {
      const crowded = points.length > FEW_POINTS && this.plot.clientWidth < 500;
      const radius = points.length < FEW_POINTS / 4 ? 5 : crowded ? 2.4 : 3.4;
      for (const point of points.filter(Boolean)) {
        const place = `translate(${point[0].toFixed(1)},${point[1].toFixed(1)})`;
        group.append(shape("path", { class: "dot", d: series.marker(radius), transform: place }));
      }
    }
    this.marks.append(group);
  }

  areaPath(series) {
    const upper = this.pixels(series, "high").filter(Boolean);
    const lower = this.pixels(series, "low").filter(Boolean).reverse();
    return upper.length && lower.length ? `${linePath([...upper, ...lower], false)}Z` : "";
  }

  // ---------------------------------------------------------------------------------------- zooming

  // Make the view `factor` times as wide, around a point in pixels (the middle by default).
  zoom(factor, at = null) {
    const { left, right, top, bottom } = this.box;
    const [px, py] = at ?? [(left + right) / 2, (top + bottom) / 2];
    const [ux, uy] = [this.x.unit(px), this.y.unit(py)];
    this.show([
      ux + (this.x.low - ux) * factor,
      ux + (this.x.high - ux) * factor,
      uy + (this.y.low - uy) * factor,
      uy + (this.y.high - uy) * factor,
    ]);
  }

  show(view) {
    // Beyond this, neighbouring numbers are the same and an axis has no ticks.
    const tiny = (low, high) => !(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-300));
    if (view && (tiny(view[0], view[1]) || tiny(view[2], view[3]))) return;
    this.view = view;
    this.point(null);
    this.draw();
  }

  reset() {
    this.show(null);
  }

  // ---------------------------------------------------------------------------------------- reading

  // The point of a visible series that is nearest to a place in pixels.
  nearest(px, py) {
    let best = null;
    for (const series of this.visible()) {
      this.pixels(series).forEach((point, k) => {
        if (!point || !this.contains(point)) return;
        const distance = Math.hypot(point[0] - px, point[1] - py);
        if (!best || distance < best.distance) best = { series, k, point, distance };
      });
    }
    return best;
  }

  contains([px, py]) {
    const { left, right, top, bottom } = this.box;
    return px >= left - 1 && px <= right + 1 && py >= top - 1 && py <= bottom + 1;
  }

  // Show what is known about a point, or nothing.
  point(found, aloud = false) {
    this.current = found;
    this.tip.hidden = !found;
    if (this.ring) this.ring.style.display = found ? "" : "none";
    if (!found) return;
    const { series, k, point } = found;
    const label = series.labels ? series.labels[k] : "";
    const lines = [
      [this.data.x.label, formatNumber(series.x[k])],
      [this.data.y.label, formatNumber(series.y[k])],
    ];
    this.tip.replaceChildren(
      element("b", { class: series.colour }, series.name),
      ...(label ? [element("span", {}, label)] : []),
      ...lines.map(([name, value]) => element("span", {}, `${name}: `, element("strong", {}, value))),
    );
    this.ring.setAttribute("class", `ring ${series.colour}`);
    this.ring.setAttribute("transform", `translate(${point[0]},${point[1]})`);
    // Beside the point, on the side that has room.
    const onLeft = point[0] > (this.box.left + this.box.right) / 2;
    const space = this.plot.clientWidth - this.tip.offsetWidth;
    const wanted = onLeft ? point[0] - this.tip.offsetWidth - 12 : point[0] + 12;
    this.tip.style.left = `${Math.min(Math.max(wanted, 0), Math.max(space, 0))}px`;
    this.tip.style.top = `${Math.max(point[1] - this.tip.offsetHeight - 8, 0)}px`;
    if (aloud) {
      const words = lines.map(([name, value]) => `${name} ${value}`).join(", ");
      this.spoken.textContent = `${series.name}${label ? `, ${label}` : ""}: ${words}`;
    }
  }

  // The next point along a series, or the same place on the next series.
  step(along, across) {
    const shown = this.visible();
    if (!shown.length) return;
    const at = Math.max(this.current ? shown.indexOf(this.current.series) : 0, 0);
    const series = shown[(at + across + shown.length) % shown.length];
    const points = this.pixels(series);
    const usable = points.map((point, k) => k).filter((k) => points[k] && this.contains(points[k]));
    if (!usable.length) return;
    let k = usable[0];
    if (this.current && across) {
      const from = this.current.point[0];
      const away = (i) => Math.abs(points[i][0] - from);
      k = usable.reduce((a, b) => (away(b) < away(a) ? b : a));
    } else if (this.current) {
      const place = usable.indexOf(this.current.k);
      k = usable[Math.min(Math.max(place + along, 0), usable.length - 1)];
    }
    this.point({ series, k, point: points[k] }, true);
  }

  // ----------------------------------------------------------------------------------------- events

  place(event) {
    const bounds = this.svg.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  listen() {
    const plot = this.plot;
    plot.addEventListener("pointerdown", (event) => this.press(event));
    plot.addEventListener("pointermove", (event) => this.move(event));
    plot.addEventListener("pointerup", (event) => this.lift(event));
    plot.addEventListener("pointercancel", (event) => this.lift(event, true));
    plot.addEventListener("pointerleave", (event) => {
      // Lifting a finger is a leave event too, but the value that was tapped should stay visible.
      if (event.pointerType === "mouse" && !this.pointers.size) this.point(null);
    });
    plot.addEventListener("dblclick", () => this.reset());
    plot.addEventListener("blur", () => this.point(null));
    plot.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(0.002 * event.deltaY), this.place(event));
      },
      { passive: false },
    );
    const keys = {
      ArrowRight: () => this.step(1, 0),
      ArrowLeft: () => this.step(-1, 0),
      ArrowUp: () => this.step(0, -1),
      ArrowDown: () => this.step(0, 1),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.reset(),
      Escape: () => this.point(null),
    };
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }

  press(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, this.place(event));
    this.start = this.place(event);
    if (event.pointerType === "mouse") this.plot.setPointerCapture(event.pointerId);
    else this.read(this.start);
  }

  move(event) {
    const at = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (before && this.pointers.size === 2) {
      const [other] = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
      const apart = (p) => Math.max(Math.hypot(p[0] - other[0], p[1] - other[1]), 1);
      const centre = [(at[0] + other[0]) / 2, (at[1] + other[1]) / 2];
      this.pointers.set(event.pointerId, at);
      this.zoom(apart(before) / apart(at), centre);
      return;
    }
    if (before && event.pointerType === "mouse") {
      this.rubber(at);
      return;
    }
    this.read(at);
  }

  // Read the point near a place, if there is one.
  read(at) {
    const found = this.nearest(...at);
    this.point(found && found.distance <= REACH ? found : null);
  }

  // The rectangle between the press and the pointer, cut to the drawing; null while it is too small.
  rectangle(at) {
    const { left, right, top, bottom } = this.box;
    const cut = (value, low, high) => Math.min(Math.max(value, low), high);
    const xs = [this.start[0], at[0]].map((v) => cut(v, left, right)).sort((a, b) => a - b);
    const ys = [this.start[1], at[1]].map((v) => cut(v, top, bottom)).sort((a, b) => a - b);
    return xs[1] - xs[0] < DRAG || ys[1] - ys[0] < DRAG ? null : [xs, ys];
  }

  rubber(at) {
    const found = this.rectangle(at);
    this.point(null);
    this.band.style.display = found ? "" : "none";
    if (!found) return;
    const [[x0, x1], [y0, y1]] = found;
    for (const [name, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) {
      this.band.setAttribute(name, value);
    }
  }

  lift(event, cancelled = false) {
    const pressed = this.pointers.delete(event.pointerId);
    if (!pressed || !this.band) return;
    this.band.style.display = "none";
    const found = event.pointerType === "mouse" && !cancelled ? this.rectangle(this.place(event)) : null;
    if (!found) return;
    const [[x0, x1], [y0, y1]] = found;
    this.show([this.x.unit(x0), this.x.unit(x1), this.y.unit(y1), this.y.unit(y0)]);
  }
}
