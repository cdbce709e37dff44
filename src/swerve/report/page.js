// Puts the parts together: choices, the player, and everything that is drawn again when something changes.

function drawAll() {
  drawTimeline();
  drawStage();
  const scrub = at("scrub");
  scrub.max = state.recording.frames - 1;
  scrub.value = state.cursor;
  scrub.setAttribute("aria-valuetext", sentenceOf(state.recording, state.cursor));
}

function choose(index) {
  state.recording = unpack(index);
  [state.cursor, state.hover] = [0, null];
  at("recording").value = index;
  look(0, state.recording.frames);
  moveTo(0);
}

let lastTick = 0, owed = 0;

function play(on) {
  if (on && state.cursor === state.recording.frames - 1) moveTo(0);
  state.playing = on;
  at("play").textContent = on ? "Pause" : "Play";
  at("play").setAttribute("aria-pressed", String(on));
  [lastTick, owed] = [0, 0];
  if (on) requestAnimationFrame(tick);
  else moveTo(state.cursor);
}

function tick(now) {
  if (!state.playing) return;
  owed += lastTick ? ((now - lastTick) / 1000) * framesPerSecond(state.recording) * state.speed : 0;
  lastTick = now;
  const whole = Math.floor(owed);
  owed -= whole;
  if (whole) moveTo(state.cursor + whole, { say: false });
  if (state.cursor === state.recording.frames - 1) return play(false);
  requestAnimationFrame(tick);
}

function fillChoices() {
  const option = (text, value) => Object.assign(document.createElement("option"), { textContent: text, value });
  at("recording").replaceChildren(...data.recordings.map((one, i) => option(one.name || `recording ${i}`, i)));
  at("channel-list").replaceChildren(...data.columns.map((name, channel) => {
    const box = document.createElement("input"), row = document.createElement("label");
    Object.assign(box, { type: "checkbox", checked: state.channels.has(channel) });
    box.addEventListener("change", () => {
      state.channels[box.checked ? "add" : "delete"](channel);
      changed();
    });
    row.append(box, ` ${name}`);
    return row;
  }));
  at("legend").replaceChildren(...data.regimes.map((name, k) => {
    const entry = document.createElement("span");
    entry.append(swatch(k), name);
    return entry;
  }), "paler: less certain");
  at("notes").replaceChildren(...data.notes.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

function listen() {
  const on = (id, name, what) => at(id).addEventListener(name, what);
  on("recording", "change", (event) => choose(Number(event.target.value)));
  on("in", "click", () => zoom(1.8));
  on("out", "click", () => zoom(1 / 1.8));
  on("whole", "click", () => look(0, state.recording.frames));
  on("previous", "click", () => moveToStay(-1));
  on("next", "click", () => moveToStay(1));
  on("play", "click", () => play(!state.playing));
  on("scrub", "input", (event) => moveTo(Number(event.target.value)));
  on("speed", "change", (event) => { state.speed = Number(event.target.value); });
  for (const name of ["expected", "probabilities", "map"]) {
    at(`show-${name}`).checked = state[name];
    on(`show-${name}`, "change", (event) => { state[name] = event.target.checked; changed(); });
  }
  for (const button of document.querySelectorAll("[data-next]")) {
    button.addEventListener("click", () => {
      if (!showStay(Number(button.dataset.next))) button.textContent = "It has no stay in the recordings shown";
    });
  }
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", () => copy(button, button.parentElement.querySelector("pre")));
  }
  const again = () => { readColors(); changed(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  for (const [name, paper] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      document.documentElement.classList.toggle("paper", paper);
      readColors();
      drawAll();
    });
  }
  new ResizeObserver(changed).observe(at("lines"));
}

// The next stay of a regime, in this recording or, past its end, in the next one that has it.
function showStay(regime) {
  const count = data.recordings.length, start = state.recording.index;
  let stay = moveToStay(1, regime);
  for (let i = 1; !stay && i <= count; i++) {
    const one = unpack((start + i) % count);
    stay = one.segments.find((segment) => segment.regime === regime);
    if (stay) {
      choose(one.index);
      moveTo(stay.begin);
    }
  }
  if (!stay) return false;
  const half = 2 * (stay.end - stay.begin) + 10;
  look(stay.begin - half, stay.end + half);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  at("timeline").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
  return true;
}

function copy(button, block) {
  const done = () => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  const select = () => {
    getSelection().selectAllChildren(block); // pages from disk may not reach the clipboard: Ctrl + C will do
    if (document.execCommand("copy")) done();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(block.textContent).then(done, select);
  else select();
}

document.documentElement.classList.add("has-script");
readColors();
fillChoices();
at("stage").hidden = !(data.skeleton || data.image || data.plane);
at("views").hidden = !(data.skeleton && data.skeleton.axes === 3);
at("timeline").classList.toggle("with-stage", !at("stage").hidden);
state.map = state.channels.size < data.columns.length - (data.plane ? 2 : 0) && data.columns.length > 12;
at("show-map").parentElement.hidden = at("channels").hidden = data.columns.length < 2;
at("show-expected").parentElement.hidden = data.recordings.every((one) => !one.expected);
listen();
listenToPointers();
listenToKeys();
listenToTurns();
choose(0);
