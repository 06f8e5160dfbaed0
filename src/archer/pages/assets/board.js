// A Sudoku grid: a response whose given digits and line breaks make a square is drawn as a board.

const BOXES = { 4: [2, 2], 6: [2, 3], 9: [3, 3] }; // lines and columns of a box, by the number of digits

// { size, before }: cells of a line, and what is given in front of the response; null for any other response.
function boardOf(run) {
  const given = (at) => (run.given.has(at) ? run.data.texts[run.given.get(at)] : null);
  const response = Array.from({ length: run.length }, (_, at) => given(at));
  for (const size of Object.keys(BOXES).map(Number)) {
    const first = size * (size + 1) - 1 - run.length;
    if (first < 0) continue;
    const before = [...run.data.prompt.slice(run.data.prompt.length - first)];
    const fits = (text, place) =>
      place % (size + 1) === size ? text === "\n" : text === null || (/^[1-9]$/.test(text) && Number(text) <= size);
    const whole = [...before, ...response];
    if (whole.length === first + run.length && whole.every(fits)) return { size, before };
  }
  return null;
}

// On which sides a cell has the edge of a box; a line break stands behind the last cell of its line.
function edges(place, size) {
  const [high, wide] = BOXES[size];
  const row = Math.floor(place / (size + 1));
  const column = place % (size + 1);
  if (column === size) return ["break"];
  const sides = { top: row % high === 0, left: column % wide === 0, right: column === size - 1, bottom: row === size - 1 };
  return ["cell", ...Object.keys(sides).filter((side) => sides[side])];
}
