/* Linked timelines: one uPlot per chart, one time range and one cursor per group. */
"use strict";

const Charts = (() => {
  const HEIGHTS = { columns: 96, lines: 116, stack: 150, queue: 172 };
  const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
  const PRINT_WIDTHS = { overview: 680, episode: 490 };  /* see @media print in report.css */
  const NICE = Array.from({ length: 13 }, (_, k) => [1, 2, 5].map((n) => +(n * 10 ** (k - 4)).toPrecision(1))).flat();
  const WHOLE = NICE.filter((n) => n >= 1);
  const groups = new Map();

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const slot = (n) => ink(`--series-${n}`);

  /* ---- the numbers -------------------------------------------------------------------------------------------- */

  function times(axis) {
    const out = new Float64Array(axis.steps ? axis.steps.length + 1 : axis.count);
    let at = axis.first;
    for (let i = 0; i < out.length; i++) {
      out[i] = at / 1e6;
      at += axis.steps ? axis.steps[i] : axis.every;
    }
    return out;
  }

  function values(line) {
    const out = new Array(line.moves.length);
    let sum = 0;
    for (let i = 0; i < out.length; i++) {
      sum += line.moves[i];
      out[i] = sum / line.scale;
    }
    for (const i of line.holes || []) out[i] = null;
    return out;
  }

  function decode(data) {
    const kept = { axes: new Map(), lines: new Map() };
    const once = (map, key, make) => {
      if (!map.has(key)) map.set(key, make());
      return map.get(key);
    };
    return {
      times: (i) => once(kept.axes, i, () => times(data.axes[i])),
      values: (i) => once(kept.lines, i, () => values(data.lines[i])),
    };
  }

  /* Lines of one axis share an array; lines of different axes are joined by uPlot, which draws through the moments that
     only another line has (undefined) and breaks where a value is not known (null). */
  function table(chart, data, store) {
    const byAxis = new Map();
    chart.curves.forEach((curve, i) => {
      const axis = data.lines[curve.line].axis;
      if (!byAxis.has(axis)) byAxis.set(axis, []);
      byAxis.get(axis).push(i);
    });
    const tables = [...byAxis].map(([axis, curves]) => [
      store.times(axis), ...curves.map((i) => store.values(chart.curves[i].line)),
    ]);
    const joined = tables.length === 1 ? tables[0] : uPlot.join(tables);
    const order = [...byAxis.values()].flat();
    return [joined[0], ...chart.curves.map((_, i) => joined[1 + order.indexOf(i)])];
  }

  /* Each curve on top of all that follow. */
  function stacked([moments, ...curves]) {
    const sums = curves.map(() => new Array(moments.length));
    for (let k = 0; k < moments.length; k++) {
      let sum = 0;
      for (let i = curves.length - 1; i >= 0; i--) sums[i][k] = sum += curves[i][k];
    }
    return [moments, ...sums];
  }

  /* ---- words ------------------------------------------------------------------------------------------------- */

  const UNITS = {
    count: (v) => (v >= 10 || Number.isInteger(v) ? Math.round(v).toLocaleString("en") : v.toFixed(1)),
    share: (v) => `${Math.round(100 * v)} %`,
    bytes: (v) => {
      let k = 0;
      while (v >= 999.5 && k < 4) { v /= 1000; k++; }
      return `${k === 0 ? Math.round(v) : +v.toPrecision(3)} ${["B", "kB", "MB", "GB", "TB"][k]}`;
    },
    hertz: (v) => `${(v / 1e9).toFixed(2)} GHz`,
    duration: (v) => (v === 0 ? "0" : v < 1 ? `${+(1000 * v).toPrecision(3)} ms` : `${+v.toPrecision(3)} s`),
  };
  const word = (unit, v) => (v == null ? "–" : UNITS[unit](v));
  const AXIS_UNITS = {
    ...UNITS,
    count: (v) => (v >= 1e6 ? `${v / 1e6}M` : v >= 1e4 ? `${v / 1e3}k` : `${v}`),
    hertz: (v) => `${+(v / 1e9).toFixed(2)} GHz`,
  };

  /* ---- drawing ----------------------------------------------------------------------------------------------- */

  /* Columns as wide as their window; where several share a pixel the tallest is drawn, so no peak is lost. */
  function columns(width) {
    return (u, i, first, last) => {
      const path = new Path2D();
      const [xs, ys] = [u.data[0], u.data[i]];
      const floor = Math.round(u.valToPos(0, "y", true));
      const half = width / 2;
      const gap = u.valToPos(xs[first] + width, "x", true) - u.valToPos(xs[first], "x", true) >= 6 ? 1 : 0;
      let left = null, right = 0, top = floor;
      const put = () => { if (left !== null && top < floor) path.rect(left, top, right - left, floor - top); };
      for (let k = first; k <= last; k++) {
        if (!ys[k]) continue;
        const a = Math.round(u.valToPos(xs[k] - half, "x", true));
        const b = Math.max(a + 1, Math.round(u.valToPos(xs[k] + half, "x", true)) - gap);
        const y = Math.min(floor - 2, Math.round(u.valToPos(ys[k], "y", true)));
        if (left === a) { top = Math.min(top, y); right = Math.max(right, b); continue; }
        put();
        [left, right, top] = [a, b, y];
      }
      put();
      return { stroke: null, fill: path, clip: null, band: null, gaps: null, flags: 1 };
    };
  }

  function shade(u, group) {
    const { ctx, bbox } = u;
    ctx.save();
    for (const band of group.bands) {
      const mine = band.episode || band.step === u.step;
      const lit = group.lit !== null && (group.lit === band.step || group.lit === band.episode);
      if (!lit && (!mine || group.lit !== null)) continue;
      const a = u.valToPos(band.from, "x", true);
      const b = Math.max(a + 2, u.valToPos(band.to, "x", true));
      const [x, end] = [Math.max(a, bbox.left), Math.min(b, bbox.left + bbox.width)];
      if (end <= x) continue;
      ctx.fillStyle = ink(lit ? "--band-lit" : "--band");
      ctx.fillRect(x, bbox.top, end - x, bbox.height);
      ctx.fillStyle = ink(lit ? "--band-edge-lit" : "--band-edge");
      if (a >= bbox.left) ctx.fillRect(x, bbox.top, lit ? 2 : 1, bbox.height);
      if (b <= bbox.left + bbox.width) ctx.fillRect(end - 1, bbox.top, lit ? 2 : 1, bbox.height);
    }
    ctx.restore();
  }

  function halo(ctx, text, x, y, px) {
    ctx.lineWidth = 3 * px;
    ctx.lineJoin = "round";
    ctx.strokeStyle = ink("--paper");
    ctx.strokeText(text, x, y);
    ctx.fillStyle = ink("--muted");
    ctx.fillText(text, x, y);
  }

  /* Limits and events, over the lines. */
  function annotate(u, chart) {
    const { ctx, bbox } = u;
    const px = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${11 * px}px ${ink("--font")}`;
    for (const limit of chart.limits) {
      const y = Math.round(u.valToPos(limit.value, "y", true)) + 0.5;
      ctx.strokeStyle = slot(limit.slot);
      ctx.lineWidth = px;
      ctx.setLineDash([2 * px, 3 * px]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.textAlign = "right";
      ctx.textBaseline = y - bbox.top < 16 * px ? "top" : "bottom";
      halo(ctx, limit.label, bbox.left + bbox.width - 4 * px, y + (ctx.textBaseline === "top" ? 3 : -3) * px, px);
    }
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    for (const [from, to, label] of chart.marks) {
      const a = u.valToPos(from, "x", true);
      const b = Math.max(a + 2 * px, u.valToPos(to, "x", true));
      if (b < bbox.left || a > bbox.left + bbox.width) continue;
      ctx.fillStyle = ink("--mark");
      ctx.fillRect(a, bbox.top, b - a, 4 * px);
      const room = Math.min(b, bbox.left + bbox.width) - Math.max(a, bbox.left);
      if (ctx.measureText(label).width + 6 * px < room) {
        halo(ctx, label, Math.max(a, bbox.left) + 3 * px, bbox.top + 7 * px, px);
      }
    }
    ctx.restore();
  }

  function ceiling(chart) {
    /* A share of one core can exceed 1 where a group uses several. */
    if (chart.unit === "share") return (u, low, high) => [0, Math.max(1, high || 0) * (chart.marks.length ? 1.3 : 1.06)];
    const most = Math.max(0, ...chart.limits.map((l) => l.value));
    return (u, low, high) => [0, Math.max(most, high || 0) * 1.1 || 1];
  }

  function axes(chart) {
    const common = {
      stroke: () => ink("--muted"), font: `11px ${ink("--font")}`,
      grid: { stroke: () => ink("--grid"), width: 1 }, ticks: { show: false },
    };
    return [
      { ...common, size: 24, gap: 4, space: 64, incrs: NICE, values: (u, splits, a, space, step) =>
          splits.map((s) => `${s.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))} s`) },
      { ...common, size: 54, gap: 6, space: chart.shape === "columns" ? 24 : 30, values: (u, splits) => splits.map((v) => AXIS_UNITS[chart.unit](v)),
        ...(chart.unit === "count" ? { incrs: WHOLE } : {}),
        ...(chart.unit === "share" ? { splits: (u) => (u.scales.y.max < 1.5 ? [0, 0.5, 1] : [0, 1, Math.floor(u.scales.y.max)]) } : {}) },
    ];
  }

  function series(chart, data) {
    return chart.curves.map((curve) => {
      const step = data.axes[data.lines[curve.line].axis].step;
      const base = { label: curve.label, points: { show: false } };
      if (chart.shape === "columns") {
        return { ...base, paths: columns(step), width: 0, fill: () => slot(curve.slot) };
      }
      if (chart.shape === "stack") return { ...base, width: 0, fill: () => slot(curve.slot) };
      return { ...base, stroke: () => slot(curve.slot), width: 1.75, dash: DASHES[curve.dash] };
    });
  }

  function build(group, box, chart) {
    const width = Math.max(200, box.clientWidth);
    const kind = chart.shape !== "lines" ? chart.shape : chart.limits.length || (chart.step === 3) ? "queue" : "lines";
    const values = table(chart, group.data, group.store);
    const u = new uPlot({
      width, height: HEIGHTS[kind], legend: { show: false }, pxAlign: 1, padding: [6, 22, 0, 0],
      scales: { x: { time: false, range: (u, a, b) => [a, b] }, y: { range: ceiling(chart) } },
      axes: axes(chart),
      series: [{}, ...series(chart, group.data)],
      cursor: {
        y: false, points: { size: 7 }, drag: { x: true, y: false, setScale: true },
        sync: { key: group.key, setSeries: false, scales: ["x", null], filters: { pub: (type) => /move|leave/.test(type) } },
        bind: { dblclick: () => () => { reset(group); return null; } },
      },
      hooks: {
        drawClear: [(u) => shade(u, group)],
        draw: [(u) => annotate(u, chart)],
        setScale: [(u, key) => { if (key === "x" && u.status) moved(group, u); }],
        setCursor: [(u) => read(group, u, chart, box, values)],
      },
    }, chart.shape === "stack" ? stacked(values) : values, box);
    u.step = chart.step;
    u.setScale("x", { min: group.from, max: group.to });
    return u;
  }

  /* ---- shared range and cursor ------------------------------------------------------------------------------- */

  function moved(group, from) {
    if (group.moving) return;
    const { min, max } = from.scales.x;
    if (min == null || (min === group.from && max === group.to)) return;
    range(group, min, max);
  }

  function range(group, min, max) {
    const least = group.data.window / 5;
    if (max - min < least) [min, max] = [(min + max - least) / 2, (min + max + least) / 2];
    const length = Math.min(max - min, group.data.length);
    min = Math.min(Math.max(min, 0), group.data.length - length);
    [group.from, group.to] = [min, min + length];
    group.moving = true;
    for (const u of group.plots) u.setScale("x", { min: group.from, max: group.to });
    queueMicrotask(() => { group.moving = false; });
    group.moved.forEach((tell) => tell(group));
  }

  const reset = (group) => range(group, group.home[0], group.home[1]);

  function zoom(group, factor, middle = group.cursor ?? (group.from + group.to) / 2) {
    range(group, middle - (middle - group.from) * factor, middle + (group.to - middle) * factor);
  }

  function pan(group, share) {
    const by = (group.to - group.from) * share;
    range(group, group.from + by, group.to + by);
  }

  function read(group, u, chart, box, values) {
    const at = u.cursor.idx;
    const inside = u.cursor.left >= 0 && at != null;
    const keys = box.closest(".chart").querySelectorAll(".key output");
    keys.forEach((key, i) => {
      let k = at;
      const ys = values[i + 1];
      while (inside && ys[k] === undefined && k > 0) k--;  /* a moment that only another line has */
      key.textContent = inside ? word(chart.unit, ys[k]) : "";
    });
    group.cursor = inside ? u.posToVal(u.cursor.left, "x") : null;
    group.moved.forEach((tell) => tell(group));
  }

  /* Moves the shared cursor to a moment; every chart of the group follows. */
  function point(group, at) {
    at = Math.min(Math.max(at, group.from), group.to);
    for (const u of group.plots) u.setCursor({ left: u.valToPos(at, "x"), top: 10 }, true, false);
  }

  function light(group, what) {
    if (group.lit === what) return;
    group.lit = what;
    for (const u of group.plots) u.redraw(false);
  }

  /* ---- making, sizing ---------------------------------------------------------------------------------------- */

  function make(key, data, store, element) {
    const spec = data.groups[key];
    const group = {
      key, data, store, element, bands: spec.bands, charts: spec.charts, plots: [], moved: [], lit: null, cursor: null,
      home: [spec.from, spec.to], from: spec.from, to: spec.to, moving: false, drawn: false,
    };
    groups.set(key, group);
    return group;
  }

  function draw(group) {
    if (group.drawn) return;
    group.drawn = true;
    const boxes = group.element.querySelectorAll(".canvas");
    group.plots = [...boxes].map((box, i) => build(group, box, group.charts[i]));
    group.moved.forEach((tell) => tell(group));
  }

  function resize(group, print = false) {
    for (const u of group.plots) {
      const width = print ? PRINT_WIDTHS[group.key === "overview" ? "overview" : "episode"] : u.root.parentElement.clientWidth;
      if (width > 0 && width !== u.width) u.setSize({ width, height: u.height });
    }
  }

  const repaint = () => groups.forEach((group) => group.plots.forEach((u) => u.redraw(false, true)));

  return { decode, make, draw, resize, repaint, zoom, pan, reset, point, light, range, groups };
})();
