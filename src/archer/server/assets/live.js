// A response while it forms: the API's events become the data of the player, drawn once per frame.

const at = (id) => document.getElementById(id);
const calls = { full: 0, cached: 1, reused: 2 };
const thousandths = (confidence) => (confidence === null ? -1 : Math.round(confidence * 1000));
let key = ""; // typed by the user, kept here only
let session = null; // the runs under way or just finished
let grids = null; // sizes of the Sudoku grids that the model fills, if it fills any

// What stands on the line of the first gap in front of it, without what is healed; as in `player_data`.
function leading(before, prompt) {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  let end = line.length;
  while (!prompt.endsWith(line.slice(0, end))) end -= 1;
  return line.slice(0, end);
}

// One method's run: the data of a player that grows with every event.
class Live {
  constructor(method, before) {
    this.method = method;
    this.before = before; // the text up to the first gap
    this.data = null;
    this.text = "";
    this.ended = false;
    this.told = 0; // updates
    this.cost = "";
  }

  start(event) {
    this.pieces = event.pieces ?? {};
    this.events = [];
    this.method ||= event.method; // the server's, where none was named
    this.finals = event.ends;
    const given = (event.given ?? [])[0] ?? null;
    this.given = given === null ? [] : [...given.entries()].filter(([, id]) => id !== null);
    const length = given?.length ?? event.length;
    const prompt = event.prompts[0].map((id) => this.pieces[id] ?? `<${id}>`).join("");
    this.data = {
      model: event.model,
      method: event.method,
      settings: event.settings,
      seed: event.seed,
      length,
      stop: event.stop ?? length,
      radius: event.settings.radius ?? null,
      nats: event.settings.nats ?? null,
      prompt,
      lead: grids === null ? leading(this.before, prompt) : /\d*$/.exec(prompt)[0],
      numbers: false,
      outcome: "decoding",
    };
  }

  update(event) {
    Object.assign(this.pieces, event.pieces);
    this.events.push(event);
    this.told += 1;
  }

  end(event) {
    this.ended = true;
    const reasons = { stop: "ended by an end token", length: "all positions filled" };
    const { finish_reason: reason, parts = [], gaps = [] } = event.completion;
    this.data.outcome = reasons[reason] ?? "finished";
    if (parts.length > 0) this.text = parts.map((part, number) => part + (gaps[number] ?? "")).join("");
    const { updates, full_passes, cached_passes, seconds } = event.completion;
    this.cost = `${updates} updates: ${full_passes} full and ${cached_passes} cached passes, ${seconds.total.toFixed(2)} s`;
  }

  // The rows of `player_data` up to an update: ids in order, changes as flat lists.
  rows(last = this.told) {
    const events = this.events.slice(0, last);
    const placed = events.flatMap((event) => [...event.accepted, ...event.replaced]);
    const tokens = [...this.given.map(([, id]) => id), ...placed.map(({ token }) => token)];
    const ids = [...new Set(tokens)].sort((a, b) => a - b);
    const place = new Map(ids.map((id, number) => [id, number]));
    const changes = (list) => list.flatMap((c) => [c.at, place.get(c.token), thousandths(c.confidence)]);
    const updates = events.map((event) => [
      calls[event.call],
      event.distance,
      thousandths(event.threshold),
      changes(event.accepted),
      changes(event.replaced),
      event.remasked.flatMap((where, number) => [where, thousandths(event.doubts[number] ?? null)]),
      thousandths(event.drift),
      event.stop ?? this.data.length,
    ]);
    const { outcome, ...data } = this.data;
    const given = this.given.flatMap(([where, id]) => [where, place.get(id)]);
    const texts = ids.map((id) => this.pieces[id] ?? `<${id}>`);
    const ends = ids.filter((id) => this.finals.includes(id)).map((id) => place.get(id));
    return { ...data, ids, texts, given, ends, updates, outcome };
  }
}

// The objects of a stream of server-sent events, one by one.
async function* objects(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
    }
  }
}

