// Axes: from values to pixels and back, where the ticks are, and how numbers are written.
//
// A scale works in *units*: the value itself on a linear axis, its decimal logarithm on a logarithmic one.
// Zooming and padding are then the same arithmetic on both.

const toUnits = { linear: (v) => v, log: (v) => (v > 0 ? Math.log10(v) : NaN) };
const fromUnits = { linear: (u) => u, log: (u) => 10 ** u };

// A scale from the units [low, high] to the pixels [start, end].
function makeScale(kind, [low, high], [start, end]) {
  const slope = (end - start) / (high - low || 1);
  return {
    kind,
    low,
    high,
    pixel: (value) => start + (toUnits[kind](value) - low) * slope,
    unit: (pixel) => low + (pixel - start) / slope,
    ticks: (count) => makeTicks(kind, low, high, count),
  };
}

// The range of some values in units, a little wider than the values themselves; `roomy` leaves room for
// whole marks below a floor of zero.
function extent(kind, values, roomy = false) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    const unit = value === null ? NaN : toUnits[kind](value);
    if (unit < low) low = unit;
    if (unit > high) high = unit;
  }
  if (low > high) return [0, 1];
  const room = high - low || (kind === "log" ? 1 : Math.abs(high) || 1);
  // A linear axis that starts near zero starts at zero: there is nothing below to show.
  const floor = kind === "linear" && low >= 0 && low < 0.3 * high ? (roomy ? -0.03 * high : 0) : low - 0.04 * room;
  return [floor, high + 0.05 * room];
}

// The positions and the labels of the grid lines: about `count` labels at most.
function makeTicks(kind, low, high, count) {
  if (kind === "log" && high - low > 1.2) return decades(low, high, count);
  // Less than about a decade: the ticks of a linear axis are the readable ones.
  const [from, to] = [fromUnits[kind](low), fromUnits[kind](high)];
  const step = niceStep((to - from) / Math.max(count, 1));
  const ticks = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k += 1) {
    // Multiples of 0.1 have rounding errors that would show in the labels.
    const value = Number((k * step).toPrecision(12));
    ticks.push({ value, text: formatTick(value, kind) });
  }
  return ticks;
}

function decades(low, high, count) {
  const first = Math.ceil(low - 1e-9);
  const last = Math.floor(high + 1e-9);
  const stride = Math.max(1, Math.ceil((last - first + 1) / Math.max(count, 2)));
  const ticks = [];
  for (let k = first; k <= last; k += 1) {
    // Every decade has its line, also where there is no room for all labels.
    const labelled = (k - first) % stride === 0;
    ticks.push({ value: 10 ** k, text: labelled ? formatTick(10 ** k, "log") : "" });
  }
  return ticks;
}

// The least of 1, 2, 5 times a power of ten that is at least `rough`.
function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  return (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10) * power;
}

const superscripts = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// A number in readable form: 0.0085, 20,000, 3.2×10⁻⁷.
function formatNumber(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e7) {
    const rounded = Number(value.toPrecision(Math.max(digits, Number.isInteger(value) ? 9 : 0)));
    return rounded.toLocaleString("en", { maximumSignificantDigits: 9 }).replace("-", "−");
  }
  const [lead, power] = value.toExponential(digits - 1).split("e");
  const exponent = [...String(Number(power))].map((c) => superscripts[c]).join("");
  const factor = Number(lead) === 1 ? "" : `${String(Number(lead)).replace("-", "−")}×`;
  return `${factor}10${exponent}`;
}

// A decade on an axis is a power of ten, unless it is short enough to write out.
function formatTick(value, kind) {
  if (kind === "log" && value > 0 && (value < 0.01 || value > 10000)) {
    const power = Math.log10(value);
    if (Math.abs(power - Math.round(power)) < 1e-9) {
      return `10${[...String(Math.round(power))].map((c) => superscripts[c]).join("")}`;
    }
  }
  return formatNumber(value);
}
