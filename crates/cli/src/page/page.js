"use strict";
// Sorts a table by the column whose head is clicked; a second click turns the order round.
for (const head of document.querySelectorAll("table.sortable thead th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column], number = cell.dataset.n;
      return number === undefined ? cell.textContent : Number(number);
    };
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (typeof x === "number" && typeof y === "number") return x - y;
      return String(x).localeCompare(String(y));
    };
    const rows = [...body.rows].sort(compare);
    if (down) rows.reverse();
    body.append(...rows);
  });
}
const tables = document.querySelectorAll("table.sortable");
document.documentElement.dataset.tables = String(tables.length);
document.documentElement.dataset.rows = String([...tables].reduce((sum, table) => sum + table.tBodies[0].rows.length, 0));