async function asked(path, options = {}) {
  const headers = key ? { authorization: `Bearer ${key}`, ...options.headers } : options.headers;
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  const { error } = await response.json();
  throw Object.assign(new Error(error.message), { code: error.code });
}

async function follow(live, request, signal) {
  const { path, own, ...fields } = request;
  const named = live.method === "" ? {} : { method: live.method };
  const archer = { ...named, stream_mode: "provisional", ...own };
  const body = JSON.stringify({ ...fields, archer });
  const headers = { "content-type": "application/json" };
  const response = await asked(path, { method: "POST", headers, body, signal });
  for await (const chunk of objects(response.body)) {
    if (chunk.error) throw new Error(chunk.error.message);
    if (chunk.archer?.event === "start") live.start(chunk.archer);
    if (chunk.archer?.event === "update") live.update(chunk.archer);
    if (chunk.archer?.event === "end") live.end(chunk.archer);
    if (chunk.archer?.event === "skipped") throw new Error("The connection is too slow to watch every update.");
    live.text += chunk.choices[0]?.delta?.content ?? chunk.choices[0]?.text ?? "";
    session.changed = true;
  }
  if (!live.ended) throw new Error("The server ended the stream before the response was complete.");
}

// The player of what is known by now; while it runs it shows the latest update that both have reached, so
// that being ahead is not taken for a difference.
function show(running) {
  const known = session.runs.filter(({ data }) => data !== null);
  if (known.length === 0) return;
  const last = running ? Math.min(...known.map(({ ended, told }) => (ended ? Infinity : told))) : Infinity;
  const player = new Player(known.map((live) => live.rows(last)));
  player.seek(player.total); // also when it is over: what was watched stays in sight
  const parted = player.node.querySelector(".parted");
  if (running && parted !== null && player.divergence === null) parted.textContent = "Identical so far.";
  player.node.classList.toggle("live", running);
  player.node.setAttribute("aria-busy", running);
  at("stage").replaceChildren(player.node);
  at("texts").replaceChildren(
    ...session.runs.map(({ method, text, cost }) =>
      make("div", {}, make("h2", {}, method), make("pre", {}, text), make("p", { class: "cost" }, cost)),
    ),
  );
}

function drawing(mine) {
  requestAnimationFrame(() => {
    if (session !== mine || mine.over) return;
    if (mine.changed) show(true);
    mine.changed = false;
    drawing(mine);
  });
}

function say(words, wrong = false) {
  at("told").textContent = words;
  at("told").classList.toggle("wrong", wrong);
}

function busy(yes) {
  at("run").disabled = yes;
  at("stop").disabled = !yes;
  at("save").disabled = yes || session === null || !session.runs.every(({ ended }) => ended);
}

// A model for Sudoku is asked for grids: the field for the prompt becomes one for a grid.
function offer(model) {
  if (grids !== null || model.grids === undefined) return;
  grids = model.grids;
  const text = at("prompt");
  at("ask").classList.add("grid");
  const sizes = grids.map((size) => `${size}x${size}`).join(", ");
  at("asks").textContent = `Sudoku grid (${sizes}): digits, and points or zeros for empty cells`;
  text.rows = Math.max(...grids);
  if (text.value === text.defaultValue) text.value = text.dataset.grid;
}

// What is asked: the fields of a request that follow from the text, and those of `archer`.
function asking(prompt, gap) {
  const messages = [{ role: "user", content: prompt }];
  if (grids !== null) return { path: "/v1/chat/completions", messages, own: { grid: true } };
  const most = at("length").value === "" ? {} : { max_tokens: Number(at("length").value) };
  const schema = at("schema").value.trim() === "" ? {} : { guided_json: at("schema").value };
  if (gap === "") return { path: "/v1/chat/completions", messages, own: {}, ...most, ...schema };
  return { path: "/v1/completions", prompt, own: { gap }, ...most, ...schema };
}

