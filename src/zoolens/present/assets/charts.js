"use strict";
// Draws every chart of the page. The specs are data of the page; `ast` lets vega work without building code from text.
document.querySelectorAll("[data-chart]").forEach(place => {
  const spec = JSON.parse(document.getElementById(place.dataset.chart).textContent);
  vegaEmbed(place, spec, { ast: true, renderer: "svg", actions: false, mode: "vega-lite" });
});
