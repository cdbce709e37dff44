// The timeline: a strip of the whole recording, the series in view, and the ribbon of regimes beneath them.

const STRIP = 26, RIBBON = 34, TRUTH = 18, CHANCES = 72, AXIS = 24, GAP = 8, EDGE = 1;
const DEVIATIONS = [[10, 74, 125], [127, 178, 217], null, [240, 174, 108], [160, 74, 0]]; // -3 to 3; null: the card

function rowsOf(one) {
  const shown = [...state.channels].sort((a, b) => a - b);
  const each = Math.max(52, Math.min(170, (data.image ? 480 : 330) / Math.max(1, shown.length)));
  const rows = [{ kind: "strip", height: STRIP }];
  for (const channel of shown) rows.push({ kind: "series", height: each, channel });
  if (state.map) rows.push({ kind: "map", height: Math.min(260, Math.max(60, 4 * data.columns.length)) });
  rows.push({ kind: "ribbon", height: RIBBON });
  if (one.truth) rows.push({ kind: "truth", height: TRUTH });
  if (state.probabilities) rows.push({ kind: "chances", height: CHANCES });
  rows.push({ kind: "axis", height: AXIS });
  let top = 0;
  for (const row of rows) { row.top = top; top += row.height + (row.kind === "series" ? 2 : GAP); }
  return rows;
}

function drawTimeline() {
  const canvas = at("lines"), one = state.recording;
  const rows = rowsOf(one), last = rows[rows.length - 1];
  const width = canvas.clientWidth;
  const pen = prepared(canvas, width, last.top + last.height);
  const view = { from: state.from, to: state.to, width };
  const whole = { from: 0, to: one.frames, width };
  const colors = ribbonColors(one, one.labels, view, true);
  for (const row of rows) {
    if (row.kind === "strip") {
      drawCells(pen, ribbonColors(one, one.labels, whole, true), row.top + 3, STRIP - 6);
      drawWindow(pen, row, whole);
    } else if (row.kind === "series") drawSeries(pen, row, one, view, colors);
    else if (row.kind === "map") drawMap(pen, row, one, view);
    else if (row.kind === "ribbon") {
      drawCells(pen, colors, row.top, row.height);
      drawNames(pen, row, one, view);
    } else if (row.kind === "truth") {
      drawCells(pen, ribbonColors(one, one.truth, view, false), row.top, row.height);
      label(pen, "truth", 5, row.top + row.height / 2);
    } else if (row.kind === "chances") drawChances(pen, row, one, view);
    else drawAxis(pen, row, one, view);
  }
  drawMarker(pen, rows, view);
  Object.assign(canvas.dataset, { from: state.from.toFixed(3), to: state.to.toFixed(3), cursor: state.cursor });
}

function across(view, t) {
  return ((t - view.from) / (view.to - view.from)) * view.width;
}

// For every pixel column, the frames [first, end) that fall on it; at least one.
function* columnsOf(view, frames) {
  const per = (view.to - view.from) / view.width;
  for (let x = 0; x < view.width; x++) {
    const first = Math.min(frames - 1, Math.floor(view.from + x * per));
    yield [x, first, Math.min(frames, Math.max(first + 1, Math.floor(view.from + (x + 1) * per)))];
  }
}

// With more frames than pixels, skipping would lose short stays: the colours of a pixel's frames are blended.
function ribbonColors(one, labels, view, faded) {
  const colors = new Uint8ClampedArray(3 * Math.ceil(view.width)), back = paint.back, grey = [208, 213, 221];
  for (const [x, first, end] of columnsOf(view, one.frames)) {
    let r = 0, g = 0, b = 0;
    for (let t = first; t < end; t++) {
      const color = paint.rgb[labels[t]] || grey;
      const alpha = faded ? opacityOf(confidenceAt(one, t)) : 1;
      r += back[0] + alpha * (color[0] - back[0]);
      g += back[1] + alpha * (color[1] - back[1]);
      b += back[2] + alpha * (color[2] - back[2]);
    }
    const n = end - first;
    colors.set([r / n, g / n, b / n], 3 * x);
  }
  return colors;
}

// Neighbours of one colour are one rectangle.
function drawCells(pen, colors, top, height) {
  const count = colors.length / 3;
  for (let x = 0, begin = 0; x < count; x++) {
    const same = x + 1 < count && [0, 1, 2].every((c) => colors[3 * x + 3 + c] === colors[3 * x + c]);
    if (same) continue;
    pen.fillStyle = `rgb(${colors[3 * x]}, ${colors[3 * x + 1]}, ${colors[3 * x + 2]})`;
    pen.fillRect(begin, top, x + 1 - begin, height);
    begin = x + 1;
  }
}

