"use strict";
const touched = matchMedia("(pointer: coarse)").matches; // there a finger on a figure scrolls the page
const config = {
  displaylogo: false, displayModeBar: touched ? false : "hover", plotlyServerURL: "", responsive: true, showSendToCloud: false,
};
const drawn = [];

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", () => action(made));
  return made;
}

function unpacked() { // the policy allows a script by its hash, whoever adds it
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (one) => one.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function draw() {
  const plotly = document.createElement("script");
  plotly.textContent = await unpacked();
  document.head.append(plotly);
  for (const place of document.querySelectorAll(".plot")) {
    const figure = JSON.parse(place.nextElementSibling.textContent);
    if (touched) figure.layout.dragmode = false;
    await Plotly.newPlot(place, figure.data, figure.layout, config);
    nameButtons(place);
    place.on("plotly_afterplot", () => nameButtons(place));
    drawn.push(place);
    if (figure.layout.meta.spans || figure.layout.meta.ends) {
      const toggle = button("Show all values", (made) => widen(place, made));
      toggle.setAttribute("aria-label", `Show all values: ${place.ariaLabel}`);
      place.after(toggle);
    }
  }
  linkRows();
}

function nameButtons(place) { // what reads the page aloud tells the buttons of one figure from those of another
  for (const one of place.querySelectorAll(".modebar-btn")) one.setAttribute("aria-label", `${place.ariaLabel}: ${one.dataset.title}`);
}

async function widen(place, made) { // between the span of most values and that of all
  const all = made.textContent === "Show all values";
  const { spans = {}, ends } = place.layout.meta;
  const layout = {};
  for (const [axis, span] of Object.entries(spans)) {
    Object.assign(layout, { [`${axis}.autorange`]: all, [`${axis}.range`]: [...span] });
  }
  if (ends) ends[all ? "all" : "most"].forEach((text, n) => { layout[`annotations[${n}].text`] = text; });
  const visible = place.data.map((trace) => ({ outside: !all, most: !all, all }[trace.meta] ?? true));
  made.textContent = all ? "Show most values" : "Show all values";
  made.setAttribute("aria-label", `${made.textContent}: ${place.ariaLabel}`);
  await Plotly.update(place, { visible }, layout);
}

function linkRows() { // the number of a trial opens its curve
  const place = document.querySelector("#curves .plot");
  if (!place) return;
  const own = place.data.length;
  for (const row of document.querySelectorAll("#trials tbody tr")) {
    const cell = row.cells[1];
    const points = place.data.slice(0, own).flatMap((trace) =>
      trace.x.flatMap((x, n) => (trace.customdata?.[n] === Number(cell.textContent) && trace.y[n] !== null ? [[x, trace.y[n]]] : [])));
    if (!points.length) continue;
    const name = `trial ${cell.textContent}`;
    const opener = button(cell.textContent, async () => {
      if (place.data.length > own) await Plotly.deleteTraces(place, own);
      const line = { color: "#b04fc4", width: 4 };
      await Plotly.addTraces(place, { x: points.map(([x]) => x), y: points.map(([, y]) => y), name, mode: "lines+markers", line });
      document.getElementById("curves").scrollIntoView();
    });
    opener.setAttribute("aria-label", `curve of ${name}`);
    cell.replaceChildren(opener);
  }
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, n) => {
    const text = row.cells[n].textContent;
    return Number.isNaN(parseFloat(text)) ? text : parseFloat(text);
  };
  const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  heads.forEach((head, n) => head.replaceChildren(button(head.textContent, () => {
    const sign = head.ariaSort === "ascending" ? -1 : 1;
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => sign * order(key(a, n), key(b, n))));
    heads.forEach((one) => { one.ariaSort = one !== head ? null : sign > 0 ? "ascending" : "descending"; });
  })));
}

function filterable(table, input) {
  const count = input.parentElement.nextElementSibling;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} trials`;
  });
  input.closest("p").hidden = false;
}

const trials = document.querySelector("#trials table");
sortable(trials);
filterable(trials, document.querySelector("#trials input"));
for (const place of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;
  const copier = button("Copy", async (made) => {
    await navigator.clipboard.writeText(place.dataset.copy);
    made.textContent = "Copied";
  });
  copier.setAttribute("aria-label", `Copy ${place.dataset.copied}`);
  place.append(copier);
}
addEventListener("beforeprint", () => drawn.forEach((place) => { // a drawing shrinks as a whole with the paper
  place.querySelector(".svg-container").style.aspectRatio = place.clientWidth / place.clientHeight;
  for (const svg of place.querySelectorAll(".main-svg")) svg.setAttribute("viewBox", `0 0 ${place.clientWidth} ${place.clientHeight}`);
}));
addEventListener("afterprint", () => drawn.forEach((place) => {
  for (const svg of place.querySelectorAll(".main-svg")) svg.removeAttribute("viewBox");
}));
draw();
