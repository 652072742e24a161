// Runs the engine on what is drawn and on the sliders, and shows the spectrum, the error and their ratio.

(() => {
  const SIDE = 11;
  const COUNT = SIDE * SIDE;
  const byId = (name) => document.getElementById(`engine-${name}`);
  const draw = gaussian(7);
  const fixed = { before: Array.from({ length: COUNT }, draw), after: Array.from({ length: COUNT }, draw) };
  let pixels = new Array(COUNT).fill(0);
  let cursor = Math.floor(COUNT / 2);

  const knobs = () => {
    const number = (name) => Number(byId(name).value);
    const off = (name) => number(name) === Number(byId(name).max);
    const phase = number("phase") / Math.SQRT2;
    return {
      rows: SIDE,
      cols: SIDE,
      dacBits: off("dac") ? 0 : number("dac"),
      adcBits: off("adc") ? 0 : number("adc"),
      extinctionDb: off("extinction") ? null : number("extinction"),
      compensated: byId("compensated").checked,
      photons: number("photons") > 7 ? null : 10 ** number("photons"),
      before: fixed.before.map((a) => a * phase),
      after: fixed.after.map((a) => a * phase),
    };
  };

  const ideal = {
    ...{ rows: SIDE, cols: SIDE, dacBits: 0, adcBits: 0, extinctionDb: null, compensated: false, photons: null },
    ...{ before: new Array(COUNT).fill(0), after: new Array(COUNT).fill(0) },
  };

  /** Colours of viridis, interpolated between five of its values. */
  const COLOURS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const colour = (x) => {
    const place = Math.min(0.9999, Math.max(0, x)) * (COLOURS.length - 1);
    const [low, rest] = [Math.floor(place), place % 1];
    return `rgb(${COLOURS[low].map((c, i) => Math.round(c + rest * (COLOURS[low + 1][i] - c))).join(",")})`;
  };
  const signed = (x) => {
    const pale = Math.round(255 * (1 - Math.abs(x)));
    return x < 0 ? `rgb(213,${Math.max(pale, 94)},${pale})` : `rgb(${pale},${Math.max(pale, 114)},${Math.max(pale, 178)})`;
  };

  const paint = (name, values, paintOne, shift) => {
    const canvas = byId(name);
    const context = canvas.getContext("2d");
    const size = canvas.width / SIDE;
    values.forEach((value, i) => {
      const half = shift ? Math.floor(SIDE / 2) : 0;
      const row = (Math.floor(i / SIDE) + half) % SIDE;
      const col = ((i % SIDE) + half) % SIDE;
      context.fillStyle = paintOne(value);
      context.fillRect(col * size, row * size, Math.ceil(size), Math.ceil(size));
    });
  };

  const modulus = (field) => field.re.map((a, i) => Math.hypot(a, field.im[i]));
  const update = () => {
    const engine = knobs();
    const exact = opticalPass(pixels, ideal);
    const read = opticalPass(pixels, engine, draw);
    const error = modulus({ re: read.re.map((a, i) => a - exact.re[i]), im: read.im.map((b, i) => b - exact.im[i]) });
    const most = Math.max(...modulus(exact)) || 1;
    const worst = Math.max(...error);
    const factor = worst > 0 ? 10 ** Math.max(0, Math.floor(Math.log10(most / worst))) : 1;
    paint("input", pixels, signed, false);
    paint("spectrum", modulus(read).map((a) => a / most), colour, true);
    paint("error", error.map((a) => (a * factor) / most), colour, true);
    const energy = (values) => values.reduce((sum, a) => sum + a * a, 0);
    const signal = energy(modulus(exact));
    const noise = energy(error);
    const ratio = noise > 1e-20 * signal ? `${(10 * Math.log10(signal / noise)).toFixed(1)} dB` : "no error";
    byId("db").textContent = signal > 0 ? ratio : "the input is empty";
    byId("scale").textContent = factor.toLocaleString("en");
    const say = (name, text) => { byId(name).parentElement.querySelector("output").textContent = text; };
    const count = (bits) => (bits ? `${bits} bits` : "unlimited");
    const radians = Number(byId("phase").value);
    say("dac", count(engine.dacBits));
    say("adc", count(engine.adcBits));
    say("extinction", engine.extinctionDb === null ? "no leakage" : `${engine.extinctionDb} dB`);
    say("compensated", engine.compensated ? "on" : "off");
    say("photons", engine.photons === null ? "unlimited" : Math.round(engine.photons).toLocaleString("en"));
    say("phase", radians > 0 ? `${radians.toFixed(2)} rad` : "none");
  };

  const shapes = {
    disc: (row, col) => ((row - 4) ** 2 + (col - 5) ** 2 < 7 ? 1 : 0),
    stripes: (row, col) => (col % 3 === 0 ? 1 : -0.5),
    random: () => draw() / 3,
    clear: () => 0,
  };
  const fill = (name) => {
    pixels = pixels.map((_, i) => Math.max(-1, Math.min(1, shapes[name](Math.floor(i / SIDE), i % SIDE))));
    update();
  };
  const place = (event) => {
    const box = byId("input").getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * SIDE);
    const row = Math.floor(((event.clientY - box.top) / box.height) * SIDE);
    if (row >= 0 && row < SIDE && col >= 0 && col < SIDE) pixels[row * SIDE + col] = 1;
    update();
  };
  const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -SIDE, ArrowDown: SIDE };
  const type = (event) => {
    if (event.key in move) cursor = (cursor + move[event.key] + COUNT) % COUNT;
    else if (event.key === " ") pixels[cursor] = pixels[cursor] ? 0 : 1;
    else return;
    event.preventDefault();
    update();
    const size = byId("input").width / SIDE;
    const context = byId("input").getContext("2d");
    context.strokeStyle = "#d55e00";
    context.strokeRect((cursor % SIDE) * size + 1, Math.floor(cursor / SIDE) * size + 1, size - 2, size - 2);
  };

  byId("input").addEventListener("pointerdown", (event) => { event.target.setPointerCapture(event.pointerId); place(event); });
  byId("input").addEventListener("pointermove", (event) => { if (event.buttons) place(event); });
  byId("input").addEventListener("keydown", type);
  document.querySelectorAll("#engine input").forEach((input) => input.addEventListener("input", update));
  Object.keys(shapes).forEach((name) => byId(name).addEventListener("click", () => fill(name)));
  fill("disc");
})();
