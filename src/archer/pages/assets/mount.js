// Players are built when they are opened.

function mount(details) {
  const data = details.querySelector(":scope > script");
  if (!details.open || data === null) return;
  const player = new Player(JSON.parse(data.textContent).runs);
  data.replaceWith(player.node);
  player.node.focus({ preventScroll: true });
}

for (const details of document.querySelectorAll("details.trajectory")) {
  details.addEventListener("toggle", () => mount(details));
  mount(details);
}
