// The response as a field of slots, laid out as the final response will be: each slot is as wide as its
// final token, and lines break where the final response breaks them.  So tokens appear in their place, and
// only a wider one that does not last moves what is behind it.

const SAID = {
  given: "given",
  masked: "masked",
  reopened: "masked again",
  accepted: "placed now",
  remasked: "taken back now",
  replaced: "replaced now",
  settled: "placed",
  revised: "placed after a revision",
};

class Response {
  constructor(run, name, choose) {
    this.run = run;
    this.slots = Array.from({ length: run.length }, (_, at) => this.#slot(at));
    this.shown = new Array(run.length).fill("");
    const kind = run.data.numbers ? "response numbers" : "response";
    this.node = make("div", { class: kind, role: "listbox", "aria-label": name });
    this.board = boardOf(run);
    if (this.board === null) this.#inLines();
    else this.#onBoard(this.board);
    this.slots[0].tabIndex = 0;
    this.chosen = 0;
    const pick = (focused) => (event) => {
      const slot = event.target.closest(".slot");
      if (slot) choose(Number(slot.dataset.at), focused);
    };
    this.node.addEventListener("pointerover", pick(false));
    this.node.addEventListener("focusin", pick(true));
  }

  #inLines() {
    const { lead } = this.run.data;
    if (lead) this.node.append(make("span", { class: "before", "aria-hidden": "true" }, lead));
    this.slots.forEach((slot, at) => this.node.append(slot, ...this.#layout(at)));
  }

  #onBoard({ size, before }) {
    this.node.classList.add("board");
    this.node.style.setProperty("--size", size);
    const given = before.map((text) => make("span", { class: "before", "aria-hidden": "true" }, text.trim()));
    this.node.append(...given, ...this.slots);
    [...this.node.children].forEach((cell, place) => cell.classList.add(...edges(place, size)));
  }

  // `other` is the run beside it: positions at which the two differ get a corner.
  show(update, other) {
    const states = this.slots.map((_, at) => this.run.state(at, update));
    const differ = states.map(({ id }, at) => other !== null && other.state(at, update).id !== id);
    const tail = this.#tail(update, differ);
    const stop = this.run.stop(update);
    const fresh = states.slice(tail).some(({ mark }) => mark === "accepted");
    states.forEach((state, at) => {
      const times = at === tail ? Math.max(1, stop - tail) : 1;
      const key = `${state.mark} ${state.token} ${differ[at]} ${times} ${at > tail} ${times > 1 && fresh}`;
      if (this.shown[at] !== key) this.#write(at, state, differ[at], times);
      this.slots[at].classList.toggle("folded", at > tail || at >= stop);
      this.slots[at].classList.toggle("fresh", times > 1 && fresh);
      this.shown[at] = key;
    });
  }

  // The first of the end marks at the end that are shown as one; the length where there are none.
  #tail(update, differ) {
    const length = this.run.stop(update);
    const apart = this.run.data.numbers || this.board !== null;
    const first = apart ? length : length - this.run.tail(update);
    return Math.max(first, differ.lastIndexOf(true) + 1);
  }

  choose(at) {
    for (const [place, chosen] of [[this.chosen, false], [at, true]]) {
      this.slots[place].tabIndex = chosen ? 0 : -1;
      this.slots[place].setAttribute("aria-selected", chosen);
    }
    this.chosen = at;
  }

  focus(at) {
    this.slots[at]?.focus();
  }

  #write(at, { mark, token, id }, differs, times) {
    const slot = this.slots[at];
    const text = token === null ? SIGNS[mark] ?? SIGNS.reopened : this.#inLine(token);
    slot.firstChild.data = times > 1 ? `${text} x ${times}` : text;
    slot.dataset.mark = mark;
    slot.dataset.id = id ?? "";
    slot.classList.toggle("differs", differs);
    const spoken = token === null ? "" : `: ${this.run.spelled(token)}${times > 1 ? ` and ${times - 1} more` : ""}`;
    const apart = differs ? ", differs" : "";
    slot.setAttribute("aria-label", `position ${at + 1}, ${SAID[mark]}${apart}${spoken}`);
  }

  #slot(at) {
    const { token, id } = this.run.state(at, this.run.total);
    const longest = this.run.data.numbers ? String(this.run.data.ids.at(-1) ?? "") : "";
    const final = longest || (id === null ? SIGNS.masked : this.#inLine(token));
    const attributes = { class: "slot", role: "option", "data-at": at, "data-final": final, tabindex: -1 };
    return make("span", attributes, "");
  }

  // A token within a line: what it breaks is shown by a sign, and the rest is left to the layout.
  #inLine(token) {
    return this.run.spelled(token).replace(/\n[ \t]*$/, "\n").replaceAll("\n", "↵").replaceAll("\t", "    ");
  }

  // What the final token does to the layout: line breaks, and the indentation behind the last one.
  #layout(at) {
    const { token, id } = this.run.state(at, this.run.total);
    const text = id === null ? "" : this.run.spelled(token);
    const breaks = text.split("\n").length - 1;
    const indent = breaks ? /[ \t]*$/.exec(text)[0].replaceAll("\t", "    ") : "";
    const parts = Array.from({ length: breaks }, () => make("br"));
    if (indent) parts.push(make("span", { class: "indent", "aria-hidden": "true" }, indent));
    return parts;
  }
}
