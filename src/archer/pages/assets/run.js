// One trajectory, rebuilt from its changes.  It knows no page.
//
// The state of a position after an update follows from its own history alone:
//   masked     nothing placed yet          accepted  placed in this update
//   remasked   taken back in this update   replaced  overwritten in this update
//   reopened   taken back before           settled   placed before
//   given      never written               revised   placed before, after a revision

const CALLS = ["full", "cached", "reused"];
const PLACED = 3;
const TAKEN = 2;
const GIVEN = 2;
const SURE = 1000;

class Run {
  constructor(data) {
    this.data = data;
    this.length = data.length;
    this.total = data.updates.length;
    this.stops = [data.stop, ...data.updates.map((update) => update[7])]; // positions after each update
    this.ends = new Set(data.ends);
    this.given = new Map();
    const { given } = data;
    for (let i = 0; i < given.length; i += GIVEN) this.given.set(given[i], given[i + 1]);
    this.histories = Array.from({ length: data.length }, () => []);
    this.counts = []; // of each update, [placed, taken back, replaced], of text and of end marks
    data.updates.forEach((update, index) => this.#follow(update, index + 1));
    this.updates = this.#summaries();
  }

  #follow([, , , accepted, replaced, remasked], update) {
    const counts = { text: [0, 0, 0], ends: [0, 0, 0] };
    const count = (token, what) => { counts[this.ends.has(token) ? "ends" : "text"][what] += 1; };
    this.counts.push(counts);
    for (let i = 0; i < accepted.length; i += PLACED) {
      const [at, token, sure] = accepted.slice(i, i + PLACED);
      this.histories[at].push({ update, kind: "accepted", token, sure });
      count(token, 0);
    }
    for (let i = 0; i < replaced.length; i += PLACED) {
      const [at, token, sure] = replaced.slice(i, i + PLACED);
      this.histories[at].push({ update, kind: "replaced", token, sure });
      count(token, 2);
    }
    for (let i = 0; i < remasked.length; i += TAKEN) {
      const [at, sure] = remasked.slice(i, i + TAKEN);
      const token = this.histories[at].at(-1)?.token ?? null;
      this.histories[at].push({ update, kind: "remasked", token, sure });
      count(token, 1);
    }
  }

  // What is said about each update; the first entry is the state before any.
  #summaries() {
    const passes = { full: 0, cached: 0, reused: 0 };
    const nothing = { text: [0, 0, 0], ends: [0, 0, 0] };
    const list = [{ call: null, moved: 0, bar: -1, changes: nothing, passes: { ...passes } }];
    this.data.updates.forEach(([call, distance, bar, , , , drift], index) => {
      passes[CALLS[call]] += 1;
      const moved = this.inNats ? Math.max(drift, 0) / SURE : distance;
      list.push({ call: CALLS[call], moved, bar, changes: this.counts[index], passes: { ...passes } });
    });
    return list;
  }

  // Whether the cache counts nats since its anchor instead of tokens.
  get inNats() {
    return typeof this.data.nats === "number" && this.data.updates.some((update) => update[6] >= 0);
  }

  // Where the cache refreshes, in what it counts; null where there is no such place.
  get limit() {
    const limit = this.inNats ? this.data.nats : this.data.radius;
    return typeof limit === "number" ? limit : null;
  }

  // How many positions at the end hold end marks, which a reader need not see one by one.
  tail(update) {
    let count = 0;
    for (let at = this.stop(update) - 1; at >= 0; at -= 1) {
      const { token, id } = this.state(at, update);
      if (id === null || !this.ends.has(token)) break;
      count += 1;
    }
    return count;
  }

  // What was known of an update; a finished run stays as it is.
  summary(update) {
    return this.updates[Math.min(update, this.total)];
  }

  // { mark, token, id, since }: `token` is what is shown, `id` what the response holds (null: nothing).
  state(at, update) {
    if (this.given.has(at)) {
      const token = this.given.get(at);
      return { mark: "given", token, id: this.data.ids[token], since: null, sure: -1 };
    }
    const history = this.histories[at];
    let last = history.length - 1;
    while (last >= 0 && history[last].update > update) last -= 1;
    if (last < 0) return { mark: "masked", token: null, id: null, since: null };
    const { kind, token, update: since, sure } = history[last];
    const now = since === update && update <= this.total;
    if (kind === "remasked") {
      return { mark: now ? "remasked" : "reopened", token: now ? token : null, id: null, since };
    }
    const revised = kind === "replaced" || last > 0;
    const mark = now ? kind : revised ? "revised" : "settled";
    return { mark, token, id: this.data.ids[token], since, sure };
  }

  // How many positions the response has; those behind have been cut, or do not exist yet.
  stop(update) {
    return this.stops[Math.min(update, this.total)] ?? this.length;
  }

  placed(update) {
    let count = 0;
    for (let at = 0; at < this.stop(update); at += 1) count += this.state(at, update).id !== null;
    return count - this.given.size;
  }

  // How many positions are to be filled.
  open(update) {
    return this.stop(update) - this.given.size;
  }

  spelled(token) {
    return this.ends.has(token) ? "∎" : this.data.texts[token];
  }
}

// The first update after which two runs hold different responses; null if there is none.
function firstDivergence(one, two) {
  for (let update = 1; update <= Math.max(one.total, two.total); update += 1) {
    if (update > Math.min(one.total, two.total)) return update;
    for (let at = 0; at < one.length; at += 1) {
      if (one.state(at, update).id !== two.state(at, update).id) return update;
    }
  }
  return null;
}
