// Mouse, touch and keys on the timeline.

function listenToPointers() {
  const canvas = at("lines"), pointers = new Map();
  let press = null;
  const frameOf = (event) => state.from + (event.offsetX / canvas.clientWidth) * (state.to - state.from);

  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.offsetX);
    canvas.setPointerCapture(event.pointerId);
    press = { x: event.offsetX, strip: event.offsetY < STRIP, from: state.from, to: state.to, moved: false, gap: 0 };
    if (pointers.size === 2) press.gap = gapOf(pointers);
  });
  canvas.addEventListener("pointermove", (event) => {
    const moved = pointers.has(event.pointerId);
    if (moved) pointers.set(event.pointerId, event.offsetX);
    if (pointers.size === 2) pinch(canvas, press, pointers);
    else if (moved && press) drag(canvas, press, event.offsetX);
    else hover(frameOf(event), event);
  });
  const release = (event) => {
    pointers.delete(event.pointerId);
    if (press && !press.moved && event.type === "pointerup" && pointers.size === 0) click(canvas, press, event);
    if (pointers.size === 0) press = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("dblclick", () => look(0, state.recording.frames));
  canvas.addEventListener("wheel", (event) => {
    // The page must scroll past the timeline: the wheel is ours with Ctrl, or once the timeline was clicked.
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const width = state.to - state.from;
    if (sideways) {
      const by = ((event.deltaX || event.deltaY) / canvas.clientWidth) * width;
      look(state.from + by, state.to + by);
    } else zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY)) / 300), frameOf(event));
    hover(frameOf(event), event);
  }, { passive: false });
}

function gapOf(pointers) {
  const [a, b] = [...pointers.values()];
  return Math.max(20, Math.abs(a - b));
}

function pinch(canvas, press, pointers) {
  if (!press.gap) return;
  press.moved = true;
  const middle = [...pointers.values()].reduce((a, b) => a + b, 0) / 2 / canvas.clientWidth;
  const width = ((press.to - press.from) * press.gap) / gapOf(pointers);
  const centre = press.from + middle * (press.to - press.from);
  look(centre - middle * width, centre + (1 - middle) * width);
}

function drag(canvas, press, x) {
  if (Math.abs(x - press.x) > 3) press.moved = true;
  if (!press.moved) return;
  hover(null);
  if (press.strip) {
    const [a, b] = [press.x, x].sort((p, q) => p - q).map((p) => (p / canvas.clientWidth) * state.recording.frames);
    look(a, b);
  } else {
    const by = ((press.x - x) / canvas.clientWidth) * (press.to - press.from);
    look(press.from + by, press.to + by);
  }
}

function click(canvas, press, event) {
  const share = event.offsetX / canvas.clientWidth;
  if (!press.strip) return moveTo(Math.floor(state.from + share * (state.to - state.from)));
  const half = (state.to - state.from) / 2, middle = share * state.recording.frames;
  look(middle - half, middle + half);
  moveTo(Math.floor(middle));
}

function hover(frame, event = null) {
  const tip = at("tip"), one = state.recording;
  const t = frame === null ? null : Math.min(one.frames - 1, Math.max(0, Math.floor(frame)));
  state.hover = t;
  changed();
  tip.hidden = t === null;
  if (t === null) return;
  tip.replaceChildren(...tipLines(one, t));
  const room = at("lines").clientWidth, wide = tip.offsetWidth;
  const left = event.offsetX + 16 + wide > room ? event.offsetX - wide - 16 : event.offsetX + 16;
  tip.style.left = `${Math.max(0, Math.min(left, room - wide))}px`;
  tip.style.top = `${Math.max(0, event.offsetY - 20)}px`;
}

function tipLines(one, t) {
  const line = (text, kind = "div") => Object.assign(document.createElement(kind), { textContent: text });
  const regime = line(`${data.regimes[one.labels[t]]}, ${Math.round(100 * confidenceAt(one, t))} % sure`);
  regime.prepend(swatch(one.labels[t]));
  const truth = one.truth && one.truth[t] !== MISSING ? [line(`truth: ${data.regimes[one.truth[t]] ?? one.truth[t]}`)] : [];
  const values = [...state.channels].sort((a, b) => a - b).map((channel) => {
    const expects = state.expected && one.expected;
    const more = expects ? ` (expected ${written(valueAt(one, channel, t, one.expected))})` : "";
    return line(`${data.columns[channel]}: ${written(valueAt(one, channel, t))}${more}`);
  });
  return [line(whenOf(one, t), "b"), regime, ...truth, ...values];
}

function swatch(regime) {
  const mark = document.createElement("i");
  mark.className = "swatch";
  mark.style.background = `var(--r${regime})`;
  return mark;
}

function listenToKeys() {
  const keys = {
    ArrowLeft: (e) => moveTo(state.cursor - (e.shiftKey ? 10 : 1)),
    ArrowRight: (e) => moveTo(state.cursor + (e.shiftKey ? 10 : 1)),
    PageUp: () => moveToStay(-1),
    PageDown: () => moveToStay(1),
    Home: () => moveTo(0),
    End: () => moveTo(state.recording.frames - 1),
    "+": () => zoom(1.5),
    "=": () => zoom(1.5),
    "-": () => zoom(1 / 1.5),
    0: () => look(0, state.recording.frames),
    " ": () => play(!state.playing),
  };
  at("lines").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key](event);
  });
}
