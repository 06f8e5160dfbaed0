// Buttons, scrub bar and speed.  They say what is wanted; the player does it.

const SPEEDS = [1, 2, 4, 8, 16, 32];
const USUAL_SPEED = 8;
const ICONS = {
  first: "M2 2h2.5v12H2zM14 2v12L5.5 8z",
  back: "M12 2v12L4 8z",
  play: "M3.5 1.5v13L14 8z",
  pause: "M3 2h3.5v12H3zM9.5 2H13v12H9.5z",
  on: "M4 2v12l8-6z",
  last: "M11.5 2H14v12h-2.5zM2 2v12l8.5-6z",
  parted: "M2 4.5h12v2H2zM2 9.5h12v2H2zM10.5 1l2 1-7 13-2-1z",
};

function icon(name) {
  return draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, draw("path", { d: ICONS[name] }));
}

class Controls {
  // `player` has jump, toggle, update, total and divergence.
  constructor(player) {
    const { total, divergence } = player;
    const seek = () => player.jump(Number(this.scrub.value));
    this.total = total;
    this.scrub = make("input", { type: "range", min: 0, max: total, value: 0, "aria-label": "Update", oninput: seek });
    this.counter = make("output", { class: "counter", "aria-hidden": "true" });
    this.toggle = this.#button("Play", "play", () => player.toggle(), "toggle");
    const options = SPEEDS.map((each) => make("option", { value: each, selected: each === USUAL_SPEED }, `${each}/s`));
    this.select = make("select", { "aria-label": "Updates per second" }, ...options);
    const buttons = [
      this.#button("Back to the start", "first", () => player.jump(0), "far"),
      this.#button("One update back", "back", () => player.jump(player.update - 1)),
      this.toggle,
      this.#button("One update forward", "on", () => player.jump(player.update + 1)),
      this.#button("To the end", "last", () => player.jump(total), "far"),
    ];
    if (divergence !== null) {
      buttons.push(this.#button(`First divergence: update ${divergence}`, "parted", () => player.jump(divergence)));
    }
    this.node = make(
      "div",
      { class: "controls", role: "group", "aria-label": "Playback" },
      this.scrub,
      make("div", { class: "buttons" }, ...buttons, this.counter, this.select),
    );
  }

  // Milliseconds from update to update.
  get pause() {
    return 1000 / Number(this.select.value);
  }

  show(update) {
    this.scrub.value = update;
    this.scrub.setAttribute("aria-valuetext", `update ${update} of ${this.total}`);
    this.counter.textContent = `${update} / ${this.total}`;
  }

  playing(yes) {
    this.toggle.replaceChildren(icon(yes ? "pause" : "play"));
    const label = yes ? "Pause" : "Play";
    fill(this.toggle, { "aria-label": label, title: label }, []);
  }

  #button(label, sign, act, kind = null) {
    const attributes = { type: "button", class: kind, "aria-label": label, title: label, onclick: act };
    return make("button", attributes, icon(sign));
  }
}