function drawWindow(pen, row, whole) {
  const a = across(whole, state.from), b = across(whole, state.to);
  pen.globalAlpha = 0.65;
  pen.fillStyle = paint.card;
  pen.fillRect(0, row.top, a, row.height);
  pen.fillRect(b, row.top, whole.width - b, row.height);
  pen.globalAlpha = 1;
  pen.strokeStyle = paint.ink;
  pen.lineWidth = 2;
  pen.strokeRect(Math.max(a, EDGE), row.top + 1, Math.min(b, whole.width - EDGE) - Math.max(a, EDGE), row.height - 2);
}

function drawSeries(pen, row, one, view, colors) {
  pen.globalAlpha = 0.13;
  drawCells(pen, colors, row.top, row.height);
  pen.globalAlpha = 1;
  const [low, high] = rangeOf(one, row.channel);
  const place = (level) => row.top + row.height - ((level - low) / (high - low)) * row.height;
  pen.save();
  pen.beginPath();
  pen.rect(0, row.top, view.width, row.height);
  pen.clip();
  drawLine(pen, one, one.x, row.channel, view, place, paint.ink, 1.3);
  if (state.expected && one.expected) drawLine(pen, one, one.expected, row.channel, view, place, paint.accent, 1.6);
  pen.restore();
  label(pen, data.columns[row.channel], 5, row.top + 10);
  const ends = [high, low].map((level) => written(toValue(row.channel, level), 3));
  label(pen, ends[0], view.width - 5, row.top + 10, "right", true);
  label(pen, ends[1], view.width - 5, row.top + row.height - 8, "right", true);
}

// A line that breaks at gaps. With several frames to a pixel, each pixel shows the lowest and the highest of them.
function drawLine(pen, one, levels, channel, view, place, color, width) {
  const offset = channel * one.frames, per = (view.to - view.from) / view.width;
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  let down = false;
  if (per > 1.5) {
    for (const [x, first, end] of columnsOf(view, one.frames)) {
      let low = Infinity, high = -Infinity, begin = MISSING, final = MISSING;
      for (let i = offset + first; i < offset + end; i++) {
        const level = levels[i];
        if (level === MISSING) continue;
        if (begin === MISSING) begin = level;
        final = level;
        if (level < low) low = level;
        if (level > high) high = level;
      }
      if (low > high) { down = false; continue; }
      pen[down ? "lineTo" : "moveTo"](x + 0.5, place(begin));
      pen.lineTo(x + 0.5, place(high));
      pen.lineTo(x + 0.5, place(low) + 0.5);
      pen.lineTo(x + 0.5, place(final));
      down = true;
    }
    pen.stroke();
    return;
  }
  const dots = per < 0.12, first = Math.max(0, Math.floor(view.from) - 1);
  const end = Math.min(one.frames, Math.ceil(view.to) + 1), spots = [];
  for (let t = first; t < end; t++) {
    const level = levels[offset + t];
    if (level === MISSING) { down = false; continue; }
    const x = across(view, t + 0.5), y = place(level);
    pen[down ? "lineTo" : "moveTo"](x, y);
    const alone = !down && (t + 1 >= one.frames || levels[offset + t + 1] === MISSING);
    if (dots || alone) spots.push([x, y]);
    down = true;
  }
  pen.stroke();
  for (const [x, y] of spots) { pen.beginPath(); pen.arc(x, y, width + 0.9, 0, 7); pen.fill(); }
}

// All channels, in standard deviations: blue is low, orange is high, the card's own colour is the mean or missing.
function drawMap(pen, row, one, view) {
  const count = data.columns.length, columns = [...columnsOf(view, one.frames)];
  const image = new ImageData(columns.length, count), middle = paint.back;
  for (let channel = 0; channel < count; channel++) {
    const [mean, scale] = momentsOf(one, channel);
    for (const [x, first, end] of columns) {
      let sum = 0, seen = 0;
      for (let i = channel * one.frames + first; i < channel * one.frames + end; i++) {
        if (one.x[i] !== MISSING) { sum += one.x[i]; seen++; }
      }
      const place = seen ? Math.min(3.999, Math.max(0, ((sum / seen - mean) / scale + 3) * (4 / 6))) : 2;
      const k = Math.floor(place), a = DEVIATIONS[k] || middle, b = DEVIATIONS[k + 1] || middle;
      image.data.set([...a.map((c, i) => c + (place - k) * (b[i] - c)), 255], 4 * (channel * columns.length + x));
    }
  }
  const buffer = document.createElement("canvas");
  [buffer.width, buffer.height] = [image.width, image.height];
  buffer.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(buffer, 0, row.top, view.width, row.height);
  label(pen, `all ${count} channels: blue is low, orange high`, 5, row.top + 10);
}

