// Beside the timeline, the moment at the marker: a pose, an image, or a point in the plane.

const GHOSTS = 3, FLOOR = 8;
const stage = { yaw: 0.5, pitch: 0.15, frames: new Map() };

function drawStage() {
  const canvas = at("figure");
  if (at("stage").hidden) return;
  const width = canvas.clientWidth, height = data.image ? imagesHeight(width) : Math.max(220, Math.min(width, 420));
  const pen = prepared(canvas, width, height);
  const one = state.recording;
  if (data.skeleton) drawPose(pen, width, height, one);
  else if (data.image) drawImages(pen, width, height, one);
  else drawPath(pen, width, height, one);
  canvas.setAttribute("aria-label", `The recording at ${sentenceOf(one, state.cursor)}`);
  canvas.dataset.frame = state.cursor;
}

function jointAt(one, joint, t) {
  const { axes, channels } = data.skeleton;
  const place = [0, 1, 2].map((axis) => {
    const channel = axis < axes ? channels[joint * axes + axis] : -1;
    return channel < 0 ? 0 : valueAt(one, channel, t);
  });
  return axes === 3 ? place : [place[0], -place[1], 0]; // points in images count downwards
}

function poseAt(one, t) {
  return data.skeleton.joints.map((_, joint) => jointAt(one, joint, t));
}

function middleOf(pose) {
  const seen = pose.filter((joint) => joint.every(Number.isFinite));
  return [0, 1, 2].map((axis) => seen.reduce((sum, joint) => sum + joint[axis], 0) / Math.max(1, seen.length));
}

// How far bodies reach, where the floor is and how high the middle of the body, over some frames of the recording.
function boundsOf(one) {
  if (!stage.frames.has(one.index)) {
    const reach = [], floor = [], height = [];
    for (let t = 0; t < one.frames; t += Math.ceil(one.frames / 200)) {
      const pose = poseAt(one, t).filter((joint) => joint.every(Number.isFinite)), middle = middleOf(pose);
      if (!pose.length) continue;
      reach.push(Math.max(...pose.map((joint) => Math.hypot(...joint.map((v, i) => v - middle[i])))));
      floor.push(Math.min(...pose.map((joint) => joint[1])));
      height.push(middle[1]);
    }
    const rank = (list, share) => list.sort((a, b) => a - b)[Math.floor(share * (list.length - 1))] || 0;
    stage.frames.set(one.index, { reach: rank(reach, 0.95) || 1, floor: rank(floor, 0.1), height: rank(height, 0.5) });
  }
  return stage.frames.get(one.index);
}

function drawPose(pen, width, height, one) {
  const { reach, floor, height: middle } = boundsOf(one), solid = data.skeleton.axes === 3;
  const centre = middleNear(one, state.cursor), scale = (0.43 * Math.min(width, height)) / reach;
  const [yaw, pitch] = solid ? [stage.yaw, stage.pitch] : [0, 0];
  const project = ([x, y, z]) => {
    const [a, b, c] = [x - centre[0], y - (solid ? middle : centre[1]), z - centre[2]];
    const side = a * Math.cos(yaw) + c * Math.sin(yaw), deep = -a * Math.sin(yaw) + c * Math.cos(yaw);
    const up = b * Math.cos(pitch) - deep * Math.sin(pitch);
    return [width / 2 + scale * side, height / 2 - scale * up, deep * Math.cos(pitch) + b * Math.sin(pitch)];
  };
  if (solid) drawFloor(pen, project, centre, floor, reach);
  const apart = Math.max(1, Math.round(framesPerSecond(one) * 0.15));
  for (let ghost = GHOSTS; ghost >= 0; ghost--) {
    const t = state.cursor - ghost * apart;
    const alpha = ghost ? 0.2 - 0.045 * ghost : 1;
    if (t >= 0) drawBones(pen, poseAt(one, t).map(project), paint.regimes[one.labels[t]], alpha);
  }
  label(pen, `${data.regimes[one.labels[state.cursor]]}`, 8, 12);
}

// The camera follows the body, but not its every shake.
function middleNear(one, t) {
  const spots = [];
  for (let near = Math.max(0, t - 6); near <= Math.min(one.frames - 1, t + 6); near += 2) {
    const pose = poseAt(one, near);
    if (pose.some((joint) => joint.every(Number.isFinite))) spots.push(middleOf(pose));
  }
  return [0, 1, 2].map((axis) => spots.reduce((sum, spot) => sum + spot[axis], 0) / Math.max(1, spots.length));
}

function drawFloor(pen, project, centre, floor, reach) {
  const tile = reach / 2, begin = [0, 2].map((axis) => Math.round(centre[axis] / tile) - FLOOR / 2);
  pen.strokeStyle = paint.grid;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let i = 0; i <= FLOOR; i++) {
    for (const ends of [[[i, 0], [i, FLOOR]], [[0, i], [FLOOR, i]]]) {
      ends.forEach(([a, b], end) => {
        const [x, y] = project([(begin[0] + a) * tile, floor, (begin[1] + b) * tile]);
        pen[end ? "lineTo" : "moveTo"](x, y);
      });
    }
  }
  pen.stroke();
}

