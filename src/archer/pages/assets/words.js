// What is written around a response: its signs, and the numbers of an update.

const SIGNS = { masked: "·", reopened: "∘" };
const LEGEND = [
  ["masked", "masked"],
  ["accepted", "accepted now"],
  ["settled", "settled"],
  ["remasked", "re-masked now"],
  ["reopened", "masked again"],
  ["replaced", "replaced now"],
  ["revised", "settled after a revision"],
];

function legend(pair, given) {
  const entry = (mark, said, kind = "slot") => {
    const sample = make("span", { class: kind, "data-mark": mark, "aria-hidden": "true" }, SIGNS[mark] ?? "abc");
    return make("li", {}, sample, ` ${said}`);
  };
  const entries = LEGEND.map(([mark, said]) => entry(mark, said));
  if (given) entries.push(entry("given", "given"));
  if (pair) entries.push(entry("settled", "differs", "slot differs"));
  return make("ul", { class: "legend", "aria-label": "Signs" }, ...entries);
}

// What is said about an update, part by part.
function numbersOf(run, update) {
  const { call, moved, bar, changes, passes } = run.summary(update);
  const { radius, outcome } = run.data;
  const limit = run.inNats ? run.limit : radius;
  const reach = limit === null ? "" : ` of ${limit === "inf" ? "∞" : limit}`;
  const counted = ([placed, taken, replaced]) => `+${placed} −${taken}${replaced ? ` ~${replaced}` : ""}`;
  const ends = changes.ends.some((count) => count > 0) ? `, ∎ ${counted(changes.ends)}` : "";
  const part = (name, value) => make("span", {}, make("i", {}, `${name} `), value);
  return [
    part("update", `${Math.min(update, run.total)} of ${run.total}`),
    part("pass", call ?? "none yet"),
    part(run.inNats ? "unexpected nats" : "distance", `${run.inNats ? moved.toFixed(2) : moved}${reach}`),
    part("placed", `${run.placed(update)} of ${run.open(update)}`),
    part("change", `${counted(changes.text)}${ends}`),
    part("threshold", bar < 0 ? "none" : sureness(bar)),
    part("passes so far", `${passes.full} full, ${passes.cached} cached, ${passes.reused} reused`),
    ...(update >= run.total ? [make("span", { class: "outcome" }, outcome)] : []),
  ];
}

// The settings of a run, under its name.
function about(run, name) {
  const settings = Object.entries(run.data.settings).map(([key, value]) => `${key} = ${value}`);
  const words = [`seed = ${run.data.seed}`, ...settings].join(", ");
  return make("details", { class: "about" }, make("summary", {}, make("b", {}, name)), make("p", {}, words));
}
