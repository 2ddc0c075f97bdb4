"use strict";
// Everything was computed beforehand: moving the slider puts other numbers in their places.
const levels = JSON.parse(document.getElementById("levels").textContent);
const slider = document.getElementById("level");
const shown = document.getElementById("level-shown");
const places = (kind) => {
  const found = new Map();
  for (const element of document.querySelectorAll(`[data-${kind}]`)) found.set(element.dataset[kind], element);
  return found;
};
const texts = places("text");
const marks = places("mark");

function show() {
  const place = Number(slider.value);
  for (const [id, values] of Object.entries(levels.texts)) texts.get(id).textContent = values[place];
  for (const [id, attributes] of Object.entries(levels.marks))
    for (const [name, values] of Object.entries(attributes)) marks.get(id).setAttribute(name, values[place]);
  shown.textContent = levels.said[place];
  slider.setAttribute("aria-valuetext", `level ${levels.levels[place]}`);
}

document.getElementById("level-control").hidden = false;
slider.addEventListener("input", show);
addEventListener("pageshow", show); // a browser may put the slider back where it was
show();

const details = [...document.querySelectorAll("details")];
let open = [];
addEventListener("beforeprint", () => {
  open = details.map((each) => each.open);
  details.forEach((each) => (each.open = true));
});
addEventListener("afterprint", () => details.forEach((each, place) => (each.open = open[place])));
