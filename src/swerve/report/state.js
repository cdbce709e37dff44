"use strict";
// What is shown, and the data it is drawn from. Names and other words only ever become text, never markup.

const data = JSON.parse(document.getElementById("data").textContent);
const MISSING = 65535, LEVELS = 65534;
const at = (id) => document.getElementById(id);

const state = {
  recording: null, // of unpack()
  from: 0, to: 1, // the stretch in view, in frames; frame t lies between t and t + 1
  cursor: 0, hover: null,
  playing: false, speed: 1,
  channels: new Set(data.shown),
  expected: false, probabilities: false, map: false,
};

function decode(text, Type) {
  if (!text) return null;
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}

const unpacked = new Map();

function unpack(index) {
  if (!unpacked.has(index)) {
    const one = data.recordings[index];
    const labels = decode(one.labels, Uint16Array);
    unpacked.set(index, {
      index, name: one.name, frames: one.frames, labels,
      x: decode(one.x, Uint16Array), // channel by channel
      expected: decode(one.expected, Uint16Array),
      probabilities: decode(one.probabilities, Uint8Array), // frame by frame
      truth: decode(one.truth, Uint16Array),
      times: decode(one.times, Float64Array), rows: decode(one.rows, Int32Array),
      images: decode(one.images, Uint8Array), drawn: decode(one.drawn, Uint8Array),
      segments: segmentsOf(labels), ranges: new Map(),
    });
  }
  return unpacked.get(index);
}

function segmentsOf(labels) {
  const found = [];
  for (let t = 0, begin = 0; t < labels.length; t++) {
    if (t + 1 === labels.length || labels[t + 1] !== labels[t]) {
      found.push({ begin, end: t + 1, regime: labels[t] });
      begin = t + 1;
    }
  }
  return found;
}

function toValue(channel, level) {
  return data.low[channel] + (level / LEVELS) * (data.high[channel] - data.low[channel]);
}

function valueAt(one, channel, t, of = one.x) {
  const level = of[channel * one.frames + t];
  return level === MISSING ? NaN : toValue(channel, level);
}

// The lowest and highest level of a channel in one recording, with some air.
function rangeOf(one, channel) {
  if (!one.ranges.has(channel)) {
    let low = Infinity, high = -Infinity;
    for (let i = channel * one.frames; i < (channel + 1) * one.frames; i++) {
      const level = one.x[i];
      if (level === MISSING) continue;
      if (level < low) low = level;
      if (level > high) high = level;
    }
    if (low > high) [low, high] = [0, LEVELS];
    const air = Math.max(1, (high - low) * 0.06);
    one.ranges.set(channel, [low - air, high + air]);
  }
  return one.ranges.get(channel);
}

function confidenceAt(one, t) {
  return one.probabilities[t * data.regimes.length + one.labels[t]] / 255;
}

// 1 where the regime is certain, faint where it is no likelier than chance.
function opacityOf(confidence) {
  const K = data.regimes.length;
  if (K === 1) return 1;
  return 0.2 + 0.8 * Math.min(1, Math.max(0, (confidence - 1 / K) / (1 - 1 / K)));
}

// Few enough digits to read, enough to tell frames apart.
function written(value, digits = 4) {
  if (!Number.isFinite(value)) return "missing";
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)) return value.toExponential(2);
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
}

function whenOf(one, t) {
  const number = one.rows ? `row ${one.rows[t]}` : `frame ${t}`;
  return one.times ? `time ${written(one.times[t], 8)} (${number})` : number;
}

function sentenceOf(one, t) {
  const sure = Math.round(100 * confidenceAt(one, t));
  return `${whenOf(one, t)}: ${data.regimes[one.labels[t]]}, ${sure} % sure`;
}

// Colours come from the style sheet, so that the dark scheme and paper have their own.
let paint = null;

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  const names = ["ink", "muted", "line", "card", "accent", "grid"];
  paint = Object.fromEntries(names.map((name) => [name, get(`--${name}`)]));
  paint.regimes = data.regimes.map((_, k) => get(`--r${k}`));
  paint.rgb = paint.regimes.map(channelsOf);
  paint.back = channelsOf(paint.card);
}

function channelsOf(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function inkOn([r, g, b]) {
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#1f2530" : "#ffffff";
}

// A canvas as sharp as the screen; coordinates stay in CSS pixels.
function prepared(canvas, width, height) {
  const dense = window.devicePixelRatio || 1;
  const pixels = [Math.round(width * dense), Math.round(height * dense)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) [canvas.width, canvas.height] = pixels;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  pen.textBaseline = "middle";
  pen.lineJoin = pen.lineCap = "round";
  return pen;
}

let waiting = false;

function changed() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawAll(); });
}

const LEAST_FRAMES = 8;

function look(from, to) {
  const frames = state.recording.frames;
  const width = Math.min(frames, Math.max(Math.min(LEAST_FRAMES, frames), to - from));
  state.from = Math.min(Math.max(0, from), frames - width);
  state.to = state.from + width;
  changed();
}

function zoom(factor, around = state.cursor + 0.5) {
  const middle = Math.min(Math.max(around, state.from), state.to);
  look(middle - (middle - state.from) / factor, middle + (state.to - middle) / factor);
}

function moveTo(t, { say = true } = {}) {
  const frames = state.recording.frames;
  state.cursor = Math.min(Math.max(0, Math.round(t)), frames - 1);
  const width = state.to - state.from;
  if (state.cursor < state.from || state.cursor >= state.to) look(state.cursor - 0.2 * width, state.cursor + 0.8 * width);
  if (say) at("readout").textContent = sentenceOf(state.recording, state.cursor);
  changed();
}

// To the beginning of the next stay (or the one before), of any regime or of this one.
function moveToStay(direction, regime = null) {
  const { segments } = state.recording;
  const wanted = segments.filter((s) => regime === null || s.regime === regime);
  const next = direction > 0
    ? wanted.find((s) => s.begin > state.cursor)
    : wanted.findLast((s) => s.begin < state.cursor);
  if (next) moveTo(next.begin);
  return next;
}
