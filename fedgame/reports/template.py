"""The report page's frame, style and script: plain text with no reference to anything outside."""

from __future__ import annotations

from string import Template
from typing import Final

PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="$policy">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$body
</main>
$scripts
</body>
</html>
""")

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""What the browser may load: nothing. It holds the page to its promise of no network request."""

STYLE: Final = """
:root {
  --page: #fdfdfc; --ink: #1d2125; --soft: #565d66; --rule: #d9dadb; --faint: #f2f2f0;
  --link: #0b61a4; --warn: #9a4a00; --warn-bg: #fdf5ea; --bad: #a3231b;
  --sans: -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  --serif: Charter, "Iowan Old Style", "Source Serif 4", Cambria, Georgia, "Liberation Serif",
    serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --ink: #e4e6e8; --soft: #a3abb3; --rule: #353b41; --faint: #1c2024;
    --link: #7cb8ea; --warn: #eab171; --warn-bg: #241d14; --bad: #f0928a;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); font: 1.0625rem/1.6 var(--serif); }
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
p, aside, figcaption { max-width: 44rem; }
h1 { font-size: 2rem; line-height: 1.2; font-weight: 600; margin: .2rem 0 1rem; }
h2 { font-size: 1.3rem; line-height: 1.3; font-weight: 600; margin: 3.25rem 0 .75rem; }
h3 { font-size: 1.0625rem; font-weight: 600; margin: 0 0 .25rem; }
.kicker, .key dt, table, .filter, .list, footer { font-family: var(--sans); }
.kicker { margin: 0; color: var(--soft); font-size: .875rem; }
.lead { font-size: 1.1875rem; line-height: 1.55; margin: 0 0 1rem; }
.failed { color: var(--bad); font-weight: 600; }
aside { margin: 1.75rem 0; padding: .9rem 1.1rem; background: var(--warn-bg);
  border-left: 3px solid var(--warn); }
aside h2 { margin: 0 0 .35rem; font-size: 1.0625rem; color: var(--warn); }
aside ul { margin: 0; padding-left: 1.15rem; }
aside li + li { margin-top: .35rem; }
.key { display: grid; gap: 1.25rem 1.5rem;
  grid-template-columns: repeat(4, 1fr);
  margin: 2rem 0 0; padding: 1.25rem 0; border: solid var(--rule); border-width: 1px 0; }
.key div { display: flex; flex-direction: column; }
.key dt { color: var(--soft); font-size: .8125rem; line-height: 1.35; }
.key dd { margin: 0; }
.key .value { font-size: 1.5rem; line-height: 1.35; font-variant-numeric: lining-nums; }
.key .detail { color: var(--soft); font: .8125rem/1.35 var(--sans); }
.filter { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem .75rem;
  margin: 1.25rem 0 .6rem; font-size: .875rem; }
.filter input { font: inherit; color: inherit; background: var(--page); padding: .35rem .55rem;
  border: 1px solid var(--soft); border-radius: 3px; width: 14rem; max-width: 100%; }
.filter output { color: var(--soft); }
.scroll { overflow: auto; max-height: 38rem; border: solid var(--rule); border-width: 1px 0; }
table { border-collapse: collapse; width: 100%; font-size: .8438rem; line-height: 1.4;
  font-variant-numeric: lining-nums tabular-nums; }
th, td { padding: .4rem .55rem; text-align: right; white-space: nowrap; }
td:first-child { position: sticky; left: 0; background: var(--page); }
thead th:first-child { left: 0; z-index: 1; }
td { border-top: 1px solid var(--rule); }
thead th { position: sticky; top: 0; background: var(--page); box-shadow: inset 0 -1px var(--soft);
  font-weight: 600; vertical-align: bottom; padding: 0; }
th button { font: inherit; color: inherit; background: none; border: 0; cursor: pointer;
  width: 100%; min-width: 3.5rem; padding: .5rem .55rem; text-align: inherit; white-space: normal; }
th button:hover { text-decoration: underline; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
.text { text-align: left; }
.plain th { padding: .5rem .55rem; }
.plain .wrap { white-space: normal; }
.plain small { display: block; color: var(--soft); font-size: .8125rem; }
h3.above { margin: 1.75rem 0 .5rem; }
.strong { font-weight: 600; }
.flag { color: var(--bad); }
tbody tr:hover td { background: var(--faint); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
figure { margin: 2.25rem 0 0; }
figcaption, .basis { color: var(--soft); font-size: .9688rem; line-height: 1.5; margin: 0 0 .5rem; }
figcaption h3 { color: var(--ink); }
.plot { width: 100%; }
.plot .infolayer text, .plot .xtick text, .plot .ytick text, .plot .xaxislayer-above text,
.plot .yaxislayer-above text, .plot .cbaxis text { fill: var(--soft) !important; }
.plot .gridlayer path { stroke: var(--rule) !important; stroke-opacity: 1 !important; }
.list { columns: 22rem; column-gap: 3rem; font-size: .875rem; line-height: 1.45; margin: 0; }
.list div { display: flex; justify-content: space-between; gap: 1rem; break-inside: avoid;
  border-bottom: 1px solid var(--rule); padding: .3rem 0; }
.list dt { color: var(--soft); }
.list dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
code, .list dt, .list dd { font-family: var(--mono); font-size: .8125rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--soft);
  font-size: .8125rem; overflow-wrap: anywhere; }
@media (max-width: 34rem) {
  main { padding-top: 1.75rem; }
  h1 { font-size: 1.6rem; }
  .lead { font-size: 1.0938rem; }
  .key { grid-template-columns: 1fr 1fr; }
}
@media print { .filter { display: none; } .scroll { max-height: none; overflow: visible; } }
"""

SCRIPT: Final = """
(() => {
  "use strict";
  for (const holder of document.querySelectorAll(".plot")) {
    const figure = JSON.parse(document.getElementById(holder.id + "-data").textContent);
    Plotly.newPlot(holder, figure.data, figure.layout, {responsive: true, displayModeBar: false});
  }
  const table = document.getElementById("clients");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const headers = Array.from(table.tHead.rows[0].cells);
  const key = (row, column) => row.cells[column].dataset.sort;
  const sort = (column, descending) => {
    const numeric = !headers[column].classList.contains("text");
    rows.sort((left, right) => {
      const a = key(left, column), b = key(right, column);
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = numeric ? Number(a) - Number(b) : a.localeCompare(b);
      return descending ? -order : order;
    });
    body.append(...rows);
  };
  headers.forEach((header, column) => {
    header.firstElementChild.addEventListener("click", () => {
      const descending = header.getAttribute("aria-sort") === "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(column, descending);
    });
  });
  const box = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const text = rows.map((row) => [row, row.textContent.toLowerCase()]);
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let count = 0;
    for (const [row, content] of text) {
      row.hidden = !words.every((word) => content.includes(word));
      count += row.hidden ? 0 : 1;
    }
    shown.value = count.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " shown";
  });
})();
"""
