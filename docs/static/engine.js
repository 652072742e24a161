// Computes one pass of the emulated engine as fourier_attn.optics does: modulators with levels and leakage, a lens
// between pixels with phase errors, a balanced receiver with shot noise, and a converter. Arrays are flat, row by row.

/** Clips to [-1, 1] or [0, 1] and rounds to the levels of a converter; with bits = 0 it does not round. */
function quantise(x, bits, signed) {
  const low = signed ? -1 : 0;
  const bounded = Math.min(1, Math.max(low, x));
  if (!bits) return bounded;
  const steps = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1;
  return roundEven(bounded * steps) / steps;
}

/** Rounds halves to the even neighbour, as NumPy does. */
function roundEven(x) {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Returns the phases pi n (n + N mod 2) / N, summed over both axes; compensated modulators write them for zeros. */
function chirp(rows, cols) {
  const along = (n, size) => (Math.PI * n * (n + (size % 2))) / size;
  return Array.from({ length: rows * cols }, (_, i) => along(Math.floor(i / cols), rows) + along(i % cols, cols));
}

/** Returns the field of an array, {scale, re, im}: E = (b + i delta sqrt(1 - b^2)) exp(i p). */
function write(x, engine) {
  const { rows, cols, dacBits, extinctionDb, compensated } = engine;
  const scale = Math.max(...x.map(Math.abs)) || 1;
  const delta = extinctionDb === null ? 0 : 10 ** (-extinctionDb / 20);
  const zeros = chirp(rows, cols);
  const re = [];
  const im = [];
  x.forEach((value, i) => {
    const wanted = Math.abs(value) / scale;
    let drive = wanted;
    let phase = value < 0 ? Math.PI : 0;
    if (compensated && delta) {
      drive = Math.sqrt(Math.max(wanted ** 2 - delta ** 2, 0) / (1 - delta ** 2));
      if (value === 0) phase = zeros[i];
      phase -= Math.atan2(delta * Math.sqrt(Math.max(1 - drive ** 2, 0)), drive);
      phase = Math.atan2(Math.sin(phase), Math.cos(phase));
    }
    if (dacBits) phase = (roundEven((phase * 2 ** dacBits) / (2 * Math.PI)) * 2 * Math.PI) / 2 ** dacBits;
    const level = quantise(drive, dacBits, false);
    const leak = delta * Math.sqrt(Math.max(1 - level ** 2, 0));
    re.push(level * Math.cos(phase) - leak * Math.sin(phase));
    im.push(level * Math.sin(phase) + leak * Math.cos(phase));
  });
  return { scale, re, im };
}

/** Multiplies every pixel by exp(i phase). */
function turn(field, phases) {
  const re = field.re.map((a, i) => a * Math.cos(phases[i]) - field.im[i] * Math.sin(phases[i]));
  const im = field.im.map((b, i) => b * Math.cos(phases[i]) + field.re[i] * Math.sin(phases[i]));
  return { re, im };
}

/** Computes the orthonormal Fourier transform, one axis after the other. */
function lens(field, rows, cols) {
  const along = (source, size, place) => {
    const re = new Array(rows * cols).fill(0);
    const im = new Array(rows * cols).fill(0);
    for (let row = 0; row < rows; row++) {
      for (let col = 0; col < cols; col++) {
        const k = place === "row" ? row : col;
        for (let m = 0; m < size; m++) {
          const from = place === "row" ? m * cols + col : row * cols + m;
          const angle = (-2 * Math.PI * ((k * m) % size)) / size;
          re[row * cols + col] += source.re[from] * Math.cos(angle) - source.im[from] * Math.sin(angle);
          im[row * cols + col] += source.im[from] * Math.cos(angle) + source.re[from] * Math.sin(angle);
        }
      }
    }
    const root = Math.sqrt(size);
    return { re: re.map((a) => a / root), im: im.map((b) => b / root) };
  };
  return along(along(field, cols, "col"), rows, "row");
}

const REFERENCE = 10; // power of the reference over unit intensity

/** Adds the shot noise of a balanced receiver and rounds both parts; normal() draws a normal number. */
function detect(field, engine, normal) {
  const { photons, adcBits } = engine;
  const noisy = (part) => {
    if (photons === null) return part;
    return part.map((a, i) => {
      const variance = (field.re[i] ** 2 + field.im[i] ** 2 + REFERENCE) / (2 * REFERENCE * photons);
      return a + Math.sqrt(variance) * normal();
    });
  };
  const re = noisy(field.re);
  const im = noisy(field.im);
  if (!adcBits) return { re, im };
  const full = Math.max(...re.map(Math.abs), ...im.map(Math.abs)) || 1;
  const convert = (a) => full * quantise(a / full, adcBits, true);
  return { re: re.map(convert), im: im.map(convert) };
}

/**
 * Runs one pass on the array x. engine: {rows, cols, dacBits, adcBits, extinctionDb, compensated, before, after,
 * photons}. before and after are the phase errors in radians of the pixels on either side of the lens. photons are
 * those of a pixel at unit intensity (null: no shot noise). extinctionDb is null for modulators without leakage, and
 * bits are 0 for converters without levels.
 */
function opticalPass(x, engine, normal = gaussian(1)) {
  const written = write(x, engine);
  const shone = turn(lens(turn(written, engine.before), engine.rows, engine.cols), engine.after);
  const read = detect(shone, engine, normal);
  return { re: read.re.map((a) => a * written.scale), im: read.im.map((b) => b * written.scale) };
}

/** Returns a generator of normal numbers with this seed. */
function gaussian(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

if (typeof module !== "undefined") module.exports = { opticalPass, gaussian };