async function run() {
  key = at("key").value;
  const second = at("second").value.trim();
  const methods = [at("first").value.trim(), ...(second === "" ? [] : [second])];
  const gap = at("gap").value;
  const before = gap === "" ? "" : at("prompt").value.split(gap)[0];
  const mine = { runs: methods.map((name) => new Live(name, before)), control: new AbortController(), changed: false, over: false };
  session = mine;
  busy(true);
  say("Running.");
  at("stage").replaceChildren();
  at("texts").replaceChildren();
  drawing(mine);
  let outcome = ["", false];
  try {
    const { data } = await (await asked("/v1/models", { signal: mine.control.signal })).json();
    offer(data[0]);
    const request = {
      ...asking(at("prompt").value, gap),
      model: data[0].id,
      seed: Number(at("seed").value),
      ...(Number(at("temperature").value) > 0 ? { temperature: Number(at("temperature").value) } : {}),
      stream: true,
    };
    await Promise.all(mine.runs.map((live) => follow(live, request, mine.control.signal)));
    outcome = ["Done.", false];
  } catch (error) {
    outcome = mine.control.signal.aborted && error.name === "AbortError" ? ["Stopped.", false] : [error.message, true];
    mine.control.abort();
  }
  mine.over = true;
  mine.runs.filter(({ data, ended }) => data !== null && !ended).forEach(({ data }) => { data.outcome = "not finished"; });
  show(false);
  busy(false);
  say(...outcome);
}

// The file that `archer view` would write of the same runs.
function save() {
  const runs = session.runs.map((live) => live.rows());
  const safe = (text) => text.replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const escaped = (text) => make("p", {}, text).innerHTML;
  const title = `Archer · ${session.runs.map(({ method }) => method).join(" and ")}`;
  const parts = {
    '[{"runs":"%runs%"}]': safe(JSON.stringify(runs)),
    "%title%": escaped(title),
    "%summary%": escaped(session.runs[0].data.prompt.split("\n")[0].slice(0, 80)),
  };
  let file = JSON.parse(at("file").textContent);
  if (runs.length > 1) file = file.replace('<details class="trajectory"', '<details class="trajectory pair"');
  // all marks at once: a prompt may hold the text of a mark
  file = file.replace(/\[\{"runs":"%runs%"\}\]|%title%|%summary%/g, (mark) => parts[mark]);
  const link = make("a", { href: URL.createObjectURL(new Blob([file], { type: "text/html" })), download: "archer.html" });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function listMethods() {
  try {
    const { methods } = await (await asked("/v1/archer/methods")).json();
    const kinds = Object.entries(Object.groupBy(Object.entries(methods), ([, { kind }]) => kind));
    const option = ([name, { summary }]) => make("option", { value: name }, `${name}: ${summary}`);
    for (const list of document.querySelectorAll(".methods")) {
      const groups = kinds.map(([kind, own]) => make("optgroup", { label: kind }, ...own.map(option)));
      list.replaceChildren(make("option", { value: "" }, ""), ...groups);
    }
  } catch {
    // names can be typed all the same
  }
}

async function learnModel() {
  try {
    const { data } = await (await asked("/v1/models")).json();
    offer(data[0]);
  } catch (error) {
    if (error.code === "loading") setTimeout(learnModel, 1000);
  }
}

for (const list of document.querySelectorAll(".methods")) {
  list.addEventListener("change", () => {
    list.previousElementSibling.value = list.value;
    list.value = ""; // a list to take from: the field beside it says what runs
  });
}
at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
at("ask").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !at("run").disabled) at("ask").requestSubmit();
});
// a button that is switched off loses the focus to the page, so this is heard wherever it is
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !at("stop").disabled) at("stop").click();
});
at("mark").addEventListener("click", () => {
  const text = at("prompt");
  at("gap").value ||= "___";
  text.setRangeText(at("gap").value, text.selectionStart, text.selectionEnd, "end");
  text.focus();
});
at("stop").addEventListener("click", () => session.control.abort());
at("save").addEventListener("click", save);
at("key").addEventListener("change", () => {
  key = at("key").value;
  listMethods();
  learnModel();
});
listMethods();
learnModel();
