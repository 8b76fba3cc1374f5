"use strict";
const touched = matchMedia("(pointer: coarse)").matches; // there a finger on a figure scrolls the page
const drawn = [];
for (const source of document.querySelectorAll("script[type='application/json']")) {
  const figure = JSON.parse(source.textContent);
  const place = source.previousElementSibling;
  if (touched) figure.layout.dragmode = false;
  Plotly.newPlot(place, figure.data, figure.layout, { displaylogo: false, displayModeBar: touched ? false : "hover", responsive: true });
  drawn.push(place);
}
for (const moment of ["beforeprint", "afterprint"]) {
  addEventListener(moment, () => drawn.forEach((place) => Plotly.Plots.resize(place)));
}
