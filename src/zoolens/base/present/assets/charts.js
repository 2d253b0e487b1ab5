"use strict";
// Draws every chart of the page. Its spec stands behind it as data; `ast` lets vega work without building code from text.
document.querySelectorAll("[data-chart]").forEach(place => {
  const spec = JSON.parse(place.nextElementSibling.textContent);
  vegaEmbed(place, spec, { ast: true, renderer: "svg", actions: false, mode: "vega-lite" });
});
