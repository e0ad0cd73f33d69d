// The solvers that the page offers, in this order, with the words for people.

/** `kind`: for which problems; `plain`: a simple rule, of interest only beside others; `chosen`: compared by default. */
export const SOLVERS = [
  { name: "icdc", title: "Network and search", kind: "all", chosen: true },
  { name: "network", title: "Network alone", kind: "all", chosen: true },
  { name: "search", title: "Search alone", kind: "all", chosen: true },
  { name: "cpsat", title: "CP-SAT (exact)", kind: "all", chosen: true },
  { name: "branch", title: "Branch and bound (exact)", kind: "tour" },
  { name: "lkh", title: "LKH", kind: "tour", chosen: true },
  { name: "pyvrp", title: "PyVRP", kind: "tour" },
  { name: "lpt", title: "Longest job first", kind: "schedule", plain: true },
  { name: "nn", title: "Nearest neighbour", kind: "tour", plain: true },
];

/** Whether a solver is for tours, or for schedules. */
export function suits(name, tour) {
  const kind = SOLVERS.find((one) => one.name === name)?.kind;
  return kind === "all" || kind === (tour ? "tour" : "schedule");
}
