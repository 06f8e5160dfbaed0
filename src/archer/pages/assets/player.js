// One player: a place in time, the controls that change it, and for each run a panel that shows it.

const HINT =
  "Point at a token to see its history.  Keys: space plays, ← → step, Home and End jump, ↑ ↓ go from token to token";

class Player {
  constructor(runs) {
    this.runs = runs.map((data) => new Run(data));
    this.total = Math.max(...this.runs.map((run) => run.total));
    this.divergence = this.runs.length > 1 ? firstDivergence(...this.runs) : null;
    this.chosen = null;
    this.timer = null;
    this.controls = new Controls(this);
    this.panels = this.runs.map((run, index) => this.#panel(run, index));
    this.node = this.#node();
    this.seek(this.divergence ?? 0);
  }

  seek(update) {
    this.update = Math.min(Math.max(update, 0), this.total);
    this.node.dataset.update = this.update;
    this.controls.show(this.update);
    this.panels.forEach((panel) => panel.show(this.update));
  }

  jump(update) {
    this.pause();
    this.seek(update);
  }

  toggle() {
    if (this.timer === null) this.play();
    else this.pause();
  }

  play() {
    if (this.update >= this.total) this.seek(0);
    this.#tick();
    this.controls.playing(true);
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.controls.playing(false);
  }

  #tick() {
    this.timer = setTimeout(() => {
      this.seek(this.update + 1);
      if (this.update < this.total) this.#tick();
      else this.pause();
    }, this.controls.pause);
  }

  // While a position has the focus, the pointer chooses no other.
  #choose(at, focused) {
    if (!focused && this.node.querySelector(".slot:focus")) return;
    this.chosen = at;
    for (const { response, history } of this.panels) {
      response.choose(at);
      history.show(at, this.update);
    }
  }

  #node() {
    const pair = this.runs.length > 1;
    const prompt = make("pre", {}, this.runs[0].data.prompt);
    const words = this.divergence === null ? "The two are identical." : `First divergence: update ${this.divergence}.`;
    return make(
      "div",
      { class: pair ? "player pair" : "player", role: "group", "aria-label": "Player", tabindex: -1, onkeydown: (event) => this.#key(event) },
      make("details", { class: "about" }, make("summary", {}, "Prompt"), prompt),
      legend(pair, this.runs.some((run) => run.given.size > 0)),
      ...(pair ? [make("p", { class: "parted" }, words)] : []),
      make("div", { class: "panels" }, ...this.panels.map(({ node }) => node)),
      this.controls.node,
    );
  }

  #panel(run, index) {
    const other = this.runs[1 - index] ?? null;
    const name = `${run.data.method} · ${run.data.model}`;
    const jump = (update) => this.jump(update);
    const hint = this.divergence === null ? `${HINT}.` : `${HINT}, D goes to the first divergence.`;
    const response = new Response(run, `Response of ${name}`, (at, focused) => this.#choose(at, focused));
    const strip = new Strip(run, this.total, highest(run, this.runs), this.divergence, jump);
    const history = new History(run, index === 0 ? hint : "", jump);
    const numbers = make("p", { class: "numbers", role: "status" });
    const parts = [about(run, name), response.node, numbers, strip.node, history.node];
    const show = (update) => {
      response.show(update, other);
      strip.show(update);
      numbers.setAttribute("aria-live", this.timer === null ? "polite" : "off");
      numbers.replaceChildren(...numbersOf(run, update));
      history.show(this.chosen, update);
    };
    return { node: make("article", { class: "panel" }, ...parts), response, history, show };
  }

  #key(event) {
    const { target, key } = event;
    if (target.matches("select, summary") || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.matches("button") && key === " ") return;
    const panel = this.panels.find(({ response }) => response.node.contains(target));
    const acts = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.jump(this.update - 1),
      ArrowRight: () => this.jump(this.update + 1),
      Home: () => this.jump(0),
      End: () => this.jump(this.total),
      d: this.divergence === null ? undefined : () => this.jump(this.divergence),
      Escape: panel && (() => this.node.focus({ preventScroll: true })),
      ArrowUp: panel && (() => panel.response.focus(this.chosen - 1)),
      ArrowDown: panel && (() => panel.response.focus(this.chosen + 1)),
    };
    if (acts[key] === undefined) return;
    event.preventDefault();
    acts[key]();
  }
}
