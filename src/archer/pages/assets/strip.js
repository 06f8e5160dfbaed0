// How far the response has moved from the anchor at every update, in what the cache counts: tokens, or nats that
// the anchor did not expect; where the cache refreshes, and which pass answered.

const STRIP_HEIGHT = 86;
const MARKS = 14;
const FAR = 4;
const INSET = 8; // half the thumb of the scrub bar, so that both point to the same update

// High enough for every update, and for a limit that is not far above all of them; for runs that count the same.
// One token can carry a hundred times the nats that are the limit: what is far above it is cut.
function highest(run, runs) {
  const alike = runs.filter(({ inNats }) => inNats === run.inNats);
  const limits = alike.map(({ limit }) => limit).filter((limit) => limit !== null);
  if (run.inNats) return FAR * Math.max(0.01, ...limits);
  const far = Math.max(1, ...alike.flatMap((each) => each.updates.map(({ moved }) => moved)));
  return Math.max(far, ...limits.filter((limit) => limit <= FAR * far));
}

class Strip {
  // `top` is what fills the height; strips beside each other that count the same share it.
  constructor(run, total, top, divergence, seek) {
    this.run = run;
    this.total = total;
    this.divergence = divergence;
    this.update = 0;
    this.picture = draw("svg", { class: "strip", role: "img", "aria-label": this.#described() });
    this.top = top;
    const cut = run.updates.some(({ moved }) => moved > top) ? `, cut at ${top.toFixed(1)}` : "";
    const key = `Bars: ${this.#counted()} since the last full pass${cut}.  ▲ full pass   · cached   = reused`;
    this.node = make("div", {}, this.picture, make("p", { class: "strip-key" }, key));
    const follow = (event) => event.buttons === 1 && seek(this.#updateAt(event.clientX));
    this.picture.addEventListener("pointerdown", follow);
    this.picture.addEventListener("pointermove", follow);
    new ResizeObserver(() => this.#redraw()).observe(this.node);
  }

  show(update) {
    this.update = update;
    this.cursor?.setAttribute("x1", this.#x(update));
    this.cursor?.setAttribute("x2", this.#x(update));
  }

  #counted() {
    return this.run.inNats ? "nats that the prompt's cache did not expect" : "response tokens that changed";
  }

  #described() {
    const { full, cached, reused } = this.run.updates.at(-1).passes;
    return `Per update, ${this.#counted()} since the last full pass; ${full} full, ${cached} cached, ${reused} reused passes`;
  }

  #x(update) {
    return INSET + (update * (this.width - 2 * INSET)) / Math.max(1, this.total);
  }

  #y(moved) {
    const floor = STRIP_HEIGHT - MARKS;
    return floor - (Math.min(moved, this.top) / this.top) * (floor - 16);
  }

  #updateAt(clientX) {
    const { left } = this.picture.getBoundingClientRect();
    const share = (clientX - left - INSET) / (this.width - 2 * INSET);
    return Math.round(Math.min(Math.max(share, 0), 1) * this.total);
  }

  #redraw() {
    this.width = Math.max(this.node.clientWidth, 4 * INSET);
    const size = { width: this.width, height: STRIP_HEIGHT };
    fill(this.picture, { ...size, viewBox: `0 0 ${this.width} ${STRIP_HEIGHT}` }, []);
    this.cursor = draw("line", { class: "cursor", y1: 0, y2: STRIP_HEIGHT });
    this.picture.replaceChildren(...this.#bars(), this.cursor, ...this.#rules());
    this.show(this.update);
  }

  #bars() {
    const gap = (this.width - 2 * INSET) / Math.max(1, this.total);
    const wide = Math.max(1, Math.min(gap - 1, 9));
    const floor = STRIP_HEIGHT - MARKS;
    return this.run.updates.slice(1).flatMap(({ call, moved }, index) => {
      const x = this.#x(index + 1);
      const y = Math.min(this.#y(moved), floor - 1);
      const place = { x: x - wide / 2, y, width: wide, height: floor - y };
      return [draw("rect", { class: `distance ${call}`, ...place }), this.#mark(call, x, gap)];
    });
  }

  // Under each bar: a triangle for a full pass, a dot for a cached one, = for reused logits.
  #mark(call, x, gap) {
    const half = Math.max(1.5, Math.min(gap / 2, 4));
    const y = STRIP_HEIGHT - MARKS + 4;
    if (call === "full") {
      return draw("path", { class: "full", d: `M${x - half} ${y + 8}L${x} ${y}L${x + half} ${y + 8}Z` });
    }
    if (call === "cached") return draw("circle", { class: "cached", cx: x, cy: y + 5, r: Math.min(half, 1.2) });
    const d = `M${x - half * 0.7} ${y + 3.5}h${half * 1.4}M${x - half * 0.7} ${y + 6.5}h${half * 1.4}`;
    return draw("path", { class: "reused", d });
  }

  #rules() {
    const floor = STRIP_HEIGHT - MARKS;
    const list = [draw("line", { class: "floor", x1: 0, x2: this.width, y1: floor, y2: floor })];
    if (this.divergence !== null) {
      const x = this.#x(this.divergence);
      list.push(draw("line", { class: "divergence", x1: x, x2: x, y1: 0, y2: STRIP_HEIGHT }));
      list.push(draw("text", { class: "apart", x: x + 4, y: 10 }, "≠"));
    }
    const { limit, inNats } = this.run;
    if (limit !== null && limit <= this.top) {
      const y = this.#y(limit);
      list.push(draw("line", { class: "radius", x1: 0, x2: this.width, y1: y, y2: y }));
      list.push(draw("text", { x: 0, y: y - 4 }, inNats ? `${limit} nats` : `K = ${limit}`));
    }
    return list;
  }
}
