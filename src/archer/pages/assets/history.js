// All that happened to one position, and how sure the model was each time.

const VERBS = { accepted: "placed", remasked: "took back", replaced: "replaced by" };

class History {
  constructor(run, hint, seek) {
    this.run = run;
    this.hint = hint;
    this.seek = seek;
    this.node = make("section", { class: "history", "aria-label": "History of a position" });
    this.show(null, 0);
  }

  show(at, update) {
    if (at === null) {
      this.node.replaceChildren(make("p", { class: "hint" }, this.hint));
      return;
    }
    const history = this.run.histories[at];
    const entries = history.map((entry) => this.#entry(entry, update));
    const list = entries.length
      ? make("ol", {}, ...entries)
      : make("p", { class: "hint" }, this.run.given.has(at) ? "This was given." : "Nothing was ever placed here.");
    this.node.replaceChildren(make("p", { class: "now" }, ...this.#now(at, update)), list);
  }

  #now(at, update) {
    const state = this.run.state(at, update);
    const place = make("b", {}, `position ${at + 1}`);
    if (state.id === null) return [place, ` ${SAID[state.mark]}`];
    if (state.since === null) return [place, " ", this.#token(state.token), ` id ${state.id}, given`];
    const details = ` id ${state.id}, confidence ${sureness(state.sure)} when placed at update ${state.since}`;
    return [place, " ", this.#token(state.token), details];
  }

  #entry({ update, kind, token, sure }, now) {
    const tense = update === now ? "present" : update > now ? "future" : "past";
    const confidence = sure < 0 ? "" : sureness(sure);
    const button = make(
      "button",
      { type: "button", class: `event ${kind}`, onclick: () => this.seek(update) },
      make("span", { class: "when" }, `update ${update}`),
      make("span", { class: "verb" }, VERBS[kind]),
      this.#token(token),
      make("span", { class: "sure" }, confidence),
      make("span", { class: "gauge", style: `--share: ${Math.max(sure, 0) / 10}%`, "aria-hidden": "true" }),
    );
    return make("li", { class: tense, "aria-current": tense === "present" ? "step" : null }, button);
  }

  #token(token) {
    if (token === null) return make("code", {}, "·");
    const text = this.run.ends.has(token) ? `∎ ${this.run.data.texts[token]}` : this.run.data.texts[token];
    return make("code", {}, text.replaceAll("\n", "↵").replaceAll("\t", "⇥"));
  }
}