function drawBones(pen, spots, color, alpha) {
  const seen = (spot) => spot && spot.every(Number.isFinite);
  pen.strokeStyle = pen.fillStyle = color;
  pen.globalAlpha = alpha;
  pen.lineWidth = alpha === 1 ? 4 : 2.5;
  pen.beginPath();
  data.skeleton.parents.forEach((parent, joint) => {
    if (parent < 0 || !seen(spots[parent]) || !seen(spots[joint])) return;
    pen.moveTo(spots[parent][0], spots[parent][1]);
    pen.lineTo(spots[joint][0], spots[joint][1]);
  });
  pen.stroke();
  if (alpha === 1) {
    for (const spot of spots.filter(seen)) { pen.beginPath(); pen.arc(spot[0], spot[1], 3.4, 0, 7); pen.fill(); }
  }
  pen.globalAlpha = 1;
}

function drawImages(pen, width, height, one) {
  const { height: rows, width: columns, every } = data.image, pixels = rows * columns;
  pen.imageSmoothingEnabled = false;
  const place = Math.floor(state.cursor / every), size = imageSize(width), tall = (size * rows) / columns;
  [[one.images, "observed"], [one.drawn, "expected by the model"]].forEach(([images, name], i) => {
    const left = (width - size) / 2, top = 24 + i * (tall + 26);
    const pixelsNow = images.subarray(place * pixels, (place + 1) * pixels);
    pen.drawImage(sheetOf(pixelsNow, rows, columns), left, top, size, tall);
    label(pen, name, left + 3, top - 12);
  });
  pen.fillStyle = paint.regimes[one.labels[state.cursor]];
  pen.fillRect(0, height - 5, width, 5);
}

function imageSize(width) {
  return Math.min(width - 24, 280);
}

function imagesHeight(width) {
  return 2 * ((imageSize(width) * data.image.height) / data.image.width + 26) + 14;
}

function sheetOf(values, rows, columns) {
  const image = new ImageData(columns, rows), sheet = document.createElement("canvas");
  values.forEach((v, i) => image.data.set([v, v, v, 255], 4 * i));
  [sheet.width, sheet.height] = [columns, rows];
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}

function drawPath(pen, width, height, one) {
  const [a, b] = data.plane, [lowA, highA] = rangeOf(one, a), [lowB, highB] = rangeOf(one, b), frame = 26;
  const spot = (t) => {
    const u = one.x[a * one.frames + t], v = one.x[b * one.frames + t];
    if (u === MISSING || v === MISSING) return null;
    const right = (u - lowA) / (highA - lowA), up = (v - lowB) / (highB - lowB);
    return [frame + right * (width - frame - 4), 4 + (1 - up) * (height - frame - 4)];
  };
  const first = Math.max(1, Math.floor(state.from)), end = Math.min(one.frames, Math.ceil(state.to));
  const skip = Math.max(1, Math.ceil((end - first) / 4000)), tail = state.cursor - 60;
  pen.strokeStyle = paint.grid;
  pen.lineWidth = 1;
  pen.strokeRect(frame, 4, width - frame - 4, height - frame - 4);
  pen.lineWidth = 1.6;
  for (let t = first; t < end; t += skip) {
    const before = spot(Math.max(0, t - skip)), here = spot(t);
    if (!before || !here) continue;
    pen.globalAlpha = t <= state.cursor && t > tail ? 1 : 0.22;
    pen.strokeStyle = paint.regimes[one.labels[t]];
    pen.beginPath();
    pen.moveTo(...before);
    pen.lineTo(...here);
    pen.stroke();
  }
  pen.globalAlpha = 1;
  const here = spot(state.cursor);
  if (here) {
    pen.fillStyle = paint.regimes[one.labels[state.cursor]];
    pen.strokeStyle = paint.ink;
    pen.beginPath();
    pen.arc(...here, 6, 0, 7);
    pen.fill();
    pen.stroke();
  }
  pen.fillStyle = paint.muted;
  pen.textAlign = "center";
  pen.fillText(data.columns[a].slice(0, 40), (width + frame) / 2, height - 10);
  pen.save();
  pen.translate(12, (height - frame) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(data.columns[b].slice(0, 40), 0, 0);
  pen.restore();
}

// As fast as it was recorded, if times tell; they are taken for seconds where that is plausible.
function framesPerSecond(one) {
  const step = one.times && one.frames > 1 ? (one.times[one.frames - 1] - one.times[0]) / (one.frames - 1) : 0;
  return step >= 1 / 500 && step <= 1 ? 1 / step : 20;
}

function listenToTurns() {
  const canvas = at("figure");
  let last = null;
  canvas.addEventListener("pointerdown", (event) => {
    last = [event.offsetX, event.offsetY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last || !data.skeleton) return;
    stage.yaw += (event.offsetX - last[0]) * 0.01;
    stage.pitch = Math.max(-1.57, Math.min(1.57, stage.pitch + (event.offsetY - last[1]) * 0.01));
    last = [event.offsetX, event.offsetY];
    changed();
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = null; });
  const views = { front: [0, 0], side: [Math.PI / 2, 0], above: [0, Math.PI / 2] };
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => { [stage.yaw, stage.pitch] = views[button.dataset.view]; changed(); });
  }
}
