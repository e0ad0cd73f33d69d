// Examples that need no file; random ones come from a fixed seed.

import { Instance } from "./instance.js";

/** A small generator of random numbers in [0, 1), the same everywhere. */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

function workshop() {
  const jobs = ["Bracket", "Cabinet", "Chassis", "Console", "Cover", "Flange", "Frame", "Gear case", "Hinge", "Housing", "Panel", "Pulley", "Rail", "Shaft", "Spindle", "Table top"];
  const draw = random(7);
  const matrix = jobs.map(() => {
    const size = 8 + draw() * 30;
    return [1, 0.8, 1.25, 0.95].map((speed) => Math.round(size * speed * (0.7 + 0.7 * draw())));
  });
  return new Instance({ problem: "pmsp", name: "workshop", matrix, rows: jobs, columns: ["Laser", "Mill", "Press", "Saw"] });
}

function round() {
  const stops = ["Depot", "Bakery", "Library", "Harbour", "Museum", "Station", "School", "Market", "Clinic", "Theatre", "Park", "Brewery", "Stadium", "Chapel", "Mill", "Observatory", "Pool", "Town hall"];
  const draw = random(11);
  const coordinates = stops.map(() => [Math.round(draw() * 1000) / 100, Math.round(draw() * 700) / 100]);
  const matrix = stops.map((_, a) => stops.map((_, b) => {
    if (a === b) return 0;
    const [dx, dy] = [coordinates[a][0] - coordinates[b][0], coordinates[a][1] - coordinates[b][1]];
    // one-way streets: there and back differ
    return Math.round(60 * Math.hypot(dx, dy) * (1 + 0.35 * draw()) + 20);
  }));
  return new Instance({ problem: "atsp", name: "delivery round", matrix, rows: stops, columns: stops, coordinates });
}

function shop(jobs, machines, seed, low = 2, high = 20) {
  const draw = random(seed);
  const matrix = Array.from({ length: jobs }, () => Array.from({ length: machines }, () => low + Math.floor(draw() * (high - low))));
  return new Instance({ problem: "pmsp", name: `${jobs} jobs on ${machines} machines`, matrix });
}

function cities(count, seed) {
  const draw = random(seed);
  let matrix = Array.from({ length: count }, (_, a) => Array.from({ length: count }, (_, b) => (a === b ? 0 : 1 + Math.floor(draw() * 1000))));
  for (let k = 0; k < count; k++) matrix = matrix.map((row, a) => row.map((value, b) => Math.min(value, matrix[a][k] + matrix[k][b])));
  return new Instance({ problem: "atsp", name: `${count} cities`, matrix });
}

export const EXAMPLES = {
  workshop: { title: "Workshop: 16 jobs, 4 machines", make: workshop },
  round: { title: "Delivery round: 18 stops", make: round },
  shop: { title: "Random shop: 50 × 5", make: () => shop(50, 5, 3) },
  cities: { title: "Random cities: 50", make: () => cities(50, 5) },
  large: { title: "Large shop: 200 × 50", make: () => shop(200, 50, 9, 10, 100) },
};