function momentsOf(one, channel) {
  one.moments ??= new Map();
  if (!one.moments.has(channel)) {
    const seen = one.x.subarray(channel * one.frames, (channel + 1) * one.frames).filter((level) => level !== MISSING);
    const mean = seen.reduce((a, b) => a + b, 0) / Math.max(1, seen.length);
    const variance = seen.reduce((a, b) => a + (b - mean) ** 2, 0) / Math.max(1, seen.length);
    one.moments.set(channel, [mean, Math.sqrt(variance) || 1]);
  }
  return one.moments.get(channel);
}

function drawNames(pen, row, one, view) {
  pen.textAlign = "center";
  for (const { begin, end, regime } of one.segments) {
    if (end < view.from || begin > view.to) continue;
    const a = Math.max(0, across(view, begin)), b = Math.min(view.width, across(view, end));
    if (b - a < 14) continue;
    const name = [data.regimes[regime], String(regime)].find((text) => pen.measureText(text).width < b - a - 8);
    if (!name) continue;
    pen.fillStyle = inkOn(paint.rgb[regime]);
    pen.fillText(name, (a + b) / 2, row.top + row.height / 2 + 1);
  }
}

function drawChances(pen, row, one, view) {
  const K = data.regimes.length;
  for (const [x, first, end] of columnsOf(view, one.frames)) {
    let top = row.top;
    for (let k = 0; k < K; k++) {
      let sum = 0;
      for (let t = first; t < end; t++) sum += one.probabilities[t * K + k];
      const height = (row.height * sum) / (255 * (end - first));
      pen.fillStyle = paint.regimes[k];
      pen.fillRect(x, top, 1, height);
      top += height;
    }
  }
  label(pen, "probabilities", 5, row.top + 10);
}

function drawAxis(pen, row, one, view) {
  const most = Math.max(2, Math.floor(view.width / 90)), y = row.top + 5;
  const clock = one.times && one.times.length > 1;
  const toTime = (t) => (clock ? timeAt(one.times, t) : t);
  const [begin, end] = [toTime(view.from), toTime(view.to - 1)];
  const step = Math.max(niceStep((end - begin) / most), clock ? 0 : 1);
  pen.fillStyle = pen.strokeStyle = paint.muted;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  for (let tick = Math.ceil(begin / step) * step, n = 0; tick <= end + 1e-9 * step && n < 100; tick += step, n++) {
    const x = across(view, (clock ? frameAt(one.times, tick) : tick) + 0.5);
    const text = Number(tick.toPrecision(12)).toLocaleString("en", { maximumFractionDigits: 9 });
    const half = pen.measureText(text).width / 2;
    pen.fillRect(x - 0.5, row.top - GAP + 3, 1, 5);
    pen.fillText(text, Math.min(Math.max(x, half), view.width - half), y + 6);
  }
}

function niceStep(rough) {
  if (!(rough > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
}

function timeAt(times, t) {
  const place = Math.min(times.length - 1, Math.max(0, t)), i = Math.min(times.length - 2, Math.floor(place));
  return times[i] + (place - i) * (times[i + 1] - times[i]);
}

function frameAt(times, time) {
  let low = 0, high = times.length - 1;
  while (high - low > 1) { const half = (low + high) >> 1; if (times[half] <= time) low = half; else high = half; }
  return low + (time - times[low]) / (times[high] - times[low] || 1);
}

function drawMarker(pen, rows, view) {
  const top = rows[1].top, bottom = rows[rows.length - 1].top - GAP;
  const line = (t, color, width, dash) => {
    const x = across(view, t + 0.5);
    pen.setLineDash(dash);
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, bottom);
    pen.stroke();
    pen.setLineDash([]);
    return x;
  };
  if (state.hover !== null) line(state.hover, paint.muted, 1, [3, 3]);
  if (state.cursor < view.from - 1 || state.cursor > view.to) return;
  const x = line(state.cursor, paint.ink, 1.5, []);
  pen.fillStyle = paint.ink;
  pen.beginPath();
  pen.moveTo(x - 5, top - 6);
  pen.lineTo(x + 5, top - 6);
  pen.lineTo(x, top + 1);
  pen.fill();
}

// Words on a patch of the card, so that lines behind them do not disturb.
function label(pen, text, x, y, align = "left", quiet = false) {
  const cut = text.length > 40 ? `${text.slice(0, 39)}…` : text;
  pen.textAlign = align;
  const width = pen.measureText(cut).width + 6, left = align === "left" ? x - 3 : x + 3 - width;
  pen.globalAlpha = 0.72;
  pen.fillStyle = paint.card;
  pen.fillRect(left, y - 8, width, 16);
  pen.globalAlpha = 1;
  pen.fillStyle = quiet ? paint.muted : paint.ink;
  pen.fillText(cut, x, y + 0.5);
}
